"""Compiled passes over many rows of few columns: gradients of all learners, ratios, Newton steps of the refit.

Rows come in blocks, ``(n_blocks, d, BLOCK)``: within a block a column is contiguous, so that every inner loop runs over
BLOCK neighbouring numbers, and one block with its scores stays in the fastest cache. All functions that share the
exponential are in this one file, because numba recompiles a cached kernel only when its own file has changed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, types

from accous.core.arrays import FloatArray
from accous.core.compiled import inlined, inlined_sums, kernel, read_only, writable

__all__ = ["BLOCK", "add_gradients", "evaluate_ratios", "fit_logistic", "to_blocks"]

BLOCK = 128

_LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first times an integer below 2^20 is exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to an integer and leaves it in the lowest bits.
_ROUNDER = 6755399441055744.0
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(n) for n in range(2, 14))
_LEAST, _MOST = -708.0, 709.0
_LARGEST_FULL_STEP = 1.0
_SMALLEST_PIVOT = 1e-12


def to_blocks(rows: FloatArray) -> FloatArray:
    """Rows in the order that the kernels read; the last block is filled up with zeros."""
    n_rows, n_columns = rows.shape
    n_blocks = -(-n_rows // BLOCK)
    padded = np.zeros((n_blocks * BLOCK, n_columns))
    padded[:n_rows] = rows
    return np.ascontiguousarray(padded.reshape(n_blocks, BLOCK, n_columns).swapaxes(1, 2))


# --- the exponential ------------------------------------------------------------------------------------------


@inlined
def _exp(x: float) -> float:
    """e^x to the last digit or two; arguments beyond +-708 are cut, so that the result is finite and not zero."""
    x = min(max(x, _LEAST), _MOST)
    shifted = x * _LOG2_E + _ROUNDER
    power = shifted - _ROUNDER
    r = (x - power * _LN2_HIGH) - power * _LN2_LOW
    p = _C13
    p = p * r + _C12
    p = p * r + _C11
    p = p * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + 1.0
    p = p * r + 1.0
    # Times 2^power, by adding to the exponent's bits.
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)


@inlined
def _exp_of_minus(scores: FloatArray) -> None:
    for i in range(scores.shape[0]):
        scores[i] = _exp(-scores[i])


@inlined
def _one_over_one_plus_exp(scores: FloatArray) -> None:
    for i in range(scores.shape[0]):
        scores[i] = 1.0 / (1.0 + _exp(scores[i]))


# --- products of a block with one or two vectors ----------------------------------------------------------------


@inlined
def _score_two(block: FloatArray, coef_a: FloatArray, coef_b: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Scores of the block's rows for two thetas, four columns at a time."""
    n_columns = block.shape[0]
    for i in range(BLOCK):
        a[i] = 0.0
        b[i] = 0.0
    j = 0
    while j + 4 <= n_columns:
        a0, a1, a2, a3 = coef_a[j], coef_a[j + 1], coef_a[j + 2], coef_a[j + 3]
        b0, b1, b2, b3 = coef_b[j], coef_b[j + 1], coef_b[j + 2], coef_b[j + 3]
        for i in range(BLOCK):
            x0, x1, x2, x3 = block[j, i], block[j + 1, i], block[j + 2, i], block[j + 3, i]
            a[i] = (((a[i] + a0 * x0) + a1 * x1) + a2 * x2) + a3 * x3
            b[i] = (((b[i] + b0 * x0) + b1 * x1) + b2 * x2) + b3 * x3
        j += 4
    while j < n_columns:
        a0, b0 = coef_a[j], coef_b[j]
        for i in range(BLOCK):
            a[i] += a0 * block[j, i]
            b[i] += b0 * block[j, i]
        j += 1


@inlined
def _score(block: FloatArray, coef: FloatArray, scores: FloatArray) -> None:
    for i in range(BLOCK):
        scores[i] = 0.0
    for j in range(block.shape[0]):
        c = coef[j]
        for i in range(BLOCK):
            scores[i] += c * block[j, i]


@inlined_sums
def _add_products(block: FloatArray, a: FloatArray, b: FloatArray, sum_a: FloatArray, sum_b: FloatArray) -> None:
    """Add the block times two vectors over its rows, four columns at a time."""
    n_columns = block.shape[0]
    j = 0
    while j + 4 <= n_columns:
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        for i in range(BLOCK):
            x0, x1, x2, x3 = block[j, i], block[j + 1, i], block[j + 2, i], block[j + 3, i]
            a0 += a[i] * x0
            a1 += a[i] * x1
            a2 += a[i] * x2
            a3 += a[i] * x3
            b0 += b[i] * x0
            b1 += b[i] * x1
            b2 += b[i] * x2
            b3 += b[i] * x3
        sum_a[j] += a0
        sum_a[j + 1] += a1
        sum_a[j + 2] += a2
        sum_a[j + 3] += a3
        sum_b[j] += b0
        sum_b[j + 1] += b1
        sum_b[j + 2] += b2
        sum_b[j + 3] += b3
        j += 4
    while j < n_columns:
        a0 = b0 = 0.0
        for i in range(BLOCK):
            a0 += a[i] * block[j, i]
            b0 += b[i] * block[j, i]
        sum_a[j] += a0
        sum_b[j] += b0
        j += 1


