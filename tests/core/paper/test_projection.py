"""The projection onto the ball: its optimality conditions, the slow version, and what it must leave alone."""

import numpy as np
import pytest

from accous.core.learners import project_onto_ball
from tests import oracles
from tests.budgets import rest_slow
from tests.builders import Array

EPSILON = float(np.finfo(np.float64).eps)
JUST_OUTSIDE, FAR_OUTSIDE = 1.0 + 1e-9, 1e8
SPECTRA = {
    "even": lambda d, condition: np.geomspace(1.0, condition, d),
    "one_large": lambda d, condition: np.where(np.arange(d) == d - 1, condition, 1.0),
    "one_small": lambda d, condition: np.where(np.arange(d) == 0, 1.0, condition),
}

widths = pytest.mark.parametrize("d", [1, 2, 3, 8, 13, 64])
spectra = pytest.mark.parametrize("spectrum", list(SPECTRA))
distances = pytest.mark.parametrize("distance", [JUST_OUTSIDE, 1.01, 10.0, FAR_OUTSIDE])


def random_matrix(rng: np.random.Generator, eigenvalues: Array) -> Array:
    """A symmetric matrix with the given eigenvalues and random eigenvectors."""
    basis, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues), len(eigenvalues))))
    matrix = (basis * eigenvalues) @ basis.T
    return np.asarray((matrix + matrix.T) / 2.0)


def random_point(rng: np.random.Generator, d: int, norm: float) -> Array:
    point = rng.normal(size=d)
    return np.asarray(point * (norm / np.linalg.norm(point)))


def project_one(point: Array, matrix: Array, radius: float) -> tuple[Array, float]:
    projected, multipliers = project_onto_ball(point[None], matrix[None], radius)
    return projected[0], float(multipliers[0])


def norm_error(theta: Array, radius: float) -> float:
    """| ||theta|| - S | / S."""
    return float(abs(np.linalg.norm(theta) - radius) / radius)


def residual(theta: Array, mu: float, point: Array, matrix: Array) -> float:
    """||(A + mu I) theta - A nu|| / ||A nu||, in more digits than float64 where the machine has them."""
    A = matrix.astype(np.longdouble)
    difference = A @ theta + np.longdouble(mu) * theta - A @ point
    return float(np.linalg.norm(difference.astype(np.float64)) / np.linalg.norm(matrix @ point))


def attainable(point: Array, matrix: Array) -> float:
    """The residual that remains where A nu itself is known to float64 only."""
    return float(EPSILON * np.linalg.norm(matrix, 2) * np.linalg.norm(point) / np.linalg.norm(matrix @ point))


# --- optimality conditions ------------------------------------------------------------------------------------


@pytest.mark.every_pair
@widths
@spectra
@distances
@pytest.mark.parametrize("condition", rest_slow([1e3, 1.0, 1e6]))
def test_random_points_meet_both_conditions(d: int, spectrum: str, distance: float, condition: float) -> None:
    rng = np.random.default_rng(d)
    for radius in (1e-2, 1.0, 30.0):
        matrix = random_matrix(rng, SPECTRA[spectrum](d, condition))
        point = random_point(rng, d, radius * distance)
        theta, mu = project_one(point, matrix, radius)
        assert mu > 0.0
        assert norm_error(theta, radius) <= 1e-12
        assert residual(theta, mu, point, matrix) <= 1e-12


@pytest.mark.every_pair
@widths
@spectra
@distances
@pytest.mark.parametrize("condition", rest_slow([1e10, 1e8]))
def test_ill_conditioned_matrices_meet_both_conditions(
    d: int, spectrum: str, distance: float, condition: float
) -> None:
    rng = np.random.default_rng(d)
    matrix = random_matrix(rng, SPECTRA[spectrum](d, condition))
    point = random_point(rng, d, 2.0 * distance)
    theta, mu = project_one(point, matrix, 2.0)
    assert norm_error(theta, 2.0) <= 1e-12
    assert residual(theta, mu, point, matrix) <= max(1e-12, attainable(point, matrix))


