r"""Projection onto a ball in the norm of a large matrix, by Lanczos' method.

This computes the same point as ``projection.py``, with products instead of an eigendecomposition. In the space spanned
by :math:`\nu, A^{-1} \nu, A^{-2} \nu, \ldots` the equation

.. math:: (I + \mu A^{-1})\, \theta = \nu, \qquad \|\theta\| = S

becomes small and tridiagonal for every mu at once. Just outside the ball, mu is small, the matrix is close to the
identity, and a few products are enough. Far outside the ball, the same holds for :math:`(A + \mu I)\theta = A \nu` and
products with A.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accous.arrays import FloatArray
from accous.core.paper.projection import project_onto_ball
from accous.core.wide.metric import Metric

__all__ = ["project_by_lanczos"]

_FAR = 5.0
_TOO_FAR = 1e60
_CHECKS = (5, 8, 11, 15, 20, 26, 33, 41, 50, 64)
_TOLERANCE = 1e-13
_LARGEST_RESIDUAL = 1e-10
_MAX_NEWTON_STEPS = 60


def project_by_lanczos(point: FloatArray, metric: Metric, radius: float) -> FloatArray:
    """Project one point; a point inside the ball is returned unchanged.

    Parameters
    ----------
    point : array of shape (d,)
        nu.
    metric : Metric
        A.
    radius : float
        S.
    """
    with np.errstate(over="ignore"):
        is_inside = point @ point <= radius * radius
    if is_inside:
        return point
    # For distant points the solution depends only on the direction; a closer point avoids overflow.
    point = point * min(1.0, _TOO_FAR * radius / float(np.abs(point).max()))
    is_far = float(np.linalg.norm(point)) >= _FAR * radius
    found = (_project_far if is_far else _project_near)(point, metric, radius)
    if found is None or not _is_solution(*found, point, metric, radius):
        return project_onto_ball(point[None], metric.dense()[None], radius)[0][0]
    theta, _ = found
    return np.asarray(theta * (radius / np.linalg.norm(theta)))


def _project_near(point: FloatArray, metric: Metric, radius: float) -> tuple[FloatArray, float] | None:
    space = _Krylov(metric.solve, point)
    for size in _CHECKS:
        space.grow(size)
        inverses, vectors = np.linalg.eigh(space.matrix())
        # Rounding may make the smallest eigenvalues vanish.
        eigenvalues = 1.0 / np.maximum(inverses, np.finfo(np.float64).eps * inverses[-1])
        small, mu = _solve_small(space.length * vectors[0] * eigenvalues, eigenvalues, radius)
        coordinates = vectors @ small
        if mu * space.rest * abs(coordinates[-1]) <= _TOLERANCE * radius:
            return space.combine(coordinates), mu
    return None


def _project_far(point: FloatArray, metric: Metric, radius: float) -> tuple[FloatArray, float] | None:
    space = _Krylov(metric.apply, metric.apply(point))
    for size in _CHECKS:
        space.grow(size)
        eigenvalues, vectors = np.linalg.eigh(space.matrix())
        small, mu = _solve_small(space.length * vectors[0], eigenvalues, radius)
        coordinates = vectors @ small
        # Multiplied by A^{-1}, which is at most 1 / lambda, this is the residual of the other form.
        if space.rest * abs(coordinates[-1]) <= _TOLERANCE * radius * metric.ridge:
            return space.combine(coordinates), mu
    return None


def _is_solution(theta: FloatArray, mu: float, point: FloatArray, metric: Metric, radius: float) -> bool:
    """Whether (I + mu A^{-1}) theta = nu holds; the other form hides errors if A is large."""
    residual = theta + mu * metric.solve(theta) - point
    return bool(np.linalg.norm(residual) <= _LARGEST_RESIDUAL * max(radius, float(np.linalg.norm(point))))


def _solve_small(numerators: FloatArray, eigenvalues: FloatArray, radius: float) -> tuple[FloatArray, float]:
    """Return theta and mu in the eigenbasis, theta = numerators / (eigenvalues + mu).

    This is Newton's method on 1/||theta(mu)|| - 1/S = 0 from 0, as in ``projection.py``. If even mu = 0 gives a point
    inside the ball, the space is still too small to decide, and mu is 0.
    """
    mu = 0.0
    for _ in range(_MAX_NEWTON_STEPS):
        shifted = eigenvalues + mu
        theta = numerators / shifted
        squares = theta * theta
        squared_norm = float(squares.sum())
        step = (np.sqrt(squared_norm) / radius - 1.0) * squared_norm / float((squares / shifted).sum())
        if step <= 1e-15 * mu:
            break
        mu += step
    return numerators / (eigenvalues + mu), float(mu)


class _Krylov:
    """An orthonormal basis of the vectors x, Ox, O^2 x, ... and the tridiagonal matrix of O in it."""

    def __init__(self, operator: Callable[[FloatArray], FloatArray], start: FloatArray) -> None:
        self.length = float(np.linalg.norm(start))
        self._operator = operator
        self._basis = np.empty((_CHECKS[-1] + 1, len(start)))
        self._basis[0] = start / self.length
        self._diagonal: list[float] = []
        self._beside: list[float] = []

    @property
    def rest(self) -> float:
        """How much of O times the last vector lies outside the space; 0 if the space is closed under O."""
        return self._beside[-1]

    def grow(self, size: int) -> None:
        """Extend the basis to this many vectors, or fewer if the space is closed before that."""
        while len(self._diagonal) < size and (not self._beside or self.rest > 0.0):
            n = len(self._diagonal) + 1
            basis = self._basis[:n]
            image = self._operator(basis[-1])
            self._diagonal.append(float(basis[-1] @ image))
            size_before = float(np.linalg.norm(image))
            for _ in range(2):
                # Orthogonalise against all vectors, twice: in floating point the last two vectors are not enough.
                image = image - (basis @ image) @ basis
            rest = float(np.linalg.norm(image))
            is_closed = rest <= 1e-15 * size_before
            self._beside.append(0.0 if is_closed else rest)
            if not is_closed:
                self._basis[n] = image / rest

    def matrix(self) -> FloatArray:
        """O in the basis."""
        beside = self._beside[:-1]
        return np.asarray(np.diag(self._diagonal) + np.diag(beside, 1) + np.diag(beside, -1))

    def combine(self, coordinates: FloatArray) -> FloatArray:
        """Return the vector with these coordinates."""
        return np.asarray(coordinates @ self._basis[: len(coordinates)])
