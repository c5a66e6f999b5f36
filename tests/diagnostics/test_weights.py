"""Effective sample size and distance of weights: by hand, their ranges, what they do not depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.arrays import FloatArray
from accous.diagnostics.losses import effective_sample_size, weight_distance

N_ROWS = 7
positive_weights = arrays(np.float64, N_ROWS, elements=st.floats(1e-6, 1e3))
scales = st.floats(1e-3, 1e3)


@pytest.mark.parametrize(
    ("weights", "size"),
    [([1.0, 1.0, 1.0, 1.0], 4.0), ([0.0, 3.0, 0.0], 1.0), ([3.0, 1.0], 1.6), ([2.0, 2.0, 1.0, 1.0], 3.6)],
)
def test_effective_sample_size_by_hand(weights: list[float], size: float) -> None:
    assert effective_sample_size(np.array(weights)) == pytest.approx(size, rel=1e-12)


@given(positive_weights)
def test_effective_sample_size_is_between_one_and_all_rows(weights: FloatArray) -> None:
    assert 1.0 - 1e-9 <= effective_sample_size(weights) <= N_ROWS + 1e-9


@given(positive_weights, scales)
def test_effective_sample_size_does_not_depend_on_the_scale(weights: FloatArray, scale: float) -> None:
    assert effective_sample_size(weights * scale) == pytest.approx(effective_sample_size(weights), rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [([1.0, 1.0], [5.0, 5.0], 0.0), ([1.0, 0.0], [0.0, 1.0], 1.0), ([1.0, 1.0], [3.0, 1.0], 0.25)],
)
def test_distance_by_hand(first: list[float], second: list[float], distance: float) -> None:
    assert weight_distance(np.array(first), np.array(second)) == pytest.approx(distance, abs=1e-12)


@given(positive_weights, positive_weights)
def test_distance_is_symmetric_and_between_zero_and_one(first: FloatArray, second: FloatArray) -> None:
    distance = weight_distance(first, second)
    assert distance == weight_distance(second, first)
    assert 0.0 <= distance <= 1.0 + 1e-12


@given(positive_weights, positive_weights, scales)
def test_distance_does_not_depend_on_the_scale(first: FloatArray, second: FloatArray, scale: float) -> None:
    assert weight_distance(first * scale, second) == pytest.approx(weight_distance(first, second), abs=1e-9)


@given(positive_weights, positive_weights, positive_weights)
def test_a_detour_is_no_shorter(first: FloatArray, second: FloatArray, third: FloatArray) -> None:
    direct = weight_distance(first, third)
    assert direct <= weight_distance(first, second) + weight_distance(second, third) + 1e-12


@given(positive_weights, positive_weights)
def test_distance_is_the_largest_change_of_any_set_of_rows(first: FloatArray, second: FloatArray) -> None:
    gains = first / first.sum() - second / second.sum()
    assert weight_distance(first, second) == pytest.approx(gains[gains > 0].sum(), abs=1e-12)
