"""ULSIF, RULSIF and KLIEP: the sum of kernels that they fit, its coefficients, and the choice of width and ridge."""

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist

from accous import KLIEP, RULSIF, ULSIF
from accous.exceptions import ParameterError
from accous.ratio.one_step import CV_RIDGES, CV_WIDTHS
from tests.budgets import examples, rest_slow
from tests.oracles import slow_coefs, slow_leave_one_out
from tests.ratio.one_step_cases import (
    KERNEL_SUMS,
    each_kernel_sum,
    gaussian_ratio,
    make,
    normal_rows,
    relative_ratio,
    weights_of,
)


def kernels(rows, centers, width):
    return np.asarray(np.exp(-cdist(rows, centers, "sqeuclidean") / (2.0 * width**2)))


def as_rows(rows):
    return {tuple(row) for row in rows.round(9).tolist()}


# --- the sum of kernels -----------------------------------------------------------------------------------------


@each_kernel_sum
def test_the_ratio_is_the_sum_of_kernels_at_rows_of_the_batch_that_is_shown(name):
    reference, batch, probe = normal_rows(60, 3), normal_rows(30, 3, seed=1, loc=0.5), normal_rows(25, 3, seed=2)
    for max_centers in (30, 7):
        estimator = make(name, feature_map="identity", width=0.9, max_centers=max_centers).fit(reference)
        assert estimator.centers_.shape == (0, 3)
        assert estimator.coef_.shape == (0,)
        estimator.partial_fit(batch)
        assert estimator.width_ == 0.9
        assert estimator.centers_.shape == (max_centers, 3)
        assert as_rows(estimator.centers_) <= as_rows(batch)
        assert np.all(estimator.coef_ >= 0.0)
        by_hand = kernels(probe, estimator.centers_, 0.9) @ estimator.coef_
        np.testing.assert_allclose(estimator.predict_ratio(probe), by_hand, rtol=1e-9, atol=1e-12)


@each_kernel_sum
def test_standardised_rows_are_what_kernels_see(name):
    reference, batch = normal_rows(60, 2) * [10.0, 0.1] + 3.0, normal_rows(8, 2, seed=1) * [10.0, 0.1] + 3.5
    mean, scale = reference.mean(axis=0), reference.std(axis=0)
    by_hand = weights_of(name, (reference - mean) / scale, (batch - mean) / scale, feature_map="identity")
    np.testing.assert_allclose(weights_of(name, reference, batch), by_hand, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [*KERNEL_SUMS, "KMM"])
@pytest.mark.parametrize("width", ["median", "cv"])
def test_the_default_width_goes_by_the_median_distance_and_one_row_cannot_be_validated_on(name, width):
    reference = normal_rows(80, 3)
    settings = {"width": width} | ({"ridge": "cv"} if width == "cv" and name in {"ULSIF", "RULSIF"} else {})
    estimator = make(name, feature_map="identity", **settings).fit(reference)
    # The kernel has fallen to 1/e at the median distance.
    expected = math.sqrt(np.median(pdist(reference, "sqeuclidean")) / 2.0)
    assert estimator.width_ == pytest.approx(expected, rel=1e-9)
    assert estimator.partial_fit(reference[:1]).width_ == pytest.approx(expected, rel=1e-9)
    assert name not in {"ULSIF", "RULSIF"} or estimator.ridge_ == 0.1


@each_kernel_sum
def test_a_fitted_width_far_too_narrow_still_weighs_the_nearest_rows(name):
    # In 30 columns no row is within reach of a kernel of width 0.3: exp(-300) and less.
    reference, batch = normal_rows(60, 30), normal_rows(1, 30, seed=1)
    weights = weights_of(name, reference, batch, feature_map="identity", width=0.3)
    assert np.all(np.isfinite(weights))
    assert weights.max() > 0.0
    assert np.argmax(weights) == np.argmin(cdist(reference, batch)[:, 0])


@each_kernel_sum
def test_a_distant_centre_falls_off_as_it_would_nearby(name):
    # 40 widths away the kernel itself is exp(-800); its fall from row to row is what weights are made of.
    reference = np.column_stack((np.linspace(-0.05, 0.05, 11), np.zeros(11)))
    estimator = make(name, feature_map="identity", width=1.0, max_ratio=1e6).fit(reference)
    logs = np.log(estimator.partial_fit(np.array([[40.0, 0.0]])).reference_ratio_)
    expected = -((reference[:, 0] - 40.0) ** 2) / 2.0
    np.testing.assert_allclose(np.diff(logs), np.diff(expected), rtol=1e-6)


# --- least squares ----------------------------------------------------------------------------------------------


@examples(25)
@given(
    seed=st.integers(0, 10**6),
    n_batch=st.integers(1, 30),
    width=st.sampled_from([0.4, 1.0, 3.0]),
    ridge=st.sampled_from([0.01, 0.1, 2.0]),
    alpha=st.sampled_from([0.0, 0.1, 0.7]),
)
def test_least_squares_is_its_closed_form(seed, n_batch, width, ridge, alpha):
    reference, batch = normal_rows(40, seed=seed), normal_rows(n_batch, seed=seed + 1, loc=0.5)
    of_reference, of_batch = kernels(reference, batch, width), kernels(batch, batch, width)
    expected = of_reference @ np.maximum(slow_coefs(of_reference, of_batch, ridge, alpha), 0.0)
    found = weights_of("RULSIF", reference, batch, feature_map="identity", width=width, ridge=ridge, alpha=alpha)
    np.testing.assert_allclose(found, np.minimum(expected, 100.0), rtol=1e-6, atol=1e-9)


