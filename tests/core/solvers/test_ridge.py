"""Weighted ridge regression: scikit-learn's optimum, hard data, and predictions of rows left out.

Tolerances: a solution of normal equations is exact up to the rounding of the Gram matrix divided by its smallest pivot.
The ordinary cases here have pivots above 1e-3, so 1e-10 leaves room; the hard ones say what they allow.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from sklearn.linear_model import Ridge

from accous.arrays import FloatArray
from accous.core.ensemble import MAX_NARROW_COLUMNS
from accous.core.kernels_rows import BLOCK
from accous.core.regression import (
    RidgeProblem,
    descend_ridge,
    leave_one_out_predictions,
    make_ridge_problem,
    solve_ridge,
)
from accous.threads import one_blas_thread
from tests.budgets import rest_slow

AROUND_BLOCKS = [2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1]
each_alpha = pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e4])


@pytest.fixture(autouse=True)
def _as_in_a_round() -> Iterator[None]:
    with one_blas_thread():
        yield


def rows_and_targets(n_rows: int = 150, n_features: int = 4, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Rows far from the origin with targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 1.0, size=(n_rows, n_features))
    return X, 50.0 + X @ rng.normal(size=n_features) + X[:, 0] ** 2 + rng.normal(size=n_rows)


def wide_weights(n_rows: int, seed: int = 0) -> FloatArray:
    """Weights over six orders of magnitude."""
    return 10.0 ** np.random.default_rng(seed).uniform(-4.0, 2.0, size=n_rows)


each_weighting = pytest.mark.parametrize("make_weights", [np.ones, wide_weights], ids=["equal", "wide"])


def scikit_learn_optimum(X: FloatArray, y: FloatArray, weights: FloatArray, alpha: float) -> FloatArray:
    model = Ridge(alpha=alpha, solver="svd").fit(X, y, sample_weight=weights)
    return np.append(model.coef_, model.intercept_)


def uncompiled(problem: RidgeProblem) -> RidgeProblem:
    return replace(problem, narrow=None)


def predict(X: FloatArray, coefs: FloatArray) -> FloatArray:
    return X @ coefs[:-1] + coefs[-1]


def relative_error(found: FloatArray, wanted: FloatArray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


# --- the optimum ------------------------------------------------------------------------------------------------


@pytest.mark.every_pair
@each_alpha
@each_weighting
@pytest.mark.parametrize("n_features", [1, 4, 13, 62, MAX_NARROW_COLUMNS, 149, 400])
def test_the_optimum_is_that_of_scikit_learn(
    n_features: int, alpha: float, make_weights: Callable[[int], FloatArray]
) -> None:
    X, y = rows_and_targets(n_features=n_features)
    weights = make_weights(len(X))
    wanted = scikit_learn_optimum(X, y, weights, alpha)
    problem = make_ridge_problem(X, y, alpha)
    assert (problem.narrow is not None) == (n_features < MAX_NARROW_COLUMNS)
    assert (problem.axes is not None) == (n_features >= MAX_NARROW_COLUMNS)
    assert problem.rows.shape[1] == min(n_features, len(X))
    # Weights over six orders of magnitude leave fewer rows than columns: a pivot is then about alpha over the weights.
    tolerance = 1e-10 if alpha > 1e-3 else 1e-6
    for each in (problem, uncompiled(problem)):
        assert relative_error(solve_ridge(each, weights), wanted) < tolerance


@given(
    n_rows=st.one_of(st.sampled_from(AROUND_BLOCKS), st.integers(2, 3 * BLOCK)),
    n_features=st.integers(1, 21),
    seed=st.integers(0, 2**32 - 1),
    alpha=st.floats(1e-2, 1e3),
)
@example(n_rows=BLOCK + 1, n_features=2, seed=0, alpha=1.0)  # no column of zeros is added
def test_the_compiled_loops_agree_with_the_plain_version(n_rows: int, n_features: int, seed: int, alpha: float) -> None:
    X, y = rows_and_targets(n_rows, n_features, seed)
    weights = np.random.default_rng(seed).exponential(size=n_rows)
    problem = make_ridge_problem(X, y, alpha)
    assert problem.narrow is not None
    assert problem.narrow.fit(weights, alpha) is not None
    for function in (solve_ridge, leave_one_out_predictions):
        assert relative_error(function(problem, weights), function(uncompiled(problem), weights)) < 1e-9


@each_alpha
def test_the_gradient_vanishes_at_the_optimum(alpha: float) -> None:
    X, y = rows_and_targets()
    weights = wide_weights(len(X))
    coefs = solve_ridge(make_ridge_problem(X, y, alpha), weights)
    slopes = weights * (y - predict(X, coefs))
    gradient = np.append(X.T @ slopes - alpha * coefs[:-1], slopes.sum())
    at_zero = np.append(X.T @ (weights * y), weights @ y)
    assert np.abs(gradient).max() < 1e-10 * np.abs(at_zero).max()


def test_a_weight_is_a_number_of_copies() -> None:
    X, y = rows_and_targets(n_rows=40)
    copies = np.arange(40) % 4
    found = solve_ridge(make_ridge_problem(X, y, 2.0), copies.astype(float))
    repeated = make_ridge_problem(np.repeat(X, copies, axis=0), np.repeat(y, copies), 2.0)
    np.testing.assert_allclose(found, solve_ridge(repeated, np.ones(copies.sum())), rtol=1e-10)


# --- hard data --------------------------------------------------------------------------------------------------


@pytest.mark.every_pair
@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-6, 1e-3])
def test_nearly_equal_columns_predict_what_one_of_them_predicts(noise: float, compiled: bool, alpha: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    X = np.column_stack((x, x + noise * rng.normal(size=300), rng.normal(size=300)))
    y = 2.0 * x + rng.normal(size=300)
    weights = wide_weights(300)
    problem = make_ridge_problem(X, y, alpha)
    found = solve_ridge(problem if compiled else uncompiled(problem), weights)
    model = Ridge(alpha=alpha, solver="svd").fit(X, y, sample_weight=weights)
    # The fits agree where the data determine them. Both lose half of the digits in what is left of the difference.
    assert np.abs(predict(X, found) - model.predict(X)).max() < 1e-6
    if noise == 0.0:
        # A penalty of 1e-12 is lost beside the rounding of the sums: then any share of the slope of 2 is right.
        assert np.abs(found[:2] - 1.0).max() < 0.2
        assert alpha == 1e-12 or found[0] == pytest.approx(found[1], rel=1e-6)


def test_refinement_brings_back_the_digits_that_the_gram_matrix_loses() -> None:
    """A pivot of 1e-9: the first solution is off by about 1e-7, and a refined one is not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    X = np.column_stack((x, x + 3e-5 * rng.normal(size=500)))
    y = rng.normal(size=500)
    problem = make_ridge_problem(X, y, 1e-12)
    wanted = scikit_learn_optimum(X, y, np.ones(500), 1e-12)
    for each in (problem, uncompiled(problem)):
        assert relative_error(solve_ridge(each, np.ones(500)), wanted) < 1e-9


