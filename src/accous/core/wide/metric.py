r"""The matrix of one Online Newton Step learner with many features, kept as a root and the gradients since then.

.. math:: A = \lambda I + \sum_\tau g_\tau g_\tau^\top = R^\top (I + H^\top H) R, \qquad
    A_t^{-1} g_t = R^{-1} H^\top (I + H H^\top)^{-1} e_k .

R is triangular, or the root of lambda times the identity in a learner's first rounds. The k rows of H are the gradients
that R does not include yet, whitened by R. A round appends a row to H and to the Cholesky factor of
:math:`I + H H^\top` instead of writing d^2 numbers. From time to time a QR decomposition merges the rows into R. No
inverse is updated, so large gradients with a small lambda lose no digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrmv, dtrsv
from scipy.linalg.lapack import dtpqrt

from accous.arrays import FloatArray

__all__ = ["Metric", "start_metric"]

_MAX_PENDING = 64
_LARGE_GRADIENT = 1e6
_QR_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Metric:
    """A in square-root form; each step replaces it and never modifies it.

    Attributes
    ----------
    ridge : float
        lambda.
    root : array of shape (d, d) or None
        R, upper triangular, column-major in memory; None means sqrt(lambda) I.
    pending : array of shape (k, d)
        H.
    factor : array of shape (k, k)
        Lower triangular L with L L^T = I + H H^T.
    """

    ridge: float
    root: FloatArray | None
    pending: FloatArray
    factor: FloatArray

    def plus(self, gradient: FloatArray) -> tuple[Metric, FloatArray]:
        """Return the metric of A + g g^T, and the Newton direction (A + g g^T)^{-1} g."""
        whitened = self._whiten(gradient)
        size = float(whitened @ whitened)
        if not size <= _LARGE_GRADIENT:
            # Next to a row this large, its component along the other rows would be lost: QR keeps it.
            after = self._absorb(gradient[None])
            return after, after.solve(gradient)
        overlaps = _solve_lower(self.factor, self.pending @ whitened)
        # At least 1 in exact arithmetic.
        pivot = max(1.0 + size - float(overlaps @ overlaps), 1.0)
        step = (whitened - _solve_lower_transposed(self.factor, overlaps) @ self.pending) / pivot
        n_pending = len(self.pending)
        factor = np.zeros((n_pending + 1, n_pending + 1))
        factor[:-1, :-1], factor[-1, :-1], factor[-1, -1] = self.factor, overlaps, np.sqrt(pivot)
        after = Metric(self.ridge, self.root, np.concatenate((self.pending, whitened[None])), factor)
        is_full = n_pending + 1 >= (_max_young_rows(len(gradient)) if self.root is None else _MAX_PENDING)
        return (after._absorb() if is_full else after), self._unwhiten(step)

    def solve(self, vector: FloatArray) -> FloatArray:
        """A^{-1} x."""
        whitened = self._whiten(vector)
        overlaps = _solve_lower(self.factor, self.pending @ whitened)
        whitened -= _solve_lower_transposed(self.factor, overlaps) @ self.pending
        return self._unwhiten(whitened)

    def apply(self, vector: FloatArray) -> FloatArray:
        """A x."""
        rooted = self._times_root(vector)
        rooted += (self.pending @ rooted) @ self.pending
        if self.root is None:
            return np.asarray(np.sqrt(self.ridge) * rooted)
        return np.asarray(dtrmv(self.root, rooted, trans=1))

    def dense(self) -> FloatArray:
        """A itself."""
        d = self.pending.shape[1]
        root = np.sqrt(self.ridge) * np.eye(d) if self.root is None else self.root
        rows = self.pending @ root
        return np.asarray(root.T @ root + rows.T @ rows)

    def _whiten(self, vector: FloatArray) -> FloatArray:
        """R^{-T} x."""
        if self.root is None:
            return np.asarray(vector / np.sqrt(self.ridge))
        return np.asarray(dtrsv(self.root, vector, trans=1))

    def _unwhiten(self, vector: FloatArray) -> FloatArray:
        """R^{-1} x."""
        if self.root is None:
            return np.asarray(vector / np.sqrt(self.ridge))
        return np.asarray(dtrsv(self.root, vector))

    def _times_root(self, vector: FloatArray) -> FloatArray:
        """R x."""
        if self.root is None:
            return np.asarray(np.sqrt(self.ridge) * vector)
        return np.asarray(dtrmv(self.root, vector))

    def _absorb(self, *more: FloatArray) -> Metric:
        """Merge the pending rows, and further gradients, into the root."""
        d = self.pending.shape[1]
        root = np.sqrt(self.ridge) * np.eye(d, order="F") if self.root is None else self.root
        rows = np.concatenate((self.pending @ root, *more))
        root, _, _, info = dtpqrt(0, min(_QR_BLOCK, d), root, np.asfortranarray(rows))
        assert info == 0
        return Metric(self.ridge, root, np.empty((0, d)), np.empty((0, 0)))


def start_metric(ridge: float, n_coefs: int) -> Metric:
    """A = lambda I."""
    return Metric(ridge, None, np.empty((0, n_coefs)), np.empty((0, 0)))


def _max_young_rows(n_coefs: int) -> int:
    """Number of rows up to which products with the rows cost less than products with a triangular root."""
    return max(_MAX_PENDING, n_coefs // 2)


def _solve_lower(factor: FloatArray, right_side: FloatArray) -> FloatArray:
    """L^{-1} b."""
    # The factor is row-major in memory, so its transpose is what BLAS expects.
    return np.asarray(dtrsv(factor.T, right_side, trans=1)) if len(right_side) else right_side


def _solve_lower_transposed(factor: FloatArray, right_side: FloatArray) -> FloatArray:
    """L^{-T} b."""
    return np.asarray(dtrsv(factor.T, right_side)) if len(right_side) else right_side
