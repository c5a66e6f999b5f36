"""Keys that share a reference: their states as arrays, and the look back of their pools."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import SingleArray
from accous.core.ensemble import EnsembleSettings, NarrowReference
from accous.core.kernels_pool import measure_moves, pool_reference
from accous.core.pool import (
    LARGEST_MOVE,
    LEAST_ROWS,
    LONGEST_LOOK,
    N_CAUTIOUS,
    N_SHAPES,
    Filters,
    LookSums,
    PoolState,
    RatioPool,
    Slots,
    cautious_prior,
    hold_for,
    prior_of,
    start_filters,
)
from accous.core.round import CompiledRound, Layout, RoundArrays

# --- What the keys of one call keep between rounds, and what is computed from it: arrays whose first axis is
#     the key


N_EVENT_COLUMNS = 5
NO_VISITS: IntArray = np.zeros((0, 3), dtype=np.int64)


class Number(IntEnum):
    """Numbers that a key keeps in double precision, by their place."""

    N_ROUNDS = 0
    N_ROWS = 1
    N_SEEN = 2
    N_LATE = 3
    LARGEST_MARGIN = 4
    EXCESS = 5
    LOG_LIKELIHOOD = 6
    N_REFITS = 7
    LAST_REFIT = 8
    SHARE = 9
    EFFECTIVE_ROWS = 10
    IS_HELD = 11
    VETO_EXCESS = 12
    VETO_ERROR = 13
    VETO_ROUND = 14
    VETO_REFITS = 15
    STRENGTH = 16
    N_RECENT = 17
    N_RECENT_OUT = 18
    EVENT_ROUND = 19
    EVENT_SIZE = 20
    EVENT_ROUNDS = 21
    EVENT_TIME = 22
    SEEN_FIRST = 23
    SEEN_LAST = 24
    N_EVENTS = 25
    NEWEST_TIME = 26
    CLOSED_TIME = 27
    ROUND_TIME = 28
    N_LABELS = 29
    N_WRONG = 30
    GAIN = 31
    LABELS_ROW = 32
    LOOK_ROUNDS = 33
    LOOK_ROWS = 34
    EVENT_COLUMNS = 35  # and the next four


N_NUMBERS = Number.EVENT_COLUMNS + N_EVENT_COLUMNS


@dataclass(frozen=True, kw_only=True)
class KeyShape:
    """The sizes that all keys of a model share.

    Attributes
    ----------
    n_coefs : int
        d, features of the ratio, with the intercept.
    n_features : int
        Input columns.
    n_scores : int
        Rows of the predictor's coefficients.
    n_slots : int
    n_reference : int
    n_sample : int
        Reference rows whose shares a key keeps.
    """

    n_coefs: int
    n_features: int
    n_scores: int
    n_slots: int
    n_reference: int
    n_sample: int

    @property
    def n_candidates(self) -> int:
        """Candidates of the pool: shapes, then slots."""
        return N_SHAPES + self.n_slots

    @property
    def n_triangle(self) -> int:
        """Numbers in the lower triangle of A."""
        return self.n_coefs * (self.n_coefs + 1) // 2

    @property
    def slot_width(self) -> int:
        """Numbers that a slot keeps: theta, shares of the shapes, looks merged, and use."""
        return self.n_coefs + N_SHAPES + 2

    @cached_property
    def layout(self) -> Layout:
        """Where each part in single precision lies in the row of a key."""
        d, n_all = self.n_coefs, self.n_candidates
        return Layout(
            d,
            self.n_slots,
            {
                "before_coef": (d,),
                "before_proportions": (n_all,),
                "watch_coef": (d,),
                "settled_coef": (d,),
                "column_parts": (self.n_features,),
            },
        )


@dataclass(frozen=True, kw_only=True)
class KeyStack:
    """Keys that run their rounds together.

    Attributes
    ----------
    shape : KeyShape
    numbers : array of shape (n_numbers, n_keys)
        See `Number`.
    coef : array of shape (n_keys, d)
        The ensemble's theta.
    singles : array of shape (n_keys, n_singles)
        See ``KeyShape.layout``; ``parts`` has each of them.
    coefs, triangles : arrays of shape (n_keys, most_learners, ...)
        Theta of each learner, and the lower triangle of its A.
    log_potentials, squares : arrays of shape (n_keys, most_learners)
        The meta-learner's.
    slots : array of shape (n_keys, n_slots, slot_width)
        Remembered ratios.
    visits : list of arrays of shape (n_visits, 3)
        As in `accous.core.pool.Slots`.
    sizes : list of tuple of float
        Distances of the change in progress, one per look.
    predictors : array of shape (n_keys, n_scores, n_features + 1)
        The adapted predictor; that of a key that has not moved is the fixed one.
    is_moved, is_checked : arrays of shape (n_keys,)
        Whether the predictor is another one than the fixed one, and whether shares of a comparison are kept.
    fitted, checked : arrays of shape (n_keys, n_sample)
        Shares that the predictor was fitted with, and shares at the last comparison.
    n_learners : array of shape (n_keys,)
        Computed, like all that follows.
    priors : array of shape (n_keys, n_candidates)
    holds : array of shape (n_keys,)
        How far each pool is held back.
    factors, slot_ratios : arrays of shape (n_keys, n_slots, ...)
        What each slot multiplies the shapes by, and its ratio of the reference.
    """

    shape: KeyShape
    numbers: FloatArray
    coef: FloatArray
    singles: SingleArray
    coefs: SingleArray
    triangles: SingleArray
    log_potentials: FloatArray
    squares: FloatArray
    slots: SingleArray
    visits: list[IntArray]
    sizes: list[tuple[float, ...]]
    predictors: FloatArray
    is_moved: np.ndarray[tuple[int], np.dtype[np.bool_]]
    is_checked: np.ndarray[tuple[int], np.dtype[np.bool_]]
    fitted: np.ndarray[tuple[int, int], np.dtype[np.uint16]]
    checked: np.ndarray[tuple[int, int], np.dtype[np.uint16]]
    n_learners: IntArray
    priors: FloatArray
    holds: FloatArray
    factors: FloatArray
    slot_ratios: FloatArray

    def __len__(self) -> int:
        return len(self.coef)

    def places(self, active: IntArray) -> IntArray | slice:
        """Return an index of some keys, in order: all of them as a slice, which numpy follows in less time."""
        return slice(None) if len(active) == len(self) else active

    @cached_property
    def parts(self) -> dict[str, SingleArray]:
        """The arrays in single precision, (n_keys, ...); writing into one changes the stack."""
        return {name: self.shape.layout.of(name, self.singles) for name in self.shape.layout.parts}

    @cached_property
    def arrays(self) -> RoundArrays:
        """What a round reads and writes."""
        numbers = self.numbers
        return RoundArrays(
            n_rounds=numbers[Number.N_ROUNDS],
            largest_margins=numbers[Number.LARGEST_MARGIN],
            log_likelihoods=numbers[Number.LOG_LIKELIHOOD],
            n_learners=self.n_learners,
            coefs=self.coefs,
            matrices=None,
            roots=None,
            triangles=self.triangles,
            log_potentials=self.log_potentials,
            squares=self.squares,
            coef=self.coef,
            parts=self.singles,
            slots=self.slots,
            priors=self.priors,
            holds=self.holds,
            factors=self.factors,
            slot_ratios=self.slot_ratios,
        )

    @cached_property
    def filters(self) -> tuple[tuple[SingleArray, ...], tuple[SingleArray, ...]]:
        """Weights, posteriors, counts and proportions of all filters, and of the cautious ones."""
        names = "weights", "posteriors", "counts", "proportions"
        cautious = tuple(self.parts[f"cautious_{name}"] for name in names)
        return (self.parts["filter_weights"], *(self.parts[name] for name in names[1:])), cautious

    @cached_property
    def slot_coefs(self) -> SingleArray:
        """Theta of each slot."""
        return self.slots[:, :, : self.shape.n_coefs]

    @cached_property
    def slot_shares(self) -> SingleArray:
        """Proportions of the shapes in each slot."""
        return self.slots[:, :, self.shape.n_coefs : -2]

    @cached_property
    def n_merged(self) -> SingleArray:
        """Looks averaged into each slot; 0 for a free one."""
        return self.slots[:, :, -2]

    @cached_property
    def slot_use(self) -> SingleArray:
        """Decayed share of the pool that each slot has had."""
        return self.slots[:, :, -1]

    def clear(self) -> None:
        """Forget all keys. What every state brings along, and what only learners and slots in use have, stays."""
        self.numbers[:] = 0.0
        self.slots[:] = 0.0
        self.holds[:] = 0.0
        self.factors[:] = 0.0
        self.n_learners[:] = 0
        self.is_moved[:] = self.is_checked[:] = False
        for key in range(len(self)):
            self.visits[key], self.sizes[key] = NO_VISITS, ()


def make_stack(shape: KeyShape, n_keys: int, most_learners: int) -> KeyStack:
    """Return a stack of zeros."""
    d, n_slots = shape.n_coefs, shape.n_slots
    return KeyStack(
        shape=shape,
        numbers=np.zeros((N_NUMBERS, n_keys)),
        coef=np.zeros((n_keys, d)),
        singles=np.zeros((n_keys, shape.layout.length), dtype=np.float32),
        coefs=np.zeros((n_keys, most_learners, d), dtype=np.float32),
        triangles=np.zeros((n_keys, most_learners, shape.n_triangle), dtype=np.float32),
        log_potentials=np.zeros((n_keys, most_learners)),
        squares=np.zeros((n_keys, most_learners)),
        slots=np.zeros((n_keys, n_slots, shape.slot_width), dtype=np.float32),
        visits=[NO_VISITS] * n_keys,
        sizes=[()] * n_keys,
        predictors=np.zeros((n_keys, shape.n_scores, shape.n_features + 1)),
        is_moved=np.zeros(n_keys, dtype=np.bool_),
        is_checked=np.zeros(n_keys, dtype=np.bool_),
        fitted=np.zeros((n_keys, shape.n_sample), dtype=np.uint16),
        checked=np.zeros((n_keys, shape.n_sample), dtype=np.uint16),
        n_learners=np.zeros(n_keys, dtype=np.int64),
        priors=np.zeros((n_keys, shape.n_candidates)),
        holds=np.zeros(n_keys),
        factors=np.zeros((n_keys, n_slots, N_SHAPES)),
        slot_ratios=np.zeros((n_keys, n_slots, shape.n_reference)),
    )


# --- The rounds of keys: those of `accous.core.round`, and what is computed before the first one


_MOST_KNOWN_SLOTS = 256


class KeyRounds(CompiledRound):
    """Runs the rounds of keys that share a reference.

    Parameters
    ----------
    settings : EnsembleSettings
    gradient_reference : NarrowReference
        The reference rows that gradients are summed over.
    reference : NarrowReference
        All reference rows.
    max_ratio : float
    shape : KeyShape
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        gradient_reference: NarrowReference,
        reference: NarrowReference,
        max_ratio: float,
        shape: KeyShape,
    ) -> None:
        super().__init__(
            settings, gradient_reference, reference, max_ratio, shape.layout, shape.n_slots, is_single=True
        )
        self._shape = shape
        self._priors: dict[tuple[bool, ...], FloatArray] = {}
        # Slots change every 16 rounds at most: a process that sees a key again soon need not compute them again.
        self._known_slots: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        self._free_prior = prior_of(np.zeros(shape.n_slots, dtype=np.bool_))

    def start(self, stack: KeyStack, keys: IntArray) -> None:
        """Write the state before the first round for some keys of a stack of zeros."""
        filters, cautious = start_filters(self._free_prior), start_filters(cautious_prior(0))
        stack.parts["filter_weights"][keys] = filters.weights
        stack.parts["posteriors"][keys] = filters.posteriors
        stack.parts["proportions"][keys] = filters.proportions
        stack.parts["cautious_weights"][keys] = cautious.weights
        stack.parts["cautious_posteriors"][keys] = cautious.posteriors[:, :N_CAUTIOUS]
        stack.parts["cautious_proportions"][keys] = cautious.proportions[:N_CAUTIOUS]
        stack.parts["means"][keys] = 1.0
        # The mean ratio before the first look is 1.
        stack.parts["before_proportions"][keys, 0] = 1.0
        for name in ("before_coef", "watch_coef", "settled_coef"):
            stack.parts[name][keys] = self.settings.neutral
        stack.coef[keys] = self.settings.neutral
        if self.settings.min_interval == 1:
            # Only an interval of length 1 starts in round 1.
            rows, columns = np.tril_indices(self._shape.n_coefs)
            stack.n_learners[keys] = 1
            stack.coefs[keys, 0] = self.settings.neutral
            stack.triangles[keys, 0] = np.where(rows == columns, self.settings.ridge, 0.0)
            stack.log_potentials[keys, 0] = -self.log_counts[1]

    def restore(self, stack: KeyStack, keys_with_slots: list[int]) -> None:
        """Compute what is not kept from what is."""
        stack.priors[:] = self._free_prior
        for key in keys_with_slots:
            self.restore_slots(stack, key)
        for key, excess in enumerate(stack.numbers[Number.EXCESS].tolist()):
            if excess > 0.0:
                stack.holds[key] = hold_for(excess)

    def moves(self, stack: KeyStack, active: IntArray, pooled: FloatArray, chosen: list[int]) -> list[float]:
        """Return the total variation between the pooled ratio of some active keys and its mean over the look so far."""
        if len(chosen) < len(active):
            active, pooled = active[chosen], pooled[chosen]
        places, moves = stack.places(active), np.empty(len(chosen))
        n_rounds = np.maximum(stack.numbers[Number.LOOK_ROUNDS][places], 1.0)[:, None]
        coefs, shares = (stack.parts[f"look_{name}"][places] / n_rounds for name in ("coef", "proportions"))
        ratios = self._ratios_at(np.arange(len(chosen)), coefs)
        measure_moves(active, ratios, self.cuts, shares, stack.slot_ratios, pooled, *self._pool_room[1:], moves)
        found: list[float] = moves.tolist()
        return found

    def restore_slots(self, stack: KeyStack, key: int) -> None:
        """Compute the prior of a key, and the ratios of its slots."""
        is_used = tuple((stack.n_merged[key] > 0.0).tolist())
        if is_used not in self._priors:
            self._priors[is_used] = prior_of(np.array(is_used))
        stack.priors[key] = self._priors[is_used]
        for slot in range(sum(is_used)):  # free slots come last
            content = stack.slots[key, slot, :-2].tobytes()
            known = self._known_slots.get(content)
            if known is None:
                known = self.ratios_of_slot(stack.slots[key, slot, :-2].astype(np.float64))
                if len(self._known_slots) >= _MOST_KNOWN_SLOTS:
                    self._known_slots.clear()
                self._known_slots[content] = known
            stack.slot_ratios[key, slot], stack.factors[key, slot] = known


