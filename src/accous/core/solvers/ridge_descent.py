r"""Weighted ridge regression with many columns: conjugate gradients from the last solution, without a Gram matrix.

The rows are given in their principal axes, so their Gram matrix is the diagonal :math:`\Lambda`. With weights s whose
sum is S, the matrix of the regression is close to :math:`S \Lambda / n + \alpha I`, which preconditions the gradients.
While the weights move a little from round to round, a few steps of two products with the rows reach the optimum.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray

__all__ = ["descend_ridge"]

_MAX_STEPS = 30
# Of the square of the error, in the norm that the objective gives: nine digits of the solution.
_TOLERANCE = 1e-18


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
        enough = _TOLERANCE * float(right_side @ (preconditioner * right_side))
        if not (0.0 < enough < np.inf and np.isfinite(mean_squares).all()):
            return None
        slopes = start
        gradient = back(centred_targets - rows @ slopes) - alpha * slopes
        direction = preconditioned = preconditioner * gradient
        left = float(gradient @ preconditioned)
        for _ in range(_MAX_STEPS):
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
