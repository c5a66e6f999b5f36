"""Compiled conversion of a few rows to features: standardise, append the intercept, bound, scale."""

from __future__ import annotations

import math

from numba import boolean, float64, int64

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, IN2, OUT1, OUT2, kernel

__all__ = ["make_features"]


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
