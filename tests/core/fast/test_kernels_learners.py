"""The compiled round of the learners and its projection against their plain twins, also for hard matrices."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.core.ensemble import (
    ADAPT_ML_PROD,
    CompiledRounds,
    CompiledStack,
    EnsembleSettings,
    EnsembleState,
    MetaState,
    PaperRounds,
)
from accous.core.learners import NewtonStack, project_onto_ball
from tests.builders import Array, Setup
from tests.core.fast.kernel_cases import assert_close, narrow, seeds, widths

# --- the round of the learners ------------------------------------------------------------------------------------


def random_stack(rng: np.random.Generator, n_learners: int, d: int, ridge: float) -> NewtonStack:
    """Learners of different age."""
    stack = NewtonStack.start(n_learners, 0.1 * rng.normal(size=d), ridge)
    for k in range(6):
        stack = stack.step(rng.normal(size=(n_learners, d)) * (np.arange(n_learners) >= k)[:, None], 0.5, 1e30)
    return stack


def state_of(coef: Array, learners: NewtonStack, meta: MetaState, *, largest_margin: float) -> EnsembleState:
    """A state in the middle of a stream."""
    return EnsembleState(
        n_rounds=9,
        coef=coef,
        lengths=np.arange(len(learners)),
        weights=meta.rates,
        learners=learners,
        meta=meta,
        largest_margin=largest_margin,
    )


def move_both(
    state: EnsembleState, settings: EnsembleSettings, gradients: Array, step_size: float
) -> list[EnsembleState]:
    """The state after the steps of a round, compiled and plain."""
    reference = narrow(np.ones((1, gradients.shape[1])))
    compiled = CompiledStack(*state.learners.arrays)
    return [
        rounds(settings, reference, lambda *_: None)._move(replace(state, learners=learners), gradients, step_size)
        for rounds, learners in ((CompiledRounds, compiled), (PaperRounds, state.learners))
    ]


def assert_same_state(found: EnsembleState, wanted: EnsembleState, tolerance: float) -> None:
    for part in ("coefs", "matrices", "inverse_roots"):
        assert_close(getattr(found.learners, part), getattr(wanted.learners, part), tolerance)
    for part in ("log_potentials", "rates", "squares"):
        assert_close(getattr(found.meta, part), getattr(wanted.meta, part), tolerance)
    assert_close(found.coef, wanted.coef, tolerance)
    assert_close(found.weights, wanted.weights, tolerance)
    np.testing.assert_allclose(found.largest_margin, wanted.largest_margin, rtol=1e-12)
    assert found.n_rounds == wanted.n_rounds


@given(
    seed=seeds,
    n_learners=st.integers(1, 13),
    d=widths,
    radius=st.sampled_from([0.2, 2.0, 1e6]),
    meta_range=st.sampled_from(["paper", "running"]),
    ridge=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_a_round_of_the_learners_equals_its_twin(
    seed: int, n_learners: int, d: int, radius: float, meta_range: str, ridge: float
) -> None:
    rng = np.random.default_rng(seed)
    settings = Setup(radius=radius, meta_range=meta_range, ridge=ridge).settings(d)
    learners = random_stack(rng, n_learners, d, ridge)
    meta = MetaState(rng.normal(size=n_learners), rng.uniform(0.1, 0.5, n_learners), rng.exponential(size=n_learners))
    state = state_of(learners.coefs.mean(axis=0), learners, meta, largest_margin=0.01)
    gradients = rng.normal(size=(n_learners + 1, d))
    moved = move_both(state, settings, gradients, 1.5)
    assert_same_state(*moved, tolerance=1e-11 if radius < 1e6 else 1e-12)
    assert np.linalg.norm(moved[0].learners.coefs, axis=1).max() <= radius * (1.0 + 1e-12)


def test_margins_that_are_rounding_count_as_zero() -> None:
    settings = Setup(meta_range="running").settings(3)
    learners, meta = NewtonStack.start(4, np.ones(3), 1.0), ADAPT_ML_PROD.start(4, 10)
    state = state_of(learners.coefs[0] + 1e-16, learners, meta, largest_margin=0.0)
    moved = move_both(state, settings, np.ones((5, 3)), 1.0)
    np.testing.assert_array_equal(moved[0].meta.squares, 0.0)
    assert_same_state(*moved, tolerance=1e-15)


# --- projection ---------------------------------------------------------------------------------------------------


def project_compiled(points: Array, matrices: Array, inverse_roots: Array, radius: float) -> Array:
    """The compiled projection: a step along no gradient leaves the points where they are, outside the ball."""
    stack = CompiledStack(points, matrices, inverse_roots)
    return stack.step(np.zeros_like(points), 1.0, radius).coefs


def random_matrix(rng: np.random.Generator, d: int, condition: float) -> tuple[Array, Array]:
    """A matrix A and a W with W W^T = A^-1, both from one eigenbasis.

    Inverting A instead would lose as many digits as its condition number has, and the inverse of a badly conditioned A
    is positive definite on one processor and not on another.
    """
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    eigenvalues = np.geomspace(1.0, condition, d)
    matrix = (basis * eigenvalues) @ basis.T
    return (matrix + matrix.T) / 2.0, basis / np.sqrt(eigenvalues)


def random_matrices(rng: np.random.Generator, count: int, d: int, condition: float) -> tuple[Array, Array]:
    matrices, inverse_roots = zip(*(random_matrix(rng, d, condition) for _ in range(count)), strict=True)
    return np.stack(matrices), np.stack(inverse_roots)


def residual(theta: Array, point: Array, matrix: Array) -> float:
    """||A (nu - theta) - mu theta|| / ||A nu|| for the best mu, which is returned by no kernel."""
    A = matrix.astype(np.longdouble)
    pull = A @ (point - theta.astype(np.longdouble))
    mu = (theta @ pull) / (theta @ theta)
    assert mu > -1e-12 * np.linalg.norm(matrix, 2)
    return float(np.sqrt(np.sum((pull - mu * theta) ** 2)) / np.linalg.norm(matrix @ point))


@pytest.mark.every_pair
@pytest.mark.parametrize("d", [1, 2, 3, 8, 13, 64])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("distance", [1.0 + 1e-9, 1.01, 10.0, 1e8])
def test_projections_meet_both_conditions(d: int, condition: float, distance: float) -> None:
    rng = np.random.default_rng(d)
    points = rng.normal(size=(5, d))
    points *= 2.0 * distance / np.linalg.norm(points, axis=1, keepdims=True)
    points[0] *= 0.5 / distance
    matrices, inverse_roots = random_matrices(rng, 5, d, condition)
    found = project_compiled(points, matrices, inverse_roots, 2.0)
    np.testing.assert_array_equal(found[0], points[0])
    np.testing.assert_allclose(np.linalg.norm(found[1:], axis=1), 2.0, rtol=1e-12)
    for theta, point, matrix in zip(found[1:], points[1:], matrices[1:], strict=True):
        assert residual(theta, point, matrix) <= 1e-12
    # How well the point itself is determined depends on the matrix.
    wanted, _ = project_onto_ball(points, matrices, 2.0)
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=2e-13 * max(10.0, condition))


@pytest.mark.parametrize("condition", [1e9, 1e12])
@pytest.mark.parametrize("distance", [1.01, 1e3])
def test_badly_conditioned_matrices_are_left_to_the_eigendecomposition(condition: float, distance: float) -> None:
    rng = np.random.default_rng(0)
    hard, hard_root = random_matrix(rng, 6, condition)
    points = rng.normal(size=(2, 6))
    points *= distance / np.linalg.norm(points, axis=1, keepdims=True)
    found = project_compiled(points, np.stack([hard, np.eye(6)]), np.stack([hard_root, np.eye(6)]), 1.0)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-7)
    np.testing.assert_allclose(found[1], points[1] / distance, rtol=1e-12)


@pytest.mark.parametrize("distance", [1e70, 1e130, 1e300])
def test_points_at_astronomic_distance_land_on_the_ball(distance: float) -> None:
    eigenvalues = np.array([1.0, 10.0, 100.0])
    matrix, inverse_root = np.diag(eigenvalues), np.diag(1.0 / np.sqrt(eigenvalues))
    found = project_compiled(np.array([[distance, -distance, 0.0]]), matrix[None], inverse_root[None], 1.0)
    np.testing.assert_allclose(np.linalg.norm(found), 1.0, rtol=1e-12)
