"""The pool: candidate ratios mixed by Bayes' rule, the memory of regimes, the check of their support."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from accous.arrays import BoolArray, FloatArray, IntArray, to_plain
from accous.core.compiled import shared
from accous.core.ensemble import Reference
from accous.core.kernels_pool import filter_batches, measure_look, pool_reference, pool_rows

# --- Shapes of a ratio: powers of it, cut at several heights


EXPONENTS = (0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0)
N_SHAPES = len(EXPONENTS)
UNCUT = 1e30
"""Shapes cut a ratio themselves; they take it up to this value."""
_CUTS = (3.0, 10.0, 30.0)


def shape_cuts(max_ratio: float) -> FloatArray:
    """Return where each shape is cut, given the largest ratio allowed.

    Examples
    --------
    >>> from accous.core.pool import shape_cuts
    >>> shape_cuts(20.0).tolist()
    [1.0, 20.0, 20.0, 3.0, 10.0, 20.0, 3.0, 10.0, 20.0, 3.0, 10.0, 20.0]
    """
    return np.minimum((1.0, max_ratio, max_ratio, *_CUTS * 3), max_ratio)


def shape_values(ratios: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return all shapes of some ratios, (n_rows, n_shapes), not divided by their means."""
    with np.errstate(over="ignore"):
        return np.minimum(ratios[:, None] ** np.array(EXPONENTS), cuts)


