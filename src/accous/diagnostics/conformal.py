"""Prediction sets and intervals: what conforms to the reference, weighted to match the current inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray


def conformal_sets(
    scores: FloatArray, weights: FloatArray, row_scores: FloatArray, row_weights: FloatArray, alpha: float
) -> NDArray[np.bool_]:
    """Weighted conformal prediction sets: every class whose score is at most the row's limit, see `conformal_limits`.

    Parameters
    ----------
    scores : array of shape (n_reference,)
        Nonconformity of each reference row to its label, from a fit without that row.
    weights : array of shape (n_reference,)
    row_scores : array of shape (n_rows, n_classes)
        Nonconformity of each row to each class.
    row_weights : array of shape (n_rows,)
        Weights on the same scale as those of the reference.
    alpha : float
        Share of rows whose true class may be missing from the set.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.linspace(0.0, 0.9, 10)
    >>> conformal_sets(scores, np.ones(10), np.array([[0.3, 0.8]]), np.ones(1), alpha=0.5)
    array([[ True, False]])
    """
    limits = conformal_limits(scores, weights, row_weights, alpha)
    return np.asarray(row_scores <= limits[:, None])


def conformal_limits(scores: FloatArray, weights: FloatArray, row_weights: FloatArray, alpha: float) -> FloatArray:
    r"""Largest score that conforms, for each row (Tibshirani, Foygel Barber, Candes and Ramdas, 2019).

    The limit of row x is the smallest s with

    .. math:: \sum_{i: s_i \le s} w_i \;\ge\; (1 - \alpha) \Big( \sum_i w_i + w(x) \Big) .

    If there is no such s, the limit is infinite: the row weighs too much for the reference to exclude anything.

    Parameters
    ----------
    scores, weights : arrays of shape (n_reference,)
    row_weights : array of shape (n_rows,)
    alpha : float
        As for `conformal_sets`.

    Returns
    -------
    array of shape (n_rows,)
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    # Slightly less: a sum in another order may differ in the last bit.
    wanted = (1.0 - alpha) * (reached[-1] + row_weights) * (1.0 - 1e-12)
    places = np.searchsorted(reached, wanted)
    return np.asarray(np.append(scores[order], np.inf)[places])


def conformal_intervals(
    residuals: FloatArray, weights: FloatArray, predicted: FloatArray, row_weights: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    r"""Weighted conformal prediction intervals, :math:`\hat y(x) \pm s(x)`.

    The half-width s(x) is the limit of `conformal_limits` for the sizes of the residuals. It is the weighted
    quantile of level 1 - alpha, with the row's own weight added where residuals are infinite. With residuals of
    fits without the row this is the jackknife, weighted: it has the coverage where leaving one row out hardly
    changes the fit, that is, where the effective sample size is much larger than the number of coefficients.

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
    >>> residuals = np.array([-2.0, 1.0, 0.5, -0.5])
    >>> conformal_intervals(residuals, np.ones(4), np.array([10.0]), np.ones(1), alpha=0.4)
    (array([9.]), array([11.]))
    """
    half_widths = conformal_limits(np.abs(residuals), weights, row_weights, alpha)
    return predicted - half_widths, predicted + half_widths
