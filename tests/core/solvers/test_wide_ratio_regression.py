"""The regression of a batch against the reference with many columns: against scikit-learn and the dense one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from accous import LogisticRatio
from accous.core.ratio_problems import fit_ratio_regression, fit_wide_ratio_regression, make_wide_reference
from tests.budgets import examples
from tests.builders import Array
from tests.core.solvers.regressions import draw_rows, penalised_gradient, penalised_loss


def correlated_features(n_rows: int, n_features: int, seed: int, shift: float = 0.0) -> Array:
    """Rows whose axes have very different lengths, as embeddings have, and a constant."""
    mixing = np.random.default_rng(99).normal(size=(n_features - 1, n_features - 1))
    mixing *= np.geomspace(1.0, 0.01, n_features - 1)[:, None]
    rows = np.random.default_rng(seed).normal(shift, size=(n_rows, n_features - 1)) @ mixing
    return np.column_stack((rows, np.ones(n_rows)))


def fit(reference: Array, batch: Array, ridge: float, max_steps: int = 100) -> Array:
    return fit_wide_ratio_regression(make_wide_reference(reference), batch, ridge, max_steps)


def fit_with_hessian(reference: Array, batch: Array, ridge: float) -> Array:
    return fit_ratio_regression(reference, batch, ridge, np.zeros(reference.shape[1]), 100)


@pytest.mark.parametrize("ridge", [1e-3, 0.2, 10.0])
@pytest.mark.parametrize(("n_reference", "n_batch"), [(300, 1), (300, 5), (60, 5), (300, 65), (150, 400)])
def test_the_minimum_is_that_of_the_regression_with_a_hessian(n_reference: int, n_batch: int, ridge: float) -> None:
    reference, batch = correlated_features(n_reference, 100, 0), correlated_features(n_batch, 100, 1, shift=0.3)
    expected = fit_with_hessian(reference, batch, ridge)
    theta = fit(reference, batch, ridge)
    np.testing.assert_allclose(theta, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    losses = [penalised_loss(found, reference, batch, ridge) for found in (theta, expected)]
    assert losses[0] <= losses[1] * (1.0 + 1e-14)
    assert np.abs(penalised_gradient(theta, reference, batch, ridge)).max() <= 1e-8


def test_the_minimum_is_scikit_learns() -> None:
    reference, batch = correlated_features(400, 128, 0), correlated_features(5, 128, 1, shift=0.5)
    weights = np.repeat([0.5 / 400, 0.5 / 5], [400, 5])
    model = LogisticRegression(C=5.0, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(np.vstack((reference, batch))[:, :-1], np.repeat([0, 1], [400, 5]), sample_weight=weights)
    theta = -np.append(model.coef_[0], model.intercept_[0])
    np.testing.assert_allclose(fit(reference, batch, 0.2), theta, rtol=1e-5, atol=1e-7)


@examples(50)
@given(data=st.data(), ridge=st.sampled_from([1e-3, 0.1, 10.0]), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_gradient_vanishes_for_any_rows(data: st.DataObject, ridge: float, scale: float) -> None:
    reference, batch = draw_rows(data, scale)
    gradient = penalised_gradient(fit(reference, batch, ridge), reference, batch, ridge)
    assert np.abs(gradient).max() <= 1e-7


@pytest.mark.parametrize("offset", [100.0, -1e4])
def test_moving_all_rows_moves_the_intercept_and_nothing_else(offset: float) -> None:
    reference, batch = correlated_features(200, 100, 0), correlated_features(5, 100, 1, shift=0.3)
    step = np.append(np.full(99, offset), 0.0)
    still, moved = fit(reference, batch, 0.2), fit(reference + step, batch + step, 0.2)
    np.testing.assert_allclose(moved[:-1], still[:-1], rtol=0.0, atol=1e-7)
    assert moved[-1] == pytest.approx(still[-1] - offset * still[:-1].sum(), rel=1e-5)


@pytest.mark.parametrize("scale", [1e-60, 1e-20, 1e20, 1e60])
def test_single_precision_has_room_for_features_of_any_size(scale: float) -> None:
    reference, batch = correlated_features(200, 100, 0), correlated_features(5, 100, 1, shift=0.3)
    units = np.append(np.full(99, scale), 1.0)
    theta = fit(reference * units, batch * units, 0.2 * scale * scale)
    np.testing.assert_allclose(theta * units, fit(reference, batch, 0.2), rtol=1e-5, atol=1e-7)


def test_a_few_long_rows_with_all_the_curvature_are_no_obstacle() -> None:
    # Conjugate gradients do not get through here.
    reference, batch = correlated_features(400, 100, 0), correlated_features(5, 100, 1, shift=0.3)
    reference[::40, :-1] *= 1000.0
    theta = fit(reference, batch, 0.01)
    np.testing.assert_allclose(theta, fit_with_hessian(reference, batch, 0.01), rtol=1e-5, atol=1e-6)
    assert np.abs(penalised_gradient(theta, reference, batch, 0.01)).max() <= 1e-9


def test_columns_and_rows_that_say_nothing_are_no_obstacle() -> None:
    reference, batch = correlated_features(200, 100, 0), correlated_features(1, 100, 1, shift=0.3)
    reference[:, 3] = batch[:, 3] = 0.0
    theta = fit(reference, batch, 0.2)
    assert abs(theta[3]) <= 1e-12
    # A batch of the same row over and over is that row, and one at the reference's mean has the ratio one.
    np.testing.assert_allclose(fit(reference, np.repeat(batch, 7, axis=0), 0.2), theta, atol=1e-7)
    np.testing.assert_allclose(fit(reference, reference.mean(axis=0)[None], 0.2)[:-1], 0.0, atol=1e-7)
    np.testing.assert_allclose(fit(reference, reference, 0.2), 0.0, atol=1e-7)


@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_every_step_goes_down(max_steps: int) -> None:
    reference, batch = correlated_features(200, 100, 0), correlated_features(5, 100, 1, shift=0.5)
    before, after = (
        penalised_loss(fit(reference, batch, 0.01, n_steps), reference, batch, 0.01)
        for n_steps in (max_steps, max_steps + 1)
    )
    assert after <= before < np.log(2.0)


def test_arguments_are_not_written_into() -> None:
    reference, batch = correlated_features(50, 100, 0), correlated_features(4, 100, 1)
    reference.flags.writeable = batch.flags.writeable = False
    fit(reference, batch, 0.1)


@pytest.mark.parametrize("n_columns", [3, 120])
def test_the_same_batch_gives_the_same_bits_whatever_came_before(n_columns: int) -> None:
    rng = np.random.default_rng(0)
    ratio = LogisticRatio().fit(rng.normal(size=(150, n_columns)))
    batch = rng.normal(0.5, size=(5, n_columns))
    first = ratio.partial_fit(batch).coef_
    ratio.partial_fit(rng.normal(-1.0, size=(9, n_columns)))
    np.testing.assert_array_equal(ratio.partial_fit(batch).coef_, first)
