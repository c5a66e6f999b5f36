"""The compiled round of all learners: Newton steps with projection, margins, meta update, the ensemble's theta.

The matrices are small, so plain loops are faster than a linear algebra call per learner. Calling a kernel takes as long
as the meta update, so one kernel does everything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import boolean, float64, int64, types

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import (
    COUNTS,
    IN1,
    IN3,
    KEYS,
    OUT1,
    OUT2,
    OUT3,
    OUT4,
    SINGLE3,
    AnyFloats,
    inlined,
    kernel,
    merged,
)

_MAX_PROJECTION_STEPS = 20
_SURFACE_TOLERANCE = 1e-14
_ACCEPTED_SURFACE = 1e-12
_LARGEST_PIVOT_RATIO = 1e8
_SMALLEST_FACTOR = 1e-300

_META = (OUT2, OUT2, OUT2, IN1)
_NUMBERS = (float64, float64, boolean, float64, IN1, float64, int64, boolean, boolean, IN1)
_ROOM = (boolean, OUT2, OUT2, OUT1, OUT1, COUNTS)


def _run_learners(
    active: IntArray,
    gradients: FloatArray,
    n_rounds: FloatArray,
    n_learners: IntArray,
    largest_margins: FloatArray,
    coefs: AnyFloats,
    matrices: Any,
    roots: Any,
    triangles: Any,
    log_potentials: FloatArray,
    squares: FloatArray,
    coef: FloatArray,
    step_sizes: FloatArray,
    radius: float,
    margin_bound: float,
    has_running_range: bool,
    smallest_range: float,
    log_counts: FloatArray,
    ridge: float,
    min_interval: int,
    starts_at_mean: bool,
    hands_over: bool,
    neutral: FloatArray,
    resumes: bool,
    room: FloatArray,
    matrix: FloatArray,
    point: FloatArray,
    margins: FloatArray,
    marks: IntArray,
) -> bool:
    """Make the steps of the learners of each active model, and open the next round; all in place.

    This is what :mod:`accous.core.learners` and :mod:`accous.core.ensemble` do in a round. Learners in double precision
    keep A and a root of its inverse. Those of many keys keep the lower triangle of A in single precision and no root:
    each step factorises A. If points cannot be projected onto the ball here, their model is marked and its round stays
    open; a call with ``resumes`` ends it once they have been projected.

    Parameters
    ----------
    active : array of shape (n_active,)
    gradients : array of shape (n_active, most_learners + 1, d)
        The ensemble's gradient follows those of the learners.
    n_rounds, n_learners, largest_margins : arrays of shape (n_models,)
    coefs : array of shape (n_models, most_learners, d)
    matrices, roots : arrays of shape (n_models, most_learners, d, d), or None
    triangles : array of shape (n_models, most_learners, d (d + 1) / 2), or None
    log_potentials, squares : arrays of shape (n_models, most_learners)
    coef : array of shape (n_models, d)
        The ensemble's theta.
    step_sizes : array of shape (n_active,)
    radius, margin_bound, has_running_range, ridge, min_interval : numbers
        As in `accous.core.ensemble.EnsembleSettings`.
    smallest_range : float
        A running range below this one is rounding: margins count as zero.
    log_counts : array of shape (n_bits,)
        ln K by the number of binary digits of the round.
    starts_at_mean, hands_over : bool
        Whether new learners start at the ensemble's theta: always, or when all of them restart.
    neutral : array of shape (d,)
        Where they start otherwise.
    resumes : bool
    room, matrix, point, margins : arrays of shape (d + 3, d), (d, d), (d,), (most_learners,)
        Workspace.
    marks : array of shape (n_models,)
        Bit i stands for learner i; there are never more than 60.

    Returns
    -------
    bool
        Whether a model was marked.
    """
    is_marked = False
    for a in range(active.shape[0]):
        key = active[a]
        n_here = n_learners[key]
        this_round = np.int64(n_rounds[key]) + 1
        log_count = log_counts[_count_bits(this_round)]
        if not resumes:
            largest = _measure(n_here, coef[key], coefs[key], gradients[a], largest_margins[key], margins)
            largest_margins[key] = largest
            divisor = largest if has_running_range else margin_bound
            if has_running_range and largest <= smallest_range:
                divisor = np.inf
            for i in range(n_here):
                # Two conditions and no else: the compiler leaves out what None decides, and nothing else.
                is_inside = True
                theta, gradient = coefs[key, i], gradients[a, i]
                if triangles is not None:
                    triangle = triangles[key, i]
                    is_inside = _step_triangle(
                        theta, triangle, gradient, step_sizes[a], radius, ridge, room, matrix, point
                    )
                if roots is not None:
                    is_inside = _step(theta, matrices[key, i], roots[key, i], gradient, step_sizes[a], radius, room)
                if not is_inside:
                    marks[key] |= 1 << i
            _update(n_here, log_count, divisor, margins, log_potentials[key], squares[key])
        if marks[key] > 0:
            is_marked = True
            continue
        _combine(n_here, log_count, coefs[key], log_potentials[key], squares[key], margins, coef[key])
        n_rounds[key] = this_round
        next_round = this_round + 1
        if next_round % min_interval == 0:
            # The lengths that start are the shortest, and all of them at a power of two, where one more begins.
            n_shorter = _count_bits(min_interval) - 1
            n_starting = _count_bits(next_round & -next_round) - n_shorter
            n_learners[key] = _count_bits(next_round) - n_shorter
            n_ended = n_starting - (n_learners[key] - n_here)
            at_mean = n_here > 0 and (starts_at_mean or (hands_over and n_ended == n_here))
            log_count = log_counts[_count_bits(next_round)]
            for i in range(n_starting):
                for j in range(coef.shape[1]):
                    coefs[key, i, j] = coef[key, j] if at_mean else neutral[j]
                if triangles is not None:
                    _start_triangle(ridge, coef.shape[1], triangles[key, i])
                if roots is not None:
                    _start_matrix(ridge, matrices[key, i])
                    _start_matrix(1.0 / math.sqrt(ridge), roots[key, i])
                log_potentials[key, i] = -log_count
                squares[key, i] = 0.0
            n_here = n_learners[key]
            _combine(n_here, log_count, coefs[key], log_potentials[key], squares[key], margins, coef[key])
    return is_marked


run_learners = kernel(
    types.boolean, KEYS, IN3, OUT1, COUNTS, OUT1, OUT3, OUT4, OUT4, types.none, *_META, *_NUMBERS, *_ROOM
)(_run_learners)
run_learners_of_keys = kernel(
    types.boolean, KEYS, IN3, OUT1, COUNTS, OUT1, SINGLE3, types.none, types.none, SINGLE3, *_META, *_NUMBERS, *_ROOM
)(_run_learners)


@inlined
def _count_bits(number: int) -> int:
    bits = 0
    while number > 0:
        number >>= 1
        bits += 1
    return bits


@inlined
def _start_matrix(diagonal: float, matrix: FloatArray) -> None:
    for j in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            matrix[j, k] = diagonal if j == k else 0.0


@inlined
def _start_triangle(diagonal: float, n_columns: int, triangle: AnyFloats) -> None:
    position = 0
    for j in range(n_columns):
        for k in range(j + 1):
            triangle[position] = diagonal if j == k else 0.0
            position += 1


# --- Newton steps -----------------------------------------------------------------------------------------------


@merged
def _step(
    theta: FloatArray,
    matrix: FloatArray,
    root: FloatArray,
    gradient: FloatArray,
    step_size: float,
    radius: float,
    room: FloatArray,
) -> bool:
    """Make a Newton step: A + g g^T, the root of its inverse in Potter's form, and theta; False if it stays outside."""
    n_columns = theta.shape[0]
    v = room[0]
    for j in range(n_columns):
        v[j] = 0.0
    for i in range(n_columns):
        for j in range(n_columns):
            v[j] += gradient[i] * root[i, j]
    growth = 1.0
    for j in range(n_columns):
        growth += v[j] * v[j]
    shrinkage = 1.0 / (growth + math.sqrt(growth))
    squared_norm = 0.0
    for i in range(n_columns):
        product = 0.0
        for j in range(n_columns):
            product += root[i, j] * v[j]
        theta[i] = theta[i] - step_size * product / growth
        squared_norm += theta[i] * theta[i]
        pull = shrinkage * product
        for j in range(n_columns):
            matrix[i, j] += gradient[i] * gradient[j]
            root[i, j] -= pull * v[j]
    return squared_norm <= radius * radius or _project(theta, matrix, root, squared_norm, radius, room)


