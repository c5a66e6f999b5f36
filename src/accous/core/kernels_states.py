"""Compiled reading and writing of the states of keys: between their numbers, as they are stored, and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int32, int64, types
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import (
    COUNTS,
    IN2,
    KEYS,
    OUT2,
    OUT3,
    SINGLE2,
    SINGLE3,
    SingleArray,
    inlined,
    kernel,
    merged,
)

# --- Compiled reading and writing of states: between the numbers of keys, as they are stored, and their arrays


N_HEADER_WORDS = 5  # of eight bytes
N_SIZES = 6
_WORDS = tuple(types.Array(kind, 1, "C", readonly=True) for kind in (float64, float32, int32))
_ROOM = tuple(types.Array(kind, 2, "C") for kind in (float64, float32, int32))
_FLAGS = types.Array(boolean, 1, "C")
_SINGLE_LIMITS = types.Array(float32, 2, "C", readonly=True)
_RANGES = types.Array(int64, 2, "C", readonly=True)
_OF_STACK = (
    *(OUT2, OUT2, OUT2, OUT2, OUT3),
    *(SINGLE2, SINGLE3, SINGLE3, SINGLE3, SINGLE2, types.Array(int32, 3, "C")),
    *(SINGLE2, SINGLE2),
    *(COUNTS, COUNTS, COUNTS, _FLAGS, _FLAGS),
)


@kernel(
    *(int64, KEYS, _RANGES, KEYS, *_WORDS, IN2, IN2, _SINGLE_LIMITS, _RANGES),
    *(float64, float64, float64, float64, int64, *_OF_STACK),
)
def read_states(
    keys: IntArray,
    sizes: IntArray,
    begins: IntArray,
    doubles: FloatArray,
    singles: SingleArray,
    integers: NDArray[np.int32],
    of_numbers: FloatArray,
    orders: FloatArray,
    of_parts: SingleArray,
    ranges: IntArray,
    radius: float,
    largest: float,
    largest_single: float,
    rounding: float,
    min_interval: int,
    numbers: FloatArray,
    coef: FloatArray,
    log_potentials: FloatArray,
    squares: FloatArray,
    predictors: FloatArray,
    parts: SingleArray,
    coefs: SingleArray,
    triangles: SingleArray,
    slots: SingleArray,
    changes: SingleArray,
    visits: NDArray[np.int32],
    fitted: SingleArray,
    checked: SingleArray,
    n_learners: IntArray,
    n_visits: IntArray,
    n_changes: IntArray,
    is_moved: Any,
    is_checked: Any,
) -> int:
    """Copy the stored numbers of some keys; in numpy, a dozen small copies of one key take longer than its round.

    Parameters
    ----------
    keys : array of shape (n_states,)
    sizes : array of shape (n_states, N_SIZES)
        Learners, slots, visits and sizes of a change that are stored, and whether a predictor and what its weights
        were made of is, and what those of a comparison were.
    begins : array of shape (n_states,)
        Where each state begins, in words of eight bytes.
    doubles, singles, integers : arrays
        All states, one after the other, as numbers of each type.
    of_numbers : array of shape (4, n_numbers)
        Lowest and highest values, and 1 for numbers that may be NaN, and for those that are whole.
    orders : array of shape (n_orders, 3)
        Two numbers, of which the first is at most the second times the third.
    of_parts : array of shape (2, n_parts)
        Lowest and highest values.
    ranges : array of shape (n_ranges, 2)
        Where parts begin and end whose sum is 1.
    radius, largest, largest_single, rounding : float
        The largest coordinate of a theta, the largest other numbers of either precision, and how far shares and their
        sums may be off.
    min_interval : int
    numbers, coef, log_potentials, squares, predictors, parts, coefs, triangles, slots, changes, visits : arrays
        Of `accous.core.many_keys.KeyStack`, like all that follow.

    Returns
    -------
    int
        The first state that has a count or number that no rounds lead to, which is read in part; -1 for none.
    """
    n_numbers, n_coefs = numbers.shape[0], coef.shape[1]
    for s in range(keys.shape[0]):
        key, at = keys[s], begins[s] + N_HEADER_WORDS
        n_here, n_used, n_seen, n_looks = sizes[s, 0], sizes[s, 1], sizes[s, 2], sizes[s, 3]
        first = doubles[at : at + n_numbers]
        if not _are_numbers(first, of_numbers, orders):
            return s
        next_round, n_active = np.int64(first[0]) + 1, 0
        while next_round >= min_interval:
            next_round >>= 1
            n_active += 1
        if n_here != n_active or n_here > coefs.shape[1] or n_used > slots.shape[1]:
            return s
        if n_seen > visits.shape[1] or n_looks > changes.shape[1] or max(sizes[s, 4], sizes[s, 5]) > 1:
            return s
        n_learners[key], n_visits[key], n_changes[key] = n_here, n_seen, n_looks
        is_moved[key], is_checked[key] = sizes[s, 4] == 1, sizes[s, 5] == 1
        for i in range(n_numbers):
            numbers[i, key] = first[i]
        at += n_numbers
        are_kept = _copy(doubles, at, coef[key], -radius, radius)
        at += n_coefs
        are_kept &= _copy(doubles, at, log_potentials[key, :n_here], -largest, largest)
        at += n_here
        are_kept &= _copy(doubles, at, squares[key, :n_here], 0.0, largest)
        at += n_here
        if is_moved[key]:
            for c in range(predictors.shape[1]):
                are_kept &= _copy(doubles, at, predictors[key, c], -largest, largest)
                at += predictors.shape[2]
        at *= 2
        for i in range(parts.shape[1]):
            value = singles[at + i]
            are_kept &= of_parts[0, i] <= value <= of_parts[1, i]
            parts[key, i] = value
        for k in range(ranges.shape[0]):
            are_kept &= _are_shares(parts[key, ranges[k, 0] : ranges[k, 1]], rounding)
        at += parts.shape[1]
        for learner in range(n_here):
            are_kept &= _copy(singles, at, coefs[key, learner], -radius, radius)
            at += n_coefs
        for learner in range(n_here):
            are_kept &= _copy(singles, at, triangles[key, learner], -largest_single, largest_single)
            at += triangles.shape[2]
        width = slots.shape[2]
        for slot in range(slots.shape[1]):
            of_slot = slots[key, slot]
            if slot >= n_used:
                for i in range(width):
                    of_slot[i] = 0.0
                continue
            are_kept &= _copy(singles, at, of_slot[:n_coefs], -radius, radius)
            are_kept &= _copy(singles, at + n_coefs, of_slot[n_coefs : width - 2], 0.0, 1.0 + rounding)
            are_kept &= _are_shares(of_slot[n_coefs : width - 2], rounding)
            # A slot that is kept is in use: at least one look was merged into it.
            are_kept &= _copy(singles, at + width - 2, of_slot[width - 2 : width - 1], 1.0, largest_single)
            are_kept &= _copy(singles, at + width - 1, of_slot[width - 1 :], 0.0, largest_single)
            at += width
        are_kept &= _copy(singles, at, changes[key, :n_looks], 0.0, 1.0 + rounding)
        at += n_looks
        for visit in range(n_seen):
            for i in range(3):
                value = integers[at]
                are_kept &= value >= 0 and (i > 0 or value < slots.shape[1])
                visits[key, visit, i] = value
                at += 1
        if is_moved[key]:
            are_kept &= _copy_weighing(singles, at, fitted[key], n_coefs, radius, rounding)
            at += fitted.shape[1]
        if is_checked[key]:
            are_kept &= _copy_weighing(singles, at, checked[key], n_coefs, radius, rounding)
        if not are_kept:
            return s
    return -1


@merged
def _are_numbers(numbers: FloatArray, limits: FloatArray, orders: FloatArray) -> bool:
    """Whether the numbers of a key are within their limits, whole, and in order."""
    for i in range(numbers.shape[0]):
        value = numbers[i]
        if not limits[0, i] <= value <= limits[1, i] and not (limits[2, i] > 0.0 and math.isnan(value)):
            return False
        if limits[3, i] > 0.0 and value != math.floor(value):
            return False
    for k in range(orders.shape[0]):
        if numbers[np.int64(orders[k, 0])] > numbers[np.int64(orders[k, 1])] * orders[k, 2]:
            return False
    return True


@inlined
def _copy(stored: Any, start: int, target: Any, low: float, high: float) -> bool:
    """Copy numbers of any type; return whether they are within their limits."""
    is_within = True
    for i in range(target.shape[0]):
        value = stored[start + i]
        is_within &= low <= value <= high
        target[i] = value
    return is_within


@inlined
def _copy_weighing(
    stored: SingleArray, start: int, target: SingleArray, n_coefs: int, radius: float, rounding: float
) -> bool:
    """Copy what weights were made of: theta, proportions, and a share."""
    last = target.shape[0] - 1
    are_kept = _copy(stored, start, target[:n_coefs], -radius, radius)
    are_kept &= _copy(stored, start + n_coefs, target[n_coefs:], 0.0, 1.0 + rounding)
    return are_kept and _are_shares(target[n_coefs:last], rounding)


@inlined
def _are_shares(shares: SingleArray, rounding: float) -> bool:
    total = 0.0
    for i in range(shares.shape[0]):
        total += shares[i]
    return abs(total - 1.0) <= rounding


@kernel(types.void, *_ROOM, types.Array(int64, 2, "C"), *_OF_STACK)
def write_states(
    doubles: FloatArray,
    singles: SingleArray,
    integers: NDArray[np.int32],
    sizes: IntArray,
    numbers: FloatArray,
    coef: FloatArray,
    log_potentials: FloatArray,
    squares: FloatArray,
    predictors: FloatArray,
    parts: SingleArray,
    coefs: SingleArray,
    triangles: SingleArray,
    slots: SingleArray,
    changes: SingleArray,
    visits: NDArray[np.int32],
    fitted: SingleArray,
    checked: SingleArray,
    n_learners: IntArray,
    n_visits: IntArray,
    n_changes: IntArray,
    is_moved: Any,
    is_checked: Any,
) -> None:
    """Write the numbers of all keys of a stack, each into its row of the room, behind a header that is left alone.

    Parameters
    ----------
    doubles, singles, integers : arrays
        Views of the same room, one row for each key.
    sizes : array of shape (n_keys, N_SIZES + 1)
        Written: as in ``read_states``, and then the words of eight bytes in all.
    numbers, ... : arrays
        As in ``read_states``.
    """
    merged_at = slots.shape[2] - 2
    for key in range(coef.shape[0]):
        n_used = slots.shape[1]
        while n_used > 0 and slots[key, n_used - 1, merged_at] == 0.0:
            n_used -= 1
        sizes[key, 0], sizes[key, 1], sizes[key, 2] = n_learners[key], n_used, n_visits[key]
        sizes[key, 3], sizes[key, 4], sizes[key, 5] = n_changes[key], int(is_moved[key]), int(is_checked[key])
        row, at, n_here = doubles[key], N_HEADER_WORDS, n_learners[key]
        for i in range(numbers.shape[0]):
            row[at + i] = numbers[i, key]
        at = _append(row, at + numbers.shape[0], coef[key])
        at = _append(row, at, log_potentials[key, :n_here])
        at = _append(row, at, squares[key, :n_here])
        if is_moved[key]:
            for c in range(predictors.shape[1]):
                at = _append(row, at, predictors[key, c])
        at = _append(singles[key], 2 * at, parts[key])
        for learner in range(n_here):
            at = _append(singles[key], at, coefs[key, learner])
        for learner in range(n_here):
            at = _append(singles[key], at, triangles[key, learner])
        for slot in range(n_used):
            at = _append(singles[key], at, slots[key, slot])
        at = _append(singles[key], at, changes[key, : n_changes[key]])
        for visit in range(n_visits[key]):
            for i in range(3):
                integers[key, at] = visits[key, visit, i]
                at += 1
        if is_moved[key]:
            at = _append(singles[key], at, fitted[key])
        if is_checked[key]:
            at = _append(singles[key], at, checked[key])
        if at % 2 > 0:
            singles[key, at] = 0.0
            at += 1
        sizes[key, N_SIZES] = at // 2


@inlined
def _append(row: Any, start: int, values: Any) -> int:
    """Write values into a row, and return where they end."""
    for i in range(values.shape[0]):
        row[start + i] = values[i]
    return start + len(values)
