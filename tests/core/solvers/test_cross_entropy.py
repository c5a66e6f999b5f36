"""The weighted cross-entropy of scores: against a loop over rows, differences, and scores beyond all bounds."""

import math

import numpy as np
import pytest

from accous.arrays import FloatArray
from accous.core.regression import CrossEntropy, Sigmoid, Softmax, make_cross_entropy

each_n_scores = pytest.mark.parametrize("n_scores", [1, 3, 6])


def make_case(n_scores: int, n_rows: int = 25) -> tuple[CrossEntropy, FloatArray]:
    rng = np.random.default_rng(n_scores)
    labels = rng.integers(0, max(n_scores, 2), n_rows)
    return make_cross_entropy(labels, rng.exponential(size=n_rows), n_scores), 2.0 * rng.normal(size=(n_scores, n_rows))


def row_probabilities(scores: FloatArray) -> list[float]:
    """Class probabilities of one row, two where it has one score."""
    all_scores = [0.0, float(scores[0])] if len(scores) == 1 else [float(score) for score in scores]
    powers = [math.exp(score) for score in all_scores]
    return [power / sum(powers) for power in powers]


def slow_value(loss: CrossEntropy, scores: FloatArray) -> float:
    return -sum(
        weight * math.log(row_probabilities(row)[label])
        for row, label, weight in zip(scores.T, loss.labels, loss.weights, strict=True)
    )


@each_n_scores
def test_value_and_probabilities_are_those_of_a_loop_over_rows(n_scores: int) -> None:
    loss, scores = make_case(n_scores)
    found = loss.evaluate(scores)
    np.testing.assert_allclose(found.value, slow_value(loss, scores), rtol=1e-13)
    expected = np.array([row_probabilities(row)[-n_scores:] for row in scores.T]).T
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-13)


@each_n_scores
def test_residuals_are_the_derivative(n_scores: int) -> None:
    loss, scores = make_case(n_scores)
    residuals, step = loss.evaluate(scores).residuals, 1e-6
    for place in np.ndindex(scores.shape):
        moved = np.zeros_like(scores)
        moved[place] = step
        difference = slow_value(loss, scores + moved) - slow_value(loss, scores - moved)
        np.testing.assert_allclose(residuals[place], difference / (2.0 * step), atol=1e-7)


@each_n_scores
def test_curvature_along_a_change_is_the_second_derivative(n_scores: int) -> None:
    loss, scores = make_case(n_scores)
    change, step = np.random.default_rng(9).normal(size=scores.shape), 1e-5
    slopes = [np.vdot(loss.evaluate(scores + sign * step * change).residuals, change) for sign in (-1.0, 1.0)]
    found = loss.curvature_along(loss.evaluate(scores).probabilities, change)
    np.testing.assert_allclose(found, (slopes[1] - slopes[0]) / (2.0 * step), rtol=1e-7)


@each_n_scores
def test_total_curvature_is_the_sum_over_rows(n_scores: int) -> None:
    loss, scores = make_case(n_scores)
    values, vectors = loss.total_curvature(loss.evaluate(scores).probabilities)
    expected = np.zeros((n_scores, n_scores))
    for row, weight in zip(scores.T, loss.weights, strict=True):
        p = np.array(row_probabilities(row)[-n_scores:])
        expected += weight * (np.diag(p) - np.outer(p, p))
    np.testing.assert_allclose((vectors * values) @ vectors.T, expected, atol=1e-12)
    assert np.all(values >= 0.0)


@pytest.mark.parametrize("kind", [Sigmoid, Softmax])
def test_enormous_scores_are_finite(kind: type[CrossEntropy]) -> None:
    scores = np.array([[1e300, -1e300, 800.0, -800.0]])
    if kind is Softmax:
        scores = np.concatenate((np.zeros((1, 4)), scores))
    found = kind(np.array([1, 1, 0, 0]), np.ones(4)).evaluate(scores)
    np.testing.assert_allclose(found.value, 1e300)
    np.testing.assert_array_equal(found.probabilities[-1], [1.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(found.residuals[-1], [0.0, -1.0, 1.0, 0.0])
