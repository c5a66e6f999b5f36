"""OnlineDensityRatio against the slow transcription of the paper, after every round."""

import math
from typing import Any

import numpy as np
import pytest

from accous import OnlineDensityRatio
from accous.ratio import base as defaults
from tests.budgets import rest_slow
from tests.oracles import PaperAccous
from tests.ratio.online_cases import (
    MAX_RATIO,
    assert_agrees,
    brought_back,
    drifting_batches,
    each_loss,
    features_by_hand,
    normal_rows,
    paper_oracle,
    paper_settings,
)


@pytest.mark.parametrize("sizes", rest_slow([[1, 5, 2, 9, 1, 1, 30], [1], [8]]), ids=["changing", "one", "many"])
@pytest.mark.parametrize(
    ("changes", "is_projected"),
    [
        ({"radius": 0.3, "step_size": 2.0}, True),
        ({"radius": 0.3, "step_size": 50.0, "ridge": 0.01}, True),
        ({"radius": 50.0, "step_size": 0.5}, False),
        ({"radius": 50.0, "step_size": 0.5, "ridge": 4.0}, False),
    ],
)
def test_paper_mode_is_algorithms_1_and_2_after_every_round(
    changes: dict[str, Any], is_projected: bool, sizes: list[int]
) -> None:
    settings = paper_settings(**changes)
    reference = normal_rows(15)
    estimator = OnlineDensityRatio(**settings).fit(reference)
    oracle = paper_oracle(reference, settings)
    assert_agrees(estimator, oracle)
    n_on_surface = 0
    for batch in drifting_batches(sizes, n_rounds=70):
        estimator.partial_fit(batch)
        oracle.run(batch)
        assert_agrees(estimator, oracle)
        norms = np.linalg.norm(oracle.learner_thetas, axis=1)
        n_on_surface += np.count_nonzero(norms > settings["radius"] * (1 - 1e-9))
    assert (n_on_surface > 20) == is_projected
    assert (n_on_surface == 0) != is_projected
    assert estimator.n_out_of_bound_ == 0


def test_rows_longer_than_the_bound_are_learned_as_if_brought_back() -> None:
    settings = paper_settings(feature_bound=1.2)
    reference = normal_rows(15)
    estimator = OnlineDensityRatio(**settings).fit(reference)
    oracle = paper_oracle(brought_back(reference, 1.2), settings)
    n_long = 0
    for batch in drifting_batches([1, 4], n_rounds=40):
        estimator.partial_fit(batch)
        oracle.run(brought_back(batch, 1.2))
        n_long += np.count_nonzero(np.linalg.norm(batch, axis=1) > 1.2)
        assert_agrees(estimator, oracle)
        assert estimator.n_out_of_bound_ == n_long
    assert n_long > 20


@pytest.mark.parametrize("horizon", [None, 1, 20, 64, 10_000])
def test_any_horizon_or_none_agrees_also_beyond_it(horizon: int | None) -> None:
    settings = paper_settings(horizon=horizon)
    reference = normal_rows(10)
    estimator = OnlineDensityRatio(**settings).fit(reference)
    oracle = paper_oracle(reference, settings)
    for batch in drifting_batches([2], n_rounds=70):
        estimator.partial_fit(batch)
        oracle.run(batch)
        assert_agrees(estimator, oracle)


@pytest.mark.parametrize("min_interval", [1, 2, 4, 8, 128])
def test_any_shortest_interval_agrees(min_interval: int) -> None:
    settings = paper_settings()
    reference = normal_rows(10)
    estimator = OnlineDensityRatio(**settings, min_interval=min_interval).fit(reference)
    oracle = paper_oracle(reference, settings, min_interval=min_interval)
    for batch in drifting_batches([2], n_rounds=35):
        estimator.partial_fit(batch)
        oracle.run(batch)
        assert_agrees(estimator, oracle)


@pytest.mark.every_pair
@pytest.mark.parametrize("start", ["zero", "ensemble", "auto"])
@pytest.mark.parametrize("meta_range", ["paper", "running"])
@pytest.mark.parametrize("horizon", rest_slow([None, 1]))
@each_loss
def test_every_loss_with_intercept_and_scaling_agrees(
    loss: str, horizon: int | None, meta_range: str, start: str
) -> None:
    bound, radius = 2.0, 3.0
    to_features = features_by_hand(loss, bound)
    reference = normal_rows(12, n_features=2)
    shared = {"radius": radius, "step_size": 0.7, "loss": loss, "horizon": horizon, "meta_range": meta_range}
    estimator = OnlineDensityRatio("identity", feature_bound=bound, start=start, **shared).fit(reference)
    longest = 1.0 if loss == "logistic" else math.sqrt(2.0)
    gradient_bounds = {
        "logistic": None,
        "least_squares": longest * (longest * radius + 1.0),
        "kl": longest * (1.0 + MAX_RATIO),
    }
    oracle = PaperAccous(
        to_features(reference),
        feature_bound=longest,
        neutral=np.array([0.0, 0.0, 1.0]),
        kl_floor=1.0 / MAX_RATIO,
        gradient_bound=gradient_bounds[loss],
        start=defaults.AUTO_START if start == "auto" else start,
        **shared,
    )
    smallest_rate = 0.5
    for batch in drifting_batches([1, 3], n_rounds=36, n_features=2):
        estimator.partial_fit(batch)
        oracle.run(to_features(batch))
        assert_agrees(estimator, oracle)
        smallest_rate = min([smallest_rate, *(learner.eps for learner in oracle.learners.values())])
    assert estimator.n_out_of_bound_ > 0
    # With K = 2 and margins up to 1 the rates do fall, so that their part in the weights is seen, too.
    assert (smallest_rate < 0.49) == (horizon == 1 and meta_range == "running")


def test_the_steps_called_auto_are_those_of_the_documented_rule() -> None:
    settings = paper_settings(step_size=defaults.default_step_size(6, is_log_linear=True))
    reference = normal_rows(12)
    estimator = OnlineDensityRatio(**(settings | {"step_size": "auto"})).fit(reference)
    oracle = paper_oracle(reference, settings)
    for batch in drifting_batches([6], n_rounds=20):
        estimator.partial_fit(batch)
        oracle.run(batch)
    assert_agrees(estimator, oracle)
