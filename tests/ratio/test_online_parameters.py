"""OnlineDensityRatio: parameters, and what the automatic ones resolve to."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from accous import OnlineDensityRatio
from accous.exceptions import ParameterError
from accous.ratio.base import base as defaults
from tests.ratio.online_cases import (
    MAX_RATIO,
    drifting_batches,
    normal_rows,
    shown_state,
)

BAD_PARAMETERS = [
    ("loss", "hinge"),
    ("loss", None),
    ("radius", 0.0),
    ("radius", -1.0),
    ("radius", math.nan),
    ("radius", math.inf),
    ("radius", "large"),
    ("feature_bound", 0.0),
    ("feature_bound", -2.0),
    ("feature_bound", "norm"),
    ("step_size", 0.0),
    ("step_size", -1.0),
    ("step_size", math.inf),
    ("step_size", "big"),
    ("step_size", None),
    ("step_size", True),
    ("ridge", 0.0),
    ("ridge", -1.0),
    ("ridge", math.nan),
    ("ridge", None),
    ("min_interval", 3),
    ("min_interval", 0),
    ("min_interval", -4),
    ("min_interval", 4.0),
    ("min_interval", True),
    ("min_interval", 2**70),
    ("horizon", 0),
    ("horizon", 10.0),
    ("horizon", "long"),
    ("start", "one"),
    ("start", None),
    ("meta_range", "all"),
    ("meta_range", None),
    ("max_ratio", 0.5),
    ("max_ratio", 1.0),
    ("max_ratio", math.inf),
    ("max_ratio", None),
    ("metric", "dense"),
    ("metric", None),
    ("metric_rank", 0),
    ("metric_rank", 8.0),
    ("metric_rank", None),
    ("feature_map", "pca"),
    ("feature_map", None),
    ("feature_map", 3),
]


def assert_one_sentence_about(name: str, message: str) -> None:
    assert name in message
    assert message.endswith(".")
    assert "\n" not in message
    assert ". " not in message


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS)
def test_a_bad_parameter_is_refused_by_name(name: str, value: Any) -> None:
    estimator = OnlineDensityRatio(**{name: value})
    with pytest.raises(ParameterError) as caught:
        estimator.fit(normal_rows(10))
    assert_one_sentence_about(name, str(caught.value))


@pytest.mark.parametrize("loss", ["least_squares", "kl"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fit_intercept", {"fit_intercept": False}),
        ("radius", {"radius": 0.9}),
        ("step_size", {"step_size": "theory"}),
    ],
)
def test_what_only_the_logistic_loss_can_do_is_refused_for_the_others(
    name: str, changes: dict[str, Any], loss: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        OnlineDensityRatio(loss=loss, **changes).fit(normal_rows(10))
    assert_one_sentence_about(name, str(caught.value))
    assert repr(loss) in str(caught.value)
    OnlineDensityRatio(**({"radius": 0.9} | changes)).fit(normal_rows(10))


@pytest.mark.parametrize(("scale_features", "largest_score"), [(True, 3.0), (False, 6.0)])
def test_the_theory_step_is_the_theorems(scale_features: bool, largest_score: float) -> None:
    estimator = OnlineDensityRatio(
        step_size="theory", radius=3.0, feature_bound=2.0, scale_features=scale_features
    ).fit(normal_rows(10))
    assert estimator.step_size_ == pytest.approx(3.0 * (1.0 + math.exp(largest_score)), rel=1e-14)
    assert estimator.partial_fit(normal_rows(5)).step_size_ == estimator.step_size_


@pytest.mark.parametrize("radius", [708.9, 709.5, 710.0, 1e6])
def test_a_theory_step_that_overflows_is_refused(radius: float) -> None:
    with pytest.raises(ParameterError, match="overflows") as caught:
        OnlineDensityRatio(step_size="theory", radius=radius).fit(normal_rows(10))
    assert_one_sentence_about("step_size", str(caught.value))


@pytest.mark.parametrize("radius", [30.0, 100.0, 200.0, 300.0, 500.0, 700.0])
def test_a_large_theory_step_is_computed_with_or_refused(radius: float) -> None:
    estimator = OnlineDensityRatio(step_size="theory", radius=radius)
    try:
        estimator.fit(normal_rows(10))
    except ParameterError as error:
        assert_one_sentence_about("step_size", str(error))
        return
    for batch in drifting_batches([2], n_rounds=8):
        estimator.partial_fit(batch)
    assert np.all(np.isfinite(estimator.coef_))
    assert np.linalg.norm(estimator.coef_) <= radius * (1 + 1e-9)


def test_parameters_given_as_numpy_numbers_are_taken() -> None:
    settings = {"radius": np.float64(2), "ridge": np.int32(1), "min_interval": np.int64(4)}
    settings |= {"horizon": np.int64(9), "step_size": np.float32(1), "max_ratio": np.int8(100)}
    of_numpy = OnlineDensityRatio(**settings).fit(normal_rows(20))
    of_python = OnlineDensityRatio(**{name: value.item() for name, value in settings.items()})
    of_python.fit(normal_rows(20))
    for batch in drifting_batches([2], n_rounds=12):
        of_numpy.partial_fit(batch)
        of_python.partial_fit(batch)
    assert shown_state(of_numpy) == shown_state(of_python)


@pytest.mark.parametrize("scale_features", [True, False])
@pytest.mark.parametrize("n_features", [2, 12, 64])
def test_radius_none_is_the_documented_rule_with_the_intercept_counted(n_features: int, scale_features: bool) -> None:
    estimator = OnlineDensityRatio(scale_features=scale_features).fit(normal_rows(10, n_features))
    assert estimator.radius_ == defaults.default_radius(
        n_features + 1, is_scaled=scale_features, largest_score=math.log(MAX_RATIO)
    )


def test_the_default_radius_is_half_the_dimension_unscaled_and_can_express_max_ratio_scaled() -> None:
    for n_coefs, largest_score in itertools.product((2, 13, 65), (math.log(MAX_RATIO), MAX_RATIO)):
        assert defaults.default_radius(n_coefs, is_scaled=False, largest_score=largest_score) == n_coefs / 2
        assert defaults.default_radius(n_coefs, is_scaled=True, largest_score=largest_score) >= largest_score


@pytest.mark.parametrize(("loss", "radius"), [("logistic", math.log(1e6)), ("least_squares", 1e6), ("kl", 1e6)])
def test_the_default_radius_follows_max_ratio(loss: str, radius: float) -> None:
    estimator = OnlineDensityRatio(loss=loss, max_ratio=10**6).fit(normal_rows(10))
    assert estimator.radius_ == radius
    assert np.all(np.isfinite(estimator.predict_ratio(normal_rows(3))))


def test_numbers_for_radius_bound_and_step_are_taken_as_they_are() -> None:
    estimator = OnlineDensityRatio(radius=2.5, feature_bound=0.7, step_size=0.3).fit(normal_rows(10))
    estimator.partial_fit(normal_rows(5))
    assert (estimator.radius_, estimator.feature_bound_, estimator.step_size_) == (2.5, 0.7, 0.3)


def test_the_automatic_step_depends_on_the_batch_only_and_grows_with_it() -> None:
    estimator = OnlineDensityRatio().fit(normal_rows(10))
    assert estimator.step_size_ == defaults.default_step_size(1, is_log_linear=True)
    for n_rows in (1, 3, 50):
        estimator.partial_fit(normal_rows(n_rows) * 100)
        assert estimator.step_size_ == defaults.default_step_size(n_rows, is_log_linear=True)
    steps = [defaults.default_step_size(n_rows, is_log_linear=True) for n_rows in (1, 2, 5, 10, 1000)]
    assert steps == sorted(steps)


def test_the_meta_range_called_auto_is_the_documented_choice() -> None:
    automatic = OnlineDensityRatio(meta_range="auto").fit(normal_rows(20))
    explicit = OnlineDensityRatio(meta_range=defaults.AUTO_META_RANGE).fit(normal_rows(20))
    for batch in drifting_batches([2], n_rounds=20):
        automatic.partial_fit(batch)
        explicit.partial_fit(batch)
    assert shown_state(automatic) == shown_state(explicit)
