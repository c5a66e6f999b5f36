"""Compiled loops over reference rows and their weights."""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, types

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import (
    IN1,
    IN2,
    IN3,
    KEYS,
    OUT1,
    OUT2,
    OUT3,
    SINGLE3,
    AnyFloats,
    empty_aligned,
    inlined,
    inlined_sums,
    kernel,
    merged,
)

# --- Compiled passes over many rows of few columns: gradients of all learners, ratios, the refit and fits
#     without a row


BLOCK = 128

_LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first times an integer below 2^20 is exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to an integer and leaves it in the lowest bits.
_ROUNDER = 6755399441055744.0
# The polynomial that equals e^x at the twelve Chebyshev nodes of [-ln 2 / 2, ln 2 / 2]: relative error 2e-17. The first
# two coefficients are 1.
_C2, _C3, _C4, _C5 = 0.5000000000000019, 0.1666666666666668, 0.04166666666648809, 0.008333333333319601
_C6, _C7, _C8 = 0.0013888888952314812, 0.00019841269890047143, 2.480148548228773e-05
_C9, _C10, _C11 = 2.7557240918547625e-06, 2.763263965412376e-07, 2.511003761756205e-08
_LEAST, _MOST = -708.0, 709.0
_LARGEST_FULL_STEP = 1.0
_LARGEST_MOVE = 0.25
_SMALLEST_PIVOT = 1e-12


