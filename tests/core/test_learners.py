"""Newton steps of learners, their matrices in every form, and projections onto the ball: against slow versions."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import cholesky

from accous.core import learners
from accous.core.ensemble import LOW_RANK, CompiledStack, start_learners
from accous.core.learners import (
    DiagonalStack,
    MetricMatrix,
    NewtonStack,
    WideStack,
    project_by_diagonal,
    project_by_lanczos,
    project_onto_ball,
    start_metric,
    start_sketch,
)
from tests import oracles
from tests.budgets import examples, rest_slow
from tests.oracles import PlainSketch, diagonal_step, sketched_step_of_rank

NO_BALL = 1e30
BLOCK = 1024
RANK = 3
EPSILON = float(np.finfo(np.float64).eps)
SPECTRA = {
    "even": lambda d, condition: np.geomspace(1.0, condition, d),
    "one_large": lambda d, condition: np.where(np.arange(d) == d - 1, condition, 1.0),
    "one_small": lambda d, condition: np.where(np.arange(d) == 0, 1.0, condition),
}
STARTS = {
    "plain": NewtonStack.start,
    "compiled": CompiledStack.start,
    "wide": WideStack.start,
    "diagonal": DiagonalStack.start,
    "sketch": lambda n, theta, ridge: start_learners(n, theta, ridge, LOW_RANK, RANK),
}
SLOW_STEPS = {"diagonal": diagonal_step, "sketch": sketched_step_of_rank(RANK)}

seeds = st.integers(0, 2**32 - 1)
widths = pytest.mark.parametrize("d", [1, 2, 3, 8, 13, 64])
spectra = pytest.mark.parametrize("spectrum", list(SPECTRA))
distances = pytest.mark.parametrize("distance", [1.0 + 1e-9, 1.01, 10.0, 1e8])


def unit_rows(rng, n_rows, d):
    rows = rng.normal(size=(n_rows, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random_point(rng, d, norm):
    return norm * unit_rows(rng, 1, d)[0]


def random_root(rng, eigenvalues):
    """A W with W W^T = A^-1, for a symmetric A with these eigenvalues and random eigenvectors: (A, W).

    Inverting A would lose as many digits as its condition number has, and the inverse of a badly conditioned A is
    positive definite on one processor and not on another.
    """
    basis, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues), len(eigenvalues))))
    matrix = (basis * eigenvalues) @ basis.T
    return (matrix + matrix.T) / 2.0, basis / np.sqrt(eigenvalues)


def random_matrix(rng, eigenvalues):
    return random_root(rng, eigenvalues)[0]


def solve_in_long_double(matrix, right_side):
    """Gaussian elimination; numpy's own solve has float64 only."""
    A, b = matrix.copy(), right_side.copy()
    for k in range(len(b) - 1):
        factors = A[k + 1 :, k] / A[k, k]
        A[k + 1 :] -= factors[:, None] * A[k]
        b[k + 1 :] -= factors * b[k]
    for k in reversed(range(len(b))):
        b[k] = (b[k] - A[k, k + 1 :] @ b[k + 1 :]) / A[k, k]
    return b.astype(np.float64)


# --- stacks of learners -----------------------------------------------------------------------------------------


def matrices_of(stack):
    if isinstance(stack, DiagonalStack):
        return [np.diag(diagonal) for diagonal in stack.diagonals]
    return [metric.dense() for metric in stack.metrics] if isinstance(stack, WideStack) else stack.matrices


