"""Compiled fits: ridge regression, and the leaves of boosted trees."""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, types, uint8

from accous.arrays import FloatArray
from accous.core.compiled import IN1, IN3, OUT1, OUT2, OUT3, inlined, inlined_sums, kernel

# --- Compiled weighted ridge regression on few columns: one pass for the Gram matrix, then a small triangular
#     system


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


# --- Compiled passes over the leaves of boosted trees: new values under other weights, with the structure kept


SQUARED, BINOMIAL, MULTINOMIAL = 0, 1, 2
_LEAVES = types.Array(uint8, 3, "C", readonly=True)
# Keeps the quotient of an empty leaf at zero, as in scikit-learn.
_TINY = 1e-15


@inlined
def _add_derivatives(
    loss: int,
    leaves: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    scores: FloatArray,
    shares: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the weighted derivatives of the loss by each score to the sums of the leaves, first and second ones."""
    n_rows, n_scores = scores.shape
    for i in range(n_rows):
        if loss == MULTINOMIAL:
            largest, total = scores[i, 0], 0.0
            for k in range(n_scores):
                largest = max(largest, scores[i, k])
            for k in range(n_scores):
                shares[k] = math.exp(scores[i, k] - largest)
                total += shares[k]
            for k in range(n_scores):
                share = shares[k] / total
                sums[k, 0, leaves[k, i]] += weights[i] * (share - (1.0 if targets[i] == k else 0.0))
                sums[k, 1, leaves[k, i]] += weights[i] * share * (1.0 - share)
            continue
        slope, curve = scores[i, 0] - targets[i], 1.0
        if loss == BINOMIAL:
            share = 1.0 / (1.0 + math.exp(-scores[i, 0]))
            slope, curve = share - targets[i], share * (1.0 - share)
        sums[0, 0, leaves[0, i]] += weights[i] * slope
        sums[0, 1, leaves[0, i]] += weights[i] * curve


@kernel(types.void, int64, _LEAVES, IN1, IN1, float64, float64, OUT2, OUT3)
def revalue_leaves(
    loss: int,
    leaves: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    rate: float,
    penalty: float,
    scores: FloatArray,
    values: FloatArray,
) -> None:
    """Write the value of each leaf to ``values``, and leave the scores of the rows in ``scores``.

    Parameters
    ----------
    loss : int
        `SQUARED`, `BINOMIAL` or `MULTINOMIAL`.
    leaves : array of uint8 of shape (n_steps, n_scores, n_rows)
        The leaf of each row in each tree; a step has a tree for each score.
    targets : array of shape (n_rows,)
        Numbers to predict, or numbers of classes.
    weights : array of shape (n_rows,)
    rate, penalty : float
        The learning rate, and the penalty of large values.
    scores : array of shape (n_rows, n_scores)
        On entry the score of each row before the first tree.
    values : array of shape (n_steps, n_scores, n_nodes)
    """
    n_steps, n_scores, n_rows = leaves.shape
    n_nodes = values.shape[2]
    sums, shares = np.zeros((n_scores, 2, n_nodes)), np.zeros(n_scores)
    for step in range(n_steps):
        sums[:] = 0.0
        _add_derivatives(loss, leaves[step], targets, weights, scores, shares, sums)
        for k in range(n_scores):
            for node in range(n_nodes):
                values[step, k, node] = -rate * sums[k, 0, node] / (sums[k, 1, node] + penalty + _TINY)
            for i in range(n_rows):
                scores[i, k] += values[step, k, leaves[step, k, i]]


@kernel(types.void, _LEAVES, IN3, OUT2)
def add_leaves(leaves: FloatArray, values: FloatArray, scores: FloatArray) -> None:
    """Add the values of the leaves to the scores of rows, in the order of the trees."""
    n_steps, n_scores, n_rows = leaves.shape
    for step in range(n_steps):
        for k in range(n_scores):
            for i in range(n_rows):
                scores[i, k] += values[step, k, leaves[step, k, i]]