def to_blocks(rows: FloatArray) -> FloatArray:
    """Return the rows in the order that the kernels read; the last block is padded with zeros."""
    n_rows, n_columns = rows.shape
    n_blocks = -(-n_rows // BLOCK)
    padded = np.zeros((n_blocks * BLOCK, n_columns))
    padded[:n_rows] = rows
    blocks = empty_aligned(n_blocks, n_columns, BLOCK)
    blocks[...] = padded.reshape(n_blocks, BLOCK, n_columns).swapaxes(1, 2)
    return blocks


# --- the exponential ------------------------------------------------------------------------------------------


@inlined
def _exp(x: float) -> float:
    """Compute e^x up to the last digit or two; arguments are clipped to +-708, so the result is finite and not zero."""
    x = _LEAST if x < _LEAST else x
    x = _MOST if x > _MOST else x
    shifted = x * _LOG2_E + _ROUNDER
    power = shifted - _ROUNDER
    r = (x - power * _LN2_HIGH) - power * _LN2_LOW
    p = _C11
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


@kernel(types.void, IN1, OUT2)
def share_classes(scores: FloatArray, probabilities: FloatArray) -> None:
    """Write the probabilities of both classes, (2, n_rows), given the scores of the second."""
    for i in range(scores.shape[0]):
        size = abs(scores[i])
        # The exponential stops growing at the limits, but probabilities go on to zero.
        power = 0.0 if size >= _MOST else _exp(-size)
        larger = 1.0 / (1.0 + power)
        smaller = power * larger
        probabilities[0, i] = smaller if scores[i] > 0.0 else larger
        probabilities[1, i] = larger if scores[i] > 0.0 else smaller


# --- products of a block with one or two vectors ----------------------------------------------------------------


@merged
def _score(blocks: FloatArray, coef: FloatArray, scores: FloatArray) -> None:
    """Compute the scores of all rows, four columns at a time, into an array of shape (n_blocks, BLOCK)."""
    n_columns = blocks.shape[1]
    n_fours = n_columns // 4 * 4
    for block in range(blocks.shape[0]):
        for i in range(BLOCK):
            scores[block, i] = 0.0
        for j in range(0, n_fours, 4):
            c0 = coef[j]
            c1 = coef[j + 1]
            c2 = coef[j + 2]
            c3 = coef[j + 3]
            for i in range(BLOCK):
                score = (scores[block, i] + c0 * blocks[block, j, i]) + c1 * blocks[block, j + 1, i]
                scores[block, i] = (score + c2 * blocks[block, j + 2, i]) + c3 * blocks[block, j + 3, i]
        for j in range(n_fours, n_columns):
            c0 = coef[j]
            for i in range(BLOCK):
                scores[block, i] += c0 * blocks[block, j, i]


@inlined
def _score_two(blocks: FloatArray, block: int, points: FloatArray, k: int, scores: FloatArray) -> None:
    """Compute the scores of a block's rows for two thetas, four columns at a time, into an array (2, BLOCK)."""
    n_columns = blocks.shape[1]
    for i in range(BLOCK):
        scores[0, i] = 0.0
        scores[1, i] = 0.0
    n_fours = n_columns // 4 * 4
    for j in range(0, n_fours, 4):
        a0 = points[k, j]
        a1 = points[k, j + 1]
        a2 = points[k, j + 2]
        a3 = points[k, j + 3]
        b0 = points[k + 1, j]
        b1 = points[k + 1, j + 1]
        b2 = points[k + 1, j + 2]
        b3 = points[k + 1, j + 3]
        for i in range(BLOCK):
            x0 = blocks[block, j, i]
            x1 = blocks[block, j + 1, i]
            x2 = blocks[block, j + 2, i]
            x3 = blocks[block, j + 3, i]
            scores[0, i] = (((scores[0, i] + a0 * x0) + a1 * x1) + a2 * x2) + a3 * x3
            scores[1, i] = (((scores[1, i] + b0 * x0) + b1 * x1) + b2 * x2) + b3 * x3
    for j in range(n_fours, n_columns):
        a0 = points[k, j]
        b0 = points[k + 1, j]
        for i in range(BLOCK):
            scores[0, i] += a0 * blocks[block, j, i]
            scores[1, i] += b0 * blocks[block, j, i]


@inlined_sums
def _add_products(
    blocks: FloatArray, block: int, start: int, vectors: FloatArray, a: int, b: int, k: int, sums: FloatArray
) -> None:
    """Add X^T u and X^T v to rows k and k + 1 of sums, where u and v are rows a and b of ``vectors``.

    Works on columns from ``start`` on, four at a time; the last four may overlap others.
    """
    n_columns = blocks.shape[1]
    last = n_columns - 4
    for j in range(start if start <= last else n_columns, n_columns, 4):
        first = j if j < last else last
        u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = 0.0
        for i in range(BLOCK):
            u = vectors[a, i]
            v = vectors[b, i]
            x0 = blocks[block, first, i]
            x1 = blocks[block, first + 1, i]
            x2 = blocks[block, first + 2, i]
            x3 = blocks[block, first + 3, i]
            u0 += u * x0
            u1 += u * x1
            u2 += u * x2
            u3 += u * x3
            v0 += v * x0
            v1 += v * x1
            v2 += v * x2
            v3 += v * x3
        if first == j:
            sums[k, first] += u0
            sums[k + 1, first] += v0
        if first + 1 >= j:
            sums[k, first + 1] += u1
            sums[k + 1, first + 1] += v1
        if first + 2 >= j:
            sums[k, first + 2] += u2
            sums[k + 1, first + 2] += v2
        sums[k, first + 3] += u3
        sums[k + 1, first + 3] += v3
    for j in range(n_columns if start <= last else start, n_columns):
        u0 = v0 = 0.0
        for i in range(BLOCK):
            u0 += vectors[a, i] * blocks[block, j, i]
            v0 += vectors[b, i] * blocks[block, j, i]
        sums[k, j] += u0
        sums[k + 1, j] += v0


@inlined_sums
def _add_product(blocks: FloatArray, vector: FloatArray, sums: FloatArray) -> None:
    """Add X^T u to sums, eight columns at a time; the last eight may overlap others."""
    n_columns = blocks.shape[1]
    last = n_columns - 8
    for block in range(blocks.shape[0]):
        for j in range(0, n_columns if last >= 0 else 0, 8):
            first = j if j < last else last
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
            for i in range(BLOCK):
                u = vector[block, i]
                s0 += u * blocks[block, first, i]
                s1 += u * blocks[block, first + 1, i]
                s2 += u * blocks[block, first + 2, i]
                s3 += u * blocks[block, first + 3, i]
                s4 += u * blocks[block, first + 4, i]
                s5 += u * blocks[block, first + 5, i]
                s6 += u * blocks[block, first + 6, i]
                s7 += u * blocks[block, first + 7, i]
            sums[first] += s0 if first >= j else 0.0
            sums[first + 1] += s1 if first + 1 >= j else 0.0
            sums[first + 2] += s2 if first + 2 >= j else 0.0
            sums[first + 3] += s3 if first + 3 >= j else 0.0
            sums[first + 4] += s4 if first + 4 >= j else 0.0
            sums[first + 5] += s5 if first + 5 >= j else 0.0
            sums[first + 6] += s6 if first + 6 >= j else 0.0
            sums[first + 7] += s7
        for j in range(0 if last >= 0 else n_columns):
            s0 = 0.0
            for i in range(BLOCK):
                s0 += vector[block, i] * blocks[block, j, i]
            sums[j] += s0


# --- gradients and ratios ---------------------------------------------------------------------------------------


@kernel(types.void, IN3, IN2, IN2, IN1, float64, float64, OUT2, OUT2, OUT2, is_long=True)
def sum_gradients(
    blocks: FloatArray,
    rows: FloatArray,
    coefs: FloatArray,
    coef: FloatArray,
    block_factor: float,
    row_factor: float,
    points: FloatArray,
    scores: FloatArray,
    gradients: FloatArray,
) -> None:
    r"""Write the gradients of the logistic loss at each theta in ``coefs``, then at ``coef``, to ``gradients``.

    .. math:: c_0 \sum_{x \in \text{blocks}} \frac{x}{1 + e^{x^\top \theta}} + c_1 \sum_{x \in \text{rows}}
        \frac{x}{1 + e^{-x^\top \theta}}

    Parameters
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        Reference rows.
    rows : array of shape (n_rows, d)
        A few rows of the batch; many rows are faster as blocks of -x, whose terms have the same form.
    coefs : array of shape (n_coefs, d)
    coef : array of shape (d,)
    block_factor, row_factor : float
    points : array of shape (n_coefs + 1, d)
        Workspace, like the next array.
    scores : array of shape (n_blocks, BLOCK), but at least two rows
    gradients : array of shape (n_coefs + 1, d)
    """
    for k in range(points.shape[0]):
        for j in range(points.shape[1]):
            points[k, j] = coefs[k, j] if k < coefs.shape[0] else coef[j]
    _sum_gradients(blocks, rows, points.shape[0], block_factor, row_factor, points, scores, gradients)


def _read_batches(
    active: IntArray,
    blocks: FloatArray,
    batch_blocks: FloatArray,
    rows: FloatArray,
    starts: IntArray,
    coefs: AnyFloats,
    n_learners: IntArray,
    coef: FloatArray,
    slots: AnyFloats,
    block_factor: float,
    max_ratio: float,
    points: FloatArray,
    scores: FloatArray,
    sums: FloatArray,
    gradients: FloatArray,
    ratios: FloatArray,
    slot_ratios: FloatArray,
) -> None:
    """Do the same for the learners of many models, with the mean over a model's rows, and compute ratios of its rows.

    Parameters
    ----------
    active : array of shape (n_active,)
        The models that run this round.
    blocks : array of shape (n_blocks, d, BLOCK)
        Reference rows, which all models share.
    batch_blocks : array of shape (n_batch_blocks, d, BLOCK)
        The rows of a single model as blocks of -x, if there are many of them; else no blocks.
    rows : array of shape (n_rows, d)
        The rows of all active models, one model after the other.
    starts : array of shape (n_active + 1,)
        Where the rows of each active model begin.
    coefs : array of shape (n_models, most_learners, d)
    n_learners : array of shape (n_models,)
    coef : array of shape (n_models, d)
        The ensemble's theta of each model.
    slots : array of shape (n_models, n_slots, slot_width)
        Each begins with its theta; the last number but one is 0 in a free slot.
    block_factor, max_ratio : float
    points, scores, sums : arrays
        Workspace: (most_learners + 1, d), (n_blocks, BLOCK) with at least two rows, and as ``points``.
    gradients : array of shape (n_active, most_learners + 1, d)
        In each model's part, the ensemble's gradient follows those of its learners.
    ratios : array of shape (n_rows,)
        At the theta of the row's model.
    slot_ratios : array of shape (n_slots, n_rows)
        At the thetas of its slots.
    """
    n_columns, merged_at = rows.shape[1], slots.shape[2] - 2
    for a in range(active.shape[0]):
        key, first, last = active[a], starts[a], starts[a + 1]
        n_points = n_learners[key] + 1
        for k in range(n_points):
            for j in range(n_columns):
                points[k, j] = coefs[key, k, j] if k + 1 < n_points else coef[key, j]
        row_factor = 0.5 / (last - first)
        few = rows[first:last] if batch_blocks.shape[0] == 0 else rows[:0]
        here, factor, target = blocks, block_factor, gradients[a]
        for _ in range(2 if batch_blocks.shape[0] > 0 else 1):
            _sum_gradients(here, few, n_points, factor, row_factor, points, scores, target)
            here, factor, target = batch_blocks, -row_factor, sums
        if batch_blocks.shape[0] > 0:
            for k in range(n_points):
                for j in range(n_columns):
                    gradients[a, k, j] += sums[k, j]
        for row in range(first, last):
            score = 0.0
            for j in range(n_columns):
                score += rows[row, j] * coef[key, j]
            ratio = _exp(-score)
            ratios[row] = ratio if ratio < max_ratio else max_ratio
            for slot in range(slots.shape[1]):
                score = 0.0
                if slots[key, slot, merged_at] > 0.0:
                    for j in range(n_columns):
                        score += rows[row, j] * slots[key, slot, j]
                ratio = _exp(-score)
                slot_ratios[slot, row] = ratio if ratio < max_ratio else max_ratio


read_batches, read_batches_of_keys = (
    kernel(
        *(types.void, KEYS, IN3, IN3, IN2, KEYS, floats, KEYS, IN2, floats, float64, float64),
        *(OUT2, OUT2, OUT2, OUT3, OUT1, OUT2),
    )(_read_batches)
    for floats in (OUT3, SINGLE3)
)


@merged
def _sum_gradients(
    blocks: FloatArray,
    rows: FloatArray,
    n_points: int,
    block_factor: float,
    row_factor: float,
    points: FloatArray,
    scores: FloatArray,
    gradients: FloatArray,
) -> None:
    """Sum over the blocks, two points at a time, and then over the rows."""
    zero, one = 0 * points.shape[0], 0 * points.shape[0] + 1
    for k in range(n_points):
        for j in range(points.shape[1]):
            gradients[k, j] = 0.0
    n_paired = n_points // 2 * 2
    for block in range(blocks.shape[0]):
        for k in range(0, n_paired, 2):
            _score_two(blocks, block, points, k, scores)
            for i in range(BLOCK):
                scores[0, i] = 1.0 / (1.0 + _exp(scores[0, i]))
                scores[1, i] = 1.0 / (1.0 + _exp(scores[1, i]))
            _add_products(blocks, block, zero, scores, zero, one, k, gradients)
    if n_paired < n_points:
        _score(blocks, points[n_paired], scores)
        for block in range(blocks.shape[0]):
            for i in range(BLOCK):
                scores[block, i] = 1.0 / (1.0 + _exp(scores[block, i]))
        _add_product(blocks, scores, gradients[n_paired])
    for k in range(n_points):
        for j in range(points.shape[1]):
            gradients[k, j] *= block_factor
        for row in range(rows.shape[0]):
            score = 0.0
            for j in range(points.shape[1]):
                score += rows[row, j] * points[k, j]
            slope = row_factor / (1.0 + _exp(-score))
            for j in range(points.shape[1]):
                gradients[k, j] += slope * rows[row, j]


@kernel(types.void, IN2, IN2, float64, OUT2)
def evaluate_row_ratios_at_each(rows: FloatArray, coefs: FloatArray, max_ratio: float, ratios: FloatArray) -> None:
    r"""Compute :math:`\min\{e^{-x^\top \theta}, \text{max\_ratio}\}` of rows at several thetas, (n_coefs, n_rows)."""
    for k in range(coefs.shape[0]):
        for row in range(rows.shape[0]):
            score = 0.0
            for j in range(rows.shape[1]):
                score += rows[row, j] * coefs[k, j]
            ratio = _exp(-score)
            ratios[k, row] = ratio if ratio < max_ratio else max_ratio


@kernel(types.void, IN3, IN1, float64, OUT2)
def evaluate_ratios(blocks: FloatArray, coef: FloatArray, max_ratio: float, ratios: FloatArray) -> None:
    """Do what ``evaluate_at`` does."""
    evaluate_at(blocks, coef, max_ratio, ratios)


@merged
def evaluate_at(blocks: FloatArray, coef: FloatArray, max_ratio: float, ratios: FloatArray) -> None:
    """Compute the ratios of all reference rows at a theta, (n_blocks, BLOCK)."""
    _score(blocks, coef, ratios)
    for block in range(blocks.shape[0]):
        for i in range(BLOCK):
            ratio = _exp(-ratios[block, i])
            ratios[block, i] = ratio if ratio < max_ratio else max_ratio


@merged
def evaluate_at_each(
    blocks: FloatArray, points: FloatArray, n_points: int, max_ratio: float, scores: FloatArray, ratios: FloatArray
) -> None:
    """Do the same for the first thetas in ``points``, with the same bits in less time, (n_points, n_blocks, BLOCK).

    A block is read once for all of them; ``scores``, (2, BLOCK), is workspace.
    """
    for block in range(blocks.shape[0]):
        for k in range(0, n_points - 1, 2):
            _score_two(blocks, block, points, k, scores)
            for i in range(BLOCK):
                first, second = _exp(-scores[0, i]), _exp(-scores[1, i])
                ratios[k, block, i] = first if first < max_ratio else max_ratio
                ratios[k + 1, block, i] = second if second < max_ratio else max_ratio
        if n_points % 2 > 0:
            last = ratios[n_points - 1, block : block + 1]
            _score(blocks[block : block + 1], points[n_points - 1], last)
            for i in range(BLOCK):
                ratio = _exp(-last[0, i])
                last[0, i] = ratio if ratio < max_ratio else max_ratio


@kernel(types.void, IN3, IN1, int64, OUT2, OUT1)
def covary_scores(
    blocks: FloatArray, coef: FloatArray, n_rows: int, scores: FloatArray, covariances: FloatArray
) -> None:
    """Write the covariance of every column with the score to ``covariances``; ``scores`` is workspace."""
    _score(blocks, coef, scores)
    mean = _sum_of_blocks(scores) / n_rows
    for block in range(blocks.shape[0]):
        for i in range(BLOCK):
            scores[block, i] -= mean
    for j in range(covariances.shape[0]):
        covariances[j] = 0.0
    _add_product(blocks, scores, covariances)
    for j in range(covariances.shape[0]):
        covariances[j] /= n_rows


# --- the weighted refit -----------------------------------------------------------------------------------------


@inlined
def _centre(coefs: FloatArray, centre: FloatArray, coef: FloatArray) -> None:
    """Convert coefficients for the original columns to those for centred columns; the intercept is last."""
    last = centre.shape[0]
    coef[last] = coefs[0, last]
    for j in range(last):
        coef[j] = coefs[0, j]
        coef[last] += coef[j] * centre[j]


@inlined
def _scale(weights: FloatArray, C: float, scaled: FloatArray) -> None:
    """Compute C s of every row; zero for padding rows."""
    for block in range(scaled.shape[0]):
        for i in range(BLOCK):
            row = block * BLOCK + i
            scaled[block, i] = C * weights[row] if row < weights.shape[0] else 0.0


@inlined
def _differentiate(
    scores: FloatArray, targets: FloatArray, weights: FloatArray, probabilities: FloatArray, slopes: FloatArray
) -> None:
    """Compute the first derivative of every row's weighted loss in its score, s (p - y)."""
    for block in range(scores.shape[0]):
        for i in range(BLOCK):
            p = 1.0 / (1.0 + _exp(-scores[block, i]))
            probabilities[block, i] = p
            slopes[block, i] = weights[block, i] * (p - targets[block, i])


@inlined
def _add_hessian(
    blocks: FloatArray,
    weights: FloatArray,
    probabilities: FloatArray,
    curvatures: FloatArray,
    pair: FloatArray,
    hessian: FloatArray,
) -> None:
    """Compute the curvatures of the rows, s p (1 - p), and the upper triangle (and a bit more) of the Hessian."""
    n_columns, zero, one = blocks.shape[1], 0 * blocks.shape[1], 0 * blocks.shape[1] + 1
    for block in range(blocks.shape[0]):
        for i in range(BLOCK):
            p = probabilities[block, i]
            curvatures[block, i] = weights[block, i] * (p * (1.0 - p))
        for k in range(0, n_columns, 2):
            k_next = k + 1 if k + 1 < n_columns else k
            for i in range(BLOCK):
                pair[0, i] = curvatures[block, i] * blocks[block, k, i]
                pair[1, i] = curvatures[block, i] * blocks[block, k_next, i]
            start = k if k + 4 <= n_columns or n_columns < 4 else n_columns - 4
            _add_products(blocks, block, start, pair, zero, one, k, hessian)


@inlined_sums
def _product_of_rows(matrix: FloatArray, j: int, k: int) -> float:
    total = 0.0
    for m in range(k):
        total += matrix[j, m] * matrix[k, m]
    return total


@inlined
def _factorise(matrix: FloatArray, scale: FloatArray) -> bool:
    """Write the Cholesky factor of the upper triangle, rows rescaled, to the lower one; False if nearly singular."""
    for j in range(scale.shape[0]):
        scale[j] = 1.0 / math.sqrt(matrix[j, j])
        for k in range(j + 1):
            entry = matrix[k, j] * scale[j] * scale[k] - _product_of_rows(matrix, j, k)
            if j > k:
                matrix[j, k] = entry / matrix[k, k]
            elif entry > _SMALLEST_PIVOT:
                matrix[j, j] = math.sqrt(entry)
            else:
                return False
    return True


@inlined
def _solve(factor: FloatArray, scale: FloatArray, right_side: FloatArray, solution: FloatArray) -> None:
    for j in range(scale.shape[0]):
        entry = right_side[j] * scale[j]
        for m in range(j):
            entry -= factor[j, m] * solution[m]
        solution[j] = entry / factor[j, j]
    for j in range(scale.shape[0] - 1, -1, -1):
        entry = solution[j] / factor[j, j]
        solution[j] = entry
        for m in range(j):
            solution[m] -= factor[j, m] * entry
    for j in range(scale.shape[0]):
        solution[j] *= scale[j]


@inlined_sums
def _move(
    scores: FloatArray, moved: FloatArray, curvatures: FloatArray, changes: FloatArray, length: float
) -> tuple[float, float]:
    r"""Subtract the changes from the scores; return :math:`\sum_i c_i \Delta_i^2 \bar D_i^2` and the largest D."""
    total, largest = 0.0, np.int64(0)
    for block in range(scores.shape[0]):
        for i in range(BLOCK):
            change = length * changes[block, i]
            before = moved[block, i]
            after = before - change
            scores[block, i] -= change
            moved[block, i] = after
            mean = 0.5 * (abs(before) + abs(after))
            total += curvatures[block, i] * (change * mean) * (change * mean)
            # Sizes have the order of their bits, and a loop over integers is vectorised.
            size = np.float64(abs(after)).view(np.int64)
            largest = size if size > largest else largest
    return total, np.int64(largest).view(np.float64)


@inlined_sums
def _sum_of_blocks(values: FloatArray) -> float:
    total = 0.0
    for block in range(values.shape[0]):
        for i in range(BLOCK):
            total += values[block, i]
    return total


@inlined
def _largest(values: FloatArray) -> float:
    largest = np.int64(0)
    for block in range(values.shape[0]):
        for i in range(BLOCK):
            size = np.float64(abs(values[block, i])).view(np.int64)
            largest = size if size > largest else largest
    return np.int64(largest).view(np.float64)


@inlined
def _leverages(
    blocks: FloatArray, block: int, factor: FloatArray, scale: FloatArray, solved: FloatArray, leverages: FloatArray
) -> None:
    """Compute x^T H^-1 x for a block's rows, H as ``_factorise`` leaves it; ``solved``, (d, BLOCK), is workspace."""
    for i in range(BLOCK):
        leverages[block, i] = 0.0
    for j in range(scale.shape[0]):
        for i in range(BLOCK):
            solved[j, i] = scale[j] * blocks[block, j, i]
        for m in range(j):
            entry = factor[j, m]
            for i in range(BLOCK):
                solved[j, i] -= entry * solved[m, i]
        pivot = 1.0 / factor[j, j]
        for i in range(BLOCK):
            solved[j, i] *= pivot
            leverages[block, i] += solved[j, i] * solved[j, i]


@kernel(types.boolean, IN3, IN1, IN2, IN1, float64, IN1, float64, int64, OUT3, OUT2, OUT2, OUT2, OUT2, is_long=True)
def fit_logistic(
    blocks: FloatArray,
    centre: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    C: float,
    penalty: FloatArray,
    tolerance: float,
    max_steps: int,
    row_room: FloatArray,
    block_room: FloatArray,
    column_room: FloatArray,
    left_out: FloatArray,
    coefs: FloatArray,
) -> bool:
    r"""Minimise the weighted logistic objective by Newton's method from ``coefs``, which are replaced.

    Or, if ``left_out`` has blocks, write to it each row's score from a fit without it, one Newton step away from the
    fit on all rows, which ``coefs`` then are. Both need the Hessian, which takes most of the time to compile.

    .. math:: z_i + a_i g_i / (1 - k_i a_i), \qquad a_i = x_i^\top H^{-1} x_i,

    where g and k are the first and second derivative of the row's weighted loss in its score.

    A Hessian costs as much as three gradients, so it is used for several steps. No objective is evaluated. If the score
    of a row has moved by D since the Hessian, its curvature has stayed within a factor :math:`e^{\pm |D|}`, because the
    logistic function's third derivative is at most its second. It follows that

    * the first step lowers the objective; its length is 1 if it changes no score by more than m = 1, and
      :math:`\ln(1 + m) / m` otherwise;
    * after any step of length 1 the objective is at most
      :math:`\tfrac12 e^{3m} \sum_i c_i \Delta_i^2 \bar D_i^2` above its minimum, to leading order. Here c are the
      curvatures of the Hessian, :math:`\Delta` the changes of the scores in the step, :math:`\bar D` the mean of the
      sizes of D before and after it, and m the largest D.

    Parameters
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        Columns minus their centre; the last column is the constant 1.
    centre : array of shape (d - 1,)
    targets : array of shape (n_blocks, BLOCK)
    weights : array of shape (n_rows,)
    C : float
    penalty : array of shape (d,)
    tolerance : float
    max_steps : int
    row_room : array of shape (6, n_blocks, BLOCK)
        Workspace, like the next two arrays.
    block_room : array of shape (2, BLOCK), or (d, BLOCK) with ``left_out``, or larger
    column_room : array of shape (d + 5, d)
    left_out : array of shape (n_blocks, BLOCK) or (0, BLOCK)
    coefs : array of shape (1, d)
        Coefficients for the original columns, with the intercept last.

    Returns
    -------
    bool
        Whether that bound fell below ``tolerance`` times the sum of C s. False also if the Hessian is nearly singular.
        If False, ``coefs`` is unchanged, and ``left_out`` invalid.
    """
    n_columns = coefs.shape[1]
    scores, changes, slopes = row_room[0], row_room[1], row_room[2]
    curvatures, moved, scaled = row_room[3], row_room[4], row_room[5]
    coef, direction, scale, gradient = column_room[0], column_room[1], column_room[2], column_room[3]
    hessian = column_room[4:]  # with a row to spare, because two are made at a time
    _centre(coefs, centre, coef)
    _scale(weights, C, scaled)
    tolerance *= _sum_of_blocks(scaled)
    _score(blocks, coef, scores)
    largest_move = np.inf
    for _ in range(max_steps):
        _differentiate(scores, targets, scaled, changes, slopes)
        if largest_move > _LARGEST_MOVE:
            for j in range(n_columns):
                for k in range(n_columns):
                    hessian[j, k] = penalty[j] if j == k else 0.0
            _add_hessian(blocks, scaled, changes, curvatures, block_room, hessian)
            if not _factorise(hessian, scale):
                return False
            for block in range(left_out.shape[0]):
                _leverages(blocks, block, hessian, scale, block_room, changes)
                for i in range(BLOCK):
                    leverage = changes[block, i]
                    correction = leverage * slopes[block, i] / (1.0 - curvatures[block, i] * leverage)
                    left_out[block, i] = scores[block, i] + correction
            if left_out.shape[0] > 0:
                return True
            for block in range(blocks.shape[0]):
                for i in range(BLOCK):
                    moved[block, i] = 0.0
        for j in range(n_columns):
            gradient[j] = penalty[j] * coef[j]
        _add_product(blocks, slopes, gradient)
        _solve(hessian, scale, gradient, direction)
        _score(blocks, direction, changes)
        length = 1.0
        if largest_move > _LARGEST_MOVE:
            # The first step with this Hessian; later ones are shorter.
            largest_change = _largest(changes)
            if largest_change > _LARGEST_FULL_STEP:
                length = math.log1p(largest_change) / largest_change
        total, largest_move = _move(scores, moved, curvatures, changes, length)
        for j in range(n_columns):
            coef[j] -= length * direction[j]
        if length == 1.0 and 0.5 * math.exp(3.0 * largest_move) * total <= tolerance:
            coefs[0, n_columns - 1] = coef[n_columns - 1]
            for j in range(n_columns - 1):
                coefs[0, j] = coef[j]
                coefs[0, n_columns - 1] -= coef[j] * centre[j]
            return True
    return False
