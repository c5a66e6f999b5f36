"""Transformers of the user's as feature maps: what they see, what they may return, and what is refused."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from accous import OnlineDensityRatio
from accous.exceptions import DataError
from tests.budgets import rest_slow
from tests.ratio.feature_cases import Array, play, skewed_rows


class Recording(TransformerMixin, BaseEstimator):
    """Keeps the types of what reaches it; maps every row to two constants."""

    seen: list[type] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any = None) -> "Recording":
        self.seen.append(type(X))
        self.fitted_ = True
        return self

    def transform(self, X: Any) -> Array:
        self.seen.append(type(X))
        return np.ones((len(X), 2))


def returning(function: Callable[[Array], Any]) -> FunctionTransformer:
    return FunctionTransformer(function)


def mixed_frame(n_rows: int, seed: int) -> pd.DataFrame:
    """Categories, missing values and an integer column."""
    rng = np.random.default_rng(seed)
    age = rng.normal(40.0, 10.0, size=n_rows)
    age[rng.random(n_rows) < 0.2] = np.nan
    city = rng.choice(["Rome", "Oslo", "Lima"], size=n_rows, p=[0.6, 0.3, 0.1])
    return pd.DataFrame({"age": age, "city": city, "visits": rng.poisson(3, size=n_rows)})


def mixed_transformer() -> ColumnTransformer:
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "visits"]),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=True), ["city"]),
        ],
        sparse_threshold=1.0,
    )


@pytest.mark.parametrize("loss", rest_slow(["logistic", "least_squares", "kl"]))
def test_a_frame_with_categories_and_missing_values_goes_through_a_pipeline(loss: str) -> None:
    reference = mixed_frame(300, seed=0)
    assert sparse.issparse(mixed_transformer().fit_transform(reference))
    estimator = OnlineDensityRatio(mixed_transformer(), loss=loss, step_size=1.0).fit(reference)
    assert estimator.coef_.shape == (6,)
    assert list(estimator.feature_names_in_) == ["age", "city", "visits"]
    for seed in range(1, 41):
        batch = mixed_frame(20, seed)
        batch["city"] = np.where(np.arange(20) < 16, "Lima", "Cairo")  # one rare, one never seen
        estimator.partial_fit(batch)
    by_city = [estimator.reference_ratio_[reference["city"] == city].mean() for city in ("Lima", "Rome")]
    assert by_city[0] > 1.1 * by_city[1]
    np.testing.assert_allclose(estimator.predict_ratio(reference), estimator.reference_ratio_, rtol=1e-12)


@pytest.mark.parametrize("frame_class", [pd.DataFrame, pl.DataFrame])
def test_the_transformer_sees_the_users_own_frames(frame_class: Any) -> None:
    Recording.seen.clear()
    reference, batch = (frame_class({"a": ["x", "y", None], "b": [1, 2, 3]}) for _ in range(2))
    estimator = OnlineDensityRatio(Recording()).fit(reference).partial_fit(batch)
    estimator.predict_ratio(batch)
    estimator.score_loss(batch)
    assert len(Recording.seen) >= 5
    assert set(Recording.seen) == {frame_class}


def test_the_transformer_given_is_cloned_and_stays_unfitted() -> None:
    transformer = StandardScaler()
    OnlineDensityRatio(transformer).fit(skewed_rows(20))
    assert not hasattr(transformer, "mean_")


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_what_a_transformer_returns_may_be_a_frame(output: str) -> None:
    polynomial = PolynomialFeatures(2, include_bias=False)
    plain = play(OnlineDensityRatio(polynomial).fit(skewed_rows(20)))
    framed = play(OnlineDensityRatio(polynomial.set_output(transform=output)).fit(skewed_rows(20)))
    np.testing.assert_allclose(framed.coef_, plain.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make_sparse", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_output_is_read(make_sparse: Any) -> None:
    plain = play(OnlineDensityRatio("identity").fit(skewed_rows(20)))
    of_sparse = play(OnlineDensityRatio(returning(make_sparse)).fit(skewed_rows(20)))
    np.testing.assert_allclose(of_sparse.coef_, plain.coef_, rtol=1e-9, atol=1e-12)


def with_nan_where_negative(X: Array) -> Array:
    return np.where(X < -250.0, np.nan, X)


def test_a_transformer_that_returns_nan_is_named_and_changes_nothing() -> None:
    reference = np.ones((10, 3)) * np.arange(10)[:, None]
    estimator = OnlineDensityRatio(returning(with_nan_where_negative)).fit(reference)
    for _ in range(6):
        estimator.partial_fit(reference[:2])
    before = pickle.dumps(estimator)
    batch = reference[:4].copy()
    batch[3, 1] = -251.0
    for method in (estimator.partial_fit, estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(DataError, match=r"feature_map.*Column 1 holds NaN in row 3"):
            method(batch)
    assert pickle.dumps(estimator) == before


def test_a_transformer_that_returns_nan_on_the_reference_is_named() -> None:
    with pytest.raises(DataError, match=r"feature_map.*NaN"):
        OnlineDensityRatio(returning(with_nan_where_negative)).fit(np.full((4, 2), -300.0))


def test_the_bad_column_of_a_frame_a_transformer_returns_is_named() -> None:
    passing = FunctionTransformer(feature_names_out="one-to-one").set_output(transform="pandas")
    frame = pd.DataFrame({"age": [1.0, 2.0], "height": [3.0, np.inf]})
    with pytest.raises(DataError, match=r"feature_map.*Column 'height' holds inf.* row 1"):
        OnlineDensityRatio(passing).fit(frame)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda X: X[:, 0], "shape"),
        (lambda X: X[:, :, None], "shape"),
        (lambda X: X.astype(str).astype(object) + "!", "not numbers"),
        (lambda X: X[:-1], "row"),
    ],
    ids=["one dimension", "three dimensions", "strings", "a row less"],
)
def test_a_transformer_whose_output_cannot_be_used_is_refused(function: Callable[[Array], Any], problem: str) -> None:
    with pytest.raises(DataError, match=rf"feature_map.*{problem}"):
        OnlineDensityRatio(returning(function)).fit(skewed_rows(20))


def as_wide_as_long(X: Array) -> Array:
    return np.ones((len(X), len(X)))


def test_a_transformer_whose_width_changes_is_refused_and_changes_nothing() -> None:
    estimator = OnlineDensityRatio(returning(as_wide_as_long)).fit(skewed_rows(6))
    for _ in range(6):
        estimator.partial_fit(skewed_rows(6))
    before = pickle.dumps(estimator)
    for method in (estimator.partial_fit, estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(DataError, match="feature_map"):
            method(skewed_rows(5))
    assert pickle.dumps(estimator) == before


def no_columns(X: Array) -> Array:
    return X[:, :0]


def test_a_transformer_that_leaves_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(DataError, match="feature_map"):
        OnlineDensityRatio(returning(no_columns), fit_intercept=False).fit(skewed_rows(6))


def test_an_error_inside_the_transformer_changes_nothing() -> None:
    estimator = OnlineDensityRatio(StandardScaler()).fit(skewed_rows(20))
    play(estimator)
    before = pickle.dumps(estimator)
    with pytest.raises(ValueError, match="NaN"):
        estimator.partial_fit(np.full((2, 3), np.nan))
    assert pickle.dumps(estimator) == before
