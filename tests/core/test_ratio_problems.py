"""The problems inside one-step ratios: kernels, mixtures, least squares and regressions, against slow versions."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.spatial.distance import cdist, pdist
from sklearn.linear_model import LogisticRegression

from accous import LogisticRatio
from accous.core import kernels_pool as kernels_mixture
from accous.core.ratio_problems import (
    fit_least_squares,
    fit_mixture_weights,
    fit_ratio_regression,
    fit_wide_ratio_regression,
    gaussian_basis,
    largest_exponents,
    leave_one_out_losses,
    make_wide_reference,
    median_distance,
    spread_indices,
    squared_distances,
    squared_norms,
)
from tests.budgets import examples, rest_slow
from tests.builders import Array
from tests.oracles import logistic_gradient, logistic_loss, slow_coefs, slow_leave_one_out

LARGEST_UNSHIFTED = 30.0
MANY_STEPS = 100
each_seed = pytest.mark.parametrize("seed", range(4))
each_alpha = pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.99])
each_ridge = pytest.mark.parametrize("ridge", [1e-4, 0.1, 10.0])
each_regression_ridge = pytest.mark.parametrize("ridge", [1e-4, 0.01, 1.0, 100.0])


def normal_rows(n_rows, n_columns, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    rows.flags.writeable = False  # nothing here writes into its arguments
    return rows


# --- Gaussian kernels -------------------------------------------------------------------------------------------


@st.composite
def pairs_of_rows(draw):
    n_columns = draw(st.integers(1, 6))
    elements = st.floats(-1e3, 1e3)
    return tuple(draw(hnp.arrays(np.float64, (draw(st.integers(1, 6)), n_columns), elements=elements)) for _ in "ab")


@given(pair=pairs_of_rows())
@example((normal_rows(40, 500), normal_rows(25, 500, seed=1)))
def test_distances_are_those_of_scipy(pair):
    rows, centers = pair
    distances = squared_distances(rows, centers)
    scale = np.square(rows).sum(axis=1).max() + np.square(centers).sum(axis=1).max()
    np.testing.assert_allclose(distances, cdist(rows, centers, "sqeuclidean"), rtol=0.0, atol=1e-14 * scale)
    np.testing.assert_array_equal(squared_distances(rows, centers, squared_norms(rows)), distances)


@pytest.mark.parametrize(("n_rows", "n_columns"), [(2, 1), (3, 2), (30, 1), (31, 12), (20, 500)])
def test_the_median_is_that_of_all_pairs(n_rows, n_columns):
    rows = normal_rows(n_rows, n_columns, seed=n_rows)
    # The median of squares, then the root: with an even number of pairs that is not the median of the roots.
    expected = np.sqrt(np.median(pdist(rows, "sqeuclidean")))
    assert median_distance(rows) == pytest.approx(expected, rel=1e-12)


def test_the_median_scales_with_the_rows_and_ignores_a_shift():
    rows = normal_rows(30, 3)
    assert median_distance(7.0 * rows) == pytest.approx(7.0 * median_distance(rows), rel=1e-12)
    assert median_distance(rows + 5.0) == pytest.approx(median_distance(rows), rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 5, 10, 40])
def test_rows_most_of_which_coincide_have_no_median(n_columns, scale):
    # Rounding makes the distance of a row to its copy 1e-16 instead of 0, in some places and not in others.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = scale * rng.normal(size=(3, n_columns))
        rows = values[rng.choice(3, p=[0.85, 0.1, 0.05], size=100)]
        assert median_distance(rows - rows.mean(axis=0)) == 1.0


@pytest.mark.parametrize("width", [0.1, 1.0, 30.0])
def test_without_shifts_it_is_the_gaussian_and_near_centres_have_none(width):
    rows, centers = normal_rows(20, 3), normal_rows(7, 3, seed=1)
    distances = squared_distances(rows, centers)
    distances.flags.writeable = False
    expected = np.exp(-cdist(rows, centers, "sqeuclidean") / (2.0 * width**2))
    np.testing.assert_allclose(gaussian_basis(distances, width, np.zeros(7)), expected, rtol=1e-9, atol=1e-300)
    assert width < 1.0 or not largest_exponents(distances, width).any()


def test_the_shift_leaves_the_nearest_row_at_exponent_thirty():
    distances = np.array([[100.0, 59.0, 0.0], [400.0, 70.0, 1e9]])
    np.testing.assert_array_equal(largest_exponents(distances, 1.0), [20.0, 0.0, 0.0])
    np.testing.assert_array_equal(largest_exponents(distances, 0.5), [170.0, 88.0, 0.0])


@pytest.mark.parametrize("width", [0.3, 1.0])
def test_nothing_underflows_in_500_dimensions(width):
    rows, centers = normal_rows(60, 500), normal_rows(9, 500, seed=1)
    distances = squared_distances(rows, centers)
    plain = gaussian_basis(distances, width, np.zeros(9))
    assert plain.max() < 1e-100
    basis = gaussian_basis(distances, width, largest_exponents(distances, width))
    np.testing.assert_allclose(basis.max(axis=0), np.exp(-LARGEST_UNSHIFTED), rtol=1e-9)


@pytest.mark.parametrize("distance", [10.0, 1e3, 1e6])
def test_a_far_centre_keeps_its_shape_on_the_reference(distance):
    # The row moves by 1 / distance per step, so that exponents go up in steps of 1 however far the centre is.
    rows = np.zeros((5, 2))
    rows[:, 0] = -np.arange(5) / distance
    center = np.array([[distance, 0.0]])
    distances = squared_distances(rows, center)
    basis = gaussian_basis(distances, 1.0, largest_exponents(distances, 1.0))
    rounding = max(1e-9, 1e-15 * distance**2)
    np.testing.assert_allclose(np.diff(np.log(basis[:, 0])), -1.0, rtol=0.0, atol=rounding + 10.0 / distance**2)
    np.testing.assert_allclose(np.log(basis[0, 0]), -LARGEST_UNSHIFTED, rtol=0.0, atol=rounding)


@given(pair=pairs_of_rows(), exponent=st.integers(0, 60), width=st.floats(1e-3, 1e3))
def test_every_centre_keeps_a_reference_row_however_far_it_is(pair, exponent, width):
    rows, centers = pair[0], pair[1] * 10.0**exponent
    distances = squared_distances(rows, centers)
    basis = gaussian_basis(distances, width, largest_exponents(distances, width))
    # Distances of rows to themselves may be below 0 by rounding.
    rounding = 1e-14 * (np.square(rows).sum(axis=1).max() + np.square(pair[1]).sum(axis=1).max()) / width**2
    assert np.all((basis >= 0.0) & (basis <= np.exp(rounding)))
    # Exponents are so large here that taking 30 from them may round to taking twice as much, or nothing.
    assert np.all(basis.max(axis=0) >= np.exp(-2.2 * LARGEST_UNSHIFTED))


def test_a_shifted_kernel_is_one_around_its_centre():
    basis = gaussian_basis(np.array([[0.0], [10.0], [90.0]]), 1.0, np.array([20.0]))
    np.testing.assert_allclose(basis[:, 0], [1.0, 1.0, np.exp(-25.0)], rtol=1e-14)


@given(n_rows=st.integers(1, 300), n_wanted=st.integers(1, 300))
def test_as_many_rows_as_wanted_are_chosen_and_none_twice(n_rows, n_wanted):
    indices = spread_indices(normal_rows(n_rows, 2, seed=n_rows), n_wanted, np.array([1.0, -0.5]))
    assert len(indices) == len(np.unique(indices)) == min(n_rows, n_wanted)
    assert n_wanted < n_rows or indices.tolist() == list(range(n_rows))


@given(n_wanted=st.integers(1, 60), n_rows=st.integers(61, 200))
def test_the_chosen_rows_lie_evenly_along_the_direction(n_wanted, n_rows):
    rows, direction = normal_rows(n_rows, 3, seed=n_rows), np.array([1.0, 2.0, -1.0])
    ranks = np.argsort(np.argsort(rows @ direction))[spread_indices(rows, n_wanted, direction)]
    # One row from the middle of each of n_wanted parts of the same size.
    middles = (np.arange(n_wanted) + 0.5) * n_rows / n_wanted
    np.testing.assert_allclose(np.sort(ranks), middles, rtol=0.0, atol=1.0)


@given(seed=st.integers(0, 1000), n_wanted=st.integers(1, 40), n_distinct=st.integers(1, 60))
def test_the_order_of_the_rows_does_not_change_the_choice(seed, n_wanted, n_distinct):
    rng = np.random.default_rng(seed)
    # Integers: the projection is exact wherever a row stands. Few different rows make many ties.
    rows = rng.integers(-(10**6), 10**6, size=(n_distinct, 3))[rng.integers(n_distinct, size=50)].astype(np.float64)
    direction = rng.integers(1, 10**3, size=3).astype(np.float64)
    shuffled = rng.permutation(rows)
    chosen, other = (some[spread_indices(some, n_wanted, direction)] for some in (rows, shuffled))
    if n_wanted < len(rows):
        np.testing.assert_array_equal(other @ direction, chosen @ direction)
    np.testing.assert_array_equal(np.unique(other, axis=0), np.unique(chosen, axis=0))


# --- weights of a mixture by maximum likelihood -----------------------------------------------------------------


def mean_log_likelihood(likelihoods, weights):
    return float(np.log(likelihoods @ weights).mean())


def by_em(likelihoods, n_steps=20_000):
    """The EM algorithm, run for long: it rises in every step and never leaves the simplex."""
    weights = np.full(likelihoods.shape[1], 1.0 / likelihoods.shape[1])
    for _ in range(n_steps):
        weights = weights * (likelihoods / (likelihoods @ weights)[:, None]).mean(axis=0)
    return weights / weights.sum()


def by_scipy(likelihoods):
    n_components = likelihoods.shape[1]
    found = minimize(
        lambda b: (
            -np.log(np.maximum(likelihoods @ b, 1e-12)).mean(),
            -(likelihoods / np.maximum(likelihoods @ b, 1e-12)[:, None]).mean(axis=0),
        ),
        np.full(n_components, 1.0 / n_components),
        jac=True,
        bounds=[(0.0, 1.0)] * n_components,
        constraints=[{"type": "eq", "fun": lambda b: b.sum() - 1.0, "jac": np.ones_like}],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    weights = np.maximum(found.x, 0.0)
    return np.asarray(weights / weights.sum())


def kernel_likelihoods(n_rows, n_centers, *, width, n_columns=1, seed=0):
    """Kernels of a batch at centres among its rows: what KLIEP fits; neighbouring columns are nearly equal."""
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    kernels = np.exp(-cdist(rows, rows[:n_centers], "sqeuclidean") / (2.0 * width**2))
    kernels = np.maximum(kernels, 1e-300)
    return np.asarray(kernels / kernels.max(axis=1, keepdims=True))


def likelihood_gap(likelihoods, weights):
    """A bound on how far the mean log likelihood is below its maximum, by concavity."""
    return float((likelihoods.T @ (1.0 / (likelihoods @ weights))).max() / len(likelihoods) - 1.0)


def assert_weights(likelihoods, weights, tolerance):
    assert weights.shape == (likelihoods.shape[1],)
    assert np.all(weights >= 0.0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert likelihood_gap(likelihoods, weights) <= tolerance + 1e-14


@each_seed
@pytest.mark.parametrize(("n_rows", "n_components"), [(1, 4), (3, 2), (20, 3), (8, 8), (40, 5)])
def test_it_is_as_likely_as_scipys_and_as_that_of_em(n_rows, n_components, seed):
    likelihoods = np.random.default_rng(seed).random((n_rows, n_components)) ** 3 + 1e-3
    weights = fit_mixture_weights(likelihoods, 1e-10)
    assert_weights(likelihoods, weights, 1e-10)
    found = mean_log_likelihood(likelihoods, weights)
    for slow in (by_scipy(likelihoods), by_em(likelihoods, n_steps=3000)):
        assert found >= mean_log_likelihood(likelihoods, slow) - 1e-10
    np.testing.assert_allclose(weights, by_scipy(likelihoods), rtol=0.0, atol=1e-3)


def test_two_components_by_hand():
    # Three rows like the first, one that both explain equally well, and one like the second: beta is 3 / 4.
    likelihoods = np.array([[1.0, 0.0]] * 3 + [[1.0, 1.0]] + [[0.0, 1.0]])
    np.testing.assert_allclose(fit_mixture_weights(likelihoods, 1e-13), [0.75, 0.25], rtol=0.0, atol=1e-6)


def test_many_problems_are_fitted_as_each_alone():
    likelihoods = np.random.default_rng(4).random((3, 2, 9, 5)) ** 3 + 1e-3
    weights = fit_mixture_weights(likelihoods, 1e-12)
    assert weights.shape == (3, 2, 5)
    for place in np.ndindex(3, 2):
        np.testing.assert_array_equal(weights[place], fit_mixture_weights(likelihoods[place], 1e-12))
        np.testing.assert_allclose(weights[place], by_em(likelihoods[place], n_steps=5000), rtol=0.0, atol=1e-4)


def test_problems_that_the_compiled_loops_do_not_solve_are_solved(monkeypatch):
    likelihoods = np.random.default_rng(5).random((3, 9, 5)) ** 3 + 1e-3
    expected = fit_mixture_weights(likelihoods, 1e-12)
    kernel = kernels_mixture.fit_mixtures

    def fail_at_two(*arguments: Array):
        kernel(*arguments)
        *_, weights, gaps = arguments
        weights[:2], gaps[:2] = np.nan, (1.0, np.nan)

    monkeypatch.setattr(kernels_mixture, "fit_mixtures", fail_at_two)
    weights = fit_mixture_weights(likelihoods, 1e-12)
    np.testing.assert_allclose(weights, expected, rtol=0.0, atol=1e-6)
    assert np.any(weights[:2] != expected[:2])  # by another method
    np.testing.assert_array_equal(weights[2], expected[2])


@pytest.mark.every_pair
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8])
@pytest.mark.parametrize("width", rest_slow([0.1, 1.0, 0.5, 2.0], n_fast=2))
@pytest.mark.parametrize("n_columns", [1, 3, 12])
@pytest.mark.parametrize(("n_rows", "n_centers"), [(2, 2), (20, 20), (50, 50), (160, 101), (160, 150), (300, 100)])
def test_kernels_are_fitted_to_the_tolerance(n_rows, n_centers, n_columns, width, tolerance):
    likelihoods = kernel_likelihoods(n_rows, n_centers, width=width, n_columns=n_columns)
    likelihoods.flags.writeable = False
    assert_weights(likelihoods, fit_mixture_weights(likelihoods, tolerance), tolerance)


@pytest.mark.parametrize("spread", [1.0, 5.0, 20.0, 100.0])
@each_seed
def test_likelihoods_of_very_different_size_are_fitted_to_the_tolerance(spread, seed):
    logs = spread * np.random.default_rng(seed).normal(size=(30, 20))
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
    assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-8), 1e-8)


@st.composite
def likelihood_matrices(draw):
    """Small matrices with zeros and repetitions; every row has a positive entry."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    matrix = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.0, 1e-6, 0.1, 0.3, 0.5, 0.9, 1.0])))
    matrix[matrix.max(axis=1) == 0.0, draw(st.integers(0, shape[1] - 1))] = 1.0
    return matrix


