"""The compiled refit of a softmax regression on few columns: preconditioned L-BFGS, in one call."""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, types

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import IN1, IN2, IN3, LABELS, OUT2, OUT4, inlined, inlined_sums, kernel, shared
from accous.core.kernels_rows import BLOCK, _add_products, _exp, _factorise, _scale, _solve

# The least length of a step, times the largest spread of its changes, at which a step needs no test.
_SURE_MOVE = 0.5
_SLOPE_LEFT = 0.3
_MAX_TRIALS = 40
_SMALLEST_CURVATURE = 1e-6
_TINY = 2.2250738585072014e-308
_LAST_PRECONDITIONER = 64
# By how much the scores of a row may have moved apart before the Hessian is computed anew.
_STALE_MOVE = 2.0
_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476


@inlined
def _log(x: float) -> float:
    """Compute ln x of a normal positive number, to the last digits, in a form that LLVM vectorises."""
    # The exponent of x / sqrt(1/2), so that the rest lies between sqrt(1/2) and sqrt(2).
    power = (np.float64(x / _ROOT_HALF).view(np.int64) >> 52) - 1023
    rest = np.int64(np.float64(x).view(np.int64) - (power << 52)).view(np.float64)
    s = (rest - 1.0) / (rest + 1.0)
    q = s * s
    p = 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    return power * _LN2 + (2.0 * s + 2.0 * s * q * p)


@inlined
def _score_classes(blocks: FloatArray, coefs: FloatArray, scores: FloatArray) -> None:
    """Compute the scores of all rows for each class, two classes and four columns at a time; the last two may overlap.

    ``coefs`` has those of one class after the other, and ``scores`` the shape (n_blocks, n_scores, BLOCK).
    """
    n_columns, n_scores = blocks.shape[1], scores.shape[1]
    n_fours = n_columns // 4 * 4
    for block in range(blocks.shape[0]):
        for pair in range(0, n_scores, 2):
            k = pair if pair + 1 < n_scores else pair - 1
            a, b = k * n_columns, (k + 1) * n_columns
            for i in range(BLOCK):
                scores[block, k, i] = 0.0
                scores[block, k + 1, i] = 0.0
            for j in range(0, n_fours, 4):
                a0, a1, a2, a3 = coefs[a + j], coefs[a + j + 1], coefs[a + j + 2], coefs[a + j + 3]
                b0, b1, b2, b3 = coefs[b + j], coefs[b + j + 1], coefs[b + j + 2], coefs[b + j + 3]
                for i in range(BLOCK):
                    x0, x1 = blocks[block, j, i], blocks[block, j + 1, i]
                    x2, x3 = blocks[block, j + 2, i], blocks[block, j + 3, i]
                    scores[block, k, i] = (((scores[block, k, i] + a0 * x0) + a1 * x1) + a2 * x2) + a3 * x3
                    scores[block, k + 1, i] = (((scores[block, k + 1, i] + b0 * x0) + b1 * x1) + b2 * x2) + b3 * x3
            for j in range(n_fours, n_columns):
                a0, b0 = coefs[a + j], coefs[b + j]
                for i in range(BLOCK):
                    scores[block, k, i] += a0 * blocks[block, j, i]
                    scores[block, k + 1, i] += b0 * blocks[block, j, i]


@inlined_sums
def _share_block(
    scores: FloatArray,
    changes: FloatArray,
    length: float,
    block: int,
    labels: IntArray,
    weights: FloatArray,
    probabilities: FloatArray,
    room: FloatArray,
) -> float:
    """Compute a block's probabilities and, in ``room``, derivatives of the loss in the scores; return the loss."""
    n_scores = scores.shape[1]
    largest, total, own = n_scores + 1, n_scores + 2, n_scores + 3
    for i in range(BLOCK):
        room[largest, i] = scores[block, 0, i] + length * changes[block, 0, i]
        room[total, i] = 0.0
        room[n_scores, i] = 0.0
    for k in range(n_scores):
        for i in range(BLOCK):
            score = scores[block, k, i] + length * changes[block, k, i]
            room[k, i] = score
            room[largest, i] = score if score > room[largest, i] else room[largest, i]
    for i in range(BLOCK):
        room[own, i] = room[labels[block, i], i]
    for k in range(n_scores):
        for i in range(BLOCK):
            power = _exp(room[k, i] - room[largest, i])
            room[k, i] = power
            room[total, i] += power
    loss = 0.0
    for i in range(BLOCK):
        loss += weights[block, i] * (_log(room[total, i]) + (room[largest, i] - room[own, i]))
        room[total, i] = 1.0 / room[total, i]
    for k in range(n_scores):
        for i in range(BLOCK):
            probability = room[k, i] * room[total, i]
            probabilities[block, k, i] = probability
            room[k, i] = weights[block, i] * probability
    for i in range(BLOCK):
        room[labels[block, i], i] -= weights[block, i]
    return loss