@merged
def _step_triangle(
    theta: AnyFloats,
    triangle: AnyFloats,
    gradient: FloatArray,
    step_size: float,
    radius: float,
    ridge: float,
    room: FloatArray,
    matrix: FloatArray,
    point: FloatArray,
) -> bool:
    """Make a Newton step of a learner that keeps a triangle; False if its point stays outside the ball."""
    n_columns, position = theta.shape[0], 0
    for j in range(n_columns):
        for k in range(j + 1):
            matrix[j, k] = triangle[position]
            position += 1
    # Departs from the paper: A and theta are rounded to single precision after every round, which halves a state.
    # A is at least the ridge times the identity, and so are its pivots. Smaller ones are rounding errors.
    for j in range(n_columns):
        for k in range(j + 1):
            entry = matrix[j, k]
            for m in range(k):
                entry -= room[3 + j, m] * room[3 + k, m]
            room[3 + j, k] = entry * room[3 + k, k] if j > k else 1.0 / math.sqrt(entry if entry > ridge else ridge)
    step, half = room[1], room[2]
    _solve(room, gradient, step, half)
    growth = 1.0
    for j in range(n_columns):
        growth += gradient[j] * step[j]
    squared_norm, position = 0.0, 0
    for j in range(n_columns):
        point[j] = theta[j] - step_size * step[j] / growth
        squared_norm += point[j] * point[j]
        for k in range(j + 1):
            triangle[position] = matrix[j, k] + gradient[j] * gradient[k]
            matrix[j, k] = triangle[position]
            matrix[k, j] = triangle[position]
            position += 1
    is_inside = True
    if squared_norm > radius * radius:
        right_side = room[0]
        for j in range(n_columns):
            right_side[j] = 0.0
            for k in range(n_columns):
                right_side[j] += matrix[j, k] * point[k]
        is_inside = _approach(point, matrix, right_side, step, half, 0.0, radius, room)
    for j in range(n_columns):
        theta[j] = point[j]
    return is_inside


