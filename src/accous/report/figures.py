"""What the charts of the report show, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.losses import LEVEL
from accous.diagnostics.risk import is_telling, wilson_interval
from accous.diagnostics.trust import VERDICTS
from accous.report.words import ReportSource

# --- Intervals of the history for the charts: their place on the axis, and means over them


FloatArray = NDArray[np.float64]
_MANY_DAYS = 30 * 86_400.0


@dataclass(frozen=True)
class Intervals:
    """Groups of neighbouring points of a history.

    Attributes
    ----------
    starts : array of shape (n_intervals,)
        First point of each interval.
    edges : array of shape (n_intervals + 1,)
        Where the intervals begin and end, in rounds or in seconds since 1970.
    """

    starts: NDArray[np.int64]
    edges: FloatArray

    @property
    def middles(self) -> FloatArray:
        """Middle of each interval, where its mean is drawn."""
        return 0.5 * (self.edges[:-1] + self.edges[1:])

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum over the points of each interval."""
        return np.add.reduceat(values, self.starts, axis=0)

    def means(self, values: FloatArray) -> FloatArray:
        """Mean over the points of each interval that have a value; NaN where there is none."""
        is_there = ~np.isnan(values)
        n_there = self.sums(is_there.astype(np.int64))
        return np.where(n_there > 0, self.sums(np.where(is_there, values, 0.0)) / np.maximum(n_there, 1), np.nan)


