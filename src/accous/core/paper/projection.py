r"""Projection onto a Euclidean ball in the norm of a matrix (Algorithm 1, line 5).

.. math:: \Pi^A_S[\nu] = \arg\min_{\|\theta\|_2 \le S} \; (\theta - \nu)^\top A \, (\theta - \nu)

For a point outside the ball, the solution lies on the surface and satisfies :math:`(A + \mu I)\theta = A\nu`, where
:math:`\mu > 0` is the unique value that gives :math:`\|\theta\| = S`.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray

__all__ = ["find_multipliers", "project_onto_ball", "shrink_far_points"]

_MAX_NEWTON_STEPS = 60
_POLISHING_STEPS = 2
_FAR = 1e60


def project_onto_ball(points: FloatArray, matrices: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """Project a stack of points, each in the norm of its own matrix.

    Parameters
    ----------
    points : array of shape (n, d)
        The points nu.
    matrices : array of shape (n, d, d)
        Symmetric positive definite matrices A.
    radius : float
        S.

    Returns
    -------
    projected : array of shape (n, d)
        A point inside the ball is returned unchanged.
    multipliers : array of shape (n,)
        The mu of each point; 0 for points inside the ball.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.paper.projection import project_onto_ball
    >>> theta, mu = project_onto_ball(np.array([[3.0, 4.0]]), np.eye(2)[None], radius=1.0)
    >>> theta.round(12), mu.round(12)
    (array([[0.6, 0.8]]), array([4.]))
    """
    multipliers = np.zeros(points.shape[0])
    with np.errstate(over="ignore"):
        is_outside = np.einsum("nd,nd->n", points, points) > radius * radius
    if not is_outside.any():
        return points, multipliers
    outside_points, outside_matrices = points[is_outside], matrices[is_outside]
    outside_points, shrinkage = shrink_far_points(outside_points, radius)
    eigenvalues, eigenvectors = np.linalg.eigh(outside_matrices)
    # Rounding makes the smallest eigenvalues of a nearly singular matrix zero or negative.
    eigenvalues = np.maximum(eigenvalues, np.finfo(np.float64).eps * eigenvalues[:, -1:])
    rotated = (outside_points[:, None, :] @ eigenvectors)[:, 0]
    mu = find_multipliers(eigenvalues * rotated, eigenvalues, radius)
    theta = _solve_shifted(eigenvalues, eigenvectors, mu, _apply(outside_matrices, outside_points))
    for _ in range(_POLISHING_STEPS):
        theta, mu = _polish(theta, mu, outside_points, outside_matrices, eigenvalues, eigenvectors, radius)
    projected = points.copy()
    projected[is_outside] = _back_to_surface(theta, radius)
    multipliers[is_outside] = np.maximum(mu, 0.0) / shrinkage
    return projected, multipliers


def shrink_far_points(points: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """Move very distant points closer, and return the factor for each point; no factor is 0.

    For distant points the solution depends only on the direction, and mu grows with the distance. Closer points avoid
    overflow.
    """
    shrinkage = np.minimum(1.0, _FAR * radius / np.abs(points).max(axis=1))
    return points * shrinkage[:, None], shrinkage


def _back_to_surface(theta: FloatArray, radius: float) -> FloatArray:
    """Rescale points that a nearly singular matrix has moved off the surface; theta must lie in the ball for any A."""
    norms = np.sqrt(np.einsum("nd,nd->n", theta, theta))
    return np.where(np.abs(norms - radius) > 1e-12 * radius, radius / norms, 1.0)[:, None] * theta


def _apply(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _solve_shifted(
    eigenvalues: FloatArray, eigenvectors: FloatArray, mu: FloatArray, right_side: FloatArray
) -> FloatArray:
    """Solve (A + mu I) x = right_side in the eigenbasis of A."""
    rotated = (right_side[:, None, :] @ eigenvectors)[:, 0]
    return _apply(eigenvectors, rotated / (eigenvalues + mu[:, None]))


def find_multipliers(numerators: FloatArray, eigenvalues: FloatArray, radius: float) -> FloatArray:
    r"""Return mu of each point, where :math:`\theta_j(\mu) = n_j / (a_j + \mu)` in the eigenbasis of its matrix.

    This is Newton's method on 1/||theta(mu)|| - 1/S = 0, for all points at once. The function is increasing and concave
    in mu, so iterates that start at 0 increase monotonically to the root. No bracket is needed, and the first step that
    does not increase has reached the rounding limit.

    Parameters
    ----------
    numerators : array of shape (n, d)
        n, the eigenvalues times the coordinates of the points; all points lie outside the ball.
    eigenvalues : array of shape (n, d)
        a.
    radius : float
        S.
    """
    mu = np.zeros(numerators.shape[0])
    for _ in range(_MAX_NEWTON_STEPS):
        shifted = eigenvalues + mu[:, None]
        theta = numerators / shifted
        squared_norm = np.einsum("nd,nd->n", theta, theta)
        slope = np.einsum("nd,nd->n", theta, theta / shifted)
        step = (np.sqrt(squared_norm) / radius - 1.0) * squared_norm / slope
        mu = mu + np.maximum(step, 0.0)
        if np.all(step <= 1e-14 * mu):
            break
    return mu


def _polish(
    theta: FloatArray,
    mu: FloatArray,
    points: FloatArray,
    matrices: FloatArray,
    eigenvalues: FloatArray,
    eigenvectors: FloatArray,
    radius: float,
) -> tuple[FloatArray, FloatArray]:
    """Make one Newton step on the two optimality conditions, with residuals computed from A itself.

    The eigendecomposition is exact only up to rounding times ||A||. This step removes its errors, as in iterative
    refinement.
    """
    residual = _apply(matrices, points - theta) - mu[:, None] * theta
    shortfall = 0.5 * (radius * radius - np.einsum("nd,nd->n", theta, theta))
    correction = _solve_shifted(eigenvalues, eigenvectors, mu, residual)
    sensitivity = _solve_shifted(eigenvalues, eigenvectors, mu, theta)
    mu_step = (np.einsum("nd,nd->n", theta, correction) - shortfall) / np.einsum("nd,nd->n", theta, sensitivity)
    polished = theta + correction - mu_step[:, None] * sensitivity
    # If A is singular up to rounding, the step may lead away. Accept it only if theta gets closer to the surface.
    shortfall_after = 0.5 * (radius * radius - np.einsum("nd,nd->n", polished, polished))
    is_better = np.abs(shortfall_after) <= np.maximum(np.abs(shortfall), 1e-12 * radius * radius)
    return np.where(is_better[:, None], polished, theta), np.where(is_better, mu + mu_step, mu)
