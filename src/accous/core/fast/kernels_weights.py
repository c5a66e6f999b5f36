"""Compiled step from ratios to importance weights."""

from __future__ import annotations

from numba import types

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, OUT1, inlined_sums, kernel

__all__ = ["normalise_weights"]


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
