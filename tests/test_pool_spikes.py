"""The effective sample size of the pool has no saw-tooth; that of the ensemble alone has."""

import pytest

from accous.streams import GaussianStream, SquareShift
from benchmarks.pool_pictures import AFTER, BEFORE, PERIOD, count_spikes, follow


@pytest.mark.parametrize(("batch_size", "seed"), [(1, 2), (1, 3), (5, 0)])
def test_the_pool_takes_the_spikes_away(batch_size: int, seed: int) -> None:
    stream = GaussianStream(SquareShift(period=PERIOD), n_rounds=400, batch_size=batch_size, random_state=seed)
    sizes, _ = follow(stream)
    assert count_spikes(sizes[AFTER]) <= 1
    assert count_spikes(sizes[BEFORE]) >= 5


def test_jumps_right_after_a_switch_are_no_spikes() -> None:
    flat = [100.0] * (2 * PERIOD)
    assert count_spikes(flat) == 0
    assert count_spikes([*flat[:PERIOD], 300.0, *flat[PERIOD + 1 :]]) == 0
    assert count_spikes([*flat[:50], 300.0, *flat[51:]]) == 1
