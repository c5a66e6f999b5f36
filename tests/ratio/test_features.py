"""Feature maps, and the way from mapped rows to features: intercept, bound, scale."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import ParameterError
from accous.ratio.base import default_feature_bound
from accous.ratio.features import FeatureMap, Identity, fit_features, fit_map
from tests.ratio.feature_cases import each_loss, each_map, play, skewed_rows
from tests.ratio.online_cases import features_by_hand, with_one

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


@pytest.mark.every_pair
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


def test_the_largest_norm_may_be_the_bound() -> None:
    reference = np.random.default_rng(0).normal(size=(40, 3))
    norms = np.linalg.norm(reference, axis=1)
    estimator = OnlineDensityRatio("identity", fit_intercept=False, feature_bound="largest").fit(reference)
    assert estimator.feature_bound_ == pytest.approx(norms.max(), rel=1e-12)
    assert (
        SingleLearnerRatio("identity", fit_intercept=False, feature_bound="largest")
        .fit(np.zeros((5, 2)))
        .feature_bound_
        == 1.0
    )
    with pytest.raises(ParameterError, match="feature_bound must be one of 'largest', a number or None, got 'longest'"):
        OnlineDensityRatio(feature_bound="longest").fit(reference)
