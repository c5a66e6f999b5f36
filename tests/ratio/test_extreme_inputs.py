"""Extreme but finite inputs: strange references, and rows far outside of them."""

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import DataError
from tests.budgets import rest_slow
from tests.ratio.input_cases import Array, MakeInput, assert_sane, each_kind, normal_rows

LOSSES = ["logistic", "least_squares", "kl"]
MAPS = ["auto", "identity", "standardize", "rbf"]

each_loss = pytest.mark.parametrize("loss", LOSSES)
each_map = pytest.mark.parametrize("feature_map", MAPS)


# --- references ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", [*MAPS, StandardScaler()], ids=str)
@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_reference_of_less_than_two_rows_is_refused(n_rows: int, feature_map: Any) -> None:
    with pytest.raises(ValueError, match=rf"\b{n_rows}\b.*\b2\b|\b2\b.*\b{n_rows}\b"):
        OnlineDensityRatio(feature_map).fit(normal_rows(n_rows))


def test_a_reference_without_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="0 feature"):
        OnlineDensityRatio().fit(np.empty((5, 0)))


STRANGE_REFERENCES = {
    "two rows": normal_rows(2),
    "twice the same row": np.tile(normal_rows(1), (2, 1)),
    "all the same row": np.tile(normal_rows(1), (30, 1)),
    "many duplicates": np.tile(normal_rows(3), (20, 1)),
    "all zero": np.zeros((10, 3)),
    "a constant column": normal_rows(20) * [1.0, 1.0, 0.0] + 7.0,
    "equal columns": np.tile(normal_rows(20)[:, :1], (1, 3)),
    "tiny": normal_rows(20) * 1e-300,
    "subnormal": np.full((10, 3), 5e-324),
    "small": normal_rows(20) * 1e-160,
    "large": normal_rows(20) * 1e100,
    "mixed scales": normal_rows(20) * [1e-200, 1.0, 1e140],
    "a far outlier": np.vstack([normal_rows(20), [[1e140, 0.0, 0.0]]]),
}


@pytest.mark.parametrize("reference", STRANGE_REFERENCES.values(), ids=STRANGE_REFERENCES)
@each_map
@pytest.mark.parametrize("loss", rest_slow(LOSSES))
def test_a_strange_reference_works(loss: str, feature_map: str, reference: Array) -> None:
    estimator = OnlineDensityRatio(feature_map, loss=loss, random_state=0).fit(reference)
    assert estimator.reference_ratio_.tolist() == [1.0] * len(reference)
    for seed in range(8):
        estimator.partial_fit(reference[:1])
        estimator.partial_fit(normal_rows(3, seed=seed))
    assert_sane(estimator, np.vstack([reference, normal_rows(3)]))


UNSCALED_REFERENCES = {
    "columns of scale 1 and 1e8": normal_rows(30) * [1.0, 1.0, 1e8],
    "columns of scale 1 and 1e20": normal_rows(30) * [1.0, 1.0, 1e20],
}


@pytest.mark.parametrize("reference", UNSCALED_REFERENCES.values(), ids=UNSCALED_REFERENCES)
@pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])
@each_loss
def test_unscaled_features_of_very_different_size_stay_in_the_ball(
    loss: str, estimator_class: Any, reference: Array
) -> None:
    estimator = estimator_class("identity", loss=loss, scale_features=False).fit(reference)
    for seed in range(20):
        estimator.partial_fit(reference[seed : seed + 2])
        assert_sane(estimator, reference)


def test_a_column_constant_in_the_reference_may_vary_later() -> None:
    reference = normal_rows(50) * [1.0, 1.0, 0.0] + [0.0, 0.0, 7.0]
    estimator = OnlineDensityRatio().fit(reference)
    for seed in range(20):
        batch = normal_rows(4, seed=seed)
        batch[:, 2] = 7.0 if seed < 10 else 7.0 + 100.0 * batch[:, 2]
        estimator.partial_fit(batch)
        assert_sane(estimator, batch)
    assert estimator.n_out_of_bound_ > 0


@pytest.mark.parametrize("value", [1e300, -1e300, 1.7e308])
@each_kind
@each_map
def test_a_reference_value_too_large_to_compute_with_is_named(
    feature_map: str, make_input: MakeInput, value: float
) -> None:
    X = normal_rows(10)
    X[7, 1] = value
    place = "'height'" if hasattr(make_input(X), "columns") else "1"
    with pytest.raises(DataError, match=rf"Column {place} of the reference.*too large"):
        OnlineDensityRatio(feature_map).fit(make_input(X))


# --- rows far outside ---------------------------------------------------------------------------------------

FAR_ROWS = [
    np.full((2, 3), 1e300),
    np.full((1, 3), -1.7e308),
    np.array([[1e300, 0.0, -1e300]]),
    np.array([[1e16, 1.0, -1.0], [0.0, 0.0, 0.0]]),
    np.full((3, 3), 1e-300),
    np.full((1, 3), 5e-324),
]


@pytest.mark.every_pair
@pytest.mark.parametrize("scale_features", rest_slow([False, True]))
@pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])
@each_map
@each_loss
def test_rows_far_outside_never_raise_nor_blow_up(
    loss: str, feature_map: str, estimator_class: Any, scale_features: bool
) -> None:
    estimator = estimator_class(feature_map, loss=loss, scale_features=scale_features, random_state=0)
    estimator.fit(normal_rows(20))
    for seed in range(4):
        for far in FAR_ROWS:
            estimator.partial_fit(far)
            assert_sane(estimator, far)
            estimator.partial_fit(normal_rows(2, seed=seed))
            assert_sane(estimator, normal_rows(5, seed=seed))


@pytest.mark.parametrize("feature_map", ["identity", "standardize", StandardScaler()], ids=str)
def test_huge_batch_rows_are_counted(feature_map: Any) -> None:
    estimator = OnlineDensityRatio(feature_map).fit(normal_rows(20))
    estimator.partial_fit(np.full((2, 3), 1e300)).partial_fit(normal_rows(3) * 1e-3)
    assert estimator.n_out_of_bound_ == 2
    assert estimator.n_rounds_ == 2


@each_loss
def test_a_poisoned_round_is_forgotten(loss: str) -> None:
    """One absurd batch among ordinary ones shifts the estimate for a while, not permanently."""
    plain, poisoned = (
        OnlineDensityRatio(loss=loss, step_size=1.0, start="zero").fit(normal_rows(100)) for _ in range(2)
    )
    for t in range(1, 129):
        batch = normal_rows(10, seed=t) + 0.5
        plain.partial_fit(batch)
        poisoned.partial_fit(np.full((10, 3), 1e300) if t == 20 else batch)
    # Every learner restarts from nothing at round 128.
    np.testing.assert_allclose(poisoned.estimated_ratios(), plain.estimated_ratios(), atol=1e-9)
    # The filters of the pool forget with a half-life.
    in_use, expected = poisoned.reference_ratio_, plain.reference_ratio_
    assert 0.5 * np.abs(in_use - expected).mean() < 0.05
