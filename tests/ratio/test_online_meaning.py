"""OnlineDensityRatio: the ratio means what it says."""

from typing import Any

import numpy as np
import pytest

from accous import OnlineDensityRatio, SingleLearnerRatio
from tests.ratio.online_cases import (
    Array,
    each_loss,
    normal_rows,
)


def shifted_normal_estimate(estimator: Any, seed: int) -> tuple[float, float]:
    """Correlation of the estimated with the true log ratio of N(mu, I) to N(0, I), and mean reference ratio."""
    rng = np.random.default_rng(seed)
    mu = np.array([0.5, 0.0, -0.25])
    estimator.fit(rng.normal(size=(500, 3)))
    for _ in range(300):
        estimator.partial_fit(rng.normal(mu, size=(20, 3)))
    rows = rng.normal(size=(500, 3))
    true_log_ratio = rows @ mu - mu @ mu / 2.0
    log_ratio = np.log(np.maximum(estimator.predict_ratio(rows), 1e-2))
    return float(np.corrcoef(log_ratio, true_log_ratio)[0, 1]), float(estimator.reference_ratio_.mean())


each_estimator = pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])


@each_estimator
@each_loss
def test_a_standing_stream_gives_the_true_ratio(loss: str, estimator_class: Any) -> None:
    pool = {"pool": "none"} if estimator_class is OnlineDensityRatio else {}
    correlation, mean_ratio = shifted_normal_estimate(estimator_class(loss=loss, step_size=1.0, **pool), seed=0)
    assert correlation > (0.97 if loss == "logistic" else 0.75)
    assert 0.9 < mean_ratio < 1.1


@each_loss
def test_on_a_standing_stream_the_pool_keeps_the_direction_and_corrects_the_mean(loss: str) -> None:
    correlation, mean_ratio = shifted_normal_estimate(OnlineDensityRatio(loss=loss, step_size=1.0), seed=0)
    assert correlation > (0.95 if loss == "logistic" else 0.75)
    assert mean_ratio == pytest.approx(1.0, abs=1e-9)


@each_estimator
@each_loss
def test_the_defaults_give_the_direction_and_size_of_the_ratio(loss: str, estimator_class: Any) -> None:
    results = [shifted_normal_estimate(estimator_class(loss=loss), seed) for seed in range(3)]
    correlations, mean_ratios = np.array(results).T
    assert np.median(correlations) > 0.5
    assert np.all((mean_ratios > 0.33) & (mean_ratios < 3.0)), mean_ratios


def ratio_errors(estimator: Any, n_rounds: int, jump: int) -> Array:
    """mean |r - r*| on the reference after each round of N(mu, I) -> N(-mu, I)."""
    rng = np.random.default_rng(0)
    reference, mu = rng.normal(size=(300, 2)), np.array([0.8, 0.0])
    estimator.fit(reference)
    errors = []
    for t in range(1, n_rounds + 1):
        mean = mu if t <= jump else -mu
        estimator.partial_fit(rng.normal(mean, size=(5, 2)))
        true_ratio = np.exp(reference @ mean - mean @ mean / 2.0)
        errors.append(np.abs(estimator.reference_ratio_ - true_ratio).mean())
    return np.array(errors)


@each_loss
def test_after_a_jump_the_ensemble_recovers_and_the_single_learner_lags(loss: str) -> None:
    jump, n_rounds = 700, 800
    of_ensemble, of_single = (
        ratio_errors(estimator_class(loss=loss, step_size=1.0), n_rounds, jump)
        for estimator_class in (OnlineDensityRatio, SingleLearnerRatio)
    )
    assert of_single[jump - 50 : jump].mean() < 0.4  # it did learn
    at_jump = of_ensemble[jump]
    assert of_ensemble[-20:].mean() < 0.5 * at_jump
    assert of_ensemble[jump:].mean() < 0.85 * of_single[jump:].mean()


def test_the_ratio_is_batch_over_reference() -> None:
    estimator = OnlineDensityRatio().fit(normal_rows(200, n_features=1))
    for seed in range(40):
        estimator.partial_fit(normal_rows(20, n_features=1, seed=seed, loc=1.0))
    left, right = estimator.predict_ratio([[-1.0], [1.5]])
    assert left < 1.0 < right
