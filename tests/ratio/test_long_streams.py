"""Streams that go on: everything stays finite, memory stays flat, inverses stay inverses."""

import gc
import math
import sys
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from accous import AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio
from tests.budgets import rest_slow

Array = NDArray[np.float64]

N_ROUNDS = 5_000


def reference():
    return np.random.default_rng(0).normal(size=(20, 3))


def noise(n_rounds=N_ROUNDS):
    return np.random.default_rng(1).normal(size=(n_rounds, 1, 3))


def jumping(t, draw):
    return draw + (2.0 if t // 333 % 2 else -2.0)


def stopping(t, draw):
    """Turns around the origin until half-time, then stands still."""
    angle = min(t, N_ROUNDS // 2) / 50
    return draw + np.array([2.0 * math.cos(angle), 2.0 * math.sin(angle), 0.0])


def constant(t, draw):
    return np.array([[0.5, -1.0, 2.0]])


def running_away(t, draw):
    return draw * 1.15 ** min(t, 4_900)  # up to 1e297


STREAMS = rest_slow([jumping, running_away, stopping, constant], n_fast=2)


def assert_healthy(matrices, inverse_roots, drift):
    """A is positive definite, and W W^T is its inverse up to the drift."""
    assert np.linalg.eigvalsh(matrices).min() > 0.5
    errors = matrices @ inverse_roots @ inverse_roots.transpose(0, 2, 1) - np.eye(matrices.shape[-1])
    assert np.linalg.norm(errors, axis=(1, 2)).max() < drift


def assert_finite(estimator):
    assert np.all(np.isfinite(estimator.coef_))
    assert np.linalg.norm(estimator.coef_) <= estimator.radius_ * (1.0 + 1e-9)


def run_and_check(estimator, stream, n_rounds=N_ROUNDS):
    estimator.fit(reference())
    for t, draw in enumerate(noise(n_rounds), start=1):
        estimator.partial_fit(stream(t, draw))
        assert_finite(estimator)
        assert len(estimator.learner_lengths_) <= math.log2(t + 1)
        if t % 97 == 0 or (t + 1).bit_count() == 1 < t:
            learners = estimator.state_.learners
            assert_healthy(learners.matrices, learners.inverse_roots, drift=1e-10)
            assert np.all(np.isfinite(estimator.learner_weights_))
            assert np.all(np.isfinite(estimator.state_.meta.log_potentials))
            assert estimator.learner_weights_.sum() == pytest.approx(1.0, rel=1e-12)
            ratio = estimator.reference_ratio_
            assert np.all((ratio >= 0.0) & (ratio <= estimator.max_ratio))
    assert estimator.n_rounds_ == n_rounds
    assert estimator.learner_lengths_[-1] == 2 ** int(math.log2(n_rounds + 1))


@pytest.mark.parametrize("stream", STREAMS)
def test_five_thousand_rounds_stay_healthy(stream):
    run_and_check(OnlineDensityRatio(), stream)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "least_squares"},
        {"loss": "kl"},
        {"start": "ensemble", "meta_range": "paper"},
        {"horizon": 1000, "step_size": 1.0},
        {"ridge": 1.0, "step_size": 1e6},
    ],
    ids=str,
)
def test_other_settings_stay_healthy_when_the_stream_jumps(changes):
    run_and_check(OnlineDensityRatio(**changes), jumping, n_rounds=1_100)


@pytest.mark.parametrize("loss", rest_slow(["logistic", "least_squares", "kl"]))
def test_the_single_learner_stays_healthy_when_the_stream_jumps(loss):
    estimator = SingleLearnerRatio(loss=loss).fit(reference())
    for t, draw in enumerate(noise(), start=1):
        estimator.partial_fit(jumping(t, draw))
        assert_finite(estimator)
    learner = estimator.state_.learner
    assert_healthy(learner.matrices, learner.inverse_roots, drift=1e-9)


def traced_growth(estimator, n_rounds):
    """Bytes that Python allocated in these rounds and did not free."""
    draws = noise(n_rounds)
    tracemalloc.start()
    try:
        for draw in draws[: n_rounds // 10]:
            estimator.partial_fit(draw)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for draw in draws[n_rounds // 10 :]:
            estimator.partial_fit(draw)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def peak_memory():
    """Largest resident size of this process so far, in bytes."""
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@pytest.mark.slow
def test_one_million_rounds():
    n_rounds = 1_000_000
    estimator = OnlineDensityRatio().fit(reference())
    rng = np.random.default_rng(2)
    peak_early = 0
    for t in range(1, n_rounds + 1):
        if t % 10_000 == 1:
            draws = rng.normal(2.0 if t // 10_000 % 2 else -2.0, size=(10_000, 1, 3))
        estimator.partial_fit(draws[(t - 1) % 10_000])
        if t % 1_000 == 0:
            assert_finite(estimator)
            learners = estimator.state_.learners
            assert_healthy(learners.matrices, learners.inverse_roots, drift=1e-9)
            assert len(estimator.learner_lengths_) <= math.log2(t + 1)
        if t == 100_000:
            peak_early = peak_memory()
    assert estimator.n_rounds_ == n_rounds
    assert peak_memory() - peak_early < 20e6
    assert traced_growth(estimator, n_rounds=5_000) < 20_000


def test_a_round_of_wide_rows_makes_no_matrix_of_all_pairs_of_columns():
    draws = np.random.default_rng(0).normal(size=(30, 5, 2000))
    model = AdaptiveClassifier("linear").fit(np.concatenate(draws[:20]), np.arange(100) % 2)
    tracemalloc.start()
    try:
        for draw in draws[20:]:
            model.adapt(draw + 1.0)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2000**2 / 4
    finally:
        tracemalloc.stop()
    assert model.n_refits_ > 0