@pytest.mark.parametrize("compiled", [True, False])
def test_weights_that_leave_one_place_predict_its_mean(compiled: bool) -> None:
    """The rows with weight are equal, far from the centre of the reference: no slope can be learned from them."""
    X, y = rows_and_targets(n_rows=200)
    X[:20] = 1000.0
    weights = np.where(np.arange(200) < 20, 1.0, 0.0)
    problem = make_ridge_problem(X, y, 1.0)
    found = solve_ridge(problem if compiled else uncompiled(problem), weights)
    np.testing.assert_allclose(found[:-1], 0.0, atol=1e-6)
    assert predict(X, found)[0] == pytest.approx(y[:20].mean(), rel=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_columns_of_any_scale(scale: float) -> None:
    X, y = rows_and_targets()
    X[:, 1] *= scale
    problem, weights = make_ridge_problem(X, y, 1.0), wide_weights(len(X))
    fitted = predict(X, solve_ridge(problem, weights))
    without = predict(X[:, [0, 2, 3]], solve_ridge(make_ridge_problem(X[:, [0, 2, 3]], y, 1.0), weights))
    free = X.copy()
    free[:, 1] *= 1e6 / scale  # so large that its penalty does not matter
    wanted = without if scale < 1.0 else predict(free, solve_ridge(make_ridge_problem(free, y, 1.0), weights))
    np.testing.assert_allclose(fitted, wanted, atol=1e-5 * np.abs(y).max())


def test_many_columns_of_a_huge_scale() -> None:
    X, y = rows_and_targets(n_rows=300, n_features=120)
    fits = []
    for scale in (1e6, 1e200):
        problem = make_ridge_problem(scale * X, y, 1.0)
        coefs = solve_ridge(problem, np.ones(300))
        fits.append(predict(scale * X, solve_ridge(problem, np.exp(0.1 * X[:, 0]), coefs)))
    np.testing.assert_allclose(fits[1], fits[0], atol=1e-5 * np.abs(y).max())


def test_constant_columns_get_no_slope() -> None:
    X, y = rows_and_targets()
    X[:, 2] = 7.0
    found = solve_ridge(make_ridge_problem(X, y, 1.0), wide_weights(len(X)))
    assert found[2] == pytest.approx(0.0, abs=1e-12)


def test_without_any_weight_the_prediction_is_the_mean() -> None:
    X, y = rows_and_targets()
    problem = make_ridge_problem(X, y, 1.0)
    found = solve_ridge(problem, np.zeros(len(X)))
    assert found[:-1].tolist() == [0.0] * 4
    assert found[-1] == pytest.approx(y.mean(), rel=1e-12)
    np.testing.assert_allclose(leave_one_out_predictions(problem, np.zeros(len(X))), y.mean(), rtol=1e-12)


@pytest.mark.parametrize("n_features", [4, 120])
@pytest.mark.parametrize("place", ["row", "target", "weight"])
def test_what_is_not_finite_is_an_error_and_no_garbage(place: str, n_features: int) -> None:
    X, y = rows_and_targets(n_features=n_features)
    weights = np.ones(len(X))
    {"row": X, "target": y, "weight": weights}[place].flat[3] = np.nan
    with pytest.raises(LinAlgError, match="must be finite"):
        solve_ridge(make_ridge_problem(X, y, 1.0), weights)


# --- rows left out ----------------------------------------------------------------------------------------------


def leave_out_slowly(X: FloatArray, y: FloatArray, weights: FloatArray, alpha: float) -> FloatArray:
    """One fit by scikit-learn for each row."""
    predictions = []
    for row in range(len(X)):
        rest = np.arange(len(X)) != row
        model = Ridge(alpha=alpha, solver="svd").fit(X[rest], y[rest], sample_weight=weights[rest])
        predictions.append(model.predict(X[[row]])[0])
    return np.array(predictions)


@pytest.mark.every_pair
@each_alpha
@each_weighting
@pytest.mark.parametrize("n_features", rest_slow([4, 70, 1, 100], n_fast=2))
def test_leave_one_out_is_exact(n_features: int, make_weights: Callable[[int], FloatArray], alpha: float) -> None:
    X, y = rows_and_targets(n_rows=60, n_features=n_features)
    weights = make_weights(60)
    wanted = leave_out_slowly(X, y, weights, alpha)
    problem = make_ridge_problem(X, y, alpha)
    # With more columns than rows and hardly a penalty, a row left out has a residual of zero over zero.
    tolerance = 1e-8 if n_features < 60 or alpha >= 1.0 else 1e-3
    for each in (problem, uncompiled(problem)):
        assert relative_error(leave_one_out_predictions(each, weights), wanted) < tolerance


def test_a_row_that_has_nearly_all_the_weight_is_left_out_by_a_fit_of_its_own() -> None:
    X, y = rows_and_targets(n_rows=30)
    weights = np.full(30, 1e-12)
    weights[7] = 1e6
    problem = make_ridge_problem(X, y, 1.0)
    found = leave_one_out_predictions(problem, weights)
    assert found[7] == pytest.approx(np.delete(y, 7).mean(), rel=1e-6)
    assert np.all(np.isfinite(found))


def test_a_row_that_has_all_the_weight_is_predicted_by_the_mean_of_the_others() -> None:
    X, y = rows_and_targets(n_rows=30)
    weights = np.zeros(30)
    weights[7] = 5.0
    for each in (problem := make_ridge_problem(X, y, 1.0), uncompiled(problem)):
        found = leave_one_out_predictions(each, weights)
        assert found[7] == pytest.approx(np.delete(y, 7).mean(), rel=1e-12)
        np.testing.assert_allclose(np.delete(found, 7), y[7], rtol=1e-9)


def test_leaving_a_row_of_weight_zero_out_changes_nothing() -> None:
    X, y = rows_and_targets()
    weights = (np.arange(len(X)) % 2).astype(float)
    problem = make_ridge_problem(X, y, 1.0)
    found, full = leave_one_out_predictions(problem, weights), predict(X, solve_ridge(problem, weights))
    np.testing.assert_allclose(found[::2], full[::2], rtol=1e-12)
    assert np.all(np.abs(found[1::2] - y[1::2]) > np.abs(full[1::2] - y[1::2]))


def test_one_row_is_its_own_mean() -> None:
    problem = make_ridge_problem(np.ones((1, 2)), np.array([3.0]), 1.0)
    assert solve_ridge(problem, np.ones(1)).tolist() == [0.0, 0.0, 3.0]
    assert leave_one_out_predictions(problem, np.ones(1)).tolist() == [3.0]


# --- many columns, from the last solution -----------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [100, 400])
def test_from_a_start_the_optimum_is_reached_to_nine_digits(n_features: int) -> None:
    X, y = rows_and_targets(n_rows=300, n_features=n_features)
    problem = make_ridge_problem(X, y, 1.0)
    coefs = solve_ridge(problem, np.ones(300))
    for step in range(1, 6):
        weights = np.exp(0.1 * step * X[:, 0])
        first = problem.axes.T @ coefs[:-1]
        slopes = descend_ridge(problem.rows, problem.targets, problem.mean_squares, 1.0, weights, first)
        assert slopes is not None
        coefs = solve_ridge(problem, weights, coefs)
        assert relative_error(coefs, solve_ridge(problem, weights)) < 1e-7
        np.testing.assert_allclose(problem.axes @ slopes, coefs[:-1], rtol=1e-12)


def test_after_a_jump_that_is_too_far_the_closed_form_answers() -> None:
    X, y = rows_and_targets(n_rows=300, n_features=120)
    problem, weights = make_ridge_problem(X, y, 1e-6), wide_weights(300)
    start = solve_ridge(problem, np.ones(300))
    first = problem.axes.T @ start[:-1]
    assert descend_ridge(problem.rows, problem.targets, problem.mean_squares, 1e-6, weights, first) is None
    np.testing.assert_array_equal(solve_ridge(problem, weights, start), solve_ridge(problem, weights))


@pytest.mark.parametrize("n_features", [4, 120])
def test_a_start_that_is_no_number_or_has_no_weights_does_no_harm(n_features: int) -> None:
    X, y = rows_and_targets(n_rows=300, n_features=n_features)
    problem = make_ridge_problem(X, y, 1.0)
    for weights in (np.ones(300), np.zeros(300)):
        found = solve_ridge(problem, weights, np.full(n_features + 1, np.nan))
        np.testing.assert_array_equal(found, solve_ridge(problem, weights))


# --- what a round relies on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [4, 100])
@pytest.mark.parametrize("function", [solve_ridge, leave_one_out_predictions])
def test_the_same_input_gives_the_same_bits(
    n_features: int, function: Callable[[RidgeProblem, FloatArray], FloatArray]
) -> None:
    X, y = rows_and_targets(n_features=n_features)
    weights = wide_weights(len(X))
    answers = {function(make_ridge_problem(X, y, 1.0), weights).tobytes() for _ in range(3)}
    assert len(answers) == 1
    read_only = weights[:]
    read_only.flags.writeable = False
    assert answers == {partial(function, make_ridge_problem(X, y, 1.0))(read_only).tobytes()}
