"""Projection by Lanczos' method: the answer of the dense projection, and the ball in every case."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import cholesky

from accous.core import learners as lanczos
from accous.core.learners import Metric, project_by_lanczos, project_onto_ball, start_metric
from tests.budgets import rest_slow
from tests.builders import Array
from tests.core.paper.test_projection import SPECTRA, random_matrix, random_point


def metric_of(matrix: Array) -> Metric:
    """A metric whose root holds all of the matrix."""
    d = len(matrix)
    ridge = float(np.linalg.eigvalsh(matrix)[0])
    return Metric(ridge, np.asfortranarray(cholesky(matrix)), np.empty((0, d)), np.empty((0, 0)))


def metric_of_gradients(rng: np.random.Generator, d: int, n: int, scale: float) -> Metric:
    metric = start_metric(1.0, d)
    for gradient in scale * rng.normal(size=(n, d)) / np.sqrt(d) + 0.3 * scale / np.sqrt(d):
        metric, _ = metric.plus(gradient)
    return metric


def project_densely(point: Array, metric: Metric, radius: float) -> Array:
    return project_onto_ball(point[None], metric.dense()[None], radius)[0][0]


def is_in_ball(theta: Array, radius: float) -> bool:
    return bool(np.linalg.norm(theta) <= radius * (1.0 + 1e-12))


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 60),
    spectrum=st.sampled_from(list(SPECTRA)),
    log_condition=st.floats(0.0, 4.0),
    log_distance=st.floats(-9.0, 4.0),
    log_radius=st.floats(-2.0, 2.0),
)
def test_equals_the_dense_projection(
    seed: int, d: int, spectrum: str, log_condition: float, log_distance: float, log_radius: float
) -> None:
    rng = np.random.default_rng(seed)
    radius = 10.0**log_radius
    metric = metric_of(random_matrix(rng, SPECTRA[spectrum](d, 10.0**log_condition)))
    point = random_point(rng, d, radius * (1.0 + 10.0**log_distance))
    theta = project_by_lanczos(point, metric, radius)
    np.testing.assert_allclose(theta, project_densely(point, metric, radius), rtol=0.0, atol=1e-9 * radius)
    assert is_in_ball(theta, radius)


@pytest.mark.parametrize("n_gradients", [0, 1, 20, 63, 64, 100, 500])
@pytest.mark.parametrize("distance", [1.0 + 1e-9, 1.1, 2.0, 4.9, 5.0, 30.0, 1e4])
@pytest.mark.parametrize("scale", rest_slow([1.0, 0.1, 10.0]))
def test_learners_of_every_age_equal_the_dense_projection(n_gradients: int, distance: float, scale: float) -> None:
    rng = np.random.default_rng(n_gradients)
    metric = metric_of_gradients(rng, 130, n_gradients, scale)
    point = random_point(rng, 130, 0.7 * distance)
    theta = project_by_lanczos(point, metric, 0.7)
    np.testing.assert_allclose(theta, project_densely(point, metric, 0.7), rtol=0.0, atol=1e-9)
    assert is_in_ball(theta, 0.7)


@pytest.mark.every_pair
@pytest.mark.parametrize("spectrum", list(SPECTRA))
@pytest.mark.parametrize("condition", [1e8, 1e12])
@pytest.mark.parametrize("distance", [1.0 + 1e-9, 1.5, 4.0, 6.0, 1e8, 1e100, 1e300])
def test_the_ball_holds_for_hopeless_matrices(spectrum: str, condition: float, distance: float) -> None:
    rng = np.random.default_rng(1)
    metric = metric_of(random_matrix(rng, SPECTRA[spectrum](40, condition)))
    assert is_in_ball(project_by_lanczos(random_point(rng, 40, 1.0) * distance, metric, 1.0), 1.0)


def test_where_too_many_products_would_be_needed_the_dense_projection_is_taken() -> None:
    rng = np.random.default_rng(2)
    matrix = random_matrix(rng, np.geomspace(1.0, 1e6, 300))
    metric, point = metric_of(matrix), random_point(rng, 300, 3.0)
    assert lanczos._project_near(point, metric, 1.0) is None
    theta = project_by_lanczos(point, metric, 1.0)
    np.testing.assert_allclose(theta, project_densely(point, metric, 1.0), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("norm", [0.0, 0.5, 1.0 - 1e-12])
def test_points_inside_are_returned_bit_for_bit(norm: float) -> None:
    rng = np.random.default_rng(3)
    point = norm * random_point(rng, 50, 1.0)
    assert project_by_lanczos(point, metric_of_gradients(rng, 50, 10, 1.0), 1.0).tobytes() == point.tobytes()


def test_the_point_is_not_written_into() -> None:
    rng = np.random.default_rng(4)
    point, metric = random_point(rng, 50, 7.0), metric_of_gradients(rng, 50, 30, 1.0)
    point.flags.writeable = False
    project_by_lanczos(point, metric, 1.0)
    project_by_lanczos(point, metric, 5.0)
