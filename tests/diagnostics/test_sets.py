"""Conformal sets: against a slow version, and their coverage under a shift that is known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.arrays import FloatArray
from accous.diagnostics.risk import conformal_sets

scores_of = arrays(np.float64, 8, elements=st.integers(0, 10).map(lambda tenth: tenth / 10.0))
weights_of = arrays(np.float64, 8, elements=st.floats(0.01, 10.0))


def slow_limit(scores: FloatArray, weights: FloatArray, row_weight: float, alpha: float) -> float:
    for limit in sorted(scores):
        if weights[scores <= limit].sum() >= (1.0 - alpha) * (weights.sum() + row_weight) * (1.0 - 1e-12):
            return float(limit)
    return np.inf


@given(scores_of, weights_of, st.floats(0.0, 20.0), st.floats(0.01, 0.99))
def test_sets_equal_the_slow_version(scores: FloatArray, weights: FloatArray, row_weight: float, alpha: float) -> None:
    row_scores = np.linspace(0.0, 1.0, 11)[None]
    found = conformal_sets(scores, weights, row_scores, np.array([row_weight]), alpha)
    assert found.tolist() == (row_scores <= slow_limit(scores, weights, row_weight, alpha)).tolist()


def test_a_row_that_outweighs_the_reference_gets_every_class() -> None:
    found = conformal_sets(np.zeros(5), np.ones(5), np.array([[0.9, 0.1]]), np.array([1000.0]), 0.1)
    assert found.tolist() == [[True, True]]


def test_with_the_true_ratio_the_coverage_is_that_asked_for() -> None:
    """Scores are |x| with x normal; the rows to come are three times as wide."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(60):
        x, fresh = rng.normal(size=2000), 1.5 * rng.normal(size=400)
        ratio = [np.exp(-(z**2) / 4.5 + z**2 / 2) / 1.5 for z in (x, fresh)]
        scores = np.abs(np.stack((fresh, fresh), axis=1))
        covered.append(conformal_sets(np.abs(x), ratio[0], scores, ratio[1], 0.2)[:, 0].mean())
    assert abs(np.mean(covered) - 0.8) < 0.02
    unweighted = conformal_sets(np.abs(x), np.ones(2000), scores, np.ones(400), 0.2)[:, 0].mean()
    assert unweighted < 0.7
