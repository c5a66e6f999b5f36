"""What the keys of one call keep between rounds, and what is computed from it: arrays whose first axis is the key.

Everything that is kept has the precision in which it is stored, also between two rounds of one call. A key that is
stored and read again therefore goes on with the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.fast.compiled import SingleArray
from accous.core.pool.filters import DECAYS, SWITCHING
from accous.core.pool.shapes import N_SHAPES

__all__ = ["N_CAUTIOUS", "N_EVENT_COLUMNS", "N_NUMBERS", "KeyShape", "KeyStack", "Number", "make_stack"]

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
        As in `accous.core.pool.memory.Slots`.
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
