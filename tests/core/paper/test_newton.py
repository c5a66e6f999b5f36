"""Newton steps of a stack of learners: against the slow version, and the drift of the kept inverse root."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from accous.core.ensemble import CompiledStack
from accous.core.learners import NewtonStack
from tests import oracles
from tests.budgets import rest_slow
from tests.builders import Array

NO_BALL = 1e30
start_learners = CompiledStack.start
BLOCK = 1024


def unit_rows(rng: np.random.Generator, n_rows: int, d: int) -> Array:
    rows = rng.normal(size=(n_rows, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def drift(stack: NewtonStack) -> float:
    """Largest entry of |W W^T A - I| over the learners."""
    products = stack.inverse_roots @ stack.inverse_roots.swapaxes(1, 2) @ stack.matrices
    return float(np.abs(products - np.eye(stack.coefs.shape[1])).max())


def solve_in_long_double(matrix: NDArray[np.longdouble], right_side: NDArray[np.longdouble]) -> Array:
    """Gaussian elimination; numpy's own solve has float64 only."""
    A, b = matrix.copy(), right_side.copy()
    for k in range(len(b) - 1):
        factors = A[k + 1 :, k] / A[k, k]
        A[k + 1 :] -= factors[:, None] * A[k]
        b[k + 1 :] -= factors * b[k]
    for k in reversed(range(len(b))):
        b[k] = (b[k] - A[k, k + 1 :] @ b[k + 1 :]) / A[k, k]
    return b.astype(np.float64)


