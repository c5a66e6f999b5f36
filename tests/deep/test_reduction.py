"""The map from embeddings to features, beside a slow version of it."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_info, threadpool_limits

from accous.deep import features as reduction_module
from accous.deep.features import equal_variance_rotation, fit_reduction
from accous.exceptions import DataError
from accous.threads import one_blas_thread
from tests.budgets import examples
from tests.needs import TWO_BLAS_THREADS
from tests.waiting import PATIENCE


def slow_features(reference, rows, n_components, max_norm, rotation):
    """PCA by SVD, a given rotation, the scale by the 99 % quantile of norms, row by row back to the bound."""
    mean = reference.mean(axis=0)
    directions = np.eye(reference.shape[1])
    if n_components is not None:
        _, _, Vt = np.linalg.svd(reference - mean, full_matrices=False)
        for row in range(len(Vt)):  # the sign convention: the largest entry of a direction is positive
            Vt[row] *= np.sign(Vt[row, np.abs(Vt[row]).argmax()])
        directions = Vt[:n_components].T @ rotation
    norms = sorted(np.linalg.norm((row - mean) @ directions) for row in reference)
    place = 0.99 * (len(norms) - 1)
    low = int(place)
    quantile = norms[low] + (place - low) * (norms[min(low + 1, len(norms) - 1)] - norms[low])
    features = []
    for row in rows:
        z = (row - mean) @ directions * max_norm / quantile
        features.append(z if np.linalg.norm(z) <= max_norm else z * max_norm / np.linalg.norm(z))
    return np.array(features)


def correlated(n, width, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, width)) * 2.0 ** -np.arange(width) + rng.normal(size=width)).astype(np.float32)


@pytest.mark.parametrize(("n", "n_components"), [(200, 5), (200, 8), (6, 4), (200, None)])
def test_features_are_those_of_the_slow_version(n, n_components):
    reference, rows = correlated(n, 8), 3 * correlated(50, 8, seed=1)
    fast = fit_reduction(reference, n_components, 2.5, seed=7)
    rotation = None
    if n_components is not None:
        variances = np.linalg.svd(reference - reference.mean(axis=0), compute_uv=False)[:n_components] ** 2 / (n - 1)
        rotation = equal_variance_rotation(variances.astype(float), np.random.default_rng(7))
    slow = slow_features(reference.astype(float), rows.astype(float), n_components, 2.5, rotation)
    # Directions of nearly no variance are found to single precision only.
    np.testing.assert_allclose(fast.transform(rows), slow, atol=1e-4)


def test_the_bound_is_the_quantile_of_the_reference():
    reference = correlated(1000, 12)
    features = fit_reduction(reference, 12, 5.0, seed=0).transform(reference)
    norms = np.linalg.norm(features, axis=1)
    assert norms.max() == pytest.approx(5.0, abs=1e-12)
    assert 10 <= np.sum(norms > 5.0 - 1e-9) <= 11
    assert features.dtype == np.float64


def test_columns_have_the_same_variance_and_distances_are_kept():
    reference = correlated(400, 12)
    reduction = fit_reduction(reference, 12, 1e-3, seed=0)
    turned = (reference - reduction.mean) @ reduction.directions
    np.testing.assert_allclose(turned.var(axis=0), turned.var(axis=0).mean(), rtol=1e-6)
    np.testing.assert_allclose(reduction.directions.T @ reduction.directions, np.eye(12), atol=1e-12)


@examples(40)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(0, 2**31 - 1))
def test_rotation_is_orthogonal_and_makes_all_variances_equal(variances, seed):
    variances = np.array(variances)
    Q = equal_variance_rotation(variances, np.random.default_rng(seed))
    np.testing.assert_allclose(Q.T @ Q, np.eye(len(variances)), atol=1e-10)
    diagonal = np.diag(Q.T @ (variances[:, None] * Q))
    np.testing.assert_allclose(diagonal, variances.mean(), rtol=1e-7, atol=1e-300)


def test_same_seed_same_bits_and_another_seed_another_rotation():
    reference = correlated(100, 6)
    first, again, other = (fit_reduction(reference, 4, 5.0, seed).directions for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(("n", "expected"), [(3, 3), (20, 8)])
def test_width_is_the_smallest_of_rows_columns_and_components(n, expected):
    reference = correlated(n, 8)
    reduction = fit_reduction(reference, 512, 5.0, seed=0)
    assert reduction.width == expected
    assert reduction.transform(reference).shape == (n, expected)


def test_directions_without_variance_in_the_reference_say_nothing():
    reference = correlated(50, 4)
    reference[:, 2] = 7.0
    reduction = fit_reduction(reference, 4, 5.0, seed=0)
    moved = reference.copy()
    moved[:, 2] += 1000.0
    np.testing.assert_allclose(reduction.transform(moved), reduction.transform(reference), atol=1e-5)


def test_a_reference_without_variance_is_refused():
    for reference in (np.full((10, 3), 0.1, dtype=np.float32), np.zeros((10, 3), dtype=np.float32)):
        for n_components in (2, None):
            with pytest.raises(DataError, match="the same features"):
                fit_reduction(reference, n_components, 5.0, seed=0)
    with pytest.raises(DataError, match="got 1 sample"):
        fit_reduction(np.ones((1, 3), dtype=np.float32), 2, 5.0, seed=0)


def test_another_width_is_refused():
    reduction = fit_reduction(correlated(20, 5), 3, 5.0, seed=0)
    with pytest.raises(DataError, match=r"4 features .* 5"):
        reduction.transform(correlated(2, 4))


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_reduction_that_ends_inside_a_round_of_another_thread_leaves_it_its_one_blas_thread(monkeypatch):
    is_reducing, may_end = threading.Event(), threading.Event()

    class Waiting(PCA):
        def fit(self, X, y=None):
            is_reducing.set()
            assert may_end.wait(timeout=PATIENCE)
            return super().fit(X, y)

    monkeypatch.setattr(reduction_module, "PCA", Waiting)
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip(TWO_BLAS_THREADS)
        thread = threading.Thread(target=fit_reduction, args=(correlated(20, 5), 3, 5.0, 0))
        thread.start()
        assert is_reducing.wait(timeout=PATIENCE)
        with one_blas_thread():
            may_end.set()
            thread.join()
            inside = blas_threads()
        assert inside == {1}
        assert blas_threads() == {2}
