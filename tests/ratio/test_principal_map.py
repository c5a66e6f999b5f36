"""The map of wide rows: principal directions, the strong ones made stronger."""

import numpy as np
import pytest

from accous import AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio, load, save
from accous.ratio.defaults import MAX_STANDARDIZED_COLUMNS
from accous.ratio.maps import Principal, Standardize, fit_map

WIDTH = MAX_STANDARDIZED_COLUMNS + 20


def correlated_rows(n_rows, width=WIDTH, seed=0):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(width, width)))
    return rng.normal(size=(n_rows, width)) / np.sqrt(np.arange(1, width + 1)) @ turn + rng.normal(size=width)


def plain_map(reference, rows):
    """Eigenvectors of the correlation matrix, one direction after the other."""
    z = (rows - reference.mean(axis=0)) / reference.std(axis=0)
    variances, vectors = np.linalg.eigh(np.corrcoef(reference.T))
    order = np.argsort(variances)[::-1]
    columns, kept, total = [], 0.0, np.sum(variances.clip(0.0) ** 1.5)
    for j in order:
        columns.append((variances[j] / variances[order[0]]) ** 0.25 * (z @ vectors[:, j]))
        kept += variances[j] ** 1.5
        if kept >= 0.99 * total:
            return np.column_stack(columns)
    raise AssertionError("never reached")


def test_agrees_with_the_eigenvectors_of_the_correlations():
    reference, rows = correlated_rows(400), correlated_rows(7, seed=1)
    found, expected = fit_map("principal", reference, None).transform(rows), plain_map(reference, rows)
    assert found.shape == expected.shape
    assert found.shape[1] < WIDTH
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, signs * expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("cls", [OnlineDensityRatio, SingleLearnerRatio])
def test_is_the_default_beyond_a_hundred_columns(cls):
    assert MAX_STANDARDIZED_COLUMNS == 100
    assert isinstance(cls().fit(correlated_rows(50, 100)).features_.row_map, Standardize)
    assert isinstance(cls().fit(correlated_rows(50, 101)).features_.row_map, Principal)


def test_rows_that_vary_equally_in_all_directions_are_only_turned():
    design = np.concatenate((np.eye(WIDTH), -np.eye(WIDTH)))
    directions = fit_map("principal", design, None).directions
    n_kept = directions.shape[1]
    assert n_kept == np.ceil(0.99 * WIDTH)
    np.testing.assert_allclose(directions.T @ directions, np.eye(n_kept), atol=1e-9)


def test_fewer_rows_than_columns_and_constant_columns():
    reference = correlated_rows(30)
    reference[:, 3] = 7.0
    ratio = OnlineDensityRatio().fit(reference)
    ratio.partial_fit(correlated_rows(5, seed=2))
    assert ratio.reference_features_.shape[1] <= 30
    assert np.isfinite(ratio.reference_ratio_).all()
    np.testing.assert_allclose(ratio.features_.row_map.directions[3], 0.0, atol=1e-12)


@pytest.mark.parametrize("n_rows", [2, 200])
def test_a_reference_of_equal_rows_has_the_ratio_one(n_rows):
    ratio = OnlineDensityRatio().fit(np.ones((n_rows, WIDTH)))
    ratio.partial_fit(np.ones((5, WIDTH)))
    np.testing.assert_allclose(ratio.reference_ratio_, 1.0)


def test_far_away_rows_stay_finite():
    ratio = OnlineDensityRatio().fit(correlated_rows(200))
    ratio.partial_fit(np.full((3, WIDTH), 1e300))
    assert np.isfinite(ratio.reference_ratio_).all()


def test_knows_more_of_the_true_ratio_than_standardised_columns():
    """The mean moves along the strongest direction; along the others the batches say nothing but noise."""
    rows = correlated_rows(1100)
    reference, batches = rows[:600], rows[600:].reshape(100, 5, WIDTH)
    strongest = np.linalg.svd(reference - reference.mean(axis=0), full_matrices=False)[2][0]
    scores = (reference - reference.mean(axis=0)) @ strongest
    truth = np.exp(scores / scores.std() - 0.5)  # N(1, 1) over N(0, 1)
    errors = {}
    for name in ("standardize", "principal"):
        ratio = OnlineDensityRatio(feature_map=name).fit(reference)
        for batch in batches:
            ratio.partial_fit(batch + scores.std() * strongest)
        errors[name] = np.abs(ratio.reference_ratio_ - truth).mean()
    assert errors["principal"] < 0.95 * errors["standardize"], errors


def test_goes_on_bit_for_bit_after_saving(tmp_path):
    ratio = OnlineDensityRatio().fit(correlated_rows(150))
    ratio.partial_fit(correlated_rows(5, seed=3))
    save(ratio, tmp_path / "ratio")
    again = load(tmp_path / "ratio")
    batch = correlated_rows(5, seed=4)
    assert np.array_equal(ratio.partial_fit(batch).reference_ratio_, again.partial_fit(batch).reference_ratio_)


def test_the_column_that_moves_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, WIDTH))
    y = (X[:, 0] > 0).astype(int)
    model = AdaptiveClassifier(fallback="none").fit(X, y)
    for _ in range(160):
        batch = rng.normal(size=(20, WIDTH))
        batch[:, 17] += 1.5
        model.adapt(batch)
    assert int(np.argmax(model.drift_attribution_)) == 17
    assert model.drift_attribution_[17] > 0.5
