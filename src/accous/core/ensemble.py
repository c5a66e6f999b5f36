"""The ensemble of a round: geometric cover, Adapt-ML-Prod, the paper's rounds and their compiled twin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.kernels_learners import run_learners
from accous.core.kernels_rows import (
    BLOCK,
    covary_scores,
    evaluate_ratios,
    evaluate_row_ratios_at_each,
    sum_gradients,
    to_blocks,
)
from accous.core.learners import DiagonalStack, NewtonStack, WideStack, project_onto_ball
from accous.core.losses import Logistic, Loss

# --- The geometric cover: which intervals are active, which start, how many there are (Appendix, eq. for C)


def active_lengths(round_number: int, min_interval: int) -> IntArray:
    """Return the lengths of the intervals active in a round, ascending; the array is shared and read-only.

    Examples
    --------
    >>> from accous.core.ensemble import active_lengths
    >>> active_lengths(20, min_interval=4)
    array([ 4,  8, 16])
    """
    return _doubling(min_interval, max(0, round_number.bit_length() - min_interval.bit_length() + 1))


@cache
def _doubling(first: int, n_lengths: int) -> IntArray:
    lengths = first << np.arange(n_lengths, dtype=np.int64)
    lengths.setflags(write=False)
    return lengths


def count_starting(round_number: int, min_interval: int) -> int:
    """Count the intervals that start in a round.

    These are the shortest ones: a length starts when it divides the round number.
    """
    largest_dividing_power = round_number & -round_number
    return max(0, largest_dividing_power.bit_length() - min_interval.bit_length() + 1)


@cache
def count_intervals(horizon: int, min_interval: int) -> int:
    """Return K: the number of intervals of the cover that start up to the horizon, but at least 2."""
    total = 0
    length = min_interval
    while length <= horizon:
        total += horizon // length
        length *= 2
    return max(2, total)


def intervals_for_round(round_number: int, horizon: int | None, min_interval: int) -> int:
    """Return K for the learners of a round.

    With a horizon, K is constant. Without one, K counts up to the last round of the current power of two. Every learner
    restarts at a power of two, so K never changes during the life of a learner.
    """
    return _intervals_of(round_number.bit_length(), horizon, min_interval)


@cache
def log_intervals(n_bits: int, horizon: int | None, min_interval: int) -> float:
    """Return ln K for the rounds whose number has ``n_bits`` binary digits; K is the same for all of them."""
    return math.log(_intervals_of(n_bits, horizon, min_interval))


def _intervals_of(n_bits: int, horizon: int | None, min_interval: int) -> int:
    # Departs from the paper: its K needs the horizon, which a production stream does not have.
    last_round = (1 << n_bits) - 1 if horizon is None else horizon
    return count_intervals(last_round, min_interval)


# --- The meta-learner, Adapt-ML-Prod, in log space (Algorithm 2)


_SMALLEST_FACTOR = 1e-300


class MetaRecord(Protocol):
    """What a meta-learner knows of each learner, in the order of the learners, the youngest first."""

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""

    def after(self, younger: Any) -> Self:
        """Return ``younger`` followed by these learners."""


class MetaLearner(Protocol):
    """How the learners of a round are weighted by how well they did.

    A meta-learner of your own has these three methods and a record of its own; `choose_rounds` takes
    it.
    """

    def start(self, n_learners: int, n_intervals: int) -> MetaRecord:
        """Return the record of new learners; ``n_intervals`` is K."""

    def step(self, meta: Any, margins: FloatArray, n_intervals: int) -> MetaRecord:
        """Return the record after one round's margins, which lie in [-2, 2]."""

    def weights(self, meta: Any) -> FloatArray:
        """Return the weights of the learners, summing to 1."""


