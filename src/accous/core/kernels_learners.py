"""The compiled round of all learners: Newton steps with projection, margins, meta update, the ensemble's theta.

The matrices are small, so plain loops are faster than a linear algebra call per learner. Calling a kernel takes as long
as the meta update, so one kernel does everything.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, types

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import COUNTS, IN1, IN2, IN3, KEYS, OUT1, OUT2, OUT3, SINGLE3, SingleArray, inlined, kernel

_MAX_PROJECTION_STEPS = 20
_SURFACE_TOLERANCE = 1e-14
_ACCEPTED_SURFACE = 1e-12
_LARGEST_PIVOT_RATIO = 1e8
_SMALLEST_FACTOR = 1e-300

_RESULT = types.Tuple((int64, float64))
_STACK = (IN2, IN3, IN3)
_META = (IN1, IN1, IN1)
_NUMBERS = (float64, float64, float64, boolean, float64, float64, float64)
_NEW_STACK = (OUT2, OUT3, OUT3)
_NEW_META = (OUT1, OUT1, OUT1)
_OF_KEYS = (OUT1, COUNTS, OUT1, SINGLE3, SINGLE3, OUT2, OUT2, OUT2)
_ROOM = (IN1, OUT2, OUT3, OUT2, OUT1, OUT1)


@kernel(_RESULT, IN1, IN2, *_STACK, *_META, *_NUMBERS, OUT2, *_NEW_STACK, *_NEW_META, OUT1, OUT1)
def play_learners(
    coef: FloatArray,
    gradients: FloatArray,
    coefs: FloatArray,
    matrices: FloatArray,
    inverse_roots: FloatArray,
    log_potentials: FloatArray,
    rates: FloatArray,
    squares: FloatArray,
    step_size: float,
    radius: float,
    margin_bound: float,
    has_running_range: bool,
    smallest_range: float,
    largest_margin: float,
    log_count: float,
    room: FloatArray,
    new_coefs: FloatArray,
    new_matrices: FloatArray,
    new_roots: FloatArray,
    new_potentials: FloatArray,
    new_rates: FloatArray,
    new_squares: FloatArray,
    new_weights: FloatArray,
    new_coef: FloatArray,
) -> tuple[int, float]:
    """Do what :mod:`accous.core.learners` and :mod:`accous.core.ensemble` do in a round; fill the new arrays.

    In ``gradients``, the ensemble's gradient follows those of the learners. ``room``, of shape (d + 3, d), is
    workspace. If a learner's point cannot be projected here, the learner is marked and its point stays outside the
    ball.

    Returns
    -------
    marks : int
        Bit i stands for learner i; there are never more than 60.
    largest_margin : float
        The largest margin so far, before the division by the range.
    """
    marks = 0
    for learner in range(coefs.shape[0]):
        _step(learner, coefs, matrices, inverse_roots, gradients, step_size, room, new_coefs, new_matrices, new_roots)
        squared_norm = 0.0
        for j in range(coefs.shape[1]):
            squared_norm += new_coefs[learner, j] * new_coefs[learner, j]
        if squared_norm > radius * radius and not _project(
            learner, new_coefs, new_matrices, new_roots, squared_norm, radius, room
        ):
            marks |= 1 << learner
    margins = new_weights
    largest_margin = _measure(coef, coefs, gradients, largest_margin, margins)
    divisor = largest_margin if has_running_range else margin_bound
    if has_running_range and largest_margin <= smallest_range:
        divisor = np.inf
    for i in range(margins.shape[0]):
        margin = margins[i] / divisor
        margins[i] = -2.0 if margin < -2.0 else (2.0 if margin > 2.0 else margin)
    _update(log_potentials, rates, squares, margins, log_count, new_potentials, new_rates, new_squares)
    _combine(new_potentials, new_rates, new_coefs, new_weights, new_coef)
    return marks, largest_margin


@kernel(types.void, int64, IN1, float64, float64, *_NEW_STACK, *_NEW_META, OUT1, OUT1)
def restart_learners(
    n_starting: int,
    start: FloatArray,
    ridge: float,
    log_count: float,
    coefs: FloatArray,
    matrices: FloatArray,
    inverse_roots: FloatArray,
    log_potentials: FloatArray,
    rates: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    coef: FloatArray,
) -> None:
    """Restart the first ``n_starting`` learners at theta = ``start``, and combine; all in place."""
    rate = math.sqrt(log_count)
    for learner in range(n_starting):
        for i in range(coefs.shape[1]):
            coefs[learner, i] = start[i]
            for j in range(coefs.shape[1]):
                matrices[learner, i, j] = ridge if i == j else 0.0
                inverse_roots[learner, i, j] = 1.0 / math.sqrt(ridge) if i == j else 0.0
        log_potentials[learner] = -log_count
        rates[learner] = rate if rate < 0.5 else 0.5
        squares[learner] = 0.0
    _combine(log_potentials, rates, coefs, weights, coef)


# --- the learners of many keys -----------------------------------------------------------------------------------


@kernel(types.void, KEYS, IN3, *_OF_KEYS, IN1, *_NUMBERS[1:5], IN1, float64, int64, boolean, boolean, *_ROOM)
def play_learners_of_keys(
    active: IntArray,
    gradients: FloatArray,
    n_rounds: FloatArray,
    n_learners: IntArray,
    largest_margins: FloatArray,
    coefs: SingleArray,
    triangles: SingleArray,
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
    room: FloatArray,
    matrix: FloatArray,
    point: FloatArray,
    margins: FloatArray,
    marks: FloatArray,
) -> None:
    """Play a round of the learners of each active key, and open the next one, in place; see ``play_learners``.

    A key keeps the lower triangle of A in single precision and no root of its inverse: each step factorises A. Points
    that cannot be projected here stay outside the ball, and their number is added to the key's ``marks``.

    Parameters
    ----------
    active : array of shape (n_active,)
    gradients : array of shape (n_active, most_learners + 1, d)
    n_rounds, n_learners, largest_margins : arrays of shape (n_keys,)
    coefs : array of shape (n_keys, most_learners, d)
    triangles : array of shape (n_keys, most_learners, d (d + 1) / 2)
    log_potentials, squares : arrays of shape (n_keys, most_learners)
    coef : array of shape (n_keys, d)
        The ensemble's theta.
    step_sizes : array of shape (n_active,)
    radius, margin_bound, has_running_range, smallest_range : numbers
        As in ``play_learners``.
    log_counts : array of shape (n_bits,)
        ln K by the number of binary digits of the round.
    ridge : float
    min_interval : int
    starts_at_mean, hands_over : bool
        Whether new learners start at the ensemble's theta: always, or when all of them restart.
    neutral : array of shape (d,)
        Where they start otherwise.
    room, matrix, point, margins : arrays of shape (d + 3, d), (1, d, d), (1, d), (most_learners,)
        Workspace.
    marks : array of shape (n_keys,)
    """
    for a in range(active.shape[0]):
        key = active[a]
        n_here = n_learners[key]
        this_round = np.int64(n_rounds[key]) + 1
        log_count = log_counts[_count_bits(this_round)]
        for i in range(n_here):
            margin = 0.0
            for j in range(coef.shape[1]):
                margin += (coef[key, j] - coefs[key, i, j]) * gradients[a, n_here, j]
            margins[i] = margin
            size = abs(margin)
            largest_margins[key] = size if size > largest_margins[key] else largest_margins[key]
        divisor = largest_margins[key] if has_running_range else margin_bound
        if has_running_range and largest_margins[key] <= smallest_range:
            divisor = np.inf
        for i in range(n_here):
            if not _step_triangle(
                coefs[key, i], triangles[key, i], gradients[a, i], step_sizes[a], radius, ridge, room, matrix, point
            ):
                marks[key] += 1.0
            margin = margins[i] / divisor
            margin = -2.0 if margin < -2.0 else (2.0 if margin > 2.0 else margin)
            rate = _rate(log_count, squares[key, i])
            squares[key, i] += margin * margin
            factor = 1.0 + rate * margin
            gain = math.log(factor if factor > _SMALLEST_FACTOR else _SMALLEST_FACTOR)
            new_rate = _rate(log_count, squares[key, i])
            log_potentials[key, i] = (new_rate / rate) * (log_potentials[key, i] + gain)
        _combine_singles(n_here, log_count, coefs[key], log_potentials[key], squares[key], margins, coef[key])
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
                position = 0
                for j in range(coefs.shape[2]):
                    coefs[key, i, j] = coef[key, j] if at_mean else neutral[j]
                    for k in range(j + 1):
                        triangles[key, i, position] = ridge if j == k else 0.0
                        position += 1
                log_potentials[key, i] = -log_count
                squares[key, i] = 0.0
            n_here = n_learners[key]
            _combine_singles(n_here, log_count, coefs[key], log_potentials[key], squares[key], margins, coef[key])


@inlined
def _count_bits(number: int) -> int:
    bits = 0
    while number > 0:
        number >>= 1
        bits += 1
    return bits


@inlined
def _combine_singles(
    n_learners: int,
    log_count: float,
    coefs: SingleArray,
    log_potentials: FloatArray,
    squares: FloatArray,
    weights: FloatArray,
    coef: FloatArray,
) -> None:
    """Compute the weights p of a key's learners and the mean of their thetas; without a learner, ``coef`` stays."""
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


