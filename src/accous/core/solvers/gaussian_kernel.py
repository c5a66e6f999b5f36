r"""Gaussian kernels between rows and centres, without underflow in many dimensions.

.. math:: k_\sigma(x, c) = \exp\Big(-\frac{\|x - c\|^2}{2\sigma^2}\Big)
"""

from __future__ import annotations

import math

import numpy as np

from accous.arrays import FloatArray, IntArray

__all__ = [
    "gaussian_basis",
    "largest_exponents",
    "median_distance",
    "spread_indices",
    "squared_distances",
    "squared_norms",
]

_LARGEST_UNSHIFTED = 30.0


def squared_distances(rows: FloatArray, centers: FloatArray, row_norms: FloatArray | None = None) -> FloatArray:
    """Return the squared distances of every row to every centre, (n_rows, n_centers).

    They come from one matrix product. Callers centre their rows, so cancellation loses little, but a distance of 0 may
    come out as a rounding error. The array is contiguous along the rows of one centre, because there are many rows and
    few centres.

    Parameters
    ----------
    rows, centers : arrays of shape (n_rows, d) and (n_centers, d)
    row_norms : array of shape (n_rows,), optional
        Squared norms of the rows, if known.
    """
    distances = (-2.0 * centers) @ rows.T
    distances += squared_norms(rows) if row_norms is None else row_norms
    distances += squared_norms(centers)[:, None]
    return np.maximum(distances, 0.0, out=distances).T


def squared_norms(rows: FloatArray) -> FloatArray:
    """Squared norm of every row."""
    return np.asarray(np.einsum("nd,nd->n", rows, rows))


def median_distance(rows: FloatArray) -> float:
    """Return the median distance between two different rows; 1 if more than half of the pairs coincide."""
    distances = squared_distances(rows, rows)[np.triu_indices(len(rows), k=1)]
    # Rows that coincide have distances the size of rounding errors.
    distances[distances <= 1e-13 * squared_norms(rows).max()] = 0.0
    median = math.sqrt(float(np.median(distances))) if distances.size else 0.0
    return median if median > 0.0 else 1.0


def largest_exponents(reference_distances: FloatArray, width: float) -> FloatArray:
    r"""Return how far to shift the exponents of each centre so that its kernel does not vanish on the reference.

    If the nearest reference row of a centre has exponent :math:`m = \min_i \|x_i - c\|^2 / 2\sigma^2` above 30, the
    kernel is widened at its top, :math:`\exp(-\max(0, \|x - c\|^2 / 2\sigma^2 - (m - 30)))`. It keeps its shape on the
    reference, where it would otherwise vanish in floating point. All other centres have shift 0. With a reasonable
    width, that is every centre.

    Parameters
    ----------
    reference_distances : array of shape (n_reference, n_centers)
        Squared distances.
    width : float
        sigma.
    """
    return np.maximum(reference_distances.min(axis=0) * (0.5 / (width * width)) - _LARGEST_UNSHIFTED, 0.0)


def gaussian_basis(distances: FloatArray, width: float, shifts: FloatArray) -> FloatArray:
    """Return kernels from squared distances, with the shift of every centre; see :func:`largest_exponents`."""
    exponents = distances * (0.5 / (width * width))
    if shifts.any():
        exponents = np.maximum(exponents - shifts, 0.0)
    return np.exp(np.negative(exponents, out=exponents), out=exponents)


def spread_indices(rows: FloatArray, n_wanted: int, direction: FloatArray) -> IntArray:
    """Choose rows evenly along a direction; the choice depends on their values, not on their order."""
    if len(rows) <= n_wanted:
        return np.arange(len(rows))
    order = np.argsort(rows @ direction, kind="stable")
    positions = (np.arange(n_wanted) * len(rows) + len(rows) // 2) // n_wanted
    return order[positions]