@dataclass(frozen=True, slots=True)
class MetaState:
    """The state of Adapt-ML-Prod for each learner.

    Attributes
    ----------
    log_potentials : array of shape (n_learners,)
        log v.
    rates : array of shape (n_learners,)
        epsilon.
    squares : array of shape (n_learners,)
        Sum of the squared margins since the learner started.
    """

    log_potentials: FloatArray
    rates: FloatArray
    squares: FloatArray

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three arrays, in the order of the constructor."""
        return self.log_potentials, self.rates, self.squares

    def since(self, first: int) -> MetaState:
        """Return the learners from position ``first`` on."""
        return MetaState(self.log_potentials[first:], self.rates[first:], self.squares[first:])

    def after(self, younger: MetaState) -> MetaState:
        """Return ``younger`` followed by these learners."""
        return MetaState(
            np.concatenate((younger.log_potentials, self.log_potentials)),
            np.concatenate((younger.rates, self.rates)),
            np.concatenate((younger.squares, self.squares)),
        )


@dataclass(frozen=True, slots=True)
class AdaptMLProd:
    """The paper's meta-learner."""

    def start(self, n_learners: int, n_intervals: int) -> MetaState:
        """Return new learners with v = 1/K, epsilon = min(1/2, sqrt(ln K))."""
        log_count = math.log(n_intervals)
        return MetaState(
            log_potentials=np.full(n_learners, -log_count),
            rates=np.full(n_learners, min(0.5, math.sqrt(log_count))),
            squares=np.zeros(n_learners),
        )

    def step(self, meta: MetaState, margins: FloatArray, n_intervals: int) -> MetaState:
        """Update potentials and rates by one round's margins, which must lie in [-2, 2]."""
        squares = meta.squares + margins * margins
        rates = np.minimum(0.5, np.sqrt(math.log(n_intervals) / (1.0 + squares)))
        # A margin of -2 at rate 1/2 makes the factor 0: the floor keeps log v finite, the learner can still recover.
        # Departs from the paper: it keeps v itself, which under- and overflows on long streams.
        gains = np.log(np.maximum(1.0 + meta.rates * margins, _SMALLEST_FACTOR))
        log_potentials = (rates / meta.rates) * (meta.log_potentials + gains)
        return MetaState(log_potentials, rates, squares)

    def weights(self, meta: MetaState) -> FloatArray:
        """Weights p of the learners, summing to 1."""
        logits = np.log(meta.rates) + meta.log_potentials
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())


ADAPT_ML_PROD = AdaptMLProd()


# --- The reference as a round reads it: gradients and ratios of all its rows, computed by matrix products


class Reference(Protocol):
    """Features of the reference rows, and what a round computes from them."""

    @property
    def is_free_of_blas(self) -> bool:
        """Whether the bits of a round are independent of the number of BLAS threads."""

    @property
    def shares_passes(self) -> bool:
        """Whether one pass over the rows gives both the ratios of a round and the gradients of the next."""

    @property
    def features(self) -> FloatArray:
        """The rows, (n_reference, d)."""

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Return the gradients of the loss at each row of ``coefs`` and, after them, at ``coef``."""

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio of each reference row, clipped at ``max_ratio``."""

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio of each row of a batch, clipped at ``max_ratio``."""

    def batch_ratios_at_each(
        self, coef: FloatArray, coefs: FloatArray, batch: FloatArray, max_ratio: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same, and the ratios at several other thetas, (n_coefs, n_batch)."""

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """Return the covariance over the reference rows of each feature with the score."""