# --- projection onto the ball -----------------------------------------------------------------------------------


@merged
def _project(
    point: FloatArray, matrix: FloatArray, root: FloatArray, squared_norm: float, radius: float, room: FloatArray
) -> bool:
    r"""Project a point, which is outside the ball, onto the ball; see :mod:`accous.core.learners`.

    This is the same iteration on :math:`1/\|\theta(\mu)\| - 1/S = 0`, from 0 upwards, but with a Cholesky factor of
    :math:`A + \mu I` in each step instead of one eigendecomposition. Points are nearly always just outside the ball,
    where it takes two or three steps. Returns False, and leaves the point unchanged, if the matrix is badly
    conditioned.
    """
    n_columns = point.shape[0]
    right_side, theta, half = room[0], room[1], room[2]
    # At mu = 0, theta is the point itself and the slope needs no factor: A^-1 = W W^T.
    slope = 0.0
    for j in range(n_columns):
        right_side[j] = 0.0
        product = 0.0
        for i in range(n_columns):
            right_side[j] += matrix[j, i] * point[i]
            product += root[i, j] * point[i]
        slope += product * product
    mu = (math.sqrt(squared_norm) / radius - 1.0) * squared_norm / slope
    return _approach(point, matrix, right_side, theta, half, mu, radius, room)


@merged
def _approach(
    point: FloatArray,
    matrix: FloatArray,
    right_side: FloatArray,
    theta: FloatArray,
    half: FloatArray,
    mu: float,
    radius: float,
    room: FloatArray,
) -> bool:
    """Increase mu until theta is on the surface of the ball, and write it to the point; see ``_project``."""
    n_columns = point.shape[0]
    squared_norm = 0.0
    for _ in range(_MAX_PROJECTION_STEPS):
        if not _factorise(matrix, mu, room):
            return False
        slope = _solve(room, right_side, theta, half)
        squared_norm = 0.0
        for j in range(n_columns):
            squared_norm += theta[j] * theta[j]
        excess = math.sqrt(squared_norm) / radius - 1.0
        step = excess * squared_norm / slope
        if abs(excess) <= _SURFACE_TOLERANCE or step <= _SURFACE_TOLERANCE * mu:
            break
        mu += step
    norm = math.sqrt(squared_norm)
    if not abs(norm - radius) <= _ACCEPTED_SURFACE * radius:
        return False
    for j in range(n_columns):
        point[j] = theta[j] * (radius / norm)
    return True


