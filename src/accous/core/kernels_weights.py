"""Compiled passes over weights and rows: from ratios to importance weights, what follows from them, and features.

One model and many keys run the same functions, so that both decide alike, to the bit.
"""

from __future__ import annotations

import math

from numba import boolean, float64, int64, types

from accous.arrays import FloatArray
from accous.core.compiled import IN1, IN2, OUT1, OUT2, inlined, inlined_exactly, inlined_sums, kernel, shared

# --- Rules: when to refit the predictor, and when to compare it with the fixed one


_REFIT_SENSITIVITY = 1.0 / 3.0
# Weights that moved by this total variation since the last comparison are compared at once, with a 16th of the usual
# rounds in between.
_JUMP = 0.2
_SHARE_OF_ROUNDS = 1.0 / 16.0
_REFITS_AFTER_JUMP = 2


@shared
def is_fit_due(
    every: int, at_least: int, refit_distance: float, rounds_since: int, effective_share: float, moved: float
) -> bool:
    """Whether to refit the predictor: the weights have moved enough, or enough rounds have passed.

    The fewer rows carry the weight, the more a fit depends on each of them, and the sooner it is due.

    Parameters
    ----------
    every : int
        Rounds from one refit to the next; 0 to refit once the weights have moved.
    at_least, refit_distance : int and float
        How many rounds are then between two refits, and how far weights move where all rows count alike.
    rounds_since : int
        Rounds since the last refit.
    effective_share : float
        Share of the reference rows that carry the weight.
    moved : float
        Total variation between the weights and those of the last fit.
    """
    if every > 0:
        return rounds_since >= every
    return rounds_since >= at_least and moved > refit_distance * effective_share**_REFIT_SENSITIVITY


@shared
def is_comparison_due(
    n_rounds: int, n_refits: int, usual_rounds: int, usual_refits: int, is_compared: bool, moved: float
) -> bool:
    """Whether to compare with the fixed predictor again: enough rounds and refits have passed, or the stream jumped.

    The first adapted predictor, and the first after rounds with nothing to adapt to, are compared soon after the fit.

    Parameters
    ----------
    n_rounds, n_refits : int
        Since the last comparison.
    usual_rounds, usual_refits : int
        Between two comparisons.
    is_compared : bool
        Whether there was a comparison since the last round with nothing to adapt to.
    moved : float
        Total variation between the weights and those of that comparison.
    """
    if n_refits < 1 or n_rounds < _SHARE_OF_ROUNDS * usual_rounds:
        return False
    if not is_compared or (n_rounds >= usual_rounds and n_refits >= usual_refits):
        return True
    return moved > _JUMP and n_refits >= min(_REFITS_AFTER_JUMP, usual_refits)


# --- Weights: normalise, count effective rows, compare


