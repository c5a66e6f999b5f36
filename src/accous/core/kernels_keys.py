"""Compiled loops over many keys: their rounds and their states as bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int32, int64, types
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import (
    COUNTS,
    IN1,
    IN2,
    IN3,
    KEYS,
    OUT1,
    OUT2,
    OUT3,
    SINGLE2,
    SINGLE3,
    SingleArray,
    inlined,
    inlined_sums,
    kernel,
    merged,
)
from accous.core.kernels_pool import mix_all
from accous.core.kernels_rows import evaluate_at

# --- Compiled steps over many keys: scores of rows, one row at a time, and what the weights of each key show


_LIMIT = 1e100  # as in `LinearPredictor`: changes no answer, and no sum overflows


@kernel(types.void, KEYS, IN2, IN3, OUT2, OUT2)
def score_rows_of_keys(
    owners: IntArray, rows: FloatArray, coefs: FloatArray, scores: FloatArray, probabilities: FloatArray
) -> None:
    """Compute the scores and the class probabilities of each row under the predictor of its key.

    Each row is summed on its own, in the order of the columns: its result does not depend on the other rows of a call.

    Parameters
    ----------
    owners : array of shape (n_rows,)
        The key of each row.
    rows : array of shape (n_rows, n_features)
    coefs : array of shape (n_keys, n_scores, n_features + 1)
        The intercept is last.
    scores : array of shape (n_rows, n_scores)
        One score for two classes, otherwise one per class.
    probabilities : array of shape (n_rows, n_classes)
    """
    n_columns, n_scores = rows.shape[1], scores.shape[1]
    for i in range(rows.shape[0]):
        key = owners[i]
        for c in range(n_scores):
            score = coefs[key, c, n_columns]
            for j in range(n_columns):
                value = rows[i, j]
                value = _LIMIT if value > _LIMIT else value
                value = -_LIMIT if value < -_LIMIT else value
                score += value * coefs[key, c, j]
            scores[i, c] = score
        if n_scores == 1:
            probabilities[i, 1] = 1.0 / (1.0 + math.exp(-scores[i, 0]))
            probabilities[i, 0] = 1.0 / (1.0 + math.exp(scores[i, 0]))
            continue
        largest, total = scores[i, 0], 0.0
        for c in range(n_scores):
            largest = max(largest, scores[i, c])
        for c in range(n_scores):
            probabilities[i, c] = math.exp(scores[i, c] - largest)
            total += probabilities[i, c]
        for c in range(n_scores):
            probabilities[i, c] /= total


@kernel(types.void, KEYS, IN3, IN1, float64, SINGLE3, IN2, OUT1, OUT2, OUT2, OUT3, OUT3)
def restore_slots(
    keys: IntArray,
    blocks: FloatArray,
    cuts: FloatArray,
    uncut: float,
    slots: SingleArray,
    priors_by_used: FloatArray,
    shares: FloatArray,
    ratios: FloatArray,
    priors: FloatArray,
    factors: FloatArray,
    slot_ratios: FloatArray,
) -> None:
    """Compute the ratios of the slots of some keys, what they multiply the shapes by, and the priors of the candidates.

    Parameters
    ----------
    keys : array of shape (n_here,)
    blocks, cuts, uncut : arrays and float
        As for ``weigh_keys``.
    slots : array of shape (n_keys, n_slots, slot_width)
    priors_by_used : array of shape (n_slots + 1, n_candidates)
        By the number of slots in use; free ones come last.
    shares, ratios : arrays of shape (n_shapes,) and (n_blocks, BLOCK)
        Workspace.
    priors, factors, slot_ratios : arrays
        Of `accous.core.many_keys.KeyStack`.
    """
    n_shapes, width = cuts.shape[0], slots.shape[2]
    n_coefs, n_rows = width - n_shapes - 2, slot_ratios.shape[2]
    theta, means = np.empty(n_coefs), np.empty(n_shapes)
    for h in range(keys.shape[0]):
        key, n_used = keys[h], 0
        for slot in range(slots.shape[1]):
            for j in range(n_shapes):
                factors[key, slot, j] = 0.0
            if slots[key, slot, width - 2] > 0.0:
                n_used += 1
                for j in range(n_coefs):
                    theta[j] = slots[key, slot, j]
                for j in range(n_shapes):
                    shares[j] = slots[key, slot, n_coefs + j]
                evaluate_at(blocks, theta, uncut, ratios)
                row, none = ratios.reshape(-1)[:n_rows], slot_ratios[key, :0]
                mix_all(row, cuts, shares, none, means, slot_ratios[key, slot])
                for j in range(n_shapes):
                    factors[key, slot, j] = shares[j] / means[j]
        for c in range(priors.shape[1]):
            priors[key, c] = priors_by_used[n_used, c]


_NOW, _OVER_LOOK, _CAUTIOUS, _OF_FIT = 0, 1, 2, 3
N_SHOWN = 3


@kernel(
    *(types.void, KEYS, KEYS, KEYS, IN3, IN1, IN1, float64, float64, IN2, SINGLE2, KEYS, int64, OUT2, KEYS),
    *(int64, float64, float64, boolean, boolean, IN1, IN3, SINGLE2, OUT2, OUT1, OUT2, OUT2, OUT2, OUT2, OUT2),
)
def weigh_keys(
    places: IntArray,
    keys: IntArray,
    n_rows: IntArray,
    blocks: FloatArray,
    cuts: FloatArray,
    base: FloatArray,
    uncut: float,
    max_ratio: float,
    coef: FloatArray,
    parts: SingleArray,
    starts: IntArray,
    n_cautious: int,
    numbers: FloatArray,
    of_numbers: IntArray,
    least_rows: int,
    largest_move: float,
    smallest_shift: float,
    has_safeguards: bool,
    compares_fit: bool,
    holds: FloatArray,
    slots: FloatArray,
    fitted: SingleArray,
    room: FloatArray,
    shares: FloatArray,
    ratios: FloatArray,
    weights: FloatArray,
    shrunk: FloatArray,
    weighing: FloatArray,
    shown: FloatArray,
) -> None:
    r"""Compute the pooled ratio and the importance weights of each key, those for a fit, and what they show.

    A round is added to the sums of the look, unless its ratio has left the mean over them.

    Parameters
    ----------
    places, keys : arrays of shape (n_here,)
        The rows to write, and their keys.
    n_rows : array of shape (n_here,)
        Rows of the round; 0 if it is no new one, so that the look has nothing to do with it.
    blocks : array of shape (n_blocks, d, BLOCK)
        Reference rows.
    cuts : array of shape (n_shapes,)
    base : array of shape (n_reference,)
        Base weights.
    uncut, max_ratio : float
        Larger ratios count as these values, before and after shapes are cut and mixed.
    coef : array of shape (n_keys, d)
    parts : array of shape (n_keys, n_parts)
    starts : array of shape (5,)
        Where proportions, cautious proportions, means of the shapes, and theta and proportions summed over the look
        begin in a row of parts. The means are written.
    n_cautious : int
    numbers : array of shape (n_numbers, n_keys)
    of_numbers : array of shape (5,)
        Where the strength, the share of the ratio that counts, effective rows, and rounds and rows of the look are in
        ``numbers``. All but the first are written.
    least_rows, largest_move : int and float
        How many rows a look has before it can end, and how far its ratio may move.
    smallest_shift : float
        Below this distance from the base weights there is nothing to adapt to.
    has_safeguards, compares_fit : bool
        Whether the pool says how far the ratio counts, and weights are shrunk; whether to compare with the last fit.
    holds : array of shape (n_keys,)
        How far the cautious candidates are in use.
    slots : array of shape (n_keys, n_slots, n_reference)
    fitted : array of shape (n_keys, n_weighing)
        What the weights of the last fit were made of.
    room, shares, ratios : arrays of shape (2, n_reference), (n_candidates,) and (n_blocks, BLOCK)
        Workspace.
    weights, shrunk : arrays of shape (n_active, n_reference)
        :math:`b_i r_i \sum_j b_j / \sum_j b_j r_j`, and the same moved towards the base weights.
    weighing : array of shape (n_active, n_weighing)
        What the shrunk weights are made of.
    shown : array of shape (n_active, N_SHOWN)
        Total variation between the pooled ratio, not held back, and the mean over the look; effective rows of the
        shrunk weights; their total variation from those of the last fit.
    """
    total, n_reference, n_coefs, n_all = _sum(base), base.shape[0], coef.shape[1], shares.shape[0]
    theta, means, pooled, other = np.empty(n_coefs), np.empty(cuts.shape[0]), room[0], room[1]
    strength, share_in_use, effective, look_rounds, look_rows = of_numbers
    for h in range(keys.shape[0]):
        a, key = places[h], keys[h]
        for c in range(N_SHOWN):
            shown[a, c] = 0.0
        for step in (_NOW, _OVER_LOOK, _CAUTIOUS, _OF_FIT):
            is_left_out = step == _OVER_LOOK and (n_rows[h] == 0 or numbers[look_rows, key] < least_rows)
            is_left_out |= step == _CAUTIOUS and holds[key] == 0.0
            if is_left_out or (step == _OF_FIT and not compares_fit):
                continue
            for c in range(n_all):
                shares[c] = 0.0
                if step == _NOW:
                    shares[c] = weighing[a, n_coefs + c] = parts[key, starts[0] + c]
                elif step == _OVER_LOOK:
                    shares[c] = parts[key, starts[4] + c] / numbers[look_rounds, key]
                elif step == _OF_FIT:
                    shares[c] = fitted[key, n_coefs + c]
                elif c < n_cautious:
                    shares[c] = parts[key, starts[1] + c]
            for j in range(n_coefs):
                theta[j] = coef[key, j]
                if step == _OVER_LOOK:
                    theta[j] = parts[key, starts[3] + j] / numbers[look_rounds, key]
                elif step == _OF_FIT:
                    theta[j] = fitted[key, j]
            evaluate_at(blocks, theta, uncut, ratios)
            mix_all(ratios.reshape(-1)[:n_reference], cuts, shares, slots[key], means, other)
            if step == _OVER_LOOK:
                shown[a, 0] = 0.5 * _sum_of_changes(pooled, other) / n_reference
            elif step == _NOW:
                for i in range(n_reference):
                    pooled[i] = other[i]
                for j in range(n_coefs):
                    weighing[a, j] = coef[key, j]
                for j in range(cuts.shape[0]):
                    parts[key, starts[2] + j] = means[j]
            elif step == _CAUTIOUS:
                hold = holds[key]
                for i in range(n_reference):
                    pooled[i] = (1.0 - hold) * pooled[i] + hold * other[i]
                for c in range(n_all):
                    weighing[a, n_coefs + c] = (1.0 - hold) * weighing[a, n_coefs + c] + hold * shares[c]
            else:
                _weigh(base, total, other, max_ratio, other)
        if n_rows[h] > 0 and shown[a, 0] <= largest_move:
            numbers[look_rounds, key] += 1.0
            numbers[look_rows, key] += n_rows[h]
            for j in range(n_coefs):
                parts[key, starts[3] + j] += coef[key, j]
            for c in range(n_all):
                parts[key, starts[4] + c] += parts[key, starts[0] + c]
        _weigh(base, total, pooled, max_ratio, weights[a])
        distance = 0.5 * _sum_of_changes(weights[a], base) / total
        numbers[effective, key] = n_effective = total * total / _sum_of_squares(weights[a])
        share = n_effective / (n_effective + numbers[strength, key]) if has_safeguards else 1.0
        weighing[a, n_coefs + n_all] = share
        _shrink(weights[a], base, share, shrunk[a])
        shown[a, 1] = total * total / _sum_of_squares(shrunk[a])
        if compares_fit:
            _shrink(other, base, np.float64(fitted[key, n_coefs + n_all]), other)
            shown[a, 2] = 0.5 * _sum_of_changes(shrunk[a], other) / total
        numbers[share_in_use, key] = 1.0
        if has_safeguards:
            numbers[share_in_use, key] = 0.0 if distance < smallest_shift else 1.0 - weighing[a, n_coefs]


@kernel(
    *(types.void, KEYS, KEYS, IN3, IN1, IN1, float64, float64, SINGLE2, IN3, IN2),
    *(OUT1, OUT2, OUT1, OUT1),
)
def compare_weights(
    places: IntArray,
    keys: IntArray,
    blocks: FloatArray,
    cuts: FloatArray,
    base: FloatArray,
    uncut: float,
    max_ratio: float,
    weighings: SingleArray,
    slots: FloatArray,
    weights: FloatArray,
    shares: FloatArray,
    ratios: FloatArray,
    before: FloatArray,
    moved: FloatArray,
) -> None:
    """Compute weights of before, and how far those of now have moved from them.

    Parameters
    ----------
    places, keys, blocks, cuts, base, uncut, max_ratio, slots : arrays and float
        As for ``weigh_keys``.
    weighings : array of shape (n_keys, n_weighing)
        What the weights of before were made of.
    weights : array of shape (n_active, n_reference)
        Of now.
    shares, ratios : arrays
        As for ``weigh_keys``.
    before : array of shape (n_reference,)
        The weights of the last key are left there.
    moved : array of shape (n_here,)
        Total variations.
    """
    total, n_rows, n_all, last = _sum(base), base.shape[0], shares.shape[0], weighings.shape[1] - 1
    n_coefs = last - n_all
    theta, means = np.empty(n_coefs), np.empty(cuts.shape[0])
    for h in range(keys.shape[0]):
        key = keys[h]
        for j in range(n_coefs):
            theta[j] = weighings[key, j]
        for c in range(n_all):
            shares[c] = weighings[key, n_coefs + c]
        evaluate_at(blocks, theta, uncut, ratios)
        mix_all(ratios.reshape(-1)[:n_rows], cuts, shares, slots[key], means, before)
        _weigh(base, total, before, max_ratio, before)
        _shrink(before, base, np.float64(weighings[key, last]), before)
        moved[h] = 0.5 * _sum_of_changes(weights[places[h]], before) / total


@kernel(types.void, KEYS, KEYS, IN1, float64, OUT2, int64, int64, int64)
def count_rows_of_keys(
    active: IntArray,
    starts: IntArray,
    is_long: FloatArray,
    decay: float,
    numbers: FloatArray,
    n_rows: int,
    n_recent: int,
    n_recent_out: int,
) -> None:
    """Count the rows of a round of each active key, and its share of long rows with a decay.

    Parameters
    ----------
    active : array of shape (n_active,)
    starts : array of shape (n_active + 1,)
        Where the rows of each active key begin.
    is_long : array of shape (n_rows,)
    decay : float
    numbers : array of shape (n_numbers, n_keys)
    n_rows, n_recent, n_recent_out : int
        The rows of ``numbers`` for rows, rounds with a decay, and shares with a decay.
    """
    for a in range(active.shape[0]):
        key = active[a]
        total = 0.0
        for i in range(starts[a], starts[a + 1]):
            total += is_long[i]
        n_here = starts[a + 1] - starts[a]
        numbers[n_rows, key] += n_here
        numbers[n_recent, key] = decay * numbers[n_recent, key] + 1.0
        numbers[n_recent_out, key] = decay * numbers[n_recent_out, key] + total / n_here


@inlined
def _weigh(base: FloatArray, total: float, ratios: FloatArray, max_ratio: float, weights: FloatArray) -> None:
    for i in range(base.shape[0]):
        ratio = ratios[i]
        weights[i] = base[i] * (ratio if ratio < max_ratio else max_ratio)
    factor = total / _sum(weights)
    for i in range(base.shape[0]):
        weights[i] *= factor


@inlined
def _shrink(weights: FloatArray, base: FloatArray, share: float, shrunk: FloatArray) -> None:
    for i in range(base.shape[0]):
        shrunk[i] = share * weights[i] + (1.0 - share) * base[i]


@inlined_sums
def _sum(values: FloatArray) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total


@inlined_sums
def _sum_of_changes(values: FloatArray, others: FloatArray) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += abs(values[i] - others[i])
    return total


@inlined_sums
def _sum_of_squares(values: FloatArray) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i] * values[i]
    return total


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
