"""Compiled steps of the learners: Newton steps with projection, margins, meta update, the ensemble's theta.

The matrices are small, so that plain loops beat one call of a linear algebra routine per learner.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, types

from accous.core.arrays import FloatArray
from accous.core.compiled import inlined, kernel, read_only, writable

__all__ = ["combine_learners", "measure_margins", "step_learners", "update_meta"]

_MAX_PROJECTION_STEPS = 20
_SURFACE_TOLERANCE = 1e-14
_ACCEPTED_SURFACE = 1e-12
_LARGEST_PIVOT_RATIO = 1e8
_SMALLEST_FACTOR = 1e-300


# --- Newton steps -----------------------------------------------------------------------------------------------


@kernel(
    int64,
    read_only(2),
    read_only(3),
    read_only(3),
    read_only(2),
    float64,
    float64,
    writable(2),
    writable(3),
    writable(3),
    writable(1),
)
def step_learners(
    coefs: FloatArray,
    matrices: FloatArray,
    inverse_roots: FloatArray,
    gradients: FloatArray,
    step_size: float,
    radius: float,
    new_coefs: FloatArray,
    new_matrices: FloatArray,
    new_roots: FloatArray,
    is_left: FloatArray,
) -> int:
    """One Newton step of every learner, as in :func:`accous.core.newton.newton_step`, into the new arrays.

    Only the first ``len(coefs)`` rows of ``gradients`` are read. A learner whose point could not be projected here is
    marked by 1 in ``is_left``, and its point left outside the ball.

    Returns
    -------
    int
        How many are marked.
    """
    n_columns = coefs.shape[1]
    work = np.empty((n_columns, n_columns))
    vectors = np.empty((5, n_columns))
    n_left = 0
    for learner in range(coefs.shape[0]):
        _step(
            coefs[learner],
            matrices[learner],
            inverse_roots[learner],
            gradients[learner],
            step_size,
            new_coefs[learner],
            new_matrices[learner],
            new_roots[learner],
            vectors,
        )
        is_inside = _project(new_coefs[learner], new_matrices[learner], new_roots[learner], radius, work, vectors)
        is_left[learner] = 0.0 if is_inside else 1.0
        n_left += 0 if is_inside else 1
    return n_left


@inlined
def _step(
    coef: FloatArray,
    matrix: FloatArray,
    root: FloatArray,
    gradient: FloatArray,
    step_size: float,
    new_coef: FloatArray,
    new_matrix: FloatArray,
    new_root: FloatArray,
    vectors: FloatArray,
) -> None:
    """A + g g^T, the inverse's root in Potter's form, and the point before the projection."""
    n = coef.shape[0]
    v, root_times_v = vectors[0], vectors[1]
    for j in range(n):
        v[j] = 0.0
    for i in range(n):
        for j in range(n):
            v[j] += gradient[i] * root[i, j]
    growth = 1.0
    for j in range(n):
        growth += v[j] * v[j]
    shrinkage = 1.0 / (growth + math.sqrt(growth))
    for i in range(n):
        product = 0.0
        for j in range(n):
            product += root[i, j] * v[j]
        root_times_v[i] = product
        new_coef[i] = coef[i] - step_size * product / growth
    for i in range(n):
        pull = shrinkage * root_times_v[i]
        for j in range(n):
            new_matrix[i, j] = matrix[i, j] + gradient[i] * gradient[j]
            new_root[i, j] = root[i, j] - pull * v[j]


# --- projection onto the ball -----------------------------------------------------------------------------------


@inlined
def _dot(a: FloatArray, b: FloatArray, n: int) -> float:
    """Product of the first n entries."""
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total


@inlined
def _factorise(matrix: FloatArray, shift: float, factor: FloatArray) -> bool:
    """Cholesky factor of A + shift I, its diagonal inverted; False where that is badly conditioned."""
    smallest, largest = np.inf, 0.0
    for j in range(matrix.shape[0]):
        for k in range(j + 1):
            entry = matrix[j, k] + (shift if j == k else 0.0) - _dot(factor[j], factor[k], k)
            if j > k:
                factor[j, k] = entry * factor[k, k]
            else:
                smallest, largest = min(smallest, entry), max(largest, entry)
                factor[j, j] = 1.0 / math.sqrt(entry)
    return smallest * _LARGEST_PIVOT_RATIO > largest


@inlined
def _solve(factor: FloatArray, right_side: FloatArray, theta: FloatArray, half: FloatArray) -> float:
    """Solve L L^T theta = right_side; returns theta^T (L L^T)^-1 theta."""
    n = theta.shape[0]
    for j in range(n):
        theta[j] = (right_side[j] - _dot(factor[j], theta, j)) * factor[j, j]
    for j in range(n - 1, -1, -1):
        theta[j] *= factor[j, j]
        for m in range(j):
            theta[m] -= factor[j, m] * theta[j]
    for j in range(n):
        half[j] = (theta[j] - _dot(factor[j], half, j)) * factor[j, j]
    return _dot(half, half, n)


@inlined
def _project(
    point: FloatArray, matrix: FloatArray, root: FloatArray, radius: float, factor: FloatArray, vectors: FloatArray
) -> bool:
    r"""Replace a point outside the ball by its projection; see :mod:`accous.core.projection`.

    The same iteration on :math:`1/\|\theta(\mu)\| - 1/S = 0`, from 0 upwards, but with a Cholesky factor of
    :math:`A + \mu I` in each step in place of one eigendecomposition: just outside the ball, where points nearly
    always are, it takes two or three. False, and the point as it was, where the matrix is badly conditioned.
    """
    right_side, theta, half = vectors[2], vectors[3], vectors[4]
    squared_norm = _dot(point, point, point.shape[0])
    if squared_norm <= radius * radius:
        return True
    # At mu = 0, theta is the point itself and the slope needs no factor: A^-1 = W W^T.
    slope = _multiply(point, matrix, root, right_side, half)
    mu = (math.sqrt(squared_norm) / radius - 1.0) * squared_norm / slope
    for _ in range(_MAX_PROJECTION_STEPS):
        if not _factorise(matrix, mu, factor):
            return False
        slope = _solve(factor, right_side, theta, half)
        squared_norm = _dot(theta, theta, theta.shape[0])
        excess = math.sqrt(squared_norm) / radius - 1.0
        step = excess * squared_norm / slope
        if abs(excess) <= _SURFACE_TOLERANCE or step <= _SURFACE_TOLERANCE * mu:
            break
        mu += step
    norm = math.sqrt(squared_norm)
    if not abs(norm - radius) <= _ACCEPTED_SURFACE * radius:
        return False
    for j in range(point.shape[0]):
        point[j] = theta[j] * (radius / norm)
    return True


@inlined
def _multiply(
    point: FloatArray, matrix: FloatArray, root: FloatArray, product: FloatArray, root_product: FloatArray
) -> float:
    """A nu and W^T nu; returns nu^T A^-1 nu."""
    for j in range(point.shape[0]):
        root_product[j] = 0.0
    for i in range(point.shape[0]):
        product[i] = _dot(matrix[i], point, point.shape[0])
        for j in range(point.shape[0]):
            root_product[j] += root[i, j] * point[i]
    return _dot(root_product, root_product, point.shape[0])


# --- the meta-learner -------------------------------------------------------------------------------------------


@kernel(float64, read_only(1), read_only(2), read_only(1), float64, boolean, float64, float64, writable(1))
def measure_margins(
    coef: FloatArray,
    coefs: FloatArray,
    gradient: FloatArray,
    margin_bound: float,
    has_running_range: bool,
    smallest_range: float,
    largest_margin: float,
    margins: FloatArray,
) -> float:
    r"""Margins :math:`g^\top(\hat\theta - \theta_i)` divided by their range, into ``margins``.

    Returns
    -------
    float
        The largest margin seen so far, before the division.
    """
    for learner in range(coefs.shape[0]):
        margin = 0.0
        for j in range(coef.shape[0]):
            margin += (coef[j] - coefs[learner, j]) * gradient[j]
        margins[learner] = margin
        largest_margin = max(largest_margin, abs(margin))
    for learner in range(coefs.shape[0]):
        if not has_running_range:
            margins[learner] = min(max(margins[learner] / margin_bound, -2.0), 2.0)
        elif largest_margin <= smallest_range:
            margins[learner] = 0.0
        else:
            margins[learner] /= largest_margin
    return largest_margin


@kernel(
    types.void, read_only(1), read_only(1), read_only(1), read_only(1), float64, writable(1), writable(1), writable(1)
)
def update_meta(
    log_potentials: FloatArray,
    rates: FloatArray,
    squares: FloatArray,
    margins: FloatArray,
    log_count: float,
    new_potentials: FloatArray,
    new_rates: FloatArray,
    new_squares: FloatArray,
) -> None:
    """One round of Adapt-ML-Prod, as in :func:`accous.core.meta.meta_step`, into the new arrays."""
    for i in range(margins.shape[0]):
        new_squares[i] = squares[i] + margins[i] * margins[i]
        new_rates[i] = min(0.5, math.sqrt(log_count / (1.0 + new_squares[i])))
        gain = math.log(max(1.0 + rates[i] * margins[i], _SMALLEST_FACTOR))
        new_potentials[i] = (new_rates[i] / rates[i]) * (log_potentials[i] + gain)


@kernel(types.void, read_only(1), read_only(1), read_only(2), writable(1), writable(1))
def combine_learners(
    log_potentials: FloatArray, rates: FloatArray, coefs: FloatArray, weights: FloatArray, coef: FloatArray
) -> None:
    """Weights p of the learners, and the mean of their thetas under p."""
    largest = -np.inf
    for i in range(weights.shape[0]):
        weights[i] = math.log(rates[i]) + log_potentials[i]
        largest = max(largest, weights[i])
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
