"""The kernel matrix of the reference: the full matrix if it is small, otherwise its Nystroem approximation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from accous.arrays import FloatArray
from accous.core.ratio_problems import DenseMatrix, FactoredMatrix, gaussian_basis, spread_indices, squared_distances

__all__ = ["KernelMatrix", "make_kernel_matrix"]

_MAX_DENSE_ROWS = 2000
_SMALLEST_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class KernelMatrix:
    """The kernel matrix K of the reference, and its extension to other rows.

    Attributes
    ----------
    matrix : DenseMatrix or FactoredMatrix
    centers : array of shape (n_centers, n_columns)
        All reference rows for a dense matrix, or the chosen ones for a factored matrix.
    normalization : array of shape (n_centers, n_factors) or None
        Maps kernels at the centres to rows of the factor.
    width : float
    """

    matrix: DenseMatrix | FactoredMatrix
    centers: FloatArray
    normalization: FloatArray | None
    width: float

    def cross(self, rows: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over the reference of weight times kernel, for every row."""
        kernels = _kernels(rows, self.centers, self.width)
        if isinstance(self.matrix, DenseMatrix) or self.normalization is None:
            return np.asarray(kernels @ weights)
        return np.asarray(kernels @ (self.normalization @ (weights @ self.matrix.factor)))


def make_kernel_matrix(rows: FloatArray, width: float, max_centers: int, direction: FloatArray) -> KernelMatrix:
    """Return the kernel matrix of the rows; it is exact for up to 2000 rows."""
    if len(rows) <= _MAX_DENSE_ROWS:
        return KernelMatrix(DenseMatrix(_kernels(rows, rows, width)), rows, None, width)
    centers = rows[spread_indices(rows, max_centers, direction)]
    eigenvalues, eigenvectors = eigh(_kernels(centers, centers, width))
    is_used = eigenvalues > _SMALLEST_EIGENVALUE * eigenvalues[-1]
    normalization = eigenvectors[:, is_used] / np.sqrt(eigenvalues[is_used])
    factor = _kernels(rows, centers, width) @ normalization
    return KernelMatrix(FactoredMatrix(factor), centers, normalization, width)


def _kernels(rows: FloatArray, centers: FloatArray, width: float) -> FloatArray:
    return gaussian_basis(squared_distances(rows, centers), width, np.zeros(len(centers)))