@given(likelihoods=likelihood_matrices())
def test_any_small_matrix_is_fitted_to_the_tolerance(likelihoods):
    assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-9), 1e-9)


@examples(40)
@given(likelihoods=likelihood_matrices(), seed=st.integers(0, 100))
def test_no_weights_are_better_by_more_than_the_gap(likelihoods, seed):
    rng = np.random.default_rng(seed)
    best = mean_log_likelihood(likelihoods, by_em(likelihoods, n_steps=300))
    for concentration in (0.1, 1.0, 10.0):
        weights = rng.dirichlet(np.full(likelihoods.shape[1], concentration)) + 1e-9
        weights /= weights.sum()
        gap = likelihood_gap(likelihoods, weights)
        assert gap >= -1e-12
        assert best - mean_log_likelihood(likelihoods, weights) <= gap + 1e-12


def test_the_gap_by_hand():
    likelihoods = np.array([[1.0, 0.0], [0.5, 0.5]])
    # The mixture is (1/2, 1/2); the first component's likelihood is 2 and 1 times that, the second's 0 and 1.
    assert likelihood_gap(likelihoods, np.array([0.5, 0.5])) == pytest.approx(0.5)
    assert likelihood_gap(likelihoods, np.array([1.0, 0.0])) == pytest.approx(0.0, abs=1e-15)


