"""Mixture weights by maximum likelihood: against scipy and the EM algorithm, and the certificate of the gap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from accous.core import kernels_pool as kernels_mixture
from accous.core.ratio_problems import fit_mixture_weights, likelihood_gap
from tests.budgets import examples, rest_slow
from tests.builders import Array

each_seed = pytest.mark.parametrize("seed", range(4))


def mean_log_likelihood(likelihoods: Array, weights: Array) -> float:
    return float(np.log(likelihoods @ weights).mean())


def by_em(likelihoods: Array, n_steps: int = 20_000) -> Array:
    """The EM algorithm, run for long: it rises in every step and never leaves the simplex."""
    weights = np.full(likelihoods.shape[1], 1.0 / likelihoods.shape[1])
    for _ in range(n_steps):
        weights = weights * (likelihoods / (likelihoods @ weights)[:, None]).mean(axis=0)
    return weights / weights.sum()


def by_scipy(likelihoods: Array) -> Array:
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


def kernel_likelihoods(n_rows: int, n_centers: int, *, width: float, n_columns: int = 1, seed: int = 0) -> Array:
    """Kernels of a batch at centres among its rows: what KLIEP fits; neighbouring columns are nearly equal."""
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    kernels = np.exp(-cdist(rows, rows[:n_centers], "sqeuclidean") / (2.0 * width**2))
    kernels = np.maximum(kernels, 1e-300)
    return np.asarray(kernels / kernels.max(axis=1, keepdims=True))


def assert_weights(likelihoods: Array, weights: Array, tolerance: float) -> None:
    assert weights.shape == (likelihoods.shape[1],)
    assert np.all(weights >= 0.0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert likelihood_gap(likelihoods, weights) <= tolerance + 1e-14


# --- against slow versions ------------------------------------------------------------------------------------


@each_seed
@pytest.mark.parametrize(("n_rows", "n_components"), [(1, 4), (3, 2), (20, 3), (8, 8), (40, 5)])
def test_it_is_as_likely_as_scipys_and_as_that_of_em(n_rows: int, n_components: int, seed: int) -> None:
    likelihoods = np.random.default_rng(seed).random((n_rows, n_components)) ** 3 + 1e-3
    weights = fit_mixture_weights(likelihoods, 1e-10)
    assert_weights(likelihoods, weights, 1e-10)
    found = mean_log_likelihood(likelihoods, weights)
    for slow in (by_scipy(likelihoods), by_em(likelihoods, n_steps=3000)):
        assert found >= mean_log_likelihood(likelihoods, slow) - 1e-10
    np.testing.assert_allclose(weights, by_scipy(likelihoods), rtol=0.0, atol=1e-3)


def test_two_components_by_hand() -> None:
    # Three rows like the first, one that both explain equally well, and one like the second: beta is 3 / 4.
    likelihoods = np.array([[1.0, 0.0]] * 3 + [[1.0, 1.0]] + [[0.0, 1.0]])
    np.testing.assert_allclose(fit_mixture_weights(likelihoods, 1e-13), [0.75, 0.25], rtol=0.0, atol=1e-6)


def test_many_problems_are_fitted_as_each_alone() -> None:
    likelihoods = np.random.default_rng(4).random((3, 2, 9, 5)) ** 3 + 1e-3
    weights = fit_mixture_weights(likelihoods, 1e-12)
    assert weights.shape == (3, 2, 5)
    for place in np.ndindex(3, 2):
        np.testing.assert_array_equal(weights[place], fit_mixture_weights(likelihoods[place], 1e-12))
        np.testing.assert_allclose(weights[place], by_em(likelihoods[place], n_steps=5000), rtol=0.0, atol=1e-4)


def test_problems_that_the_compiled_loops_do_not_solve_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihoods = np.random.default_rng(5).random((3, 9, 5)) ** 3 + 1e-3
    expected = fit_mixture_weights(likelihoods, 1e-12)
    kernel = kernels_mixture.fit_mixtures

    def fail_at_two(*arguments: Array) -> None:
        kernel(*arguments)
        *_, weights, gaps = arguments
        weights[:2], gaps[:2] = np.nan, (1.0, np.nan)

    monkeypatch.setattr(kernels_mixture, "fit_mixtures", fail_at_two)
    weights = fit_mixture_weights(likelihoods, 1e-12)
    np.testing.assert_allclose(weights, expected, rtol=0.0, atol=1e-6)
    assert np.any(weights[:2] != expected[:2])  # by another method
    np.testing.assert_array_equal(weights[2], expected[2])


# --- the accuracy that was asked for --------------------------------------------------------------------------


@pytest.mark.every_pair
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8])
@pytest.mark.parametrize("width", rest_slow([0.1, 1.0, 0.5, 2.0], n_fast=2))
@pytest.mark.parametrize(("n_rows", "n_centers"), [(2, 2), (20, 20), (50, 50), (300, 100)])
def test_kernels_of_one_column_are_fitted_to_the_tolerance(
    n_rows: int, n_centers: int, width: float, tolerance: float
) -> None:
    for seed in range(2):
        likelihoods = kernel_likelihoods(n_rows, n_centers, width=width, seed=seed)
        assert_weights(likelihoods, fit_mixture_weights(likelihoods, tolerance), tolerance)


@pytest.mark.parametrize("n_columns", [2, 5, 12])
def test_kernels_of_several_columns_are_fitted_to_the_tolerance(n_columns: int) -> None:
    for seed, width in enumerate((0.5, 1.0, 2.0)):
        likelihoods = kernel_likelihoods(100, 60, width=width, n_columns=n_columns, seed=seed)
        assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-8), 1e-8)


@pytest.mark.parametrize("n_centers", [100, 101, 150])
def test_many_components_are_fitted_to_the_tolerance_compiled_or_not(n_centers: int) -> None:
    for width in (0.3, 2.0):
        likelihoods = kernel_likelihoods(160, n_centers, width=width, n_columns=3)
        assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-8), 1e-8)


@pytest.mark.parametrize("spread", [1.0, 5.0, 20.0, 100.0])
@each_seed
def test_likelihoods_of_very_different_size_are_fitted_to_the_tolerance(spread: float, seed: int) -> None:
    logs = spread * np.random.default_rng(seed).normal(size=(30, 20))
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
    assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-8), 1e-8)


@st.composite
def likelihood_matrices(draw: st.DrawFn) -> Array:
    """Small matrices with zeros and repetitions; every row has a positive entry."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    matrix = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.0, 1e-6, 0.1, 0.3, 0.5, 0.9, 1.0])))
    matrix[matrix.max(axis=1) == 0.0, draw(st.integers(0, shape[1] - 1))] = 1.0
    return matrix


