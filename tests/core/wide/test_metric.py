"""A learner's matrix as a root and pending gradients: against the dense matrix, and as a value."""

from itertools import pairwise

import numpy as np
import pytest

from accous.core.learners import Metric, start_metric
from tests.builders import Array
from tests.core.paper.test_newton import solve_in_long_double, unit_rows

each_width = pytest.mark.parametrize("d", [1, 2, 7, 150])
each_ridge = pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])


def play(metric: Metric, gradients: Array) -> list[tuple[Metric, Array]]:
    """Metric and direction after each gradient."""
    steps = []
    for gradient in gradients:
        metric, direction = metric.plus(gradient)
        steps.append((metric, direction))
    return steps


def draw_gradients(d: int, n: int, scale: float = 0.5) -> Array:
    rng = np.random.default_rng(d)
    return scale * (unit_rows(rng, n, d) * rng.uniform(0.1, 1.0, size=(n, 1)) + 0.2 / np.sqrt(d))


# --- against the dense matrix -----------------------------------------------------------------------------------


@each_width
@each_ridge
def test_every_step_equals_the_dense_one(d: int, ridge: float) -> None:
    """200 gradients: young rows, the first root, pending rows, and roots after it."""
    A = ridge * np.eye(d)
    gradients = draw_gradients(d, 200)
    probe = np.linspace(-1.0, 1.0, d)
    roots = set()
    for gradient, (metric, direction) in zip(gradients, play(start_metric(ridge, d), gradients), strict=True):
        A += np.outer(gradient, gradient)
        expected = np.linalg.solve(A, gradient)
        np.testing.assert_allclose(direction, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())
        np.testing.assert_allclose(metric.apply(probe), A @ probe, rtol=1e-11, atol=1e-11 * np.abs(A).max())
        solved = np.linalg.solve(A, probe)
        np.testing.assert_allclose(metric.solve(probe), solved, rtol=1e-9, atol=1e-11 * np.abs(solved).max())
        roots.add(metric.root is None)
    np.testing.assert_allclose(metric.dense(), A, rtol=1e-12, atol=1e-12 * np.abs(A).max())
    assert roots == {True, False}


def test_pending_rows_stay_few() -> None:
    sizes = [len(metric.pending) for metric, _ in play(start_metric(1.0, 150), draw_gradients(150, 400))]
    assert max(sizes) < 75
    assert sum(after < before for before, after in pairwise(sizes)) >= 4


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("ridge", [1.0, 1e-9])
@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_directions_stay_exact_when_gradients_are_large_beside_the_ridge(
    size: float, ridge: float, noise: float
) -> None:
    """`size` is ||g||^2 / lambda; with little noise all gradients are nearly parallel."""
    rng = np.random.default_rng(2)
    d = 6
    favourite = unit_rows(rng, 1, d)[0]
    exact_matrix = ridge * np.eye(d, dtype=np.longdouble)
    metric = start_metric(ridge, d)
    for _ in range(300):
        gradient = (1.0 - noise) * favourite + noise * unit_rows(rng, 1, d)[0]
        gradient *= np.sqrt(size * ridge) / np.linalg.norm(gradient)
        exact_gradient = gradient.astype(np.longdouble)
        exact_matrix += exact_gradient[:, None] * exact_gradient
        metric, direction = metric.plus(gradient)
        expected = solve_in_long_double(exact_matrix, exact_gradient)
        assert np.linalg.norm(direction - expected) <= 1e-6 * np.linalg.norm(expected)


def test_inverse_stays_positive_when_gradients_are_huge_beside_the_ridge() -> None:
    metric = start_metric(1e-7, 4)
    for gradient in 1e8 * unit_rows(np.random.default_rng(3), 200, 4):
        metric, direction = metric.plus(gradient)
        assert np.isfinite(direction).all()
        assert gradient @ direction > 0.0
        assert gradient @ metric.solve(gradient) > 0.0


def test_no_drift_after_many_gradients() -> None:
    gradients = draw_gradients(5, 10_000)
    metric, _ = play(start_metric(1.0, 5), gradients)[-1]
    A = np.eye(5) + gradients.T @ gradients
    inverse = np.array([metric.solve(axis) for axis in np.eye(5)])
    assert np.abs(inverse @ A - np.eye(5)).max() <= 1e-11


def test_a_gradient_of_zero_changes_no_product() -> None:
    metric, _ = play(start_metric(2.0, 7), draw_gradients(7, 90))[-1]
    after, direction = metric.plus(np.zeros(7))
    probe = np.arange(7.0)
    np.testing.assert_array_equal(direction, 0.0)
    np.testing.assert_allclose(after.solve(probe), metric.solve(probe), rtol=1e-14)


# --- the metric as a value --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_before", [0, 10, 63, 64, 100, 127])
def test_a_step_writes_into_nothing_and_can_be_repeated(n_before: int) -> None:
    gradients = draw_gradients(9, n_before + 1)
    metric = play(start_metric(1.0, 9), gradients[:-1])[-1][0] if n_before else start_metric(1.0, 9)
    arrays = [array for array in (metric.root, metric.pending, metric.factor, gradients) if array is not None]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    (first, first_direction), (second, second_direction) = metric.plus(gradients[-1]), metric.plus(gradients[-1])
    other, _ = metric.plus(-3.0 * gradients[-1])
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert first_direction.tobytes() == second_direction.tobytes()
    assert first.dense().tobytes() == second.dense().tobytes()
    assert np.abs(other.dense() - first.dense()).max() > 1e-3
