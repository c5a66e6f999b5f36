r"""The matrix of one Online Newton Step learner with very many features, kept as a ridge and a few rows.

.. math:: A = \lambda I + B^\top B, \qquad A_t^{-1} g_t = B^\top (\lambda I + B B^\top)^{-1} e_m ,

where the last of the m rows of B is :math:`g_t`. The first 2k rows are the gradients themselves, and A is exact. Before
the next row is added, robust frequent directions (Luo et al. 2019; for Online Newton Steps first Luo et al. 2016)
reduce B to k rows: with the singular values :math:`\sigma_1 \ge \sigma_2 \ge \ldots` of B and
:math:`\delta = \sigma_{k+1}^2`,

.. math:: \sigma_i \leftarrow \sqrt{\max(\sigma_i^2 - \delta, 0)}, \qquad \lambda \leftarrow \lambda + \delta / 2 .

The error of :math:`x^\top A x / \|x\|^2` in any direction is then at most half the sum of all deltas. For every j up to
k, that sum is at most the energy of the gradients outside their best j directions, divided by k + 1 - j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrsv

from accous.arrays import FloatArray
from accous.core.paper.projection import find_multipliers, shrink_far_points

__all__ = ["Sketch", "start_sketch"]

_LARGE_GRADIENT = 1e4


@dataclass(frozen=True, slots=True)
class Sketch:
    """A as a multiple of the identity plus a low-rank part; each step replaces it and never modifies it.

    Attributes
    ----------
    rank : int
        k.
    ridge : float
        lambda.
    rows : array of shape (m, d)
        B, at most 2k rows.
    factor : array of shape (m, m)
        Lower triangular L with L L^T = lambda I + B B^T.
    """

    rank: int
    ridge: float
    rows: FloatArray
    factor: FloatArray

    def plus(self, gradient: FloatArray) -> tuple[Sketch, FloatArray]:
        """Return the sketch of A + g g^T, and the Newton direction (A + g g^T)^{-1} g with the A of that sketch."""
        shrunk = self if len(self.rows) < 2 * self.rank else self._shrink()
        size = float(gradient @ gradient)
        if not size <= _LARGE_GRADIENT * shrunk.ridge:
            return shrunk._plus_large(gradient)
        return shrunk._plus_small(gradient, size)

    def project(self, point: FloatArray, radius: float) -> FloatArray:
        r"""Project a point onto the ball in the norm of A; a point inside is returned unchanged.

        Along the right singular vectors of B, A equals :math:`\lambda + \sigma_i^2`, and orthogonal to them it equals
        lambda. The orthogonal part of the point keeps its direction, so the equation for mu has a single term for it.
        """
        with np.errstate(over="ignore"):
            is_inside = point @ point <= radius * radius
        if is_inside:
            return point
        point = shrink_far_points(point[None], radius)[0][0]
        _, singular_values, directions = np.linalg.svd(self.rows, full_matrices=False)
        along = directions @ point
        across = point - along @ directions
        coordinates = np.append(along, np.linalg.norm(across))
        eigenvalues = self.ridge + np.append(np.square(singular_values), 0.0)
        mu = find_multipliers((eigenvalues * coordinates)[None], eigenvalues[None], radius)[0]
        shares = eigenvalues / (eigenvalues + mu)
        theta = (shares[:-1] * along) @ directions + shares[-1] * across
        return np.asarray(theta * (radius / np.linalg.norm(theta)))

    def dense(self) -> FloatArray:
        """A itself."""
        return np.asarray(self.ridge * np.eye(self.rows.shape[1]) + self.rows.T @ self.rows)

    def _plus_small(self, gradient: FloatArray, size: float) -> tuple[Sketch, FloatArray]:
        """Append the gradient's row to B and to L."""
        n_rows = len(self.rows)
        factor = np.zeros((n_rows + 1, n_rows + 1))
        overlaps = self.rows @ gradient
        if n_rows:
            overlaps = dtrsv(self.factor.T, overlaps, trans=1)
        # The pivot's square is at least lambda in exact arithmetic.
        pivot = np.sqrt(max(self.ridge + size - float(overlaps @ overlaps), self.ridge))
        factor[:-1, :-1], factor[-1, :-1], factor[-1, -1] = self.factor, overlaps, pivot
        after = Sketch(self.rank, self.ridge, np.concatenate((self.rows, gradient[None])), factor)
        # Forward substitution of the last unit vector leaves it a multiple of itself.
        last = np.zeros(n_rows + 1)
        last[-1] = 1.0 / pivot
        return after, np.asarray(dtrsv(factor.T, last) @ after.rows)

    def _plus_large(self, gradient: FloatArray) -> tuple[Sketch, FloatArray]:
        """Do the same by singular values: next to a large row, L would lose the other rows."""
        rows = np.concatenate((self.rows, gradient[None]))
        left, singular_values, directions = np.linalg.svd(rows, full_matrices=False)
        squares = self.ridge + np.square(singular_values)
        after = Sketch(self.rank, self.ridge, singular_values[:, None] * directions, np.diag(np.sqrt(squares)))
        return after, np.asarray((left[-1] * singular_values / squares) @ directions)

    def _shrink(self) -> Sketch:
        """Reduce 2k rows to k."""
        # Errors of the small eigenvalues are as large as the rounding error of the largest one.
        squares, vectors = np.linalg.eigh(self.rows @ self.rows.T)
        kept = squares[-self.rank :]
        delta = max(float(squares[-self.rank - 1]), 0.0)
        # A rank below k leaves rows of zeros, which are harmless.
        shares = np.sqrt(np.maximum(kept - delta, 0.0) / np.maximum(kept, np.finfo(np.float64).tiny))
        rows = (shares * vectors[:, -self.rank :]).T @ self.rows
        ridge = self.ridge + 0.5 * delta
        return Sketch(self.rank, ridge, rows, np.diag(np.sqrt(ridge + np.maximum(kept - delta, 0.0))))


def start_sketch(ridge: float, n_coefs: int, rank: int) -> Sketch:
    """A = lambda I."""
    return Sketch(rank, ridge, np.empty((0, n_coefs)), np.empty((0, 0)))
