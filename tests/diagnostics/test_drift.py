"""The log of changes: one event per jump, none at rest, and no more than fit."""

import numpy as np
import pytest

from accous.arrays import FloatArray
from accous.diagnostics.drift import MAX_EVENTS, ROUNDS_BETWEEN_LOOKS, DriftLog, main_columns, start_log

ROWS = np.stack((np.linspace(-2.0, 2.0, 41), np.ones(41)), axis=1)


def weigh(theta: FloatArray) -> FloatArray:
    return np.exp(-ROWS @ theta)


def looked(log: DriftLog, thetas: FloatArray, first: int = 1) -> DriftLog:
    for number, theta in enumerate(thetas, start=first):
        log = log.look(number * ROUNDS_BETWEEN_LOOKS, theta, weigh, lambda change: ("x0",) if change[0] else ())
    return log


def steps(*sizes: float, n_looks: int = 30) -> FloatArray:
    return np.array([[size, 0.0] for size in sizes for _ in range(n_looks)])


def test_at_rest_there_is_no_event() -> None:
    rng = np.random.default_rng(0)
    assert looked(start_log(np.zeros(2)), 0.05 * rng.normal(size=(100, 2))).events == ()


def test_every_jump_is_one_event_with_its_size_its_columns_and_its_time() -> None:
    log = looked(start_log(np.zeros(2)), steps(0.0, 1.0, -1.0))
    assert len(log.events) == 2
    first, second = log.events
    assert 30 * ROUNDS_BETWEEN_LOOKS < first.round <= 33 * ROUNDS_BETWEEN_LOOKS
    assert 60 * ROUNDS_BETWEEN_LOOKS < second.round <= 63 * ROUNDS_BETWEEN_LOOKS
    before, after = (weigh(np.array([size, 0.0])) for size in (0.0, 1.0))
    distance = 0.5 * np.abs(before / before.sum() - after / after.sum()).sum()
    assert first.size == pytest.approx(distance, abs=0.05)
    assert second.size > first.size
    assert first.features == ("x0",)
    assert first.rounds_to_adapt is not None
    assert 0 < first.rounds_to_adapt < 30 * ROUNDS_BETWEEN_LOOKS


def test_a_change_that_goes_on_is_open() -> None:
    log = looked(start_log(np.zeros(2)), steps(0.0, 1.0)[:32])
    assert log.events[-1].rounds_to_adapt is None
    assert log.is_moving


def test_a_scale_of_all_weights_is_no_change() -> None:
    assert looked(start_log(np.zeros(2)), np.array([[0.0, 3.0]] * 20)).events == ()


def test_the_log_is_bounded() -> None:
    log = looked(start_log(np.zeros(2)), steps(*[0.0, 1.5] * (MAX_EVENTS // 2 + 10), n_looks=25))
    assert len(log.events) == MAX_EVENTS
    assert log.events[0].round > 25 * ROUNDS_BETWEEN_LOOKS


def test_main_columns_carry_half() -> None:
    names = ["a", "b", "c", "d"]
    assert main_columns(np.array([0.2, 0.3, 0.4, 0.1]), names) == ("c", "b")
    assert main_columns(np.zeros(4), names) == ()
    assert len(main_columns(np.full(12, 1 / 12), [f"x{j}" for j in range(12)])) == 5
