"""Compiled maps of a few rows: standardise, append the intercept, bound, scale."""

from __future__ import annotations

import math

from numba import boolean, float64, int64, types

from accous.core.arrays import FloatArray
from accous.core.compiled import IN1, IN2, OUT2, kernel

__all__ = ["bound_rows", "standardize_rows"]


@kernel(types.void, IN2, IN1, IN1, float64, OUT2)
def standardize_rows(
    rows: FloatArray, mean: FloatArray, scale: FloatArray, largest: float, standardized: FloatArray
) -> None:
    """(x - mean) / scale, cut to +-largest."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            value = (rows[i, j] - mean[j]) / scale[j]
            value = largest if value > largest else value
            standardized[i, j] = -largest if value < -largest else value


@kernel(int64, IN2, float64, float64, float64, boolean, OUT2)
def bound_rows(
    rows: FloatArray, bound: float, tolerance: float, divisor: float, is_intercept_bounded: bool, features: FloatArray
) -> int:
    """Rows longer than the bound brought back to it, all divided by the divisor, into ``features``.

    A column that ``features`` has more is an intercept: a 1 that belongs to the row, or one that stays 1.

    Returns
    -------
    int
        How many rows were longer than the bound, beyond the relative tolerance.
    """
    n_columns, n_long = rows.shape[1], 0
    has_intercept = features.shape[1] > n_columns
    for i in range(rows.shape[0]):
        squared_norm = 1.0 if has_intercept and is_intercept_bounded else 0.0
        for j in range(n_columns):
            squared_norm += rows[i, j] * rows[i, j]
        norm, factor = math.sqrt(squared_norm), 1.0
        if norm > bound * (1.0 + tolerance):
            factor = bound / norm
            n_long += 1
        factor /= divisor
        for j in range(n_columns):
            features[i, j] = rows[i, j] * factor
        if has_intercept:
            features[i, n_columns] = factor if is_intercept_bounded else 1.0
    return n_long
