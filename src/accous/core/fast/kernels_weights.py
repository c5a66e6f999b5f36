"""Compiled steps from ratios to importance weights: normalise, count effective rows, and compare weights."""

from __future__ import annotations

from numba import float64, types

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, OUT1, inlined_sums, kernel

__all__ = ["effective_rows", "normalise_weights", "total_variation"]


@kernel(types.boolean, IN1, IN1, OUT1)
def normalise_weights(base: FloatArray, ratios: FloatArray, weights: FloatArray) -> bool:
    r"""Write :math:`b_i r_i \sum_j b_j / \sum_j b_j r_j` to ``weights``; return False if all ratios are zero."""
    total = _sum_of_products(base, ratios)
    if not total > 0.0:
        return False
    factor = _sum(base) / total
    for i in range(weights.shape[0]):
        weights[i] = base[i] * ratios[i] * factor
    return True


@kernel(float64, IN1)
def effective_rows(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2`, in one call.

    Weights are not negative and not all zero. Unlike a product of BLAS, its bits do not depend on the number of cores.
    """
    total, squares = _sum_and_squares(weights, 1.0)
    if 1e-300 < squares < 1e300:
        return total * total / squares
    # Squares and sums of shares neither overflow nor underflow.
    largest = 0.0
    for i in range(weights.shape[0]):
        largest = max(largest, weights[i])
    total, squares = _sum_and_squares(weights, 1.0 / largest)
    return total * total / squares


@kernel(float64, IN1, IN1)
def total_variation(weights: FloatArray, others: FloatArray) -> float:
    r"""Half the sum of :math:`|w_i / \sum_j w_j - v_i / \sum_j v_j|`: how far two weightings of rows are apart."""
    return 0.5 * _sum_of_differences(weights, _sum(weights), others, _sum(others))


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
def _sum(a: FloatArray) -> float:
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