def mixed_shapes(ratios: FloatArray, cuts: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a mixture of the shapes of the reference's ratios, and the mean of each shape.

    Parameters
    ----------
    ratios : array of shape (n_reference,)
    cuts, shares : arrays of shape (n_shapes,)
    """
    means, mixed = np.empty(N_SHAPES), np.empty(len(ratios))
    pool_reference(ratios, cuts, shares, np.empty((0, len(ratios))), means, mixed)
    return mixed, means


# --- Filters over the candidates of a pool: Bayes' rule for candidates that switch, and for mixtures of them


SWITCHING = 1.0 / np.array((32.0, 128.0, 512.0))
DECAYS = 0.5 ** (1.0 / np.array((16.0, 64.0)))
FLOOR = 0.01
FILTER_SHARE = 0.005
PRIOR_COUNT = 1.0
_PRIOR_OF_ONE = 0.5
_FIRST = np.zeros(1, dtype=np.int64)
N_CAUTIOUS = 3
"""Candidates of the cautious filters: 1, the square root of the ratio, and the ratio."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The state of all filters.

    Attributes
    ----------
    weights : array of shape (5,)
        Share of each filter, switching ones first.
    posteriors : array of shape (3, n_candidates)
        What each switching filter predicts.
    counts : array of shape (2, n_candidates)
        Responsibilities that each decayed filter has counted.
    proportions : array of shape (n_candidates,)
        What all of them together predict for the next round.
    """

    weights: FloatArray
    posteriors: FloatArray
    counts: FloatArray
    proportions: FloatArray

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """All of them."""
        return self.weights, self.posteriors, self.counts, self.proportions

    def after_batch(
        self,
        prior: FloatArray,
        ratios: FloatArray,
        shapes: tuple[FloatArray, FloatArray],
        slots: tuple[FloatArray, FloatArray],
        given: FloatArray,
    ) -> tuple[Self, float]:
        """Return the filters after a batch, and its mean log likelihood under their prediction before it.

        Parameters
        ----------
        prior : array of shape (n_candidates,)
        ratios : array of shape (n_batch,)
            The ratio whose shapes are candidates.
        shapes : tuple of arrays of shape (n_shapes,)
            Where each shape is cut, and its mean over the reference.
        slots : tuple of arrays
            Ratios at the theta of each slot, (n_slots, n_batch), and what the slot multiplies the shapes by.
        given : array of shape (n_given, n_batch)
            Ratios of the given candidates.
        """
        n_all, n_filters = len(prior), len(self.weights)
        together = (self.weights, self.posteriors, self.counts, self.proportions, shapes[1])
        ends = np.cumsum([each.size for each in together])
        parts, log_likelihood = np.concatenate([each.ravel() for each in together]), np.zeros(1)
        filter_batches(
            _FIRST,
            np.array([0, len(ratios)]),
            ratios,
            slots[0],
            given,
            shapes[0],
            slots[1][None],
            prior[None],
            prior,
            parts[None],
            np.append(0, ends[:-1])[None],
            *(SWITCHING, DECAYS, FLOOR, FILTER_SHARE, PRIOR_COUNT),
            np.empty((len(ratios), n_all)),
            np.empty(n_all),
            np.empty(n_filters),
            log_likelihood,
        )
        after = zip(np.split(parts, ends[:-1]), together[:4], strict=False)
        return type(self)(*(part.reshape(before.shape) for part, before in after)), float(log_likelihood[0])

    def without(self, candidate: int, prior: FloatArray) -> Self:
        """Return the filters with no mass on one candidate: the others take it, in proportion."""
        posteriors, counts = self.posteriors.copy(), self.counts.copy()
        posteriors[:, candidate] = counts[:, candidate] = 0.0
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        return type(self)(self.weights, posteriors, counts, _mix(self.weights, posteriors, counts, prior))


def start_filters(prior: FloatArray) -> Filters:
    """Return filters that have seen nothing and predict the prior."""
    n_filters = len(SWITCHING) + len(DECAYS)
    weights = np.full(n_filters, 1.0 / n_filters)
    posteriors = np.tile(prior, (len(SWITCHING), 1))
    counts = np.zeros((len(DECAYS), len(prior)))
    return Filters(weights, posteriors, counts, _mix(weights, posteriors, counts, prior))


def prior_of(is_used: BoolArray, n_given: int = 0) -> FloatArray:
    """Return the prior: half on ratio 1, the rest equally on the shapes, the slots in use and the given candidates.

    Parameters
    ----------
    is_used : array of shape (n_slots,)
        Which slots hold a ratio.
    n_given : int
        Number of given candidates. A group that is empty takes no part.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.pool import prior_of
    >>> prior = prior_of(np.array([True, False]))
    >>> float(prior[0]), round(float(prior[1:-2].sum()), 12), prior[-2:].tolist()
    (0.5, 0.25, [0.25, 0.0])
    """
    n_used = int(is_used.sum())
    rest = 1.0 - _PRIOR_OF_ONE
    of_group = rest / (1 + (n_used > 0) + (n_given > 0))
    n_others = N_SHAPES + len(is_used)
    prior = np.zeros(n_others + n_given)
    prior[0] = _PRIOR_OF_ONE
    prior[1:N_SHAPES] = of_group / (N_SHAPES - 1)
    prior[N_SHAPES:n_others][is_used] = of_group / max(n_used, 1)
    prior[n_others:] = of_group / max(n_given, 1)
    return prior


def cautious_prior(n_others: int) -> FloatArray:
    r"""Return a prior on 1, :math:`\sqrt r` and r alone: filters that start from it never leave these."""
    prior = np.zeros(N_SHAPES + n_others)
    prior[0] = _PRIOR_OF_ONE
    prior[1:N_CAUTIOUS] = (1.0 - _PRIOR_OF_ONE) / (N_CAUTIOUS - 1)
    return prior


def _mix(weights: FloatArray, posteriors: FloatArray, counts: FloatArray, prior: FloatArray) -> FloatArray:
    """Return what all filters together predict."""
    decayed = counts + PRIOR_COUNT * prior
    decayed /= decayed.sum(axis=1, keepdims=True)
    return np.asarray(weights @ np.concatenate((posteriors, decayed)))


# --- Rows as the candidates of a pool see them, and what a batch says about the candidates


class SeenRows(NamedTuple):
    """Rows as the candidates of one round see them, which is all that their pooled ratio depends on.

    Attributes
    ----------
    ratios : array of shape (n_rows,)
        At the theta of that round.
    slot_ratios : array of shape (n_slots, n_rows)
        At the theta of each slot.
    given : array of shape (n_given, n_rows)
    means : array of shape (n_shapes,)
        Means of the shapes over the reference.
    factors : array of shape (n_slots, n_shapes)
    proportions : array of shape (n_candidates,)
    """

    ratios: FloatArray
    slot_ratios: FloatArray
    given: FloatArray
    means: FloatArray
    factors: FloatArray
    proportions: FloatArray


class Judgement(NamedTuple):
    """What a batch says about the candidates, before the estimator learns from it."""

    filters: Filters
    cautious: Filters
    log_likelihood: float
    seen: SeenRows


# --- Memory of regimes: settled ratios are remembered in slots, and take part in the pool as candidates


LONGEST_LOOK = 16
LEAST_ROWS = 16
_LEAST_ROUNDS = 8
MOST_VISITS = 25
LARGEST_MOVE = 0.3
_SMALLEST_SHAPE_SHARE = 0.05
_NEAR_ONE = 0.1
_FAR_FROM_POOLED = 0.3
_SAME_REGIME = 0.3
_MOST_MERGED = 8
_USE_DECAY = 0.999
_IN_FORCE = 0.5


@dataclass(frozen=True, slots=True)
class Slots:
    """Remembered ratios: mixtures of the shapes of a log-linear ratio.

    Attributes
    ----------
    coefs : array of shape (n_slots, d)
        Theta of each.
    shares : array of shape (n_slots, n_shapes)
        Proportions of the shapes of the ratio at that theta.
    factors : array of shape (n_slots, n_shapes)
        The same, divided by the means of the shapes over the reference; zeros in a free slot.
    n_merged : array of shape (n_slots,)
        Number of looks averaged into each; 0 for a free slot.
    use : array of shape (n_slots,)
        Decayed share of the pool that each slot has had.
    visits : array of shape (n_visits, 3)
        Slot, first and last round of each time in which a regime was in force, the latest last.
    """

    coefs: FloatArray
    shares: FloatArray
    factors: FloatArray
    n_merged: IntArray
    use: FloatArray
    visits: IntArray

    @property
    def is_used(self) -> BoolArray:
        """Which slots hold a ratio."""
        return np.asarray(self.n_merged > 0)

    def shares_of(self, proportions: FloatArray) -> FloatArray:
        """Return the shares of the slots among the proportions of all candidates."""
        return proportions[N_SHAPES : N_SHAPES + len(self.use)]

    def find(self, distances: FloatArray) -> tuple[int, bool]:
        """Return the slot for a settled ratio, and whether that slot holds the same regime already.

        Parameters
        ----------
        distances : array of shape (n_slots,)
            From the settled ratio to that of each slot.
        """
        n_merged, known = self.n_merged.tolist(), distances.tolist()
        nearest = min(range(len(known)), key=lambda slot: known[slot] if n_merged[slot] else math.inf)
        if n_merged[nearest] and distances[nearest] <= _SAME_REGIME:
            return nearest, True
        return n_merged.index(0) if 0 in n_merged else int(self.use.argmin()), False

    def put(self, slot: int, coef: FloatArray, shares: FloatArray, *, is_same: bool) -> Slots:
        """Return the slots with a settled ratio: averaged with what the slot holds, or in its place."""
        coefs, all_shares, use = (each.copy() for each in (self.coefs, self.shares, self.use))
        n_merged = self.n_merged.copy()
        n_merged[slot] = n_merged[slot] + 1 if is_same else 1
        gain = 1.0 / min(int(n_merged[slot]), _MOST_MERGED)
        coefs[slot] += gain * (coef - coefs[slot])
        all_shares[slot] += gain * (shares - all_shares[slot])
        visits = self.visits
        # A slot of a single look that is taken up again after a pause held what a jump passed through.
        was_passed = is_same and self.n_merged[slot] == 1 and len(visits) > 0 and visits[-1, 0] != slot
        if not is_same or was_passed:
            visits = visits[visits[:, 0] != slot]
        if not is_same:
            use[slot] = 1.0
        return Slots(coefs, all_shares, self.factors, n_merged, use, visits)

    def with_factors(self, slot: int, means: FloatArray) -> Slots:
        """Return the slots after the means of one slot's shapes over the reference were computed."""
        factors = self.factors.copy()
        factors[slot] = self.shares[slot] / means
        return Slots(self.coefs, self.shares, factors, self.n_merged, self.use, self.visits)

    def in_force(
        self, proportions: FloatArray, last_look: int, ratios: FloatArray, slot_ratios: FloatArray
    ) -> int | None:
        """Return the slot whose regime is in force: most of the pool is on it, or the last look went to it.

        The rounds since that look may have left it: then the ratio is no longer that of the slot, and none is in force.

        Parameters
        ----------
        proportions : array of shape (n_candidates,)
        last_look : int
            The round in which the last look ended.
        ratios : array of shape (n_reference,)
            The pooled ratio now.
        slot_ratios : array of shape (n_slots, n_reference)
        """
        of_slots = self.shares_of(proportions)
        if (of_slots > _IN_FORCE).any():
            slot = int(np.argmax(of_slots))
        elif len(self.visits) and self.visits[-1, 2] == last_look:
            slot = int(self.visits[-1, 0])
        else:
            return None
        return slot if distance(ratios, slot_ratios[slot]) <= _SAME_REGIME else None

    def earlier_visit(self, proportions: FloatArray, this_round: int) -> tuple[int, int] | None:
        """Return when the regime in force now was in force before a change that was noticed in this round.

        None if most of the pool is on no slot, and if the same regime was in force just before the change.
        """
        of_slots = self.shares_of(proportions)
        if not (of_slots > _IN_FORCE).any():
            return None
        visits = self.visits[self.visits[:, 0] == np.argmax(of_slots)]
        # A change is noticed within two looks.
        began = this_round - 2 * LONGEST_LOOK
        if ((visits[:, 1] <= began) & (began <= visits[:, 2])).any() or not (visits[:, 2] < began).any():
            return None
        first, last = visits[visits[:, 2] < began][-1, 1:].tolist()
        return first, last

    def after_look(self, look: LookSums, put: int | None, this_round: int) -> Slots:
        """Return the slots with their use and the visits brought up to date.

        Parameters
        ----------
        look : Look
            Means over the look.
        put : int or None
            The slot that the look's ratio went to.
        this_round : int
        """
        of_slots = self.shares_of(look.proportions)
        slot = put if put is not None else int(np.argmax(of_slots)) if (of_slots > _IN_FORCE).any() else None
        slot = slot if look.is_long_enough else None
        visits = self.visits if slot is None else _visited(self.visits, slot, this_round, look.n_rounds)
        use = _USE_DECAY**look.n_rounds * self.use + look.n_rounds / LONGEST_LOOK * of_slots
        return Slots(self.coefs, self.shares, self.factors, self.n_merged, use, visits)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookSums:
    """Sums over the rounds since the last look.

    Attributes
    ----------
    n_rounds, n_rows : int
        Rounds since then, and rows in their batches.
    coef : array of shape (d,)
    proportions : array of shape (n_candidates,)
    log_likelihood : float
        Of the batches under the pooled ratio before each round.
    before : array of shape (n_reference,)
        The ratio of the look before: that at its means.
    """

    n_rounds: int
    n_rows: int
    coef: FloatArray
    proportions: FloatArray
    log_likelihood: float
    before: FloatArray

    @property
    def is_long_enough(self) -> bool:
        """Whether there are enough rows and rounds to look back at."""
        return self.n_rows >= LEAST_ROWS and self.n_rounds >= _LEAST_ROUNDS

    def mean(self) -> LookSums:
        """Return the means over the rounds."""
        coef, proportions = self.coef / self.n_rounds, self.proportions / self.n_rounds
        return replace(self, coef=coef, proportions=proportions, log_likelihood=self.log_likelihood / self.n_rounds)

    def shape_shares(self) -> FloatArray:
        """Return the proportions of the shapes among themselves."""
        shares = self.proportions[:N_SHAPES]
        return np.asarray(shares / shares.sum())

    def distances(self, ratios: FloatArray, settled: FloatArray, slot_ratios: FloatArray) -> FloatArray:
        """Return the total variations that a look back depends on, given means over a look.

        Parameters
        ----------
        ratios : array of shape (n_reference,)
            The ratio of the look.
        settled : array of shape (n_reference,)
            The ratio that a slot would hold.
        slot_ratios : array of shape (n_slots, n_reference)

        Returns
        -------
        array of shape (3 + n_slots,)
            From the ratio of the look to that of the look before; from the settled ratio to that of the look, to 1, and
            to each slot.
        """
        found = np.empty(3 + len(slot_ratios))
        measure_look(ratios, self.before, settled, slot_ratios, found)
        return found

    @property
    def may_be_kept(self) -> bool:
        """Whether the look was long enough to remember it, and had a share of the pool on the shapes."""
        return self.is_long_enough and float(self.proportions[1:N_SHAPES].sum()) >= _SMALLEST_SHAPE_SHARE

    def is_worth_keeping(self, distances: FloatArray) -> bool:
        """Whether these means show a regime that has settled, differs from the reference and is not only remembered."""
        from_before, to_pooled, to_one = distances[:3].tolist()
        return (
            self.may_be_kept
            and (self.n_rounds < LONGEST_LOOK or from_before <= LARGEST_MOVE)
            and to_one > _NEAR_ONE
            and to_pooled <= _FAR_FROM_POOLED
        )


def start_slots(n_slots: int, n_columns: int) -> Slots:
    """Return free slots."""
    return Slots(
        coefs=np.zeros((n_slots, n_columns)),
        shares=np.zeros((n_slots, N_SHAPES)),
        factors=np.zeros((n_slots, N_SHAPES)),
        n_merged=np.zeros(n_slots, dtype=np.int64),
        use=np.zeros(n_slots),
        visits=np.zeros((0, 3), dtype=np.int64),
    )


def start_look(n_columns: int, n_candidates: int, before: FloatArray) -> LookSums:
    """Return sums of nothing, after a look with this ratio."""
    return LookSums(
        n_rounds=0,
        n_rows=0,
        coef=np.zeros(n_columns),
        proportions=np.zeros(n_candidates),
        log_likelihood=0.0,
        before=before,
    )


def distance(ratios: FloatArray, others: FloatArray) -> float:
    """Return the total variation between two ratios with mean 1 over the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.pool import distance
    >>> distance(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    0.5
    """
    return float(0.5 * np.abs(ratios - others).mean())


def _visited(visits: IntArray, slot: int, this_round: int, n_rounds: int) -> IntArray:
    """Return the visits with the last look added: it prolongs the latest visit, or begins another."""
    visits = visits.copy()
    if len(visits) and visits[-1, 0] == slot and visits[-1, 2] >= this_round - n_rounds - _LEAST_ROUNDS:
        visits[-1, 2] = this_round
        return visits
    first = this_round - n_rounds + 1
    visits = np.concatenate((visits, np.array([[slot, first, this_round]])))
    of_slot = np.flatnonzero(visits[:, 0] == slot)
    # The first visit stays, so that the regimes keep their order.
    return np.delete(visits, of_slot[1], axis=0) if len(of_slot) > MOST_VISITS else visits


# --- What the pool knows after a round


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The state after a round; a reader needs nothing else to compute pooled ratios.

    Attributes
    ----------
    n_rounds : int
    coef : array of shape (d,)
        Theta whose shapes are candidates.
    means : array of shape (n_shapes,)
        Means of these shapes over the reference.
    prior : array of shape (n_candidates,)
    filters, cautious : Filters
        Over all candidates, and over the first three.
    excess : float
        How much better the pool explains the stream than the reference's rows can.
    hold : float
        How far the pool is held back for that, between 0 and 1.
    slots : Slots
    look : Look
    slot_ratios : array of shape (n_slots, n_reference)
        Ratios of the slots for the reference; computed from the slots.
    given_ratios : array of shape (n_given, n_reference)
        Ratios of the given candidates for the reference; not stored.
    reference_ratios : array of shape (n_reference,)
        The pooled ratio; computed from the rest.
    """

    n_rounds: int
    coef: FloatArray
    means: FloatArray
    prior: FloatArray
    filters: Filters
    cautious: Filters
    excess: float
    hold: float
    slots: Slots
    look: LookSums
    slot_ratios: FloatArray = field(compare=False, repr=False)
    given_ratios: FloatArray = field(compare=False, repr=False)
    reference_ratios: FloatArray = field(compare=False, repr=False)

    @property
    def proportions(self) -> FloatArray:
        """Proportions of the candidates in use."""
        hold = self.hold
        if hold == 0.0:
            return self.filters.proportions
        return (1.0 - hold) * self.filters.proportions + hold * self.cautious.proportions


# --- Whether the reference supports the pooled ratio: where it does not, the pool is held back


_NO_HOLD, _FULL_HOLD = 0.6, 0.8
_SMALLEST_RATIO = 1e-12


def excess_after(excess: float, look: LookSums, ratios: FloatArray) -> float:
    """Return the smoothed excess after a look, given its means and its ratio."""
    terms = ratios * np.log(np.maximum(ratios, _SMALLEST_RATIO))
    divergence = float(np.add.reduce(terms)) / len(terms)
    smoothing = 1.0 - 0.5 ** (look.n_rounds / LONGEST_LOOK)
    return excess + smoothing * (look.log_likelihood - divergence - excess)


@shared
def hold_for(excess: float) -> float:
    """Return how far to hold the pool back: 0 up to an excess of 0.6, and 1 from 0.8 on.

    Examples
    --------
    >>> from accous.core.pool import hold_for
    >>> hold_for(0.3), round(hold_for(0.7), 12), hold_for(2.0)
    (0.0, 0.5, 1.0)
    """
    return min(max((excess - _NO_HOLD) / (_FULL_HOLD - _NO_HOLD), 0.0), 1.0)


class Remembered(NamedTuple):
    """What is remembered after a look.

    Attributes
    ----------
    slots : Slots
    slot_ratios : array of shape (n_slots, n_reference)
    excess : float
        How much better the pool explains the stream than the reference's rows can.
    put : int or None
        The slot that the ratio of the look went to, if it was worth keeping.
    is_same : bool
        Whether that slot held the same regime before.
    ratios : array of shape (n_reference,)
        The ratio of the look.
    """

    slots: Slots
    slot_ratios: FloatArray
    excess: float
    put: int | None
    is_same: bool
    ratios: FloatArray


# --- The pool: the ratio in use is a mixture of candidates, weighted by how well they explained past batches


class RatioPool:
    """Runs the pool's rounds next to those of an estimator.

    Parameters
    ----------
    reference : Reference
        Features of all reference rows.
    max_ratio : float
        The largest ratio.
    n_slots : int
        How many regimes to remember.
    n_given : int
        How many candidates are given. Where a method takes ``given``, it is an array of their ratios with mean 1 over
        the reference, (n_given, n_rows), for the rows of the batch or of the reference; it may be left out for none.
    """

    def __init__(self, reference: Reference, max_ratio: float, n_slots: int, n_given: int = 0) -> None:
        self._reference, self.n_slots, self._n_given = reference, n_slots, n_given
        self._max_ratio, self._cuts = max_ratio, shape_cuts(max_ratio)
        self._cautious_prior = cautious_prior(n_slots + n_given)

    def start(self, neutral: FloatArray, given: FloatArray | None = None) -> PoolState:
        """Return the state before the first round: the prior, and ratio 1 as far as all shapes of ratio 1 are 1."""
        n_rows, n_columns = self._reference.features.shape
        slots = start_slots(self.n_slots, n_columns)
        prior = prior_of(slots.is_used, self._n_given)
        state = PoolState(
            n_rounds=0,
            coef=neutral,
            means=np.ones(N_SHAPES),
            prior=prior,
            filters=start_filters(prior),
            cautious=start_filters(self._cautious_prior),
            excess=0.0,
            hold=0.0,
            slots=slots,
            look=start_look(n_columns, len(prior), np.ones(n_rows)),
            slot_ratios=np.zeros((self.n_slots, n_rows)),
            given_ratios=self._rows(given, n_rows),
            reference_ratios=np.ones(n_rows),
        )
        return replace(state, reference_ratios=self.with_estimate(state, np.ones(n_rows))) if self._n_given else state

    def judge(self, state: PoolState, batch: FloatArray, given: FloatArray | None = None) -> Judgement:
        """Return the filters after a batch, which the estimator has not learned from yet.

        Parameters
        ----------
        state : PoolState
        batch : array of shape (n_batch, d)
            Features of the batch.
        given : array of shape (n_given, n_batch), optional
        """
        seen = self._see(state, batch, given)
        rows = seen.ratios, (self._cuts, seen.means), (seen.slot_ratios, seen.factors), seen.given
        filters, log_likelihood = state.filters.after_batch(state.prior, *rows)
        cautious, _ = state.cautious.after_batch(self._cautious_prior, *rows)
        return Judgement(filters, cautious, log_likelihood, seen)

    def settle(
        self,
        state: PoolState,
        judgement: Judgement,
        coef: FloatArray,
        ratios: FloatArray,
        given: FloatArray | None = None,
    ) -> PoolState:
        """Return the state after a round, once the estimator has learned from the batch.

        Parameters
        ----------
        state : PoolState
            Before the round.
        judgement : Judgement
            What ``judge`` returned for the batch.
        coef : array of shape (d,)
            The estimator's theta after the round.
        ratios : array of shape (n_reference,)
            Its ratios of the reference, at most ``UNCUT``.
        given : array of shape (n_given, n_reference), optional
            After the given candidates have learned from the batch.
        """
        filters = judgement.filters
        state = replace(state, given_ratios=self._rows(given, len(ratios))) if self._n_given else state
        means, pooled = self._pooled(ratios, filters, state)
        this_round = coef, filters.proportions, judgement.log_likelihood, len(judgement.seen.ratios)
        is_left = state.look.n_rows >= LEAST_ROWS and distance(pooled, self._ratio_of(state)) > LARGEST_MOVE
        after = PoolState(
            n_rounds=state.n_rounds + 1,
            coef=coef,
            means=means,
            prior=state.prior,
            filters=filters,
            cautious=judgement.cautious,
            excess=state.excess,
            hold=state.hold,
            slots=state.slots,
            look=state.look if is_left else _with_round(state.look, *this_round),
            slot_ratios=state.slot_ratios,
            given_ratios=state.given_ratios,
            reference_ratios=pooled,
        )
        if is_left or after.look.n_rounds == LONGEST_LOOK:
            after = self.look_back(after, after.n_rounds - is_left)
            after = replace(after, look=_with_round(after.look, *this_round)) if is_left else after
            # The ratio in use is a function of the state, so that a model that was saved goes on with the same bits.
            after = replace(after, reference_ratios=self._pooled(ratios, after.filters, after)[1])
        return self._hold_back(after, ratios) if after.hold else after

    def fits(self, state: PoolState) -> bool:
        """Whether a state that was stored has the shapes that a state of this pool has."""
        n_rows, n_columns = self._reference.features.shape
        expected, found = self.start(state.coef, np.ones((self._n_given, n_rows))), to_plain(state)
        return state.coef.shape == (n_columns,) and _shapes(to_plain(expected)) == _shapes(found)

    def restored(self, state: PoolState, ratios: FloatArray, given: FloatArray | None = None) -> PoolState:
        """Return a state that was stored without what is computed from the reference.

        Parameters
        ----------
        state : PoolState
        ratios : array of shape (n_reference,)
            Ratios of the reference at the state's theta, at most ``UNCUT``.
        given : array of shape (n_given, n_reference), optional
        """
        slots, slot_ratios = state.slots, np.zeros((self.n_slots, len(ratios)))
        for slot in np.flatnonzero(slots.is_used).tolist():
            slot_ratios[slot], of_slot = self._mixed(slots.coefs[slot], slots.shares[slot])
            slots = slots.with_factors(slot, of_slot)
        given_ratios = self._rows(given, len(ratios))
        state = replace(state, slots=slots, slot_ratios=slot_ratios, given_ratios=given_ratios)
        means, pooled = self._pooled(ratios, state.filters, state)
        state = replace(state, means=means, reference_ratios=pooled)
        return self._hold_back(state, ratios) if state.hold else state

    def with_estimate(self, state: PoolState, ratios: FloatArray) -> FloatArray:
        """Return the pooled ratio of the reference if these were the estimate's ratios."""
        _, pooled = self._pooled(ratios, state.filters, state)
        if state.hold:
            pooled = (1.0 - state.hold) * pooled + state.hold * self._pooled(ratios, state.cautious, state)[1]
        return pooled

    def ratios(self, state: PoolState, features: FloatArray, given: FloatArray | None = None) -> FloatArray:
        """Return the pooled ratio of any rows, given their features."""
        return self.mixed(self._see(state, features, given))

    def mixed(self, seen: SeenRows) -> FloatArray:
        """Return the pooled ratio of rows that were judged or looked at, as it was then."""
        pooled = np.empty(len(seen.ratios))
        of_rows, of_candidates = seen[:3], seen[3:]
        pool_rows(*of_rows, self._cuts, *of_candidates, self._max_ratio, pooled)
        return pooled

    def look_back(self, state: PoolState, last_round: int) -> PoolState:
        """Remember the ratio of the last look if it has settled, and see whether the reference supports it.

        Parameters
        ----------
        state : PoolState
        last_round : int
            The last round of the look.
        """
        look, filters, prior = state.look.mean(), state.filters, state.prior
        found = self.remember(look, state.slots, state.slot_ratios, state.excess, last_round, state.given_ratios)
        if found.put is not None:
            prior = prior_of(found.slots.is_used, self._n_given)
            filters = filters if found.is_same else filters.without(N_SHAPES + found.put, prior)
        return replace(
            state,
            prior=prior,
            filters=filters,
            excess=found.excess,
            hold=hold_for(found.excess),
            slots=found.slots,
            look=start_look(len(look.coef), len(prior), found.ratios),
            slot_ratios=found.slot_ratios,
        )

    def remember(
        self,
        look: LookSums,
        slots: Slots,
        slot_ratios: FloatArray,
        excess: float,
        last_round: int,
        given_ratios: FloatArray | None = None,
    ) -> Remembered:
        """Return what is remembered after a look.

        Parameters
        ----------
        look : LookSums
            Means over the look.
        slots : Slots
        slot_ratios : array of shape (n_slots, n_reference)
        excess : float
            Before the look.
        last_round : int
        given_ratios : array of shape (n_given, n_reference), optional
        """
        put, is_same, shares = None, False, look.shape_shares()
        estimated = self._reference.ratios(look.coef, UNCUT)
        ratios = self._mixture(estimated, look.proportions, slot_ratios, given_ratios)[1]
        if self.n_slots and look.may_be_kept:
            settled, _ = mixed_shapes(estimated, self._cuts, shares)
            distances = look.distances(ratios, settled, slot_ratios)
            if look.is_worth_keeping(distances):
                put, is_same = slots.find(distances[3:])
                slots = slots.put(put, look.coef, shares, is_same=is_same)
                slot_ratios = slot_ratios.copy()
                slot_ratios[put], means = self._mixed(slots.coefs[put], slots.shares[put])
                slots = slots.with_factors(put, means)
        slots = slots.after_look(look, put, last_round)
        return Remembered(slots, slot_ratios, excess_after(excess, look, ratios), put, is_same, ratios)

    def _hold_back(self, state: PoolState, ratios: FloatArray) -> PoolState:
        """Replace the ratio in use by that of the cautious filters, as far as the hold goes."""
        _, cautious = self._pooled(ratios, state.cautious, state)
        in_use = (1.0 - state.hold) * state.reference_ratios + state.hold * cautious
        return replace(state, reference_ratios=in_use)

    def _pooled(self, ratios: FloatArray, filters: Filters, state: PoolState) -> tuple[FloatArray, FloatArray]:
        """Return the means of the shapes, and the mixture of all candidates for the reference."""
        return self._mixture(ratios, filters.proportions, state.slot_ratios, state.given_ratios)

    def _mixture(
        self, ratios: FloatArray, proportions: FloatArray, slot_ratios: FloatArray, given_ratios: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        means, mixed = np.empty(N_SHAPES), np.empty(len(ratios))
        others = slot_ratios if given_ratios is None else np.concatenate((slot_ratios, given_ratios))
        pool_reference(ratios, self._cuts, proportions, others, means, mixed)
        return means, mixed

    def _ratio_of(self, state: PoolState) -> FloatArray:
        """Return the ratio of the look in progress: that at its mean theta and proportions, which are all it keeps."""
        means = state.look.mean()
        return self.mixture_at(means.coef, means.proportions, state.slot_ratios, state.given_ratios)

    def mixture_at(
        self, coef: FloatArray, proportions: FloatArray, slot_ratios: FloatArray, given_ratios: FloatArray | None = None
    ) -> FloatArray:
        """Return the mixture of all candidates for the reference, the shapes being those at a theta."""
        return self._mixture(self._reference.ratios(coef, UNCUT), proportions, slot_ratios, given_ratios)[1]

    def _see(self, state: PoolState, features: FloatArray, given: FloatArray | None) -> SeenRows:
        slots, n_rows = state.slots, len(features)
        if slots.n_merged.any():
            ratios, slot_ratios = self._reference.batch_ratios_at_each(state.coef, slots.coefs, features, UNCUT)
        else:
            ratios = self._reference.batch_ratios(state.coef, features, UNCUT)
            slot_ratios = np.zeros((self.n_slots, n_rows))
        given = self._rows(given, n_rows) if self._n_given else np.empty((0, n_rows))
        proportions = state.proportions if state.hold else state.filters.proportions
        return SeenRows(ratios, slot_ratios, given, state.means, slots.factors, proportions)

    def _rows(self, given: FloatArray | None, n_rows: int) -> FloatArray:
        given = np.empty((0, n_rows)) if given is None else given
        if given.shape != (self._n_given, n_rows):
            raise ValueError(f"given must have the shape {(self._n_given, n_rows)}, got {given.shape}.")
        return given

    def _mixed(self, coef: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a mixture of the shapes at a theta for the reference, and the means of the shapes."""
        return mixed_shapes(self._reference.ratios(coef, UNCUT), self._cuts, shares)


def _with_round(
    look: LookSums, coef: FloatArray, proportions: FloatArray, log_likelihood: float, n_rows: int
) -> LookSums:
    """Return the sums with one round more."""
    return LookSums(
        n_rounds=look.n_rounds + 1,
        n_rows=look.n_rows + n_rows,
        coef=look.coef + coef,
        proportions=look.proportions + proportions,
        log_likelihood=look.log_likelihood + log_likelihood,
        before=look.before,
    )


def _shapes(plain: Any) -> Any:
    """Return the shapes of nested arrays; the number of visits may be any."""
    if isinstance(plain, dict):
        return {name: _shapes(part) for name, part in plain.items() if name != "visits"}
    return np.shape(plain)


# --- A pool without memory over three shapes of any ratio: 1, its square root, and itself


_PRIOR = cautious_prior(0)
_NO_SLOTS = np.zeros((0, N_SHAPES))


@dataclass(frozen=True, slots=True)
class Tempered:
    """The state after a round.

    Attributes
    ----------
    filters : Filters
    means : array of shape (n_shapes,)
        Means of the shapes over the reference.
    """

    filters: Filters
    means: FloatArray

    @property
    def share(self) -> float:
        """Share of the mass on other shapes than 1."""
        return 1.0 - float(self.filters.proportions[0])

    def after_round(
        self, batch_ratios: FloatArray, reference_ratios: FloatArray, max_ratio: float
    ) -> tuple[Tempered, FloatArray]:
        """Return the state after a round, and the ratio of the reference in use.

        Parameters
        ----------
        batch_ratios : array of shape (n_batch,)
            Ratios of the batch before the estimator learned from it.
        reference_ratios : array of shape (n_reference,)
            Ratios of the reference for the next round.
        max_ratio : float
            Larger ratios count as this value.
        """
        cuts, no_ratios = shape_cuts(max_ratio), np.zeros((0, len(batch_ratios)))
        batch_ratios = np.ascontiguousarray(batch_ratios, dtype=np.float64)
        filters, _ = self.filters.after_batch(
            _PRIOR, batch_ratios, (cuts, self.means), (no_ratios, _NO_SLOTS), no_ratios
        )
        return Tempered(filters, self.means).on_reference(reference_ratios, max_ratio)

    def on_reference(self, reference_ratios: FloatArray, max_ratio: float) -> tuple[Tempered, FloatArray]:
        """Return the state with the means of the shapes over a reference, and the ratio of this reference in use.

        Parameters
        ----------
        reference_ratios : array of shape (n_reference,)
        max_ratio : float
            Larger ratios count as this value.
        """
        mixed, means = mixed_shapes(reference_ratios, shape_cuts(max_ratio), self.filters.proportions)
        return Tempered(self.filters, means), mixed

    def ratios(self, ratios: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio in use of any rows, given the estimator's."""
        shapes = shape_values(ratios, shape_cuts(max_ratio)) / self.means
        return np.asarray(1.0 + (shapes - 1.0) @ self.filters.proportions)


def start_tempered() -> Tempered:
    """Return the state before the first round, in which all shapes of the ratio are 1."""
    return Tempered(start_filters(_PRIOR), np.ones(N_SHAPES))