@spectra
@distances
def test_hopelessly_conditioned_matrices_lose_digits_but_not_the_ball(spectrum: str, distance: float) -> None:
    rng = np.random.default_rng(0)
    matrix = random_matrix(rng, SPECTRA[spectrum](13, 1e12))
    point = random_point(rng, 13, distance)
    theta, mu = project_one(point, matrix, 1.0)
    assert norm_error(theta, 1.0) <= 1e-7
    assert residual(theta, mu, point, matrix) <= max(1e-12, attainable(point, matrix))


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("which", [0, -1])
@distances
def test_points_along_one_eigenvector_meet_both_conditions(condition: float, which: int, distance: float) -> None:
    rng = np.random.default_rng(3)
    matrix = random_matrix(rng, np.geomspace(1.0, condition, 6))
    point = distance * np.linalg.eigh(matrix).eigenvectors[:, which]
    theta, mu = project_one(point, matrix, 1.0)
    assert norm_error(theta, 1.0) <= 1e-12
    assert residual(theta, mu, point, matrix) <= max(1e-12, attainable(point, matrix))


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_scaling_the_matrix_scales_the_multiplier_only(scale: float) -> None:
    rng = np.random.default_rng(4)
    matrix, point = random_matrix(rng, np.geomspace(1.0, 50.0, 5)), random_point(rng, 5, 7.0)
    theta, mu = project_one(point, matrix, 2.0)
    scaled_theta, scaled_mu = project_one(point, scale * matrix, 2.0)
    np.testing.assert_allclose(scaled_theta, theta, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scaled_mu, scale * mu, rtol=1e-12)


@pytest.mark.parametrize("distance", [1e100, 1e130, 1e160, 1e300])
def test_points_at_astronomic_distance_land_on_the_ball(distance: float) -> None:
    rng = np.random.default_rng(5)
    matrix = random_matrix(rng, np.geomspace(1.0, 1e3, 4))
    theta, _ = project_one(distance * random_point(rng, 4, 1.0), matrix, 1.0)
    assert norm_error(theta, 1.0) <= 1e-12


def test_sphere_of_equal_eigenvalues_shortens_the_point() -> None:
    theta, mu = project_one(np.array([3.0, 4.0]), 2.0 * np.eye(2), 1.0)
    np.testing.assert_allclose(theta, [0.6, 0.8], rtol=1e-14)
    np.testing.assert_allclose(mu, 8.0, rtol=1e-13)


def test_one_dimension_cuts_at_the_radius() -> None:
    theta, mu = project_one(np.array([-8.0]), np.array([[5.0]]), 2.0)
    np.testing.assert_allclose(theta, [-2.0], rtol=1e-15)
    np.testing.assert_allclose(mu, 15.0, rtol=1e-13)


# --- against the slow version and other points ----------------------------------------------------------------