@dataclass(frozen=True)
class MatrixReference:
    """Any loss and any width: matrix products in the precision of the features.

    Attributes
    ----------
    features : array of shape (n_reference, d)
        In double or single precision; sums over rows always use double precision.
    loss : Loss
    """

    features: FloatArray
    loss: Loss

    is_free_of_blas: ClassVar[bool] = False
    shares_passes: ClassVar[bool] = True

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        return self.loss.gradient(np.concatenate((coefs, coef[None])), self.features, batch)

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef.astype(self.features.dtype, copy=False)
        return self.loss.ratio(scores.astype(np.float64, copy=False), max_ratio)

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        # einsum computes small products without BLAS, so the bits do not depend on the number of cores.
        return self.loss.ratio(np.einsum("nd,d->n", batch, coef), max_ratio)

    def batch_ratios_at_each(
        self, coef: FloatArray, coefs: FloatArray, batch: FloatArray, max_ratio: float
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Reference`."""
        others = self.loss.ratio(np.einsum("kd,nd->kn", coefs, batch), max_ratio)
        return self.batch_ratios(coef, batch, max_ratio), np.ascontiguousarray(others)

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef
        return np.asarray((scores - scores.mean()) @ self.features / len(scores))


# --- One round of the whole ensemble (Algorithm 2): gradients, Newton steps, meta weights, next round's
#     learners


SMALLEST_RELATIVE_RANGE = 1e-12
"""If the largest margin is below this share of the paper's bound, it is only rounding error."""


class LearnerStack(Protocol):
    """The interface of a stack of learners."""

    @property
    def coefs(self) -> FloatArray:
        """Theta of each learner, (n_learners, d)."""

    def __len__(self) -> int:
        """Return the number of learners."""

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""

    def after(self, younger: Any) -> Self:
        """Return a stack of ``younger`` followed by these learners."""

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> Self:
        """Make one Newton step for every learner; ``gradients`` has one row per learner."""


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings:
    """Settings that stay the same in all rounds.

    Attributes
    ----------
    loss : Loss
    neutral : array of shape (d,)
        The theta whose ratio is 1 everywhere.
    radius : float
        S.
    margin_bound : float
        Divisor of the margins in the paper; see ``Loss.margin_bound``.
    has_running_range : bool
        Whether to divide margins by the largest margin seen so far instead.
    ridge : float
        lambda.
    min_interval : int
        Length of the shortest interval, a power of two.
    horizon : int or None
        T, if known.
    start : {"zero", "ensemble", "handover"}
        Where a new learner starts: at the neutral theta ("zero") or at the ensemble's theta ("ensemble"). "handover" is
        "zero", except when all learners restart together, at every power of two: then it is "ensemble".
    metric : {"full", "diagonal", "low_rank"}
        What learners keep of their matrix.
    rank : int or None
        k, for "low_rank".
    """

    loss: Loss
    neutral: FloatArray
    radius: float
    margin_bound: float
    has_running_range: bool
    ridge: float
    min_interval: int
    horizon: int | None
    start: str
    metric: str = "full"
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleState:
    """The state after ``n_rounds`` rounds; all values are those for the next round.

    ``cache`` holds values computed from the other fields and is not part of the state.
    """

    n_rounds: int
    coef: FloatArray
    lengths: IntArray
    weights: FloatArray
    learners: LearnerStack
    meta: MetaRecord
    largest_margin: float
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


class PaperRounds:
    """Rounds of the ensemble in plain numpy, for any loss and any kind of learners.

    Parameters
    ----------
    settings : EnsembleSettings
    reference : Reference
        Features phi of the reference rows.
    start_learners : callable
        Takes a number of learners and a theta, and returns fresh learners there.
    meta_learner : MetaLearner, optional
        How the learners are weighted. Adapt-ML-Prod by default.
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        reference: Reference,
        start_learners: Callable[[int, FloatArray], LearnerStack],
        meta_learner: MetaLearner = ADAPT_ML_PROD,
    ) -> None:
        self.settings, self.reference = settings, reference
        self._start_learners, self._meta_learner = start_learners, meta_learner

    def start(self) -> EnsembleState:
        """Return the state before the first round: the neutral theta and no learner."""
        neutral = self.settings.neutral
        return EnsembleState(
            n_rounds=0,
            coef=neutral,
            lengths=np.empty(0, dtype=np.int64),
            weights=np.empty(0),
            learners=self._start_learners(0, neutral),
            meta=self._meta_learner.start(0, 2),
            largest_margin=0.0,
        )

    def run(self, state: EnsembleState, batch: FloatArray, step_size: float) -> EnsembleState:
        """Learn from one batch and return the state for the next round; ``state`` is not changed.

        Parameters
        ----------
        state : EnsembleState
        batch : array of shape (n_batch, d)
            Features of the batch, at least one row.
        step_size : float
            gamma of this round.
        """
        if state.n_rounds == 0:
            # Only an interval of length 1 starts in round 1; the state before that round has no learner.
            state = self._open_round(state)
        if len(state.lengths) == 0:
            return self._open_round(replace(state, n_rounds=state.n_rounds + 1, cache={}))
        return self._open_round(self._move(state, self._gradients(state, batch), step_size))

    def reference_ratios(self, state: EnsembleState, max_ratio: float) -> FloatArray:
        """Return the ratio of each reference row at the ensemble's theta, clipped at ``max_ratio``."""
        if not self.reference.shares_passes or len(state.learners) == 0:
            return self.reference.ratios(state.coef, max_ratio)
        # The next round needs gradients at the same points, and they do not depend on its batch: one pass does both.
        return self.settings.loss.ratio(self._pass_over(state)[1], max_ratio)

    def _gradients(self, state: EnsembleState, batch: FloatArray) -> FloatArray:
        """Return the gradient at the theta of every learner and, last, of the ensemble."""
        if not self.reference.shares_passes:
            return self.reference.gradients(state.learners.coefs, state.coef, batch)
        of_reference, _ = self._pass_over(state)
        return of_reference + self.settings.loss.batch_gradient(_points(state), batch)

    def _pass_over(self, state: EnsembleState) -> tuple[FloatArray, FloatArray]:
        """Return the reference part of the gradients at all points, and the ensemble's scores of the reference."""
        known = state.cache.get("pass")
        if known is None or known[0] is not self.reference.features:
            features = self.reference.features
            known = (features, *self.settings.loss.reference_gradient(_points(state), features))
            state.cache["pass"] = known
        return known[1], known[2]

    def _move(self, state: EnsembleState, gradients: FloatArray, step_size: float) -> EnsembleState:
        """Make the Newton steps and the meta update; the lengths are still those of the previous round."""
        settings, n_learners = self.settings, len(state.learners)
        learners = state.learners.step(gradients[:n_learners], step_size, settings.radius)
        raw_margins = (state.coef - state.learners.coefs) @ gradients[n_learners]
        margins, largest_margin = _scale_margins(raw_margins, settings, state.largest_margin)
        meta = self._meta_learner.step(state.meta, margins, self._n_intervals(state.n_rounds + 1))
        weights = self._meta_learner.weights(meta)
        return EnsembleState(
            n_rounds=state.n_rounds + 1,
            coef=weights @ learners.coefs,
            lengths=state.lengths,
            weights=weights,
            learners=learners,
            meta=meta,
            largest_margin=largest_margin,
        )

    def _open_round(self, state: EnsembleState) -> EnsembleState:
        """Close the intervals that end after ``state.n_rounds`` rounds, open those that start, and combine."""
        next_round = state.n_rounds + 1
        if next_round % self.settings.min_interval:
            return state
        n_starting = count_starting(next_round, self.settings.min_interval)
        lengths = active_lengths(next_round, self.settings.min_interval)
        # The lengths that start are the shortest. Except for a new length, they also end at the same time.
        n_ended = n_starting - (len(lengths) - len(state.learners))
        start = _starting_point(self.settings, state, n_ended)
        learners = state.learners.since(n_ended).after(self._start_learners(n_starting, start))
        fresh = self._meta_learner.start(n_starting, self._n_intervals(state.n_rounds + 1))
        meta = state.meta.since(n_ended).after(fresh)
        weights = self._meta_learner.weights(meta)
        return EnsembleState(
            n_rounds=state.n_rounds,
            coef=weights @ learners.coefs,
            lengths=lengths,
            weights=weights,
            learners=learners,
            meta=meta,
            largest_margin=state.largest_margin,
        )

    def _n_intervals(self, this_round: int) -> int:
        return intervals_for_round(this_round, self.settings.horizon, self.settings.min_interval)


def _points(state: EnsembleState) -> FloatArray:
    """Return the theta of every learner and, last, of the ensemble."""
    return np.concatenate((state.learners.coefs, state.coef[None]))


def _scale_margins(margins: FloatArray, settings: EnsembleSettings, largest_margin: float) -> tuple[FloatArray, float]:
    """Divide the margins by their range; also return the largest margin seen so far."""
    largest_margin = max(largest_margin, float(np.abs(margins).max()))
    if not settings.has_running_range:
        return np.clip(margins / settings.margin_bound, -2.0, 2.0), largest_margin
    if largest_margin <= SMALLEST_RELATIVE_RANGE * settings.margin_bound:
        # Learners that started together are still equal: their differences are rounding errors, not margins.
        return np.zeros_like(margins), largest_margin
    # Departs from the paper: S R is much larger than the actual margins, so the weights would hardly move.
    return margins / largest_margin, largest_margin


def _starting_point(settings: EnsembleSettings, state: EnsembleState, n_ended: int) -> FloatArray:
    """Return the theta of new learners; the ensemble's theta is that after the step and includes ended learners."""
    # Departs from the paper: it allows any point. Learners that start at the neutral point differ from older learners.
    # But when no older learner is left, the neutral point would reset the estimate to ratio 1 for one round.
    n_learners = len(state.learners)
    is_handover = settings.start == "handover" and n_ended == n_learners
    return state.coef if n_learners and (settings.start == "ensemble" or is_handover) else settings.neutral


# --- One compiled round of the whole ensemble on few columns: the reference it reads, the learners, their next
#     state


MANY_ROWS = 32
"""From so many rows on, those of a batch are summed in blocks."""
_THREADED_COLUMNS = 64
MOST_LEARNERS = 64
"""At once: one for each binary digit of the round."""
_FIRST = np.zeros(1, dtype=np.int64)


class LearnerKernel:
    """Runs the learners of models in one compiled loop: what it needs beside their arrays.

    Parameters
    ----------
    settings : EnsembleSettings
    """

    def __init__(self, settings: EnsembleSettings) -> None:
        self._radius = settings.radius
        # ln K, by the number of binary digits of the round.
        self.log_counts = np.array(
            [log_intervals(bits, settings.horizon, settings.min_interval) for bits in range(MOST_LEARNERS)]
        )
        self._numbers = (
            settings.radius,
            settings.margin_bound,
            settings.has_running_range,
            SMALLEST_RELATIVE_RANGE * settings.margin_bound,
            self.log_counts,
            settings.ridge,
            settings.min_interval,
            settings.start == "ensemble",
            settings.start == "handover",
            settings.neutral,
        )

    def run(
        self,
        kernel: Any,
        active: IntArray,
        gradients: FloatArray,
        arrays: tuple[Any, ...],
        step_sizes: FloatArray,
        room: tuple[Any, ...] | None = None,
    ) -> None:
        """Make the steps of the learners of the active models, and open the next round, in place.

        Parameters
        ----------
        kernel : Kernel
            ``run_learners`` in the precision of the arrays.
        active : array of shape (n_active,)
        gradients : array of shape (n_active, most_learners + 1, d)
        arrays : tuple of arrays
            Rounds, learners and largest margin of each model; thetas, matrices, roots and triangles of its learners;
            their potentials and squares; and the ensemble's theta. Each may be larger than what is in use.
        step_sizes : array of shape (n_active,)
        room : tuple of arrays, optional
            What ``make_room`` returns for these arrays; it can be used again.
        """
        room = self.make_room(arrays) if room is None else room
        if not kernel(active, gradients, *arrays, step_sizes, *self._numbers, False, *room):
            return
        marks = room[-1]
        marked = np.flatnonzero(marks)
        for model in marked.tolist():
            coefs, matrices, _, triangles = arrays[3:7]
            of_model = (triangles if matrices is None else matrices)[model]
            project_marked(int(marks[model]), coefs[model], of_model, self._radius)
        marks[:] = 0
        kernel(marked, gradients, *arrays, step_sizes, *self._numbers, True, *room)

    @staticmethod
    def make_room(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return workspace for a call with arrays of these shapes; the last array marks no model."""
        d, most = arrays[-1].shape[1], arrays[3].shape[1]
        return np.empty((d + 3, d)), np.empty((d, d)), np.empty(d), np.empty(most), np.zeros(len(arrays[0]), np.int64)


def project_marked(marks: int, coefs: Any, matrices: Any, radius: float) -> None:
    """Bring learners back into the ball whose matrix is too badly conditioned for the compiled projection."""
    d = coefs.shape[1]
    for learner in (i for i in range(marks.bit_length()) if marks >> i & 1):
        matrix = np.empty((1, d, d))
        if matrices.ndim == 2:
            rows, columns = np.tril_indices(d)
            matrix[0, rows, columns] = matrix[0, columns, rows] = matrices[learner]
        else:
            matrix[0] = matrices[learner]
        # A state that somebody else wrote may hold a matrix that is not positive; its theta is then no number.
        with np.errstate(all="ignore"):
            coefs[learner] = project_onto_ball(coefs[learner].astype(np.float64)[None], matrix, radius)[0][0]


class CompiledRounds(PaperRounds):
    """Rounds of learners that keep dense matrices of few columns; the results are those of `PaperRounds`."""

    def __init__(
        self,
        settings: EnsembleSettings,
        reference: Reference,
        start_learners: Callable[[int, FloatArray], LearnerStack],
    ) -> None:
        super().__init__(settings, reference, start_learners)
        self._kernel = LearnerKernel(settings)

    def run(self, state: EnsembleState, batch: FloatArray, step_size: float) -> EnsembleState:
        """See ``PaperRounds``."""
        if len(state.lengths) == 0:
            return super().run(state, batch, step_size)
        gradients = self._gradients(state, batch)
        arrays = learner_arrays(state, self.settings.min_interval)
        self._kernel.run(run_learners, _FIRST, gradients[None], arrays, np.array([step_size]))
        return state_of_arrays(arrays, 0, self.settings)

    def open_first(self, state: EnsembleState) -> EnsembleState:
        """Return the state before the first round with the learners of that round: an interval of length 1, or none."""
        return self._open_round(state)


def learner_arrays(state: EnsembleState, min_interval: int) -> tuple[Any, ...]:
    """Return a state as arrays of one model, with room for the learners of the next round."""
    learners, meta = state.learners, state.meta
    assert isinstance(learners, NewtonStack)
    assert isinstance(meta, MetaState)
    n, d = learners.coefs.shape
    most = max(n, len(active_lengths(state.n_rounds + 2, min_interval)))
    parts = (*learners.arrays, meta.log_potentials, meta.squares)
    shapes = (most, d), (most, d, d), (most, d, d), (most,), (most,)
    copies = [np.zeros((1, *shape)) for shape in shapes]
    for copied, part in zip(copies, parts, strict=True):
        copied[0, :n] = part
    numbers = np.array([float(state.n_rounds)]), np.array([n]), np.array([state.largest_margin])
    return (*numbers, *copies[:3], None, *copies[3:], state.coef[None].copy())


def state_of_arrays(arrays: tuple[Any, ...], model: int, settings: EnsembleSettings) -> EnsembleState:
    """Return a model as the state of an ensemble, of views."""
    counts, stack, others = arrays[:3], arrays[3:6], arrays[7:]
    n_rounds, n, margin = (each[model].item() for each in counts)
    n_rounds, (coefs, matrices, roots) = int(n_rounds), (each[model] for each in stack)
    log_potentials, squares, coef = (each[model] for each in others)
    log_count = log_intervals((n_rounds + 1).bit_length(), settings.horizon, settings.min_interval)
    rates = np.minimum(0.5, np.sqrt(log_count / (1.0 + squares[:n])))
    meta = MetaState(log_potentials[:n], rates, squares[:n])
    return EnsembleState(
        n_rounds=n_rounds,
        coef=coef,
        lengths=active_lengths(n_rounds + 1, settings.min_interval),
        weights=ADAPT_ML_PROD.weights(meta) if n else np.empty(0),
        learners=CompiledStack(coefs[:n], matrices[:n], roots[:n]),
        meta=meta,
        largest_margin=margin,
    )


@dataclass(frozen=True)
class NarrowReference:
    """The logistic loss on few columns: one compiled pass over the rows for all thetas.

    Attributes
    ----------
    features : array of shape (n_reference, d)
    blocks : array of shape (n_blocks, d, BLOCK)
        The same, as the kernels read them.
    """

    features: FloatArray
    blocks: FloatArray

    shares_passes: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the blocks anew, where the kernels read them fastest."""
        return make_narrow_reference, (self.features,)

    @property
    def is_free_of_blas(self) -> bool:
        """Whether there are so few columns that LAPACK, which badly conditioned matrices need, uses no threads."""
        return self.features.shape[1] < _THREADED_COLUMNS

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See ``Reference``."""
        n_reference, n_batch = self.features.shape[0], batch.shape[0]
        # With a small reference, sum the batch in the same way: if both are equal, so are their terms.
        has_few = n_batch < MANY_ROWS <= n_reference
        rows = np.ascontiguousarray(batch if has_few else batch[:0])
        gradients, sums = np.empty((2, coefs.shape[0] + 1, coefs.shape[1]))
        room = np.empty((max(2, self.blocks.shape[0]), BLOCK))
        sum_gradients(self.blocks, rows, coefs, coef, -0.5 / n_reference, 0.5 / n_batch, sums, room, gradients)
        return gradients if has_few else gradients + self._batch_gradients(coefs, coef, batch)

    @staticmethod
    def _batch_gradients(coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Sum over a large batch, block by block: a batch row x has the term of a reference row -x."""
        blocks, gradients = to_blocks(-batch), np.empty((coefs.shape[0] + 1, coefs.shape[1]))
        room = np.empty(gradients.shape), np.empty((max(2, blocks.shape[0]), BLOCK))
        sum_gradients(blocks, batch[:0], coefs, coef, -0.5 / batch.shape[0], 0.0, *room, gradients)
        return gradients

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        ratios = np.empty((self.blocks.shape[0], BLOCK))
        evaluate_ratios(self.blocks, coef, max_ratio, ratios)
        return ratios.reshape(-1)[: self.features.shape[0]]

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        return self._ratios_of_rows(coef[None], batch, max_ratio)[0]

    def batch_ratios_at_each(
        self, coef: FloatArray, coefs: FloatArray, batch: FloatArray, max_ratio: float
    ) -> tuple[FloatArray, FloatArray]:
        """See ``Reference``."""
        return self.batch_ratios(coef, batch, max_ratio), self._ratios_of_rows(coefs, batch, max_ratio)

    @staticmethod
    def _ratios_of_rows(coefs: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        ratios = np.empty((len(coefs), len(batch)))
        evaluate_row_ratios_at_each(np.ascontiguousarray(batch), np.ascontiguousarray(coefs), max_ratio, ratios)
        return ratios

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See ``Reference``."""
        covariances = np.empty(self.features.shape[1])
        room = np.empty((self.blocks.shape[0], BLOCK))
        covary_scores(self.blocks, coef, self.features.shape[0], room, covariances)
        return covariances


def make_narrow_reference(features: FloatArray) -> NarrowReference:
    """Arrange features in blocks."""
    return NarrowReference(features, to_blocks(features))


class CompiledStack(NewtonStack):
    """The same learners as `NewtonStack`, with a compiled step."""

    __slots__ = ()

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> Self:
        """Make one Newton step of learners that no meta-learner looks at; see ``NewtonStack.step``."""
        n, d = self.coefs.shape
        settings = EnsembleSettings(
            loss=Logistic(),
            neutral=np.zeros(d),
            radius=radius,
            margin_bound=np.inf,
            has_running_range=False,
            ridge=1.0,
            min_interval=1 << 40,  # none starts
            horizon=None,
            start="zero",
        )
        stack = tuple(each[None].copy() for each in self.arrays)
        numbers, meta = (
            (np.zeros(1), np.array([n]), np.zeros(1)),
            (np.zeros((1, n)), np.zeros((1, n)), np.zeros((1, d))),
        )
        arrays = (*numbers, *stack, None, *meta)
        of_all = np.concatenate((gradients, np.zeros((1, d))))[None]
        LearnerKernel(settings).run(run_learners, _FIRST, of_all, arrays, np.array([step_size]))
        return type(self)(*(each[0] for each in stack))


# --- Decides which code handles a given number of columns; no other module makes this decision


MAX_NARROW_COLUMNS = 95
"""Largest number of columns for which a round runs in compiled loops.

Microseconds of a round of the ratio with 1,000 reference rows, compiled / dense / wide (best of 300, one core):
160 / 426 / 426 with 32 features, 305 / 515 / 486 with 64, 440 / 665 / 593 with 95; with 10,000 rows and 95 features
2863 / 4275 / 3392. The dense code is what losses other than the logistic one use here. A compiled refit takes 45 where
numpy takes 700 with 13 columns, 1025 where it takes 4830 with 96.
"""

WIDE_FROM = 96
"""Features from which on learners keep roots and gradients (``core/learners.py``) instead of dense matrices.

With 512 features, dense matrices cost ten times as much.
"""

MAX_NEWTON_COEFS = 100
"""Largest number of coefficients for which every round refits the regression to the optimum by Newton's method.

With more, it descends (``core/regression.py``), which is many times faster and stops near the optimum.
"""


def is_narrow(n_columns: int) -> bool:
    """Whether the compiled loops are faster than matrix products."""
    return n_columns <= MAX_NARROW_COLUMNS


def is_wide(n_columns: int) -> bool:
    """Whether matrices with this many rows and columns are too large for a round."""
    return n_columns >= WIDE_FROM


# --- Chooses between the plain and the compiled implementation of a round; no other module makes this choice


FULL, DIAGONAL, LOW_RANK = "full", "diagonal", "low_rank"
"""What a learner keeps of its matrix: the whole matrix, its diagonal, or a ridge and a few directions."""

AnyStack = CompiledStack | DiagonalStack | WideStack
"""Every kind of stack that ``start_learners`` returns; `accous.arrays.from_plain` tells them apart."""


def choose_rounds(
    settings: EnsembleSettings, reference: Reference, meta_learner: MetaLearner = ADAPT_ML_PROD
) -> PaperRounds:
    """Choose how the rounds of an ensemble on this reference are run; done once, by ``fit``.

    Only the paper's meta-learner has a compiled twin; any other is run in plain numpy.
    """
    start = partial(start_learners, ridge=settings.ridge, metric=settings.metric, rank=settings.rank)
    if isinstance(meta_learner, AdaptMLProd) and settings.metric == FULL and is_narrow(len(settings.neutral)):
        return CompiledRounds(settings, reference, start)
    return PaperRounds(settings, reference, start, meta_learner)


def prepare_reference(features: FloatArray, loss: Loss, *, is_single: bool = False) -> Reference:
    """Choose the code that reads this reference; only matrix products can use single precision."""
    if is_narrow(features.shape[1]) and isinstance(loss, Logistic):
        return make_narrow_reference(features)
    return MatrixReference(features.astype(np.float32) if is_single else features, loss)


def start_learners(
    n_learners: int, coef: FloatArray, ridge: float, metric: str = FULL, rank: int | None = None
) -> LearnerStack:
    """Return ``n_learners`` fresh learners at theta = ``coef`` with A = ``ridge`` I; low rank needs a ``rank``."""
    # Departs from the paper: it always keeps the whole matrix, but d^2 numbers per learner are too many for wide rows.
    if metric == DIAGONAL:
        return DiagonalStack.start(n_learners, coef, ridge)
    if metric == LOW_RANK:
        assert rank is not None
        return WideStack.start_sketched(n_learners, coef, ridge, rank)
    kind: Any = CompiledStack if is_narrow(len(coef)) else WideStack
    stack: LearnerStack = kind.start(n_learners, coef, ridge)
    return stack
