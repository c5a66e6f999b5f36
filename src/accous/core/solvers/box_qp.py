r"""Convex quadratic programs with a box and bounds on the mass: the problem of kernel mean matching.

.. math::
    \min_w \; \tfrac12 w^\top (K + \lambda I) w - \kappa^\top w
    \quad\text{subject to}\quad 0 \le w_i \le B, \;\; M_- \le \textstyle\sum_i w_i \le M_+

The solver is a primal active-set method. Without a ridge the solution is sparse, and the solver frees a few rows at a
time. With a ridge most rows are free, and conjugate gradients solve systems too large for a factorisation. The
objective falls in every step, so a start near the solution saves time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dposv

from accous.arrays import BoolArray, FloatArray, IntArray

__all__ = ["BoxProblem", "DenseMatrix", "FactoredMatrix", "Matrix", "project_onto_mass", "solve_box_qp"]

_MAX_FACTORED = 400
_MAX_CG_STEPS = 500
_CG_ACCURACY = 1e-10
_FEWEST_FREED = 8
_MAX_SOLVES = 1000
_STUCK = 1e-14
_JITTERS = (1e-12, 1e-9, 1e-6)


class Matrix(Protocol):
    """A symmetric positive semi-definite matrix in any storage format."""

    def times(self, vector: FloatArray) -> FloatArray:
        """Product with a vector."""

    def block(self, indices: IntArray) -> FloatArray:
        """Return the rows and columns ``indices``, as a new array."""


@dataclass(frozen=True)
class DenseMatrix:
    """A matrix with all entries stored."""

    values: FloatArray

    def times(self, vector: FloatArray) -> FloatArray:
        """Product with a vector; skips zeros of the vector if there are many."""
        indices = np.flatnonzero(vector)
        if len(indices) < len(vector) // 3:
            return np.asarray(vector[indices] @ self.values[indices])
        # The matrix is symmetric and reading it dominates the time, so read only half. BLAS needs contiguous columns.
        columns = self.values.T if self.values.flags.c_contiguous else self.values
        return np.asarray(dsymv(1.0, columns, vector))

    def block(self, indices: IntArray) -> FloatArray:
        """Return the rows and columns ``indices``."""
        return self.values[indices[:, None], indices]


@dataclass(frozen=True)
class FactoredMatrix:
    """The matrix F F^T, kept as its factor."""

    factor: FloatArray

    def times(self, vector: FloatArray) -> FloatArray:
        """Product with a vector."""
        return np.asarray(self.factor @ (vector @ self.factor))

    def block(self, indices: IntArray) -> FloatArray:
        """Return the rows and columns ``indices``."""
        rows = self.factor[indices]
        return np.asarray(rows @ rows.T)


@dataclass(frozen=True)
class BoxProblem:
    """A problem as in the module's equation.

    Attributes
    ----------
    matrix : Matrix
        K.
    linear : array of shape (n,)
        kappa.
    ridge : float
        lambda.
    upper : float
        B.
    mass : float or None
        M, at most n B; None if any mass is allowed.
    """

    matrix: Matrix
    linear: FloatArray
    ridge: float
    upper: float
    mass: float | None

    def gradient(self, point: FloatArray) -> FloatArray:
        """Gradient of the objective."""
        return self.matrix.times(point) + self.ridge * point - self.linear

    def value(self, point: FloatArray, gradient: FloatArray) -> float:
        """Objective of a point whose gradient is known."""
        return float(0.5 * point @ (gradient - self.linear))

    def violations(self, point: FloatArray, gradient: FloatArray) -> tuple[FloatArray, float]:
        """How much each entry's optimality condition is violated, and the multiplier of the mass.

        At the optimum the gradient equals -nu for entries between the bounds, is at least -nu for entries at 0, and at
        most -nu for entries at B.
        """
        is_low, is_high = point <= 0.0, point >= self.upper
        largest = gradient[~is_low].max(initial=-np.inf)
        smallest = gradient[~is_high].min(initial=np.inf)
        multiplier = 0.0 if self.mass is None else -0.5 * (largest + smallest)
        slopes = gradient + multiplier
        excess = np.where(is_low, -slopes, np.where(is_high, slopes, np.abs(slopes)))
        return np.maximum(excess, 0.0), float(multiplier)


def solve_box_qp(
    problem: BoxProblem, start: FloatArray, tolerance: float, masses: tuple[float, float] | None = None
) -> tuple[FloatArray, float]:
    """Minimise until no optimality condition is violated by more than the tolerance.

    Parameters
    ----------
    problem : BoxProblem
    start : array of shape (n,)
        Any point; it is first projected onto the box and the mass.
    tolerance : float
        In units of the gradient.
    masses : (float, float), optional
        M- and M+; if given, the problem's own mass is ignored.

    Returns
    -------
    point : array of shape (n,)
        Feasible, up to rounding.
    multiplier : float
        nu, the Lagrange multiplier of the mass.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.solvers.box_qp import BoxProblem, DenseMatrix, solve_box_qp
    >>> problem = BoxProblem(DenseMatrix(np.eye(3)), np.array([3.0, 1.0, 0.0]), 0.0, upper=2.0, mass=3.0)
    >>> solve_box_qp(problem, np.ones(3), tolerance=1e-9)[0].round(9)
    array([2., 1., 0.])
    """
    if masses is not None:
        return _solve_in_range(problem, start, tolerance, masses)
    if problem.mass is None:
        point = np.clip(start, 0.0, problem.upper)
    else:
        point = project_onto_mass(start, problem.upper, problem.mass)
    gradient = problem.gradient(point)
    n_solves, is_stuck, value = 0, False, problem.value(point, gradient)
    while True:
        excess, multiplier = problem.violations(point, gradient)
        if excess.max() <= tolerance or n_solves >= _MAX_SOLVES:
            return point, multiplier
        # Entries that are freed together may push each other back to their bounds; the worst pair alone cannot.
        is_free = _worst_pair(problem, point, gradient) if is_stuck else _set_free(problem, point, excess, tolerance)
        while is_free.any() and n_solves < _MAX_SOLVES:
            n_solves += 1
            point, gradient, is_blocked = _move(problem, point, gradient, np.flatnonzero(is_free), tolerance)
            if not is_blocked.any():
                break
            is_free &= ~is_blocked
        after = problem.value(point, gradient)
        is_stuck, value = after >= value - _STUCK * abs(value), after


def _worst_pair(problem: BoxProblem, point: FloatArray, gradient: FloatArray) -> BoolArray:
    """Return the entry with the strongest pull to shrink and the one with the strongest pull to grow."""
    is_free = np.zeros(len(point), dtype=bool)
    is_free[np.argmax(np.where(point > 0.0, gradient, -np.inf))] = True
    is_free[np.argmin(np.where(point < problem.upper, gradient, np.inf))] = True
    return is_free


def _solve_in_range(
    problem: BoxProblem, start: FloatArray, tolerance: float, masses: tuple[float, float]
) -> tuple[FloatArray, float]:
    """Solve with any mass; if the result is outside the range, solve with the mass of the bound it violates."""
    low, high = masses
    if low < high:
        start, _ = solve_box_qp(replace(problem, mass=None), start, tolerance)
        if low <= start.sum() <= high:
            return start, 0.0
    return solve_box_qp(replace(problem, mass=float(np.clip(start.sum(), low, high))), start, tolerance)


def project_onto_mass(point: FloatArray, upper: float, mass: float) -> FloatArray:
    r"""Return the nearest point of the box with the given mass: a common shift, then clipping to the box.

    The mass :math:`\sum_i \min(\max(v_i + s, 0), B)` is piecewise linear in the shift s, with a corner wherever an
    entry enters or leaves the box; the shift lies between two corners.
    """
    # Repeat from there: for entries far outside the box, the first shift has only a few correct digits.
    return _shift_to_mass(_shift_to_mass(point, upper, mass), upper, mass)


def _shift_to_mass(point: FloatArray, upper: float, mass: float) -> FloatArray:
    corners = np.concatenate((-point, upper - point))
    order = np.argsort(corners, kind="stable")
    corners = corners[order]
    slopes = np.cumsum(np.where(order < len(point), 1.0, -1.0))
    masses = np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(corners))))
    after = int(np.clip(np.searchsorted(masses, mass), 1, len(corners) - 1))
    shift = corners[after - 1] + (mass - masses[after - 1]) / max(slopes[after - 1], 1.0)
    return np.clip(point + shift, 0.0, upper)


def _set_free(problem: BoxProblem, point: FloatArray, excess: FloatArray, tolerance: float) -> BoolArray:
    """Return the entries to free: those between the bounds, and those at a bound with the largest violations.

    Without a ridge, fewer entries are freed at a time.
    """
    is_free = (point > 0.0) & (point < problem.upper)
    candidates = np.flatnonzero(~is_free & (excess > 0.5 * tolerance))
    n_free = int(np.count_nonzero(is_free))
    n_wanted = max(_FEWEST_FREED, n_free if problem.ridge > 0.0 else n_free // 2)
    if len(candidates) > n_wanted:
        candidates = candidates[np.argsort(-excess[candidates], kind="stable")[:n_wanted]]
    is_free[candidates] = True
    return is_free


def _move(
    problem: BoxProblem, point: FloatArray, gradient: FloatArray, free: IntArray, tolerance: float
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Move towards the minimum over the free entries; also return which entries a bound has stopped."""
    direction = _direction(problem, gradient, free, tolerance)
    goal = point[free] + direction
    is_beyond = (goal < 0.0) | (goal > problem.upper)
    is_blocked = np.zeros(len(point), dtype=bool)
    if not is_beyond.any():
        moved = point.copy()
        moved[free] = goal
        return moved, problem.gradient(moved), is_blocked
    projected = point.copy()
    if problem.mass is None:
        projected[free] = np.clip(goal, 0.0, problem.upper)
    else:
        projected[free] = project_onto_mass(goal, problem.upper, point[free].sum())
    projected_gradient = problem.gradient(projected)
    if problem.value(projected, projected_gradient) < problem.value(point, gradient):
        is_blocked[free] = (projected[free] <= 0.0) | (projected[free] >= problem.upper)
        return projected, projected_gradient, is_blocked
    # The projected step increased the objective: go straight, up to the first bound.
    bounds = np.where(goal < 0.0, 0.0, problem.upper)
    shares = np.full(len(free), np.inf)
    shares[is_beyond] = (bounds - point[free])[is_beyond] / direction[is_beyond]
    share = shares.min()
    moved = point.copy()
    moved[free] = np.clip(point[free] + share * direction, 0.0, problem.upper)
    stops = shares <= share
    moved[free[stops]] = bounds[stops]
    is_blocked[free[stops]] = True
    return moved, problem.gradient(moved), is_blocked


