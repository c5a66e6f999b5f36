"""One round of the whole ensemble (Algorithm 2): gradients, Newton steps, meta weights, next round's learners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.paper.cover import active_lengths, count_starting, intervals_for_round
from accous.core.paper.losses import Loss
from accous.core.paper.meta import ADAPT_ML_PROD, MetaLearner, MetaRecord
from accous.core.paper.reference import Reference

__all__ = ["SMALLEST_RELATIVE_RANGE", "EnsembleSettings", "EnsembleState", "LearnerStack", "PaperRounds"]

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

    def play(self, state: EnsembleState, batch: FloatArray, step_size: float) -> EnsembleState:
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
        if n_ended == n_starting:
            return self._restart(state, n_starting, start, lengths)
        return self._replace(state, n_ended, n_starting, start, lengths)

    def _restart(self, state: EnsembleState, n_starting: int, start: FloatArray, lengths: IntArray) -> EnsembleState:
        """Replace the learners whose intervals end; the lengths stay the same."""
        return self._replace(state, n_starting, n_starting, start, lengths)

    def _replace(
        self, state: EnsembleState, n_ended: int, n_starting: int, start: FloatArray, lengths: IntArray
    ) -> EnsembleState:
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