# --- The look back of a key's pool, after 16 rounds or when the ratio has left what it was: remember what has settled,
#     hold back what is not supported


MOST_VISITS = 4  # of a slot: a change is recalled for three looks, so no earlier ones are asked for


def slots_of(stack: KeyStack, key: int) -> Slots:
    """Return the slots of a key in double precision."""
    return Slots(
        coefs=stack.slot_coefs[key].astype(np.float64),
        shares=stack.slot_shares[key].astype(np.float64),
        factors=stack.factors[key].copy(),
        n_merged=stack.n_merged[key].astype(np.int64),
        use=stack.slot_use[key].astype(np.float64),
        visits=stack.visits[key],
    )


def end_looks(
    stack: KeyStack,
    active: IntArray,
    n_rows: IntArray,
    pooled: FloatArray,
    before: FloatArray,
    pool: RatioPool,
    rounds: KeyRounds,
) -> list[int]:
    """Note a round of some keys in their looks, end those that are over, and return the places of these keys.

    Parameters
    ----------
    stack : KeyStack
    active, n_rows : arrays of shape (n_active,)
        The keys, and the rows of their batches.
    pooled : array of shape (n_active, n_reference)
        Their pooled ratios, not held back.
    before : array of shape (n_keys,)
        The log likelihoods of all looks before this round.
    pool : RatioPool
        The pool that all keys share.
    rounds : KeyRounds
    """
    numbers, keys, places = stack.numbers, active.tolist(), stack.places(active)
    of_rounds, of_rows, likelihoods = (
        numbers[each] for each in (Number.LOOK_ROUNDS, Number.LOOK_ROWS, Number.LOG_LIKELIHOOD)
    )
    # Plain numbers and lists: with few keys they take less time than arrays, with many not much more.
    long_enough = [place for place, n in enumerate(of_rows[places].tolist()) if n >= LEAST_ROWS]
    moved = rounds.moves(stack, active, pooled, long_enough) if long_enough else []
    left = [place for place, move in zip(long_enough, moved, strict=True) if move > LARGEST_MOVE]
    proportions = stack.parts["proportions"][places]
    proportions = proportions.copy() if left else proportions
    for key in (keys[place] for place in left):
        # The look ends before this round, which begins the next one.
        surprise, likelihoods[key] = likelihoods[key] - before[key], before[key]
        _look_back(stack, key, pool, rounds, int(numbers[Number.N_ROUNDS, key]) - 1)
        likelihoods[key] = surprise
    stack.parts["look_coef"][places] += stack.coef[places]
    stack.parts["look_proportions"][places] += proportions
    of_rounds[places] += 1.0
    of_rows[places] += n_rows
    whole = [place for place, n in enumerate(of_rounds[places].tolist()) if n == LONGEST_LOOK]
    for key in (keys[place] for place in whole):
        _look_back(stack, key, pool, rounds, int(numbers[Number.N_ROUNDS, key]))
    return left + whole


