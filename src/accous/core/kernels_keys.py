"""Compiled loops over many keys: scores of their rows, ratios of their slots, and what follows a round."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import numpy as np
from numba import boolean, float64, int64, types

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
    kernel,
    merged,
)
from accous.core.kernels_pool import distance_from_means, hold_back, mix_all, mix_candidates
from accous.core.kernels_rows import BLOCK, evaluate_at_each
from accous.core.kernels_weights import (
    count_effective,
    cut_to,
    half_change,
    is_comparison_due,
    is_fit_due,
    shrink_to,
    sum_of,
    weigh_by,
)
from accous.core.pool import hold_for

# --- The numbers of a key


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


# --- Compiled steps over many keys: scores of rows, one row at a time, and what the weights of each key show


FLAGS = types.Array(boolean, 1, "C")
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
    for i in range(rows.shape[0]):
        _score_row(rows[i], coefs[owners[i]], scores[i], probabilities[i])


@kernel(types.void, KEYS, KEYS, KEYS, IN2, OUT2, OUT3, FLAGS, OUT2, OUT2, COUNTS, COUNTS)
def predict_rows(
    keys: IntArray,
    firsts: IntArray,
    lasts: IntArray,
    rows: FloatArray,
    fixed: FloatArray,
    predictors: FloatArray,
    is_moved: Any,
    numbers: FloatArray,
    probabilities: FloatArray,
    class_numbers: IntArray,
    rounds: IntArray,
) -> None:
    """Do the same for rows of a round of some keys, under the predictors in use, and choose classes.

    Parameters
    ----------
    keys, firsts, lasts : arrays of shape (n_here,)
        The keys, and where the rows of each begin and end.
    rows : array of shape (n_rows, n_features)
    fixed, predictors, is_moved, numbers : arrays
        The fixed predictor, (n_scores, n_features + 1), and those of `accous.core.many_keys.KeyStack`.
    probabilities, class_numbers, rounds : arrays of length n_rows
        Written for these rows; the round is the one that the key runs next.
    """
    scores = np.empty(fixed.shape[0])
    for h in range(keys.shape[0]):
        key = keys[h]
        is_adapted = is_moved[key] and numbers[Number.IS_HELD, key] == 0.0
        coefs = predictors[key] if is_adapted else fixed
        for i in range(firsts[h], lasts[h]):
            _score_row(rows[i], coefs, scores, probabilities[i])
            best = 0 if scores.shape[0] > 1 or not scores[0] > 0.0 else 1
            for c in range(1, scores.shape[0]):
                best = c if scores[c] > scores[best] else best
            class_numbers[i] = best
            rounds[i] = np.int64(numbers[Number.N_ROUNDS, key]) + 1


@inlined
def _score_row(row: FloatArray, coefs: FloatArray, scores: FloatArray, probabilities: FloatArray) -> None:
    n_columns, n_scores = row.shape[0], scores.shape[0]
    for c in range(n_scores):
        score = coefs[c, n_columns]
        for j in range(n_columns):
            value = row[j]
            value = _LIMIT if value > _LIMIT else value
            value = -_LIMIT if value < -_LIMIT else value
            score += value * coefs[c, j]
        scores[c] = score
    if n_scores == 1:
        probabilities[1] = 1.0 / (1.0 + math.exp(-scores[0]))
        probabilities[0] = 1.0 / (1.0 + math.exp(scores[0]))
        return
    largest, total = scores[0], 0.0
    for c in range(n_scores):
        largest = max(largest, scores[c])
    for c in range(n_scores):
        probabilities[c] = math.exp(scores[c] - largest)
        total += probabilities[c]
    for c in range(n_scores):
        probabilities[c] /= total


@kernel(types.void, KEYS, IN3, IN1, float64, SINGLE3, IN2, OUT2, OUT1, OUT2, OUT3, OUT3)
def restore_keys(
    keys: IntArray,
    blocks: FloatArray,
    cuts: FloatArray,
    uncut: float,
    slots: SingleArray,
    priors_by_used: FloatArray,
    numbers: FloatArray,
    holds: FloatArray,
    priors: FloatArray,
    factors: FloatArray,
    slot_ratios: FloatArray,
) -> None:
    """Compute what is not kept of some keys: ratios of slots, what they multiply shapes by, priors, and holds.

    Parameters
    ----------
    keys : array of shape (n_here,)
    blocks, cuts, uncut : arrays and float
        As for ``settle_keys``.
    slots : array of shape (n_keys, n_slots, slot_width)
    priors_by_used : array of shape (n_slots + 1, n_candidates)
        By the number of slots in use; free ones come last.
    numbers, holds, priors, factors, slot_ratios : arrays
        Of `accous.core.many_keys.KeyStack`.
    """
    n_shapes, width = cuts.shape[0], slots.shape[2]
    n_coefs, n_rows, n_slots = width - n_shapes - 2, slot_ratios.shape[2], slots.shape[1]
    points, scores, ratios = np.empty((2, n_coefs)), np.empty((2, BLOCK)), np.empty((2, blocks.shape[0], BLOCK))
    means, shares = np.empty(n_shapes), np.empty(n_shapes)
    for h in range(keys.shape[0]):
        key, n_used = keys[h], 0
        while n_used < n_slots and slots[key, n_used, width - 2] > 0.0:
            n_used += 1
        for first in range(0, n_used, 2):
            n_here = min(2, n_used - first)
            for k in range(n_here):
                for j in range(n_coefs):
                    points[k, j] = slots[key, first + k, j]
            evaluate_at_each(blocks, points, n_here, uncut, scores, ratios)
            for k in range(n_here):
                slot, row, none = first + k, ratios[k].reshape(-1)[:n_rows], slot_ratios[key, :0]
                for j in range(n_shapes):
                    shares[j] = slots[key, slot, n_coefs + j]
                mix_all(row, cuts, shares, none, means, slot_ratios[key, slot])
                for j in range(n_shapes):
                    factors[key, slot, j] = shares[j] / means[j]
        factors[key, n_used:] = 0.0
        for c in range(priors.shape[1]):
            priors[key, c] = priors_by_used[n_used, c]
        holds[key] = hold_for(numbers[Number.EXCESS, key])


# --- What follows a round of keys: weights of the reference, and what is due


LOOK_LEFT, LOOK_OVER, REFIT, COMPARE, INPUTS, IMPOSSIBLE = 1, 2, 4, 8, 16, 32
_RULES = types.UniTuple(float64, 9)
_OF_LOOKS = types.UniTuple(float64, 5)


@kernel(
    *(int64, KEYS, KEYS, IN1, IN3, IN1, IN1, float64, float64, types.Array(int64, 2, "C", readonly=True), KEYS, int64),
    *(_OF_LOOKS, _RULES, OUT2, OUT2, SINGLE2, OUT1, OUT1, OUT3, SINGLE2, SINGLE2, FLAGS, FLAGS, OUT2, OUT2, OUT2),
    *(OUT2, OUT3, COUNTS),
)
def settle_keys(
    keys: IntArray,
    starts: IntArray,
    is_long: FloatArray,
    blocks: FloatArray,
    cuts: FloatArray,
    base: FloatArray,
    uncut: float,
    max_ratio: float,
    places: IntArray,
    look_places: IntArray,
    n_cautious: int,
    of_looks: tuple[float, ...],
    rules: tuple[float, ...],
    numbers: FloatArray,
    coef: FloatArray,
    parts: SingleArray,
    surprises: FloatArray,
    holds: FloatArray,
    slots: FloatArray,
    fitted: SingleArray,
    checked: SingleArray,
    is_moved: Any,
    is_checked: Any,
    weights: FloatArray,
    shrunk: FloatArray,
    weighing: FloatArray,
    room: FloatArray,
    ratios: FloatArray,
    due: IntArray,
) -> int:
    r"""Weigh the reference by the pooled ratio of each key after its round, and say what is due.

    The round is counted, and added to the sums of the look, unless its ratio has left the mean over them. A key whose
    look is over is left there: a second call, without rows, ends its round once the look back has been made. A key with
    nothing to adapt to gets the fixed predictor back.

    Parameters
    ----------
    keys : array of shape (n_here,)
    starts : array of shape (n_here + 1,)
        Where the rows of each begin; no rows for a round that has been counted.
    is_long : array of shape (n_rows,)
        1 for rows that are longer than the bound.
    blocks : array of shape (n_blocks, d, BLOCK)
        Reference rows.
    cuts : array of shape (n_shapes,)
    base : array of shape (n_reference,)
        Base weights.
    uncut, max_ratio : float
        Larger ratios count as these values, before and after shapes are cut and mixed.
    places, n_cautious : array and int
        As for ``pool_in_use``.
    look_places : array of shape (2,)
        Where theta and proportions summed over the look begin in a row of parts.
    of_looks : tuple of float
        Rows that a look has at least before it can end, how far its ratio may move, rounds of the longest look, rounds
        between two looks at the inputs, and the decay of the share of long rows.
    rules : tuple of float
        The distance from the base weights below which there is nothing to adapt to; whether there are safeguards,
        whether the fixed predictor always predicts, and whether it does while there is nothing to adapt to; the first
        three numbers of ``is_fit_due``, and rounds and refits between comparisons.
    numbers : array of shape (n_numbers, n_keys)
        See `Number`.
    coef : array of shape (n_keys, d)
    parts : array of shape (n_keys, n_parts)
    surprises : array of shape (n_keys,)
        Mean log likelihood of the rows of a round before it; what is added to the look is set to 0.
    holds : array of shape (n_keys,)
        How far the cautious candidates are in use.
    slots : array of shape (n_keys, n_slots, n_reference)
    fitted, checked : arrays of shape (n_keys, n_weighing)
        What the weights of the last fit, and those of the last comparison were made of.
    is_moved, is_checked : arrays of shape (n_keys,)
    weights, shrunk : arrays of shape (n_keys, n_reference)
        Importance weights, and the same moved towards the base weights.
    weighing : array of shape (n_keys, n_weighing)
        What the shrunk weights are made of.
    room, ratios : arrays of shape (3, n_reference) and (4, n_blocks, BLOCK)
        Workspace.
    due : array of shape (n_here,)
        Written: a sum of the constants above.

    Returns
    -------
    int
        All that is due for any key.
    """
    n_reference, n_coefs, n_all, total = base.shape[0], coef.shape[1], slots.shape[1] + cuts.shape[0], sum_of(base)
    points, scores, means = np.empty((4, n_coefs)), np.empty((2, BLOCK)), np.empty(cuts.shape[0])
    shares, pooled, other, spare = np.empty(n_all), room[0], room[1], room[2]
    here = ratios[0].reshape(-1)[:n_reference]
    least_rows, largest_move, longest_look, between_looks, decay = of_looks
    smallest_shift, has_safeguards, is_off, held_at_rest, every, at_least, distance, usual_rounds, usual_refits = rules
    all_due, compares = 0, has_safeguards > 0.0
    for h in range(keys.shape[0]):
        key, n_rows = keys[h], starts[h + 1] - starts[h]
        row, of_slots, now = parts[key], slots[key], weighing[key]
        of_fit, of_check = fitted[key], checked[key]
        due[h] = 0
        for j in range(n_coefs):
            points[0, j] = now[j] = coef[key, j]
            if not math.isfinite(coef[key, j]):
                due[h] = IMPOSSIBLE
                return IMPOSSIBLE
        look_rounds = numbers[Number.LOOK_ROUNDS, key]
        may_leave = n_rows > 0 and numbers[Number.LOOK_ROWS, key] >= least_rows
        is_last = n_rows > 0 and look_rounds + 1.0 == longest_look
        n_rounds = numbers[Number.N_ROUNDS, key] - numbers[Number.VETO_ROUND, key]
        n_refits = numbers[Number.N_REFITS, key] - numbers[Number.VETO_REFITS, key]
        # Ratios of before are computed only where something may depend on them.
        reads_fit, reads_check = every == 0.0 and is_moved[key] and not is_last, False
        if compares and is_checked[key] and not is_last:
            reads_check = is_comparison_due(
                n_rounds, n_refits + 1.0, usual_rounds, usual_refits, True, np.inf
            ) and not is_comparison_due(n_rounds, n_refits, usual_rounds, usual_refits, True, 0.0)
        n_points = 1
        if may_leave:
            for j in range(n_coefs):
                points[n_points, j] = row[look_places[0] + j] / look_rounds
            n_points += 1
        for is_read, made_of in ((reads_fit, of_fit), (reads_check, of_check)):
            if is_read:
                for j in range(n_coefs):
                    points[n_points, j] = made_of[j]
                n_points += 1
        evaluate_at_each(blocks, points, n_points, uncut, scores, ratios)
        mix_candidates(here, cuts, row, places, of_slots, means, shares, pooled)
        if n_rows > 0:
            moved = 0.0
            if may_leave:
                of_means = ratios[1].reshape(-1)[:n_reference]
                moved = distance_from_means(of_means, cuts, row, look_places[1], look_rounds, of_slots, other, pooled)
            _count(numbers, key, is_long[starts[h] : starts[h + 1]], decay)
            if moved > largest_move:
                due[h] = LOOK_LEFT
            else:
                _add_to_look(numbers, key, n_rows, surprises, coef[key], row, look_places, row[places[0, 3] :], n_all)
                due[h] = LOOK_OVER if is_last else 0
            if due[h] > 0:
                all_due |= due[h]
                continue
        hold = holds[key]
        for c in range(n_all):
            now[n_coefs + c] = row[places[0, 3] + c]
        if hold > 0.0:
            hold_back(here, cuts, row, places, n_cautious, hold, means, shares, spare, pooled)
            for c in range(n_all):
                of_cautious = np.float64(row[places[1, 3] + c]) if c < n_cautious else 0.0
                now[n_coefs + c] = (1.0 - hold) * now[n_coefs + c] + hold * of_cautious
        cut_to(pooled, max_ratio, other)
        weigh_by(base, total, other, base, weights[key])
        n_effective = count_effective(weights[key])
        strength = numbers[Number.STRENGTH, key] if compares else 0.0
        share = now[n_coefs + n_all] = n_effective / (n_effective + strength)
        numbers[Number.EFFECTIVE_ROWS, key], numbers[Number.SHARE, key] = n_effective, 1.0
        if compares:
            is_near = half_change(weights[key], base, total) < smallest_shift
            numbers[Number.SHARE, key] = 0.0 if is_near else 1.0 - now[n_coefs]
        this_round = numbers[Number.N_ROUNDS, key]
        if this_round % between_looks == 0.0:
            due[h] = INPUTS
        if numbers[Number.SHARE, key] == 0.0 or is_off > 0.0:
            _fall_back(numbers, key, held_at_rest)
            is_moved[key] = is_checked[key] = False
            all_due |= due[h]
            continue
        shrink_to(weights[key], base, share, shrunk[key])
        since_fit, since_check, place = half_change(shrunk[key], base, total), 0.0, 2 if may_leave else 1
        for k in range(2):
            if (k == 0 and reads_fit) or (k == 1 and reads_check):
                made_of = of_fit if k == 0 else of_check
                for c in range(n_all):
                    shares[c] = made_of[n_coefs + c]
                mix_all(ratios[place].reshape(-1)[:n_reference], cuts, shares, of_slots, means, other)
                cut_to(other, max_ratio, pooled)
                weigh_by(base, total, pooled, base, spare)
                if k == 0:
                    shrink_to(spare, base, np.float64(made_of[n_coefs + n_all]), other)
                    since_fit = half_change(shrunk[key], other, total)
                else:
                    since_check = half_change(weights[key], spare, total)
                place += 1
        since_refit = this_round - numbers[Number.LAST_REFIT, key]
        of_all = count_effective(shrunk[key]) / n_reference
        if is_fit_due(every, at_least, distance, since_refit, of_all, since_fit):
            due[h] |= REFIT
            n_refits += 1.0
        if compares and is_comparison_due(n_rounds, n_refits, usual_rounds, usual_refits, is_checked[key], since_check):
            due[h] |= COMPARE
        all_due |= due[h]
    return all_due


@merged
def _count(numbers: FloatArray, key: int, is_long: FloatArray, decay: float) -> None:
    """Count the rows of a round, and the share of long ones with a decay."""
    total = 0.0
    for i in range(is_long.shape[0]):
        total += is_long[i]
    numbers[Number.N_ROWS, key] += is_long.shape[0]
    numbers[Number.N_RECENT, key] = decay * numbers[Number.N_RECENT, key] + 1.0
    numbers[Number.N_RECENT_OUT, key] = decay * numbers[Number.N_RECENT_OUT, key] + total / is_long.shape[0]


@merged
def _add_to_look(
    numbers: FloatArray,
    key: int,
    n_rows: int,
    surprises: FloatArray,
    coef: FloatArray,
    row: SingleArray,
    look_places: IntArray,
    proportions: SingleArray,
    n_all: int,
) -> None:
    numbers[Number.LOOK_ROUNDS, key] += 1.0
    numbers[Number.LOOK_ROWS, key] += n_rows
    numbers[Number.LOG_LIKELIHOOD, key] += surprises[key]
    surprises[key] = 0.0
    for j in range(coef.shape[0]):
        row[look_places[0] + j] += coef[j]
    for c in range(n_all):
        row[look_places[1] + c] += proportions[c]


@merged
def _fall_back(numbers: FloatArray, key: int, held_at_rest: float) -> None:
    """Note that there is nothing to compare: the adapted predictor gives way to the fixed one."""
    numbers[Number.IS_HELD, key] = held_at_rest
    numbers[Number.VETO_EXCESS, key] = numbers[Number.VETO_ERROR, key] = 0.0
    numbers[Number.VETO_ROUND, key] = numbers[Number.N_ROUNDS, key]
    numbers[Number.VETO_REFITS, key] = numbers[Number.N_REFITS, key]