@inlined
def _rate(log_count: float, squares: float) -> float:
    rate = math.sqrt(log_count / (1.0 + squares))
    return rate if rate < 0.5 else 0.5


@inlined
def _step_triangle(
    theta: SingleArray,
    triangle: SingleArray,
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
            matrix[0, j, k] = triangle[position]
            position += 1
    # Departs from the paper: A and theta are rounded to single precision after every round, which halves a state.
    # A is at least the ridge times the identity, and so are its pivots. Smaller ones are rounding errors.
    for j in range(n_columns):
        for k in range(j + 1):
            entry = matrix[0, j, k]
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
        point[0, j] = theta[j] - step_size * step[j] / growth
        squared_norm += point[0, j] * point[0, j]
        for k in range(j + 1):
            triangle[position] = matrix[0, j, k] + gradient[j] * gradient[k]
            matrix[0, j, k] = triangle[position]
            matrix[0, k, j] = triangle[position]
            position += 1
    is_inside = True
    if squared_norm > radius * radius:
        right_side = room[0]
        for j in range(n_columns):
            right_side[j] = 0.0
            for k in range(n_columns):
                right_side[j] += matrix[0, j, k] * point[0, k]
        is_inside = _approach(0 * n_columns, point, matrix, right_side, step, half, 0.0, radius, room)
    for j in range(n_columns):
        theta[j] = point[0, j]
    return is_inside


# --- Newton steps -----------------------------------------------------------------------------------------------


@inlined
def _step(
    n: int,
    coefs: FloatArray,
    matrices: FloatArray,
    roots: FloatArray,
    gradients: FloatArray,
    step_size: float,
    room: FloatArray,
    new_coefs: FloatArray,
    new_matrices: FloatArray,
    new_roots: FloatArray,
) -> None:
    """Compute A + g g^T, the root of its inverse in Potter's form, and the unprojected point of learner n."""
    n_columns = coefs.shape[1]
    v = room[0]
    for j in range(n_columns):
        v[j] = 0.0
    for i in range(n_columns):
        for j in range(n_columns):
            v[j] += gradients[n, i] * roots[n, i, j]
    growth = 1.0
    for j in range(n_columns):
        growth += v[j] * v[j]
    shrinkage = 1.0 / (growth + math.sqrt(growth))
    for i in range(n_columns):
        product = 0.0
        for j in range(n_columns):
            product += roots[n, i, j] * v[j]
        new_coefs[n, i] = coefs[n, i] - step_size * product / growth
        pull = shrinkage * product
        for j in range(n_columns):
            new_matrices[n, i, j] = matrices[n, i, j] + gradients[n, i] * gradients[n, j]
            new_roots[n, i, j] = roots[n, i, j] - pull * v[j]


# --- projection onto the ball -----------------------------------------------------------------------------------


@inlined
def _project(
    n: int,
    points: FloatArray,
    matrices: FloatArray,
    roots: FloatArray,
    squared_norm: float,
    radius: float,
    room: FloatArray,
) -> bool:
    r"""Project learner n's point, which is outside the ball, onto the ball; see :mod:`accous.core.learners`.

    This is the same iteration on :math:`1/\|\theta(\mu)\| - 1/S = 0`, from 0 upwards, but with a Cholesky factor of
    :math:`A + \mu I` in each step instead of one eigendecomposition. Points are nearly always just outside the ball,
    where it takes two or three steps. Returns False, and leaves the point unchanged, if the matrix is badly
    conditioned.
    """
    n_columns = points.shape[1]
    right_side, theta, half = room[0], room[1], room[2]
    # At mu = 0, theta is the point itself and the slope needs no factor: A^-1 = W W^T.
    slope = 0.0
    for j in range(n_columns):
        right_side[j] = 0.0
        product = 0.0
        for i in range(n_columns):
            right_side[j] += matrices[n, j, i] * points[n, i]
            product += roots[n, i, j] * points[n, i]
        slope += product * product
    mu = (math.sqrt(squared_norm) / radius - 1.0) * squared_norm / slope
    return _approach(n, points, matrices, right_side, theta, half, mu, radius, room)


@inlined
def _approach(
    n: int,
    points: FloatArray,
    matrices: FloatArray,
    right_side: FloatArray,
    theta: FloatArray,
    half: FloatArray,
    mu: float,
    radius: float,
    room: FloatArray,
) -> bool:
    """Increase mu until theta is on the surface of the ball, and write it to the points; see ``_project``."""
    n_columns = points.shape[1]
    squared_norm = 0.0
    for _ in range(_MAX_PROJECTION_STEPS):
        if not _factorise(n, matrices, mu, room):
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
        points[n, j] = theta[j] * (radius / norm)
    return True


@inlined
def _factorise(n: int, matrices: FloatArray, shift: float, room: FloatArray) -> bool:
    """Write the Cholesky factor of A + shift I, diagonal inverted, to room from row 3; False if badly conditioned."""
    smallest, largest = np.inf, 0.0
    for j in range(matrices.shape[1]):
        for k in range(j + 1):
            entry = matrices[n, j, k]
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


@inlined
def _measure(
    coef: FloatArray, coefs: FloatArray, gradients: FloatArray, largest_margin: float, margins: FloatArray
) -> float:
    """Compute how much better each learner did than the ensemble; return the largest margin so far."""
    last = margins.shape[0]
    for i in range(margins.shape[0]):
        margin = 0.0
        for j in range(coef.shape[0]):
            margin += (coef[j] - coefs[i, j]) * gradients[last, j]
        margins[i] = margin
        size = abs(margin)
        largest_margin = size if size > largest_margin else largest_margin
    return largest_margin


@inlined
def _update(
    log_potentials: FloatArray,
    rates: FloatArray,
    squares: FloatArray,
    margins: FloatArray,
    log_count: float,
    new_potentials: FloatArray,
    new_rates: FloatArray,
    new_squares: FloatArray,
) -> None:
    """One round of Adapt-ML-Prod."""
    for i in range(margins.shape[0]):
        new_squares[i] = squares[i] + margins[i] * margins[i]
        rate = math.sqrt(log_count / (1.0 + new_squares[i]))
        new_rates[i] = rate if rate < 0.5 else 0.5
        factor = 1.0 + rates[i] * margins[i]
        gain = math.log(factor if factor > _SMALLEST_FACTOR else _SMALLEST_FACTOR)
        new_potentials[i] = (new_rates[i] / rates[i]) * (log_potentials[i] + gain)


@inlined
def _combine(
    log_potentials: FloatArray, rates: FloatArray, coefs: FloatArray, weights: FloatArray, coef: FloatArray
) -> None:
    """Compute the weights p of the learners, and the mean of their thetas under p."""
    largest = -np.inf
    for i in range(weights.shape[0]):
        weights[i] = math.log(rates[i]) + log_potentials[i]
        largest = weights[i] if weights[i] > largest else largest
    total = 0.0
    for i in range(weights.shape[0]):
        weights[i] = math.exp(weights[i] - largest)
        total += weights[i]
    for j in range(coef.shape[0]):
        coef[j] = 0.0
    for i in range(weights.shape[0]):
        weights[i] /= total
        for j in range(coef.shape[0]):
            coef[j] += weights[i] * coefs[i, j]