@pytest.mark.every_pair
@pytest.mark.parametrize("kind", list(STARTS))
@pytest.mark.parametrize("d", [1, 3, 9, 20])
@pytest.mark.parametrize("ridge", rest_slow([0.1, 10.0, 1.0], 2))
@pytest.mark.parametrize("radius", [0.3, 100.0])
def test_stacks_make_the_slow_step_learner_by_learner(kind, d, ridge, radius):
    rng, n_learners = np.random.default_rng(d), 3
    start = 0.2 * unit_rows(rng, 1, d)[0]
    stack, slow = STARTS[kind](n_learners, start, ridge), [(start, ridge * np.eye(d))] * n_learners
    slow_step, n_on_surface = SLOW_STEPS.get(kind, oracles.newton_step), 0
    tolerance = {"plain": 1e-11, "compiled": 1e-11, "sketch": 1e-9}.get(kind, 1e-10)
    for _ in range(20 if kind == "sketch" else 60):
        gradients = rng.normal(loc=0.3, size=(n_learners, d)) * 10.0 ** rng.uniform(-2.0, 0.5, size=(n_learners, 1))
        stack = stack.step(gradients, 1.5, radius)
        slow = [slow_step(*slow[i], gradients[i], 1.5, radius) for i in range(n_learners)]
        np.testing.assert_allclose(stack.coefs, [theta for theta, _ in slow], rtol=10.0 * tolerance, atol=tolerance)
        n_on_surface += int(np.sum(np.linalg.norm(stack.coefs, axis=1) > radius * (1.0 - 1e-9)))
    if kind != "sketch":
        np.testing.assert_allclose(matrices_of(stack), [A for _, A in slow], rtol=1e-11, atol=1e-11)
    assert (n_on_surface > 2) == (radius == 0.3)


def test_first_step_by_hand():
    stack = CompiledStack.start(1, np.array([1.0, 0.0]), ridge=2.0)
    stack = stack.step(np.array([[0.0, 1.0]]), step_size=6.0, radius=10.0)
    np.testing.assert_allclose(stack.coefs, [[1.0, -2.0]], rtol=1e-15)
    np.testing.assert_allclose(stack.matrices, [[[2.0, 0.0], [0.0, 3.0]]], rtol=1e-15)


@pytest.mark.parametrize("kind", list(STARTS))
def test_since_and_after_replace_the_youngest_learners(kind):
    theta = np.zeros(2)
    old = STARTS[kind](3, theta, 1.0)
    assert not np.shares_memory(old.coefs, theta)
    old = old.step(np.arange(6.0).reshape(3, 2), 1.0, NO_BALL)
    joined = old.since(1).after(STARTS[kind](2, np.ones(2), 4.0))
    assert type(joined) is type(old)
    assert len(joined) == 4
    np.testing.assert_array_equal(joined.coefs, [[1.0, 1.0], [1.0, 1.0], *old.coefs[1:]])
    np.testing.assert_array_equal(matrices_of(joined), [4.0 * np.eye(2), 4.0 * np.eye(2), *matrices_of(old)[1:]])
    if isinstance(joined, NewtonStack):
        np.testing.assert_array_equal(joined.inverse_roots, [0.5 * np.eye(2)] * 2 + [*old.inverse_roots[1:]])


# --- drift of the inverse root ----------------------------------------------------------------------------------


def drift(stack):
    """Largest entry of |W W^T A - I| over the learners."""
    products = stack.inverse_roots @ stack.inverse_roots.swapaxes(1, 2) @ stack.matrices
    return float(np.abs(products - np.eye(stack.coefs.shape[1])).max())


@pytest.mark.parametrize("ridge", [1e-6, 1.0, 1e6])
def test_fresh_learners_have_the_root_of_the_inverse(ridge):
    stack = CompiledStack.start(2, np.array([1.0, 2.0, 3.0]), ridge)
    np.testing.assert_array_equal(stack.coefs, [[1.0, 2.0, 3.0]] * 2)
    np.testing.assert_array_equal(stack.matrices, [ridge * np.eye(3)] * 2)
    assert drift(stack) <= 1e-15


@pytest.mark.parametrize(("n_blocks", "bound"), [(20, 1e-11), pytest.param(1024, 1e-10, marks=pytest.mark.slow)])
def test_drift_after_many_bounded_gradients(n_blocks, bound):
    """Three learners, gradients of norm at most 1: even, of unequal size, nearly all parallel."""
    rng, d = np.random.default_rng(0), 5
    stack, favourite = CompiledStack.start(3, np.zeros(d), ridge=1.0), unit_rows(rng, 1, d)[0]
    for _ in range(n_blocks):
        gradients = rng.uniform(0.0, 1.0, size=(BLOCK, 3, 1)) * unit_rows(rng, 3 * BLOCK, d).reshape(BLOCK, 3, d)
        gradients[:, 1] *= np.geomspace(1.0, 1e-2, d)
        gradients[:, 2] = 0.9 * favourite + 0.1 * gradients[:, 2]
        for gradient in gradients:
            stack = stack.step(gradient, step_size=0.1, radius=NO_BALL)
    assert drift(stack) <= bound
    assert all(np.isfinite(array).all() for array in (stack.coefs, stack.matrices, stack.inverse_roots))
    assert np.linalg.eigvalsh(stack.matrices).min() > 0.0
    assert np.linalg.eigvalsh(stack.inverse_roots @ stack.inverse_roots.swapaxes(1, 2)).min() > 0.0