# --- gradients and ratios ---------------------------------------------------------------------------------------


@kernel(types.void, read_only(3), read_only(2), read_only(2), read_only(1), float64, float64, writable(2))
def add_gradients(
    blocks: FloatArray,
    rows: FloatArray,
    coefs: FloatArray,
    coef: FloatArray,
    block_factor: float,
    row_factor: float,
    gradients: FloatArray,
) -> None:
    r"""Add the logistic loss's gradients at all thetas, those of the learners and the ensemble's last.

    .. math:: c_0 \sum_{x \in \text{blocks}} \frac{x}{1 + e^{x^\top \theta}} + c_1 \sum_{x \in \text{rows}}
        \frac{x}{1 + e^{-x^\top \theta}}

    Parameters
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        Reference rows.
    rows : array of shape (n_rows, d)
        A few rows of the batch; many are faster as blocks of -x, whose terms have the same form.
    coefs : array of shape (n_learners, d)
    coef : array of shape (d,)
    block_factor, row_factor : float
    gradients : array of shape (n_learners + 1, d)
        Added to.
    """
    n_learners, n_columns = coefs.shape
    scores, unused = np.empty(2 * BLOCK), np.empty(n_columns)
    a, b = scores[:BLOCK], scores[BLOCK:]
    sums = np.zeros((n_learners + 1, n_columns))
    for block in range(blocks.shape[0]):
        for k in range(0, n_learners, 2):
            coef_b = coefs[k + 1] if k + 1 < n_learners else coef
            _score_two(blocks[block], coefs[k], coef_b, a, b)
            _one_over_one_plus_exp(scores)
            _add_products(blocks[block], a, b, sums[k], sums[k + 1])
        if n_learners % 2 == 0:
            _score(blocks[block], coef, a)
            _one_over_one_plus_exp(a)
            _add_products(blocks[block], a, b, sums[n_learners], unused)
    for k in range(n_learners + 1):
        _add_row_terms(rows, coefs[k] if k < n_learners else coef, row_factor, gradients[k])
        for j in range(n_columns):
            gradients[k, j] += block_factor * sums[k, j]


@inlined
def _add_row_terms(rows: FloatArray, coef: FloatArray, factor: float, gradient: FloatArray) -> None:
    for row in range(rows.shape[0]):
        score = 0.0
        for j in range(coef.shape[0]):
            score += rows[row, j] * coef[j]
        slope = factor / (1.0 + _exp(-score))
        for j in range(coef.shape[0]):
            gradient[j] += slope * rows[row, j]


@kernel(types.void, read_only(3), read_only(1), float64, writable(1))
def evaluate_ratios(blocks: FloatArray, coef: FloatArray, max_ratio: float, ratios: FloatArray) -> None:
    r"""Ratios :math:`\min\{e^{-x^\top \theta}, \text{max\_ratio}\}` of the first ``len(ratios)`` rows."""
    scores = np.empty(BLOCK)
    for block in range(blocks.shape[0]):
        first = block * BLOCK
        _score(blocks[block], coef, scores)
        _exp_of_minus(scores)
        for i in range(min(BLOCK, ratios.shape[0] - first)):
            ratios[first + i] = min(scores[i], max_ratio)


# --- the weighted refit -----------------------------------------------------------------------------------------


@inlined_sums
def _add_gram(block: FloatArray, curvatures: FloatArray, weighted: FloatArray, gram: FloatArray) -> None:
    """Add the lower triangle of X^T diag(curvatures) X, four rows of it at a time."""
    n_columns = block.shape[0]
    for k in range(n_columns):
        for i in range(BLOCK):
            weighted[i] = curvatures[i] * block[k, i]
        j = k
        while j + 4 <= n_columns:
            g0 = g1 = g2 = g3 = 0.0
            for i in range(BLOCK):
                g0 += weighted[i] * block[j, i]
                g1 += weighted[i] * block[j + 1, i]
                g2 += weighted[i] * block[j + 2, i]
                g3 += weighted[i] * block[j + 3, i]
            gram[j, k] += g0
            gram[j + 1, k] += g1
            gram[j + 2, k] += g2
            gram[j + 3, k] += g3
            j += 4
        while j < n_columns:
            g0 = 0.0
            for i in range(BLOCK):
                g0 += weighted[i] * block[j, i]
            gram[j, k] += g0
            j += 1