@inlined
def _evaluate_classes(
    blocks: FloatArray,
    scores: FloatArray,
    changes: FloatArray,
    length: float,
    labels: IntArray,
    weights: FloatArray,
    probabilities: FloatArray,
    room: FloatArray,
    sums: FloatArray,
) -> float:
    """Return the weighted loss after a step of this length; ``sums`` receives its gradient, without the penalty's."""
    n_scores, loss, zero = scores.shape[1], 0.0, 0 * scores.shape[1]
    for k in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[k, j] = 0.0
    for block in range(blocks.shape[0]):
        loss += _share_block(scores, changes, length, block, labels, weights, probabilities, room)
        for k in range(0, n_scores, 2):
            _add_products(blocks, block, zero, room, k, k + 1, k, sums)
    return loss


@inlined_sums
def _curvature_along(
    changes: FloatArray, probabilities: FloatArray, weights: FloatArray, room: FloatArray
) -> tuple[float, float]:
    """Return the second derivative of the loss along the changes, and the largest spread of a row's changes."""
    total, largest = 0.0, np.int64(0)
    n_scores = changes.shape[1]
    for block in range(changes.shape[0]):
        for i in range(BLOCK):
            room[0, i] = room[1, i] = 0.0
            room[2, i] = room[3, i] = changes[block, 0, i]
        for k in range(n_scores):
            for i in range(BLOCK):
                change = changes[block, k, i]
                moved = probabilities[block, k, i] * change
                room[0, i] += moved
                room[1, i] += moved * change
                room[2, i] = change if change < room[2, i] else room[2, i]
                room[3, i] = change if change > room[3, i] else room[3, i]
        for i in range(BLOCK):
            total += weights[block, i] * (room[1, i] - room[0, i] * room[0, i])
            # Sizes have the order of their bits, and a loop over integers is vectorised.
            size = np.float64(room[3, i] - room[2, i]).view(np.int64)
            largest = size if size > largest else largest
    return total, np.int64(largest).view(np.float64)


@inlined_sums
def _total_curvature(probabilities: FloatArray, weights: FloatArray, matrix: FloatArray) -> None:
    r"""Compute :math:`\sum_i s_i (\mathrm{diag}\, p_i - p_i p_i^\top)`; each of its rows sums to 0."""
    n_scores = probabilities.shape[1]
    matrix[:] = 0.0
    for a in range(n_scores):
        for b in range(a):
            total = 0.0
            for block in range(probabilities.shape[0]):
                for i in range(BLOCK):
                    total += weights[block, i] * (probabilities[block, a, i] * probabilities[block, b, i])
            matrix[a, b] = matrix[b, a] = -total
            matrix[a, a] += total
            matrix[b, b] += total