def _look_back(stack: KeyStack, key: int, pool: RatioPool, rounds: KeyRounds, last_round: int) -> None:
    """Look back at the rounds of a key's look, of which this was the last, in place; begin the next look."""
    n_rounds = np.float32(stack.numbers[Number.LOOK_ROUNDS, key])
    state = _pool_state(stack, key, rounds)
    after = pool.look_back(state, last_round)
    stack.numbers[Number.EXCESS, key] = after.excess
    for number in (Number.LOG_LIKELIHOOD, Number.LOOK_ROUNDS, Number.LOOK_ROWS):
        stack.numbers[number, key] = 0.0
    stack.holds[key] = after.hold
    for name in ("coef", "proportions"):
        stack.parts[f"before_{name}"][key] = stack.parts[f"look_{name}"][key] / n_rounds
        stack.parts[f"look_{name}"][key] = 0.0
    stack.visits[key] = _last_visits(after.slots)
    stack.slot_use[key] = after.slots.use
    if after.slots.coefs is not state.slots.coefs:
        stack.slot_coefs[key] = after.slots.coefs
        stack.slot_shares[key] = after.slots.shares
        stack.n_merged[key] = after.slots.n_merged
        stack.parts["posteriors"][key] = after.filters.posteriors
        stack.parts["counts"][key] = after.filters.counts
        stack.parts["proportions"][key] = after.filters.proportions
        rounds.restore_slots(stack, key)