def test_components_that_explain_nothing_get_nothing():
    likelihoods = np.random.default_rng(0).random((20, 6)) + 0.1
    likelihoods[:, [1, 4]] = 0.0
    weights = fit_mixture_weights(likelihoods, 1e-10)
    assert_weights(likelihoods, weights, 1e-10)
    assert weights[[1, 4]].max() <= 1e-9
    without = fit_mixture_weights(likelihoods[:, [0, 2, 3, 5]], 1e-10)
    np.testing.assert_allclose(weights[[0, 2, 3, 5]], without, rtol=0.0, atol=1e-4)


def test_components_that_are_alike_share_what_one_would_get():
    once = np.random.default_rng(1).random((40, 3)) ** 4 + 1e-3
    weights = fit_mixture_weights(np.repeat(once, 3, axis=1), 1e-11)
    assert_weights(np.repeat(once, 3, axis=1), weights, 1e-11)
    expected = fit_mixture_weights(once, 1e-11)
    np.testing.assert_allclose(weights.reshape(3, 3).sum(axis=1), expected, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("n_components", [1, 2, 10, 60])
def test_one_row_goes_to_its_likeliest_component(n_components):
    for seed in range(5):
        likelihoods = np.random.default_rng(seed).random((1, n_components))
        weights = fit_mixture_weights(likelihoods, 1e-8)
        assert_weights(likelihoods, weights, 1e-8)
        # Weight elsewhere costs likelihood: within the tolerance hardly any is left there.
        margins = 1.0 - likelihoods[0] / likelihoods.max()
        assert weights @ margins <= 1e-7


def test_neither_the_scale_nor_the_order_of_rows_matters():
    rng = np.random.default_rng(2)
    likelihoods = rng.random((15, 4)) ** 4 + 1e-3
    scales, expected = 10.0 ** rng.uniform(-30.0, 30.0, size=(15, 1)), fit_mixture_weights(likelihoods, 1e-11)
    found = fit_mixture_weights(rng.permutation(scales * likelihoods), 1e-11)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)


