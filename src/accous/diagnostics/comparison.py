r"""Compares a value on labelled rows of the stream with what the reference leads to expect of these rows.

Let e be the value of a row, such as whether its prediction is wrong, q(x) a regression of e on the reference, and v the
weights of the reference under a ratio fitted to the labelled rows. Then

.. math:: \hat R = \operatorname*{mean}_{\text{labelled}} q(x) + \sum_i v_i \big(e_i - q(x_i)\big), \qquad
          Z = \frac{\operatorname*{mean}_{\text{labelled}} e - \hat R}{\mathrm{se}} .

While P(y | x) stays the same, :math:`\hat R` is right if either the ratio or the regression is right (it is doubly
robust), and Z is close to a standard normal. This holds for rows of any round.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.core.ratio_problems import fit_ratio_regression
from accous.diagnostics.risk import LEVEL

__all__ = ["Comparison", "Matched", "compare_means", "match_reference"]

_RIDGE = 1.0
_MAX_STEPS = 50
_LARGEST_SCORE = math.log(100.0)


class Matched(NamedTuple):
    """Features of both sets of rows, standardised by the reference, and the shares of the reference rows.

    Attributes
    ----------
    reference : array of shape (n_reference, d)
    rows : array of shape (n_rows, d)
    shares : array of shape (n_reference,)
        The weights v, which sum to 1.
    """

    reference: FloatArray
    rows: FloatArray
    shares: FloatArray


class Comparison(NamedTuple):
    """An observed mean and the one to expect, with the standard error of their difference."""

    observed: float
    estimate: float
    standard_error: float

    @property
    def p_value(self) -> float:
        """The p-value of the two-sided test that both are the same."""
        gap = abs(self.observed - self.estimate)
        return 2.0 * NormalDist().cdf(-gap / self.standard_error) if self.standard_error > 0.0 else float(gap == 0.0)

    @property
    def half_width(self) -> float:
        """Half-width of the interval around the estimate that holds 90 % of the observed means."""
        return NormalDist().inv_cdf(0.5 + 0.5 * LEVEL) * self.standard_error


def match_reference(reference_features: FloatArray, features: FloatArray, base_weights: FloatArray) -> Matched:
    """Weight the reference so that it matches the labelled rows.

    Parameters
    ----------
    reference_features : array of shape (n_reference, d)
        Features that the ratio is fitted on; no constant column is needed.
    features : array of shape (n_rows, d)
    base_weights : array of shape (n_reference,)
    """
    reference, rows = _standardised(reference_features, features)
    shares = base_weights * _ratio_to(reference, rows)
    return Matched(reference, rows, shares / shares.sum())


def compare_means(
    values: FloatArray,
    expected: FloatArray,
    reference_values: FloatArray,
    expected_reference: FloatArray,
    shares: FloatArray,
    smallest_variance: float,
) -> Comparison:
    """Compare the mean of a value on the labelled rows with its doubly robust estimate.

    Parameters
    ----------
    values, expected : arrays of shape (n_rows,)
        e and q of the labelled rows.
    reference_values, expected_reference, shares : arrays of shape (n_reference,)
        e, q and v of the reference.
    smallest_variance : float
        Of e - q on one row; the observed one counts if it is larger. A single row has no observed spread.
    """
    residuals = reference_values - expected_reference
    correction = float(shares @ residuals)
    sampling = max(float(np.var(values - expected)), smallest_variance) / len(expected)
    variance = float(np.sum((shares * (residuals - correction)) ** 2)) + sampling
    return Comparison(float(values.mean()), float(expected.mean()) + correction, math.sqrt(variance))


def _ratio_to(reference: FloatArray, rows: FloatArray) -> FloatArray:
    """Ratio of the density of the labelled rows to that of the reference, at the reference rows."""
    theta = fit_ratio_regression(
        _with_constant(reference), _with_constant(rows), _RIDGE / len(rows), np.zeros(rows.shape[1] + 1), _MAX_STEPS
    )
    return np.exp(np.clip(-_with_constant(reference) @ theta, -_LARGEST_SCORE, _LARGEST_SCORE))


def _standardised(reference: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, scale = reference.mean(axis=0), reference.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    # Clip distant rows: a single one must not determine the ratio.
    return (reference - mean) / scale, np.clip((rows - mean) / scale, -5.0, 5.0)


def _with_constant(rows: FloatArray) -> FloatArray:
    return np.concatenate((rows, np.ones((len(rows), 1))), axis=1)
