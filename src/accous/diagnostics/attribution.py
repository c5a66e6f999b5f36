r"""Attributes the log ratio to the input columns.

The log ratio is :math:`z = \phi(x)^\top \theta` up to its sign. If each feature is one input column, the variance of z
over the reference is the sum of the columns' contributions:

.. math:: \mathrm{var}(z) = \sum_j \theta_j \, \mathrm{cov}(\phi_j, z) .

If features mix columns, column j contributes :math:`\rho_j^2 \, \mathrm{var}(z)`, where :math:`\rho_j^2` is the squared
correlation between the column and z (for categories: the share of the variance between them).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray

__all__ = ["ReferenceColumns", "linear_parts", "shares"]


def linear_parts(coef: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return the contribution of each feature to the variance of the score, given its covariance with the score.

    Negative contributions count as zero.
    """
    return np.maximum(coef * covariances, 0.0)


def shares(parts: FloatArray) -> FloatArray:
    """Divide the parts by their sum; return zeros if the sum is zero."""
    total = parts.sum()
    return parts / total if total > 0.0 else np.zeros_like(parts)


class ReferenceColumns:
    """The columns of a reference, as numbers or as categories; read on first use."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference
        self._columns: list[FloatArray | IntArray] | None = None

    def parts(self, log_ratio: FloatArray) -> FloatArray:
        """Return the variance of the log ratio that each column explains on its own."""
        if self._columns is None:
            self._columns = [_as_numbers_or_codes(column) for column in _columns_of(self._reference)]
        deviations = log_ratio - log_ratio.mean()
        return np.array([_explained(column, deviations) for column in self._columns])


def _columns_of(reference: Any) -> list[NDArray[Any]]:
    if hasattr(reference, "columns"):
        return [np.asarray(reference[name]) for name in reference.columns]
    return list(np.asarray(reference).reshape(len(reference), -1).T)


def _as_numbers_or_codes(column: NDArray[Any]) -> FloatArray | IntArray:
    """Return numbers centred and scaled, with the mean for missing values; return anything else as codes."""
    if column.dtype.kind in "mM":
        column = column.astype(np.int64)
    if column.dtype.kind not in "biuf":
        return np.unique(np.array([str(value) for value in column]), return_inverse=True)[1].astype(np.int64)
    numbers = column.astype(np.float64)
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    if np.isnan(numbers).all():
        return np.zeros(len(numbers))
    largest = np.nanmax(np.abs(numbers))
    numbers = numbers / largest if largest > 0.0 else numbers
    numbers = np.nan_to_num(numbers - np.nanmean(numbers))
    scale = numbers.std()
    return numbers / scale if scale > 0.0 else numbers


def _explained(column: FloatArray | IntArray, deviations: FloatArray) -> float:
    if column.dtype.kind == "f":
        return float((column @ deviations) / len(deviations)) ** 2
    counts = np.maximum(np.bincount(column), 1)
    means = np.bincount(column, weights=deviations) / counts
    return float(counts @ means**2) / len(deviations)