def _direction(problem: BoxProblem, gradient: FloatArray, free: IntArray, tolerance: float) -> FloatArray:
    """Step to the minimum over the free entries with unchanged mass."""
    if len(free) > _MAX_FACTORED:
        return _direction_by_cg(problem, gradient, free, tolerance)
    system = problem.matrix.block(free)
    diagonal = np.einsum("ii->i", system)  # a view, into an array of our own
    right_sides = np.ones((1 if problem.mass is None else 2, len(free)))
    np.negative(gradient[free], out=right_sides[0])
    scale = float(diagonal.max())
    diagonal += problem.ridge
    for jitter in _JITTERS:
        diagonal += jitter * scale
        # Call LAPACK directly: the usual checks cost more than a small system. The transpose has the order it expects.
        _, solution, info = dposv(system.T, right_sides.T)
        if info:
            continue
        if problem.mass is None:
            return np.asarray(solution[:, 0])
        unconstrained, ones = solution.T
        return np.asarray(unconstrained - ones * (unconstrained.sum() / ones.sum()))
    raise LinAlgError("The kernel matrix is not positive semi-definite.")


def _direction_by_cg(problem: BoxProblem, gradient: FloatArray, free: IntArray, tolerance: float) -> FloatArray:
    """Solve by conjugate gradients on the free entries; with a mass, among steps whose entries sum to 0."""
    has_mass = problem.mass is not None
    embedded = np.zeros(len(gradient))
    step = np.zeros(len(free))
    residual = (gradient[free].mean() if has_mass else 0.0) - gradient[free]
    search = residual.copy()
    square = residual @ residual
    goal = max(_CG_ACCURACY**2 * square, (0.01 * tolerance) ** 2)
    for _ in range(_MAX_CG_STEPS):
        if square <= goal:
            break
        embedded[free] = search
        product = problem.matrix.times(embedded)[free] + problem.ridge * search
        if has_mass:
            product -= product.mean()
        length = square / (search @ product)
        step += length * search
        residual = residual - length * product
        next_square = residual @ residual
        search = residual + (next_square / square) * search
        square = next_square
    return step