@inlined_sums
def _tridiagonalise(matrix: FloatArray, bands: FloatArray) -> None:
    """Bring a symmetric matrix to three diagonals by reflections.

    Column m of the matrix keeps the vector of reflection m below the diagonal. The rows of ``bands`` receive the
    diagonal, what is beside it, and the factors of the reflections; the last is workspace.
    """
    n = bands.shape[1]
    for m in range(n - 2):
        square = 0.0
        for a in range(m + 1, n):
            square += matrix[a, m] * matrix[a, m]
        beside = math.sqrt(square)
        beside = -beside if matrix[m + 1, m] > 0.0 else beside
        bands[0, m] = matrix[m, m]
        bands[1, m] = beside
        bands[2, m] = 0.0
        square -= matrix[m + 1, m] * beside
        if not square > 0.0:
            continue
        bands[2, m] = factor = 1.0 / square
        matrix[m + 1, m] -= beside
        product = 0.0
        for a in range(m + 1, n):
            entry = 0.0
            for b in range(m + 1, n):
                entry += matrix[a, b] * matrix[b, m]
            bands[3, a] = factor * entry
            product += bands[3, a] * matrix[a, m]
        for a in range(m + 1, n):
            bands[3, a] -= 0.5 * factor * product * matrix[a, m]
        for a in range(m + 1, n):
            for b in range(m + 1, n):
                matrix[a, b] -= matrix[a, m] * bands[3, b] + bands[3, a] * matrix[b, m]
    bands[0, n - 2] = matrix[n - 2, n - 2]
    bands[1, n - 2] = matrix[n - 1, n - 2]
    bands[0, n - 1] = matrix[n - 1, n - 1]


@inlined_sums
def _reflect(matrix: FloatArray, m: int, factor: float, n: int, n_columns: int, vectors: FloatArray) -> None:
    """Apply reflection m to each column of an array of shape (n * n_columns,)."""
    for j in range(n_columns):
        product = 0.0
        for a in range(m + 1, n):
            product += matrix[a, m] * vectors[a * n_columns + j]
        product *= factor
        for a in range(m + 1, n):
            vectors[a * n_columns + j] -= product * matrix[a, m]


@inlined
def _precondition(
    matrix: FloatArray, bands: FloatArray, mean_squares: FloatArray, penalty: FloatArray, vectors: FloatArray
) -> None:
    r"""Replace each column j by the solution with :math:`\lambda_j D + \rho_j`, where D is tridiagonal elsewhere."""
    n, n_columns = bands.shape[1], mean_squares.shape[0]
    largest = _TINY
    for a in range(n):
        largest = bands[0, a] if bands[0, a] > largest else largest
    for m in range(n - 2):
        _reflect(matrix, m, bands[2, m], n, n_columns, vectors)
    for j in range(n_columns):
        # Adding a constant to all intercepts changes no probability: D has a zero there, which needs no large step.
        scale = mean_squares[j]
        floor = penalty[j] + _SMALLEST_CURVATURE * largest * scale
        pivot = scale * bands[0, 0] + floor
        bands[3, 0] = 0.0
        for a in range(1, n):
            vectors[(a - 1) * n_columns + j] /= pivot
            bands[3, a] = scale * bands[1, a - 1] / pivot
            pivot = scale * bands[0, a] + floor - bands[3, a] * (scale * bands[1, a - 1])
            vectors[a * n_columns + j] -= scale * bands[1, a - 1] * vectors[(a - 1) * n_columns + j]
        vectors[(n - 1) * n_columns + j] /= pivot
        for a in range(n - 1, 0, -1):
            vectors[(a - 1) * n_columns + j] -= bands[3, a] * vectors[a * n_columns + j]
    for m in range(n - 3, -1, -1):
        _reflect(matrix, m, bands[2, m], n, n_columns, vectors)


@inlined_sums
def _dot(vectors: FloatArray, a: int, b: int) -> float:
    total = 0.0
    for q in range(vectors.shape[1]):
        total += vectors[a, q] * vectors[b, q]
    return total


