"""Compiled reading of states: from the numbers of one key, as they are stored, into its row of each array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int64, types, uint16
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, OUT2, OUT3, SINGLE2, SINGLE3, SingleArray, kernel

__all__ = ["read_state"]

_SINGLES = types.Array(float32, 1, "C", readonly=True)
_SHARES = types.Array(uint16, 1, "C", readonly=True)
_SAMPLES = types.Array(uint16, 2, "C")


@kernel(
    types.void,
    *(int64, int64, int64, int64, int64),
    *(IN1, _SINGLES, _SHARES),
    *(OUT2, OUT2, OUT2, OUT2, OUT3),
    *(SINGLE2, SINGLE3, SINGLE3, SINGLE3),
    *(_SAMPLES, _SAMPLES),
)
def read_state(
    key: int,
    n_learners: int,
    n_slots: int,
    is_moved: int,
    is_checked: int,
    doubles: FloatArray,
    stored_singles: SingleArray,
    shares: NDArray[np.uint16],
    numbers: FloatArray,
    coef: FloatArray,
    log_potentials: FloatArray,
    squares: FloatArray,
    predictors: FloatArray,
    singles: SingleArray,
    coefs: SingleArray,
    triangles: SingleArray,
    slots: SingleArray,
    fitted: Any,
    checked: Any,
) -> None:
    """Copy the stored numbers of a key; in numpy, a dozen small copies take longer than the learners' step.

    Parameters
    ----------
    key : int
    n_learners, n_slots : int
        How many learners and slots are stored.
    is_moved, is_checked : int
        Whether a predictor and its shares, and shares of a comparison are stored: 0 or 1.
    doubles, stored_singles, shares : arrays
        The numbers as `accous.keyed.state_format` orders them; what follows in ``doubles`` and ``stored_singles`` is
        left alone.
    numbers, coef, log_potentials, squares, predictors, singles, coefs, triangles, slots, fitted, checked : arrays
        Of `accous.core.keys.stack.KeyStack`.
    """
    at = 0
    for i in range(numbers.shape[0]):
        numbers[i, key] = doubles[at + i]
    at += numbers.shape[0]
    for i in range(coef.shape[1]):
        coef[key, i] = doubles[at + i]
    at += coef.shape[1]
    for i in range(n_learners):
        log_potentials[key, i] = doubles[at + i]
        squares[key, i] = doubles[at + n_learners + i]
    at += 2 * n_learners
    if is_moved:
        for c in range(predictors.shape[1]):
            for i in range(predictors.shape[2]):
                predictors[key, c, i] = doubles[at]
                at += 1
    for i in range(singles.shape[1]):
        singles[key, i] = stored_singles[i]
    at = singles.shape[1]
    for learner in range(n_learners):
        for i in range(coefs.shape[2]):
            coefs[key, learner, i] = stored_singles[at]
            at += 1
    for learner in range(n_learners):
        for i in range(triangles.shape[2]):
            triangles[key, learner, i] = stored_singles[at]
            at += 1
    for slot in range(n_slots):
        for i in range(slots.shape[2]):
            slots[key, slot, i] = stored_singles[at]
            at += 1
    if is_moved:
        for i in range(fitted.shape[1]):
            fitted[key, i] = shares[i]
    if is_checked:
        at = is_moved * fitted.shape[1]
        for i in range(checked.shape[1]):
            checked[key, i] = shares[at + i]
