"""Drift: the log of changes, which columns moved, rows outside the reference, strength, and seasons."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous import AdaptiveClassifier
from accous.arrays import from_plain, to_plain
from accous.diagnostics.drift import (
    MAX_EVENTS,
    ROUNDS_BETWEEN_LOOKS,
    ReferenceColumns,
    SeasonWatch,
    linear_parts,
    main_columns,
    shares,
    slots_of,
    start_log,
    start_seasons,
)

# --- the log of changes -----------------------------------------------------------------------------------------

ROWS = np.stack((np.linspace(-2.0, 2.0, 41), np.ones(41)), axis=1)


def weigh(theta):
    return np.exp(-ROWS @ theta)


def looked(log, thetas, first=1):
    for number, theta in enumerate(thetas, start=first):
        log = log.look(number * ROUNDS_BETWEEN_LOOKS, theta, weigh, lambda change: ("x0",) if change[0] else ())
    return log


def steps(*sizes: float, n_looks=30):
    return np.array([[size, 0.0] for size in sizes for _ in range(n_looks)])


def test_at_rest_there_is_no_event():
    assert looked(start_log(np.zeros(2)), 0.05 * np.random.default_rng(0).normal(size=(100, 2))).events == ()


def test_every_jump_is_one_event_with_its_size_its_columns_and_its_time():
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


def test_a_change_that_goes_on_is_open():
    log = looked(start_log(np.zeros(2)), steps(0.0, 1.0)[:32])
    assert log.events[-1].rounds_to_adapt is None
    assert log.is_moving


def test_a_scale_of_all_weights_is_no_change():
    assert looked(start_log(np.zeros(2)), np.array([[0.0, 3.0]] * 20)).events == ()


def test_the_log_is_bounded():
    log = looked(start_log(np.zeros(2)), steps(*[0.0, 1.5] * (MAX_EVENTS // 2 + 10), n_looks=25))
    assert len(log.events) == MAX_EVENTS
    assert log.events[0].round > 25 * ROUNDS_BETWEEN_LOOKS


def test_main_columns_carry_half():
    names = ["a", "b", "c", "d"]
    assert main_columns(np.array([0.2, 0.3, 0.4, 0.1]), names) == ("c", "b")
    assert main_columns(np.zeros(4), names) == ()
    assert len(main_columns(np.full(12, 1 / 12), [f"x{j}" for j in range(12)])) == 5


# --- which columns moved ----------------------------------------------------------------------------------------


def test_parts_sum_to_the_variance_of_the_score():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 4)) @ np.diag([1.0, 2.0, 3.0, 0.5])
    coef = np.array([1.0, 0.5, 0.0, -2.0])
    covariances = np.array([np.cov(column, features @ coef)[0, 1] for column in features.T])
    parts = linear_parts(coef, covariances)
    assert parts.sum() == pytest.approx(np.var(features @ coef), rel=0.05)
    assert parts[2] == 0.0
    np.testing.assert_allclose(parts[[0, 1, 3]], [1.0, 1.0, 1.0], rtol=0.25)
    assert shares(np.array([1.0, 3.0])).tolist() == [0.25, 0.75]
    assert shares(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_columns_of_frames_whatever_they_hold():
    rng = np.random.default_rng(1)
    city = rng.choice(["Oslo", "Lima"], size=200)
    columns = {
        "size": np.where(np.arange(200) == 5, np.nan, rng.normal(size=200)),
        "city": city,
        "when": np.datetime64("2024-01-01") + rng.integers(0, 100, size=200).astype("timedelta64[D]"),
        "constant": np.ones(200),
        "missing": np.full(200, np.nan),
    }
    log_ratio = np.where(city == "Oslo", 1.0, -1.0)
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        parts = ReferenceColumns(frame).parts(log_ratio)
        assert parts[1] == pytest.approx(np.var(log_ratio))
        assert parts[[0, 2, 3, 4]].max() < 0.05


def test_numbers_by_themselves_explain_squared_correlations():
    rng = np.random.default_rng(2)
    X = rng.normal(5.0, 3.0, size=(400, 2))
    log_ratio = 2.0 * X[:, 0] + rng.normal(size=400)
    parts = ReferenceColumns(X).parts(log_ratio)
    expected = [np.corrcoef(X[:, j], log_ratio)[0, 1] ** 2 * np.var(log_ratio) for j in range(2)]
    np.testing.assert_allclose(parts, expected, rtol=1e-9)


# --- a daily cycle is no drift once it has been seen on two days ------------------------------------------------

DAY = 86_400.0
ROUNDS_PER_DAY = 480


def shifts_of(model):
    return [event for event in model.drift_.events if event.kind == "shift"]


def follow(shift_day, *, n_days=8, shift=2.5, seed=0):
    """The days of the changes that were drift and of those that were seasonal; column 0 swings, column 2 shifts."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(800, 3))
    X[:, 0] += 2.0 * np.sin(2.0 * np.pi * random.random(800))
    y = X[:, 1] + np.random.default_rng(seed + 1).normal(size=800) > 0.0
    model, watch = AdaptiveClassifier(random_state=0).fit(X, y), start_seasons(3)
    for number in range(n_days * ROUNDS_PER_DAY):
        times = (number + np.arange(5) / 5) * DAY / ROUNDS_PER_DAY
        batch = random.normal(size=(5, 3))
        batch[:, 0] += 2.0 * np.sin(2.0 * np.pi * times / DAY)
        if number >= shift_day * ROUNDS_PER_DAY:
            batch[:, 2] += shift
        model.adapt(batch)
        watch = watch.after(batch, times)
        if shifts_of(model):
            last = shifts_of(model)[-1]
            watch = watch.judge(last.round, is_over=last.rounds_to_adapt is not None)
    days = {event.round: event.round / ROUNDS_PER_DAY for event in shifts_of(model)}
    is_seasonal = {number: number in watch.seasonal for number in days}
    return (
        [day for number, day in days.items() if not is_seasonal[number]],
        [day for number, day in days.items() if is_seasonal[number]],
    )


