"""Compiled steps from ratios to importance weights: score the tempered ratios, normalise, count effective rows."""

from __future__ import annotations

import math

from numba import float64, int64, types

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, OUT1, inlined_sums, kernel

__all__ = ["EXPONENTS", "discount_losses", "effective_rows", "normalise_weights", "reference_terms"]

EXPONENTS = (0.0, 0.5, 1.0)
_LARGEST = 1e30
_LOG_OF_LARGEST_PRODUCT = 700.0
# If the ratio is 1, the losses differ only by rounding errors.
_ROUNDING = 1e-12


@kernel(types.none, IN1, float64, OUT1)
def reference_terms(ratios: FloatArray, largest: float, terms: FloatArray) -> None:
    r"""Write the means of :math:`\log(1 + r_i^\tau)` over the rows for tau = 0, 1/2, 1 to ``terms``.

    Ratios above ``largest`` count as ``largest``. One logarithm is taken for the product of several rows, as many as
    cannot overflow.
    """
    n_rows = ratios.shape[0]
    limit = min(largest, _LARGEST)
    # Both factors of a row, 1 + r and 1 + sqrt(r), are below 2 + r.
    n_together = int(_LOG_OF_LARGEST_PRODUCT / math.log(2.0 + limit))
    half_sum = whole_sum = 0.0
    first = 0
    while first < n_rows:
        last = min(n_rows, first + n_together)
        halves = wholes = 1.0
        for i in range(first, last):
            whole = min(ratios[i], limit)
            halves *= 1.0 + math.sqrt(whole)
            wholes *= 1.0 + whole
        half_sum += math.log(halves)
        whole_sum += math.log(wholes)
        first = last
    terms[0] = math.log(2.0)
    terms[1] = half_sum / n_rows
    terms[2] = whole_sum / n_rows


@kernel(int64, IN1, IN1, IN1, float64, float64, OUT1)
def discount_losses(
    losses: FloatArray,
    terms: FloatArray,
    batch_ratios: FloatArray,
    smallest: float,
    decay: float,
    discounted: FloatArray,
) -> int:
    r"""Compute old losses times ``decay`` plus a round's :math:`\mathrm{terms} + \mathrm{mean} \log(1 + r^{-\tau})`.

    Ratios of the batch below ``smallest`` count as ``smallest``. Returns the position of the smallest discounted loss;
    if several are equal up to rounding, the first of them.
    """
    n_rows = batch_ratios.shape[0]
    half_sum = whole_sum = 0.0
    for i in range(n_rows):
        whole = 1.0 / min(max(batch_ratios[i], smallest), _LARGEST)
        half_sum += math.log(1.0 + math.sqrt(whole))
        whole_sum += math.log(1.0 + whole)
    discounted[0] = decay * losses[0] + terms[0] + math.log(2.0)
    discounted[1] = decay * losses[1] + terms[1] + half_sum / n_rows
    discounted[2] = decay * losses[2] + terms[2] + whole_sum / n_rows
    best = 0
    for j in range(1, 3):
        if discounted[j] < (1.0 - _ROUNDING) * discounted[best]:
            best = j
    return best


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