@kernel(float64, IN1)
def effective_rows(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2`, in one call.

    Weights are not negative and not all zero. Unlike a product of BLAS, its bits do not depend on the number of cores.
    """
    return count_effective(weights)


@inlined
def count_effective(weights: FloatArray) -> float:
    """Do what ``effective_rows`` does."""
    total, squares = _sum_and_squares(weights, 1.0)
    if 1e-300 < squares < 1e300:
        return total * total / squares
    # Squares and sums of shares neither overflow nor underflow.
    largest = 0.0
    for i in range(weights.shape[0]):
        largest = max(largest, weights[i])
    total, squares = _sum_and_squares(weights, 1.0 / largest)
    return total * total / squares


@kernel(types.void, IN1, IN1, OUT1)
def average(values: FloatArray, weights: FloatArray, found: FloatArray) -> None:
    """Write the weighted mean of some values and its squared standard error, by the delta method, to ``found``."""
    total = sum_of(weights)
    mean = _sum_of_products(weights, values) / total
    found[0], found[1] = mean, _sum_of_squares(weights, values, mean, total)


@inlined_sums
def _sum_of_squares(weights: FloatArray, values: FloatArray, mean: float, total: float) -> float:
    squares = 0.0
    for i in range(weights.shape[0]):
        deviation = weights[i] / total * (values[i] - mean)
        squares += deviation * deviation
    return squares


@kernel(float64, IN1, IN1)
def total_variation(weights: FloatArray, others: FloatArray) -> float:
    r"""Half the sum of :math:`|w_i / \sum_j w_j - v_i / \sum_j v_j|`: how far two weightings of rows are apart."""
    return 0.5 * _sum_of_differences(weights, sum_of(weights), others, sum_of(others))


@kernel(types.void, IN1, IN1, float64, IN1, IN1, IN1, float64, OUT1, OUT1, OUT1)
def weigh_reference(
    base: FloatArray,
    ratios: FloatArray,
    max_ratio: float,
    before: FloatArray,
    fitted: FloatArray,
    compared: FloatArray,
    strength: float,
    weights: FloatArray,
    shrunk: FloatArray,
    shown: FloatArray,
) -> None:
    """Weigh the reference after a round, and measure how far the weights have moved.

    Parameters
    ----------
    base, ratios : arrays of shape (n_reference,)
    max_ratio : float
        Where ratios are cut.
    before : array of shape (n_reference,)
        The weights of the round before. They stay if all ratios are zero.
    fitted, compared : arrays of shape (n_reference,)
        Weights of the last fit, and those of the last comparison with the fixed predictor. Like all weights, they have
        the sum of the base weights.
    strength : float
        How far weights are moved towards the base weights for a fit.
    weights, shrunk : arrays of shape (n_reference,)
        Both are written.
    shown : array of shape (5,)
        Total variation between weights and base weights; effective rows of the weights and of the shrunk ones; total
        variation between these and those of the last fit, and between the weights and those of the last comparison.
    """
    total = sum_of(base)
    cut_to(ratios, max_ratio, shrunk)
    weigh_by(base, total, shrunk, before, weights)
    shown[0] = half_change(weights, base, total)
    shown[1] = count_effective(weights)
    shrink_to(weights, base, shown[1] / (shown[1] + strength), shrunk)
    shown[2] = count_effective(shrunk)
    shown[3] = half_change(shrunk, fitted, total)
    shown[4] = half_change(weights, compared, total)


@inlined
def cut_to(ratios: FloatArray, max_ratio: float, cut: FloatArray) -> None:
    """Write ratios, but larger ones as ``max_ratio``."""
    for i in range(ratios.shape[0]):
        cut[i] = ratios[i] if ratios[i] < max_ratio else max_ratio


@inlined
def weigh_by(base: FloatArray, total: float, ratios: FloatArray, before: FloatArray, weights: FloatArray) -> None:
    """Write base weights times ratios, scaled to the sum of the base weights, which is ``total``."""
    found = _sum_of_products(base, ratios)
    if found > 0.0:
        factor = total / found
        for i in range(base.shape[0]):
            weights[i] = base[i] * ratios[i] * factor
    else:
        # Ratios that are zero on the whole reference carry no information about its rows.
        for i in range(base.shape[0]):
            weights[i] = before[i]


@inlined_exactly
def shrink_to(weights: FloatArray, base: FloatArray, share: float, shrunk: FloatArray) -> None:
    """Write the weights moved towards the base weights, with the bits of `accous.model.safeguards.shrink`."""
    for i in range(weights.shape[0]):
        shrunk[i] = share * weights[i] + (1.0 - share) * base[i]


@inlined_sums
def half_change(weights: FloatArray, others: FloatArray, total: float) -> float:
    """Return the total variation between two weightings of the same sum."""
    change = 0.0
    for i in range(weights.shape[0]):
        change += abs(weights[i] - others[i])
    return 0.5 * change / total


@inlined_sums
def _sum_of_differences(a: FloatArray, total_a: float, b: FloatArray, total_b: float) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        # Quotients, not products: a product and the difference could become one instruction, and equal shares differ.
        total += abs(a[i] / total_a - b[i] / total_b)
    return total


@inlined_sums
def _sum_of_products(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@inlined_sums
def sum_of(a: FloatArray) -> float:
    """Return the sum of some weights."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i]
    return total


@inlined_sums
def _sum_and_squares(weights: FloatArray, factor: float) -> tuple[float, float]:
    total = squares = 0.0
    for i in range(weights.shape[0]):
        share = weights[i] * factor
        total += share
        squares += share * share
    return total, squares


# --- Compiled conversion of a few rows to features: standardise, append the intercept, bound, scale


@kernel(int64, IN2, IN1, IN1, float64, float64, float64, float64, boolean, OUT2, OUT1)
def make_features(
    rows: FloatArray,
    mean: FloatArray,
    scale: FloatArray,
    largest: float,
    bound: float,
    tolerance: float,
    divisor: float,
    is_intercept_bounded: bool,
    features: FloatArray,
    is_long: FloatArray,
) -> int:
    """Compute rows (x - mean) / scale, clipped to +-largest, shortened to the bound and divided by the divisor.

    Rows longer than the bound are marked by a 1 in ``is_long``. If ``features`` has one column more than ``rows``, it
    is the intercept: a 1 that is bounded with the row, or a constant 1.

    Returns
    -------
    int
        Number of rows longer than the bound, beyond the relative tolerance.
    """
    n_columns, n_long = rows.shape[1], 0
    has_intercept = features.shape[1] > n_columns
    for i in range(rows.shape[0]):
        squared_norm = 1.0 if has_intercept and is_intercept_bounded else 0.0
        for j in range(n_columns):
            value = (rows[i, j] - mean[j]) / scale[j]
            value = largest if value > largest else value
            value = -largest if value < -largest else value
            features[i, j] = value
            squared_norm += value * value
        norm, factor = math.sqrt(squared_norm), 1.0
        if norm > bound * (1.0 + tolerance):
            factor = bound / norm
            n_long += 1
            is_long[i] = 1.0
        factor /= divisor
        for j in range(n_columns):
            features[i, j] *= factor
        if has_intercept:
            features[i, n_columns] = factor if is_intercept_bounded else 1.0
    return n_long
