"""What the charts of the report show, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from accous.arrays import FloatArray
from accous.diagnostics.metrics import Metric
from accous.diagnostics.performance import LEVEL, Estimate
from accous.model.performance import MovedColumn
from accous.model.snapshot import Snapshot
from accous.table.columns import NumberColumn, summarize
from accous.table.history import BASES, History
from accous.table.kinds import form_of, predictors_in_words, scale_of
from accous.table.snapshot import TableSnapshot
from accous.text import count

# --- What a report is about, and how it writes numbers; its findings have the texts of
#     accous.diagnostics.status


# --- The source of a report: a model and its history, read once


@dataclass(frozen=True)
class ReportSource:
    """What a report is about.

    Attributes
    ----------
    name : str
        Name of the model.
    snapshot : Snapshot
        That of a table model speaks of the table's own columns.
    history : History
    settings : dict of str to str
        Rows of the settings table.
    preparation : list of (column, kind, what is done)
        Rows of the table of columns.
    by : str, optional
        The column to show segments by.
    """

    name: str
    snapshot: Snapshot
    history: History
    settings: dict[str, str] = field(default_factory=dict)
    preparation: list[tuple[str, str, str]] = field(default_factory=list)
    by: str | None = None

    @property
    def table(self) -> TableSnapshot | None:
        """The snapshot if it is that of a table."""
        return self.snapshot if isinstance(self.snapshot, TableSnapshot) else None

    @property
    def title(self) -> str:
        """The label column of a table, or else the model's name."""
        return self.name if self.table is None else self.table.label

    @property
    def metric(self) -> Metric:
        """The metric that state and report lead with."""
        return self.snapshot.rules.measures.metric

    @property
    def unit(self) -> str:
        """What numbers are measured in: the label column; empty for shares and scores."""
        return self.table.label if self.metric.is_of_numbers and self.table is not None else ""

    @property
    def now(self) -> Estimate:
        """The metric on recent rows."""
        found: Estimate = self.snapshot.performance()
        return found

    @property
    def limit(self) -> float | None:
        """The value beyond which the model is worse than is tolerated; None if there is not one such value."""
        at_fit, tolerance = self.now.at_fit, self.snapshot.tolerance
        if math.isnan(at_fit + tolerance) or self.metric.kind == "bias":
            return None
        return at_fit - tolerance if self.metric.higher_is_better else at_fit + tolerance

    @property
    def is_empty(self) -> bool:
        """Whether neither rows nor labels have come: then there is nothing to judge."""
        return self.snapshot.is_empty

    @cached_property
    def said(self) -> dict[str, Any]:
        """What the model says of itself, ready for JSON; advice names the folder of a table model."""
        found = self.snapshot.to_json(by=self.by)
        if self.table is not None:
            found["advice"]["command"] = self.table.command(self.name)
        return found

    @property
    def n_seasonal(self) -> int:
        """How many changes the time of the day or the week explains."""
        return 0 if self.table is None else len(self.table.seasonal_events)


def report_source(snapshot: TableSnapshot, name: str, *, by: str | None = None) -> ReportSource:
    """Return what a report on a table model is about."""
    left_out = ("reference_file", "accuracy", "largest_class", "error", "error_of_constant", "beats_constant")
    kept = {key: value for key, value in snapshot.settings.items() if value is not None and key not in left_out}
    order = kept.pop("order", {"by": None})
    settings = {"label": snapshot.label} | {key: str(value) for key, value in kept.items()}
    settings["order"] = {None: "not known", "rows": "as in the file", "time": f"by {order.get('column')}"}[order["by"]]
    if "widths" in kept:
        settings["widths"] = ", ".join(f"{name} {width}" for name, width in kept["widths"].items())
    if "predictors" in kept:
        settings["predictors"] = predictors_in_words(kept["predictors"], scale_of(snapshot.settings))
    classes = form_of(snapshot.rules.task).names
    if classes:
        settings["classes"] = ", ".join(classes[:20])
    settings["adaptation"] = snapshot.rules.guard.sentence
    if snapshot.job is not None:
        settings |= {"stream": snapshot.job.spec.stream, "predictions": snapshot.job.spec.output}
        settings |= {name: str(value) for name, value in snapshot.job.spec.options.items() if value}
        settings["bad rows set aside"] = f"{snapshot.job.n_rejected:,}"
    preparation = [(line.columns, line.kind, line.what) for line in summarize(snapshot.encoder.plans)]
    return ReportSource(name, snapshot, snapshot.past, settings, preparation, by)


# --- The headline


CONDITIONS = {
    "expected": "Expected from the inputs: this holds if labels still follow from them as they did.",
    "labels": "Confirmed by labels of recent rows.",
}
NO_ROWS = "No rows or labels have come yet."


