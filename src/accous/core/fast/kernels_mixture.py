r"""Compiled weights of mixtures with few components: many small problems of maximum likelihood in one call.

Without the condition that the weights sum to 1, the penalised problem

.. math:: \max_{\beta \ge 0} \; \operatorname*{mean}_j \log \sum_l A_{jl} \beta_l - \sum_l \beta_l

has the same maximum, because the best scale of any weights is the one that sums to 1. Newton's method maximises its
quadratic model over :math:`\beta \ge 0` by an active-set method (Lawson and Hanson), and halves steps that rise too
little. The first weights are equal.
"""

from __future__ import annotations

import math

from numba import float64, types

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN3, OUT1, OUT2, inlined, kernel

__all__ = ["fit_mixtures"]

_MAX_STEPS = 60
_MAX_HALVINGS = 30
_MAX_CHANGES = 5  # of the active set, per component
_RIDGE = 1e-10
_SMALLEST_RIDGE = 1e-14


@inlined
def _scale_rows(likelihoods: FloatArray, i: int, weights: FloatArray, scaled: FloatArray, slopes: FloatArray) -> float:
    """Divide every row by its mixture, write the slopes of the mean log likelihood, and return the gap."""
    n_rows, n_weights = scaled.shape
    for k in range(n_weights):
        slopes[k] = 0.0
    for j in range(n_rows):
        mixture = 0.0
        for k in range(n_weights):
            mixture += likelihoods[i, j, k] * weights[k]
        for k in range(n_weights):
            scaled[j, k] = likelihoods[i, j, k] / mixture
            slopes[k] += scaled[j, k] / n_rows
    largest = 0.0
    for k in range(n_weights):
        # Written so that a slope that is not a number ends as a gap that is none.
        largest = largest if slopes[k] <= largest else slopes[k]
    return largest - 1.0


@inlined
def _make_model(
    scaled: FloatArray, slopes: FloatArray, weights: FloatArray, hessian: FloatArray, linear: FloatArray
) -> None:
    """Write the quadratic model c^T H c / 2 - linear^T c; a small ridge pulls to the present weights."""
    n_rows, n_weights = scaled.shape
    for k in range(n_weights):
        for m in range(n_weights):
            hessian[k, m] = 0.0
    for j in range(n_rows):
        for k in range(n_weights):
            share = scaled[j, k] / n_rows
            for m in range(n_weights):
                hessian[k, m] += share * scaled[j, m]
    largest = 0.0
    for k in range(n_weights):
        largest = max(largest, hessian[k, k])
    for k in range(n_weights):
        ridge = _RIDGE * hessian[k, k] + _SMALLEST_RIDGE * largest
        hessian[k, k] += ridge
        # The Hessian times the weights equals the slopes.
        linear[k] = 2.0 * slopes[k] - 1.0 + ridge * weights[k]


@inlined
def _solve_free(
    hessian: FloatArray, linear: FloatArray, is_free: FloatArray, factor: FloatArray, goal: FloatArray
) -> bool:
    """Write the optimum of the free entries, and 0 for the others; return whether the matrix is positive definite."""
    n_weights = len(linear)
    for k in range(n_weights):
        goal[k] = 0.0
        if is_free[k] > 0.0:
            entry = linear[k]
            for m in range(k):
                if is_free[m] > 0.0:
                    total = hessian[k, m]
                    for i in range(m):
                        total -= factor[k, i] * factor[m, i]
                    factor[k, m] = total / factor[m, m]
                    entry -= factor[k, m] * goal[m]
                else:
                    factor[k, m] = 0.0
            pivot = hessian[k, k]
            for m in range(k):
                pivot -= factor[k, m] * factor[k, m]
            if not pivot > 0.0:
                return False
            factor[k, k] = math.sqrt(pivot)
            goal[k] = entry / factor[k, k]
    for k in range(n_weights - 1, -1, -1):
        if is_free[k] > 0.0:
            goal[k] /= factor[k, k]
            for m in range(k):
                if is_free[m] > 0.0:
                    goal[m] -= factor[k, m] * goal[k]
    return True


@inlined
def _take_goal(point: FloatArray, goal: FloatArray, is_free: FloatArray) -> bool:
    """Replace the point by the goal, with 0 for entries below 0, which are free no more; return if there are none."""
    is_whole = True
    for k in range(len(point)):
        if is_free[k] > 0.0 and not goal[k] > 0.0:
            is_free[k] = 0.0
            is_whole = False
        point[k] = goal[k] if is_free[k] > 0.0 else 0.0
    return is_whole


