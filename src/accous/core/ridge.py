"""Weighted ridge regressions, by conjugate gradients, in closed form or in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from accous.arrays import FloatArray
from accous.core.ensemble import is_narrow
from accous.core.kernels_fits import fit_ridge
from accous.core.kernels_rows import to_blocks
from accous.core.regression import principal_axes

# --- Weighted ridge regression with many columns: conjugate gradients from the last solution, without a Gram
#     matrix


_MAX_RIDGE_STEPS = 30
# Of the square of the error, in the norm that the objective gives: nine digits of the solution.
_RIDGE_TOLERANCE = 1e-18


def descend_ridge(
    rows: FloatArray,
    targets: FloatArray,
    mean_squares: FloatArray,
    alpha: float,
    weights: FloatArray,
    start: FloatArray,
) -> FloatArray | None:
    r"""Minimise :math:`\sum_i s_i (y_i - b - w^\top x_i)^2 + \alpha \|w\|^2` over w, with the best b for each w.

    Parameters
    ----------
    rows : array of shape (n_rows, n_axes)
        Rows in their principal axes.
    targets : array of shape (n_rows,)
    mean_squares : array of shape (n_axes,)
        Mean square of every column, Lambda / n.
    alpha : float
    weights : array of shape (n_rows,)
        Non-negative s, not all zero.
    start : array of shape (n_axes,)
        Slopes to start from.

    Returns
    -------
    array of shape (n_axes,) or None
        The slopes; None if 30 steps do not reach nine digits, as after a jump of the weights, or if squares overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights.sum()
        shares = weights / total
        centred_targets = targets - shares @ targets
        preconditioner = 1.0 / (total * mean_squares + alpha)

        def back(values: FloatArray) -> FloatArray:
            """Product of the weighted rows with values of all rows, minus the weighted mean of the values."""
            return np.asarray((weights * (values - shares @ values)) @ rows)

        right_side = back(centred_targets)
        enough = _RIDGE_TOLERANCE * float(right_side @ (preconditioner * right_side))
        if not (0.0 < enough < np.inf and np.isfinite(mean_squares).all()):
            return None
        slopes = start
        gradient = back(centred_targets - rows @ slopes) - alpha * slopes
        direction = preconditioned = preconditioner * gradient
        left = float(gradient @ preconditioned)
        for _ in range(_MAX_RIDGE_STEPS):
            if left <= enough:
                return slopes if np.isfinite(slopes).all() else None
            product = back(rows @ direction) + alpha * direction
            length = left / float(direction @ product)
            slopes = slopes + length * direction
            gradient = gradient - length * product
            preconditioned = preconditioner * gradient
            before, left = left, float(gradient @ preconditioned)
            direction = preconditioned + (left / before) * direction
    return None


# --- Weighted ridge regression on few columns, in compiled loops


_N_REFINEMENTS = 2
_TILE = 4


class NarrowFit(NamedTuple):
    r"""The minimum, and the factor of the matrix that gave it.

    Attributes
    ----------
    coefs : array of shape (d + 1,)
        Of the centred rows and targets, with the intercept first.
    lower : array of shape (d + 1, d + 1)
        L in :math:`D^{-1} L L^\top D^{-1} = Z^\top S Z + \alpha P`, where the rows of Z are a 1 and the centred row,
        and P is the penalty; what is above the diagonal means nothing.
    scale : array of shape (d + 1,)
        The diagonal of D.
    """

    coefs: FloatArray
    lower: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class NarrowRidge:
    """The data that does not change between refits, in the form that the compiled loops read.

    Attributes
    ----------
    blocks : array of shape (n_blocks, m, n_together)
        The constant 1, the centred columns, the centred targets, and zeros up to a multiple of four columns.
    n_coefs : int
        Number of coefficients with the intercept, d + 1.
    """

    blocks: FloatArray
    n_coefs: int

    def fit(self, weights: FloatArray, alpha: float) -> NarrowFit | None:
        """Minimise the objective; None if the columns are nearly dependent, even with the penalty."""
        _, n_columns, n_together = self.blocks.shape
        factor, room = np.empty((n_columns, n_columns)), np.empty((3, n_together))
        coefs, scale, slopes = np.empty((3, self.n_coefs))
        weights = np.ascontiguousarray(weights)
        if not fit_ridge(self.blocks, weights, alpha, _N_REFINEMENTS, room, factor, scale, slopes, coefs):
            return None
        return NarrowFit(coefs, factor[: self.n_coefs, : self.n_coefs], scale)