def test_after_two_days_only_the_shift_is_drift():
    drift, seasonal = follow(5.3)
    later = [day for day in drift if day > 2.0]
    assert len(later) == 1
    assert 5.3 <= later[0] < 5.5
    assert len(seasonal) >= 8
    assert len([day for day in drift if day <= 2.0]) >= 3  # what a day does must be learned first


@pytest.mark.slow  # what comes after two days and before the shift in the test above is a cycle alone too
def test_a_cycle_alone_is_no_drift_after_two_days():
    drift, seasonal = follow(np.inf, n_days=6)
    assert max(drift) < 2.1
    assert len(seasonal) >= 6


def test_slots_are_hours_of_the_week():
    start = datetime(2026, 3, 1, tzinfo=UTC)
    moments = [start + timedelta(minutes=37 * number) for number in range(2_000)]
    slots, days = slots_of(np.array([moment.timestamp() for moment in moments]))
    assert slots.tolist() == [moment.hour + 24 * moment.weekday() for moment in moments]
    assert len(set(days.tolist())) == len({moment.date() for moment in moments})
    assert set(slots.tolist()) == set(range(7 * 24))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_means_are_those_of_complete_days_whatever_the_rounds(size):
    """Three days of two hours each: the third day is not in the means yet."""
    random = np.random.default_rng(0)
    times = np.concatenate([day * DAY + np.sort(random.uniform(0.0, 7_200.0, 40)) for day in (4, 5, 6)])  # Mon to Wed
    X, watch = random.normal(size=(120, 2)), start_seasons(2)
    for start in range(0, 120, size):
        watch = watch.after(X[start : start + size], times[start : start + size])
    slots, days = slots_of(times)
    for hour in (0, 1):
        of_working_days = 7 * 24 + hour
        daily = [X[(slots % 24 == hour) & (days == day)].mean(axis=0) for day in (4, 5)]
        np.testing.assert_allclose(watch.slots.means[of_working_days], np.mean(daily, axis=0))
        assert watch.slots.n_days[of_working_days] == 2
        assert watch.slots.counts[of_working_days] == ((slots % 24 == hour) & (days == 6)).sum()
        assert watch.slots.counts[2 * 24 + hour] == watch.slots.counts[of_working_days]  # of Wednesdays