def tolerated_in_words(source: ReportSource) -> str:
    """Return which values are tolerated; empty if there is not one limit."""
    if source.limit is None:
        return ""
    side = "from" if source.metric.higher_is_better else "up to"
    return f"tolerated {side} {source.metric.shown(source.limit, source.unit)}"


def headline(source: ReportSource) -> str:
    """Return state and metric in one line."""
    metric, now, state = source.metric, source.now, source.snapshot.status.state
    if state is None:
        return f"No rows yet: {metric.in_words} {metric.shown(now.at_fit, source.unit)} at fit"
    basis = "expected" if now.basis == "expected" else "by labels"
    return f"{state.capitalize()}: {metric.in_words} {metric.shown(now.value, source.unit)} {basis}"


def headline_notes(source: ReportSource) -> list[str]:
    """Return what belongs to the headline: its interval and the value at fit, its condition, and when labels came."""
    now, metric, unit = source.now, source.metric, source.unit
    if source.is_empty:
        return [NO_ROWS]
    parts = [f"at fit {metric.shown(now.at_fit, unit)}", *filter(None, [tolerated_in_words(source)])]
    if not math.isnan(now.low):
        parts.insert(0, f"{LEVEL:.0%} interval {metric.between(now.low, now.high, unit)}")
    numbers, state = "; ".join(parts), source.snapshot.state
    came = []
    if now.basis == "expected" and state.labelled is not None and len(state.labelled):
        came = [f"Labels last came {count(int(state.n_rows - state.labelled.arrived.max()), 'row')} ago."]
    return [f"{numbers[0].upper()}{numbers[1:]}.", " ".join((CONDITIONS[now.basis], *came))]


# --- What the charts of the report show, as data


# --- Intervals of the history for the charts: their place on the axis, and means over them


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

    def means(self, values: FloatArray) -> FloatArray:
        """Mean over the points of each interval that have a value; NaN where there is none."""
        is_there = ~np.isnan(values)
        n_there = np.add.reduceat(is_there.astype(np.int64), self.starts)
        total = np.add.reduceat(np.where(is_there, values, 0.0), self.starts)
        return np.where(n_there > 0, total / np.maximum(n_there, 1), np.nan)


