"""Prediction intervals: all numbers that conform to the reference, weighted to match the current inputs."""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.sets import conformal_limits

__all__ = ["conformal_intervals"]


def conformal_intervals(
    residuals: FloatArray, weights: FloatArray, predicted: FloatArray, row_weights: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    r"""Weighted conformal prediction intervals, :math:`\hat y(x) \pm s(x)`.

    The half-width s(x) is the limit of `accous.diagnostics.sets.conformal_limits` for the sizes of the residuals. It is
    the weighted quantile of level 1 - alpha, with the row's own weight added where residuals are infinite. With
    residuals of fits without the row this is the jackknife, weighted: it has the coverage where leaving one row out
    hardly changes the fit, that is, where the effective sample size is much larger than the number of coefficients.

    Parameters
    ----------
    residuals : array of shape (n_reference,)
        y minus prediction of each reference row, from a fit without that row.
    weights : array of shape (n_reference,)
    predicted : array of shape (n_rows,)
        Predictions of the rows.
    row_weights : array of shape (n_rows,)
        Weights on the same scale as those of the reference.
    alpha : float
        Share of rows whose true value may lie outside, above 0 and below 1.

    Returns
    -------
    low, high : arrays of shape (n_rows,)
        Infinite where a row weighs too much for the reference to exclude any value.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.intervals import conformal_intervals
    >>> residuals = np.array([-2.0, 1.0, 0.5, -0.5])
    >>> conformal_intervals(residuals, np.ones(4), np.array([10.0]), np.ones(1), alpha=0.4)
    (array([9.]), array([11.]))
    """
    half_widths = conformal_limits(np.abs(residuals), weights, row_weights, alpha)
    return predicted - half_widths, predicted + half_widths
