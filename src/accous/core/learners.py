"""Base learners: Online Newton Steps and their projection, for few columns and for many."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg.blas import dtrmv, dtrsv
from scipy.linalg.lapack import dtpqrt

from accous.arrays import FloatArray

# --- Projection onto a Euclidean ball in the norm of a matrix (Algorithm 1, line 5)


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
    >>> from accous.core.learners import project_onto_ball
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


# --- Online Newton Steps for a whole stack of learners at once (Algorithm 1)


Arrays = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class NewtonStack:
    """The state of the learners; each step replaces the arrays and never modifies them.

    Attributes
    ----------
    coefs : array of shape (n_learners, d)
        theta.
    matrices : array of shape (n_learners, d, d)
        A.
    inverse_roots : array of shape (n_learners, d, d)
        W with W W^T = A^{-1}.
    """

    coefs: FloatArray
    matrices: FloatArray
    inverse_roots: FloatArray

    def __len__(self) -> int:
        """Return the number of learners."""
        return self.coefs.shape[0]

    @property
    def arrays(self) -> Arrays:
        """The three arrays, in the order of the constructor."""
        return self.coefs, self.matrices, self.inverse_roots

    @classmethod
    def start(cls, n_learners: int, coef: FloatArray, ridge: float) -> Self:
        """Return ``n_learners`` new learners at theta = ``coef`` with A = ``ridge`` I."""
        n_columns = coef.shape[0]
        coefs = np.empty((n_learners, n_columns))
        coefs[:] = coef
        matrices, inverse_roots = np.zeros((2, n_learners, n_columns, n_columns))
        diagonal = np.arange(n_columns)
        matrices[:, diagonal, diagonal] = ridge
        inverse_roots[:, diagonal, diagonal] = 1.0 / math.sqrt(ridge)
        return cls(coefs, matrices, inverse_roots)

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""
        return type(self)(self.coefs[first:], self.matrices[first:], self.inverse_roots[first:])

    def after(self, younger: Self) -> Self:
        """Return a stack of ``younger`` followed by these learners."""
        return type(self)(
            np.concatenate((younger.coefs, self.coefs)),
            np.concatenate((younger.matrices, self.matrices)),
            np.concatenate((younger.inverse_roots, self.inverse_roots)),
        )

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> Self:
        r"""Make one Newton step for every learner.

        The inverse is kept as a square root W and updated in Potter's form, with :math:`v = W^\top g`:

        .. math:: W_t = W_{t-1} - \frac{W_{t-1} v \, v^\top}{1 + v^\top v + \sqrt{1 + v^\top v}} .

        This costs as much as a Sherman-Morrison update. But :math:`W W^\top` is positive definite by construction, and
        it stays accurate when :math:`\|g\|^2 / \lambda` is large, where Sherman-Morrison loses all digits.

        Parameters
        ----------
        gradients : array of shape (n_learners, d)
            The gradient of each learner at its own theta.
        step_size : float
            gamma.
        radius : float
            S.
        """
        v = (gradients[:, None, :] @ self.inverse_roots)[:, 0]
        root_times_v = (self.inverse_roots @ v[..., None])[..., 0]
        growth = 1.0 + np.einsum("nd,nd->n", v, v)
        shrinkage = 1.0 / (growth + np.sqrt(growth))
        matrices = self.matrices + gradients[:, :, None] * gradients[:, None, :]
        inverse_roots = self.inverse_roots - (shrinkage[:, None] * root_times_v)[:, :, None] * v[:, None, :]
        # A_t^{-1} g = W_{t-1} v / (1 + v^T v), so the direction needs no second product.
        targets = self.coefs - step_size * root_times_v / growth[:, None]
        coefs, _ = project_onto_ball(targets, matrices, radius)
        return type(self)(coefs, matrices, inverse_roots)


# --- The matrix of one Online Newton Step learner with very many features, kept as a ridge and a few rows


_LARGE_SKETCHED_GRADIENT = 1e4


@dataclass(frozen=True, slots=True)
class Sketch:
    """A as a multiple of the identity plus a low-rank part; each step replaces it and never modifies it.

    Attributes
    ----------
    rank : int
        k.
    ridge : float
        lambda.
    rows : array of shape (m, d)
        B, at most 2k rows.
    factor : array of shape (m, m)
        Lower triangular L with L L^T = lambda I + B B^T.
    """

    rank: int
    ridge: float
    rows: FloatArray
    factor: FloatArray

    def plus(self, gradient: FloatArray) -> tuple[Sketch, FloatArray]:
        """Return the sketch of A + g g^T, and the Newton direction (A + g g^T)^{-1} g with the A of that sketch."""
        shrunk = self if len(self.rows) < 2 * self.rank else self._shrink()
        size = float(gradient @ gradient)
        if not size <= _LARGE_SKETCHED_GRADIENT * shrunk.ridge:
            return shrunk._plus_large(gradient)
        return shrunk._plus_small(gradient, size)

    def project(self, point: FloatArray, radius: float) -> FloatArray:
        r"""Project a point onto the ball in the norm of A; a point inside is returned unchanged.

        Along the right singular vectors of B, A equals :math:`\lambda + \sigma_i^2`, and orthogonal to them it equals
        lambda. The orthogonal part of the point keeps its direction, so the equation for mu has a single term for it.
        """
        with np.errstate(over="ignore"):
            is_inside = point @ point <= radius * radius
        if is_inside:
            return point
        point = shrink_far_points(point[None], radius)[0][0]
        _, singular_values, directions = np.linalg.svd(self.rows, full_matrices=False)
        along = directions @ point
        across = point - along @ directions
        coordinates = np.append(along, np.linalg.norm(across))
        eigenvalues = self.ridge + np.append(np.square(singular_values), 0.0)
        mu = find_multipliers((eigenvalues * coordinates)[None], eigenvalues[None], radius)[0]
        shares = eigenvalues / (eigenvalues + mu)
        theta = (shares[:-1] * along) @ directions + shares[-1] * across
        return np.asarray(theta * (radius / np.linalg.norm(theta)))

    def dense(self) -> FloatArray:
        """A itself."""
        return np.asarray(self.ridge * np.eye(self.rows.shape[1]) + self.rows.T @ self.rows)

    def _plus_small(self, gradient: FloatArray, size: float) -> tuple[Sketch, FloatArray]:
        """Append the gradient's row to B and to L."""
        n_rows = len(self.rows)
        factor = np.zeros((n_rows + 1, n_rows + 1))
        overlaps = self.rows @ gradient
        if n_rows:
            overlaps = dtrsv(self.factor.T, overlaps, trans=1)
        # The pivot's square is at least lambda in exact arithmetic.
        pivot = np.sqrt(max(self.ridge + size - float(overlaps @ overlaps), self.ridge))
        factor[:-1, :-1], factor[-1, :-1], factor[-1, -1] = self.factor, overlaps, pivot
        after = Sketch(self.rank, self.ridge, np.concatenate((self.rows, gradient[None])), factor)
        # Forward substitution of the last unit vector leaves it a multiple of itself.
        last = np.zeros(n_rows + 1)
        last[-1] = 1.0 / pivot
        return after, np.asarray(dtrsv(factor.T, last) @ after.rows)

    def _plus_large(self, gradient: FloatArray) -> tuple[Sketch, FloatArray]:
        """Do the same by singular values: next to a large row, L would lose the other rows."""
        rows = np.concatenate((self.rows, gradient[None]))
        left, singular_values, directions = np.linalg.svd(rows, full_matrices=False)
        squares = self.ridge + np.square(singular_values)
        after = Sketch(self.rank, self.ridge, singular_values[:, None] * directions, np.diag(np.sqrt(squares)))
        return after, np.asarray((left[-1] * singular_values / squares) @ directions)

    def _shrink(self) -> Sketch:
        """Reduce 2k rows to k."""
        # Errors of the small eigenvalues are as large as the rounding error of the largest one.
        squares, vectors = np.linalg.eigh(self.rows @ self.rows.T)
        kept = squares[-self.rank :]
        delta = max(float(squares[-self.rank - 1]), 0.0)
        # A rank below k leaves rows of zeros, which are harmless.
        shares = np.sqrt(np.maximum(kept - delta, 0.0) / np.maximum(kept, np.finfo(np.float64).tiny))
        rows = (shares * vectors[:, -self.rank :]).T @ self.rows
        ridge = self.ridge + 0.5 * delta
        return Sketch(self.rank, ridge, rows, np.diag(np.sqrt(ridge + np.maximum(kept - delta, 0.0))))


