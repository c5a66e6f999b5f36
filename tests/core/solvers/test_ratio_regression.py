"""Logistic regression of a batch against the reference: against scipy, scikit-learn and its own gradient."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from accous.core.ratio_problems import fit_ratio_regression
from tests.budgets import examples
from tests.builders import Array
from tests.core.solvers.regressions import draw_rows, penalised_gradient, penalised_loss
from tests.oracles import logistic_gradient

MANY_STEPS = 100

each_ridge = pytest.mark.parametrize("ridge", [1e-4, 0.01, 1.0, 100.0])


def features(n_rows: int, n_features: int, seed: int, shift: float = 0.0) -> Array:
    rows = np.random.default_rng(seed).normal(shift, size=(n_rows, n_features))
    rows[:, -1] = 1.0
    return rows


def fit(reference: Array, batch: Array, ridge: float, start: Array | None = None, max_steps: int = MANY_STEPS) -> Array:
    start = np.zeros(reference.shape[1]) if start is None else start
    return fit_ratio_regression(reference, batch, ridge, start, max_steps)


@each_ridge
@pytest.mark.parametrize(("n_reference", "n_batch", "n_features"), [(40, 10, 3), (10, 40, 2), (30, 1, 5), (5, 5, 1)])
def test_the_minimum_is_scipys(n_reference: int, n_batch: int, n_features: int, ridge: float) -> None:
    reference, batch = features(n_reference, n_features, 0), features(n_batch, n_features, 1, shift=0.7)
    found = minimize(
        lambda theta: (
            penalised_loss(theta, reference, batch, ridge),
            penalised_gradient(theta, reference, batch, ridge),
        ),
        np.zeros(n_features),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-9, "maxiter": 10_000},
    )
    theta = fit(reference, batch, ridge)
    assert penalised_loss(theta, reference, batch, ridge) <= found.fun + 1e-12
    np.testing.assert_allclose(theta, found.x, rtol=1e-4, atol=1e-5)


@each_ridge
def test_the_minimum_is_scikit_learns(ridge: float) -> None:
    reference, batch = features(60, 4, 0), features(25, 4, 1, shift=0.8)
    labels = np.repeat([0, 1], [60, 25])
    weights = np.repeat([0.5 / 60, 0.5 / 25], [60, 25])
    model = LogisticRegression(C=1.0 / ridge, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(np.vstack((reference, batch))[:, :-1], labels, sample_weight=weights)
    # r = exp(-phi theta) are the odds of the batch.
    theta = -np.append(model.coef_[0], model.intercept_[0])
    np.testing.assert_allclose(fit(reference, batch, ridge), theta, rtol=1e-5, atol=1e-7)


@examples(50)
@given(data=st.data(), ridge=st.sampled_from([1e-3, 0.1, 10.0]), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_gradient_vanishes_for_any_rows(data: st.DataObject, ridge: float, scale: float) -> None:
    reference, batch = draw_rows(data, scale)
    theta = fit(reference, batch, ridge)
    gradient = penalised_gradient(theta, reference, batch, ridge)
    assert np.abs(gradient).max() <= 1e-7


@pytest.mark.parametrize("start", [np.zeros(3), np.full(3, 5.0), np.array([-40.0, 10.0, 3.0]), np.full(3, -300.0)])
def test_the_start_does_not_matter(start: Array) -> None:
    reference, batch = features(50, 3, 0), features(20, 3, 1, shift=1.0)
    np.testing.assert_allclose(fit(reference, batch, 0.05, start=start), fit(reference, batch, 0.05), atol=1e-7)


def test_the_intercept_is_free_of_the_penalty() -> None:
    reference, batch = features(400, 3, 0), features(300, 3, 1, shift=3.0)
    heavy = fit(reference, batch, 1e6)
    np.testing.assert_allclose(heavy[:-1], 0.0, atol=1e-5)
    # Moving all rows moves the intercept and nothing else.
    step = np.array([5.0, 0.0, 0.0])
    moved = fit(reference + step, batch + step, 0.1)
    still = fit(reference, batch, 0.1)
    np.testing.assert_allclose(moved[:-1], still[:-1], rtol=0.0, atol=1e-6)
    assert moved[-1] == pytest.approx(still[-1] - 5.0 * still[0], abs=1e-5)


def test_equal_rows_on_both_sides_give_the_ratio_one() -> None:
    rows = features(30, 4, 0)
    np.testing.assert_allclose(fit(rows, rows, 0.1), 0.0, atol=1e-8)
    np.testing.assert_allclose(fit(rows, np.vstack((rows, rows)), 0.1, start=np.ones(4)), 0.0, atol=1e-6)


def test_the_ratio_is_batch_over_reference() -> None:
    theta = fit(features(200, 2, 0), features(200, 2, 1, shift=1.0), 1e-3)
    ratios = np.exp(-np.array([[-1.0, 1.0], [1.0, 1.0]]) @ theta)
    assert ratios[0] < 0.5
    assert ratios[1] > 1.5


def test_rows_that_can_be_separated_are_held_by_the_ridge() -> None:
    step = np.array([10.0, 0.0])
    reference, batch = features(20, 2, 0) - step, features(20, 2, 1) + step
    theta = fit(reference, batch, 1e-3)
    assert np.all(np.isfinite(theta))
    assert np.abs(penalised_gradient(theta, reference, batch, 1e-3)).max() <= 1e-8


@pytest.mark.parametrize("max_steps", [1, 2, 3, 5])
def test_no_more_steps_are_taken_than_allowed_and_each_goes_down(max_steps: int) -> None:
    reference, batch = features(50, 3, 0), features(20, 3, 1, shift=1.0)
    one_by_one = np.zeros(3)
    for _ in range(max_steps):
        before = penalised_loss(one_by_one, reference, batch, 0.05)
        one_by_one = fit(reference, batch, 0.05, start=one_by_one, max_steps=1)
        assert penalised_loss(one_by_one, reference, batch, 0.05) <= before
    np.testing.assert_allclose(fit(reference, batch, 0.05, max_steps=max_steps), one_by_one, rtol=1e-12, atol=1e-13)


def test_the_first_step_is_newtons() -> None:
    reference, batch = features(50, 3, 0), features(20, 3, 1, shift=0.3)
    hessian = 0.125 * (reference.T @ reference / 50 + batch.T @ batch / 20) + np.diag([0.5, 0.5, 0.0])
    expected = -np.linalg.solve(hessian, logistic_gradient(np.zeros(3), reference, batch))
    np.testing.assert_allclose(fit(reference, batch, 0.5, max_steps=1), expected, rtol=1e-6)


def test_columns_that_say_nothing_get_no_weight() -> None:
    reference, batch = features(30, 4, 0), features(12, 4, 1, shift=1.0)
    reference[:, 1] = batch[:, 1] = 0.0
    theta = fit(reference, batch, 0.1)
    assert theta[1] == 0.0
    kept = [0, 2, 3]
    np.testing.assert_allclose(theta[kept], fit(reference[:, kept], batch[:, kept], 0.1), rtol=1e-8)


def test_columns_that_are_alike_share_their_weight() -> None:
    reference, batch = features(30, 3, 0), features(12, 3, 1, shift=1.0)
    twice = fit(reference[:, [0, 0, 1, 2]], batch[:, [0, 0, 1, 2]], 0.1)
    assert twice[0] == pytest.approx(twice[1], rel=1e-9)


def test_arguments_are_not_written_into() -> None:
    reference, batch, start = features(9, 3, 0), features(4, 3, 1), np.zeros(3)
    for array in (reference, batch, start):
        array.flags.writeable = False
    fit(reference, batch, 0.1, start=start)
