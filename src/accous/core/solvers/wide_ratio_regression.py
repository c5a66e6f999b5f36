r"""The regression of ``ratio_regression.py`` for many columns: the same Newton steps, without a Hessian.

In the principal axes of the reference, with mean squares :math:`\Lambda`, the Hessian of a round is

.. math::
    H = \sum_{i \in S_0} s_i \phi_i \phi_i^\top + \sum_{j \in S_t} s_j \phi_j \phi_j^\top + \lambda
    \;\approx\; \Big( \sum_{i \in S_0} s_i \Big) \Lambda + \lambda + \sum_{j \in S_t} s_j \phi_j \phi_j^\top = M,

and M, a diagonal plus a few rows, is easy to invert. Conjugate gradients preconditioned by M solve for Newton's step in
a few products with the reference. They start near the optimum over the span of the batch's rows, which is a problem
with few columns. Nothing is kept from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from accous.arrays import FloatArray
from accous.core.solvers.ratio_regression import DECREMENT, MAX_HALVINGS, fit_ratio_regression, minimise

__all__ = ["WideReference", "fit_wide_ratio_regression", "make_wide_reference"]

_MAX_SPAN = 8
_START_STEPS = 4
_MAX_BATCH_IN_PRECONDITIONER = 64
_MAX_PRODUCTS = 100
# Factors by which conjugate gradients reduce the decrement: at least, and at most in single precision.
_COARSEST, _FINEST = 1e-2, 1e-10
# Far below its curvature, because it changes the solution if the reference's mean is far from zero.
_INTERCEPT_RIDGE = 1e-15


@dataclass(frozen=True, slots=True)
class WideReference:
    """The reference as every round needs it.

    Attributes
    ----------
    rows : array of shape (n_reference, d + 1)
        Features, centred and in their principal axes, with a constant as the last column.
    mean_squares : array of shape (d + 1,)
        Lambda.
    scales : array of shape (d + 1,)
        Its root; 1 for columns of zeros.
    single_rows : array of shape (n_reference, d + 1)
        Rows divided by scales, in single precision: products that need not be exact take a third of the time.
    centre : array of shape (d,)
    axes : array of shape (d, d)
    """

    rows: FloatArray
    mean_squares: FloatArray
    scales: FloatArray
    single_rows: NDArray[np.float32]
    centre: FloatArray
    axes: FloatArray

    def to_axes(self, batch: FloatArray) -> FloatArray:
        """Return features of other rows in the same axes."""
        return np.concatenate(((batch[:, :-1] - self.centre) @ self.axes, batch[:, -1:]), axis=1)

    def from_axes(self, theta: FloatArray) -> FloatArray:
        """Return theta for the original features; the intercept is not penalised, so centring changes nothing."""
        slopes = self.axes @ theta[:-1]
        return np.append(slopes, theta[-1] - self.centre @ slopes)


def make_wide_reference(reference: FloatArray) -> WideReference:
    """Prepare features with a constant as the last column."""
    centre = reference[:, :-1].mean(axis=0)
    centred = reference[:, :-1] - centre
    axes = np.linalg.eigh(centred.T @ centred).eigenvectors
    rows = np.concatenate((centred @ axes, reference[:, -1:]), axis=1)
    mean_squares = np.square(rows).mean(axis=0)
    scales = np.where(mean_squares > 0.0, np.sqrt(mean_squares), 1.0)
    return WideReference(rows, mean_squares, scales, (rows / scales).astype(np.float32), centre, axes)


def fit_wide_ratio_regression(reference: WideReference, batch: FloatArray, ridge: float, max_steps: int) -> FloatArray:
    """Minimise by Newton's method with step halving, each step by conjugate gradients.

    Parameters
    ----------
    reference : WideReference
    batch : array of shape (n_batch, d + 1)
        Features with a constant as last column.
    ridge : float
        lambda, positive.
    max_steps : int
        The method stops earlier if a step lowers the objective only by rounding.

    Returns
    -------
    array of shape (d + 1,)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.solvers.wide_ratio_regression import fit_wide_ratio_regression, make_wide_reference
    >>> rows = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> fit_wide_ratio_regression(make_wide_reference(rows), rows[1:], ridge=0.1, max_steps=50).round(3)
    array([-0.941,  0.52 ])
    """
    penalty = np.append(np.full(batch.shape[1] - 1, ridge), _INTERCEPT_RIDGE)
    problem = _Problem(reference, reference.to_axes(batch), penalty)
    point = problem.at(_start(reference, problem.batch, ridge))
    for step in range(max_steps):
        gradient, model = problem.model(point)
        direction = model.solve(gradient)
        if direction is None:
            # If a few rows have all the curvature, M is far from the Hessian: use Newton steps with the full Hessian.
            theta = minimise(reference.rows, problem.batch, penalty, point.theta, max_steps - step)
            return reference.from_axes(theta)
        decrement = float(gradient @ direction)
        if decrement <= DECREMENT:
            # Rounding hides whether this step lowers the objective.
            return reference.from_axes(point.theta - direction)
        lower = problem.search(point, direction, decrement)
        if lower is None:
            break
        point = lower
    return reference.from_axes(point.theta)


def _start(reference: WideReference, batch: FloatArray, ridge: float) -> FloatArray:
    """Return a point near the optimum among the thetas that M gives for a few means of batch rows."""
    means = [part.mean(axis=0) for part in np.array_split(batch[:, :-1], min(len(batch), _MAX_SPAN))]
    # At theta = 0 the curvatures of the reference add up to 1/8.
    directions = np.stack(means, axis=1) / (0.125 * reference.mean_squares[:-1] + ridge)[:, None]
    basis = np.linalg.qr(directions)[0]
    to_span = np.zeros((batch.shape[1], basis.shape[1] + 1))
    to_span[:-1, :-1], to_span[-1, -1] = basis, 1.0
    scaled = reference.scales[:, None] * to_span
    sizes = np.abs(scaled).max(axis=0)
    in_span = (reference.single_rows @ (scaled / sizes).astype(np.float32)) * sizes
    start = np.zeros(to_span.shape[1])
    return to_span @ fit_ratio_regression(in_span, batch @ to_span, ridge, start, _START_STEPS)


@dataclass(frozen=True, slots=True)
class _Point:
    """Theta with the scores of reference and batch, and the objective's value."""

    theta: FloatArray
    reference_scores: FloatArray
    batch_scores: FloatArray
    value: float