def test_ulsif_is_rulsif_without_the_batch_below():
    rows = normal_rows(50), normal_rows(20, seed=1, loc=0.5)
    assert weights_of("ULSIF", *rows).tobytes() == weights_of("RULSIF", *rows, alpha=0.0).tobytes()


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_rulsif_finds_the_relative_ratio_and_not_the_plain_one(alpha):
    shift, probe = np.array([1.5]), np.linspace(-2.0, 2.5, 40)[:, None]
    estimator = RULSIF(alpha=alpha, width="cv", random_state=0).fit(normal_rows(1000, 1))
    found = estimator.partial_fit(normal_rows(1000, 1, seed=1, loc=shift)).predict_ratio(probe)
    plain = gaussian_ratio(probe, shift)
    errors = {a: np.mean(np.abs(found - relative_ratio(plain, a))) for a in (0.0, alpha)}
    assert np.corrcoef(found, relative_ratio(plain, alpha))[0, 1] > 0.97
    assert errors[alpha] < 0.2
    assert errors[alpha] < 0.4 * errors[0.0]


@pytest.mark.parametrize(
    "settings", rest_slow([{"width": "cv"}, {"ridge": "cv"}, {"width": "cv", "ridge": "cv"}], 2), ids=str
)
@pytest.mark.parametrize("alpha", rest_slow([0.3, 0.0]))
def test_width_and_ridge_are_those_of_the_smallest_leave_one_out_loss(settings, alpha):
    reference = normal_rows(25, 2)
    estimator = RULSIF("identity", alpha=alpha, random_state=0, **settings).fit(reference)
    widths = [factor * estimator.width_ for factor in CV_WIDTHS] if "width" in settings else [estimator.width_]
    ridges = CV_RIDGES if "ridge" in settings else [0.1]
    for seed, n_batch in enumerate((2, 5, 12)):
        batch, losses = normal_rows(n_batch, 2, seed=10 + seed, loc=seed), {}
        for width, ridge in product(widths, ridges):
            of_rows = (kernels(rows, batch, width) for rows in (reference, batch))
            losses[width, ridge] = slow_leave_one_out(*of_rows, ridge, alpha)
        estimator.partial_fit(batch)
        chosen = min(losses, key=lambda each: abs(each[0] - estimator.width_) + abs(each[1] - estimator.ridge_))
        assert chosen == (pytest.approx(estimator.width_), pytest.approx(estimator.ridge_))
        assert losses[chosen] <= min(losses.values()) + 1e-9


@pytest.mark.parametrize("settings", [{"width": 1.0, "ridge": 1e-30}, {"width": "cv", "ridge": 1e-300}], ids=str)
def test_a_ridge_too_small_for_rows_that_are_alike_is_named(settings):
    with pytest.raises(ParameterError, match="ridge"):  # and no warning before it
        ULSIF(**settings).fit(normal_rows(60)).partial_fit(np.repeat(normal_rows(3, seed=1), 4, axis=0))


# --- KLIEP ------------------------------------------------------------------------------------------------------


def log_likelihood(estimator, batch):
    return float(np.log(estimator.predict_ratio(batch)).mean())


@examples(15)
@given(seed=st.integers(0, 10**6), n_batch=st.integers(1, 60), n_columns=st.integers(1, 4))
def test_kliep_is_as_accurate_as_it_says(seed, n_batch, n_columns):
    reference, batch = normal_rows(80, n_columns, seed=seed), normal_rows(n_batch, n_columns, seed=seed + 1, loc=0.5)
    estimator = KLIEP("identity", tol=1e-8, max_ratio=1e6).fit(reference).partial_fit(batch)
    of_batch, of_reference = (kernels(rows, batch, estimator.width_) for rows in (batch, reference))
    assert of_reference.mean(axis=0) @ estimator.coef_ == pytest.approx(1.0, abs=1e-9)
    # By how much the likelihood rises at most when mass moves to one centre: the gradient's largest entry, less 1.
    slopes = (of_batch / (of_batch @ estimator.coef_)[:, None]).mean(axis=0) / of_reference.mean(axis=0)
    assert slopes.max() - 1.0 <= 1e-8 + 1e-9


@pytest.mark.parametrize("max_centers", [100, 10, 7])
def test_the_width_of_kliep_is_that_of_the_likeliest_held_out_rows(max_centers):
    reference, common = normal_rows(40, 2), {"max_ratio": 1e9, "max_centers": max_centers, "random_state": 0}
    estimator = KLIEP("identity", width="cv", **common).fit(reference)
    widths = [factor * estimator.width_ for factor in CV_WIDTHS]
    for seed, n_batch in enumerate((2, 4, 13)):
        batch = normal_rows(n_batch, 2, seed=20 + seed, loc=0.5 * seed)
        part = np.arange(n_batch) % min(5, n_batch)
        scores = []
        for width in widths:
            fitted = KLIEP("identity", width=width, **common).fit(reference)
            held_out = [
                log_likelihood(fitted.partial_fit(batch[part != k]), batch[part == k]) for k in range(part.max() + 1)
            ]
            scores.append(np.mean(held_out))
        estimator.partial_fit(batch)
        chosen = int(np.argmin(np.abs(np.array(widths) - estimator.width_)))
        assert widths[chosen] == pytest.approx(estimator.width_, rel=1e-12)
        assert scores[chosen] >= max(scores) - 1e-6


def test_kliep_tries_the_widths_of_a_large_batch_one_by_one():
    estimator = KLIEP("identity", width="cv", random_state=0).fit(normal_rows(200, 2))
    batch = normal_rows(4_000, 2, seed=1)
    tracemalloc.start()
    estimator.partial_fit(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * (8 * 4_000 * 100)  # 6 times the distances to 100 centres; 31 times with all widths at once
