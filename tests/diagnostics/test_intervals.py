"""Prediction intervals: their half-widths, infinite ones, and coverage on a stream whose ratio is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.arrays import FloatArray
from accous.core.regression import leave_one_out_predictions, make_ridge_problem, solve_ridge
from accous.diagnostics.risk import conformal_intervals, conformal_sets
from accous.streams import ConstantShift, GaussianRegressionStream
from accous.threads import one_blas_thread

residuals_of = arrays(np.float64, 8, elements=st.integers(-10, 10).map(lambda tenth: tenth / 10.0))
weights_of = arrays(np.float64, 8, elements=st.floats(0.01, 10.0))


@given(residuals_of, weights_of, st.floats(0.0, 20.0), st.floats(0.01, 0.99))
def test_a_number_is_in_the_interval_if_it_is_in_the_set(
    residuals: FloatArray, weights: FloatArray, row_weight: float, alpha: float
) -> None:
    distances = np.linspace(0.05, 1.05, 11)  # between the residuals, so that rounding decides nothing
    is_in = conformal_sets(np.abs(residuals), weights, distances[None], np.array([row_weight]), alpha)[0]
    low, high = conformal_intervals(residuals, weights, np.array([3.0]), np.array([row_weight]), alpha)
    for side in (3.0 - distances, 3.0 + distances):
        assert ((low[0] <= side) & (side <= high[0])).tolist() == is_in.tolist()


def test_a_row_that_outweighs_the_reference_gets_every_number() -> None:
    low, high = conformal_intervals(np.zeros(5), np.ones(5), np.zeros(2), np.array([1000.0, 0.1]), 0.1)
    assert low.tolist() == [-np.inf, 0.0]
    assert high.tolist() == [np.inf, 0.0]


def coverage(alpha: float, *, is_weighted: bool = True, n_seeds: int = 25) -> float:
    """Share of rows inside 90 % intervals around a weighted ridge regression."""
    shares = []
    for seed in range(n_seeds):
        stream = GaussianRegressionStream(ConstantShift(alpha), n_rounds=1, batch_size=400, random_state=seed)
        X, y = stream.reference()
        batch = next(iter(stream))
        ratio, row_ratio = stream.reference_ratio(alpha), stream.true_ratio(batch.X, alpha)
        if not is_weighted:
            ratio, row_ratio = np.ones(len(X)), np.ones(len(batch.X))
        weights = ratio / ratio.mean()
        with one_blas_thread():
            problem = make_ridge_problem(X, y, 1.0)
            coefs = solve_ridge(problem, weights)
            residuals = y - leave_one_out_predictions(problem, weights)
        predicted = batch.X @ coefs[:-1] + coefs[-1]
        low, high = conformal_intervals(residuals, weights, predicted, row_ratio / ratio.mean(), 0.1)
        shares.append(np.mean((low <= batch.y) & (batch.y <= high)))
    return float(np.mean(shares))


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_with_the_true_ratio_90_percent_intervals_cover_88_to_92_percent(alpha: float) -> None:
    assert 0.88 <= coverage(alpha) <= 0.92


def test_without_weights_they_do_not() -> None:
    assert coverage(0.0, is_weighted=False) < 0.85