def test_the_hour_of_the_week_goes_before_the_hour_of_the_day():
    """Mondays have 1, other working days 0: the third Monday is expected to have 1."""
    watch = start_seasons(1)
    for day in range(4, 18):
        value = float((day + 3) % 7 == 0)
        watch = watch.after(np.full((1, 1), value), np.array([day * DAY]))
    _, expected, n_known = watch.slots.after(np.ones((1, 1)), *slots_of(np.array([18 * DAY])), [1])
    assert (expected.tolist(), n_known.tolist()) == ([[1.0]], [1])


def test_rows_without_a_time_teach_nothing():
    watch = start_seasons(2).after(np.ones((5, 2)), np.full(5, np.nan))
    assert not watch.slots.n_days.any()
    assert not watch.slots.counts.any()
    assert watch.known == 0.0
    assert not watch.is_explained


def test_it_goes_on_from_its_plain_form():
    random = np.random.default_rng(0)
    one = other = start_seasons(2)
    for number in range(120):
        rows, times = random.normal(size=(3, 2)), number * 3_000.0 + np.arange(3)
        one = one.after(rows, times).judge(1 + number // 40, is_over=number % 40 > 20)
        other = from_plain(SeasonWatch, to_plain(other)).after(rows, times)
        other = other.judge(1 + number // 40, is_over=number % 40 > 20)
    first, second = to_plain(one), to_plain(other)
    for name, value in {**first.pop("slots"), **first}.items():
        assert np.array_equal(value, {**second["slots"], **second}[name]), name


def test_a_watch_is_never_written_into():
    watch = start_seasons(2).after(np.ones((2, 2)), np.zeros(2))
    before = {name: np.copy(value) for name, value in to_plain(watch)["slots"].items()}
    for day in (1.0, DAY, 8 * DAY):
        watch.after(np.ones((2, 2)), np.array([1.0, day]))
    for name, value in to_plain(watch)["slots"].items():
        assert np.array_equal(value, before[name]), name


def test_rounds_that_are_taken_together_leave_what_they_leave_one_by_one():
    random = np.random.default_rng(0)
    ends = np.cumsum(random.integers(1, 9, size=100)).tolist()
    X, times = random.normal(size=(ends[-1], 3)), random.uniform(0.0, 9 * DAY, size=ends[-1])
    times[: ends[60]].sort()  # the others are in no order
    times[random.random(ends[-1]) < 0.1] = np.nan
    one = together = start_seasons(3)
    for start, end in zip([0, *ends], ends, strict=False):
        one = one.after(X[start:end], times[start:end])
    for first, last in ((0, 1), (1, 50), (50, 100)):
        start = ends[first - 1] if first else 0
        part, stops = slice(start, ends[last - 1]), [end - start for end in ends[first:last]]
        together = together.after(X[part], times[part], stops)
    assert one.slots.n_days.max() > 1
    first, second = to_plain(one), to_plain(together)
    for name, value in {**first.pop("slots"), **first}.items():
        assert np.array_equal(value, {**second["slots"], **second}[name]), name


def test_rows_of_a_date_alone_have_no_hours():
    X, days = np.zeros((20, 1)), np.arange(20) * DAY
    assert not start_seasons(1).after(X, days).slots.has_hours
    assert start_seasons(1).after(X, days + 3_600.0 * (np.arange(20) % 2)).slots.has_hours