@inlined
def _differentiate(
    blocks: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    coef: FloatArray,
    penalty: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Gradient and lower triangle of the Hessian of the weighted logistic objective, in one pass over the rows."""
    work = np.zeros((4, BLOCK))
    probabilities, residuals, curvatures, weighted = work[0], work[1], work[2], work[3]
    unused = np.empty(coef.shape[0])
    for j in range(coef.shape[0]):
        gradient[j] = penalty[j] * coef[j]
        for k in range(j):
            hessian[j, k] = 0.0
        hessian[j, j] = penalty[j]
    for block in range(blocks.shape[0]):
        first = block * BLOCK
        n_rows = min(BLOCK, weights.shape[0] - first)
        _score(blocks[block], coef, probabilities)
        _one_over_one_plus_exp(probabilities)
        for i in range(n_rows):
            # 1 / (1 + e^z) is the probability of class 0.
            residuals[i] = weights[first + i] * (1.0 - probabilities[i] - targets[first + i])
            curvatures[i] = weights[first + i] * (probabilities[i] * (1.0 - probabilities[i]))
        for i in range(n_rows, BLOCK):
            residuals[i] = 0.0
            curvatures[i] = 0.0
        _add_products(blocks[block], residuals, residuals, gradient, unused)
        _add_gram(blocks[block], curvatures, weighted, hessian)


@inlined
def _factorise(matrix: FloatArray, scale: FloatArray) -> bool:
    """Cholesky in place of the lower triangle, rows brought to equal scale; False where nearly singular."""
    for j in range(matrix.shape[0]):
        scale[j] = 1.0 / math.sqrt(matrix[j, j])
        for k in range(j + 1):
            entry = matrix[j, k] * scale[j] * scale[k]
            for m in range(k):
                entry -= matrix[j, m] * matrix[k, m]
            if j > k:
                matrix[j, k] = entry / matrix[k, k]
            elif entry > _SMALLEST_PIVOT:
                matrix[j, j] = math.sqrt(entry)
            else:
                return False
    return True


@inlined
def _solve(factor: FloatArray, scale: FloatArray, right_side: FloatArray, solution: FloatArray) -> None:
    for j in range(factor.shape[0]):
        entry = right_side[j] * scale[j]
        for m in range(j):
            entry -= factor[j, m] * solution[m]
        solution[j] = entry / factor[j, j]
    for j in range(factor.shape[0] - 1, -1, -1):
        entry = solution[j] / factor[j, j]
        solution[j] = entry
        for m in range(j):
            solution[m] -= factor[j, m] * entry
    for j in range(factor.shape[0]):
        solution[j] *= scale[j]


@inlined
def _largest_score(blocks: FloatArray, coef: FloatArray) -> float:
    scores, largest = np.empty(BLOCK), 0.0
    for block in range(blocks.shape[0]):
        _score(blocks[block], coef, scores)
        for i in range(BLOCK):
            largest = max(largest, abs(scores[i]))
    return largest


@kernel(
    types.boolean,
    read_only(3),
    read_only(1),
    read_only(1),
    read_only(1),
    float64,
    int64,
    writable(1),
)
def fit_logistic(
    blocks: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    penalty: FloatArray,
    tolerance: float,
    max_steps: int,
    coef: FloatArray,
) -> bool:
    r"""Minimise the weighted logistic objective by Newton's method from ``coef``, which is replaced.

    No objective is evaluated. Where a step d changes no score by more than m, every curvature along it stays within a
    factor :math:`e^{\pm m}`, because the logistic function's third derivative is at most its second. With the
    decrement :math:`\lambda^2 = d^\top H d` it follows that

    * the step of length 1 for :math:`m \le 1`, else of length :math:`\ln(1 + m) / m`, lowers the objective;
    * after a step of length 1 it is less than :math:`m^2 \lambda^2` above its minimum.

    Returns
    -------
    bool
        Whether that bound fell below ``tolerance``; False also where the Hessian is nearly singular. ``coef`` is then
        only a better point than before.
    """
    n_columns = coef.shape[0]
    gradient, direction, scale = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    hessian = np.empty((n_columns, n_columns))
    for _ in range(max_steps):
        _differentiate(blocks, targets, weights, coef, penalty, gradient, hessian)
        if not _factorise(hessian, scale):
            return False
        _solve(hessian, scale, gradient, direction)
        decrement = 0.0
        for j in range(n_columns):
            decrement += gradient[j] * direction[j]
        change = _largest_score(blocks, direction)
        length = 1.0 if change <= _LARGEST_FULL_STEP else math.log1p(change) / change
        for j in range(n_columns):
            coef[j] -= length * direction[j]
        if change <= _LARGEST_FULL_STEP and change * change * decrement <= tolerance:
            return True
    return False