# --- the closed form of uLSIF and RuLSIF ------------------------------------------------------------------------


def kernels(n_rows, n_basis, seed):
    """Values of basis functions, between 0 and 1 as those of kernels are."""
    values = np.random.default_rng(seed).random((n_rows, n_basis)) ** 2
    values.flags.writeable = False
    return values


@pytest.mark.every_pair
@each_alpha
@each_ridge
@pytest.mark.parametrize("sizes", [(30, 7, 5), (40, 10, 6), (5, 30, 9), (2, 1, 1), (4, 3, 20)])
def test_coefficients_are_those_of_the_closed_form(sizes, ridge, alpha):
    n_reference, n_batch, n_basis = sizes
    reference, batch = kernels(n_reference, n_basis, 0), kernels(n_batch, n_basis, 1)
    expected = np.maximum(slow_coefs(reference, batch, ridge, alpha), 0.0)
    np.testing.assert_allclose(fit_least_squares(reference, batch, ridge, alpha), expected, rtol=1e-8, atol=1e-10)


def test_a_batch_in_the_denominator_bounds_the_ratio():
    # Two bins; the batch is in the one that the reference hardly knows: its relative ratio tends to 1 / alpha.
    reference = np.array([[1.0, 0.0]] * 999 + [[0.0, 1.0]])
    batch = np.array([[0.0, 1.0]] * 10)
    for alpha, expected in ((0.0, 1000.0), (0.1, 1.0 / (0.1 + 0.9e-3)), (0.5, 1.0 / (0.5 + 0.5e-3))):
        np.testing.assert_allclose(fit_least_squares(reference, batch, 1e-9, alpha), [0.0, expected], rtol=1e-5)