def start_sketch(ridge: float, n_coefs: int, rank: int) -> Sketch:
    """A = lambda I."""
    return Sketch(rank, ridge, np.empty((0, n_coefs)), np.empty((0, 0)))


# --- The matrix of one Online Newton Step learner with many features, kept as a root and the gradients since
#     then


_MAX_PENDING = 64
_LARGE_GRADIENT = 1e6
_QR_BLOCK = 32


@dataclass(frozen=True, slots=True)
class MetricMatrix:
    """A in square-root form; each step replaces it and never modifies it.

    Attributes
    ----------
    ridge : float
        lambda.
    root : array of shape (d, d) or None
        R, upper triangular, column-major in memory; None means sqrt(lambda) I.
    pending : array of shape (k, d)
        H.
    factor : array of shape (k, k)
        Lower triangular L with L L^T = I + H H^T.
    """

    ridge: float
    root: FloatArray | None
    pending: FloatArray
    factor: FloatArray

    def plus(self, gradient: FloatArray) -> tuple[MetricMatrix, FloatArray]:
        """Return the metric of A + g g^T, and the Newton direction (A + g g^T)^{-1} g."""
        whitened = self._whiten(gradient)
        size = float(whitened @ whitened)
        if not size <= _LARGE_GRADIENT:
            # Next to a row this large, its component along the other rows would be lost: QR keeps it.
            after = self._absorb(gradient[None])
            return after, after.solve(gradient)
        overlaps = _solve_lower(self.factor, self.pending @ whitened)
        # At least 1 in exact arithmetic.
        pivot = max(1.0 + size - float(overlaps @ overlaps), 1.0)
        step = (whitened - _solve_lower_transposed(self.factor, overlaps) @ self.pending) / pivot
        n_pending = len(self.pending)
        factor = np.zeros((n_pending + 1, n_pending + 1))
        factor[:-1, :-1], factor[-1, :-1], factor[-1, -1] = self.factor, overlaps, np.sqrt(pivot)
        after = MetricMatrix(self.ridge, self.root, np.concatenate((self.pending, whitened[None])), factor)
        is_full = n_pending + 1 >= (_max_young_rows(len(gradient)) if self.root is None else _MAX_PENDING)
        return (after._absorb() if is_full else after), self._unwhiten(step)

    def solve(self, vector: FloatArray) -> FloatArray:
        """A^{-1} x."""
        whitened = self._whiten(vector)
        overlaps = _solve_lower(self.factor, self.pending @ whitened)
        whitened -= _solve_lower_transposed(self.factor, overlaps) @ self.pending
        return self._unwhiten(whitened)

    def apply(self, vector: FloatArray) -> FloatArray:
        """A x."""
        rooted = self._times_root(vector)
        rooted += (self.pending @ rooted) @ self.pending
        if self.root is None:
            return np.asarray(np.sqrt(self.ridge) * rooted)
        return np.asarray(dtrmv(self.root, rooted, trans=1))

    def dense(self) -> FloatArray:
        """A itself."""
        d = self.pending.shape[1]
        root = np.sqrt(self.ridge) * np.eye(d) if self.root is None else self.root
        rows = self.pending @ root
        return np.asarray(root.T @ root + rows.T @ rows)

    def _whiten(self, vector: FloatArray) -> FloatArray:
        """R^{-T} x."""
        if self.root is None:
            return np.asarray(vector / np.sqrt(self.ridge))
        return np.asarray(dtrsv(self.root, vector, trans=1))

    def _unwhiten(self, vector: FloatArray) -> FloatArray:
        """R^{-1} x."""
        if self.root is None:
            return np.asarray(vector / np.sqrt(self.ridge))
        return np.asarray(dtrsv(self.root, vector))

    def _times_root(self, vector: FloatArray) -> FloatArray:
        """R x."""
        if self.root is None:
            return np.asarray(np.sqrt(self.ridge) * vector)
        return np.asarray(dtrmv(self.root, vector))

    def _absorb(self, *more: FloatArray) -> MetricMatrix:
        """Merge the pending rows, and further gradients, into the root."""
        d = self.pending.shape[1]
        root = np.sqrt(self.ridge) * np.eye(d, order="F") if self.root is None else self.root
        rows = np.concatenate((self.pending @ root, *more))
        root, _, _, info = dtpqrt(0, min(_QR_BLOCK, d), root, np.asfortranarray(rows))
        assert info == 0
        return MetricMatrix(self.ridge, root, np.empty((0, d)), np.empty((0, 0)))


