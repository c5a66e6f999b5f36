"""SingleLearnerRatio: one Online Newton Step learner over all history."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import ParameterError
from accous.ratio import base as defaults
from tests.oracles import SlowSingleLearner
from tests.ratio.online_cases import ORACLE_LOSSES, features_by_hand

Array = NDArray[np.float64]

each_loss = pytest.mark.parametrize("loss", ORACLE_LOSSES)


def normal_rows(n_rows: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, 2))


def batches(n_rounds: int) -> list[Array]:
    """Batches of changing size around a mean that turns."""
    return [normal_rows(1 + t % 4, seed=50 + t) + np.cos([t / 5, t / 5 - np.pi / 2]) for t in range(1, n_rounds + 1)]


def neutral(loss: str) -> Array:
    return np.array([0.0, 0.0, 0.0 if loss == "logistic" else 1.0])


@pytest.mark.parametrize(("radius", "step_size", "is_projected"), [(1.2, 30.0, True), (100.0, 0.3, False)])
@pytest.mark.parametrize("ridge", [1.0, 0.05])
@each_loss
def test_every_round_is_one_step_of_algorithm_1(
    loss: str, ridge: float, radius: float, step_size: float, is_projected: bool
) -> None:
    to_features = features_by_hand(loss, bound=2.0)
    settings = {"loss": loss, "radius": radius, "step_size": step_size, "ridge": ridge}
    estimator = SingleLearnerRatio("identity", feature_bound=2.0, **settings).fit(normal_rows(12))
    oracle = SlowSingleLearner(
        to_features(normal_rows(12)), neutral=neutral(loss), kl_floor=1.0 / estimator.max_ratio, **settings
    )
    n_on_surface = 0
    for batch in batches(50):
        estimator.partial_fit(batch)
        oracle.run(to_features(batch))
        assert estimator.n_rounds_ == oracle.round
        np.testing.assert_allclose(estimator.coef_, oracle.theta, rtol=0, atol=1e-9)
        n_on_surface += np.linalg.norm(oracle.theta) > radius * (1 - 1e-9)
    assert (n_on_surface > 5) == is_projected
    assert (n_on_surface == 0) != is_projected


@each_loss
def test_it_learns_from_the_first_round_on(loss: str) -> None:
    estimator = SingleLearnerRatio(loss=loss).fit(normal_rows(20))
    assert estimator.coef_.tolist() == neutral(loss).tolist()
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    assert estimator.n_rounds_ == 0
    estimator.partial_fit(normal_rows(5, seed=1) + 1.0)
    assert estimator.n_rounds_ == 1
    assert np.all(estimator.reference_ratio_ != 1.0)


@each_loss
def test_score_loss_is_the_observed_loss_of_the_current_theta(loss: str) -> None:
    estimator = SingleLearnerRatio("identity", loss=loss, feature_bound=2.0).fit(normal_rows(20))
    probe = normal_rows(7, seed=3)
    to_features = features_by_hand(loss, bound=2.0)
    for batch in batches(6):
        estimator.partial_fit(batch)
        expected = ORACLE_LOSSES[loss](estimator.coef_, to_features(normal_rows(20)), to_features(probe))
        assert estimator.score_loss(probe) == pytest.approx(expected, rel=1e-12)


@each_loss
def test_predict_ratio_of_the_reference_is_the_reference_ratio(loss: str) -> None:
    estimator = SingleLearnerRatio(loss=loss).fit(normal_rows(20))
    for batch in batches(6):
        estimator.partial_fit(batch)
        np.testing.assert_allclose(
            estimator.predict_ratio(normal_rows(20)), estimator.reference_ratio_, rtol=1e-12, atol=1e-12
        )


@each_loss
def test_refit_forgets_everything(loss: str) -> None:
    used, fresh = SingleLearnerRatio(loss=loss), SingleLearnerRatio(loss=loss)
    used.fit(normal_rows(30, seed=8) * 9.0)
    for batch in batches(10):
        used.partial_fit(batch * 99.0)
    for estimator in (used, fresh):
        estimator.fit(normal_rows(20))
        assert (estimator.n_rounds_, estimator.n_out_of_bound_) == (0, 0)
        for batch in batches(10):
            estimator.partial_fit(batch)
    assert used.coef_.tobytes() == fresh.coef_.tobytes()
    assert used.feature_bound_ == fresh.feature_bound_


def test_its_keywords_are_those_of_the_ensemble_as_far_as_they_apply() -> None:
    of_ensemble = inspect.signature(OnlineDensityRatio).parameters
    of_single = inspect.signature(SingleLearnerRatio).parameters
    of_pool = {"pool", "memory", "candidates"}
    assert set(of_ensemble) - set(of_single) == {"min_interval", "horizon", "start", "meta_range"} | of_pool
    for name, parameter in of_single.items():
        assert parameter.default == of_ensemble[name].default
        assert parameter.kind == of_ensemble[name].kind


def test_parameters_resolve_as_in_the_ensemble() -> None:
    single, ensemble = (cls().fit(normal_rows(20)) for cls in (SingleLearnerRatio, OnlineDensityRatio))
    for name in ("radius_", "feature_bound_", "step_size_"):
        assert getattr(single, name) == getattr(ensemble, name)
    assert single.partial_fit(normal_rows(7)).step_size_ == defaults.default_step_size(7, is_log_linear=True)


def test_the_theory_step_is_the_theorems() -> None:
    estimator = SingleLearnerRatio(step_size="theory", radius=2.0).fit(normal_rows(20))
    assert estimator.step_size_ == pytest.approx(3.0 * (1.0 + math.exp(2.0)), rel=1e-14)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("loss", {"loss": "hinge"}),
        ("radius", {"radius": -1.0}),
        ("radius", {"radius": 0.5, "loss": "kl"}),
        ("feature_bound", {"feature_bound": 0.0}),
        ("step_size", {"step_size": "big"}),
        ("step_size", {"step_size": "theory", "loss": "kl"}),
        ("ridge", {"ridge": 0.0}),
        ("max_ratio", {"max_ratio": 0.5}),
        ("feature_map", {"feature_map": "pca"}),
        ("fit_intercept", {"fit_intercept": False, "loss": "least_squares"}),
    ],
)
def test_a_bad_parameter_is_refused_by_name(name: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=name):
        SingleLearnerRatio(**changes).fit(normal_rows(20))


@pytest.mark.parametrize("method", ["predict_ratio", "score_loss"])
def test_an_unfitted_estimator_says_so(method: str) -> None:
    with pytest.raises(NotFittedError, match="SingleLearnerRatio"):
        getattr(SingleLearnerRatio(), method)(normal_rows(5))
