"""Online Newton Steps with diagonal matrices: the plain loop, and the ball."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.core.learners import DiagonalStack, project_by_diagonal
from tests import oracles
from tests.budgets import examples
from tests.core.paper.test_newton import unit_rows
from tests.core.paper.test_projection import random_point
from tests.metric_oracles import diagonal_step


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("ridge", [0.1, 10.0])
@pytest.mark.parametrize("radius", [0.3, 100.0])
def test_stack_equals_the_plain_step_learner_by_learner(d: int, ridge: float, radius: float) -> None:
    rng = np.random.default_rng(d)
    step_size, n_learners = 1.5, 3
    start = 0.2 * unit_rows(rng, 1, d)[0]
    stack = DiagonalStack.start(n_learners, start, ridge)
    plain = [(start, ridge * np.eye(d)) for _ in range(n_learners)]
    n_on_surface = 0
    for _ in range(15):
        gradients = rng.normal(loc=0.3, size=(n_learners, d)) * 10.0 ** rng.uniform(-2.0, 0.5, size=(n_learners, 1))
        stack = stack.step(gradients, step_size, radius)
        plain = [diagonal_step(*plain[i], gradients[i], step_size, radius) for i in range(n_learners)]
        np.testing.assert_allclose(stack.coefs, [theta for theta, _ in plain], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(stack.diagonals, [np.diag(A) for _, A in plain], rtol=1e-12)
        n_on_surface += int(np.sum(np.linalg.norm(stack.coefs, axis=1) > radius * (1.0 - 1e-9)))
    assert (n_on_surface > 2) == (radius == 0.3)


def test_gradients_along_one_axis_make_the_steps_of_the_whole_matrix() -> None:
    theta, A = np.zeros(3), 2.0 * np.eye(3)
    stack = DiagonalStack.start(1, theta, 2.0)
    for size in (0.5, -1.0, 0.25):
        gradient = np.array([0.0, size, 0.0])
        theta, A = oracles.newton_step(theta, A, gradient, 1.5, 10.0)
        stack = stack.step(gradient[None], 1.5, 10.0)
        np.testing.assert_allclose(stack.coefs[0], theta, rtol=1e-14)


# --- projection -------------------------------------------------------------------------------------------------


@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 20),
    log_condition=st.floats(0.0, 4.0),
    log_distance=st.floats(-9.0, 4.0),
    log_radius=st.floats(-2.0, 2.0),
)
def test_the_projection_is_the_nearest_point_of_the_ball(
    seed: int, d: int, log_condition: float, log_distance: float, log_radius: float
) -> None:
    rng = np.random.default_rng(seed)
    radius = 10.0**log_radius
    diagonal = 10.0 ** rng.uniform(0.0, log_condition, size=d)
    point = random_point(rng, d, radius * (1.0 + 10.0**log_distance))
    (theta,) = project_by_diagonal(point[None], diagonal[None], radius)
    assert np.linalg.norm(theta) <= radius * (1.0 + 1e-12)
    np.testing.assert_allclose(theta, oracles.project(point, np.diag(diagonal), radius)[0], atol=1e-9 * radius)
    pull = diagonal * (point - theta)
    others = radius * unit_rows(rng, 20, d) * rng.uniform(size=(20, 1))
    assert np.all((others - theta) @ pull <= 1e-9 * radius * np.linalg.norm(pull))


def test_points_inside_and_outside_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(1)
    points = np.array([random_point(rng, 6, norm) for norm in (0.5, 2.0, 1.0 - 1e-12, 1e300, 0.0)])
    diagonals = rng.uniform(1.0, 50.0, size=points.shape)
    together = project_by_diagonal(points, diagonals, 1.0)
    for i in (0, 2, 4):
        assert together[i].tobytes() == points[i].tobytes()
    for i in range(len(points)):
        alone = project_by_diagonal(points[i : i + 1], diagonals[i : i + 1], 1.0)[0]
        np.testing.assert_allclose(together[i], alone, rtol=1e-12)
    assert np.linalg.norm(together[3]) == pytest.approx(1.0, abs=1e-12)


# --- the stack as a value ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.5, 1e30])
def test_step_does_not_write_into_its_arguments(radius: float) -> None:
    rng = np.random.default_rng(4)
    stack = DiagonalStack.start(3, np.zeros(40), 1.0).step(rng.normal(size=(3, 40)), 1.0, radius)
    gradients = rng.normal(size=(3, 40))
    before = stack.coefs.copy(), stack.diagonals.copy()
    stack.coefs.flags.writeable = stack.diagonals.flags.writeable = gradients.flags.writeable = False
    stack.step(gradients, 1.0, radius)
    np.testing.assert_array_equal(stack.coefs, before[0])
    np.testing.assert_array_equal(stack.diagonals, before[1])


def test_since_and_after_replace_the_youngest_learners() -> None:
    old = DiagonalStack.start(3, np.zeros(2), 1.0).step(np.arange(6.0).reshape(3, 2), 1.0, 1e30)
    joined = old.since(1).after(DiagonalStack.start(2, np.ones(2), 4.0))
    assert isinstance(joined, DiagonalStack)
    assert len(joined) == 4
    np.testing.assert_array_equal(joined.coefs, [[1.0, 1.0], [1.0, 1.0], *old.coefs[1:]])
    np.testing.assert_array_equal(joined.diagonals, [[4.0, 4.0], [4.0, 4.0], *old.diagonals[1:]])