@inlined
def _add_class_hessian(
    blocks: FloatArray,
    probabilities: FloatArray,
    weights: FloatArray,
    penalty: FloatArray,
    room: FloatArray,
    products: FloatArray,
    hessian: FloatArray,
) -> None:
    """Compute the upper triangle of the Hessian from its parts for two different classes.

    Those of one class are minus the sum of its others. Where p is nearly 1, p - p p would be rounding error.
    """
    n_scores, n_columns = probabilities.shape[1], blocks.shape[1]
    zero, one, n_coefs = 0 * n_columns, 0 * n_columns + 1, hessian.shape[1]
    for p in range(n_coefs):
        for q in range(n_coefs):
            hessian[p, q] = penalty[p] if p == q else 0.0
    # Adding a constant to every intercept changes nothing: fix that direction, in which the gradient has no part.
    for a in range(n_columns - 1, n_coefs, n_columns):
        for b in range(n_columns - 1, n_coefs, n_columns):
            hessian[a, b] += 1.0
    for a in range(n_scores):
        for b in range(a + 1, n_scores):
            for j in range(n_columns):
                for m in range(n_columns):
                    products[j, m] = 0.0
            for block in range(blocks.shape[0]):
                for i in range(BLOCK):
                    room[2, i] = weights[block, i] * (probabilities[block, a, i] * probabilities[block, b, i])
                for k in range(0, n_columns, 2):
                    k_next = k + 1 if k + 1 < n_columns else k
                    for i in range(BLOCK):
                        room[0, i] = room[2, i] * blocks[block, k, i]
                        room[1, i] = room[2, i] * blocks[block, k_next, i]
                    start = k if k + 4 <= n_columns or n_columns < 4 else n_columns - 4
                    _add_products(blocks, block, start, room, zero, one, k, products)
            for j in range(n_columns):
                for m in range(n_columns):
                    entry = products[j, m] if j <= m else products[m, j]
                    hessian[a * n_columns + j, b * n_columns + m] -= entry
                    hessian[a * n_columns + j, a * n_columns + m] += entry
                    hessian[b * n_columns + j, b * n_columns + m] += entry


@inlined
def _apply_memory(
    vectors: FloatArray,
    n_pairs: int,
    curvatures: FloatArray,
    hessian: FloatArray | None,
    matrix: FloatArray | None,
    bands: FloatArray | None,
    mean_squares: FloatArray,
    penalty: FloatArray,
) -> None:
    """Run the two loops of L-BFGS around the preconditioner; the direction is row 2, of the gradient in row 1."""
    most, n_coefs, of_direction = curvatures.shape[1], vectors.shape[1], 0 * n_pairs + 2
    first = n_pairs - most + 1 if n_pairs >= most else 0  # the next pair may be unsound: none is in its place
    for q in range(n_coefs):
        vectors[2, q] = -vectors[1, q]
    for pair in range(n_pairs - 1, first - 1, -1):
        place = pair % most
        factor = _dot(vectors, 3 + 2 * place, of_direction) / curvatures[0, place]
        curvatures[1, place] = factor
        for q in range(n_coefs):
            vectors[2, q] -= factor * vectors[4 + 2 * place, q]
    direction = vectors[2]
    if hessian is not None:
        _solve(hessian, hessian[n_coefs], direction, direction)
    if matrix is not None and bands is not None:
        _precondition(matrix, bands, mean_squares, penalty, direction)
    for pair in range(first, n_pairs):
        place = pair % most
        factor = curvatures[1, place] - _dot(vectors, 4 + 2 * place, of_direction) / curvatures[0, place]
        for q in range(n_coefs):
            vectors[2, q] += factor * vectors[3 + 2 * place, q]


@inlined
def _to_axes(coefs: FloatArray, centre: FloatArray, axes: FloatArray, point: FloatArray) -> None:
    """Convert coefficients for the original columns to those for centred ones in their axes; the intercept is last."""
    n_axes = axes.shape[1]
    for k in range(coefs.shape[0]):
        first = k * (n_axes + 1)
        for j in range(n_axes):
            point[first + j] = 0.0
        intercept = coefs[k, axes.shape[0]]
        for m in range(axes.shape[0]):
            intercept += coefs[k, m] * centre[m]
            for j in range(n_axes):
                point[first + j] += coefs[k, m] * axes[m, j]
        point[first + n_axes] = intercept


@inlined
def _from_axes(point: FloatArray, centre: FloatArray, axes: FloatArray, coefs: FloatArray) -> None:
    n_axes = axes.shape[1]
    for k in range(coefs.shape[0]):
        first = k * (n_axes + 1)
        intercept = point[first + n_axes]
        for m in range(axes.shape[0]):
            coef = 0.0
            for j in range(n_axes):
                coef += point[first + j] * axes[m, j]
            coefs[k, m] = coef
            intercept -= coef * centre[m]
        coefs[k, axes.shape[0]] = intercept