@inlined
def _factorise(matrix: FloatArray, shift: float, room: FloatArray) -> bool:
    """Write the Cholesky factor of A + shift I, diagonal inverted, to room from row 3; False if badly conditioned."""
    smallest, largest = np.inf, 0.0
    for j in range(matrix.shape[1]):
        for k in range(j + 1):
            entry = matrix[j, k]
            for m in range(k):
                entry -= room[3 + j, m] * room[3 + k, m]
            if j > k:
                room[3 + j, k] = entry * room[3 + k, k]
            else:
                entry += shift
                smallest = entry if entry < smallest else smallest
                largest = entry if entry > largest else largest
                room[3 + j, j] = 1.0 / math.sqrt(entry)
    return smallest * _LARGEST_PIVOT_RATIO > largest


@inlined
def _solve(room: FloatArray, right_side: FloatArray, theta: FloatArray, half: FloatArray) -> float:
    """Solve L L^T theta = right_side with the factor in room; return theta^T (L L^T)^-1 theta."""
    n_columns = theta.shape[0]
    for j in range(n_columns):
        entry = right_side[j]
        for m in range(j):
            entry -= room[3 + j, m] * theta[m]
        theta[j] = entry * room[3 + j, j]
    for j in range(n_columns - 1, -1, -1):
        entry = theta[j] * room[3 + j, j]
        theta[j] = entry
        for m in range(j):
            theta[m] -= room[3 + j, m] * entry
    slope = 0.0
    for j in range(n_columns):
        entry = theta[j]
        for m in range(j):
            entry -= room[3 + j, m] * half[m]
        half[j] = entry * room[3 + j, j]
        slope += half[j] * half[j]
    return slope


# --- the meta-learner -------------------------------------------------------------------------------------------


@merged
def _measure(
    n_learners: int, coef: FloatArray, coefs: AnyFloats, gradients: FloatArray, largest: float, margins: FloatArray
) -> float:
    """Compute how much better each learner did than the ensemble; return the largest margin so far."""
    for i in range(n_learners):
        margin = 0.0
        for j in range(coef.shape[0]):
            margin += (coef[j] - coefs[i, j]) * gradients[n_learners, j]
        margins[i] = margin
        size = abs(margin)
        largest = size if size > largest else largest
    return largest


@inlined
def _rate(log_count: float, squares: float) -> float:
    rate = math.sqrt(log_count / (1.0 + squares))
    return rate if rate < 0.5 else 0.5


@merged
def _update(
    n_learners: int,
    log_count: float,
    divisor: float,
    margins: FloatArray,
    log_potentials: FloatArray,
    squares: FloatArray,
) -> None:
    """One round of Adapt-ML-Prod, given margins that are still to be divided."""
    for i in range(n_learners):
        margin = margins[i] / divisor
        margin = -2.0 if margin < -2.0 else (2.0 if margin > 2.0 else margin)
        rate = _rate(log_count, squares[i])
        squares[i] += margin * margin
        factor = 1.0 + rate * margin
        gain = math.log(factor if factor > _SMALLEST_FACTOR else _SMALLEST_FACTOR)
        log_potentials[i] = (_rate(log_count, squares[i]) / rate) * (log_potentials[i] + gain)


@inlined
def _combine(
    n_learners: int,
    log_count: float,
    coefs: AnyFloats,
    log_potentials: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    coef: FloatArray,
) -> None:
    """Compute the weights p of the learners and the mean of their thetas; without a learner, ``coef`` stays."""
    largest, total = -np.inf, 0.0
    for i in range(n_learners):
        weights[i] = math.log(_rate(log_count, squares[i])) + log_potentials[i]
        largest = weights[i] if weights[i] > largest else largest
    for i in range(n_learners):
        weights[i] = math.exp(weights[i] - largest)
        total += weights[i]
    if n_learners > 0:
        for j in range(coef.shape[0]):
            coef[j] = 0.0
    for i in range(n_learners):
        weights[i] /= total
        for j in range(coef.shape[0]):
            coef[j] += weights[i] * coefs[i, j]
