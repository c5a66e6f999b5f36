"""Compiled reading and writing of the states of keys: between their numbers, as they are stored, and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, uint8, uint64
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

# --- The checksum of a state: XXH64 with seed 0 of all its words but the checksum itself, which counts as 0


N_HEADER_WORDS = 5  # of eight bytes
N_SIZES = 6
N_MARKS = 3  # of a waiting row: time, number, whether it was predicted
CHECKSUM_WORD = 2
_SIZES_AT, _WAITING_AT = 6, 12  # in bytes
_MOST_MERGED = 2.0**24  # up to here single precision counts
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_BITS, _ZERO, _WORD = np.uint64(64), np.uint64(0), np.uint64(8)
_WORDS_IN = types.Array(uint64, 1, "C", readonly=True)
Words = NDArray[np.uint64]


@kernel(uint64, _WORDS_IN)
def checksum(words: Words) -> int:
    """Return the checksum of a state, given as words of eight bytes."""
    return _checksum(words)


@merged
def _checksum(words: Words) -> Any:
    n_words = words.shape[0]
    a, b, c, d = _P1 + _P2, _P2, _ZERO, _ZERO - _P1
    for i in range(0, n_words // 4 * 4, 4):
        a = _mix(a, words[i])
        b = _mix(b, words[i + 1])
        c = _mix(c, words[i + CHECKSUM_WORD] if i > 0 else _ZERO)
        d = _mix(d, words[i + 3])
    found = _turn(a, np.uint64(1)) + _turn(b, np.uint64(7)) + _turn(c, np.uint64(12)) + _turn(d, np.uint64(18))
    for lane in (a, b, c, d):
        found = (found ^ _mix(_ZERO, lane)) * _P1 + _P4
    found += _WORD * np.uint64(n_words)
    for i in range(n_words // 4 * 4, n_words):
        found = _turn(found ^ _mix(_ZERO, words[i]), np.uint64(27)) * _P1 + _P4
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))


@inlined
def _mix(lane: Any, word: Any) -> Any:
    return _turn(lane + word * _P2, np.uint64(31)) * _P1


@inlined
def _turn(word: Any, bits: Any) -> Any:
    return (word << bits) | (word >> (_BITS - bits))


# --- Compiled reading and writing of states: between the numbers of keys, as they are stored, and their arrays


_BYTES_IN = types.Array(uint8, 1, "C", readonly=True)
_BYTES = types.Array(uint8, 1, "C")
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
    *(int64, KEYS, KEYS, _BYTES_IN, _BYTES_IN, COUNTS, IN2, IN2, _SINGLE_LIMITS, _RANGES),
    *(float64, float64, float64, float64, int64, int64, *_OF_STACK),
)
def read_states(
    keys: IntArray,
    lengths: IntArray,
    content: NDArray[np.uint8],
    header: NDArray[np.uint8],
    n_waiting: IntArray,
    of_numbers: FloatArray,
    orders: FloatArray,
    of_parts: SingleArray,
    ranges: IntArray,
    radius: float,
    largest: float,
    largest_single: float,
    rounding: float,
    min_interval: int,
    most_rows: int,
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
    """Check the stored states of some keys, and copy their numbers.

    Parameters
    ----------
    keys : array of shape (n_states,)
    lengths : array of shape (n_states,)
        In bytes.
    content : array
        All states, one after the other.
    header : array of shape (40,)
        Its bytes are those of each state, but for the sizes, the waiting rows and the checksum. The sizes are learners,
        slots, visits and sizes of a change that are stored, whether a predictor and what its weights were made of is,
        and what those of a comparison were.
    n_waiting : array of shape (n_states,)
        Written: the waiting rows.
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
    min_interval, most_rows : int
        The shortest interval, and how many new rows a key has at most, which each may be a round.
    numbers, coef, log_potentials, squares, predictors, parts, coefs, triangles, slots, changes, visits : arrays
        Of `accous.core.many_keys.KeyStack`, like all that follow.

    Returns
    -------
    int
        -1 if all went well. Room for how many learners is needed, plus n_states, if there is less. Otherwise the first
        state that is damaged, foreign or impossible, which is read in part.
    """
    doubles, singles, integers = content.view(np.float64), content.view(np.float32), content.view(np.int32)
    words, n_numbers, n_coefs = content.view(np.uint64), numbers.shape[0], coef.shape[1]
    of_sizes = n_coefs + triangles.shape[2], slots.shape[2], 3, 1, fitted.shape[1], fitted.shape[1]
    sizes, begin, needed = np.empty((keys.shape[0], N_SIZES), dtype=np.int64), 0, 0
    for s in range(keys.shape[0]):
        n_doubles, n_singles = N_HEADER_WORDS + n_numbers + n_coefs, parts.shape[1]
        for i in range(N_SIZES):
            sizes[s, i] = content[8 * begin + _SIZES_AT + i]
            n_singles += sizes[s, i] * of_sizes[i]
        n_doubles += 2 * sizes[s, 0] + sizes[s, 4] * predictors.shape[1] * predictors.shape[2]
        n_waiting[s] = integers[2 * begin + _WAITING_AT // 4]
        n_words = n_doubles + (n_singles + 1) // 2 + n_waiting[s] * (predictors.shape[2] - 1 + N_MARKS)
        is_whole = n_waiting[s] >= 0 and 8 * n_words == lengths[s]
        for i in range(8 * N_HEADER_WORDS):
            is_free = _SIZES_AT <= i < 8 * CHECKSUM_WORD + 8
            is_whole &= is_free or content[8 * begin + i] == header[i]
        first = doubles[begin + N_HEADER_WORDS : begin + N_HEADER_WORDS + n_numbers]
        is_whole = is_whole and _checksum(words[begin : begin + n_words]) == words[begin + CHECKSUM_WORD]
        if not is_whole or not _are_numbers(first, of_numbers, orders):
            return s
        needed = max(needed, _count_learners(np.int64(first[0]) + n_waiting[s] + most_rows + 1, min_interval))
        begin += n_words
    if needed > coefs.shape[1]:
        return keys.shape[0] + needed
    begin = 0
    for s in range(keys.shape[0]):
        key, at = keys[s], begin + N_HEADER_WORDS
        begin += lengths[s] // 8
        n_here, n_used, n_seen, n_looks = sizes[s, 0], sizes[s, 1], sizes[s, 2], sizes[s, 3]
        first = doubles[at : at + n_numbers]
        n_active = _count_learners(np.int64(first[0]) + 1, min_interval)
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
            are_kept &= _copy(singles, at + width - 2, of_slot[width - 2 : width - 1], 1.0, _MOST_MERGED)
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


@inlined
def _count_learners(this_round: int, min_interval: int) -> int:
    n_active = 0
    while this_round >= min_interval:
        this_round >>= 1
        n_active += 1
    return n_active


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


@kernel(types.void, _BYTES, _BYTES_IN, IN2, KEYS, KEYS, COUNTS, *_OF_STACK)
def write_states(
    content: NDArray[np.uint8],
    header: NDArray[np.uint8],
    rows: FloatArray,
    firsts: IntArray,
    lasts: IntArray,
    ends: IntArray,
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
    """Write the states of all keys of a stack, one after the other.

    Parameters
    ----------
    content : array
        With room for them.
    header : array of shape (40,)
        As in ``read_states``.
    rows : array of shape (n_rows, n_features + N_MARKS)
    firsts, lasts : arrays of shape (n_keys,)
        Which of them wait for a round of each key.
    ends : array of shape (n_keys,)
        Written: where each state ends.
    numbers, ... : arrays
        As in ``read_states``.
    """
    doubles, singles, integers = content.view(np.float64), content.view(np.float32), content.view(np.int32)
    words, merged_at, begin = content.view(np.uint64), slots.shape[2] - 2, 0
    for key in range(coef.shape[0]):
        n_here, n_used, n_waiting = n_learners[key], slots.shape[1], lasts[key] - firsts[key]
        while n_used > 0 and slots[key, n_used - 1, merged_at] == 0.0:
            n_used -= 1
        for i in range(8 * N_HEADER_WORDS):
            content[8 * begin + i] = header[i]
        flags = int(is_moved[key]), int(is_checked[key])
        sizes = n_here, n_used, n_visits[key], n_changes[key], *flags
        for i in range(N_SIZES):
            content[8 * begin + _SIZES_AT + i] = sizes[i]
        integers[2 * begin + _WAITING_AT // 4] = n_waiting
        at = begin + N_HEADER_WORDS
        for i in range(numbers.shape[0]):
            doubles[at + i] = numbers[i, key]
        at = _append(doubles, at + numbers.shape[0], coef[key])
        at = _append(doubles, at, log_potentials[key, :n_here])
        at = _append(doubles, at, squares[key, :n_here])
        if is_moved[key]:
            for c in range(predictors.shape[1]):
                at = _append(doubles, at, predictors[key, c])
        at = _append(singles, 2 * at, parts[key])
        for learner in range(n_here):
            at = _append(singles, at, coefs[key, learner])
        for learner in range(n_here):
            at = _append(singles, at, triangles[key, learner])
        for slot in range(n_used):
            at = _append(singles, at, slots[key, slot])
        at = _append(singles, at, changes[key, : n_changes[key]])
        for visit in range(n_visits[key]):
            for i in range(3):
                integers[at] = visits[key, visit, i]
                at += 1
        if is_moved[key]:
            at = _append(singles, at, fitted[key])
        if is_checked[key]:
            at = _append(singles, at, checked[key])
        if at % 2 > 0:
            singles[at] = 0.0
            at += 1
        at //= 2
        for row in range(firsts[key], lasts[key]):
            at = _append(doubles, at, rows[row])
        words[begin + CHECKSUM_WORD] = _checksum(words[begin:at])
        begin = at
        ends[key] = 8 * at


@inlined
def _append(row: Any, start: int, values: Any) -> int:
    """Write values into a row, and return where they end."""
    for i in range(values.shape[0]):
        row[start + i] = values[i]
    return start + len(values)
