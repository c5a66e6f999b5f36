"""What a report is about, and how it writes numbers; its findings have the texts of `accous.diagnostics.status`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accous.diagnostics.metrics import Metric
from accous.diagnostics.performance import LEVEL, Estimate
from accous.model.snapshot import Snapshot
from accous.table.columns import summarize
from accous.table.history import History
from accous.table.kinds import kind_of
from accous.table.model import TableSnapshot
from accous.table.summary import predictors_in_words, scale_of
from accous.text import count

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
        return not self.snapshot.state.n_rows and self.snapshot.state.labelled is None

    @cached_property
    def said(self) -> dict[str, Any]:
        """What the model says of itself, ready for JSON; advice names the folder of a table model."""
        found = self.snapshot.to_json(by=self.by)
        command = found["advice"]["command"]
        if command and self.table is not None:
            found["advice"]["command"] = command.replace("MODEL", self.name)
        return found

    @property
    def n_seasonal(self) -> int:
        """How many changes the time of the day or the week explains."""
        return 0 if self.table is None else len(self.table.seasonal_events)


def report_source(snapshot: TableSnapshot, name: str, *, by: str | None = None) -> ReportSource:
    """Return what a report on a table model is about."""
    left_out = ("reference_file", "accuracy", "largest_class", "error", "error_of_median", "error_of_constant")
    kept = {key: value for key, value in snapshot.settings.items() if value is not None and key not in left_out}
    order = kept.pop("order", {"by": None})
    settings = {"label": snapshot.label} | {key: str(value) for key, value in kept.items()}
    settings["order"] = {None: "not known", "rows": "as in the file", "time": f"by {order.get('column')}"}[order["by"]]
    if "widths" in kept:
        settings["widths"] = ", ".join(f"{name} {width}" for name, width in kept["widths"].items())
    if "predictors" in kept:
        settings["predictors"] = predictors_in_words(kept["predictors"], scale_of(snapshot.settings))
    classes = kind_of(snapshot.rules.task).names
    if classes:
        settings["classes"] = ", ".join(classes[:20])
    settings["adaptation"] = snapshot.rules.guard.sentence
    if snapshot.job is not None:
        settings |= {"stream": snapshot.job.spec.stream, "predictions": snapshot.job.spec.output}
        settings |= {name: str(value) for name, value in snapshot.job.spec.options.items() if value}
        settings["bad rows set aside"] = f"{snapshot.job.n_rejected:,}"
    preparation = [(line.columns, line.kind, line.what) for line in summarize(snapshot.encoder.plans)]
    return ReportSource(name, snapshot, snapshot.past, settings, preparation, by)


# --- Numbers and the headline


_NAMES = {"roc_auc": "AUC", "f1": "F1", "brier": "Brier score", "bias": "bias", "pinball": "pinball loss"}
CONDITIONS = {
    "expected": "Expected from the inputs: it holds if labels still follow from them as they did.",
    "labels": "Confirmed by labels of recent rows.",
}
NO_ROWS = "No rows of a stream and no labels have come so far."


def metric_in_words(metric: Metric) -> str:
    """Return the name of a metric for people.

    Examples
    --------
    >>> from accous.diagnostics.metrics import read_metric
    >>> [metric_in_words(read_metric(name, ["no", "yes"])) for name in ("roc_auc", "recall:yes", "f1_macro")]
    ['AUC', 'recall of yes', 'F1, macro average']
    """
    plain = _NAMES.get(metric.kind, metric.kind.replace("_", " "))
    _, is_of, which = metric.name.partition(":")
    if is_of:
        return f"{plain} at {which}" if metric.kind == "pinball" else f"{plain} of {which}"
    return f"{plain}, macro average" if metric.name.endswith("_macro") else plain


def shown(value: float | None, metric: Metric, unit: str = "") -> str:
    """Return a value of a metric: errors in percent, others with three digits and their unit.

    Examples
    --------
    >>> from accous.diagnostics.metrics import read_metric
    >>> shown(0.1234, read_metric("error", ["no", "yes"])), shown(12.345, read_metric("bias", None), "minutes")
    ('12.3%', '12.3 minutes')
    """
    if value is None or math.isnan(value):
        return "not defined"
    if metric.is_share:
        return f"{value:.3f}" if metric.higher_is_better else f"{value:.1%}"
    return f"{value:,.0f} {unit}".rstrip() if abs(value) >= 1000.0 else f"{value:.3g} {unit}".rstrip()


def interval_in_words(low: float | None, high: float | None, metric: Metric, unit: str = "") -> str:
    """Return an interval; empty if there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"{shown(low, metric)} to {shown(high, metric, unit)}"


def tolerated_in_words(source: ReportSource) -> str:
    """Return which values are tolerated; empty if there is not one limit."""
    if source.limit is None:
        return ""
    side = "from" if source.metric.higher_is_better else "up to"
    return f"tolerated {side} {shown(source.limit, source.metric, source.unit)}"


def headline(source: ReportSource) -> str:
    """Return state and metric in one line."""
    name, now = metric_in_words(source.metric), source.now
    if source.is_empty:
        return f"No rows yet: {name} {shown(now.at_fit, source.metric, source.unit)} at fit"
    basis = "expected" if now.basis == "expected" else "by labels"
    return f"{source.snapshot.status.state.capitalize()}: {name} {shown(now.value, source.metric, source.unit)} {basis}"


def headline_notes(source: ReportSource) -> list[str]:
    """Return what belongs to the headline: its interval and the value at fit, its condition, and when labels came."""
    now, metric, unit = source.now, source.metric, source.unit
    if source.is_empty:
        return [NO_ROWS]
    parts = [f"at fit {shown(now.at_fit, metric, unit)}", *filter(None, [tolerated_in_words(source)])]
    between = interval_in_words(now.low, now.high, metric, unit)
    if between:
        parts.insert(0, f"{LEVEL:.0%} interval {between}")
    numbers, state = "; ".join(parts), source.snapshot.state
    came = []
    if now.basis == "expected" and state.labelled is not None and len(state.labelled):
        came = [f"Labels last came {count(int(state.n_rows - state.labelled.arrived.max()), 'row')} ago."]
    return [f"{numbers[0].upper()}{numbers[1:]}.", " ".join((CONDITIONS[now.basis], *came))]
