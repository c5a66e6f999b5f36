"""The metric of the ratio estimators: what "auto" means, and what is kept."""

from typing import Any

import numpy as np
import pytest

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.core.learners import DiagonalStack, Metric, Sketch, WideStack
from accous.ratio.base import MAX_FULL_FEATURES
from tests.ratio.online_cases import drifting_batches, normal_rows

each_estimator = pytest.mark.parametrize("make", [OnlineDensityRatio, SingleLearnerRatio])
each_metric = pytest.mark.parametrize("metric", ["full", "diagonal", "low_rank"])


def played(model: Any, n_features: int, n_rounds: int = 20) -> Any:
    model.fit(normal_rows(30, n_features))
    for batch in drifting_batches([3, 1], n_rounds, n_features):
        model.partial_fit(batch)
    return model


def stack_of(model: Any) -> Any:
    return model.state_.learner if isinstance(model, SingleLearnerRatio) else model.state_.learners


@each_estimator
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n_extra", "metric"), [(0, "full"), (1, "low_rank")])
def test_auto_keeps_the_whole_matrix_up_to_a_width(make: Any, fit_intercept: bool, n_extra: int, metric: str) -> None:
    rows = normal_rows(5, MAX_FULL_FEATURES + n_extra)
    model = make(fit_intercept=fit_intercept).fit(rows)
    assert model.metric_ == metric
    for row in rows:
        model.partial_fit(row[None])
    assert {type(part) for part in stack_of(model).metrics} == {Metric if metric == "full" else Sketch}


@each_estimator
@pytest.mark.parametrize("n_features", [3, 100])
def test_auto_is_full_bit_for_bit_below(make: Any, n_features: int) -> None:
    auto, full = played(make(), n_features), played(make(metric="full"), n_features)
    assert auto.coef_.tobytes() == full.coef_.tobytes()
    assert auto.reference_ratio_.tobytes() == full.reference_ratio_.tobytes()


@each_estimator
@pytest.mark.parametrize("n_features", [3, 100])
def test_what_is_asked_for_is_kept_at_every_width(make: Any, n_features: int) -> None:
    diagonal, sketched = (
        stack_of(played(make(metric=metric, metric_rank=2), n_features)) for metric in ("diagonal", "low_rank")
    )
    assert isinstance(diagonal, DiagonalStack)
    assert isinstance(sketched, WideStack)
    assert max(len(part.rows) for part in sketched.metrics if isinstance(part, Sketch)) <= 4


@pytest.mark.every_pair
@each_estimator
@each_metric
@pytest.mark.parametrize("n_features", [3, 100])
@pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])
def test_every_metric_finds_the_drift(make: Any, metric: str, n_features: int, loss: str) -> None:
    """Rows like the batches have larger ratios than rows on the other side."""
    model = make(metric=metric, loss=loss).fit(normal_rows(200, n_features))
    towards = np.zeros(n_features)
    towards[0] = 2.0
    for seed in range(40):
        model.partial_fit(normal_rows(5, n_features, seed, loc=towards))
    there, opposite = model.predict_ratio(np.array([towards, -towards]))
    assert there > 1.2 * opposite


@each_estimator
def test_the_metric_makes_a_difference(make: Any) -> None:
    coefs = [
        played(make(metric=metric, metric_rank=1, ridge=0.1), 10, 30).coef_
        for metric in ("full", "diagonal", "low_rank")
    ]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(coefs[one] - coefs[other]).max() > 1e-3 * np.abs(coefs[0]).max()
