"""Keys that share a reference: their states as arrays, and the look back of their pools."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import AnyFloats, SingleArray, empty_aligned
from accous.core.ensemble import EnsembleSettings, LearnerKernel, NarrowReference
from accous.core.kernels_keys import Number, restore_keys, settle_keys
from accous.core.kernels_rows import BLOCK
from accous.core.kernels_states import N_HEADER_WORDS
from accous.core.pool import (
    LARGEST_MOVE,
    LEAST_ROWS,
    LONGEST_LOOK,
    N_CAUTIOUS,
    N_SHAPES,
    UNCUT,
    Filters,
    LookSums,
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
MOST_VISITS = 4  # of a slot: a change is recalled for three looks, so no earlier ones are asked for


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
    most_changes : int
        Sizes of a change in progress that a key keeps.
    """

    n_coefs: int
    n_features: int
    n_scores: int
    n_slots: int
    n_reference: int
    most_changes: int

    @property
    def n_candidates(self) -> int:
        """Candidates of the pool: shapes, then slots."""
        return N_SHAPES + self.n_slots

    @property
    def n_weighing(self) -> int:
        """Numbers that weights for a fit are made of: theta, proportions in use, and the share of the weights."""
        return self.n_coefs + self.n_candidates + 1

    @property
    def n_triangle(self) -> int:
        """Numbers in the lower triangle of A."""
        return self.n_coefs * (self.n_coefs + 1) // 2

    @property
    def slot_width(self) -> int:
        """Numbers that a slot keeps: theta, shares of the shapes, looks merged, and use."""
        return self.n_coefs + N_SHAPES + 2

    def count_words(self, sizes: tuple[int, ...]) -> int:
        """Return the length of a state without waiting rows, in words of eight bytes; see ``read_states``."""
        n_learners, n_slots, n_visits, n_changes, is_moved, is_checked = sizes
        doubles = N_HEADER_WORDS + N_NUMBERS + self.n_coefs + 2 * n_learners
        doubles += is_moved * self.n_scores * (self.n_features + 1)
        singles = self.layout.length + n_learners * (self.n_coefs + self.n_triangle)
        singles += n_slots * self.slot_width + n_changes + 3 * n_visits
        singles += (is_moved + is_checked) * self.n_weighing
        return doubles + (singles + 1) // 2

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
    changes : array of shape (n_keys, most_changes)
        Distances of the change in progress, one per look.
    visits : array of shape (n_keys, most_visits, 3)
        As in `accous.core.pool.Slots`.
    predictors : array of shape (n_keys, n_scores, n_features + 1)
        The adapted predictor; that of a key that has not moved is the fixed one.
    fitted, checked : arrays of shape (n_keys, n_weighing)
        What the weights of the last fit, and those of the last comparison were made of, if there was one.
    n_learners, n_visits, n_changes : arrays of shape (n_keys,)
        How many of them are in use.
    is_moved, is_checked : arrays of shape (n_keys,)
        Whether the predictor is another one than the fixed one, and whether it was compared with it.
    priors : array of shape (n_keys, n_candidates)
        Computed, like all that follows.
    holds, surprises : arrays of shape (n_keys,)
        How far each pool is held back, and the mean log likelihood of the rows of the round in progress before it.
    weights, shrunk : arrays of shape (n_keys, n_reference)
        The reference as weighed after the last round, and for a fit; ``weighing``, (n_keys, n_weighing), is what the
        latter are made of.
    factors, slot_ratios : arrays of shape (n_keys, n_slots, ...)
        What each slot multiplies the shapes by, and its ratio of the reference.
    room : array
        Bytes for the largest states that these keys can have without waiting rows.
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
    changes: SingleArray
    visits: np.ndarray[tuple[int, int, int], np.dtype[np.int32]]
    predictors: FloatArray
    fitted: SingleArray
    checked: SingleArray
    n_learners: IntArray
    n_visits: IntArray
    n_changes: IntArray
    is_moved: np.ndarray[tuple[int], np.dtype[np.bool_]]
    is_checked: np.ndarray[tuple[int], np.dtype[np.bool_]]
    priors: FloatArray
    holds: FloatArray
    surprises: FloatArray
    weights: FloatArray
    shrunk: FloatArray
    weighing: FloatArray
    factors: FloatArray
    slot_ratios: FloatArray
    room: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.coef)

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
            log_likelihoods=self.surprises,
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
            factors=self.factors,
        )

    @cached_property
    def keys(self) -> IntArray:
        """The places of all keys."""
        return np.arange(len(self))

    @cached_property
    def workspace(self) -> tuple[FloatArray, Any]:
        """Room for gradients and learners of a round."""
        n_keys, most, d = self.coefs.shape
        return np.empty((n_keys, most + 1, d)), LearnerKernel.make_room(self.arrays.of_learners)

    @cached_property
    def stored(self) -> tuple[Any, ...]:
        """What a state keeps, in the order in which the compiled loops take it."""
        doubles = self.numbers, self.coef, self.log_potentials, self.squares, self.predictors
        singles = self.singles, self.coefs, self.triangles, self.slots, self.changes
        others = self.visits, self.fitted, self.checked, self.n_learners, self.n_visits, self.n_changes
        return (*doubles, *singles, *others, self.is_moved, self.is_checked)

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

    def clear(self, keys: IntArray) -> None:
        """Forget some keys. What only learners, slots and visits in use have stays."""
        self.numbers[:, keys] = 0.0
        self.singles[keys] = self.slots[keys] = 0.0
        self.n_learners[keys] = self.n_visits[keys] = self.n_changes[keys] = 0
        self.is_moved[keys] = self.is_checked[keys] = False


