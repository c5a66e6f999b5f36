"""Compiled loops over many keys: their rounds and their states as bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float32, float64, int64, types, uint16
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import IN1, IN2, IN3, KEYS, OUT2, OUT3, SINGLE2, SINGLE3, SingleArray, inlined_sums, kernel

# --- Compiled steps over many keys: scores of rows, one row at a time, and what the weights of each key show


_LIMIT = 1e100  # as in `LinearPredictor`: changes no answer, and no sum overflows
SHARE_STEPS = 512.0
"""Steps per unit in which a key keeps the share of a reference row, of which 1 is the mean."""
MOST_SHARE = 65535.0
N_SHOWN = 4
_SAMPLES = types.Array(uint16, 2, "C")


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


@kernel(types.void, KEYS, IN1, IN2, float64, IN1, KEYS, _SAMPLES, OUT2, OUT2)
def weigh_keys(
    active: IntArray,
    base: FloatArray,
    ratios: FloatArray,
    max_ratio: float,
    strengths: FloatArray,
    sample: IntArray,
    fitted: NDArray[Any],
    weights: FloatArray,
    shown: FloatArray,
) -> None:
    r"""Compute the importance weights of each active key, and what they show.

    Parameters
    ----------
    active : array of shape (n_active,)
    base : array of shape (n_reference,)
        Base weights.
    ratios : array of shape (n_active, n_reference)
    max_ratio : float
        Larger ratios count as this value.
    strengths : array of shape (n_keys,)
        How far weights are shrunk for a fit.
    sample : array of shape (n_sample,)
        The reference rows whose shares a key keeps.
    fitted : array of shape (n_keys, n_sample)
        Shares that the predictor was fitted with.
    weights : array of shape (n_active, n_reference)
        :math:`b_i r_i \sum_j b_j / \sum_j b_j r_j`.
    shown : array of shape (n_active, N_SHOWN)
        Total variation from the base weights; effective rows; effective rows of the shrunk weights; total variation of
        the shrunk weights from ``fitted``, over the sample.
    """
    n_rows = base.shape[0]
    for a in range(active.shape[0]):
        key = active[a]
        of_key = weights[a]
        for i in range(n_rows):
            ratio = ratios[a, i]
            of_key[i] = base[i] * (ratio if ratio < max_ratio else max_ratio)
        total_base = _sum(base)
        factor = total_base / _sum(of_key)
        for i in range(n_rows):
            of_key[i] *= factor
        shown[a, 0] = 0.5 * _sum_of_changes(of_key, base) / total_base
        n_effective = total_base * total_base / _sum_of_squares(of_key, base, 1.0)
        share = n_effective / (n_effective + strengths[key])
        shown[a, 1] = n_effective
        shown[a, 2] = total_base * total_base / _sum_of_squares(of_key, base, share)
        scale = n_rows / total_base
        from_fitted = 0.0
        for m in range(sample.shape[0]):
            weight = of_key[sample[m]]
            shrunk = share * weight + (1.0 - share) * base[sample[m]]
            from_fitted += abs(scale * shrunk - fitted[key, m] / SHARE_STEPS)
        shown[a, 3] = 0.5 * from_fitted / sample.shape[0]


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


@kernel(types.void, int64, IN1, KEYS, _SAMPLES)
def sample_shares(key: int, weights: FloatArray, sample: IntArray, shares: NDArray[Any]) -> None:
    """Write the shares of the sampled rows, in steps, to the row of a key; the mean share is 1."""
    scale = SHARE_STEPS * weights.shape[0] / _sum(weights)
    for m in range(sample.shape[0]):
        steps = scale * weights[sample[m]] + 0.5
        shares[key, m] = np.uint16(steps if steps < MOST_SHARE else MOST_SHARE)


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
def _sum_of_squares(values: FloatArray, others: FloatArray, share: float) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        value = share * values[i] + (1.0 - share) * others[i]
        total += value * value
    return total


# --- Compiled reading of states: from the numbers of one key, as they are stored, into its row of each array


_SINGLES = types.Array(float32, 1, "C", readonly=True)
_SHARES = types.Array(uint16, 1, "C", readonly=True)
_LIMITS_OF_SINGLES = types.Array(float32, 2, "C", readonly=True)
_RANGES = types.Array(int64, 2, "C", readonly=True)


@kernel(types.boolean, IN1, _SINGLES, IN2, _LIMITS_OF_SINGLES, _RANGES, float64)
def are_within(
    doubles: FloatArray,
    singles: SingleArray,
    of_doubles: FloatArray,
    of_singles: SingleArray,
    ranges: IntArray,
    rounding: float,
) -> bool:
    """Whether the numbers of a state are within their limits.

    Parameters
    ----------
    doubles, singles : arrays of shape (n_doubles,) and (n_singles,)
    of_doubles : array of shape (4, n_doubles)
        Lowest and highest values, and 1 for numbers that may be NaN, and for those that are whole.
    of_singles : array of shape (2, n_singles)
        Lowest and highest values.
    ranges : array of shape (n_ranges, 2)
        Where singles begin and end whose sum is 1.
    rounding : float
        How far sums may be off.
    """
    for i in range(doubles.shape[0]):
        value = doubles[i]
        if not of_doubles[0, i] <= value <= of_doubles[1, i] and not (of_doubles[2, i] > 0.0 and math.isnan(value)):
            return False
        if of_doubles[3, i] > 0.0 and value != math.floor(value):
            return False
    for i in range(singles.shape[0]):
        if not of_singles[0, i] <= singles[i] <= of_singles[1, i]:
            return False
    for k in range(ranges.shape[0]):
        total = 0.0
        for i in range(ranges[k, 0], ranges[k, 1]):
            total += singles[i]
        if not abs(total - 1.0) <= rounding:
            return False
    return True


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
        The numbers as `accous.keyed.state` orders them; what follows in ``doubles`` and ``stored_singles`` is
        left alone.
    numbers, coef, log_potentials, squares, predictors, singles, coefs, triangles, slots, fitted, checked : arrays
        Of `accous.core.many_keys.KeyStack`.
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