def divide(source: ReportSource, n_most: int) -> Intervals:
    """Divide the history into at most so many intervals of equal numbers of points; the last may be shorter."""
    n_points = len(source.history)
    size = -(-n_points // n_most)
    starts = np.arange(0, n_points, size, dtype=np.int64)
    ends = np.append(starts[1:], n_points)
    return Intervals(starts, _rounded_places(source)[np.append(0, ends)])


def axis_of(source: ReportSource) -> dict[str, Any]:
    """Return the chart's horizontal axis: dates if the history has them, else rounds."""
    places = _rounded_places(source)
    has_dates = _has_dates(source)
    title = "date of the rows" if has_dates else "round"
    return {"kind": "time" if has_dates else "round", "title": title, "range": [float(places[0]), float(places[-1])]}


def place_of_rounds(source: ReportSource, rounds: list[int]) -> list[float]:
    """Return where rounds are on the axis."""
    ends = np.append(0, source.history.rounds)
    return [round(float(place), 1) for place in np.interp(rounds, ends, _rounded_places(source))]


def date_of_round(source: ReportSource, number: int) -> str:
    """Return about when a round was; empty if the history has no dates."""
    if not _has_dates(source):
        return ""
    places = _rounded_places(source)
    form = "%Y-%m-%d" if places[-1] - places[0] > _MANY_DAYS else "%Y-%m-%d %H:%M"
    return datetime.fromtimestamp(place_of_rounds(source, [number])[0], UTC).strftime(form)


def _has_dates(source: ReportSource) -> bool:
    """Whether all points have a time, and time never runs backwards."""
    times = source.history.column("time")
    return bool(len(times) > 1 and np.isfinite(times).all() and (np.diff(times) >= 0.0).all() and times[-1] > times[0])


def _rounded_places(source: ReportSource) -> FloatArray:
    """Return where the history begins and where each point ends."""
    if not _has_dates(source):
        return np.append(0, source.history.rounds).astype(np.float64)
    times = source.history.column("time")
    # The first point began about as long before its end as the second one lasted.
    return np.append(2.0 * times[0] - times[1], times)


# --- The metric over time, as a plain dict that assets/charts.js draws; the style sheet sets its colours


Figure = dict[str, Any]


_MOST_POINTS, _MOST_DOTS, _MOST_EVENTS = 64, 40, 40
_LABELS_OF_POINT = 30
_ROOM = 0.08  # of the height of a chart, above and below what it shows


def performance_figure(source: ReportSource) -> Figure | None:
    """Draw the metric over time: what was expected as a line, what labels confirmed as points with intervals.

    Where nothing was read there is neither. None if nothing was read at all.
    """
    if not len(source.history):
        return None
    line, dots = _expected_line(source), _errors_of_labels(source) or _confirmed_dots(source)
    series = [one for one in (line, dots) if one["x"]]
    if not series:
        return None
    levels, name = _levels(source), source.metric.in_words
    shown = [each for one in series for part in ("y", "low", "high") for each in one.get(part, ()) if each is not None]
    return {
        "kind": "lines",
        "label": f"{name} over time",
        "x": axis_of(source),
        "y": {
            "title": f"{name}, in units of {source.unit}" if source.unit else name,
            "percent": source.metric.is_share and not source.metric.higher_is_better,
            "range": _range([*shown, *(each["y"] for each in levels)], is_share=source.metric.is_share),
        },
        "series": series,
        "levels": levels,
        "events": place_of_rounds(source, [each.round for each in source.snapshot.drift.events[-_MOST_EVENTS:]]),
    }


def _readings(source: ReportSource, basis: str) -> tuple[FloatArray, FloatArray]:
    """Return places and value, low and high there where the metric had this basis; the chart ends with those of now."""
    intervals, now, column = divide(source, _MOST_POINTS), source.now, source.history.column
    is_of = column("basis") == BASES.index(basis)
    found = []
    for name in ("value", "low", "high"):
        means = intervals.means(np.where(is_of, column(name), np.nan))
        found.append(np.append(means, getattr(now, name) if now.basis == basis else np.nan))
    return np.append(intervals.middles, intervals.edges[-1]), np.array(found)


def _expected_line(source: ReportSource) -> Figure:
    """Return a line with gaps, as None, where labels spoke; rounds of which nothing was read leave none."""
    x, (expected, _, _) = _readings(source, "expected")
    _, (confirmed, _, _) = _readings(source, "labels")
    is_read = ~(np.isnan(expected) & np.isnan(confirmed))
    known = np.flatnonzero(~np.isnan(expected[is_read]))
    inside = slice(known[0], known[-1] + 1) if len(known) else slice(0)
    values = [None if np.isnan(each) else each for each in _short(expected[is_read][inside])]
    name = "expected from inputs"
    return {"kind": "line", "name": name, "colour": "adapted", "x": _short(x[is_read][inside]), "y": values}


def _confirmed_dots(source: ReportSource) -> Figure:
    """Return what labels said of the rows that were recent when the metric was read."""
    x, found = _readings(source, "labels")
    has = ~np.isnan(found[0])
    return _dots(x[has], *found[:, has])


def _errors_of_labels(source: ReportSource) -> Figure | None:
    """Return the errors that labels counted in the rounds of their rows, also those that came late.

    None without labels, and for other metrics, of which no sums are kept.
    """
    column = source.history.column
    n_labels, n_wrong = column("n_scored") + column("n_late"), column("n_wrong") + column("late_loss")
    if source.metric.name != "error" or not n_labels.any():
        return None
    intervals = divide(source, int(np.clip(n_labels.sum() // _LABELS_OF_POINT, 1, _MOST_DOTS)))
    n_labels, n_wrong = (np.add.reduceat(each, intervals.starts) for each in (n_labels, n_wrong))
    x, n_labels, n_wrong = (each[n_labels > 0] for each in (intervals.middles, n_labels, n_wrong))
    found = [binomtest(int(k), int(n)) for k, n in zip(n_wrong, n_labels, strict=True)]
    ends = np.array([each.proportion_ci(LEVEL, "wilson") for each in found])
    return _dots(x, n_wrong / n_labels, ends[:, 0], ends[:, 1])


def _dots(x: FloatArray, y: FloatArray, low: FloatArray, high: FloatArray) -> Figure:
    places = {"x": _short(x), "y": _short(y), "low": _short(low), "high": _short(high)}
    return {"kind": "dots", "name": f"by labels, {LEVEL:.0%} interval", "colour": "measured"} | places


def _levels(source: ReportSource) -> list[Figure]:
    """Return the value at fit, and the one up to which the model may be worse."""
    found = {"at fit": ("fit", source.now.at_fit), "tolerated up to here": ("limit", source.limit)}
    return [
        {"name": name, "colour": colour, "y": value}
        for name, (colour, value) in found.items()
        if value is not None and not np.isnan(value)
    ]


def _range(values: list[float], *, is_share: bool) -> list[float]:
    """Return the ends of the vertical axis, which starts at 0 if that leaves no large empty space."""
    low, high = min(values), max(values)
    if low < 0.0 or low > 0.5 * high:
        room = _ROOM * ((high - low) or abs(high) or 1.0)
        low, high = (max(0.0, low - room) if low >= 0.0 else low - room), high + room
    else:
        low, high = 0.0, high * (1.0 + _ROOM) or 1.0
    return [low, min(1.0, high) if is_share else high]


def _short(values: FloatArray) -> list[float]:
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
    return np.round(values, max(0, 5 - int(np.log10(largest)))).tolist()


# --- Then and now: how the columns that moved are distributed in the reference and in recent rows


_MOST_COLUMNS, _MOST_BARS, _N_BINS = 6, 5, 20
_TINY = 1e-9
_OTHERS, _MISSING = "others", "missing"
_RARE = ("(other)", "other")  # what a table calls categories that share a feature, or have none


def moved_figures(source: ReportSource) -> list[Figure]:
    """Return the distributions of the columns that moved most, the one that moved most first."""
    found: list[Figure] = []
    for column in source.snapshot.drift.columns:
        values = _then_and_now(source, column.name)
        if values is not None and len(found) < _MOST_COLUMNS:
            found.append(_distribution(column, *values))
    return found


def _then_and_now(source: ReportSource, name: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return a column in the reference and in recent rows; None if its values cannot be told from its features."""
    rules, recent, table = source.snapshot.rules, source.snapshot.state.recent.last(), source.table
    reference = rules.cover.numbers if rules.cover.has_columns else None
    if reference is None or recent is None:
        return None
    if table is None:
        place = rules.names.index(name)
        return reference[:, place], recent[:, place]
    column = table.decoded.get(name)
    if column is None:
        return None
    then, now = column.values(reference), column.values(recent)
    if isinstance(column.plan, NumberColumn) and column.plan.marks_missing:
        then, now = (
            np.where(rows[:, column.first + 1] > 0.5, np.nan, each) for rows, each in ((reference, then), (recent, now))
        )
    return then, now


def _distribution(column: MovedColumn, then: NDArray[Any], now: NDArray[Any]) -> Figure:
    figure = {"kind": "spread", "name": column.name, "share": round(column.share, 4), "n": [len(then), len(now)]}
    if then.dtype.kind == "f" and len(np.unique(np.concatenate((then, now)))) > _MOST_BARS:
        return figure | _histogram(then, now)
    return figure | _bars(*(_texts(each) for each in (then, now)))


def _histogram(then: FloatArray, now: FloatArray) -> Figure:
    """Return shares of equal bins between the quantiles of 1 and 99 %; what lies beyond counts at the ends."""
    pooled = np.concatenate((then, now))
    low, high = np.nanquantile(pooled, (0.01, 0.99))
    whole = np.array_equal(pooled, np.round(pooled), equal_nan=True) and high - low < _N_BINS
    if whole:
        edges = np.arange(low - 0.5, high + 1.0)
    else:
        edges = np.linspace(low, high if high > low else low + 1.0, _N_BINS + 1)
    shares = []
    for values in (then, now):
        is_there = ~np.isnan(values)
        counts, _ = np.histogram(np.clip(values[is_there], edges[0], edges[-1]), edges)
        shares.append(_short(counts / max(1, len(values))))
    means = [_or_none(float(np.nanmean(each))) if (~np.isnan(each)).any() else None for each in (then, now)]
    missing = [round(float(np.isnan(each).mean()), 4) for each in (then, now)]
    return {
        "edges": _short(edges),
        "isWhole": bool(whole),
        "then": shares[0],
        "now": shares[1],
        "means": means,
        "missing": missing,
    }


def _or_none(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _bars(then: list[str], now: list[str]) -> Figure:
    """Return shares of the most frequent categories, in the order of the reference; all others are the last bar."""
    names = sorted({*then, *now} - {_OTHERS})
    shares = np.array([[each.count(name) / max(1, len(each)) for name in names] for each in (then, now)])
    n_kept = len(names) if len(names) <= _MOST_BARS else _MOST_BARS - 1
    kept = np.argsort(-shares.max(axis=0), kind="stable")[:n_kept]
    kept = kept[np.argsort(-shares[0, kept], kind="stable")]
    labels, values = [names[place] for place in kept], shares[:, kept]
    others = 1.0 - values.sum(axis=1)
    if others.max() > _TINY:
        labels, values = [*labels, _OTHERS], np.column_stack((values, np.maximum(0.0, others)))
    return {"names": labels, "then": _short(values[0]), "now": _short(values[1])}


def _texts(values: NDArray[Any]) -> list[str]:
    """Return values as the names of bars.

    Examples
    --------
    >>> _texts(np.array([3.5e-18, 1.0, np.nan]))
    ['0', '1', 'missing']
    """
    if values.dtype.kind != "f":
        return [_OTHERS if each in _RARE else str(each) for each in values.tolist()]
    # Rounded: values that were scaled and scaled back are not exactly what they were.
    return [_MISSING if np.isnan(each) else f"{each:.4g}" for each in _short(values)]
