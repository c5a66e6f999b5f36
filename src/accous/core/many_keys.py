"""A round of many keys that share a reference: their states as arrays, and the rounds that they run together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import SingleArray
from accous.core.ensemble import SMALLEST_RELATIVE_RANGE, EnsembleSettings, NarrowReference, log_intervals
from accous.core.kernels_learners import play_learners_of_keys
from accous.core.kernels_pool import filter_batches_of_keys, mix_shapes, pool_reference, pool_references_of_keys
from accous.core.kernels_rows import BLOCK, evaluate_ratios_of_keys, read_batches_of_keys
from accous.core.learners import project_onto_ball
from accous.core.pool import (
    DECAYS,
    FILTER_SHARE,
    FLOOR,
    LONGEST_LOOK,
    N_SHAPES,
    PRIOR_COUNT,
    SWITCHING,
    UNCUT,
    Filters,
    LookSums,
    PoolState,
    RatioPool,
    Slots,
    cautious_prior,
    hold_for,
    prior_of,
    shape_cuts,
    start_filters,
)

# --- What the keys of one call keep between rounds, and what is computed from it: arrays whose first axis is
#     the key


N_CAUTIOUS = 3
"""Candidates of the cautious filters: 1, the square root of the ratio, and the ratio."""
N_EVENT_COLUMNS = 5
NO_VISITS: IntArray = np.zeros((0, 3), dtype=np.int64)
_N_FILTERS = len(SWITCHING) + len(DECAYS)


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
    EVENT_COLUMNS = 29  # and the next four


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
    def single_parts(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Where each array in single precision starts in the row of a key, and its shape."""
        n_switching, n_decays, n_all = len(SWITCHING), len(DECAYS), self.n_candidates
        shapes: dict[str, tuple[int, ...]] = {
            "filter_weights": (_N_FILTERS,),
            "posteriors": (n_switching, n_all),
            "counts": (n_decays, n_all),
            "cautious_weights": (_N_FILTERS,),
            "cautious_posteriors": (n_switching, N_CAUTIOUS),
            "cautious_counts": (n_decays, N_CAUTIOUS),
            "proportions": (n_all,),
            "cautious_proportions": (N_CAUTIOUS,),
            "means": (N_SHAPES,),
            "look_coef": (self.n_coefs,),
            "look_proportions": (n_all,),
            "before_coef": (self.n_coefs,),
            "before_proportions": (n_all,),
            "watch_coef": (self.n_coefs,),
            "settled_coef": (self.n_coefs,),
            "column_parts": (self.n_features,),
        }
        parts, start = {}, 0
        for name, shape in shapes.items():
            parts[name] = start, shape
            start += math.prod(shape)
        return parts

    @cached_property
    def n_singles(self) -> int:
        """Length of the row of a key in single precision."""
        start, shape = list(self.single_parts.values())[-1]
        return start + math.prod(shape)