@each_alpha
@pytest.mark.parametrize("sizes", [(25, 8, 5), (3, 2, 4), (2, 2, 1), (8, 20, 12)])
def test_leaving_each_row_out_is_refitting_without_it(sizes, alpha):
    n_reference, n_batch, n_basis = sizes
    reference, batch = kernels(n_reference, n_basis, 0), kernels(n_batch, n_basis, 1)
    ridges = np.array([10.0, 1e-4, 0.1])
    expected = [slow_leave_one_out(reference, batch, ridge, alpha) for ridge in ridges]
    np.testing.assert_allclose(leave_one_out_losses(reference, batch, ridges, alpha), expected, rtol=1e-7)


@examples(40)
@given(data=st.data(), alpha=st.sampled_from([0.0, 0.3, 0.9]), ridge=st.sampled_from([1e-3, 0.1, 1.0]))
def test_leaving_out_rows_that_are_alike_or_zero(data, alpha, ridge):
    shapes = st.tuples(st.integers(2, 6), st.just(data.draw(st.integers(1, 4))))
    levels = st.sampled_from([0.0, 0.5, 1.0])
    reference, batch = (data.draw(hnp.arrays(np.float64, shapes, elements=levels)) for _ in range(2))
    expected = slow_leave_one_out(reference, batch, ridge, alpha)
    (found,) = leave_one_out_losses(reference, batch, np.array([ridge]), alpha)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-10)


