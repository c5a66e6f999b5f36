"""A learner's matrix as a ridge and a few rows: against frequent directions written down plainly, and as a value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.core.learners import Sketch, start_sketch
from tests import oracles
from tests.budgets import examples
from tests.builders import Array
from tests.core.paper.test_newton import solve_in_long_double, unit_rows
from tests.core.paper.test_projection import random_point
from tests.metric_oracles import PlainSketch

each_width = pytest.mark.parametrize("d", [1, 2, 7, 40])
each_rank = pytest.mark.parametrize("rank", [1, 3, 8])


def draw_gradients(d: int, n: int, scale: float = 0.5) -> Array:
    """Rows along a few favourite directions, with noise."""
    rng = np.random.default_rng(d)
    favourites = unit_rows(rng, 2, d)
    return scale * (rng.normal(size=(n, 2)) @ favourites + 0.3 * unit_rows(rng, n, d) + 0.2 / np.sqrt(d))


def play(sketch: Sketch, gradients: Array) -> Sketch:
    for gradient in gradients:
        sketch, _ = sketch.plus(gradient)
    return sketch


# --- against the plain version ----------------------------------------------------------------------------------


@pytest.mark.every_pair
@each_width
@each_rank
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_every_step_equals_the_plain_one(d: int, rank: int, ridge: float) -> None:
    sketch, plain = start_sketch(ridge, d, rank), PlainSketch(ridge, d, rank)
    for gradient in draw_gradients(d, 60):
        sketch, direction = sketch.plus(gradient)
        expected = plain.plus(gradient)
        np.testing.assert_allclose(direction, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(sketch.dense(), plain.dense, rtol=1e-9, atol=1e-9)


def test_as_long_as_all_rows_have_room_the_matrix_is_the_whole_one() -> None:
    gradients = draw_gradients(30, 16)
    sketch = play(start_sketch(2.0, 30, 8), gradients)
    np.testing.assert_allclose(sketch.dense(), 2.0 * np.eye(30) + gradients.T @ gradients, rtol=1e-13, atol=1e-13)


def test_gradients_of_few_directions_are_never_lost() -> None:
    """Of rank k at most, the matrix stays exact however many there are."""
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(500, 4)) @ unit_rows(rng, 4, 25)
    sketch = play(start_sketch(1.0, 25, 4), gradients)
    A = np.eye(25) + gradients.T @ gradients
    np.testing.assert_allclose(sketch.dense(), A, rtol=1e-9, atol=1e-10 * np.abs(A).max())


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 30), rank=st.integers(1, 6), n=st.integers(1, 80))
def test_the_error_is_within_the_bound_of_frequent_directions(seed: int, d: int, rank: int, n: int) -> None:
    """No direction is off by more than half of all deltas, which is at most the energy beyond k' directions / (k - k').

    The bound is that of frequent directions with k + 1 rows, whose deltas add up to twice the largest error here.
    """
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(n, d)) * np.geomspace(1.0, 0.05, d)
    sketch = play(start_sketch(1.0, d, rank), gradients)
    exact = np.eye(d) + gradients.T @ gradients
    errors = np.abs(np.linalg.eigvalsh(sketch.dense() - exact))
    squares = np.sort(np.linalg.eigvalsh(gradients.T @ gradients))[::-1]
    bounds = [squares[kept:].sum() / (rank + 1 - kept) for kept in range(min(rank, d) + 1)]
    assert errors.max() <= 0.5 * min(bounds) * (1.0 + 1e-9) + 1e-9


def test_the_number_of_rows_stays_bounded() -> None:
    sketch, sizes = start_sketch(1.0, 20, 5), set()
    for gradient in draw_gradients(20, 200):
        sketch, _ = sketch.plus(gradient)
        sizes.add(len(sketch.rows))
        assert sketch.factor.shape == (len(sketch.rows),) * 2
    assert max(sizes) == 10


# --- large gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("ridge", [1.0, 1e-9])
@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_directions_stay_exact_when_gradients_are_large_beside_the_ridge(
    size: float, ridge: float, noise: float
) -> None:
    """`size` is ||g||^2 / lambda; with little noise all gradients are nearly parallel."""
    rng = np.random.default_rng(2)
    d, rank = 12, 6
    favourite = unit_rows(rng, 1, d)[0]
    exact_matrix = ridge * np.eye(d, dtype=np.longdouble)
    sketch = start_sketch(ridge, d, rank)
    for _ in range(2 * rank):
        gradient = (1.0 - noise) * favourite + noise * unit_rows(rng, 1, d)[0]
        gradient *= np.sqrt(size * ridge) / np.linalg.norm(gradient)
        exact_gradient = gradient.astype(np.longdouble)
        exact_matrix += exact_gradient[:, None] * exact_gradient
        sketch, direction = sketch.plus(gradient)
        expected = solve_in_long_double(exact_matrix, exact_gradient)
        assert np.linalg.norm(direction - expected) <= 1e-6 * np.linalg.norm(expected)


def test_the_matrix_stays_positive_when_gradients_are_huge_beside_the_ridge() -> None:
    sketch = start_sketch(1e-7, 9, 2)
    for gradient in 1e8 * unit_rows(np.random.default_rng(3), 100, 9):
        sketch, direction = sketch.plus(gradient)
        assert np.isfinite(direction).all()
        assert gradient @ direction > 0.0


# --- projection -------------------------------------------------------------------------------------------------


@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 25),
    n=st.integers(0, 40),
    log_scale=st.floats(-2.0, 2.0),
    log_distance=st.floats(-9.0, 4.0),
    log_radius=st.floats(-2.0, 2.0),
)
def test_the_projection_is_the_nearest_point_of_the_ball(
    seed: int, d: int, n: int, log_scale: float, log_distance: float, log_radius: float
) -> None:
    rng = np.random.default_rng(seed)
    radius = 10.0**log_radius
    sketch = play(start_sketch(1.0, d, 4), 10.0**log_scale * rng.normal(size=(n, d)) / np.sqrt(d))
    point = random_point(rng, d, radius * (1.0 + 10.0**log_distance))
    theta = sketch.project(point, radius)
    assert np.linalg.norm(theta) <= radius * (1.0 + 1e-12)
    np.testing.assert_allclose(theta, oracles.project(point, sketch.dense(), radius)[0], rtol=0.0, atol=1e-9 * radius)
    pull = sketch.dense() @ (point - theta)
    others = radius * unit_rows(rng, 20, d) * rng.uniform(size=(20, 1))
    assert np.all((others - theta) @ pull <= 1e-9 * radius * np.linalg.norm(pull))


@pytest.mark.parametrize("distance", [1.0 + 1e-9, 4.0, 1e8, 1e100, 1e300])
def test_the_ball_holds_however_far_the_point(distance: float) -> None:
    sketch = play(start_sketch(1e-6, 15, 3), draw_gradients(15, 20, scale=1e3))
    theta = sketch.project(random_point(np.random.default_rng(1), 15, 1.0) * distance, 1.0)
    assert np.linalg.norm(theta) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("norm", [0.0, 0.5, 1.0 - 1e-12])
def test_points_inside_are_returned_bit_for_bit(norm: float) -> None:
    point = norm * random_point(np.random.default_rng(3), 15, 1.0)
    assert play(start_sketch(1.0, 15, 3), draw_gradients(15, 8)).project(point, 1.0).tobytes() == point.tobytes()


# --- the sketch as a value --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_before", [0, 1, 5, 6, 7, 20])
@pytest.mark.parametrize("scale", [0.5, 1e6])
def test_a_step_writes_into_nothing_and_can_be_repeated(n_before: int, scale: float) -> None:
    gradients = draw_gradients(9, n_before + 1, scale)
    sketch = play(start_sketch(1.0, 9, 3), gradients[:-1])
    arrays = [sketch.rows, sketch.factor, gradients]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    (first, first_direction), (second, second_direction) = sketch.plus(gradients[-1]), sketch.plus(gradients[-1])
    other, _ = sketch.plus(-3.0 * gradients[-1])
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert first_direction.tobytes() == second_direction.tobytes()
    assert first.dense().tobytes() == second.dense().tobytes()
    assert np.abs(other.dense() - first.dense()).max() > 1e-3