def start_metric(ridge: float, n_coefs: int) -> MetricMatrix:
    """A = lambda I."""
    return MetricMatrix(ridge, None, np.empty((0, n_coefs)), np.empty((0, 0)))


def _max_young_rows(n_coefs: int) -> int:
    """Number of rows up to which products with the rows cost less than products with a triangular root."""
    return max(_MAX_PENDING, n_coefs // 2)


def _solve_lower(factor: FloatArray, right_side: FloatArray) -> FloatArray:
    """L^{-1} b."""
    # The factor is row-major in memory, so its transpose is what BLAS expects.
    return np.asarray(dtrsv(factor.T, right_side, trans=1)) if len(right_side) else right_side


def _solve_lower_transposed(factor: FloatArray, right_side: FloatArray) -> FloatArray:
    """L^{-T} b."""
    return np.asarray(dtrsv(factor.T, right_side)) if len(right_side) else right_side


# --- Projection onto a ball in the norm of a large matrix, by Lanczos' method


_FAR_IN_RADII = 5.0
_TOO_FAR = 1e60
_CHECKS = (5, 8, 11, 15, 20, 26, 33, 41, 50, 64)
_TOLERANCE = 1e-13
_LARGEST_RESIDUAL = 1e-10


def project_by_lanczos(point: FloatArray, metric: MetricMatrix, radius: float) -> FloatArray:
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
    is_far = float(np.linalg.norm(point)) >= _FAR_IN_RADII * radius
    found = (_project_far if is_far else _project_near)(point, metric, radius)
    if found is None or not _is_solution(*found, point, metric, radius):
        return project_onto_ball(point[None], metric.dense()[None], radius)[0][0]
    theta, _ = found
    return np.asarray(theta * (radius / np.linalg.norm(theta)))


def _project_near(point: FloatArray, metric: MetricMatrix, radius: float) -> tuple[FloatArray, float] | None:
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


def _project_far(point: FloatArray, metric: MetricMatrix, radius: float) -> tuple[FloatArray, float] | None:
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


def _is_solution(theta: FloatArray, mu: float, point: FloatArray, metric: MetricMatrix, radius: float) -> bool:
    """Whether (I + mu A^{-1}) theta = nu holds; the other form hides errors if A is large."""
    residual = theta + mu * metric.solve(theta) - point
    return bool(np.linalg.norm(residual) <= _LARGEST_RESIDUAL * max(radius, float(np.linalg.norm(point))))


def _solve_small(numerators: FloatArray, eigenvalues: FloatArray, radius: float) -> tuple[FloatArray, float]:
    """Return theta and mu in the eigenbasis, theta = numerators / (eigenvalues + mu).

    This is Newton's method on 1/||theta(mu)|| - 1/S = 0 from 0, as in `project_onto_ball`. If even mu = 0 gives a point
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


# --- Online Newton Steps (Algorithm 1) for a stack of learners with many features


@dataclass(frozen=True, slots=True)
class WideStack:
    """The state of the learners; each step replaces it and never modifies it.

    Attributes
    ----------
    coefs : array of shape (n_learners, d)
        theta.
    metrics : tuple of n_learners Metric or Sketch
        A.
    """

    coefs: FloatArray
    metrics: tuple[MetricMatrix | Sketch, ...]

    def __len__(self) -> int:
        """Return the number of learners."""
        return len(self.metrics)

    @classmethod
    def start(cls, n_learners: int, coef: FloatArray, ridge: float) -> WideStack:
        """Return ``n_learners`` new learners at theta = ``coef`` with A = ``ridge`` I."""
        return cls(np.tile(coef, (n_learners, 1)), (start_metric(ridge, len(coef)),) * n_learners)

    @classmethod
    def start_sketched(cls, n_learners: int, coef: FloatArray, ridge: float, rank: int) -> WideStack:
        """Return the same learners with matrices that are the ridge plus a low-rank part."""
        return cls(np.tile(coef, (n_learners, 1)), (start_sketch(ridge, len(coef), rank),) * n_learners)

    def since(self, first: int) -> WideStack:
        """Return the learners from position ``first`` on."""
        return WideStack(self.coefs[first:], self.metrics[first:])

    def after(self, younger: WideStack) -> WideStack:
        """Return a stack of ``younger`` followed by these learners."""
        return WideStack(np.concatenate((younger.coefs, self.coefs)), (*younger.metrics, *self.metrics))

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> WideStack:
        """Make one Newton step for every learner; the arguments are those of ``NewtonStack.step``."""
        coefs, metrics = np.empty_like(self.coefs), []
        for i, (coef, metric, gradient) in enumerate(zip(self.coefs, self.metrics, gradients, strict=True)):
            after, direction = metric.plus(gradient)
            coefs[i] = _project(coef - step_size * direction, after, radius)
            metrics.append(after)
        return WideStack(coefs, tuple(metrics))


def _project(point: FloatArray, metric: MetricMatrix | Sketch, radius: float) -> FloatArray:
    return metric.project(point, radius) if isinstance(metric, Sketch) else project_by_lanczos(point, metric, radius)


# --- Online Newton Steps with only the diagonal of each learner's matrix, for a stack of learners at once


@dataclass(frozen=True, slots=True)
class DiagonalStack:
    """The state of the learners; each step replaces the arrays and never modifies them.

    Attributes
    ----------
    coefs : array of shape (n_learners, d)
        theta.
    diagonals : array of shape (n_learners, d)
        a.
    """

    coefs: FloatArray
    diagonals: FloatArray

    def __len__(self) -> int:
        """Return the number of learners."""
        return self.coefs.shape[0]

    @classmethod
    def start(cls, n_learners: int, coef: FloatArray, ridge: float) -> DiagonalStack:
        """Return ``n_learners`` new learners at theta = ``coef`` with a = ``ridge``."""
        return cls(np.tile(coef, (n_learners, 1)), np.full((n_learners, len(coef)), ridge))

    def since(self, first: int) -> DiagonalStack:
        """Return the learners from position ``first`` on."""
        return DiagonalStack(self.coefs[first:], self.diagonals[first:])

    def after(self, younger: DiagonalStack) -> DiagonalStack:
        """Return a stack of ``younger`` followed by these learners."""
        return DiagonalStack(
            np.concatenate((younger.coefs, self.coefs)), np.concatenate((younger.diagonals, self.diagonals))
        )

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> DiagonalStack:
        """Make one Newton step for every learner; the arguments are those of ``NewtonStack.step``."""
        diagonals = self.diagonals + np.square(gradients)
        targets = self.coefs - step_size * gradients / diagonals
        return DiagonalStack(project_by_diagonal(targets, diagonals, radius), diagonals)


def project_by_diagonal(points: FloatArray, diagonals: FloatArray, radius: float) -> FloatArray:
    r"""Project a stack of points onto the ball, each in the norm of its own diagonal matrix.

    .. math:: \theta_j = \frac{a_j}{a_j + \mu}\, \nu_j, \qquad \|\theta\| = S .

    Parameters
    ----------
    points : array of shape (n, d)
        nu; a point inside the ball is returned unchanged.
    diagonals : array of shape (n, d)
        a, positive.
    radius : float
        S.
    """
    with np.errstate(over="ignore"):
        is_outside = np.einsum("nd,nd->n", points, points) > radius * radius
    if not is_outside.any():
        return points
    outside_points, _ = shrink_far_points(points[is_outside], radius)
    outside_diagonals = diagonals[is_outside]
    mu = find_multipliers(outside_diagonals * outside_points, outside_diagonals, radius)
    theta = outside_diagonals / (outside_diagonals + mu[:, None]) * outside_points
    projected = points.copy()
    projected[is_outside] = theta * (radius / np.linalg.norm(theta, axis=1, keepdims=True))
    return projected
