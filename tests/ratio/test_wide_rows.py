"""Rows of many columns: shortened by default, so that the intercept of the ratio keeps its weight."""

import numpy as np
import pytest

from accous import OnlineDensityRatio, SingleLearnerRatio, load, save

each_estimator = pytest.mark.parametrize("make", [OnlineDensityRatio, SingleLearnerRatio])


def normal_rows(n_rows, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, width)) * rng.uniform(0.1, 10.0, width) + rng.normal(size=width)


def played(model, width):
    model.fit(normal_rows(60, width))
    for seed in range(1, 12):
        model.partial_fit(normal_rows(5, width, seed))
    return model


@each_estimator
def test_up_to_256_columns_the_default_is_standardised_columns_bit_for_bit(make):
    auto, named = played(make(), 256), played(make("standardize"), 256)
    assert auto.coef_.tobytes() == named.coef_.tobytes()
    assert auto.reference_ratio_.tobytes() == named.reference_ratio_.tobytes()


@each_estimator
@pytest.mark.parametrize("width", [257, 300])
def test_beyond_them_rows_are_as_long_as_those_of_twelve_columns(make, width):
    X = normal_rows(60, width)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(width / 12)
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(12.0)
    rows = np.column_stack((rows, np.ones(60)))
    lengths = np.linalg.norm(rows, axis=1)
    bound = np.quantile(lengths, 0.99)
    expected = rows / np.maximum(lengths, bound)[:, None]
    model = make().fit(X)
    assert model.feature_bound_ == pytest.approx(bound)
    np.testing.assert_allclose(model.reference_features_, expected, rtol=1e-10, atol=1e-12)


@each_estimator
def test_a_small_part_that_stays_away_loses_its_ratio_and_the_rest_keeps_its_own(make):
    """A tenth of the reference lies elsewhere; in the stream it is gone: its ratio is 0, that of the others 10/9."""
    rng = np.random.default_rng(0)
    is_small = np.arange(600) % 10 == 0
    towards = np.ones(300) / np.sqrt(300)
    X = rng.normal(size=(600, 300)) + 30.0 * np.outer(is_small, towards)
    batches = rng.normal(size=(60, 5, 300))
    errors = {}
    for feature_map in ("auto", "standardize"):
        ratio = make(feature_map).fit(X)
        for batch in batches:
            ratio.partial_fit(batch)
        # The estimate itself: the pool, which chooses its shape, closes most of the difference.
        ratios = ratio.estimated_ratios() if make is OnlineDensityRatio else ratio.reference_ratio_
        errors[feature_map] = np.abs(ratios - np.where(is_small, 0.0, 10 / 9)).mean()
    assert errors["auto"] < 0.9 * errors["standardize"], errors


def test_goes_on_bit_for_bit_after_saving(tmp_path):
    ratio = played(OnlineDensityRatio(), 260)
    save(ratio, tmp_path / "ratio")
    again = load(tmp_path / "ratio")
    batch = normal_rows(5, 260, seed=50)
    assert np.array_equal(ratio.partial_fit(batch).reference_ratio_, again.partial_fit(batch).reference_ratio_)


@each_estimator
@pytest.mark.parametrize(
    "parameters",
    [{"fit_intercept": False}, {"scale_features": False}, {"feature_bound": 20.0}],
    ids=["no intercept", "unscaled", "bound given"],
)
def test_rows_are_not_shortened_without_an_intercept_or_where_their_unit_matters(make, parameters):
    auto, named = (make(each, **parameters).fit(normal_rows(60, 300)) for each in ("auto", "standardize"))
    assert auto.reference_features_.tobytes() == named.reference_features_.tobytes()
