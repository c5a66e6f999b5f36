"""``accous status``: how good a model is now, whether that is worse than at fit, and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli.options import results_console, say
from accous.table.options import AsJson, ModelFolder, NamedEstimator
from accous.text import count, require_choice

if TYPE_CHECKING:
    from accous.diagnostics.metrics import Metric
    from accous.diagnostics.performance import Estimate
    from accous.table.model import TableSnapshot

__all__ = ["EXAMPLES", "status", "status_line"]

EXAMPLES = """
Examples:

`accous status model/`

`accous status model/ --metric roc_auc,recall --by country`

`accous status model/ --json | jq .state`

`accous status model/ --fail-if degraded --fail-if alarm || page-someone`
"""
FAILED = 3
_CONDITIONS = ("degraded", "alarm")
_MOST_COLUMNS, _MOST_SEGMENTS = 5, 12
_Metric = Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="Further metrics, such as roc_auc,recall.")]
_By = Annotated[str | None, typer.Option(metavar="COL", help="Show segments by this column, the worst first.")]
_FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="degraded|alarm", help="End with exit code 3 if the model is degraded, or if the alarm is on."
    ),
]


def status(
    model: ModelFolder,
    metric: _Metric = None,
    by: _By = None,
    fail_if: _FailIf = None,
    estimator: NamedEstimator = None,
    as_json: AsJson = False,
) -> int:
    """Show how good a model is now: its state, its metric beside that at fit, what moved, and what to do."""
    conditions = [require_choice("--fail-if", each, _CONDITIONS) for each in fail_if or []]
    from accous.table.model import load_table_model

    snapshot, metrics = load_table_model(model, estimator).snapshot(), _names(metric)
    found = snapshot.to_json(metrics, by)
    found["advice"]["command"] = snapshot.command(str(model))
    if as_json:
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
    else:
        _print(snapshot, found, metrics, by)
    is_so = {"degraded": found["state"] == "degraded", "alarm": found["alarm"]}
    return FAILED if any(is_so[each] for each in conditions) else 0


def _names(values: list[str] | None) -> list[str]:
    return [name for value in values or [] for name in value.split(",") if name]


# --- One line: state and metric


def status_line(snapshot: TableSnapshot) -> str:
    """Return the state, the metric with its interval, what it rests on, and its value at fit."""
    metric, now, state = snapshot.rules.measures.metric, snapshot.performance(), snapshot.status.state
    if state is None:
        return f"No rows yet: {_name(metric)} {_shown(metric, now.at_fit)} at fit."
    if math.isnan(now.value):
        return f"{state.capitalize()}: the {_name(metric)} is not known."
    return f"{state.capitalize()}: {_name(metric)} {_interval(metric, now)}, {_basis(snapshot, now)}."


def _name(metric: Metric) -> str:
    return metric.name.replace("_", " ") if metric.is_of_numbers or metric.kind.endswith("error") else metric.name


def _shown(metric: Metric, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    if metric.is_share:
        return f"{value:.3f}" if metric.higher_is_better else f"{value:.1%}"
    return f"{value:.4g}"


def _interval(metric: Metric, now: Estimate) -> str:
    value, low, high, before = (_shown(metric, each) for each in (now.value, now.low, now.high, now.at_fit))
    return f"{value} ({low} to {high}), at fit {before}"


def _basis(snapshot: TableSnapshot, now: Estimate) -> str:
    """Say what an estimate rests on, and how long ago labels came."""
    if now.basis == "labels":
        return f"by {count(now.n_labels, 'label')}"
    labelled = snapshot.state.labelled
    since = ""
    if labelled is not None:
        since = f"; the last label came {count(int(snapshot.state.n_rows - labelled.arrived[-1]), 'row')} ago"
    return f"expected if labels still follow from inputs as they did{since}"


# --- One screen


def _print(snapshot: TableSnapshot, found: dict[str, Any], metrics: list[str], by: str | None) -> None:
    console = results_console()
    alarm = f" Alarm since round {found['alarm_since']:,}." if found["alarm"] else ""
    reason = [] if snapshot.is_empty else [found["reasons"][0]["text"]]
    say(console, f"{status_line(snapshot)}{alarm}", *reason)
    read = snapshot.rules.measures.read
    if metrics:
        rows = [(name, *_numbers(read(name), found["metrics"][name])) for name in metrics]
        console.print(_table("Metrics", ("metric", "now", "interval", "at fit"), rows))
    if by is not None:
        own = read(None)
        rows = [(each["segment"], *_numbers(own, each)) for each in found["segments"][:_MOST_SEGMENTS]]
        console.print(_table(f"{own.name} by {by}", (by, "now", "interval", "at fit"), rows))
    moved = found["drift"]["columns"][:_MOST_COLUMNS]
    if moved:
        values = [(each["name"], _value(each["then"]), _value(each["now"])) for each in moved]
        console.print(_table("What moved", ("column", "then", "now"), values))
    advice = found["advice"]
    say(console, advice["text"] + (f" {advice['command']}" if advice["command"] else ""))


def _numbers(metric: Metric, one: dict[str, Any]) -> tuple[str, str, str]:
    value, low, high, before = (_shown(metric, one[name]) for name in ("value", "low", "high", "at_fit"))
    return value, f"{low} to {high}", before


def _value(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}"


def _table(title: str, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, title=title)
    for row in rows:
        table.add_row(*(Text(each) for each in row))
    return table