def _pool_state(stack: KeyStack, key: int, rounds: KeyRounds) -> PoolState:
    """Return the pool of a key as it is before the look, with the sums of its rounds."""
    slot_ratios = stack.slot_ratios[key]
    n_rounds, n_rows = (int(stack.numbers[each, key]) for each in (Number.LOOK_ROUNDS, Number.LOOK_ROWS))

    def mixture(coef: FloatArray, proportions: FloatArray) -> FloatArray:
        means, pooled = np.empty(N_SHAPES), np.empty(slot_ratios.shape[1])
        pool_reference(rounds.ratios_at(coef), rounds.cuts, proportions, slot_ratios, means, pooled)
        return pooled

    coef, proportions, before_coef, before_proportions = (
        np.ascontiguousarray(stack.parts[name][key], dtype=np.float64)
        for name in ("look_coef", "look_proportions", "before_coef", "before_proportions")
    )
    look = LookSums(
        n_rounds=n_rounds,
        n_rows=n_rows,
        coef=coef,
        # A state has no room for the sum itself.
        ratios=n_rounds * mixture(coef / n_rounds, proportions / n_rounds),
        proportions=proportions,
        log_likelihood=float(stack.numbers[Number.LOG_LIKELIHOOD, key]),
        before=mixture(before_coef, before_proportions),
    )
    return PoolState(
        n_rounds=int(stack.numbers[Number.N_ROUNDS, key]),
        coef=stack.coef[key],
        means=stack.parts["means"][key].astype(np.float64),
        prior=stack.priors[key],
        filters=_filters(stack, key, is_cautious=False),
        cautious=_filters(stack, key, is_cautious=True),
        excess=float(stack.numbers[Number.EXCESS, key]),
        hold=float(stack.holds[key]),
        slots=slots_of(stack, key),
        look=look,
        slot_ratios=slot_ratios,
        given_ratios=slot_ratios[:0],
        reference_ratios=look.before,
    )


def _filters(stack: KeyStack, key: int, *, is_cautious: bool) -> Filters:
    return Filters(*(part[key].astype(np.float64) for part in stack.filters[is_cautious]))


def _last_visits(slots: Slots) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the last few visits of each slot, in their order."""
    visits = slots.visits
    is_kept = np.zeros(len(visits), dtype=np.bool_)
    for slot in range(len(slots.use)):
        is_kept[np.flatnonzero(visits[:, 0] == slot)[-MOST_VISITS:]] = True
    return visits[is_kept]