# --- matrices in every form -------------------------------------------------------------------------------------


class StackOfOne:
    """A dense learner as the other forms of its matrix are: takes a gradient, returns itself and the direction."""

    def __init__(self, ridge, d, stack=None):
        self.stack = CompiledStack.start(1, np.zeros(d), ridge) if stack is None else stack

    def plus(self, gradient):
        d = len(gradient)
        stack = replace(self.stack, coefs=np.zeros((1, d))).step(gradient[None], 1.0, NO_BALL)
        return StackOfOne(0.0, d, stack), -stack.coefs[0]


# Of a sketch so many gradients as it has room for.
FORMS = {"dense": StackOfOne, "root": start_metric, "sketch": lambda ridge, d: start_sketch(ridge, d, 150)}


def draw_gradients(d, n, scale=0.5):
    """Rows along a few favourite directions, with noise."""
    rng = np.random.default_rng(d)
    return scale * (rng.normal(size=(n, 2)) @ unit_rows(rng, 2, d) + 0.3 * unit_rows(rng, n, d) + 0.2 / np.sqrt(d))


def run_rounds(metric, gradients):
    for gradient in gradients:
        metric, _ = metric.plus(gradient)
    return metric


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("ridge", [1.0, 1e-9])
@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_directions_stay_exact_when_gradients_are_large_beside_the_ridge(form, size, ridge, noise):
    """`size` is ||g||^2 / lambda; with little noise all gradients are nearly parallel."""
    rng, d = np.random.default_rng(2), 6
    favourite = unit_rows(rng, 1, d)[0]
    exact_matrix, metric = ridge * np.eye(d, dtype=np.longdouble), FORMS[form](ridge, d)
    for _ in range(300):
        gradient = (1.0 - noise) * favourite + noise * unit_rows(rng, 1, d)[0]
        gradient *= np.sqrt(size * ridge) / np.linalg.norm(gradient)
        exact_gradient = gradient.astype(np.longdouble)
        exact_matrix += exact_gradient[:, None] * exact_gradient
        metric, direction = metric.plus(gradient)
        expected = solve_in_long_double(exact_matrix, exact_gradient)
        assert np.linalg.norm(direction - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("form", [StackOfOne, start_metric, lambda ridge, d: start_sketch(ridge, d, 2)])
def test_matrices_stay_positive_when_gradients_are_huge_beside_the_ridge(form):
    metric = form(1e-7, 4)
    for gradient in 1e8 * unit_rows(np.random.default_rng(3), 200, 4):
        metric, direction = metric.plus(gradient)
        assert np.isfinite(direction).all()
        assert gradient @ direction > 0.0
        if isinstance(metric, MetricMatrix):
            assert gradient @ metric.solve(gradient) > 0.0


# A root and pending gradients.


@pytest.mark.parametrize("d", [1, 2, 7, 150])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_every_step_of_a_root_equals_the_dense_one(d, ridge):
    """200 gradients: young rows, the first root, pending rows, and roots after it."""
    A, metric, roots, probe = ridge * np.eye(d), start_metric(ridge, d), set(), np.linspace(-1.0, 1.0, d)
    for gradient in draw_gradients(d, 200):
        metric, direction = metric.plus(gradient)
        A += np.outer(gradient, gradient)
        expected, solved = np.linalg.solve(A, gradient), np.linalg.solve(A, probe)
        np.testing.assert_allclose(direction, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())
        np.testing.assert_allclose(metric.apply(probe), A @ probe, rtol=1e-11, atol=1e-11 * np.abs(A).max())
        np.testing.assert_allclose(metric.solve(probe), solved, rtol=1e-9, atol=1e-11 * np.abs(solved).max())
        roots.add(metric.root is None)
    np.testing.assert_allclose(metric.dense(), A, rtol=1e-12, atol=1e-12 * np.abs(A).max())
    assert roots == {True, False}


def test_pending_rows_stay_few():
    metric, sizes = start_metric(1.0, 150), []
    for gradient in draw_gradients(150, 400):
        metric, _ = metric.plus(gradient)
        sizes.append(len(metric.pending))
    assert max(sizes) < 75
    assert sum(after < before for before, after in pairwise(sizes)) >= 4


def test_a_root_does_not_drift_and_a_gradient_of_zero_changes_no_product():
    gradients = draw_gradients(5, 10_000)
    metric = run_rounds(start_metric(1.0, 5), gradients)
    inverse = np.array([metric.solve(axis) for axis in np.eye(5)])
    assert np.abs(inverse @ (np.eye(5) + gradients.T @ gradients) - np.eye(5)).max() <= 1e-11
    after, direction = metric.plus(np.zeros(5))
    np.testing.assert_array_equal(direction, 0.0)
    np.testing.assert_allclose(after.solve(np.arange(5.0)), metric.solve(np.arange(5.0)), rtol=1e-12)


# A sketch: a ridge and a few rows.


@pytest.mark.every_pair
@pytest.mark.parametrize("d", [1, 2, 7, 40])
@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
def test_every_step_of_a_sketch_equals_the_plain_one(d, rank, ridge):
    sketch, plain = start_sketch(ridge, d, rank), PlainSketch(ridge, d, rank)
    for gradient in draw_gradients(d, 60):
        sketch, direction = sketch.plus(gradient)
        expected = plain.plus(gradient)
        np.testing.assert_allclose(direction, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(sketch.dense(), plain.dense, rtol=1e-9, atol=1e-9)
        assert sketch.factor.shape == (len(sketch.rows),) * 2
        assert len(sketch.rows) <= 2 * rank


@pytest.mark.parametrize(("n", "rank"), [(16, 8), (500, 4)], ids=["all rows have room", "few directions"])
def test_a_sketch_that_can_hold_the_gradients_is_the_whole_matrix(n, rank):
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(n, 4)) @ unit_rows(rng, 4, 25) if n > 2 * rank else draw_gradients(25, n)
    A = np.eye(25) + gradients.T @ gradients
    sketch = run_rounds(start_sketch(1.0, 25, rank), gradients)
    np.testing.assert_allclose(sketch.dense(), A, rtol=1e-9, atol=1e-10 * np.abs(A).max())


@examples(40)
@given(seed=seeds, d=st.integers(1, 30), rank=st.integers(1, 6), n=st.integers(1, 80))
def test_the_error_is_within_the_bound_of_frequent_directions(seed, d, rank, n):
    """No direction is off by more than half of all deltas, which is at most the energy beyond k' directions / (k - k').

    The bound is that of frequent directions with k + 1 rows, whose deltas add up to twice the largest error here.
    """
    gradients = np.random.default_rng(seed).normal(size=(n, d)) * np.geomspace(1.0, 0.05, d)
    sketch = run_rounds(start_sketch(1.0, d, rank), gradients)
    errors = np.abs(np.linalg.eigvalsh(sketch.dense() - np.eye(d) - gradients.T @ gradients))
    squares = np.sort(np.linalg.eigvalsh(gradients.T @ gradients))[::-1]
    bounds = [squares[kept:].sum() / (rank + 1 - kept) for kept in range(min(rank, d) + 1)]
    assert errors.max() <= 0.5 * min(bounds) * (1.0 + 1e-9) + 1e-9


# --- projection onto the ball -----------------------------------------------------------------------------------


def project_one(point, matrix, radius):
    projected, multipliers = project_onto_ball(point[None], matrix[None], radius)
    return projected[0], float(multipliers[0])


def project_compiled(points, matrices, roots, radius):
    """A step along no gradient leaves points where they are, outside the ball."""
    return CompiledStack(points, matrices, roots).step(np.zeros_like(points), 1.0, radius).coefs


def assert_projected(point, matrix, radius, norm_tolerance=1e-12, root=None):
    """||theta|| = S, and (A + mu I) theta = A nu up to rounding, or up to what float64 knows of A nu."""
    A = matrix.astype(np.longdouble)
    if root is None:
        theta, mu = project_one(point, matrix, radius)
        assert mu >= 0.0
    else:  # the kernel returns no mu: the best one
        theta = project_compiled(point[None], matrix[None], root[None], radius)[0]
        mu = theta @ (A @ (point - theta.astype(np.longdouble))) / (theta @ theta)
        assert mu > -1e-12 * np.linalg.norm(matrix, 2)
    assert abs(np.linalg.norm(theta) - radius) <= norm_tolerance * radius
    difference = (A @ theta + np.longdouble(mu) * theta - A @ point).astype(np.float64)
    attainable = EPSILON * np.linalg.norm(matrix, 2) * np.linalg.norm(point)
    assert np.linalg.norm(difference) <= max(1e-12 * np.linalg.norm(matrix @ point), attainable)


@pytest.mark.every_pair
@widths
@spectra
@distances
@pytest.mark.parametrize("condition", rest_slow([1e3, 1e10, 1.0, 1e6, 1e8], 2))
def test_random_points_meet_both_conditions(d, spectrum, distance, condition):
    rng = np.random.default_rng(d)
    for radius in (1e-2, 1.0, 30.0):
        matrix, root = random_root(rng, SPECTRA[spectrum](d, condition))
        point = random_point(rng, d, radius * distance)
        assert_projected(point, matrix, radius)
        if condition <= 1e6:
            assert_projected(point, matrix, radius, root=root)


@spectra
@distances
def test_hopelessly_conditioned_matrices_lose_digits_but_not_the_ball(spectrum, distance):
    rng = np.random.default_rng(0)
    for condition in (1e9, 1e12):
        matrix, root = random_root(rng, SPECTRA[spectrum](13, condition))
        point = random_point(rng, 13, distance)
        assert_projected(point, matrix, 1.0, norm_tolerance=1e-7)
        # The compiled one leaves it to the eigendecomposition, and the point beside it to itself.
        found = project_compiled(
            np.tile(point, (2, 1)), np.stack([matrix, np.eye(13)]), np.stack([root, np.eye(13)]), 1.0
        )
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-7)
        np.testing.assert_allclose(found[1], point / distance, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_scaling_the_matrix_scales_the_multiplier_only(scale):
    rng = np.random.default_rng(4)
    matrix, point = random_matrix(rng, np.geomspace(1.0, 50.0, 5)), random_point(rng, 5, 7.0)
    theta, mu = project_one(point, matrix, 2.0)
    scaled_theta, scaled_mu = project_one(point, scale * matrix, 2.0)
    np.testing.assert_allclose(scaled_theta, theta, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scaled_mu, scale * mu, rtol=1e-12)


@pytest.mark.parametrize("distance", [1e100, 1e130, 1e160, 1e300])
def test_points_at_astronomic_distance_land_on_the_ball(distance):
    rng = np.random.default_rng(5)
    matrix, root = random_root(rng, np.geomspace(1.0, 1e3, 4))
    point = distance * random_point(rng, 4, 1.0)
    for theta in (project_one(point, matrix, 1.0)[0], project_compiled(point[None], matrix[None], root[None], 1.0)[0]):
        assert np.linalg.norm(theta) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("point", "scale", "radius", "expected", "multiplier"),
    [([3.0, 4.0], 2.0, 1.0, [0.6, 0.8], 8.0), ([-8.0], 5.0, 2.0, [-2.0], 15.0)],
)
def test_projections_by_hand(point, scale, radius, expected, multiplier):
    theta, mu = project_one(np.array(point), scale * np.eye(len(point)), radius)
    np.testing.assert_allclose(theta, expected, rtol=1e-14)
    np.testing.assert_allclose(mu, multiplier, rtol=1e-13)