def make_stack(shape: KeyShape, n_keys: int, most_learners: int) -> KeyStack:
    """Return a stack of zeros."""
    d, n_slots = shape.n_coefs, shape.n_slots
    most = most_learners, n_slots, MOST_VISITS * n_slots, shape.most_changes, 1, 1
    slot_ratios = empty_aligned(n_keys, n_slots, shape.n_reference)
    slot_ratios[...] = 0.0
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
        changes=np.zeros((n_keys, shape.most_changes), dtype=np.float32),
        visits=np.zeros((n_keys, MOST_VISITS * n_slots, 3), dtype=np.int32),
        predictors=np.zeros((n_keys, shape.n_scores, shape.n_features + 1)),
        fitted=np.zeros((n_keys, shape.n_weighing), dtype=np.float32),
        checked=np.zeros((n_keys, shape.n_weighing), dtype=np.float32),
        n_learners=np.zeros(n_keys, dtype=np.int64),
        n_visits=np.zeros(n_keys, dtype=np.int64),
        n_changes=np.zeros(n_keys, dtype=np.int64),
        is_moved=np.zeros(n_keys, dtype=np.bool_),
        is_checked=np.zeros(n_keys, dtype=np.bool_),
        priors=np.zeros((n_keys, shape.n_candidates)),
        holds=np.zeros(n_keys),
        surprises=np.zeros(n_keys),
        weights=empty_aligned(n_keys, shape.n_reference),
        shrunk=empty_aligned(n_keys, shape.n_reference),
        weighing=np.empty((n_keys, shape.n_weighing)),
        factors=np.zeros((n_keys, n_slots, N_SHAPES)),
        slot_ratios=slot_ratios,
        room=np.empty(8 * n_keys * shape.count_words(most), dtype=np.uint8),
    )


# --- The rounds of keys: those of `accous.core.round`, and what is computed before the first one


