r"""Logistic regression of one batch against the reference.

The ratio is :math:`r(x) = \exp(-\phi(x)^\top \theta)`. The objective is the paper's observed loss of a single round
plus a penalty on all coefficients except the intercept, which is the last one:

.. math::
    \min_\theta \; \tfrac12 \Big( \operatorname*{mean}_{S_0} \log(1 + e^{-\phi^\top\theta})
    + \operatorname*{mean}_{S_t} \log(1 + e^{\phi^\top\theta}) \Big) + \tfrac{\lambda}{2} \|\theta_{1..d}\|^2
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from accous.arrays import FloatArray
from accous.exceptions import ParameterError

__all__ = ["DECREMENT", "MAX_HALVINGS", "fit_ratio_regression", "minimise"]

MAX_HALVINGS = 40
DECREMENT = 1e-16


def fit_ratio_regression(
    reference: FloatArray, batch: FloatArray, ridge: float, start: FloatArray, max_steps: int
) -> FloatArray:
    """Minimise by Newton's method with step halving.

    Parameters
    ----------
    reference, batch : arrays of shape (n_reference, d + 1) and (n_batch, d + 1)
        Features phi with a constant as the last column.
    ridge : float
        lambda, positive.
    start : array of shape (d + 1,)
    max_steps : int
        The method stops earlier if a step lowers the objective only by rounding.

    Returns
    -------
    array of shape (d + 1,)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.solvers.ratio_regression import fit_ratio_regression
    >>> rows = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> fit_ratio_regression(rows, rows[1:], ridge=0.1, start=np.zeros(2), max_steps=50).round(3)
    array([-0.941,  0.52 ])
    """
    # A tiny penalty for the intercept keeps matrices regular.
    return minimise(reference, batch, np.append(np.full(len(start) - 1, ridge), 1e-10), start, max_steps)


def minimise(
    reference: FloatArray, batch: FloatArray, penalty: FloatArray, start: FloatArray, max_steps: int
) -> FloatArray:
    """Do the same with a penalty for every coefficient."""
    theta, value = start, _objective(reference, batch, penalty, start)
    for _ in range(max_steps):
        gradient, hessian = _derivatives(reference, batch, penalty, theta)
        try:
            direction = cho_solve(cho_factor(hessian), gradient)
        except LinAlgError as error:
            raise ParameterError("ridge is too small for these rows: raise it.") from error
        decrement = float(gradient @ direction)
        size = 1.0
        for _ in range(MAX_HALVINGS):
            trial = theta - size * direction
            trial_value = _objective(reference, batch, penalty, trial)
            if trial_value <= value - 1e-4 * size * decrement:
                break
            size *= 0.5
        else:
            return theta
        theta, value = trial, trial_value
        if decrement <= DECREMENT:
            return theta
    return theta


def _objective(reference: FloatArray, batch: FloatArray, penalty: FloatArray, theta: FloatArray) -> float:
    losses = np.logaddexp(0.0, -reference @ theta).mean() + np.logaddexp(0.0, batch @ theta).mean()
    return float(0.5 * losses + 0.5 * (penalty * theta) @ theta)


def _derivatives(
    reference: FloatArray, batch: FloatArray, penalty: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    gradient, hessian = penalty * theta, np.diag(penalty)
    for rows, sign in ((reference, -1.0), (batch, 1.0)):
        probabilities = expit(sign * (rows @ theta))
        share = 0.5 / len(rows)
        gradient = gradient + (sign * share) * (probabilities @ rows)
        hessian = hessian + rows.T @ (rows * (share * probabilities * (1.0 - probabilities))[:, None])
    return gradient, hessian