@dataclass(frozen=True, slots=True)
class _Problem:
    """The objective of one round, in the principal axes."""

    reference: WideReference
    batch: FloatArray
    penalty: FloatArray

    def at(self, theta: FloatArray) -> _Point:
        return self._point(theta, self.reference.rows @ theta, self.batch @ theta)

    def model(self, point: _Point) -> tuple[FloatArray, _Model]:
        """Return the gradient and the Hessian."""
        gradient, curvatures = self.penalty * point.theta, []
        sides = ((self.reference.rows, point.reference_scores, -1.0), (self.batch, point.batch_scores, 1.0))
        for rows, scores, sign in sides:
            probabilities = expit(sign * scores)
            share = 0.5 / len(rows)
            gradient = gradient + (sign * share) * (probabilities @ rows)
            curvatures.append(share * probabilities * (1.0 - probabilities))
        return gradient, _make_model(self, curvatures[0], curvatures[1])

    def search(self, point: _Point, direction: FloatArray, decrement: float) -> _Point | None:
        """Move against the direction until the objective falls enough; return None if it does not."""
        changes, size = (self.reference.rows @ direction, self.batch @ direction), 1.0
        for _ in range(MAX_HALVINGS):
            trial = self._point(
                point.theta - size * direction,
                point.reference_scores - size * changes[0],
                point.batch_scores - size * changes[1],
            )
            if trial.value <= point.value - 1e-4 * size * decrement:
                return trial
            size *= 0.5
        return None

    def _point(self, theta: FloatArray, reference_scores: FloatArray, batch_scores: FloatArray) -> _Point:
        losses = np.logaddexp(0.0, -reference_scores).mean() + np.logaddexp(0.0, batch_scores).mean()
        value = float(0.5 * losses + 0.5 * (self.penalty * theta) @ theta)
        return _Point(theta, reference_scores, batch_scores, value)


@dataclass(frozen=True, slots=True)
class _Model:
    """The Hessian H as products with it, and M.

    Attributes
    ----------
    reference : WideReference
    curvatures : array of shape (n_reference,)
        Curvatures of the reference rows.
    batch : array of shape (n_batch, d + 1)
        Rows times the roots of their curvatures.
    penalty : array of shape (d + 1,)
    inverses : array of shape (d + 1,)
        Inverses of the diagonal part of M.
    extra : array of shape (n_extra, d + 1)
        The rows in M, times ``inverses``.
    factor : tuple
        Cholesky factor of the small matrix in the inverse of M.
    """

    reference: WideReference
    curvatures: NDArray[np.float32]
    batch: FloatArray
    penalty: FloatArray
    inverses: FloatArray
    extra: FloatArray
    factor: tuple[FloatArray, bool]

    def solve(self, gradient: FloatArray) -> FloatArray | None:
        """Solve H x = gradient by conjugate gradients; return None if this takes too many products."""
        solution, residual = np.zeros(len(gradient)), gradient
        direction = preconditioned = self._precondition(residual)
        size = float(residual @ preconditioned)
        goal = max(size * min(_COARSEST, max(size, _FINEST)), 0.01 * DECREMENT)
        for _ in range(_MAX_PRODUCTS):
            if size <= goal:
                return solution
            product = self._multiply(direction)
            length = size / float(direction @ product)
            solution = solution + length * direction
            residual = residual - length * product
            preconditioned = self._precondition(residual)
            last, size = size, float(residual @ preconditioned)
            direction = preconditioned + (size / last) * direction
        return None

    def _multiply(self, vector: FloatArray) -> FloatArray:
        # Its error slows convergence a little; the gradient, in double precision, determines where it ends.
        scales, rows = self.reference.scales, self.reference.single_rows
        product = scales * ((self.curvatures * (rows @ (scales * vector).astype(np.float32))) @ rows)
        return np.asarray(product + (self.batch @ vector) @ self.batch + self.penalty * vector)

    def _precondition(self, vector: FloatArray) -> FloatArray:
        small = cho_solve(self.factor, self.extra @ vector, check_finite=False)
        return np.asarray(self.inverses * vector - small @ self.extra)


def _make_model(problem: _Problem, reference_curvatures: FloatArray, batch_curvatures: FloatArray) -> _Model:
    batch = problem.batch * np.sqrt(batch_curvatures)[:, None]
    total, in_preconditioner = float(reference_curvatures.sum()), batch
    if len(batch) > _MAX_BATCH_IN_PRECONDITIONER:
        # A batch this large is spread like the reference.
        total, in_preconditioner = total + float(batch_curvatures.sum()), batch[:0]
    inverses = 1.0 / (total * problem.reference.mean_squares + problem.penalty)
    extra = in_preconditioner * inverses
    small = np.eye(len(extra)) + in_preconditioner @ extra.T
    return _Model(
        problem.reference,
        reference_curvatures.astype(np.float32),
        batch,
        problem.penalty,
        inverses,
        extra,
        cho_factor(small, check_finite=False),
    )