@pytest.mark.every_pair
@pytest.mark.parametrize("d", [1, 2, 5, 16])
@spectra
@distances
def test_projections_equal_bisection(d, spectrum, distance):
    rng = np.random.default_rng(d)
    matrix = random_matrix(rng, SPECTRA[spectrum](d, 1e3))
    point = random_point(rng, d, 1.5 * distance)
    theta, mu = project_one(point, matrix, 1.5)
    expected_theta, expected_mu = oracles.project(point, matrix, 1.5)
    np.testing.assert_allclose(theta, expected_theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(mu, expected_mu, rtol=1e-9, atol=1e-14 * np.linalg.norm(matrix, 2))


def test_points_inside_and_on_the_surface_stay_bit_for_bit_beside_points_outside():
    rng = np.random.default_rng(8)
    inside = [norm * random_point(rng, 3, 3.0) for norm in (0.0, 1e-300, 0.5, 1.0 - 1e-9)]
    on_surface = [[1.0, 2.0, 2.0], [-2.0, 1.0, 2.0], [2.0, 2.0, -1.0], [0.0, -3.0, 0.0]]
    outside = [random_point(rng, 3, 3.0 * norm) for norm in (1.0 + 1e-9, 1.1, 3.0, 50.0, 1e4, 1e8)]
    points = np.array([*inside, *on_surface, *outside])
    pairs = [random_root(rng, np.geomspace(1.0, 10.0 ** (k % 7), 3)) for k in range(len(points))]
    matrices, roots = map(np.stack, zip(*pairs, strict=True))
    points.flags.writeable = matrices.flags.writeable = False
    projected, multipliers = project_onto_ball(points, matrices, 3.0)
    assert projected[:8].tobytes() == points[:8].tobytes()
    np.testing.assert_array_equal(multipliers > 0.0, np.arange(14) >= 8)
    compiled = project_compiled(points, matrices, roots, 3.0)
    assert compiled[:8].tobytes() == points[:8].tobytes()
    # How well a point is determined depends on the matrix.
    np.testing.assert_allclose(compiled, projected, rtol=0.0, atol=2e-13 * 1e6)
    for point, matrix, theta, mu in zip(points, matrices, projected, multipliers, strict=True):
        alone_theta, alone_mu = project_one(point, matrix, 3.0)
        np.testing.assert_allclose(theta, alone_theta, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(mu, alone_mu, rtol=1e-10)


def test_empty_stack_stays_empty():
    projected, multipliers = project_onto_ball(np.empty((0, 3)), np.empty((0, 3, 3)), 1.0)
    assert projected.shape == (0, 3)
    assert multipliers.shape == (0,)


# --- projection by the cheaper matrices -------------------------------------------------------------------------


def root_of(matrix):
    """A metric whose root holds all of the matrix."""
    ridge = float(np.linalg.eigvalsh(matrix)[0])
    return MetricMatrix(ridge, np.asfortranarray(cholesky(matrix)), np.empty((0, len(matrix))), np.empty((0, 0)))


def project_diagonally(point, matrix, radius):
    return project_by_diagonal(point[None], np.diag(matrix)[None], radius)[0]


@examples(100)
@given(
    seed=seeds,
    kind=st.sampled_from(["root", "sketch", "diagonal"]),
    d=st.integers(1, 40),
    log_condition=st.floats(0.0, 4.0),
    log_distance=st.floats(-9.0, 4.0),
    log_radius=st.floats(-2.0, 2.0),
)
def test_every_projection_is_the_nearest_point_of_the_ball(seed, kind, d, log_condition, log_distance, log_radius):
    rng, radius = np.random.default_rng(seed), 10.0**log_radius
    point = random_point(rng, d, radius * (1.0 + 10.0**log_distance))
    if kind == "diagonal":
        matrix = np.diag(10.0 ** rng.uniform(0.0, log_condition, size=d))
        theta = project_diagonally(point, matrix, radius)
    elif kind == "root":
        matrix = random_matrix(rng, list(SPECTRA.values())[seed % 3](d, 10.0**log_condition))
        theta = project_by_lanczos(point, root_of(matrix), radius)
    else:
        rows = 10.0 ** (log_condition / 2.0) * rng.normal(size=(seed % 40, d)) / np.sqrt(d)
        sketch = run_rounds(start_sketch(1.0, d, 4), rows)
        matrix, theta = sketch.dense(), sketch.project(point, radius)
    assert np.linalg.norm(theta) <= radius * (1.0 + 1e-12)
    np.testing.assert_allclose(theta, oracles.project(point, matrix, radius)[0], rtol=0.0, atol=1e-9 * radius)
    pull = matrix @ (point - theta)
    others = radius * unit_rows(rng, 20, d) * rng.uniform(size=(20, 1))
    assert np.all((others - theta) @ pull <= 1e-9 * radius * np.linalg.norm(pull))


@pytest.mark.parametrize("n_gradients", [0, 1, 20, 63, 64, 100, 500])
@pytest.mark.parametrize("distance", [1.0 + 1e-9, 1.1, 2.0, 4.9, 5.0, 30.0, 1e4])
@pytest.mark.parametrize("scale", rest_slow([1.0, 0.1, 10.0]))
def test_learners_of_every_age_equal_the_dense_projection(n_gradients, distance, scale):
    rng = np.random.default_rng(n_gradients)
    gradients = scale * (rng.normal(size=(n_gradients, 130)) + 0.3) / np.sqrt(130)
    metric, point = run_rounds(start_metric(1.0, 130), gradients), random_point(rng, 130, 0.7 * distance)
    theta = project_by_lanczos(point, metric, 0.7)
    np.testing.assert_allclose(theta, project_one(point, metric.dense(), 0.7)[0], rtol=0.0, atol=1e-9)
    assert np.linalg.norm(theta) <= 0.7 * (1.0 + 1e-12)


@pytest.mark.every_pair
@spectra
@pytest.mark.parametrize("condition", [1e8, 1e12])
@pytest.mark.parametrize("distance", [1.0 + 1e-9, 1.5, 4.0, 6.0, 1e8, 1e100, 1e300])
def test_the_ball_holds_for_hopeless_matrices_and_far_points(spectrum, condition, distance):
    rng = np.random.default_rng(1)
    matrix, point = random_matrix(rng, SPECTRA[spectrum](40, condition)), distance * random_point(rng, 40, 1.0)
    assert np.linalg.norm(project_by_lanczos(point, root_of(matrix), 1.0)) <= 1.0 + 1e-12
    sketch = run_rounds(start_sketch(1e-6, 40, 3), draw_gradients(40, 20, scale=1e3))
    assert np.linalg.norm(sketch.project(point, 1.0)) == pytest.approx(1.0, abs=1e-12)
    assert np.linalg.norm(project_diagonally(point, np.diag(np.diag(matrix)), 1.0)) == pytest.approx(1.0, abs=1e-12)


def test_where_too_many_products_would_be_needed_the_dense_projection_is_taken():
    rng = np.random.default_rng(2)
    matrix, point = random_matrix(rng, np.geomspace(1.0, 1e6, 300)), random_point(rng, 300, 3.0)
    assert learners._project_near(point, root_of(matrix), 1.0) is None
    theta = project_by_lanczos(point, root_of(matrix), 1.0)
    np.testing.assert_allclose(theta, project_one(point, root_of(matrix).dense(), 1.0)[0], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("norm", [0.0, 0.5, 1.0 - 1e-12])
def test_points_inside_are_returned_bit_for_bit_and_none_is_written_into(norm):
    point, gradients = norm * random_point(np.random.default_rng(3), 15, 1.0), draw_gradients(15, 8)
    far = random_point(np.random.default_rng(4), 15, 7.0)
    point.flags.writeable = far.flags.writeable = False
    root, sketch = run_rounds(start_metric(1.0, 15), gradients), run_rounds(start_sketch(1.0, 15, 3), gradients)
    for project in (
        lambda some: project_by_lanczos(some, root, 1.0),
        lambda some: sketch.project(some, 1.0),
        lambda some: project_diagonally(some, np.diag(np.arange(1.0, 16.0)), 1.0),
    ):
        assert project(point).tobytes() == point.tobytes()
        project(far)


def test_points_do_not_disturb_each_other_in_a_projection_by_diagonals():
    rng = np.random.default_rng(1)
    points = np.array([random_point(rng, 6, norm) for norm in (0.5, 2.0, 1.0 - 1e-12, 1e300, 0.0)])
    diagonals = rng.uniform(1.0, 50.0, size=points.shape)
    together = project_by_diagonal(points, diagonals, 1.0)
    for i in range(len(points)):
        alone = project_by_diagonal(points[i : i + 1], diagonals[i : i + 1], 1.0)[0]
        np.testing.assert_allclose(together[i], alone, rtol=1e-12)