# --- regressions of a batch against the reference, with few columns and with many -------------------------------


def features(n_rows, n_features, seed, shift=0.0):
    rows = np.random.default_rng(seed).normal(shift, size=(n_rows, n_features))
    rows[:, -1] = 1.0
    return rows


def correlated_features(n_rows, n_features, seed, shift=0.0):
    """Rows whose axes have very different lengths, as embeddings have, and a constant."""
    mixing = np.random.default_rng(99).normal(size=(n_features - 1, n_features - 1))
    mixing *= np.geomspace(1.0, 0.01, n_features - 1)[:, None]
    rows = np.random.default_rng(seed).normal(shift, size=(n_rows, n_features - 1)) @ mixing
    return np.column_stack((rows, np.ones(n_rows)))


def fit(reference, batch, ridge, start=None, max_steps=MANY_STEPS):
    start = np.zeros(reference.shape[1]) if start is None else start
    for array in (reference, batch, start):
        array.flags.writeable = False
    return fit_ratio_regression(reference, batch, ridge, start, max_steps)


def fit_wide(reference, batch, ridge, max_steps=MANY_STEPS):
    reference.flags.writeable = batch.flags.writeable = False
    return fit_wide_ratio_regression(make_wide_reference(reference), batch, ridge, max_steps)


each_fit = pytest.mark.parametrize("fit_one", [fit, fit_wide])


def penalised_loss(theta, reference, batch, ridge):
    return logistic_loss(theta, reference, batch) + 0.5 * ridge * float(theta[:-1] @ theta[:-1])


def penalised_gradient(theta, reference, batch, ridge):
    return np.asarray(logistic_gradient(theta, reference, batch) + ridge * np.append(theta[:-1], 0.0))


def draw_rows(data, scale):
    """A reference and a batch of a few rows, with a constant as last column."""
    n_features = data.draw(st.integers(1, 4))
    numbers = st.integers(-10, 10).map(lambda value: scale * value / 10.0)
    reference, batch = (
        data.draw(hnp.arrays(np.float64, (data.draw(st.integers(1, 6)), n_features), elements=numbers))
        for _ in range(2)
    )
    reference[:, -1] = batch[:, -1] = 1.0
    return reference, batch


