"""The alarm: a fair game against any standing stream, and quick where the loss has risen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accous.arrays import from_plain, to_plain
from accous.diagnostics.metrics import decide, read_metric
from accous.diagnostics.performance import ClassCalibration, NumberCalibration, PredictedRows, windows_of
from accous.diagnostics.status import Alarm, limit_of, losses_of, start_alarm


def follow(alarm, rates, batch, rng, weight=None):
    for rate in rates:
        alarm = alarm.watch((rng.random(batch) < rate).astype(float), weight)
    return alarm


@settings(max_examples=50, deadline=None)
@given(st.floats(0.02, 0.9), st.lists(st.integers(0, 3), min_size=1, max_size=4), st.floats(0.2, 1.0))
def test_the_wealth_of_a_fair_game_stays_at_the_mean(limit, before, weight):
    """Of one more loss that has the limit as its mean, whatever came before."""
    alarm = start_alarm(limit)
    for n_losses in before:
        alarm = alarm.watch(np.arange(4.0) < n_losses)
    if alarm.is_on:
        return
    after = [alarm.watch(np.array([loss]), np.array([weight])).wealth for loss in (0.0, 1.0)]
    mean = (1.0 - alarm.limit) * after[0] + alarm.limit * after[1]
    assert mean == pytest.approx(alarm.wealth, rel=1e-9)
    assert min(after) > 0.0


def test_no_more_false_alarms_than_promised_on_the_limit_itself():
    n_false = sum(
        follow(start_alarm(0.2), np.full(400, 0.2), 10, np.random.default_rng(seed)).is_on for seed in range(60)
    )
    assert n_false <= 6  # at most 3 in the mean; 7 or more have a probability of 3 %


@pytest.mark.slow
def test_false_alarms_over_ten_thousand_rounds():
    n_false = sum(
        follow(start_alarm(0.15), np.full(10_000, 0.15), 1, np.random.default_rng(seed)).is_on for seed in range(100)
    )
    assert n_false <= 9


@pytest.mark.parametrize("quiet", [50, 1000])
def test_a_rise_is_found_whenever_it_comes(quiet):
    delays = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        alarm = follow(start_alarm(0.15), [*np.full(quiet, 0.1), *np.full(200, 0.35)], 10, rng)
        assert alarm.is_on
        delays.append(alarm.since - quiet)
    assert 0 < np.median(delays) < 20


def test_expected_losses_count_like_labels():
    alarm = start_alarm(0.15)
    for _ in range(60):
        alarm = alarm.watch(np.full(10, 0.3))
    assert alarm.is_on
    standing = start_alarm(0.15)
    for _ in range(500):
        standing = standing.watch(np.full(10, 0.12))
    assert not standing.is_on


def test_an_alarm_stays_on_and_survives_a_file():
    alarm = follow(start_alarm(0.1), np.full(50, 0.9), 10, np.random.default_rng(0))
    since = alarm.since
    later = follow(alarm, np.zeros(50), 10, np.random.default_rng(0))
    assert (later.is_on, later.since) == (True, since)
    assert from_plain(Alarm, to_plain(alarm)) == alarm


def test_empty_rounds_and_extreme_limits():
    assert start_alarm(0.2).watch(np.zeros(0)) == start_alarm(0.2)
    assert start_alarm(0.0).limit == 0.01
    assert start_alarm(1.5).limit == 0.99
    assert np.isfinite(start_alarm(0.0).watch(np.ones(10_000)).wealth)


@pytest.mark.parametrize("name", ["error", "brier", "log_loss", "cost", "f1"])
def test_losses_of_classes_lie_between_0_and_1_and_are_expected_as_they_come(name):
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    probabilities, y = np.column_stack((1 - p, p)), (rng.random(2000) < p).astype(np.int64)
    made = PredictedRows(decide(probabilities), probabilities)
    calibration = ClassCalibration.fit(made, y, windows_of(2000))
    metric = read_metric(name, [0, 1], costs=np.array([[-1.0, 4.0], [9.0, 0.0]]))
    losses, guesses = losses_of(metric, calibration, made, y), losses_of(metric, calibration, made)
    for each in (losses, guesses):
        assert each.min() >= 0.0
        assert each.max() <= 1.0
    assert guesses.mean() == pytest.approx(losses.mean(), abs=0.02)
    assert limit_of(metric, calibration) == pytest.approx(losses.mean() + max(0.05, 0.2 * losses.mean()))


def test_losses_that_are_expected_of_few_rows_alone_are_no_alarm():
    """Calibrated on few rows, more errors are expected than there were."""
    p = np.random.default_rng(0).permutation(np.repeat([0.02, 0.98], 20))
    probabilities, metric = np.column_stack((1 - p, p)), read_metric("error", [0, 1])
    made, y = PredictedRows(decide(probabilities), probabilities), (p > 0.5).astype(np.int64)
    calibration = ClassCalibration.fit(made, y, windows_of(40))
    alarm, losses = start_alarm(limit_of(metric, calibration)), losses_of(metric, calibration, made)
    for _ in range(500):
        alarm = alarm.watch(losses)
    assert not alarm.is_on


def test_losses_of_numbers_are_shares_of_four_mean_absolute_errors():
    rng = np.random.default_rng(0)
    made, y = PredictedRows(rng.normal(size=1000)), rng.normal(size=1000)
    calibration, metric = NumberCalibration.fit(made, y, windows_of(1000)), read_metric("bias", None)
    losses = losses_of(metric, calibration, made, y)
    assert losses.mean() == pytest.approx(0.25, abs=0.01)
    assert losses_of(metric, calibration, made).mean() == pytest.approx(losses.mean())
    assert limit_of(metric, calibration) == pytest.approx(1.2 * losses.mean())
