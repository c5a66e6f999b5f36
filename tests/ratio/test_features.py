"""Feature maps, built in and the user's own, and the way from mapped rows to features: intercept, bound, scale."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import DataError, ParameterError
from accous.ratio.base import default_feature_bound
from accous.ratio.features import FeatureMap, Identity, fit_features, fit_map
from tests.budgets import rest_slow
from tests.ratio.online_cases import features_by_hand, with_one

LOSSES = ["logistic", "least_squares", "kl"]
MAPS = ["auto", "identity", "standardize", "rbf"]
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_map = pytest.mark.parametrize("feature_map", MAPS)


def skewed_rows(n_rows, seed=0):
    """Columns of different centre and spread."""
    return np.random.default_rng(seed).normal([0.0, 5.0, -300.0], [1.0, 0.01, 40.0], size=(n_rows, 3))


def run_rounds(estimator, n_rounds=10, scale=1.0):
    for seed in range(n_rounds):
        estimator.partial_fit(skewed_rows(4, seed=100 + seed) * scale)
    return estimator


# --- the built-in maps ------------------------------------------------------------------------------------------


def test_standardize_is_scikit_learns_standard_scaler_which_is_cloned():
    X, new, scaler = skewed_rows(50), skewed_rows(20, seed=1), StandardScaler()
    of_name, of_transformer = (run_rounds(OnlineDensityRatio(each).fit(X)) for each in ("standardize", scaler))
    np.testing.assert_allclose(of_name.coef_, of_transformer.coef_, rtol=1e-12)
    assert not hasattr(scaler, "mean_")
    np.testing.assert_array_equal(fit_map("standardize", X, None).transform(new), scaler.fit(X).transform(new))


def test_standardize_only_centres_a_constant_column():
    X = np.column_stack([np.arange(5.0), np.full(5, 7.0)])
    mapped = fit_map("standardize", X, None).transform(np.array([[2.0, 7.0], [2.0, 9.5]]))
    np.testing.assert_allclose(mapped, [[0.0, 0.0], [0.0, 2.5]], atol=1e-15)


@pytest.mark.parametrize("n_rows", [5, 100, 230])
def test_rbf_is_nystroem_on_standardised_rows_with_the_median_width(n_rows):
    X, new = skewed_rows(n_rows), skewed_rows(20, seed=1)
    scaler = StandardScaler().fit(X)
    gamma = 1.0 / np.median(pdist(scaler.transform(X), "sqeuclidean"))
    by_hand = Nystroem(gamma=gamma, n_components=min(100, n_rows), random_state=3).fit(scaler.transform(X))
    # Small eigenvalues of the kernel matrix magnify rounding by up to 1e6.
    np.testing.assert_allclose(
        fit_map("rbf", X, 3).transform(new), by_hand.transform(scaler.transform(new)), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("feature_map", ["rbf", "standardize"])
def test_random_state_seeds_rbf_only_and_the_global_one_is_left_alone(feature_map):
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    coefs = [
        run_rounds(OnlineDensityRatio(feature_map, random_state=seed).fit(skewed_rows(150))).coef_.tobytes()
        for seed in (0, 0, 1)
    ]
    assert coefs[0] == coefs[1]
    assert (coefs[0] != coefs[2]) == (feature_map == "rbf")
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


def test_rbf_learns_what_a_linear_map_cannot_see():
    """A batch of the same mean and half the spread: the ratio is high inside and low outside."""
    rng = np.random.default_rng(0)
    estimator = OnlineDensityRatio("rbf", random_state=0, step_size=3.0).fit(rng.normal(size=(300, 2)))
    for _ in range(100):
        estimator.partial_fit(rng.normal(scale=0.5, size=(20, 2)))
    inside, outside = estimator.predict_ratio([[0.0, 0.0], [1.5, 1.5]])
    assert inside > 1.3
    assert outside < 0.7


# --- intercept, bound, scale ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale_features", [True, False])
@each_loss
def test_the_order_is_map_intercept_bound_scale(loss, scale_features):
    bound = 1.5
    estimator = OnlineDensityRatio(
        loss=loss, feature_bound=bound, scale_features=scale_features, step_size=0.5, pool="none"
    )
    run_rounds(estimator.fit(skewed_rows(50)))
    new = skewed_rows(30, seed=7)
    mapped = StandardScaler().fit(skewed_rows(50)).transform(new)
    features = features_by_hand(loss, bound, is_scaled=scale_features)(mapped)
    scores = features @ estimator.coef_
    expected = np.exp(-scores) if loss == "logistic" else scores
    lowest = {"logistic": 0.0, "least_squares": 0.0, "kl": 1.0 / estimator.max_ratio}[loss]
    expected = np.clip(expected, lowest, estimator.max_ratio)
    assert np.unique(expected).size > 10
    np.testing.assert_allclose(estimator.predict_ratio(new), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.every_pair
@pytest.mark.parametrize("is_scaled", [True, False])
@pytest.mark.parametrize("exponent", [-300, -8, 0, 8, 99, 150, 300])
@each_map
def test_no_row_is_longer_than_the_bound(feature_map, exponent, is_scaled):
    X = np.random.default_rng(0).normal(size=(50, 3))
    settings = {"fit_intercept": True, "is_intercept_bounded": True, "feature_bound": None, "scale_features": is_scaled}
    features, of_reference = fit_features(fit_map(feature_map, X, 0), X, **settings)
    far, _ = features.transform(X * 10.0**exponent)
    for rows in (of_reference, far):
        assert np.all(np.isfinite(rows))
        assert np.linalg.norm(rows, axis=1).max() <= (1.0 if is_scaled else features.bound) * (1.0 + 1e-12)


def plain_features(**changes: Any):
    settings = {"has_intercept": False, "is_intercept_bounded": False, "bound": 3.0, "is_scaled": False}
    return FeatureMap(row_map=Identity(), n_columns=2, **(settings | changes))


@pytest.mark.parametrize("is_scaled", [True, False])
def test_an_intercept_appended_last_stays_1_and_counts_in_the_norm_bound(is_scaled):
    features = plain_features(has_intercept=True, is_scaled=is_scaled)
    rows, n_long = features.transform(np.array([[3e5, -4e5], [0.3, 0.4]]))
    expected = np.array([[1.8, -2.4], [0.3, 0.4]]) / (3.0 if is_scaled else 1.0)
    np.testing.assert_allclose(rows, with_one(expected), rtol=1e-15)
    assert n_long == 1
    assert features.norm_bound == pytest.approx(np.linalg.norm(rows[0]), rel=1e-15)


def test_rows_on_the_bound_and_within_its_tolerance_are_neither_changed_nor_counted():
    features = plain_features(is_intercept_bounded=True, bound=5.0)
    on_bound = np.array([[3.0, 4.0], [5.0 * (1.0 + 5e-13), 0.0]])
    rows, n_long = features.transform(on_bound)
    assert n_long == 0
    np.testing.assert_array_equal(rows, on_bound)
    assert features.transform(np.array([[5.0 * (1.0 + 1e-11), 0.0]]))[1] == 1


@pytest.mark.parametrize("make", [OnlineDensityRatio, SingleLearnerRatio])
@each_loss
def test_only_partial_fit_counts_rows_out_of_bound(loss, make):
    estimator = make("identity", loss=loss, feature_bound=2.0).fit(np.full((5, 2), 100.0))
    batch = np.array([[0.1, 0.1], [5.0, 0.0], [0.0, -7.0]])
    estimator.predict_ratio(batch)
    estimator.score_loss(batch)
    assert estimator.n_out_of_bound_ == 0
    assert estimator.partial_fit(batch).n_out_of_bound_ == 2
    assert estimator.partial_fit(batch[:2]).n_out_of_bound_ == 3


@pytest.mark.parametrize(
    ("loss", "fit_intercept"), [("logistic", True), ("logistic", False), ("least_squares", True), ("kl", True)]
)
def test_the_default_bound_is_the_documented_rule_on_the_reference_norms(loss, fit_intercept):
    """An intercept that is appended last does not enter it."""
    mapped = StandardScaler().fit_transform(skewed_rows(200))
    norms = np.linalg.norm(with_one(mapped) if loss == "logistic" and fit_intercept else mapped, axis=1)
    estimator = OnlineDensityRatio(loss=loss, fit_intercept=fit_intercept).fit(skewed_rows(200))
    assert estimator.feature_bound_ == pytest.approx(default_feature_bound(norms), rel=1e-12)
    assert estimator.coef_.shape == (3 + fit_intercept,)


def test_the_default_bound_follows_the_scale_and_ignores_a_lone_outlier():
    norms = np.linalg.norm(np.random.default_rng(0).normal(size=(1000, 3)), axis=1)
    bound = default_feature_bound(norms)
    assert np.median(norms) < bound <= norms.max()
    assert default_feature_bound(norms * 1e-8) == pytest.approx(bound * 1e-8)
    assert default_feature_bound(np.append(norms, 1e9)) < norms.max() + 1e-12


def test_the_largest_norm_may_be_the_bound_and_zeros_have_the_bound_1():
    reference = np.random.default_rng(0).normal(size=(40, 3))
    for make in (OnlineDensityRatio, SingleLearnerRatio):
        largest = make("identity", fit_intercept=False, feature_bound="largest")
        assert largest.fit(np.zeros((5, 2))).feature_bound_ == 1.0
        expected = np.linalg.norm(reference, axis=1).max()
        assert largest.fit(reference).feature_bound_ == pytest.approx(expected, rel=1e-12)
        assert make("identity", fit_intercept=False).fit(np.zeros((5, 2))).feature_bound_ == 1.0
    with pytest.raises(ParameterError, match="feature_bound"):
        OnlineDensityRatio(feature_bound="longest").fit(reference)


# --- the user's transformers ------------------------------------------------------------------------------------


class Recording(TransformerMixin, BaseEstimator):
    """Keeps the types of what reaches it; maps every row to two constants."""

    seen: list[type] = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.seen.append(type(X))
        self.fitted_ = True
        return self

    def transform(self, X):
        self.seen.append(type(X))
        return np.ones((len(X), 2))


def mixed_frame(n_rows, seed):
    """Categories, missing values and an integer column."""
    rng = np.random.default_rng(seed)
    age = rng.normal(40.0, 10.0, size=n_rows)
    age[rng.random(n_rows) < 0.2] = np.nan
    city = rng.choice(["Rome", "Oslo", "Lima"], size=n_rows, p=[0.6, 0.3, 0.1])
    return pd.DataFrame({"age": age, "city": city, "visits": rng.poisson(3, size=n_rows)})


def mixed_transformer():
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "visits"]),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=True), ["city"]),
        ],
        sparse_threshold=1.0,
    )


@pytest.mark.parametrize("loss", rest_slow(["logistic", "least_squares", "kl"]))
def test_a_frame_with_categories_and_missing_values_goes_through_a_pipeline(loss):
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
def test_the_transformer_sees_the_users_own_frames(frame_class):
    Recording.seen.clear()
    reference, batch = (frame_class({"a": ["x", "y", None], "b": [1, 2, 3]}) for _ in range(2))
    estimator = OnlineDensityRatio(Recording()).fit(reference).partial_fit(batch)
    estimator.predict_ratio(batch)
    estimator.score_loss(batch)
    assert len(Recording.seen) >= 5
    assert set(Recording.seen) == {frame_class}


@pytest.mark.parametrize(
    "transformer",
    [
        *(PolynomialFeatures(1, include_bias=False).set_output(transform=kind) for kind in ("pandas", "polars")),
        *(FunctionTransformer(kind) for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array)),
    ],
    ids=["pandas", "polars", "csr", "csc", "coo"],
)
def test_what_a_transformer_returns_may_be_a_frame_or_sparse(transformer):
    plain, other = (run_rounds(OnlineDensityRatio(each).fit(skewed_rows(20))) for each in ("identity", transformer))
    np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-9, atol=1e-12)


def with_nan_where_negative(X):
    return np.where(X < -250.0, np.nan, X)


def as_wide_as_long(X):
    return np.ones((len(X), len(X)))


def with_negative(X):
    X = X[:4].copy()
    X[3, 1] = -251.0
    return X


@pytest.mark.parametrize(
    ("transformer", "spoil", "error", "message"),
    [
        (FunctionTransformer(with_nan_where_negative), with_negative, DataError, r"feature_map.*Column 1.*row 3"),
        (FunctionTransformer(as_wide_as_long), lambda X: X[:-1], DataError, "feature_map"),
        (StandardScaler(), lambda X: np.full_like(X, np.nan), ValueError, "NaN"),
    ],
    ids=["nan", "another width", "an error inside"],
)
def test_a_transformer_that_fails_on_a_batch_is_named_and_changes_nothing(transformer, spoil, error, message):
    reference = np.abs(skewed_rows(10))
    estimator = OnlineDensityRatio(transformer).fit(reference)
    for _ in range(6):
        estimator.partial_fit(reference)
    before = pickle.dumps(estimator)
    for method in (estimator.partial_fit, estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(error, match=message):
            method(spoil(reference))
    assert pickle.dumps(estimator) == before


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda X: X[:, 0], "shape"),
        (lambda X: X[:, :, None], "shape"),
        (lambda X: X.astype(str).astype(object) + "!", "not numbers"),
        (lambda X: X[:-1], "row"),
        (with_nan_where_negative, "NaN"),
        (lambda X: pd.DataFrame({"age": X[:, 0], "height": np.inf}), "'height' holds inf"),
        (lambda X: X[:, :0], ""),
    ],
    ids=["one dimension", "three dimensions", "strings", "a row less", "nan", "inf", "no columns"],
)
def test_a_transformer_whose_output_cannot_be_used_is_refused(function, problem):
    with pytest.raises(DataError, match=rf"feature_map.*{problem}"):
        OnlineDensityRatio(FunctionTransformer(function), fit_intercept=False).fit(skewed_rows(20))
