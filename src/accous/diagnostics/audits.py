r"""Tests with late labels whether P(y | x) has changed, which unlabelled rows cannot show.

Let e be 1 where a prediction is wrong and 0 elsewhere, q(x) a regression of e on the reference, and v the weights of
the reference under a ratio fitted to the audited rows. Then

.. math:: \hat R = \operatorname*{mean}_{\text{audit}} q(x) + \sum_i v_i \big(e_i - q(x_i)\big), \qquad
          Z = \frac{\operatorname*{mean}_{\text{audit}} e - \hat R}{\mathrm{se}} .

While P(y | x) stays the same, :math:`\hat R` is right if either the ratio or the regression is right (it is doubly
robust), and Z is close to a standard normal. This holds for rows of any round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.solvers.logistic import make_problem, solve
from accous.core.solvers.ratio_regression import fit_ratio_regression
from accous.diagnostics.risk import LEVEL

__all__ = ["SIGNIFICANCE", "Audit", "audit_errors"]

SIGNIFICANCE = 0.01
_RIDGE = 1.0
_ERROR_C = 0.1
_MAX_STEPS = 50
_LARGEST_SCORE = math.log(100.0)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Observed error of the predictor on labelled rows, and the error to expect from the reference.

    Attributes
    ----------
    n_rows : int
        Number of labelled rows.
    observed : float
        Share of the rows that the current predictor gets wrong.
    estimate : float
        Expected share if P(y | x) is still that of the reference.
    estimate_low, estimate_high : float
        Interval that holds 90 % of the observed shares in that case.
    p_value : float
        p-value of the two-sided test of that hypothesis.
    concept_changed : bool
        Whether the p-value is below 0.01.
    text : str
        The result as one sentence.
    """

    n_rows: int
    observed: float
    estimate: float
    estimate_low: float
    estimate_high: float
    p_value: float
    concept_changed: bool
    text: str


def audit_errors(
    is_wrong: NDArray[np.bool_],
    features: FloatArray,
    is_reference_wrong: NDArray[np.bool_],
    reference_features: FloatArray,
    base_weights: FloatArray,
) -> Audit:
    """Compare the errors on audited rows with those on the reference.

    Parameters
    ----------
    is_wrong : array of shape (n_rows,)
    features : array of shape (n_rows, d)
        Features that the ratio and the regression are fitted on; no constant column is needed.
    is_reference_wrong : array of shape (n_reference,)
        Errors of predictions by models that were fitted without the row.
    reference_features : array of shape (n_reference, d)
    base_weights : array of shape (n_reference,)
    """
    reference_features, features = _standardised(reference_features, features)
    shares = base_weights * _ratio_to(reference_features, features)
    shares /= shares.sum()
    expected_reference, expected = _expected_errors(reference_features, is_reference_wrong, base_weights, features)
    residuals = is_reference_wrong - expected_reference
    correction = float(shares @ residuals)
    estimate = min(1.0, max(0.0, float(expected.mean()) + correction))
    observed = float(is_wrong.mean())
    variance = float(np.sum((shares * (residuals - correction)) ** 2)) + _sampling_variance(is_wrong, expected)
    return _report(len(is_wrong), observed, estimate, math.sqrt(variance))


def _report(n_rows: int, observed: float, estimate: float, standard_error: float) -> Audit:
    normal = NormalDist()
    p_value = 2.0 * normal.cdf(-abs(observed - estimate) / standard_error)
    half_width = normal.inv_cdf(0.5 + 0.5 * LEVEL) * standard_error
    low, high = max(0.0, estimate - half_width), min(1.0, estimate + half_width)
    has_changed = p_value < SIGNIFICANCE
    conclusion = (
        "P(y | x) seems to have changed: label a new reference and fit again."
        if has_changed
        else "there is no evidence that P(y | x) differs from the reference."
    )
    text = (
        f"The error on {n_rows} labelled rows is {observed:.1%}; the expected error is {estimate:.1%} "
        f"({low:.1%} to {high:.1%}, p = {p_value:.2g}); {conclusion}"
    )
    return Audit(
        n_rows=n_rows,
        observed=observed,
        estimate=estimate,
        estimate_low=low,
        estimate_high=high,
        p_value=p_value,
        concept_changed=has_changed,
        text=text,
    )


def _sampling_variance(is_wrong: NDArray[np.bool_], expected: FloatArray) -> float:
    """Variance of the mean of e - q: the observed one or the one q implies, whichever is larger.

    A single row has no observed spread.
    """
    observed = float(np.var(is_wrong - expected))
    return max(observed, float(np.mean(expected * (1.0 - expected)))) / len(expected)


def _ratio_to(reference: FloatArray, rows: FloatArray) -> FloatArray:
    """Ratio of the density of the audited rows to that of the reference, at the reference rows."""
    theta = fit_ratio_regression(
        _with_constant(reference), _with_constant(rows), _RIDGE / len(rows), np.zeros(rows.shape[1] + 1), _MAX_STEPS
    )
    return np.exp(np.clip(-_with_constant(reference) @ theta, -_LARGEST_SCORE, _LARGEST_SCORE))


def _expected_errors(
    reference: FloatArray, is_wrong: NDArray[np.bool_], weights: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Probability of an error for reference and audited rows, by a logistic regression fitted on the reference."""
    # The smallest probability of an error that this many rows can support.
    floor = 0.5 / len(reference)
    if is_wrong.all() or not is_wrong.any():
        share = min(1.0 - floor, max(floor, float(is_wrong.mean())))
        return np.full(len(reference), share), np.full(len(rows), share)
    problem = make_problem(reference, is_wrong.astype(np.int64), 2, _ERROR_C)
    coefs = solve(problem, weights * (len(weights) / weights.sum()))[0]
    of_both = (np.clip(part @ coefs[:-1] + coefs[-1], -30.0, 30.0) for part in (reference, rows))
    of_reference, of_rows = (1.0 / (1.0 + np.exp(-scores)) for scores in of_both)
    return np.clip(of_reference, floor, 1.0 - floor), np.clip(of_rows, floor, 1.0 - floor)


def _standardised(reference: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, scale = reference.mean(axis=0), reference.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    # Clip distant rows: a single one must not determine the ratio.
    return (reference - mean) / scale, np.clip((rows - mean) / scale, -5.0, 5.0)


def _with_constant(rows: FloatArray) -> FloatArray:
    return np.concatenate((rows, np.ones((len(rows), 1))), axis=1)