def divide(source: ReportSource, n_most: int) -> Intervals:
    """Divide the history into at most so many intervals of equal numbers of points; the last may be shorter."""
    n_points = len(source.history)
    size = -(-n_points // n_most)
    starts = np.arange(0, n_points, size, dtype=np.int64)
    ends = np.append(starts[1:], n_points)
    return Intervals(starts, _places(source)[np.append(0, ends)])


def axis_of(source: ReportSource) -> dict[str, Any]:
    """Return the chart's horizontal axis: dates if the history has them, else rounds."""
    places = _places(source)
    has_dates = _has_dates(source)
    title = "date of the rows" if has_dates else "round"
    return {"kind": "time" if has_dates else "round", "title": title, "range": [float(places[0]), float(places[-1])]}


def place_of_rounds(source: ReportSource, rounds: list[int]) -> list[float]:
    """Return where rounds are on the axis."""
    ends = np.append(0, source.history.rounds)
    return [round(float(place), 1) for place in np.interp(rounds, ends, _places(source))]


def date_of_round(source: ReportSource, number: int) -> str:
    """Return about when a round was; empty if the history has no dates."""
    if not _has_dates(source):
        return ""
    places = _places(source)
    form = "%Y-%m-%d" if places[-1] - places[0] > _MANY_DAYS else "%Y-%m-%d %H:%M"
    return datetime.fromtimestamp(place_of_rounds(source, [number])[0], UTC).strftime(form)


def _has_dates(source: ReportSource) -> bool:
    """Whether all points have a time, and time never runs backwards."""
    times = source.history.column("time")
    return bool(len(times) > 1 and np.isfinite(times).all() and (np.diff(times) >= 0.0).all() and times[-1] > times[0])


def _places(source: ReportSource) -> FloatArray:
    """Return where the history begins and where each point ends."""
    if not _has_dates(source):
        return np.append(0, source.history.rounds).astype(np.float64)
    times = source.history.column("time")
    # The first point began about as long before its end as the second one lasted.
    return np.append(2.0 * times[0] - times[1], times)


# --- The report's charts as plain dicts that assets/charts.js draws; the style sheet sets their colours


Figure = dict[str, Any]


_MOST_COLUMNS = 12
_MOST_ERRORS, _MOST_MEASURED, _MOST_SIZES, _MOST_CELLS = 64, 40, 160, 128
_NO_OVERLAP = VERDICTS.index("no overlap")
_IN_USE_IS_FIXED = "in use (= fixed)"
MEASURED_LATE = "in use, measured with late labels"


def error_figure(source: ReportSource) -> Figure | None:
    """Draw the label-free risk with its interval over time, and the measured error if there were labels.

    Where an estimate is not known, its line has a gap; the interval, which says why, stays.
    """
    history, scale = source.history, source.scale
    if not len(history) or np.isnan(history.column("risk")).all():
        return None
    intervals = divide(source, _MOST_ERRORS)
    x = np.append(intervals.middles, intervals.edges[-1])
    in_use, fixed = (_estimates(source, intervals, name) for name in ("risk", "risk_fixed"))
    is_read, has_interval = ~np.isnan(in_use.risk), np.isfinite(in_use.low) & np.isfinite(in_use.high)
    is_same = _fixed_is_in_use(source)
    name = _IN_USE_IS_FIXED if is_same else "in use"
    series = [_estimate_line(name, "adapted", x, in_use, is_read)]
    if not is_same:
        series.insert(0, _estimate_line("fixed model", "fixed", x, fixed, is_read))
    if has_interval.any():
        band = {"kind": "band", "name": f"{LEVEL:.0%} interval of the estimate", "colour": "adapted"}
        series.insert(0, band | _bounds(x[has_interval], in_use.low[has_interval], in_use.high[has_interval]))
    series += _measured_series(source) or _late_series(source)
    title = "share of wrong rows" if scale.is_of_classes else scale.name
    label = f"Estimated and measured {scale.name} over time"
    return _over_time(source, series, title, label, is_percent=scale.is_of_classes)


class _Estimates(NamedTuple):
    """Estimates over time, as they are shown, and where they say something."""

    risk: FloatArray
    low: FloatArray
    high: FloatArray
    is_known: NDArray[np.bool_]


def _estimates(source: ReportSource, intervals: Intervals, name: str) -> _Estimates:
    """Return the estimates of one predictor and those of now, with which the curve ends where the axis does."""
    now, loss = source.snapshot.risk, source.scale.loss
    of_now = (now.adapted, now.adapted_low, now.adapted_high, now.is_known)
    if name == "risk_fixed":
        of_now = (now.fixed, now.fixed_low, now.fixed_high, now.is_fixed_known)
    columns = [intervals.means(source.history.column(f"{name}{end}")) for end in ("", "_low", "_high")]
    ends = zip(*(column.tolist() for column in columns), strict=True)
    is_known = [*(is_telling(risk, low, high, loss) for risk, low, high in ends), of_now[3]]
    # Errors are not known where the reference has no rows.
    verdicts = intervals.means(source.history.column("verdict"))
    is_known[:-1] = [is_one and not each >= _NO_OVERLAP for is_one, each in zip(is_known, verdicts, strict=False)]
    risk, low, high = (
        source.in_unit(np.append(column, last)) for column, last in zip(columns, of_now[:3], strict=True)
    )
    return _Estimates(risk, low, high, np.array(is_known, dtype=bool))


def _estimate_line(name: str, colour: str, x: FloatArray, estimates: _Estimates, is_read: NDArray[np.bool_]) -> Figure:
    """Return a line with gaps where the estimate is not known."""
    is_known = estimates.is_known[is_read]
    line = _line(f"{name}, estimated without labels", colour, x[is_read], estimates.risk[is_read])
    return line if is_known.all() else line | {"known": is_known.tolist()}


def _fixed_is_in_use(source: ReportSource) -> bool:
    """Whether the fixed model has predicted in all rounds that the history shows, and predicts now."""
    column, risk = source.history.column, source.snapshot.risk
    is_same = np.array_equal(column("risk"), column("risk_fixed"), equal_nan=True)
    return is_same and np.array_equal(column("n_wrong"), column("n_wrong_fixed")) and risk.adapted == risk.fixed


def _measured_series(source: ReportSource) -> list[Figure]:
    """Return the measured errors over intervals, each with its own interval; none if there were no labels."""
    history, intervals = source.history, divide(source, _MOST_MEASURED)
    n_scored, n_wrong, n_wrong_fixed = (
        intervals.sums(history.column(name)) for name in ("n_scored", "n_wrong", "n_wrong_fixed")
    )
    is_scored = n_scored > 0
    if not is_scored.any():
        return []
    x = intervals.middles[is_scored]
    whose = [("fixed model", "fixed", n_wrong_fixed), ("in use", "measured", n_wrong)]
    if _fixed_is_in_use(source):
        whose = [(_IN_USE_IS_FIXED, "measured", n_wrong)]
    series = []
    for name, colour, counts in whose:
        means = counts[is_scored] / n_scored[is_scored]
        low = high = means
        if source.scale.is_of_classes:
            low, high = wilson_interval(means, n_scored[is_scored])
        low, high, means = map(source.in_unit, (low, high, means))
        dots = {"kind": "dots", "name": f"{name}, measured with labels", "colour": colour}
        series.append(dots | _bounds(x, low, high) | {"y": _short_numbers(means)})
    return series


def _late_series(source: ReportSource) -> list[Figure]:
    """Return what late labels measured over intervals of the rounds that predicted their rows; none without labels."""
    intervals = divide(source, _MOST_MEASURED)
    n_late, losses = (intervals.sums(source.history.column(name)) for name in ("n_late", "late_loss"))
    is_there = n_late > 0
    if not is_there.any():
        return []
    n_late, means = n_late[is_there], losses[is_there] / n_late[is_there]
    low, high = wilson_interval(means, n_late) if source.scale.is_of_classes else (means, means)
    low, high, means = map(source.in_unit, (low, high, means))
    dots = {"kind": "dots", "name": MEASURED_LATE, "colour": "measured"}
    return [dots | _bounds(intervals.middles[is_there], low, high) | {"y": _short_numbers(means)}]


def sample_size_figure(source: ReportSource) -> Figure | None:
    """Draw how many reference rows carry the weight, over time."""
    if not len(source.history):
        return None
    intervals = divide(source, _MOST_SIZES)
    sizes = intervals.means(source.history.column("effective_sample_size"))
    series = _line("reference rows that carry the weight", "adapted", intervals.middles, sizes) | {"filled": True}
    return _over_time(source, [series], "rows", "Effective sample size over time")


def lengths_figure(source: ReportSource) -> Figure | None:
    """Draw which interval lengths carry the weight, over time: the paper's heat map."""
    weights = source.history.length_weights
    if not len(weights) or not weights.any():
        return None
    intervals = divide(source, _MOST_CELLS)
    used = np.flatnonzero(weights.any(axis=0))
    bins = range(int(used[0]), int(used[-1]) + 1)
    cells = np.array([intervals.means(weights[:, number]) for number in bins])
    return {
        "kind": "heat",
        "label": "Weight of the learners by the length of their history, over time",
        "x": axis_of(source),
        "y": {"title": "rounds of history"},
        "edges": _rounded_places(intervals),
        "rows": [f"{2**number:,}" for number in bins],
        "cells": np.round(cells, 3).tolist(),
    }


def moved_columns(source: ReportSource) -> list[tuple[str, float]]:
    """Return the columns that fit into the drift chart, with their shares; columns with no share are left out."""
    return [(name, share) for name, share in source.column_shares() if share > 0.0][:_MOST_COLUMNS]


def moved_figure(source: ReportSource) -> Figure | None:
    """Draw which columns carry the drift."""
    shares = moved_columns(source)
    if not shares:
        return None
    values = [round(share, 4) for _, share in shares]
    return {
        "kind": "bars",
        "names": [_short(name) for name, _ in shares],
        "series": [{"kind": "bars", "name": "share of the drift", "colour": "adapted", "values": values}],
    }


def weights_figure(source: ReportSource) -> Figure | None:
    """Draw how the weights are distributed over the reference."""
    if source.snapshot.state.n_rounds == 0:
        return None
    weights = source.snapshot.state.weights
    edges = np.array([0.0, *(2.0**power for power in range(-6, 8)), np.inf])
    counts, _ = np.histogram(weights / weights.mean(), edges)
    sums, _ = np.histogram(weights, edges * weights.mean(), weights=weights)
    names = ["below 1/64", *(_between(power) for power in range(-6, 7)), "above 128"]
    used = np.flatnonzero(counts)
    shown = range(int(used[0]), int(used[-1]) + 1)
    bars = (
        ("share of the reference rows", "event", counts / counts.sum()),
        ("share of the weight", "adapted", sums / sums.sum()),
    )
    return {
        "kind": "bars",
        "names": [names[number] for number in shown],
        "series": [
            {"kind": "bars", "name": name, "colour": colour, "values": _short_numbers(values[list(shown)])}
            for name, colour, values in bars
        ],
    }


def _over_time(
    source: ReportSource, series: list[Figure], title: str, label: str, *, is_percent: bool = False
) -> Figure:
    events = [event.round for event in source.events]
    return {
        "kind": "lines",
        "label": label,
        "x": axis_of(source),
        "y": {"title": title, "percent": is_percent},
        "series": series,
        "events": place_of_rounds(source, events),
    }


def _line(name: str, colour: str, x: FloatArray, y: FloatArray) -> Figure:
    return {"kind": "line", "name": name, "colour": colour, "x": np.round(x, 1).tolist(), "y": _short_numbers(y)}


def _bounds(x: FloatArray, low: FloatArray, high: FloatArray) -> Figure:
    return {"x": np.round(x, 1).tolist(), "low": _short_numbers(low), "high": _short_numbers(high)}


def _rounded_places(intervals: Intervals) -> list[float]:
    return np.round(intervals.edges, 1).tolist()


def _short_numbers(values: FloatArray) -> list[float]:
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    return np.round(values, max(0, 5 - int(np.log10(largest)))).tolist()


def _between(power: int) -> str:
    low, high = (f"{2**each}" if each >= 0 else f"1/{2**-each}" for each in (power, power + 1))
    return f"{low} to {high}"


def _short(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:29]}..."
