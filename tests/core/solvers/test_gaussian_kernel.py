"""Gaussian kernels: distances, the median, centres that do not vanish, and the choice of rows along a direction."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import cdist, pdist

from accous.core.ratio_problems import (
    gaussian_basis,
    largest_exponents,
    median_distance,
    spread_indices,
    squared_distances,
    squared_norms,
)
from tests.builders import Array

LARGEST_UNSHIFTED = 30.0


def normal_rows(n_rows: int, n_columns: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


@st.composite
def pairs_of_rows(draw: st.DrawFn) -> tuple[Array, Array]:
    n_columns = draw(st.integers(1, 6))
    elements = st.floats(-1e3, 1e3)
    return tuple(draw(hnp.arrays(np.float64, (draw(st.integers(1, 6)), n_columns), elements=elements)) for _ in "ab")


# --- distances ------------------------------------------------------------------------------------------------


@given(pair=pairs_of_rows())
def test_distances_are_those_of_scipy(pair: tuple[Array, Array]) -> None:
    rows, centers = pair
    distances = squared_distances(rows, centers)
    scale = np.square(rows).sum(axis=1).max() + np.square(centers).sum(axis=1).max()
    np.testing.assert_allclose(distances, cdist(rows, centers, "sqeuclidean"), rtol=0.0, atol=1e-14 * scale)
    np.testing.assert_array_equal(squared_distances(rows, centers, squared_norms(rows)), distances)


@pytest.mark.parametrize("n_columns", [1, 12, 500])
def test_distances_of_centred_rows_keep_their_digits(n_columns: int) -> None:
    rows, centers = normal_rows(40, n_columns), normal_rows(25, n_columns, seed=1)
    expected = cdist(rows, centers, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(rows, centers), expected, rtol=1e-12, atol=1e-14)


def test_norms_are_squared_lengths() -> None:
    np.testing.assert_array_equal(squared_norms(np.array([[3.0, 4.0], [0.0, -2.0], [0.0, 0.0]])), [25.0, 4.0, 0.0])


def test_distances_do_not_write_into_their_arguments() -> None:
    rows, centers = normal_rows(5, 3), normal_rows(4, 3, seed=1)
    norms = squared_norms(rows)
    rows.flags.writeable = centers.flags.writeable = norms.flags.writeable = False
    assert squared_distances(rows, centers, norms).shape == (5, 4)


# --- the median -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "n_columns"), [(2, 1), (3, 2), (30, 1), (31, 12), (20, 500)])
def test_the_median_is_that_of_all_pairs(n_rows: int, n_columns: int) -> None:
    rows = normal_rows(n_rows, n_columns, seed=n_rows)
    # The median of squares, then the root: with an even number of pairs that is not the median of the roots.
    expected = np.sqrt(np.median(pdist(rows, "sqeuclidean")))
    assert median_distance(rows) == pytest.approx(expected, rel=1e-12)


def test_the_median_scales_with_the_rows_and_ignores_a_shift() -> None:
    rows = normal_rows(30, 3)
    assert median_distance(7.0 * rows) == pytest.approx(7.0 * median_distance(rows), rel=1e-12)
    assert median_distance(rows + 5.0) == pytest.approx(median_distance(rows), rel=1e-10)


def test_one_row_has_no_median() -> None:
    assert median_distance(np.array([[3.0, 4.0]])) == 1.0


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 5, 10, 40])
def test_rows_most_of_which_coincide_have_no_median(n_columns: int, scale: float) -> None:
    # Rounding makes the distance of a row to its copy 1e-16 instead of 0, in some places and not in others.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = scale * rng.normal(size=(3, n_columns))
        rows = values[rng.choice(3, p=[0.85, 0.1, 0.05], size=100)]
        assert median_distance(rows - rows.mean(axis=0)) == 1.0


# --- kernels that do not vanish -------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.1, 1.0, 30.0])
def test_without_shifts_it_is_the_gaussian(width: float) -> None:
    rows, centers = normal_rows(20, 3), normal_rows(7, 3, seed=1)
    basis = gaussian_basis(squared_distances(rows, centers), width, np.zeros(7))
    expected = np.exp(-cdist(rows, centers, "sqeuclidean") / (2.0 * width**2))
    np.testing.assert_allclose(basis, expected, rtol=1e-9, atol=1e-300)


def test_centres_within_reach_are_not_shifted() -> None:
    rows, centers = normal_rows(50, 3), normal_rows(10, 3, seed=1)
    assert not largest_exponents(squared_distances(rows, centers), 1.0).any()


def test_the_shift_leaves_the_nearest_row_at_exponent_thirty() -> None:
    distances = np.array([[100.0, 59.0, 0.0], [400.0, 70.0, 1e9]])
    np.testing.assert_array_equal(largest_exponents(distances, 1.0), [20.0, 0.0, 0.0])
    np.testing.assert_array_equal(largest_exponents(distances, 0.5), [170.0, 88.0, 0.0])


@pytest.mark.parametrize("width", [0.3, 1.0])
def test_nothing_underflows_in_500_dimensions(width: float) -> None:
    rows, centers = normal_rows(60, 500), normal_rows(9, 500, seed=1)
    distances = squared_distances(rows, centers)
    plain = gaussian_basis(distances, width, np.zeros(9))
    assert plain.max() < 1e-100
    basis = gaussian_basis(distances, width, largest_exponents(distances, width))
    np.testing.assert_allclose(basis.max(axis=0), np.exp(-LARGEST_UNSHIFTED), rtol=1e-9)


@pytest.mark.parametrize("distance", [10.0, 1e3, 1e6])
def test_a_far_centre_keeps_its_shape_on_the_reference(distance: float) -> None:
    # The row moves by 1 / distance per step, so that exponents go up in steps of 1 however far the centre is.
    rows = np.zeros((5, 2))
    rows[:, 0] = -np.arange(5) / distance
    center = np.array([[distance, 0.0]])
    distances = squared_distances(rows, center)
    basis = gaussian_basis(distances, 1.0, largest_exponents(distances, 1.0))
    rounding = max(1e-9, 1e-15 * distance**2)
    np.testing.assert_allclose(np.diff(np.log(basis[:, 0])), -1.0, rtol=0.0, atol=rounding + 10.0 / distance**2)
    np.testing.assert_allclose(np.log(basis[0, 0]), -LARGEST_UNSHIFTED, rtol=0.0, atol=rounding)


@given(pair=pairs_of_rows(), exponent=st.integers(0, 60), width=st.floats(1e-3, 1e3))
def test_every_centre_keeps_a_reference_row_however_far_it_is(
    pair: tuple[Array, Array], exponent: int, width: float
) -> None:
    rows, centers = pair[0], pair[1] * 10.0**exponent
    distances = squared_distances(rows, centers)
    basis = gaussian_basis(distances, width, largest_exponents(distances, width))
    # Distances of rows to themselves may be below 0 by rounding.
    rounding = 1e-14 * (np.square(rows).sum(axis=1).max() + np.square(pair[1]).sum(axis=1).max()) / width**2
    assert np.all((basis >= 0.0) & (basis <= np.exp(rounding)))
    # Exponents are so large here that taking 30 from them may round to taking twice as much, or nothing.
    assert np.all(basis.max(axis=0) >= np.exp(-2.2 * LARGEST_UNSHIFTED))


def test_a_shifted_kernel_is_one_around_its_centre() -> None:
    basis = gaussian_basis(np.array([[0.0], [10.0], [90.0]]), 1.0, np.array([20.0]))
    np.testing.assert_allclose(basis[:, 0], [1.0, 1.0, np.exp(-25.0)], rtol=1e-14)


def test_kernels_do_not_write_into_the_distances() -> None:
    distances = squared_distances(normal_rows(5, 3), normal_rows(4, 3, seed=1))
    distances.flags.writeable = False
    for shifts in (np.zeros(4), np.array([0.0, 0.5, 0.0, 0.1])):
        assert np.all(gaussian_basis(distances, 1.0, shifts) <= 1.0)


# --- rows along a direction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_wanted", [5, 6, 100])
def test_all_rows_are_chosen_where_there_are_few(n_wanted: int) -> None:
    np.testing.assert_array_equal(spread_indices(normal_rows(5, 2), n_wanted, np.ones(2)), np.arange(5))


@given(n_rows=st.integers(1, 300), n_wanted=st.integers(1, 300))
def test_as_many_rows_as_wanted_are_chosen_and_none_twice(n_rows: int, n_wanted: int) -> None:
    indices = spread_indices(normal_rows(n_rows, 2, seed=n_rows), n_wanted, np.array([1.0, -0.5]))
    assert len(indices) == len(np.unique(indices)) == min(n_rows, n_wanted)


@given(n_wanted=st.integers(1, 60), n_rows=st.integers(61, 200))
def test_the_chosen_rows_lie_evenly_along_the_direction(n_wanted: int, n_rows: int) -> None:
    rows, direction = normal_rows(n_rows, 3, seed=n_rows), np.array([1.0, 2.0, -1.0])
    ranks = np.argsort(np.argsort(rows @ direction))[spread_indices(rows, n_wanted, direction)]
    # One row from the middle of each of n_wanted parts of the same size.
    middles = (np.arange(n_wanted) + 0.5) * n_rows / n_wanted
    np.testing.assert_allclose(np.sort(ranks), middles, rtol=0.0, atol=1.0)


@given(seed=st.integers(0, 1000), n_wanted=st.integers(1, 40), n_distinct=st.integers(1, 60))
def test_the_order_of_the_rows_does_not_change_the_choice(seed: int, n_wanted: int, n_distinct: int) -> None:
    rng = np.random.default_rng(seed)
    # Integers: the projection is exact wherever a row stands. Few different rows make many ties.
    rows = rng.integers(-(10**6), 10**6, size=(n_distinct, 3))[rng.integers(n_distinct, size=50)].astype(np.float64)
    direction = rng.integers(1, 10**3, size=3).astype(np.float64)
    shuffled = rng.permutation(rows)
    chosen, other = (some[spread_indices(some, n_wanted, direction)] for some in (rows, shuffled))
    if n_wanted < len(rows):
        np.testing.assert_array_equal(other @ direction, chosen @ direction)
    np.testing.assert_array_equal(np.unique(other, axis=0), np.unique(chosen, axis=0))
