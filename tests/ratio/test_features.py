"""Feature maps, and the way from mapped rows to features: intercept, bound, scale."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import DataError
from accous.ratio.defaults import default_feature_bound
from accous.ratio.features import FeatureMap, fit_features
from accous.ratio.maps import Identity, fit_map
from tests.ratio.online_cases import features_by_hand, with_one

Array = NDArray[np.float64]

LOSSES = ["logistic", "least_squares", "kl"]
MAPS = ["auto", "identity", "standardize", "rbf"]
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_map = pytest.mark.parametrize("feature_map", MAPS)


def skewed_rows(n_rows: int, seed: int = 0) -> Array:
    """Columns of different centre and spread."""
    return np.random.default_rng(seed).normal([0.0, 5.0, -300.0], [1.0, 0.01, 40.0], size=(n_rows, 3))


def play(estimator: Any, n_rounds: int = 10, scale: float = 1.0) -> Any:
    for seed in range(n_rounds):
        estimator.partial_fit(skewed_rows(4, seed=100 + seed) * scale)
    return estimator


# --- the built-in maps --------------------------------------------------------------------------------------


def test_standardize_is_scikit_learns_standard_scaler() -> None:
    X, new = skewed_rows(50), skewed_rows(20, seed=1)
    np.testing.assert_array_equal(
        fit_map("standardize", X, None).transform(new), StandardScaler().fit(X).transform(new)
    )


def test_standardize_estimates_what_a_standard_scaler_as_feature_map_estimates() -> None:
    of_name, of_transformer = (
        play(OnlineDensityRatio(feature_map).fit(skewed_rows(50))) for feature_map in ("standardize", StandardScaler())
    )
    np.testing.assert_allclose(of_name.coef_, of_transformer.coef_, rtol=1e-12)


def test_standardize_only_centres_a_constant_column() -> None:
    X = np.column_stack([np.arange(5.0), np.full(5, 7.0)])
    mapped = fit_map("standardize", X, None).transform(np.array([[2.0, 7.0], [2.0, 9.5]]))
    np.testing.assert_allclose(mapped, [[0.0, 0.0], [0.0, 2.5]], atol=1e-15)


@pytest.mark.parametrize("n_rows", [5, 100, 230])
def test_rbf_is_nystroem_on_standardised_rows_with_the_median_width(n_rows: int) -> None:
    X, new = skewed_rows(n_rows), skewed_rows(20, seed=1)
    scaler = StandardScaler().fit(X)
    gamma = 1.0 / np.median(pdist(scaler.transform(X), "sqeuclidean"))
    by_hand = Nystroem(gamma=gamma, n_components=min(100, n_rows), random_state=3).fit(scaler.transform(X))
    # Small eigenvalues of the kernel matrix magnify rounding by up to 1e6.
    np.testing.assert_allclose(
        fit_map("rbf", X, 3).transform(new), by_hand.transform(scaler.transform(new)), rtol=0, atol=1e-7
    )


def test_rbf_features_give_back_the_kernel() -> None:
    X = skewed_rows(60)
    rbf = fit_map("rbf", X, 0)
    features = rbf.transform(X)
    squared = ((features[:, None] - features[None]) ** 2).sum(axis=-1)
    standardised = StandardScaler().fit_transform(X)
    distances = ((standardised[:, None] - standardised[None]) ** 2).sum(axis=-1)
    gamma = 1.0 / np.median(distances[np.triu_indices(60, k=1)])
    np.testing.assert_allclose(squared, 2.0 - 2.0 * np.exp(-gamma * distances), atol=1e-6)


def test_rbf_is_seeded_by_random_state() -> None:
    estimators = [play(OnlineDensityRatio("rbf", random_state=seed).fit(skewed_rows(150))) for seed in (0, 0, 1)]
    first, again, other = (estimator.coef_.tobytes() for estimator in estimators)
    assert first == again
    assert first != other


def test_random_state_touches_no_other_map() -> None:
    coefs = {play(OnlineDensityRatio(random_state=seed).fit(skewed_rows(50))).coef_.tobytes() for seed in (0, 1, None)}
    assert len(coefs) == 1


def test_the_global_random_state_is_left_alone() -> None:
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    play(OnlineDensityRatio("rbf", random_state=0).fit(skewed_rows(150)))
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


def test_rbf_learns_what_a_linear_map_cannot_see() -> None:
    """A batch of the same mean and half the spread: the ratio is high inside and low outside."""
    rng = np.random.default_rng(0)
    estimator = OnlineDensityRatio("rbf", random_state=0, step_size=3.0).fit(rng.normal(size=(300, 2)))
    for _ in range(100):
        estimator.partial_fit(rng.normal(scale=0.5, size=(20, 2)))
    inside, outside = estimator.predict_ratio([[0.0, 0.0], [1.5, 1.5]])
    assert inside > 1.3
    assert outside < 0.7


# --- intercept, bound, scale --------------------------------------------------------------------------------


@pytest.mark.parametrize("scale_features", [True, False])
@each_loss
def test_the_order_is_map_intercept_bound_scale(loss: str, scale_features: bool) -> None:
    bound = 1.5
    estimator = OnlineDensityRatio(
        loss=loss, feature_bound=bound, scale_features=scale_features, step_size=0.5, pool="none"
    )
    play(estimator.fit(skewed_rows(50)))
    new = skewed_rows(30, seed=7)
    mapped = StandardScaler().fit(skewed_rows(50)).transform(new)
    features = features_by_hand(loss, bound, is_scaled=scale_features)(mapped)
    scores = features @ estimator.coef_
    expected = np.exp(-scores) if loss == "logistic" else scores
    lowest = {"logistic": 0.0, "least_squares": 0.0, "kl": 1.0 / estimator.max_ratio}[loss]
    expected = np.clip(expected, lowest, estimator.max_ratio)
    assert np.unique(expected).size > 10
    np.testing.assert_allclose(estimator.predict_ratio(new), expected, rtol=1e-12, atol=1e-12)


def test_without_intercept_there_is_no_extra_coefficient() -> None:
    assert OnlineDensityRatio(fit_intercept=False).fit(skewed_rows(10)).coef_.shape == (3,)
    assert OnlineDensityRatio(fit_intercept=True).fit(skewed_rows(10)).coef_.shape == (4,)


@pytest.mark.parametrize("is_scaled", [True, False])
@pytest.mark.parametrize("exponent", [-300, -8, 0, 8, 99, 150, 300])
@each_map
def test_no_row_is_longer_than_the_bound(feature_map: str, exponent: int, is_scaled: bool) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    features, of_reference = fit_features(
        fit_map(feature_map, X, 0),
        X,
        fit_intercept=True,
        is_intercept_bounded=True,
        feature_bound=None,
        scale_features=is_scaled,
    )
    limit = (1.0 if is_scaled else features.bound) * (1.0 + 1e-12)
    far, _ = features.transform(X * 10.0**exponent)
    for rows in (of_reference, far):
        assert np.all(np.isfinite(rows))
        assert np.linalg.norm(rows, axis=1).max() <= limit


@pytest.mark.parametrize("is_scaled", [True, False])
def test_an_intercept_appended_last_stays_1_and_counts_in_the_norm_bound(is_scaled: bool) -> None:
    features = FeatureMap(
        row_map=Identity(),
        n_columns=2,
        has_intercept=True,
        is_intercept_bounded=False,
        bound=3.0,
        is_scaled=is_scaled,
    )
    rows, n_long = features.transform(np.array([[3e5, -4e5], [0.3, 0.4]]))
    expected = np.array([[1.8, -2.4], [0.3, 0.4]]) / (3.0 if is_scaled else 1.0)
    np.testing.assert_allclose(rows, with_one(expected), rtol=1e-15)
    assert n_long == 1
    assert features.norm_bound == pytest.approx(np.linalg.norm(rows[0]), rel=1e-15)


def test_rows_on_the_bound_and_within_its_tolerance_are_neither_changed_nor_counted() -> None:
    features = FeatureMap(
        row_map=Identity(),
        n_columns=2,
        has_intercept=False,
        is_intercept_bounded=True,
        bound=5.0,
        is_scaled=False,
    )
    on_bound = np.array([[3.0, 4.0], [5.0 * (1.0 + 5e-13), 0.0]])
    rows, n_long = features.transform(on_bound)
    assert n_long == 0
    np.testing.assert_array_equal(rows, on_bound)
    assert features.transform(np.array([[5.0 * (1.0 + 1e-11), 0.0]]))[1] == 1


@each_loss
def test_only_partial_fit_counts_rows_out_of_bound(loss: str) -> None:
    estimator = OnlineDensityRatio("identity", loss=loss, feature_bound=2.0, fit_intercept=True)
    estimator.fit(np.full((5, 2), 100.0))
    assert estimator.n_out_of_bound_ == 0
    batch = np.array([[0.1, 0.1], [5.0, 0.0], [0.0, -7.0]])
    estimator.predict_ratio(batch)
    estimator.score_loss(batch)
    assert estimator.n_out_of_bound_ == 0
    estimator.partial_fit(batch)
    assert estimator.n_out_of_bound_ == 2
    estimator.partial_fit(batch[:2])
    assert estimator.n_out_of_bound_ == 3


def test_the_single_learner_counts_rows_out_of_bound() -> None:
    estimator = SingleLearnerRatio("identity", feature_bound=2.0).fit(np.zeros((5, 2)))
    assert estimator.partial_fit([[5.0, 0.0], [0.1, 0.0]]).n_out_of_bound_ == 1


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_feature_bound_none_is_the_documented_rule_on_the_reference_norms(fit_intercept: bool) -> None:
    X = skewed_rows(200)
    mapped = StandardScaler().fit_transform(X)
    norms = np.linalg.norm(with_one(mapped) if fit_intercept else mapped, axis=1)
    estimator = OnlineDensityRatio(fit_intercept=fit_intercept).fit(X)
    assert estimator.feature_bound_ == pytest.approx(default_feature_bound(norms), rel=1e-12)


@pytest.mark.parametrize("loss", ["least_squares", "kl"])
def test_an_intercept_appended_last_does_not_enter_the_bound(loss: str) -> None:
    X = skewed_rows(200)
    norms = np.linalg.norm(StandardScaler().fit_transform(X), axis=1)
    estimator = OnlineDensityRatio(loss=loss).fit(X)
    assert estimator.feature_bound_ == pytest.approx(default_feature_bound(norms), rel=1e-12)


def test_the_default_bound_follows_the_scale_and_ignores_a_lone_outlier() -> None:
    norms = np.linalg.norm(np.random.default_rng(0).normal(size=(1000, 3)), axis=1)
    bound = default_feature_bound(norms)
    assert np.median(norms) < bound <= norms.max()
    assert default_feature_bound(norms * 1e-8) == pytest.approx(bound * 1e-8)
    assert default_feature_bound(np.append(norms, 1e9)) < norms.max() + 1e-12


def test_a_reference_of_zeros_has_the_bound_1() -> None:
    assert OnlineDensityRatio("identity", fit_intercept=False).fit(np.zeros((5, 2))).feature_bound_ == 1.0


# --- transformers of the user's -----------------------------------------------------------------------------


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


@each_loss
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