@inlined
def _move_to_goal(point: FloatArray, goal: FloatArray, is_free: FloatArray) -> bool:
    """Move to the goal, or up to the first bound, which holds from then on; return whether the goal is reached."""
    share, first = 1.0, -1
    for k in range(len(point)):
        if is_free[k] > 0.0 and goal[k] <= 0.0:
            reach = point[k] / (point[k] - goal[k]) if point[k] > 0.0 else 0.0
            if first < 0 or reach < share:
                share, first = reach, k
    for k in range(len(point)):
        if is_free[k] > 0.0:
            point[k] = max(point[k] + share * (goal[k] - point[k]), 0.0)
    if first >= 0:
        point[first] = is_free[first] = 0.0
    return first < 0


@inlined
def _free_one(
    hessian: FloatArray, linear: FloatArray, point: FloatArray, is_free: FloatArray, tolerance: float
) -> bool:
    """Free the entry at 0 with the strongest pull to grow; return whether there is one."""
    strongest, best = tolerance, -1
    for k in range(len(point)):
        if is_free[k] == 0.0:
            pull = linear[k]
            for m in range(len(point)):
                pull -= hessian[k, m] * point[m]
            if pull > strongest:
                strongest, best = pull, k
    if best >= 0:
        is_free[best] = 1.0
    return best >= 0


@inlined
def _maximise_model(
    hessian: FloatArray, linear: FloatArray, tolerance: float, room: FloatArray, factor: FloatArray, point: FloatArray
) -> bool:
    """Replace the point by the optimum of the model over non-negative entries; return whether it was found."""
    is_free, goal = room[0], room[1]
    for k in range(len(point)):
        is_free[k] = 1.0 if point[k] > 0.0 else 0.0
    # Any optimum of some free entries is a start. Dropping all entries below 0 at once leads to one soon.
    is_started = False
    for _ in range(_MAX_CHANGES * len(point) + _MAX_CHANGES):
        if not _solve_free(hessian, linear, is_free, factor, goal):
            return False
        if is_started:
            is_reached = _move_to_goal(point, goal, is_free)
        else:
            is_reached = is_started = _take_goal(point, goal, is_free)
        if is_reached and not _free_one(hessian, linear, point, is_free, tolerance):
            return True
    return False


@inlined
def _rise(scaled: FloatArray, point: FloatArray, weights: FloatArray, size: float, room: FloatArray) -> float:
    """Write a part of the way to the point to the room, and return how much the penalised objective rises there."""
    total = 0.0
    for k in range(len(weights)):
        room[k] = weights[k] + size * (point[k] - weights[k])
        total -= room[k] - weights[k]
    for j in range(scaled.shape[0]):
        share = 0.0
        for k in range(len(weights)):
            share += scaled[j, k] * room[k]
        if not share > 0.0:
            return -math.inf
        total += math.log(share) / scaled.shape[0]
    return total


@inlined
def _step(scaled: FloatArray, slopes: FloatArray, weights: FloatArray, point: FloatArray, trial: FloatArray) -> None:
    """Move the weights towards the point until the objective rises enough, and bring them to the sum 1."""
    expected = 0.0
    for k in range(len(weights)):
        expected += (slopes[k] - 1.0) * (point[k] - weights[k])
    size, n_halvings = 1.0, 0
    while n_halvings < _MAX_HALVINGS and not _rise(scaled, point, weights, size, trial) >= 1e-4 * size * expected:
        size *= 0.5
        n_halvings += 1
    total = 0.0
    for k in range(len(weights)):
        # The multiplicative step of the EM algorithm always increases the objective, though slowly.
        weights[k] = weights[k] * slopes[k] if n_halvings == _MAX_HALVINGS else max(trial[k], 0.0)
        total += weights[k]
    for k in range(len(weights)):
        weights[k] /= total


@kernel(types.void, IN3, float64, OUT2, OUT2, OUT2, OUT2, OUT2, OUT1)
def fit_mixtures(
    likelihoods: FloatArray,
    tolerance: float,
    scaled: FloatArray,
    hessian: FloatArray,
    factor: FloatArray,
    room: FloatArray,
    weights: FloatArray,
    gaps: FloatArray,
) -> None:
    """Fit the weights of every problem, and write a bound on how far each mean log likelihood is below its maximum.

    ``likelihoods`` is (n_problems, n_rows, n_weights). A gap above the tolerance says that the method did not succeed.
    """
    n_problems, _, n_weights = likelihoods.shape
    slopes, linear, point = room[2], room[3], room[4]
    for i in range(n_problems):
        for k in range(n_weights):
            weights[i, k] = 1.0 / n_weights
        for step in range(_MAX_STEPS + 1):
            gaps[i] = _scale_rows(likelihoods, i, weights[i], scaled, slopes)
            if gaps[i] <= tolerance or step == _MAX_STEPS:
                break
            _make_model(scaled, slopes, weights[i], hessian, linear)
            for k in range(n_weights):
                point[k] = weights[i, k]
            if not _maximise_model(hessian, linear, 0.1 * tolerance, room, factor, point):
                break
            _step(scaled, slopes, weights[i], point, room[5])