@shared
def keep_within(length: float, low: float, high: float, n_trials: int) -> float:
    """Keep a trial length inside the bracket by bisection; without an upper end, let the length grow.

    Every third trial is a bisection: Newton's method alone may go back and forth for ever.
    """
    if high == np.inf:
        return min(max(length, 1.5 * low), 10.0 * low)
    return length if low < length < high and n_trials % 3 > 0 else 0.5 * (low + high)


def _fit_softmax(
    blocks: FloatArray,
    axes: FloatArray,
    centre: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    C: float,
    penalty: FloatArray,
    mean_squares: FloatArray,
    tolerance: float,
    near: float,
    least_steps: int,
    max_steps: int,
    score_room: FloatArray,
    row_room: FloatArray,
    block_room: FloatArray,
    curvatures: FloatArray,
    vectors: FloatArray,
    sums: FloatArray,
    hessian: FloatArray | None,
    matrix: FloatArray | None,
    bands: FloatArray | None,
    coefs: FloatArray,
) -> bool:
    r"""Minimise the weighted softmax objective from ``coefs``, which are replaced, as ``descend`` does.

    With the Hessian as the preconditioner, few coefficients reach the optimum in a few steps.

    If the changes of a row's scores differ by at most r in a step of length 1, the curvature along it stays within a
    factor :math:`e^{\pm r t}` up to length t, because the third derivative of the loss is at most r times its second.
    So where :math:`r t \le 1/2`, the first length tried leaves at most 0.3 of the slope and lowers the objective: it
    needs no test, and the last step no evaluation.

    Parameters
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        Centred rows in their principal axes; the last column is the constant 1.
    axes : array of shape (n_columns, d - 1)
    centre : array of shape (n_columns,)
    labels : array of int of shape (n_blocks, BLOCK)
    weights : array of shape (n_rows,)
    C : float
    penalty : array of shape (n_scores * d,)
        The same for each class.
    mean_squares : array of shape (d,)
    tolerance, near, least_steps : float, float and int
        See ``Effort``.
    max_steps : int
    score_room : array of shape (3, n_blocks, n_scores, BLOCK)
        Workspace, like the next arrays.
    row_room : array of shape (n_blocks, BLOCK)
    block_room : array of shape (n_scores + 4, BLOCK)
    curvatures : array of shape (2, n_pairs)
        For so many pairs of the memory.
    vectors : array of shape (3 + 2 * n_pairs, n_scores * d)
    sums : array of shape (1 + max(n_scores, d), d)
    hessian : array of shape (n_scores * d + 1, n_scores * d) or None
        Of the last three, those of the preconditioner in use.
    matrix : array of shape (n_scores, n_scores) or None
    bands : array of shape (4, n_scores) or None
    coefs : array of shape (n_scores, n_columns + 1)
        Coefficients for the original columns, with the intercept last.

    Returns
    -------
    bool
        Whether the effort was enough. If False, ``coefs`` is unchanged.
    """
    most, n_columns, n_coefs = curvatures.shape[1], mean_squares.shape[0], vectors.shape[1]
    scores, changes, probabilities = score_room[0], score_room[1], score_room[2]
    _scale(weights, C, row_room)
    vectors[:2] = 0.0
    scores[:] = 0.0
    _to_axes(coefs, centre, axes, vectors[2])
    n_steps = n_trials = n_pairs = 0
    of_gradient, of_direction = 1 + 0 * max_steps, 2 + 0 * max_steps  # not constants, for which it would compile twice
    value = slope = slope_there = curvature = linear = quadratic = spread = low = 0.0
    length, high, left, moved = 1.0, np.inf, np.inf, np.inf
    while n_steps <= max_steps:
        is_last = n_steps >= least_steps and left <= near
        if n_trials == 0:
            _score_classes(blocks, vectors[2], changes)
        if n_steps > 0:
            curvature, spread = _curvature_along(changes, probabilities, row_room, block_room)
        if n_trials > 0:
            length = keep_within(length - slope_there / (curvature + quadratic), low, high, n_trials)
        elif n_steps > 0:
            linear = quadratic = 0.0
            for q in range(n_coefs):
                linear += penalty[q] * vectors[0, q] * vectors[2, q]
                quadratic += penalty[q] * vectors[2, q] * vectors[2, q]
            length, low, high = -slope / (curvature + quadratic), 0.0, np.inf
            if is_last and length * spread <= _SURE_MOVE:
                for q in range(n_coefs):
                    vectors[0, q] += length * vectors[2, q]
                break
        there = _evaluate_classes(blocks, scores, changes, length, labels, row_room, probabilities, block_room, sums)
        # The next pair of the memory: the step, and the change of the gradient.
        move, change = 3 + 2 * (n_pairs % most), 4 + 2 * (n_pairs % most)
        slope_there = 0.0
        for k in range(coefs.shape[0]):
            for j in range(n_columns):
                q = k * n_columns + j
                entry = sums[k, j] + penalty[q] * (vectors[0, q] + length * vectors[2, q])
                slope_there += entry * vectors[2, q]
                vectors[move, q] = length * vectors[2, q]
                vectors[change, q] = entry - vectors[1, q]
        if length * spread > _SURE_MOVE:
            gain = value - there - length * (linear + 0.5 * length * quadratic)
            # The objective is convex: while the slope is negative, it is below the start, even if rounding hides this.
            if abs(slope_there) > -_SLOPE_LEFT * slope or (slope_there > 0.0 and gain < 0.0):
                n_trials += 1
                if n_trials == _MAX_TRIALS:
                    break
                low, high = (length, high) if slope_there <= 0.0 else (low, length)
                continue
        curvature = _dot(vectors, move, change)
        # If the curvature is lost to rounding, the pair carries no information.
        is_sound = curvature > 1e-14 * math.sqrt(_dot(vectors, move, move) * _dot(vectors, change, change))
        if is_sound and n_steps > 0:
            curvatures[0, n_pairs % most] = curvature
            n_pairs += 1
        penalised = 0.0
        for q in range(n_coefs):
            vectors[0, q] += vectors[move, q]
            vectors[1, q] += vectors[change, q]
            penalised += 0.5 * penalty[q] * vectors[0, q] * vectors[0, q]
        if is_last:
            break
        for block in range(scores.shape[0]):
            for k in range(scores.shape[1]):
                for i in range(BLOCK):
                    scores[block, k, i] += length * changes[block, k, i]
        # Near the optimum the preconditioner hardly changes.
        moved += length * spread
        if hessian is not None and moved > _STALE_MOVE:
            _add_class_hessian(blocks, probabilities, row_room, penalty, block_room, sums, hessian)
            if not _factorise(hessian, hessian[n_coefs]):
                return False
            moved = 0.0
        is_due = n_steps <= _LAST_PRECONDITIONER and n_steps != 1 and n_steps & (n_steps - 1) == 0
        if matrix is not None and bands is not None and is_due:
            _total_curvature(probabilities, row_room, matrix)
            _tridiagonalise(matrix, bands)
        _apply_memory(vectors, n_pairs, curvatures, hessian, matrix, bands, mean_squares, penalty)
        value, slope = there, _dot(vectors, of_gradient, of_direction)
        left = -slope / max(value + penalised, _TINY)
        if not math.isfinite(left):
            return False
        if left <= tolerance:
            break
        n_steps += 1
        n_trials = 0
    if n_steps > max_steps:
        return False
    _from_axes(vectors[0], centre, axes, coefs)
    return True


fit_softmax, fit_softmax_by_hessian = (
    kernel(
        *(types.boolean, IN3, IN2, IN1, LABELS, IN1, float64, IN1, IN1, float64, float64, int64, int64),
        *(OUT4, OUT2, OUT2, OUT2, OUT2, OUT2, *preconditioner, OUT2),
        is_long=True,
    )(_fit_softmax)
    for preconditioner in ((types.none, OUT2, OUT2), (OUT2, types.none, types.none))
)