@dataclass(frozen=True, kw_only=True)
class KeyStack:
    """Keys that play rounds together.

    Attributes
    ----------
    shape : KeyShape
    numbers : array of shape (n_numbers, n_keys)
        See `Number`.
    coef : array of shape (n_keys, d)
        The ensemble's theta.
    singles : array of shape (n_keys, n_singles)
        See ``KeyShape.single_parts``; ``part`` returns one of them.
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
        found = {}
        for name, (start, shape) in self.shape.single_parts.items():
            of_keys = self.singles[:, start : start + math.prod(shape)]
            found[name] = of_keys.reshape(len(of_keys), *shape)
        return found

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
        singles=np.zeros((n_keys, shape.n_singles), dtype=np.float32),
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


# --- One round of many keys that share a reference: filters, learners, ratios and the pooled ratio of each key


_RATES = (SWITCHING, DECAYS, FLOOR, FILTER_SHARE, PRIOR_COUNT)
_MOST_BITS = 64
_MOST_KNOWN_SLOTS = 256
_OUTSIDE = 1.0 + 1e-6  # times the radius: beyond the rounding of a point on the surface


class KeyRounds:
    """Plays the rounds of keys that share a reference.

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
        self._settings, self._shape = settings, shape
        self._gradient_reference, self._reference = gradient_reference, reference
        self.cuts = shape_cuts(max_ratio)
        # ln K, by the number of binary digits of the round.
        self._log_counts = np.array(
            [log_intervals(bits, settings.horizon, settings.min_interval) for bits in range(_MOST_BITS)]
        )
        self._priors: dict[tuple[bool, ...], FloatArray] = {}
        # Slots change every 16 rounds at most: a process that sees a key again soon need not compute them again.
        self._known_slots: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        self._free_prior = prior_of(np.zeros(shape.n_slots, dtype=np.bool_))
        self._cautious_priors = np.tile(cautious_prior(0)[:N_CAUTIOUS], (1, 1))
        # Workspace of single kernels: whoever calls one writes there first, so that threads may share it.
        d, n_filters = shape.n_coefs, len(SWITCHING) + len(DECAYS)
        self._room = settings.neutral, np.empty((d + 3, d)), np.empty((1, d, d)), np.empty((1, d))
        self._scores = np.empty((max(2, gradient_reference.blocks.shape[0]), BLOCK))
        self._pool_room = np.empty(N_SHAPES), np.empty(N_SHAPES), np.empty(shape.n_reference)
        self._filter_room = {
            n: (np.empty(n), np.empty(n_filters), np.empty((len(SWITCHING), n)), np.empty((len(DECAYS), n)))
            for n in (shape.n_candidates, N_CAUTIOUS)
        }

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
            stack.parts[name][keys] = self._settings.neutral
        stack.coef[keys] = self._settings.neutral
        if self._settings.min_interval == 1:
            # Only an interval of length 1 starts in round 1.
            rows, columns = np.tril_indices(self._shape.n_coefs)
            stack.n_learners[keys] = 1
            stack.coefs[keys, 0] = self._settings.neutral
            stack.triangles[keys, 0] = np.where(rows == columns, self._settings.ridge, 0.0)
            stack.log_potentials[keys, 0] = -self._log_counts[1]

    def restore(self, stack: KeyStack, keys_with_slots: list[int]) -> None:
        """Compute what is not kept from what is."""
        stack.priors[:] = self._free_prior
        for key in keys_with_slots:
            self.restore_slots(stack, key)
        for key, excess in enumerate(stack.numbers[Number.EXCESS].tolist()):
            if excess > 0.0:
                stack.holds[key] = hold_for(excess)

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
                known = self._ratios_of_slot(stack.slots[key, slot, :-2].astype(np.float64))
                if len(self._known_slots) >= _MOST_KNOWN_SLOTS:
                    self._known_slots.clear()
                self._known_slots[content] = known
            stack.slot_ratios[key, slot], stack.factors[key, slot] = known

    def _ratios_of_slot(self, slot: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a slot's ratios of the reference, and what it multiplies the shapes by."""
        coef, shares = slot[: self._shape.n_coefs], slot[self._shape.n_coefs :]
        ratios, means = self._ratios_at(np.zeros(1, dtype=np.int64), coef[None]), np.empty(N_SHAPES)
        mixed = np.empty(self._shape.n_reference)
        mix_shapes(ratios[0, : len(mixed)], self.cuts, np.ascontiguousarray(shares), means, mixed)
        return mixed, shares / means

    def run(
        self, stack: KeyStack, active: IntArray, batch: FloatArray, starts: IntArray, step_sizes: FloatArray
    ) -> FloatArray:
        """Play a round of each active key, in place, and return the ratios of the reference at the new thetas.

        Parameters
        ----------
        stack : KeyStack
        active : array of shape (n_active,)
        batch : array of shape (n_rows, d)
            Features of all rows, one key after the other.
        starts : array of shape (n_active + 1,)
            Where the rows of each key begin; each has at least one.
        step_sizes : array of shape (n_active,)

        Returns
        -------
        array of shape (n_active, n_padded)
        """
        n_slots, most = self._shape.n_slots, stack.coefs.shape[1]
        reference = self._gradient_reference
        gradients = np.empty((len(active), most + 1, self._shape.n_coefs))
        ratios, slot_ratios = np.empty(len(batch)), np.empty((n_slots, len(batch)))
        read_batches_of_keys(
            active,
            reference.blocks,
            batch,
            starts,
            stack.coefs,
            stack.n_learners,
            stack.coef,
            stack.slot_coefs,
            stack.n_merged,
            -0.5 / len(reference.features),
            UNCUT,
            np.empty((most + 1, self._shape.n_coefs)),
            self._scores,
            gradients,
            ratios,
            slot_ratios,
        )
        self._judge(stack, active, starts, ratios, slot_ratios)
        self._learn(stack, active, gradients, step_sizes)
        places = stack.places(active)
        stack.parts["look_coef"][places] += stack.coef[places].astype(np.float32)
        stack.parts["look_proportions"][places] += stack.filters[0][-1][places]
        return self.ratios(stack, active)

    def ratios(self, stack: KeyStack, active: IntArray) -> FloatArray:
        """Return the ratios of the reference at the theta of each key, with padding."""
        return self._ratios_at(active, stack.coef)

    def _ratios_at(self, indices: IntArray, coefs: FloatArray) -> FloatArray:
        blocks = self._reference.blocks
        ratios = np.empty((len(indices), blocks.shape[0], BLOCK))
        evaluate_ratios_of_keys(indices, blocks, coefs, UNCUT, ratios)
        return ratios.reshape(len(indices), -1)

    def pool(self, stack: KeyStack, active: IntArray, ratios: FloatArray) -> FloatArray:
        """Return the pooled ratio of the reference in use, (n_active, n_reference), given what ``ratios`` returns."""
        pooled = np.empty((len(active), self._shape.n_reference))
        pool_references_of_keys(
            active,
            ratios,
            self.cuts,
            stack.parts["proportions"],
            stack.parts["cautious_proportions"],
            stack.holds,
            stack.slot_ratios,
            *self._pool_room,
            stack.parts["means"],
            pooled,
        )
        return pooled

    def _judge(
        self, stack: KeyStack, active: IntArray, starts: IntArray, ratios: FloatArray, slot_ratios: FloatArray
    ) -> None:
        """Update the filters by the ratios of the batch, before anything learns from it."""
        n_keys, n_all = len(stack.coef), self._shape.n_candidates
        if len(self._cautious_priors) < n_keys:
            self._cautious_priors = np.tile(self._cautious_priors[:1], (n_keys, 1))
        likelihoods = np.empty((len(ratios), n_all))
        log_likelihoods = stack.numbers[Number.LOG_LIKELIHOOD], np.empty(n_keys)
        for filters, priors, added in zip(
            stack.filters, (stack.priors, self._cautious_priors), log_likelihoods, strict=True
        ):
            filter_batches_of_keys(
                active,
                starts,
                ratios,
                slot_ratios,
                self.cuts,
                stack.parts["means"],
                stack.factors,
                priors,
                *filters,
                *_RATES,
                likelihoods,
                *self._filter_room[priors.shape[1]],
                added,
            )

    def _learn(self, stack: KeyStack, active: IntArray, gradients: FloatArray, step_sizes: FloatArray) -> None:
        """Make the steps of the learners, and open the next round."""
        settings, marks = self._settings, np.zeros(len(stack.coef))
        play_learners_of_keys(
            active,
            gradients,
            stack.numbers[Number.N_ROUNDS],
            stack.n_learners,
            stack.numbers[Number.LARGEST_MARGIN],
            stack.coefs,
            stack.triangles,
            stack.log_potentials,
            stack.squares,
            stack.coef,
            step_sizes,
            settings.radius,
            settings.margin_bound,
            settings.has_running_range,
            SMALLEST_RELATIVE_RANGE * settings.margin_bound,
            self._log_counts,
            settings.ridge,
            settings.min_interval,
            settings.start == "ensemble",
            settings.start == "handover",
            *self._room,
            np.empty(stack.coefs.shape[1]),
            marks,
        )
        if marks.any():
            for key in np.flatnonzero(marks).tolist():
                self._project(stack, key)

    def _project(self, stack: KeyStack, key: int) -> None:
        """Bring learners back into the ball whose matrix is too badly conditioned for the compiled projection."""
        d = self._shape.n_coefs
        rows, columns = np.tril_indices(d)
        for learner in range(int(stack.n_learners[key])):
            point = stack.coefs[key, learner].astype(np.float64)
            if point @ point > (_OUTSIDE * self._settings.radius) ** 2:
                matrix = np.empty((1, d, d))
                matrix[0, rows, columns] = matrix[0, columns, rows] = stack.triangles[key, learner]
                # A state that somebody else wrote may hold a matrix that is not positive; its theta is then no number.
                with np.errstate(all="ignore"):
                    stack.coefs[key, learner] = project_onto_ball(point[None], matrix, self._settings.radius)[0][0]


def count_learners(this_round: int, min_interval: int) -> int:
    """Return how many intervals are active in a round.

    Examples
    --------
    >>> from accous.core.many_keys import count_learners
    >>> [count_learners(this_round, min_interval=4) for this_round in (3, 4, 20)]
    [0, 1, 3]
    """
    return max(0, this_round.bit_length() - min_interval.bit_length() + 1)


# --- The look back of a key's pool, every 16 rounds: remember what has settled, hold back what is not supported


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


def look_back(stack: KeyStack, key: int, pool: RatioPool, rounds: KeyRounds, reference: NarrowReference) -> None:
    """Look back at the last 16 rounds of a key, in place.

    Parameters
    ----------
    stack : KeyStack
    key : int
    pool : RatioPool
        The pool that all keys share.
    rounds : KeyRounds
    reference : NarrowReference
        All reference rows.
    """
    state = _pool_state(stack, key, rounds.cuts, reference)
    after = pool.look_back(state, state.n_rounds)
    stack.numbers[Number.EXCESS, key] = after.excess
    stack.numbers[Number.LOG_LIKELIHOOD, key] = 0.0
    stack.holds[key] = after.hold
    stack.parts["before_coef"][key] = stack.parts["look_coef"][key] / np.float32(LONGEST_LOOK)
    stack.parts["before_proportions"][key] = stack.parts["look_proportions"][key] / np.float32(LONGEST_LOOK)
    stack.parts["look_coef"][key] = 0.0
    stack.parts["look_proportions"][key] = 0.0
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


def _pool_state(stack: KeyStack, key: int, cuts: FloatArray, reference: NarrowReference) -> PoolState:
    """Return the pool of a key as it is before the look, with the sums of its rounds."""
    slot_ratios = stack.slot_ratios[key]

    def mixture(coef: FloatArray, proportions: FloatArray) -> FloatArray:
        means, pooled = np.empty(N_SHAPES), np.empty(len(reference.features))
        pool_reference(reference.ratios(coef, UNCUT), cuts, proportions, slot_ratios, means, pooled)
        return pooled

    coef, proportions, before_coef, before_proportions = (
        np.ascontiguousarray(stack.parts[name][key], dtype=np.float64)
        for name in ("look_coef", "look_proportions", "before_coef", "before_proportions")
    )
    look = LookSums(
        n_rounds=LONGEST_LOOK,
        n_rows=LONGEST_LOOK,  # at least; they are not counted, because this look never ends early
        coef=coef,
        ratios=LONGEST_LOOK * mixture(coef / LONGEST_LOOK, proportions / LONGEST_LOOK),
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