class KeyRounds(CompiledRound):
    """Runs the rounds of keys that share a reference.

    Parameters
    ----------
    settings : EnsembleSettings
    gradient_reference : NarrowReference
        The reference rows that gradients are summed over.
    reference : NarrowReference
        All reference rows.
    base_weight : array of shape (n_reference,)
        Of its rows.
    max_ratio : float
    shape : KeyShape
    rules : tuple of float
        See `accous.core.kernels_keys.settle_keys`, like the next one.
    of_inputs : tuple of float
        The last two of its ``of_looks``.
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        gradient_reference: NarrowReference,
        reference: NarrowReference,
        base_weight: FloatArray,
        max_ratio: float,
        shape: KeyShape,
        rules: tuple[float, ...],
        of_inputs: tuple[float, float],
    ) -> None:
        super().__init__(
            settings, gradient_reference, reference, max_ratio, shape.layout, shape.n_slots, is_single=True
        )
        self._shape, self._of_looks = shape, (LEAST_ROWS, LARGEST_MOVE, LONGEST_LOOK, *of_inputs)
        self._base, self._max_ratio = np.ascontiguousarray(base_weight), max_ratio
        # Workspace: the loop keeps Python's lock, so that threads may share it.
        self._settle_room = empty_aligned(3, self._n_reference), empty_aligned(4, len(reference.blocks), BLOCK)
        self._look_places = np.array([shape.layout.parts[name][0] for name in ("look_coef", "look_proportions")])
        self._rules, self.pool = rules, RatioPool(reference, max_ratio, shape.n_slots)
        # By the number of slots in use: free ones come last.
        self._priors = np.array([prior_of(np.arange(shape.n_slots) < n) for n in range(shape.n_slots + 1)])

    def start(self, stack: KeyStack, keys: IntArray) -> None:
        """Write the state before the first round for some keys of a stack of zeros."""
        filters, cautious = start_filters(self._priors[0]), start_filters(cautious_prior(0))
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

    def restore(self, stack: KeyStack, keys: IntArray) -> None:
        """Compute what is not kept of some keys from what is."""
        targets = stack.numbers, stack.holds, stack.priors, stack.factors, stack.slot_ratios
        restore_keys(keys, self._reference.blocks, self.cuts, UNCUT, stack.slots, self._priors, *targets)

    def settle(self, stack: KeyStack, keys: IntArray, starts: IntArray, is_long: FloatArray) -> tuple[int, IntArray]:
        """Weigh the reference by the pooled ratio of some keys after their round, and say what is due.

        Parameters
        ----------
        stack : KeyStack
        keys : array of shape (n_here,)
        starts, is_long : arrays
            The rows of the round; none for one that has been counted.

        Returns
        -------
        all_due : int
        due : array of shape (n_here,)
            See `accous.core.kernels_keys.settle_keys`.
        """
        due = np.empty(len(keys), dtype=np.int64)
        of_rounds = keys, starts, is_long, self._reference.blocks, self.cuts, self._base, UNCUT, self._max_ratio
        of_looks = self._places, self._look_places, N_CAUTIOUS, self._of_looks, self._rules
        of_keys = stack.numbers, stack.coef, stack.singles, stack.surprises, stack.holds, stack.slot_ratios
        of_fits = stack.fitted, stack.checked, stack.is_moved, stack.is_checked
        weights = stack.weights, stack.shrunk, stack.weighing
        return settle_keys(*of_rounds, *of_looks, *of_keys, *of_fits, *weights, *self._settle_room, due), due

    def weights_of(self, stack: KeyStack, key: int, weighing: AnyFloats) -> FloatArray:
        """Return weights of the reference, given what they were made of."""
        n = self._n_coefs
        weighing = weighing.astype(np.float64)
        mixed = self.pool.mixture_at(weighing[:n], weighing[n:-1], stack.slot_ratios[key])
        weights = self._base * np.minimum(mixed, self._max_ratio)
        weights *= self._base.sum() / weights.sum()
        share = float(weighing[-1])
        found: FloatArray = share * weights + (1.0 - share) * self._base
        return found

    def weighing_now(self, stack: KeyStack, key: int) -> FloatArray:
        """Return what the weights of a key are made of."""
        hold, shares = stack.holds[key], stack.parts["proportions"][key].astype(np.float64)
        if hold:
            shares *= 1.0 - hold
            shares[:N_CAUTIOUS] += hold * stack.parts["cautious_proportions"][key]
        return np.concatenate((stack.coef[key], shares, [1.0]))


# --- The look back of a key's pool, after 16 rounds or when the ratio has left what it was: remember what has settled,
#     hold back what is not supported


def slots_of(stack: KeyStack, key: int) -> Slots:
    """Return the slots of a key in double precision."""
    return Slots(
        coefs=stack.slot_coefs[key].astype(np.float64),
        shares=stack.slot_shares[key].astype(np.float64),
        factors=stack.factors[key].copy(),
        n_merged=stack.n_merged[key].astype(np.int64),
        use=stack.slot_use[key].astype(np.float64),
        visits=stack.visits[key, : stack.n_visits[key]].astype(np.int64),
    )


def end_look(stack: KeyStack, key: int, n_rows: int, rounds: KeyRounds, *, is_left: bool) -> None:
    """End the look of a key after a round: with this round, or, if its ratio has left, before it."""
    numbers, parts = stack.numbers, stack.parts
    proportions = parts["proportions"][key].copy()  # a look back may take some from a slot that it overwrites
    _look_back(stack, key, int(numbers[Number.N_ROUNDS, key]) - is_left, rounds)
    numbers[Number.LOOK_ROUNDS, key], numbers[Number.LOOK_ROWS, key] = is_left, n_rows * is_left
    numbers[Number.LOG_LIKELIHOOD, key], stack.surprises[key] = stack.surprises[key], 0.0
    parts["look_coef"][key] = stack.coef[key] if is_left else 0.0
    parts["look_proportions"][key] = proportions if is_left else 0.0


def _look_back(stack: KeyStack, key: int, last_round: int, rounds: KeyRounds) -> None:
    """Look back at the look of a key, which ends with this round, in place."""
    numbers, parts = stack.numbers, stack.parts
    n_rounds, slot_ratios = numbers[Number.LOOK_ROUNDS, key], stack.slot_ratios[key]
    means = coef, proportions = parts["look_coef"][key] / n_rounds, parts["look_proportions"][key] / n_rounds
    coef_before, shares_before = (parts[f"before_{name}"][key].astype(np.float64) for name in ("coef", "proportions"))
    look = LookSums(
        n_rounds=int(n_rounds),
        n_rows=int(numbers[Number.LOOK_ROWS, key]),
        coef=coef,
        proportions=proportions,
        log_likelihood=float(numbers[Number.LOG_LIKELIHOOD, key] / n_rounds),
        before=rounds.pool.mixture_at(
            coef_before, shares_before, slot_ratios
        ),  # a state has no room for the ratio itself
    )
    slots, excess = slots_of(stack, key), float(numbers[Number.EXCESS, key])
    found = rounds.pool.remember(look, slots, slot_ratios, excess, last_round)
    numbers[Number.EXCESS, key], stack.holds[key] = found.excess, hold_for(found.excess)
    visits = _last_visits(found.slots)
    stack.slot_use[key], stack.n_visits[key], stack.visits[key, : len(visits)] = found.slots.use, len(visits), visits
    if found.put is not None:
        stack.slot_coefs[key], stack.slot_shares[key] = found.slots.coefs, found.slots.shares
        stack.n_merged[key] = found.slots.n_merged
        rounds.restore(stack, np.array([key]))
        if not found.is_same:
            filters = _filters(stack, key).without(N_SHAPES + found.put, stack.priors[key])
            for name in ("posteriors", "counts", "proportions"):
                parts[name][key] = getattr(filters, name)
    parts["before_coef"][key], parts["before_proportions"][key] = means


def _filters(stack: KeyStack, key: int) -> Filters:
    names = "filter_weights", "posteriors", "counts", "proportions"
    return Filters(*(stack.parts[name][key].astype(np.float64) for name in names))


def _last_visits(slots: Slots) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the last few visits of each slot, in their order."""
    visits = slots.visits
    if np.bincount(visits[:, 0], minlength=1).max() <= MOST_VISITS:
        return visits
    is_kept = np.zeros(len(visits), dtype=np.bool_)
    for slot in range(len(slots.use)):
        is_kept[np.flatnonzero(visits[:, 0] == slot)[-MOST_VISITS:]] = True
    return visits[is_kept]
