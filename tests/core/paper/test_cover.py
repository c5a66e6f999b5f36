"""The geometric cover, against a list of all its intervals."""

import math
from functools import cache

import numpy as np
import pytest

from accous.core.ensemble import active_lengths, count_intervals, count_starting, intervals_for_round, log_intervals
from tests.oracles import Interval, cover

N_ROUNDS = 600

every_min_interval = pytest.mark.parametrize("min_interval", [1, 2, 4, 8])


@cache
def all_intervals(min_interval: int) -> list[Interval]:
    return cover(N_ROUNDS, min_interval)


@every_min_interval
def test_active_lengths_are_those_of_the_intervals_around_the_round(min_interval: int) -> None:
    for t in range(1, N_ROUNDS + 1):
        expected = sorted(end - start + 1 for start, end in all_intervals(min_interval) if start <= t <= end)
        lengths = active_lengths(t, min_interval)
        assert lengths.tolist() == expected
        assert lengths.dtype == np.int64


@every_min_interval
def test_starting_intervals_are_the_shortest_active_ones(min_interval: int) -> None:
    for t in range(1, N_ROUNDS + 1):
        expected = sorted(end - start + 1 for start, end in all_intervals(min_interval) if start == t)
        n_starting = count_starting(t, min_interval)
        assert n_starting == len(expected)
        assert active_lengths(t, min_interval)[:n_starting].tolist() == expected


@every_min_interval
def test_every_length_but_a_new_one_that_starts_has_just_ended(min_interval: int) -> None:
    for t in range(2, N_ROUNDS + 1):
        n_ended = sum(end == t - 1 for _, end in all_intervals(min_interval))
        n_new_lengths = len(active_lengths(t, min_interval)) - len(active_lengths(t - 1, min_interval))
        assert count_starting(t, min_interval) - n_new_lengths == n_ended


@every_min_interval
def test_count_is_that_of_the_intervals_that_start_up_to_the_horizon(min_interval: int) -> None:
    for horizon in range(1, N_ROUNDS + 1):
        n_started = sum(start <= horizon for start, _ in all_intervals(min_interval))
        assert count_intervals(horizon, min_interval) == max(2, n_started)


@every_min_interval
def test_given_horizon_fixes_the_count_for_all_rounds(min_interval: int) -> None:
    counts = {intervals_for_round(t, 100, min_interval) for t in range(1, N_ROUNDS + 1)}
    assert counts == {count_intervals(100, min_interval)}


@every_min_interval
def test_count_without_horizon_changes_at_powers_of_two_only(min_interval: int) -> None:
    for k in range(10):
        rounds = range(2**k, 2 ** (k + 1))
        counts = {intervals_for_round(t, None, min_interval) for t in rounds}
        assert counts == {count_intervals(rounds[-1], min_interval)}


@every_min_interval
@pytest.mark.parametrize("horizon", [None, 100])
def test_logarithm_of_the_count_is_that_of_every_round(horizon: int | None, min_interval: int) -> None:
    for t in range(1, N_ROUNDS + 1):
        count = intervals_for_round(t, horizon, min_interval)
        assert log_intervals(t.bit_length(), horizon, min_interval) == math.log(count)


@every_min_interval
def test_no_learner_outlives_a_change_of_the_count_without_horizon(min_interval: int) -> None:
    for start, end in all_intervals(min_interval):
        assert len({intervals_for_round(t, None, min_interval) for t in range(start, end + 1)}) == 1


@pytest.mark.parametrize(
    ("horizon", "min_interval", "expected"), [(1, 1, 2), (7, 1, 7 + 3 + 1), (20, 4, 5 + 2 + 1), (3, 8, 2), (8, 8, 2)]
)
def test_counts_by_hand(horizon: int, min_interval: int, expected: int) -> None:
    assert count_intervals(horizon, min_interval) == expected


def test_rounds_far_beyond_any_stream_have_one_length_per_power_of_two() -> None:
    assert active_lengths(2**40 + 5, 4).tolist() == [2**k for k in range(2, 41)]
    assert count_starting(2**40, 4) == 39
    assert count_starting(2**40 + 4, 4) == 1