@pytest.mark.every_pair
@pytest.mark.parametrize("d", [1, 2, 5, 16])
@spectra
@distances
def test_equals_bisection(d: int, spectrum: str, distance: float) -> None:
    rng = np.random.default_rng(d)
    matrix = random_matrix(rng, SPECTRA[spectrum](d, 1e3))
    point = random_point(rng, d, 1.5 * distance)
    theta, mu = project_one(point, matrix, 1.5)
    expected_theta, expected_mu = oracles.project(point, matrix, 1.5)
    np.testing.assert_allclose(theta, expected_theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(mu, expected_mu, rtol=1e-9, atol=1e-14 * np.linalg.norm(matrix, 2))


@spectra
@pytest.mark.parametrize("distance", [1.01, 3.0, 100.0])
def test_no_feasible_point_is_nearer(spectrum: str, distance: float) -> None:
    rng = np.random.default_rng(6)
    matrix = random_matrix(rng, SPECTRA[spectrum](5, 1e4))
    point = random_point(rng, 5, distance)
    theta, _ = project_one(point, matrix, 1.0)
    others = rng.normal(size=(2000, 5))
    others[1000:] = theta + 10.0 ** rng.uniform(-4.0, 0.0, size=(1000, 1)) * others[1000:]
    others /= np.maximum(1.0, np.linalg.norm(others, axis=1, keepdims=True))

    def squared_distance(points: Array) -> Array:
        return np.asarray(np.einsum("nd,de,ne->n", points - point, matrix, points - point))

    assert squared_distance(theta[None])[0] <= squared_distance(others).min() * (1.0 + 1e-12)


# --- points inside, and stacks --------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [0.0, 1e-300, 0.5, 1.0 - 1e-9])
def test_points_inside_are_returned_bit_for_bit(norm: float) -> None:
    rng = np.random.default_rng(7)
    points = np.stack([random_point(rng, 6, 1.0) * norm for _ in range(4)])
    matrices = np.stack([random_matrix(rng, np.geomspace(1.0, 1e5, 6)) for _ in range(4)])
    projected, multipliers = project_onto_ball(points, matrices, 1.0)
    assert projected.tobytes() == points.tobytes()
    np.testing.assert_array_equal(multipliers, 0.0)


def test_points_on_the_surface_are_inside() -> None:
    points = np.array([[1.0, 2.0, 2.0], [-2.0, 1.0, 2.0], [2.0, 2.0, -1.0], [0.0, -3.0, 0.0]])
    matrices = np.stack([random_matrix(np.random.default_rng(k), np.array([1.0, 7.0, 90.0])) for k in range(4)])
    projected, multipliers = project_onto_ball(points, matrices, 3.0)
    assert projected.tobytes() == points.tobytes()
    np.testing.assert_array_equal(multipliers, 0.0)


def test_points_inside_stay_bit_for_bit_beside_points_outside() -> None:
    rng = np.random.default_rng(8)
    points = np.stack([random_point(rng, 3, norm) for norm in (0.5, 20.0, 0.9, 1.5)])
    matrices = np.stack([random_matrix(rng, np.array([1.0, 5.0, 9.0])) for _ in range(4)])
    projected, multipliers = project_onto_ball(points, matrices, 1.0)
    assert projected[[0, 2]].tobytes() == points[[0, 2]].tobytes()
    np.testing.assert_array_equal(multipliers > 0.0, [False, True, False, True])


def test_stack_equals_one_by_one() -> None:
    rng = np.random.default_rng(9)
    norms = [0.1, JUST_OUTSIDE, 1.1, 3.0, 50.0, 1e4, FAR_OUTSIDE, 0.99]
    points = np.stack([random_point(rng, 7, norm) for norm in norms])
    matrices = np.stack([random_matrix(rng, np.geomspace(1.0, 10.0**k, 7)) for k in range(8)])
    projected, multipliers = project_onto_ball(points, matrices, 1.0)
    for point, matrix, theta, mu in zip(points, matrices, projected, multipliers, strict=True):
        alone_theta, alone_mu = project_one(point, matrix, 1.0)
        np.testing.assert_allclose(theta, alone_theta, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(mu, alone_mu, rtol=1e-10)


def test_empty_stack_stays_empty() -> None:
    projected, multipliers = project_onto_ball(np.empty((0, 3)), np.empty((0, 3, 3)), 1.0)
    assert projected.shape == (0, 3)
    assert multipliers.shape == (0,)


def test_arguments_are_not_written_into() -> None:
    rng = np.random.default_rng(10)
    points, matrices = np.stack([random_point(rng, 4, 0.5), random_point(rng, 4, 9.0)]), np.stack([np.eye(4)] * 2)
    points.flags.writeable = matrices.flags.writeable = False
    projected, _ = project_onto_ball(points, matrices, 1.0)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=1), [0.5, 1.0], rtol=1e-12)