def play_bounded_gradients(n_steps: int) -> NewtonStack:
    """Three learners after many gradients of norm at most 1: even, of unequal size, nearly all parallel."""
    rng = np.random.default_rng(0)
    d = 5
    stack = start_learners(3, np.zeros(d), ridge=1.0)
    favourite = unit_rows(rng, 1, d)[0]
    for _ in range(n_steps // BLOCK):
        gradients = rng.uniform(0.0, 1.0, size=(BLOCK, 3, 1)) * unit_rows(rng, 3 * BLOCK, d).reshape(BLOCK, 3, d)
        gradients[:, 1] *= np.geomspace(1.0, 1e-2, d)
        gradients[:, 2] = 0.9 * favourite + 0.1 * gradients[:, 2]
        for gradient in gradients:
            stack = stack.step(gradient, step_size=0.1, radius=NO_BALL)
    return stack


# --- against the slow version ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 9])
@pytest.mark.parametrize("ridge", rest_slow([0.1, 1.0, 10.0]))
@pytest.mark.parametrize("radius", [0.3, 100.0])
@pytest.mark.parametrize("kind", [NewtonStack, CompiledStack])
def test_stack_equals_the_slow_step_learner_by_learner(
    kind: type[NewtonStack], d: int, ridge: float, radius: float
) -> None:
    rng = np.random.default_rng(d)
    step_size, n_learners = 1.5, 3
    start = 0.2 * unit_rows(rng, 1, d)[0]
    stack = kind.start(n_learners, start, ridge)
    slow = [(start, ridge * np.eye(d)) for _ in range(n_learners)]
    n_on_surface = 0
    for _ in range(60):
        gradients = rng.normal(loc=0.3, size=(n_learners, d)) * 10.0 ** rng.uniform(-2.0, 0.5, size=(n_learners, 1))
        stack = stack.step(gradients, step_size, radius)
        slow = [oracles.newton_step(*slow[i], gradients[i], step_size, radius) for i in range(n_learners)]
        np.testing.assert_allclose(stack.coefs, [theta for theta, _ in slow], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(stack.matrices, [A for _, A in slow], rtol=1e-12, atol=1e-12)
        n_on_surface += int(np.sum(np.linalg.norm(stack.coefs, axis=1) > radius * (1.0 - 1e-9)))
    assert (n_on_surface > 10) == (radius == 0.3)


def test_first_step_by_hand() -> None:
    stack = start_learners(1, np.array([1.0, 0.0]), ridge=2.0)
    stack = stack.step(np.array([[0.0, 1.0]]), step_size=6.0, radius=10.0)
    np.testing.assert_allclose(stack.coefs, [[1.0, -2.0]], rtol=1e-15)
    np.testing.assert_allclose(stack.matrices, [[[2.0, 0.0], [0.0, 3.0]]], rtol=1e-15)


def test_zero_gradient_changes_nothing() -> None:
    stack = play_bounded_gradients(BLOCK)
    after = stack.step(np.zeros((3, 5)), step_size=3.0, radius=NO_BALL)
    np.testing.assert_array_equal(after.coefs, stack.coefs)
    np.testing.assert_array_equal(after.matrices, stack.matrices)
    np.testing.assert_array_equal(after.inverse_roots, stack.inverse_roots)


def test_learners_of_a_stack_do_not_influence_each_other() -> None:
    rng = np.random.default_rng(1)
    together, alone = start_learners(4, np.zeros(3), 1.0), start_learners(1, np.zeros(3), 1.0)
    for _ in range(50):
        gradients = rng.normal(size=(4, 3))
        together = together.step(gradients, 2.0, 0.7)
        alone = alone.step(gradients[2:3], 2.0, 0.7)
    np.testing.assert_allclose(together.coefs[2], alone.coefs[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(together.inverse_roots[2], alone.inverse_roots[0], rtol=1e-12, atol=1e-13)


# --- drift of the inverse root --------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [1e-6, 1.0, 1e6])
def test_fresh_learners_have_the_root_of_the_inverse(ridge: float) -> None:
    stack = start_learners(2, np.array([1.0, 2.0, 3.0]), ridge)
    np.testing.assert_array_equal(stack.coefs, [[1.0, 2.0, 3.0]] * 2)
    np.testing.assert_array_equal(stack.matrices, [ridge * np.eye(3)] * 2)
    assert drift(stack) <= 1e-15


def test_drift_after_twenty_thousand_bounded_gradients() -> None:
    assert drift(play_bounded_gradients(20 * BLOCK)) <= 1e-11


@pytest.mark.slow
def test_drift_after_a_million_bounded_gradients() -> None:
    stack = play_bounded_gradients(2**20)
    assert drift(stack) <= 1e-10
    for array in (stack.coefs, stack.matrices, stack.inverse_roots):
        assert np.isfinite(array).all()
    assert np.linalg.eigvalsh(stack.matrices).min() > 0.0
    assert np.linalg.eigvalsh(stack.inverse_roots @ stack.inverse_roots.swapaxes(1, 2)).min() > 0.0


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
    stack = start_learners(1, np.zeros(d), ridge)
    for _ in range(300):
        gradient = (1.0 - noise) * favourite + noise * unit_rows(rng, 1, d)[0]
        gradient *= np.sqrt(size * ridge) / np.linalg.norm(gradient)
        exact_gradient = gradient.astype(np.longdouble)
        exact_matrix += exact_gradient[:, None] * exact_gradient
        stack = replace(stack, coefs=np.zeros((1, d))).step(gradient[None], 1.0, NO_BALL)
        expected = -solve_in_long_double(exact_matrix, exact_gradient)
        assert np.linalg.norm(stack.coefs[0] - expected) <= 1e-6 * np.linalg.norm(expected)


def test_inverse_stays_positive_definite_when_gradients_are_huge_beside_the_ridge() -> None:
    rng = np.random.default_rng(3)
    stack = start_learners(1, np.zeros(4), ridge=1e-7)
    for _ in range(200):
        stack = stack.step(1e4 * unit_rows(rng, 1, 4), 1.0, 5.0)
        assert np.isfinite(stack.inverse_roots).all()
        assert np.linalg.eigvalsh(stack.inverse_roots[0] @ stack.inverse_roots[0].T).min() > 0.0
        assert np.linalg.norm(stack.coefs[0]) <= 5.0 * (1.0 + 1e-12)


# --- the stack as a value -------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.5, NO_BALL])
def test_step_does_not_write_into_its_arguments(radius: float) -> None:
    rng = np.random.default_rng(4)
    stack = start_learners(3, np.zeros(4), 1.0).step(rng.normal(size=(3, 4)), 1.0, radius)
    gradients = rng.normal(size=(3, 4))
    arguments = (stack.coefs, stack.matrices, stack.inverse_roots, gradients)
    before = [array.copy() for array in arguments]
    for array in arguments:
        array.flags.writeable = False
    stack.step(gradients, 1.0, radius)
    for array, copy in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_start_does_not_share_the_given_theta() -> None:
    theta = np.zeros(3)
    stack = start_learners(2, theta, 1.0)
    assert not np.shares_memory(stack.coefs, theta)


def test_since_and_after_replace_the_youngest_learners() -> None:
    old = start_learners(3, np.zeros(2), 1.0).step(np.arange(6.0).reshape(3, 2), 1.0, NO_BALL)
    joined = old.since(1).after(start_learners(2, np.ones(2), 4.0))
    assert len(joined) == 4
    np.testing.assert_array_equal(joined.coefs, [[1.0, 1.0], [1.0, 1.0], *old.coefs[1:]])
    np.testing.assert_array_equal(joined.matrices, [4.0 * np.eye(2), 4.0 * np.eye(2), *old.matrices[1:]])
    np.testing.assert_array_equal(joined.inverse_roots, [0.5 * np.eye(2), 0.5 * np.eye(2), *old.inverse_roots[1:]])