@each_regression_ridge
@each_fit
@pytest.mark.parametrize("make", [features, correlated_features])
def test_the_minimum_is_scikit_learns(fit_one, ridge, make):
    reference, batch = make(150, 40, 0), make(5, 40, 1, shift=0.5)
    weights = np.repeat([0.5 / 150, 0.5 / 5], [150, 5])
    model = LogisticRegression(C=1.0 / ridge, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(np.vstack((reference, batch))[:, :-1], np.repeat([0, 1], [150, 5]), sample_weight=weights)
    # r = exp(-phi theta) are the odds of the batch.
    theta = -np.append(model.coef_[0], model.intercept_[0])
    np.testing.assert_allclose(fit_one(reference, batch, ridge), theta, rtol=1e-5, atol=1e-6 * np.abs(theta).max())


@each_fit
@examples(50)
@given(data=st.data(), ridge=st.sampled_from([1e-3, 0.1, 10.0]), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_gradient_vanishes_for_any_rows(fit_one, data, ridge, scale):
    reference, batch = draw_rows(data, scale)
    gradient = penalised_gradient(fit_one(reference, batch, ridge), reference, batch, ridge)
    assert np.abs(gradient).max() <= 1e-7


@pytest.mark.parametrize("start", [np.zeros(3), np.full(3, 5.0), np.array([-40.0, 10.0, 3.0]), np.full(3, -300.0)])
def test_the_start_does_not_matter(start):
    reference, batch = features(50, 3, 0), features(20, 3, 1, shift=1.0)
    np.testing.assert_allclose(fit(reference, batch, 0.05, start=start), fit(reference, batch, 0.05), atol=1e-7)


@pytest.mark.parametrize(("fit_one", "offset"), [(fit, 5.0), (fit_wide, 100.0), (fit_wide, -1e4)])
def test_the_intercept_is_free_of_the_penalty(fit_one, offset):
    reference, batch = correlated_features(200, 100, 0), correlated_features(5, 100, 1, shift=0.3)
    np.testing.assert_allclose(fit_one(reference, batch, 1e6)[:-1], 0.0, atol=1e-5)
    # Moving all rows moves the intercept and nothing else.
    step = np.append(np.full(99, offset), 0.0)
    still, moved = fit_one(reference, batch, 0.2), fit_one(reference + step, batch + step, 0.2)
    np.testing.assert_allclose(moved[:-1], still[:-1], rtol=0.0, atol=1e-6)
    assert moved[-1] == pytest.approx(still[-1] - offset * still[:-1].sum(), rel=1e-5, abs=1e-5)


def test_equal_rows_on_both_sides_give_the_ratio_one():
    rows = features(30, 4, 0)
    np.testing.assert_allclose(fit(rows, rows, 0.1), 0.0, atol=1e-8)
    np.testing.assert_allclose(fit(rows, np.vstack((rows, rows)), 0.1, start=np.ones(4)), 0.0, atol=1e-6)


@pytest.mark.parametrize("max_steps", [1, 2, 3, 5])
def test_no_more_steps_are_taken_than_allowed_and_each_goes_down(max_steps):
    reference, batch = features(50, 3, 0), features(20, 3, 1, shift=1.0)
    one_by_one = np.zeros(3)
    for _ in range(max_steps):
        before = penalised_loss(one_by_one, reference, batch, 0.05)
        one_by_one = fit(reference, batch, 0.05, start=one_by_one, max_steps=1)
        assert penalised_loss(one_by_one, reference, batch, 0.05) <= before
    np.testing.assert_allclose(fit(reference, batch, 0.05, max_steps=max_steps), one_by_one, rtol=1e-12, atol=1e-13)


def test_the_first_step_is_newtons():
    reference, batch = features(50, 3, 0), features(20, 3, 1, shift=0.3)
    hessian = 0.125 * (reference.T @ reference / 50 + batch.T @ batch / 20) + np.diag([0.5, 0.5, 0.0])
    expected = -np.linalg.solve(hessian, logistic_gradient(np.zeros(3), reference, batch))
    np.testing.assert_allclose(fit(reference, batch, 0.5, max_steps=1), expected, rtol=1e-6)


def test_columns_that_say_nothing_get_no_weight_and_equal_ones_share_theirs():
    reference, batch = features(30, 4, 0), features(12, 4, 1, shift=1.0)
    reference[:, 1] = batch[:, 1] = 0.0
    theta = fit(reference, batch, 0.1)
    assert theta[1] == 0.0
    kept = [0, 2, 3]
    np.testing.assert_allclose(theta[kept], fit(reference[:, kept], batch[:, kept], 0.1), rtol=1e-8)
    twice = fit(reference[:, [0, 0, 2, 3]], batch[:, [0, 0, 2, 3]], 0.1)
    assert twice[0] == pytest.approx(twice[1], rel=1e-9)


@pytest.mark.parametrize("ridge", [1e-3, 0.2, 10.0])
@pytest.mark.parametrize(("n_reference", "n_batch"), [(300, 1), (300, 5), (60, 5), (300, 65), (150, 400)])
def test_the_minimum_is_that_of_the_regression_with_a_hessian(n_reference, n_batch, ridge):
    reference, batch = correlated_features(n_reference, 100, 0), correlated_features(n_batch, 100, 1, shift=0.3)
    expected = fit(reference, batch, ridge)
    theta = fit_wide(reference, batch, ridge)
    np.testing.assert_allclose(theta, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    losses = [penalised_loss(found, reference, batch, ridge) for found in (theta, expected)]
    assert losses[0] <= losses[1] * (1.0 + 1e-14)
    assert np.abs(penalised_gradient(theta, reference, batch, ridge)).max() <= 1e-8


@pytest.mark.parametrize("scale", [1e-60, 1e-20, 1e20, 1e60])
def test_single_precision_has_room_for_features_of_any_size(scale):
    reference, batch = correlated_features(200, 100, 0), correlated_features(5, 100, 1, shift=0.3)
    units = np.append(np.full(99, scale), 1.0)
    theta = fit_wide(reference * units, batch * units, 0.2 * scale * scale)
    np.testing.assert_allclose(theta * units, fit_wide(reference, batch, 0.2), rtol=1e-5, atol=1e-7)


def test_a_few_long_rows_with_all_the_curvature_are_no_obstacle():
    # Conjugate gradients do not get through here.
    reference, batch = correlated_features(400, 100, 0), correlated_features(5, 100, 1, shift=0.3)
    reference[::40, :-1] *= 1000.0
    theta = fit_wide(reference, batch, 0.01)
    np.testing.assert_allclose(theta, fit(reference, batch, 0.01), rtol=1e-5, atol=1e-6)
    assert np.abs(penalised_gradient(theta, reference, batch, 0.01)).max() <= 1e-9


@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_every_step_with_many_columns_goes_down(max_steps):
    reference, batch = correlated_features(200, 100, 0), correlated_features(5, 100, 1, shift=0.5)
    thetas = [fit_wide(reference, batch, 0.01, n_steps) for n_steps in (max_steps, max_steps + 1)]
    before, after = (penalised_loss(theta, reference, batch, 0.01) for theta in thetas)
    assert after <= before < np.log(2.0)


def test_columns_and_rows_that_say_nothing_are_no_obstacle():
    reference, batch = correlated_features(200, 100, 0), correlated_features(1, 100, 1, shift=0.3)
    reference[:, 3] = batch[:, 3] = 0.0
    theta = fit_wide(reference, batch, 0.2)
    assert abs(theta[3]) <= 1e-12
    # A batch of the same row over and over is that row, and one at the reference's mean has the ratio one.
    np.testing.assert_allclose(fit_wide(reference, np.repeat(batch, 7, axis=0), 0.2), theta, atol=1e-7)
    np.testing.assert_allclose(fit_wide(reference, reference.mean(axis=0)[None], 0.2)[:-1], 0.0, atol=1e-7)
    np.testing.assert_allclose(fit_wide(reference, reference, 0.2), 0.0, atol=1e-7)


@pytest.mark.parametrize("n_columns", [3, 120])
def test_the_same_batch_gives_the_same_bits_whatever_came_before(n_columns):
    rng = np.random.default_rng(0)
    ratio = LogisticRatio().fit(rng.normal(size=(150, n_columns)))
    batch = rng.normal(0.5, size=(5, n_columns))
    first = ratio.partial_fit(batch).coef_
    ratio.partial_fit(rng.normal(-1.0, size=(9, n_columns)))
    np.testing.assert_array_equal(ratio.partial_fit(batch).coef_, first)
