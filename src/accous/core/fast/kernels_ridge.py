"""Compiled weighted ridge regression on few columns: one pass for the Gram matrix, then a small triangular system.

Rows come in blocks, ``(n_blocks, m, n_together)``, as in ``kernels_rows.py``. The columns of a block are the constant
1, the centred columns of the reference, the centred targets, and zeros up to a multiple of four. The Cholesky factor of
the Gram matrix of all of them holds the centring (its first column), the factor of the regression, and the solved right
side (the row of the targets).
"""

from __future__ import annotations

import math

from numba import float64, int64, types

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, IN3, OUT1, OUT2, inlined, inlined_sums, kernel

__all__ = ["fit_ridge"]

_SMALLEST_PIVOT = 1e-10
_PIVOT_TO_REFINE = 1e-4


@inlined_sums
def _add_gram(blocks: FloatArray, weights: FloatArray, room: FloatArray, gram: FloatArray) -> None:
    """Add the upper triangle (and a bit more) of the weighted Gram matrix, in tiles of two rows and four columns."""
    n_blocks, n_columns, n_together = blocks.shape
    for block in range(n_blocks):
        for i in range(n_together):
            row = block * n_together + i
            room[2, i] = weights[row] if row < weights.shape[0] else 0.0
        for k in range(0, n_columns, 2):
            for i in range(n_together):
                room[0, i] = room[2, i] * blocks[block, k, i]
                room[1, i] = room[2, i] * blocks[block, k + 1, i]
            for j in range(k // 4 * 4, n_columns, 4):
                u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = 0.0
                for i in range(n_together):
                    u = room[0, i]
                    v = room[1, i]
                    x0 = blocks[block, j, i]
                    x1 = blocks[block, j + 1, i]
                    x2 = blocks[block, j + 2, i]
                    x3 = blocks[block, j + 3, i]
                    u0 += u * x0
                    u1 += u * x1
                    u2 += u * x2
                    u3 += u * x3
                    v0 += v * x0
                    v1 += v * x1
                    v2 += v * x2
                    v3 += v * x3
                gram[k, j] += u0
                gram[k, j + 1] += u1
                gram[k, j + 2] += u2
                gram[k, j + 3] += u3
                gram[k + 1, j] += v0
                gram[k + 1, j + 1] += v1
                gram[k + 1, j + 2] += v2
                gram[k + 1, j + 3] += v3


@inlined_sums
def _remainder(entry: float, matrix: FloatArray, j: int, k: int) -> float:
    """Subtract the product of the first k entries of the rows j and k."""
    total = 0.0
    for m in range(k):
        total += matrix[j, m] * matrix[k, m]
    return entry - total


@inlined
def _factorise(matrix: FloatArray, scale: FloatArray) -> float:
    """Write the Cholesky factor of the upper triangle, rows rescaled, to the lower one, and the solved last row.

    Returns the smallest pivot, of rows that had the diagonal 1; zero or less if the matrix is not positive definite.
    """
    n_solved = scale.shape[0]
    smallest = 1.0
    for j in range(n_solved + 1):
        scale_j = 1.0
        if j < n_solved:
            if not matrix[j, j] > 0.0:
                return 0.0
            scale_j = scale[j] = 1.0 / math.sqrt(matrix[j, j])
        for k in range(j if j < n_solved else n_solved):
            matrix[j, k] = _remainder(matrix[k, j] * scale_j * scale[k], matrix, j, k) / matrix[k, k]
        if j < n_solved:
            pivot = _remainder(1.0, matrix, j, j)
            if not pivot > _SMALLEST_PIVOT:
                return 0.0
            smallest = pivot if pivot < smallest else smallest
            matrix[j, j] = math.sqrt(pivot)
    return smallest


@inlined
def _solve_forward(factor: FloatArray, scale: FloatArray, right_side: FloatArray) -> None:
    """Replace the right side by the solution with the lower factor."""
    for j in range(scale.shape[0]):
        entry = right_side[j] * scale[j]
        for m in range(j):
            entry -= factor[j, m] * right_side[m]
        right_side[j] = entry / factor[j, j]


@inlined
def _solve_backward(factor: FloatArray, scale: FloatArray, right_side: FloatArray) -> None:
    """Replace the right side by the solution with the transpose of the lower factor."""
    for j in range(scale.shape[0] - 1, -1, -1):
        entry = right_side[j] / factor[j, j]
        right_side[j] = entry
        for m in range(j):
            right_side[m] -= factor[j, m] * entry
    for j in range(scale.shape[0]):
        right_side[j] *= scale[j]


@inlined_sums
def _slopes(
    blocks: FloatArray, weights: FloatArray, alpha: float, coefs: FloatArray, room: FloatArray, slopes: FloatArray
) -> None:
    """Compute minus half the gradient of the objective from the rows themselves, not from their Gram matrix."""
    n_blocks, _, n_together = blocks.shape
    n_solved = coefs.shape[0]
    for j in range(n_solved):
        slopes[j] = -alpha * coefs[j] if j else 0.0
    for block in range(n_blocks):
        for i in range(n_together):
            room[0, i] = blocks[block, n_solved, i]
        for j in range(n_solved):
            coef = coefs[j]
            for i in range(n_together):
                room[0, i] -= coef * blocks[block, j, i]
        for i in range(n_together):
            row = block * n_together + i
            room[0, i] *= weights[row] if row < weights.shape[0] else 0.0
        for j in range(n_solved):
            total = 0.0
            for i in range(n_together):
                total += room[0, i] * blocks[block, j, i]
            slopes[j] += total


@kernel(types.boolean, IN3, IN1, float64, int64, OUT2, OUT2, OUT1, OUT1, OUT1)
def fit_ridge(
    blocks: FloatArray,
    weights: FloatArray,
    alpha: float,
    n_refinements: int,
    room: FloatArray,
    factor: FloatArray,
    scale: FloatArray,
    slopes: FloatArray,
    coefs: FloatArray,
) -> bool:
    r"""Minimise :math:`\sum_i s_i (y_i - b - w^\top x_i)^2 + \alpha \|w\|^2` over ``coefs``, b first.

    If the columns are nearly dependent, the solution is refined: the gradient is computed from the rows, whose digits
    the Gram matrix has lost, and one more triangular system gives the correction.

    Parameters
    ----------
    blocks : array of shape (n_blocks, m, n_together)
        The constant 1, d centred columns, the centred targets, and zeros; m is a multiple of four.
    weights : array of shape (n_rows,)
        Non-negative s.
    alpha : float
    n_refinements : int
        How often to refine if it is necessary.
    room : array of shape (3, n_together)
        Workspace, like ``slopes``.
    factor : array of shape (m, m)
        Receives the Cholesky factor of the matrix of the regression, rows rescaled, in its lower triangle.
    scale : array of shape (d + 1,)
        Receives the scales of the rows.
    slopes : array of shape (d + 1,)
    coefs : array of shape (d + 1,)

    Returns
    -------
    bool
        False if the matrix is nearly singular, not finite, or has no weight; ``coefs`` is then invalid.
    """
    n_solved = coefs.shape[0]
    for j in range(factor.shape[0]):
        for k in range(factor.shape[1]):
            factor[j, k] = alpha if j == k and 0 < j < n_solved else 0.0
    _add_gram(blocks, weights, room, factor)
    smallest = _factorise(factor, scale)
    if not smallest > 0.0:
        return False
    for j in range(n_solved):
        coefs[j] = factor[n_solved, j]
    _solve_backward(factor, scale, coefs)
    if smallest < _PIVOT_TO_REFINE:
        for _ in range(n_refinements):
            _slopes(blocks, weights, alpha, coefs, room, slopes)
            _solve_forward(factor, scale, slopes)
            _solve_backward(factor, scale, slopes)
            for j in range(n_solved):
                coefs[j] += slopes[j]
    size = 0.0
    for j in range(n_solved):
        size += abs(coefs[j])
    return math.isfinite(size)
