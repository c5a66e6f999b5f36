"""The weighted risk of losses that are not errors: by hand, its interval, and its coverage where the truth is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.arrays import FloatArray
from accous.core.regression import leave_one_out_predictions, make_ridge_problem, solve_ridge
from accous.diagnostics.losses import SQUARED
from accous.diagnostics.risk import RiskEstimate, loss_difference, loss_interval, weighted_loss
from accous.streams import ConstantShift, GaussianRegressionStream
from accous.threads import one_blas_thread

NO_LEARNERS = (np.empty((0, 6)), np.empty(0))
positive = arrays(np.float64, 6, elements=st.floats(1e-3, 1e3))


def test_by_hand() -> None:
    losses, weights = np.array([4.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 2.0, 0.0])
    assert weighted_loss(losses, weights) == pytest.approx(1.75)
    estimate, low, high = loss_interval(losses, weights, *NO_LEARNERS)
    standard_error = math.sqrt((2.25**2 + 0.75**2 + (2 * 0.75) ** 2) / 16.0)
    assert estimate == pytest.approx(1.75)
    assert high - estimate == pytest.approx(1.6448536 * standard_error)
    assert low == pytest.approx(2 * estimate - high)
    difference, error = loss_difference(losses, np.ones(4), weights)
    assert (difference, error) == pytest.approx((0.75, standard_error))


@given(positive, positive, st.floats(1e-3, 1e3))
def test_the_unit_of_the_target_scales_the_risk(losses: FloatArray, weights: FloatArray, unit: float) -> None:
    scaled = loss_interval(unit * losses, weights, *NO_LEARNERS)
    wanted = [unit * value for value in loss_interval(losses, weights, *NO_LEARNERS)]
    assert scaled == pytest.approx(wanted, rel=1e-9, abs=1e-9 * unit)


def test_few_effective_rows_for_many_coefficients_widen_the_interval() -> None:
    losses, weights = np.arange(100.0), np.ones(100)
    estimate, _, high = loss_interval(losses, weights, *NO_LEARNERS)
    assert loss_interval(losses, weights, *NO_LEARNERS, n_coefs=50)[2] - estimate == pytest.approx(
        2 * (high - estimate)
    )
    assert loss_interval(losses, weights, *NO_LEARNERS, n_coefs=100) == (estimate, 0.0, math.inf)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_interval_holds_the_true_risk_of_the_fitted_model(alpha: float) -> None:
    """Nominal 90 %; measured 87, 88 and 91 % with 150 seeds. Of 100 looks, 90 +- 3 are expected."""
    n_held = 0
    for seed in range(100):
        stream = GaussianRegressionStream(ConstantShift(alpha), n_rounds=1, random_state=seed)
        X, y = stream.reference()
        weights = stream.reference_ratio(alpha)
        with one_blas_thread():
            problem = make_ridge_problem(X, y, 1.0)
            coefs, predicted = solve_ridge(problem, weights), leave_one_out_predictions(problem, weights)
        _, low, high = loss_interval(SQUARED(y, predicted), weights, *NO_LEARNERS, n_coefs=len(coefs))
        n_held += low <= stream.risk((coefs[:-1], coefs[-1]), alpha) <= high
    assert 80 <= n_held <= 98


def estimate(low: float, high: float) -> RiskEstimate:
    parts = {"adapted": 4.0, "adapted_low": low, "adapted_high": high}
    return RiskEstimate(**parts, fixed=10.0, fixed_low=9.0, fixed_high=12.345, loss="squared")


def test_a_risk_prints_in_its_own_unit_and_says_whether_it_is_known() -> None:
    assert str(estimate(3.0, 5.5)) == (
        "The estimated squared loss of the predictor in use is 4 (between 3 and 5.5). That of the fixed model is 10 "
        "(between 9 and 12.3). Nominal coverage of the intervals: 90%."
    )
    assert estimate(3.0, 5.5).is_known
    assert not estimate(0.0, 8.1).is_known
    assert not estimate(0.0, math.inf).is_known
    outside = replace(estimate(3.0, 5.5), is_covered=False)
    assert not outside.is_known
    assert not outside.is_fixed_known
    error = {"adapted": 0.2, "adapted_low": 0.1, "adapted_high": 0.3, "loss": "error"}
    assert replace(estimate(3.0, 5.5), **error).is_known
    assert not replace(outside, **error).is_known
    assert str(replace(outside, **error)) == (
        "The error of the predictor in use is not known: the reference does not cover the inputs."
    )


def test_a_risk_that_is_not_known_prints_its_interval_and_no_number() -> None:
    assert str(estimate(0.0, 8.1)) == (
        "The estimated squared loss of the predictor in use is not known: anywhere between 0 and 8.1. That of the "
        "fixed model is 10 (between 9 and 12.3). Nominal coverage of the intervals: 90%."
    )
    assert "is not known: at least 2. That" in str(estimate(2.0, math.inf))
