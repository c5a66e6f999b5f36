r"""Tests with late labels whether P(y | x) has changed, for predicted numbers.

Two values of a row are compared with the reference (`accous.diagnostics.comparison`): its residual r, which shows
predictions that have become too low or too high, and its size :math:`|r|^{2/3}`, which shows larger or smaller errors.
The power 2/3 of a normal residual is close to normal (Wilson and Hilferty), so that a few rows do not raise false
alarms, as their squares would. The p-value is twice the smaller one of the two tests.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray
from accous.core.regression import leave_one_out_predictions, make_ridge_problem, solve_ridge
from accous.diagnostics.audits import SIGNIFICANCE, Audit, conclude
from accous.diagnostics.comparison import Comparison, Matched, compare_means, match_reference
from accous.diagnostics.losses import SQUARED, NumberLoss
from accous.text import count

__all__ = ["audit_residuals"]

_RIDGE = 1.0
_NEARLY_NORMAL = 2.0 / 3.0
# Where all rows of the reference are predicted perfectly, a residual is still not more exact than numbers are.
_SMALLEST_SHARE = 1e-12


def audit_residuals(
    residuals: FloatArray,
    features: FloatArray,
    reference_residuals: FloatArray,
    reference_features: FloatArray,
    base_weights: FloatArray,
    loss: NumberLoss = SQUARED,
) -> Audit:
    """Compare the residuals on audited rows with those on the reference.

    Parameters
    ----------
    residuals : array of shape (n_rows,)
        y minus prediction of the audited rows; at least one.
    features : array of shape (n_rows, d)
        Features that the ratio and the regression are fitted on; no constant column is needed.
    reference_residuals : array of shape (n_reference,)
        Residuals of predictions by models that were fitted without the row.
    reference_features : array of shape (n_reference, d)
    base_weights : array of shape (n_reference,)
    loss : NumberLoss
        In which the observed and the expected size of the errors are reported. The tests do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.residual_audits import audit_residuals
    >>> rng = np.random.default_rng(0)
    >>> X, X_late = rng.normal(size=(500, 2)), rng.normal(size=(100, 2))
    >>> r, r_late = rng.normal(size=500), rng.normal(size=100)
    >>> audit_residuals(r_late, X_late, r, X, np.ones(500)).concept_changed
    False
    >>> audit_residuals(r_late + 1.0, X_late, r, X, np.ones(500)).concept_changed
    True
    """
    matched = match_reference(reference_features, features, base_weights)

    def compare(values: FloatArray, reference_values: FloatArray) -> Comparison:
        return _compare(matched, base_weights, values, reference_values)

    bias = compare(residuals, reference_residuals)
    size = compare(np.abs(residuals) ** _NEARLY_NORMAL, np.abs(reference_residuals) ** _NEARLY_NORMAL)
    zero = np.zeros(1)
    losses = compare(loss(residuals, zero), loss(reference_residuals, zero))
    p_value = min(1.0, 2.0 * min(bias.p_value, size.p_value))
    return _report(len(residuals), losses, bias, p_value, loss)


def _compare(
    matched: Matched, base_weights: FloatArray, values: FloatArray, reference_values: FloatArray
) -> Comparison:
    """Compare one value, with a ridge regression of it on the reference; of each row there, by a fit without it."""
    problem = make_ridge_problem(matched.reference, reference_values, _RIDGE)
    weights = base_weights * (len(base_weights) / base_weights.sum())
    expected_reference = leave_one_out_predictions(problem, weights)
    coefs = solve_ridge(problem, weights)
    expected = matched.rows @ coefs[:-1] + coefs[-1]
    spread = float(matched.shares @ (reference_values - expected_reference) ** 2)
    largest = float(np.abs(reference_values).max(initial=0.0))
    return compare_means(
        values,
        expected,
        reference_values,
        expected_reference,
        matched.shares,
        smallest_variance=max(spread, (_SMALLEST_SHARE * largest) ** 2),
    )


def _report(n_rows: int, losses: Comparison, bias: Comparison, p_value: float, loss: NumberLoss) -> Audit:
    estimate = max(0.0, losses.estimate)
    low, high = max(0.0, estimate - losses.half_width), estimate + losses.half_width
    text = (
        f"The {loss} loss on {count(n_rows, 'labelled row')} is {losses.observed:.3g}; the expected loss is "
        f"{estimate:.3g} ({low:.3g} to {high:.3g}); the mean residual is {bias.observed:+.3g} where "
        f"{bias.estimate:+.3g} is expected (p = {p_value:.2g}); {conclude(p_value)}"
    )
    return Audit(
        n_rows=n_rows,
        observed=losses.observed,
        estimate=estimate,
        estimate_low=low,
        estimate_high=high,
        p_value=p_value,
        concept_changed=p_value < SIGNIFICANCE,
        text=text,
    )
