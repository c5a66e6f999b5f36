"""KMM: its quadratic program against scipy, its constraints, the continuation to further rows, and Nystroem."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from accous import KMM
from accous.diagnostics.losses import effective_sample_size
from accous.exceptions import ParameterError
from accous.ratio import one_step as kernel_matrix
from accous.ratio.one_step import CV_WIDTHS
from tests.budgets import examples
from tests.ratio.one_step_cases import gaussian_ratio, normal_rows


def kernels(rows, centers, width):
    return np.asarray(np.exp(-cdist(rows, centers, "sqeuclidean") / (2.0 * width**2)))


def system(estimator, reference, batch):
    """K + lambda I and kappa, by the documented formulas."""
    matrix = kernels(reference, reference, estimator.width_) + estimator.ridge_ * np.eye(len(reference))
    return matrix, len(reference) * kernels(reference, batch, estimator.width_).mean(axis=1)


def fitted(reference, batch, **settings: Any):
    return KMM(**({"feature_map": "identity", "random_state": 0} | settings)).fit(reference).partial_fit(batch)


def violation(gradient, weights, upper):
    """By how much the gradient fails to be one number between the bounds, more at 0 and less at B."""
    can_grow, can_shrink = weights < upper * (1.0 - 1e-9), weights > upper * 1e-9
    largest, smallest = gradient[can_shrink].max(initial=-np.inf), gradient[can_grow].min(initial=np.inf)
    return float(max(0.0, 0.5 * (largest - smallest)))


# --- the program ----------------------------------------------------------------------------------------------


@examples(150)
@given(
    seed=st.integers(0, 10**6),
    n_batch=st.integers(1, 60),
    n_columns=st.integers(1, 4),
    loc=st.sampled_from([0.0, 1.0, 10.0]),
    mass_tolerance=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    max_ratio=st.sampled_from([1.05, 2.0, 10.0, 1000.0]),
    ridge=st.sampled_from(["auto", 0, 0.3, 30.0]),  # 0 is the problem of the literature
    tol=st.sampled_from([1e-3, 1e-6, 1e-10]),
)
def test_the_constraints_and_the_optimality_conditions_hold(
    seed, n_batch, n_columns, loc, mass_tolerance, max_ratio, ridge, tol
):
    reference, batch = normal_rows(50, n_columns, seed=seed), normal_rows(n_batch, n_columns, seed=seed + 1, loc=loc)
    limits = {"mass_tolerance": mass_tolerance, "max_ratio": max_ratio}
    estimator = fitted(reference, batch, ridge=ridge, tol=tol, **limits)
    weights = estimator.reference_ratio_
    assert weights.min() >= 0.0
    assert weights.max() <= max_ratio
    assert 1.0 - mass_tolerance - 1e-9 <= weights.mean() <= 1.0 + mass_tolerance + 1e-9
    matrix, pull = system(estimator, reference, batch)
    gradient = matrix @ weights - pull
    tolerance = tol * len(reference) + 1e-8
    is_inside = 1.0 - mass_tolerance + 1e-9 < weights.mean() < 1.0 + mass_tolerance - 1e-9
    assert violation(gradient, weights, max_ratio) <= tolerance
    if is_inside:  # then the multiplier of the mass is 0
        assert np.abs(gradient[(weights > 0.0) & (weights < max_ratio)]).max(initial=0.0) <= tolerance


def test_kernel_means_match_under_loose_constraints():
    reference, batch = normal_rows(150, 1), normal_rows(400, 1, seed=1, loc=0.5)
    probe = np.linspace(-2.0, 2.0, 9)[:, None]
    estimator = fitted(reference, batch, ridge=1e-3, mass_tolerance=0.2, max_ratio=1000.0)
    of_reference = kernels(probe, reference, estimator.width_) @ estimator.reference_ratio_ / 150
    of_batch = kernels(probe, batch, estimator.width_).mean(axis=1)
    np.testing.assert_allclose(of_reference, of_batch, rtol=0.0, atol=5e-3)
    before = kernels(probe, reference, estimator.width_).mean(axis=1)
    assert np.abs(before - of_batch).max() > 0.05


# --- parameters that resolve themselves -----------------------------------------------------------------------


def test_the_automatic_ridge_is_reference_rows_per_batch_row():
    reference = normal_rows(60)
    for n_batch in (1, 7, 120):
        assert fitted(reference, normal_rows(n_batch, seed=1)).ridge_ == pytest.approx(60 / n_batch)


def test_the_default_ridge_spares_rows_that_the_literatures_problem_throws_away():
    reference, batch = normal_rows(400), normal_rows(5, seed=1)
    assert effective_sample_size(fitted(reference, batch).reference_ratio_) > 200.0
    assert effective_sample_size(fitted(reference, batch, ridge=0).reference_ratio_) < 80.0


def test_copies_of_the_batch_change_nothing_but_the_automatic_ridge():
    reference, batch = normal_rows(60), normal_rows(8, seed=1, loc=0.7)
    once, thrice = (fitted(reference, rows, ridge=5.0, tol=1e-10) for rows in (batch, np.tile(batch, (3, 1))))
    np.testing.assert_allclose(thrice.reference_ratio_, once.reference_ratio_, rtol=0.0, atol=1e-8)


def test_the_width_is_that_of_the_smallest_loss_of_held_out_rows():
    reference = normal_rows(40)
    estimator = KMM("identity", width="cv", ridge=2.0, tol=1e-9).fit(reference)
    widths = [factor * KMM("identity").fit(reference).width_ for factor in CV_WIDTHS]
    for seed, n_batch in enumerate((2, 4, 13)):
        batch = normal_rows(n_batch, seed=20 + seed, loc=0.5 * seed)
        part = np.arange(n_batch) % min(5, n_batch)
        losses = []
        for width in widths:
            held_out = []
            for k in range(part.max() + 1):
                other = fitted(reference, batch[part != k], width=width, ridge=2.0, tol=1e-9)
                of_reference = 0.5 * np.mean(other.reference_ratio_**2)
                held_out.append(of_reference - other.predict_ratio(batch[part == k]).mean())
            losses.append(np.mean(held_out))
        estimator.partial_fit(batch)
        chosen = int(np.argmin(np.abs(np.array(widths) - estimator.width_)))
        assert widths[chosen] == pytest.approx(estimator.width_, rel=1e-12)
        assert losses[chosen] <= min(losses) + 1e-6


def test_a_width_chosen_for_one_batch_is_not_kept_for_the_next():
    reference, last = normal_rows(60), normal_rows(20, seed=5, loc=0.5)
    settings = {"feature_map": "identity", "width": "cv", "ridge": 2.0, "tol": 1e-9}
    replaced = KMM(**settings).fit(reference).partial_fit(0.01 * normal_rows(20, seed=1) + 1.0).partial_fit(last)
    alone = KMM(**settings).fit(reference).partial_fit(last)
    assert replaced.width_ == alone.width_
    np.testing.assert_allclose(replaced.reference_ratio_, alone.reference_ratio_, rtol=0.0, atol=1e-6)


def test_without_a_ridge_nothing_can_be_cross_validated():
    with pytest.raises(ParameterError, match="needs a ridge"):
        KMM(ridge=0, width="cv").fit(normal_rows(20))


# --- further rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mass_tolerance", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("max_ratio", [1.2, 100.0])
@pytest.mark.parametrize(("n_batch", "tol"), [(1, 1e-6), (30, 1e-6), (300, 1e-9)])
def test_the_continuation_agrees_with_the_weights(n_batch, tol, max_ratio, mass_tolerance):
    reference, batch = normal_rows(90), normal_rows(n_batch, seed=1, loc=0.8)
    estimator = fitted(reference, batch, tol=tol, max_ratio=max_ratio, mass_tolerance=mass_tolerance)
    # An optimality condition violated by tol N_0, divided by the ridge N_0 / N_t.
    accuracy = 2.0 * tol * n_batch + 1e-9
    np.testing.assert_allclose(estimator.predict_ratio(reference), estimator.reference_ratio_, rtol=0.0, atol=accuracy)


def test_the_continuation_is_the_weight_that_one_more_row_would_get():
    # A row more among many hardly moves the others; its own weight comes out of a problem that contains it.
    reference, batch = normal_rows(400, 1), normal_rows(50, 1, seed=1, loc=0.7)
    estimator = fitted(reference, batch, width=1.0, ridge=10.0, tol=1e-9)
    for x in (-1.0, 0.3, 1.5):
        row = np.array([[x]])
        with_it = fitted(np.vstack((reference, row)), batch, width=1.0, ridge=10.0, tol=1e-9)
        assert estimator.predict_ratio(row)[0] == pytest.approx(with_it.reference_ratio_[-1], abs=0.05)


def test_many_rows_are_predicted_in_parts():
    estimator = fitted(normal_rows(50), normal_rows(9, seed=1, loc=0.5))
    probe = normal_rows(2500, seed=2)
    by_hundreds = np.concatenate([estimator.predict_ratio(part) for part in np.split(probe, 25)])
    np.testing.assert_allclose(estimator.predict_ratio(probe), by_hundreds, rtol=1e-9, atol=1e-12)


def test_without_a_ridge_only_the_reference_has_weights():
    estimator = KMM(ridge=0).fit(normal_rows(30))
    assert estimator.predict_ratio(normal_rows(3)).tolist() == [1.0] * 3
    estimator.partial_fit(normal_rows(5, seed=1))
    for method in (estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(ParameterError, match="ridge"):
            method(normal_rows(3))
    assert estimator.reference_ratio_.shape == (30,)


# --- Nystroem -------------------------------------------------------------------------------------------------


@pytest.fixture
def factored(monkeypatch):
    """A KMM that takes the way of large references."""

    def fit_factored(reference, batch, **settings: Any):
        monkeypatch.setattr(kernel_matrix, "_MAX_DENSE_ROWS", 1)
        estimator = fitted(reference, batch, **settings)
        monkeypatch.undo()
        return estimator

    return fit_factored


@pytest.mark.parametrize("mass_tolerance", [0.0, 0.3])
@pytest.mark.parametrize(("n_batch", "n_columns"), [(1, 1), (10, 3), (200, 2)])
def test_with_all_rows_as_centres_nystroem_is_exact(factored, n_batch, n_columns, mass_tolerance):
    reference, batch = normal_rows(80, n_columns), normal_rows(n_batch, n_columns, seed=1, loc=0.7)
    settings = {"mass_tolerance": mass_tolerance, "tol": 1e-9, "max_centers": 80}
    exact, other = (make(reference, batch, **settings) for make in (fitted, factored))
    probe, close = normal_rows(40, n_columns, seed=2), {"rtol": 0.0, "atol": 1e-4}
    # Eigenvalues below 1e-10 of the largest are left out.
    np.testing.assert_allclose(other.reference_ratio_, exact.reference_ratio_, **close)
    np.testing.assert_allclose(other.predict_ratio(probe), exact.predict_ratio(probe), **close)
    np.testing.assert_allclose(other.predict_ratio(reference), other.reference_ratio_, **close)


def test_with_fewer_centres_nystroem_is_near(factored):
    reference, batch = normal_rows(400), normal_rows(60, seed=1, loc=0.7)
    exact = fitted(reference, batch).reference_ratio_
    found = [factored(reference, batch, max_centers=n_centers).reference_ratio_ for n_centers in (3, 20, 100)]
    errors = [np.abs(each - exact).mean() for each in found]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.01 < errors[0]


def test_without_a_ridge_nystroem_keeps_the_constraints(factored):
    reference, batch = normal_rows(150), normal_rows(20, seed=1, loc=0.7)
    weights = factored(reference, batch, ridge=0, max_centers=40, max_ratio=50.0).reference_ratio_
    assert weights.mean() == pytest.approx(1.0, abs=1e-9)
    assert 0.0 <= weights.min() <= weights.max() <= 50.0
    assert weights @ reference[:, 0] / weights.sum() > 0.3


def test_above_two_thousand_rows_the_ratio_is_still_found():
    reference, batch = normal_rows(2500), normal_rows(500, seed=1, loc=[0.6, 0.6])
    estimator = KMM(random_state=0).fit(reference).partial_fit(batch)
    assert estimator.reference_ratio_.mean() == pytest.approx(1.0, abs=1e-9)
    expected = gaussian_ratio(reference, np.array([0.6, 0.6]))
    is_central = np.abs(reference).max(axis=1) < 2.0
    assert np.corrcoef(estimator.reference_ratio_[is_central], expected[is_central])[0, 1] > 0.9
    np.testing.assert_allclose(estimator.predict_ratio(reference), estimator.reference_ratio_, rtol=0.0, atol=2e-3)
    dense = KMM(random_state=0).fit(reference[:2000]).partial_fit(batch).predict_ratio(reference[is_central])
    np.testing.assert_allclose(dense, estimator.reference_ratio_[is_central], rtol=0.0, atol=0.5)


# --- starting from the last answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", ["auto", 1.0])
@pytest.mark.parametrize("mass_tolerance", [0.0, 0.2])
def test_a_warm_start_ends_where_a_cold_one_does(mass_tolerance, ridge):
    reference = normal_rows(150)
    settings = {"ridge": ridge, "mass_tolerance": mass_tolerance, "tol": 1e-9, "max_ratio": 5.0}
    warm = KMM("identity", random_state=0, **settings).fit(reference)
    for t, n_batch in enumerate((5, 1, 60, 5, 300)):
        batch = normal_rows(n_batch, seed=t + 1, loc=[2.0 * math.cos(t), 2.0 * math.sin(t)])
        warm.partial_fit(batch)
        cold = fitted(reference, batch, **settings)
        np.testing.assert_allclose(warm.reference_ratio_, cold.reference_ratio_, rtol=0.0, atol=1e-5)
        np.testing.assert_allclose(warm.predict_ratio(batch), cold.predict_ratio(batch), rtol=0.0, atol=1e-5)


def test_the_literatures_tolerance_depends_on_the_reference():
    rng = np.random.default_rng(0)
    reference, batch = rng.normal(size=(100, 2)), rng.normal(loc=1.0, size=(3, 2))
    given, named = (
        KMM(ridge=0, mass_tolerance=tolerance).fit(reference).partial_fit(batch).reference_ratio_
        for tolerance in (0.9, "literature")
    )
    np.testing.assert_allclose(named, given, atol=1e-9)