@given(likelihoods=likelihood_matrices())
def test_any_small_matrix_is_fitted_to_the_tolerance(likelihoods: Array) -> None:
    assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-9), 1e-9)


# --- the certificate ------------------------------------------------------------------------------------------


@examples(40)
@given(likelihoods=likelihood_matrices(), seed=st.integers(0, 100))
def test_no_weights_are_better_by_more_than_the_gap(likelihoods: Array, seed: int) -> None:
    rng = np.random.default_rng(seed)
    best = mean_log_likelihood(likelihoods, by_em(likelihoods, n_steps=300))
    for concentration in (0.1, 1.0, 10.0):
        weights = rng.dirichlet(np.full(likelihoods.shape[1], concentration)) + 1e-9
        weights /= weights.sum()
        gap = likelihood_gap(likelihoods, weights)
        assert gap >= -1e-12
        assert best - mean_log_likelihood(likelihoods, weights) <= gap + 1e-12


def test_the_gap_by_hand() -> None:
    likelihoods = np.array([[1.0, 0.0], [0.5, 0.5]])
    # The mixture is (1/2, 1/2); the first component's likelihood is 2 and 1 times that, the second's 0 and 1.
    assert likelihood_gap(likelihoods, np.array([0.5, 0.5])) == pytest.approx(0.5)
    assert likelihood_gap(likelihoods, np.array([1.0, 0.0])) == pytest.approx(0.0, abs=1e-15)


# --- degenerate columns and rows ------------------------------------------------------------------------------


def test_components_that_explain_nothing_get_nothing() -> None:
    likelihoods = np.random.default_rng(0).random((20, 6)) + 0.1
    likelihoods[:, [1, 4]] = 0.0
    weights = fit_mixture_weights(likelihoods, 1e-10)
    assert_weights(likelihoods, weights, 1e-10)
    assert weights[[1, 4]].max() <= 1e-9
    without = fit_mixture_weights(likelihoods[:, [0, 2, 3, 5]], 1e-10)
    np.testing.assert_allclose(weights[[0, 2, 3, 5]], without, rtol=0.0, atol=1e-4)


def test_components_that_are_alike_share_what_one_would_get() -> None:
    once = np.random.default_rng(1).random((40, 3)) ** 4 + 1e-3
    weights = fit_mixture_weights(np.repeat(once, 3, axis=1), 1e-11)
    assert_weights(np.repeat(once, 3, axis=1), weights, 1e-11)
    expected = fit_mixture_weights(once, 1e-11)
    np.testing.assert_allclose(weights.reshape(3, 3).sum(axis=1), expected, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("n_components", [1, 2, 10, 60])
def test_one_row_goes_to_its_likeliest_component(n_components: int) -> None:
    for seed in range(5):
        likelihoods = np.random.default_rng(seed).random((1, n_components))
        weights = fit_mixture_weights(likelihoods, 1e-8)
        assert_weights(likelihoods, weights, 1e-8)
        # Weight elsewhere costs likelihood: within the tolerance hardly any is left there.
        margins = 1.0 - likelihoods[0] / likelihoods.max()
        assert weights @ margins <= 1e-7


def test_one_component_takes_all() -> None:
    np.testing.assert_array_equal(fit_mixture_weights(np.array([[0.3], [1e-200]]), 1e-8), [1.0])


def test_the_scale_of_a_row_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    likelihoods = rng.random((15, 4)) ** 4 + 1e-3
    scales = 10.0 ** rng.uniform(-30.0, 30.0, size=(15, 1))
    np.testing.assert_allclose(
        fit_mixture_weights(scales * likelihoods, 1e-11), fit_mixture_weights(likelihoods, 1e-11), rtol=0.0, atol=1e-6
    )


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    likelihoods = rng.random((15, 4)) ** 4 + 1e-3
    np.testing.assert_allclose(
        fit_mixture_weights(rng.permutation(likelihoods), 1e-11),
        fit_mixture_weights(likelihoods, 1e-11),
        rtol=0.0,
        atol=1e-6,
    )


def test_the_likelihoods_are_not_written_into() -> None:
    likelihoods = kernel_likelihoods(10, 5, width=1.0)
    likelihoods.flags.writeable = False
    assert_weights(likelihoods, fit_mixture_weights(likelihoods, 1e-6), 1e-6)
