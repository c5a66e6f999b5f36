"""The attempts to come closer to the true ratio under ``Sin``."""

import numpy as np
import pytest

from benchmarks.limit import streams
from benchmarks.pool_sin import distances, extended


def test_momentum_goes_on_in_the_direction_of_the_change_and_keeps_the_mean() -> None:
    before, now = np.array([1.0, 1.0, 1.0, 1.0]), np.array([3.0, 0.0, 0.0, 1.0])
    moved = extended(now, before)
    np.testing.assert_allclose(moved, np.array([3.5, 0.0, 0.0, 1.0]) / 1.125)
    assert moved.mean() == pytest.approx(1.0)


def test_distances_are_those_of_three_different_ratios() -> None:
    found = distances(next(streams("Sin", [3], 400, 5)), first=50, last=120)
    assert list(found) == ["default", "momentum", "true parts as candidates"]
    assert len(set(found.values())) == 3
    assert all(0.0 < each < 0.4 for each in found.values())