def make_narrow_ridge(rows: FloatArray, targets: FloatArray) -> NarrowRidge:
    """Arrange centred rows and targets in blocks."""
    n_rows, n_features = rows.shape
    n_columns = -(-(n_features + 2) // _TILE) * _TILE
    together = np.zeros((n_rows, n_columns))
    together[:, 0] = 1.0
    together[:, 1 : n_features + 1] = rows
    together[:, n_features + 1] = targets
    return NarrowRidge(to_blocks(together), n_features + 1)


# --- Importance-weighted ridge regression on a fixed reference: one closed form per round, and fits without
#     each row


# Of matrices with the diagonal 1; the same limits as in the compiled loops.
_SMALLEST_PIVOT = 1e-10
_PIVOT_TO_REFINE = 1e-4

# A fit without a row has lost eight digits where one minus its leverage is smaller.
_SMALLEST_LEFT = 1e-8


@dataclass(frozen=True)
class RidgeProblem:
    """The data that does not change between refits.

    Attributes
    ----------
    rows : array of shape (n_rows, n_axes)
        The rows, centred. The intercept is not penalised, so centring only changes coordinates. If there are many
        columns, the rows are in their principal axes, at most ``n_rows`` of them. The penalty is the same there, and no
        optimum has a component outside them.
    centre : array of shape (d,)
    targets : array of shape (n_rows,)
        y minus ``target_centre``.
    target_centre : float
    alpha : float
        Strength of the penalty.
    axes : array of shape (d, n_axes) or None
        The principal axes, if the rows are in them.
    mean_squares : array of shape (n_axes,) or None
        Mean square of every column of the rows, if they are in their principal axes.
    narrow : NarrowRidge or None
        The data for the compiled loops, if there are few columns.
    """

    rows: FloatArray
    centre: FloatArray
    targets: FloatArray
    target_centre: float
    alpha: float
    axes: FloatArray | None = None
    mean_squares: FloatArray | None = None
    narrow: NarrowRidge | None = None


def make_ridge_problem(X: FloatArray, y: FloatArray, alpha: float) -> RidgeProblem:
    """Set up a problem; the weights are passed later.

    Parameters
    ----------
    X : array of shape (n_rows, d)
    y : array of shape (n_rows,)
        One target per row.
    alpha : float
        Strength of the penalty, positive.
    """
    centre, target_centre = X.mean(axis=0), float(y.mean())
    rows, targets = X - centre, y - target_centre
    if is_narrow(rows.shape[1] + 1):
        narrow = make_narrow_ridge(rows, targets)
        return RidgeProblem(rows, centre, targets, target_centre, alpha, narrow=narrow)
    largest = np.abs(rows).max() or 1.0
    # Divided by the largest entry, so that no square overflows. Rows that are not finite are for the solver to refuse.
    axes = principal_axes(rows / largest) if np.isfinite(largest) else np.eye(rows.shape[1])
    rows = rows @ axes
    with np.errstate(over="ignore", invalid="ignore"):
        mean_squares = np.square(rows).mean(axis=0)
    return RidgeProblem(rows, centre, targets, target_centre, alpha, axes, mean_squares)


def solve_ridge(problem: RidgeProblem, weights: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """Minimise the weighted objective.

    If columns are dependent up to rounding and the penalty is too small to matter, any of the nearly equal solutions is
    returned. If all weights are zero, the result is that of equal weights close to zero: no slope, and the mean of the
    targets.

    Parameters
    ----------
    problem : RidgeProblem
    weights : array of shape (n_rows,)
        Non-negative s.
    start : array of shape (d + 1,), optional
        Coefficients of a problem with similar weights. With many columns, the result is then reached from there, to
        nine digits. It is not used with few columns.

    Returns
    -------
    array of shape (d + 1,)
        w with b in the last entry.

    Raises
    ------
    LinAlgError
        If the rows, targets or weights are not finite, or their sums are not.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ridge import make_ridge_problem, solve_ridge
    >>> problem = make_ridge_problem(np.array([[-1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 2.0]), alpha=1.0)
    >>> solve_ridge(problem, np.ones(3)).round(3)
    array([0.667, 1.   ])
    """
    if start is not None and problem.mean_squares is not None and problem.axes is not None and weights.any():
        first = problem.axes.T @ start[:-1]
        slopes = descend_ridge(problem.rows, problem.targets, problem.mean_squares, problem.alpha, weights, first)
        if slopes is not None:
            intercept = float(weights @ (problem.targets - problem.rows @ slopes) / weights.sum())
            return _from_rows(problem, slopes, intercept)
    fit = _fit(problem, weights)
    return _from_rows(problem, fit.slopes, fit.intercept)


def solve_ridge_compiled(problem: RidgeProblem, weights: FloatArray) -> FloatArray | None:
    """Return what `solve_ridge` does, without BLAS; None if there are many columns, or they are nearly dependent."""
    fit = None if problem.narrow is None else problem.narrow.fit(weights, problem.alpha)
    return None if fit is None else _from_rows(problem, fit.coefs[1:], float(fit.coefs[0]))


def leave_one_out_predictions(problem: RidgeProblem, weights: FloatArray) -> FloatArray:
    r"""Return the prediction for each row by a fit without it, all of them from one factorisation.

    With :math:`z_i` a row with a 1 appended, P the penalty and :math:`r_i` the residual of the fit on all rows,

    .. math:: y_i - \hat y_i^{(-i)} = \frac{r_i}{1 - h_i}, \qquad
              h_i = s_i \, z_i^\top \big(Z^\top S Z + \alpha P\big)^{-1} z_i .

    This is exact. Only rows that nearly determine the fit alone, of which there are at most d + 1, are left out one by
    one. A row that has all the weight is predicted by the mean of the others.

    Returns
    -------
    array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ridge import leave_one_out_predictions, make_ridge_problem
    >>> problem = make_ridge_problem(np.array([[0.0], [0.0], [0.0]]), np.array([0.0, 3.0, 6.0]), alpha=1.0)
    >>> leave_one_out_predictions(problem, np.ones(3)).round(3)
    array([4.5, 3. , 1.5])
    """
    fit = _fit(problem, weights)
    left = 1.0 - weights * fit.leverages()
    residuals = problem.targets - problem.rows @ fit.slopes - fit.intercept
    is_clear = left >= _SMALLEST_LEFT
    predictions = problem.targets - residuals / np.where(is_clear, left, 1.0)
    for row in np.flatnonzero(~is_clear).tolist():
        predictions[row] = _predict_without(problem, weights, row)
    return predictions + problem.target_centre


def _predict_without(problem: RidgeProblem, weights: FloatArray, row: int) -> float:
    """Predict a centred target by a fit on the other rows."""
    rest = np.flatnonzero(np.arange(len(weights)) != row)
    if not len(rest):
        return 0.0
    inner = make_ridge_problem(problem.rows[rest], problem.targets[rest], problem.alpha)
    coefs = solve_ridge(inner, weights[rest])
    return float(problem.rows[row] @ coefs[:-1] + coefs[-1])


class _Fit(NamedTuple):
    """A minimum in the coordinates of the problem's rows and targets.

    ``leverages`` computes :math:`z_i^T (Z^T S Z + alpha P)^{-1} z_i` of every row.
    """

    slopes: FloatArray
    intercept: float
    leverages: Callable[[], FloatArray]


def _from_rows(problem: RidgeProblem, slopes: FloatArray, intercept: float) -> FloatArray:
    """Convert to coefficients for the original columns and targets, with the intercept last."""
    slopes = slopes if problem.axes is None else problem.axes @ slopes
    coefs = np.empty(len(slopes) + 1)
    coefs[:-1] = slopes
    coefs[-1] = intercept + problem.target_centre - slopes @ problem.centre
    return coefs


def _fit(problem: RidgeProblem, weights: FloatArray) -> _Fit:
    narrow = None if problem.narrow is None else problem.narrow.fit(weights, problem.alpha)
    if narrow is not None:
        return _Fit(narrow.coefs[1:], float(narrow.coefs[0]), lambda: _narrow_leverages(problem, narrow))
    if not weights.any():
        return _Fit(np.zeros(problem.rows.shape[1]), 0.0, lambda: np.zeros(len(weights)))
    centred = _centre(problem, weights)
    return _fit_by_cholesky(centred, problem.alpha) or _fit_by_singular_values(centred, problem.alpha)


class _Centred(NamedTuple):
    """Rows and targets minus their weighted means."""

    rows: FloatArray
    targets: FloatArray
    weights: FloatArray
    mean: FloatArray
    target_mean: float

    def fit(self, slopes: FloatArray, leverages_of_slopes: Callable[[], FloatArray]) -> _Fit:
        """Add the intercept, whose leverage is the inverse of the sum of the weights."""
        total = self.weights.sum()
        intercept = self.target_mean - float(slopes @ self.mean)
        return _Fit(slopes, intercept, lambda: 1.0 / total + leverages_of_slopes())


def _centre(problem: RidgeProblem, weights: FloatArray) -> _Centred:
    shares = weights / weights.max()
    shares /= shares.sum()
    mean, target_mean = shares @ problem.rows, float(shares @ problem.targets)
    return _Centred(problem.rows - mean, problem.targets - target_mean, weights, mean, target_mean)


def _fit_by_cholesky(centred: _Centred, alpha: float) -> _Fit | None:
    """Solve the normal equations; None if their matrix is nearly singular or not finite."""
    rows, roots = centred.rows, np.sqrt(centred.weights)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weighted, targets = rows * roots[:, None], centred.targets * roots
        matrix = weighted.T @ weighted  # numpy computes only half of a product of a matrix with itself
        matrix.flat[:: len(matrix) + 1] += alpha
        scale = 1.0 / np.sqrt(np.diag(matrix))
        matrix *= scale[:, None] * scale
    if not np.isfinite(matrix).all():
        return None
    try:
        lower = cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
    pivot = float(np.diag(lower).min(initial=1.0)) ** 2
    if pivot < _SMALLEST_PIVOT:
        return None
    slopes = _solve_factored(lower, scale, weighted.T @ targets)
    for _ in range(_N_REFINEMENTS if pivot < _PIVOT_TO_REFINE else 0):
        # From the rows, whose digits the matrix has lost.
        slopes = slopes + _solve_factored(lower, scale, weighted.T @ (targets - weighted @ slopes) - alpha * slopes)
    if not np.isfinite(slopes).all():
        return None
    return centred.fit(slopes, lambda: _square_sums(solve_triangular(lower, (rows * scale).T, lower=True)))


def _solve_factored(lower: FloatArray, scale: FloatArray, right_side: FloatArray) -> FloatArray:
    halfway = solve_triangular(lower, scale * right_side, lower=True, check_finite=False)
    return np.asarray(scale * solve_triangular(lower, halfway, lower=True, trans="T", check_finite=False))


def _fit_by_singular_values(centred: _Centred, alpha: float) -> _Fit:
    """Solve the least-squares problem without squaring its matrix; directions lost to rounding get no coefficient."""
    rows, targets, weights = centred.rows, centred.targets, centred.weights
    roots, n_columns = np.sqrt(weights)[:, None], rows.shape[1]
    matrix = np.concatenate((roots * rows, np.sqrt(alpha) * np.eye(n_columns)))
    largest = np.abs(matrix).max(axis=0)
    if not (np.isfinite(largest).all() and np.isfinite(targets).all()):
        raise LinAlgError("The rows, targets and weights of a ridge regression must be finite, and their sums too.")
    norms = largest * np.linalg.norm(matrix / largest, axis=0)  # no square overflows
    left, values, right = np.linalg.svd(matrix / norms, full_matrices=False)
    is_kept = values > max(matrix.shape) * np.finfo(np.float64).eps * values[0]
    inverse_root = (right[is_kept].T / values[is_kept]) / norms[:, None]
    slopes = inverse_root @ (left[: len(rows), is_kept].T @ (roots[:, 0] * targets))
    return centred.fit(slopes, lambda: _square_sums(inverse_root.T @ rows.T))


def _narrow_leverages(problem: RidgeProblem, fit: NarrowFit) -> FloatArray:
    # The inverse of the small factor times all rows is much quicker than a triangular system for every row.
    inverse = solve_triangular(fit.lower, np.diag(fit.scale), lower=True, check_finite=False)
    columns = inverse[:, 1:] @ problem.rows.T
    columns += inverse[:, :1]
    return _square_sums(columns)


def _square_sums(columns: FloatArray) -> FloatArray:
    return np.einsum("dn,dn->n", columns, columns)
