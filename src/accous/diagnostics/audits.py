"""Tests with late labels whether P(y | x) has changed, which unlabelled rows cannot show.

The value that is compared with the reference (`accous.diagnostics.comparison`) is 1 where a prediction is wrong and 0
elsewhere. For predicted numbers see `accous.diagnostics.residual_audits`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.regression import make_problem, solve
from accous.diagnostics.comparison import Comparison, compare_means, match_reference
from accous.text import count

__all__ = ["SIGNIFICANCE", "Audit", "audit_errors", "conclude"]

SIGNIFICANCE = 0.01
_ERROR_C = 0.1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Observed error of the predictor on labelled rows, and the error to expect from the reference.

    Attributes
    ----------
    n_rows : int
        Number of labelled rows.
    observed : float
        Share of the rows that the current predictor gets wrong; for predicted numbers the mean loss.
    estimate : float
        Expected share, or mean loss, if P(y | x) is still that of the reference.
    estimate_low, estimate_high : float
        Interval that holds 90 % of the observed ones in that case.
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
    matched = match_reference(reference_features, features, base_weights)
    expected_reference, expected = _expected_errors(matched.reference, is_reference_wrong, base_weights, matched.rows)
    found = compare_means(
        is_wrong.astype(np.float64),
        expected,
        is_reference_wrong.astype(np.float64),
        expected_reference,
        matched.shares,
        smallest_variance=float(np.mean(expected * (1.0 - expected))),
    )
    return _report(len(is_wrong), found._replace(estimate=min(1.0, max(0.0, found.estimate))))


def conclude(p_value: float) -> str:
    """Return the end of an audit's sentence."""
    if p_value < SIGNIFICANCE:
        return "P(y | x) seems to have changed: label a new reference and fit again."
    return "there is no evidence that P(y | x) differs from the reference."


def _report(n_rows: int, found: Comparison) -> Audit:
    p_value = found.p_value
    low, high = max(0.0, found.estimate - found.half_width), min(1.0, found.estimate + found.half_width)
    text = (
        f"The error on {count(n_rows, 'labelled row')} is {found.observed:.1%}; the expected error is "
        f"{found.estimate:.1%} ({low:.1%} to {high:.1%}, p = {p_value:.2g}); {conclude(p_value)}"
    )
    return Audit(
        n_rows=n_rows,
        observed=found.observed,
        estimate=found.estimate,
        estimate_low=low,
        estimate_high=high,
        p_value=p_value,
        concept_changed=p_value < SIGNIFICANCE,
        text=text,
    )


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
