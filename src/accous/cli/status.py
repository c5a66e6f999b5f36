"""``accous status`` and ``accous report``: how good a model is now, compared with the fit, and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli.options import remarks_console, require_no_batches_left, results_console, say
from accous.exceptions import DataError, ParameterError
from accous.table.options import AsJson, Force, ModelFolder, NamedEstimator, Quiet
from accous.text import count, require_choice

if TYPE_CHECKING:
    from accous.diagnostics.metrics import Metric
    from accous.diagnostics.performance import Estimate
    from accous.table.snapshot import TableSnapshot

EXAMPLES = """
Examples:

`accous status model/`

`accous status model/ --metric roc_auc,recall --by country`

`accous status model/ --json | jq .state`

`accous status model/ --fail-if degraded --fail-if alarm || page-someone`
"""
FAILED = 3
_CONDITIONS = ("degraded", "alarm")
_MOST_REASONS, _MOST_COLUMNS, _MOST_SEGMENTS = 4, 5, 12
_Metric = Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="Further metrics, such as roc_auc,recall.")]
_By = Annotated[str | None, typer.Option(metavar="COL", help="Show segments by this column, the worst first.")]
_FailIf = Annotated[
    list[str] | None,
    typer.Option(metavar="degraded|alarm", help="Exit with code 3 if the model is degraded, or if the alarm is on."),
]


def status(
    model: ModelFolder,
    metric: _Metric = None,
    by: _By = None,
    fail_if: _FailIf = None,
    estimator: NamedEstimator = None,
    as_json: AsJson = False,
) -> int:
    """Show how good a model is now: its state, its metric now and at fit, what moved, and what to do."""
    conditions = [require_choice("--fail-if", each, _CONDITIONS) for each in fail_if or []]
    from accous.table.model import load_table_model

    require_no_batches_left(model, may_be_served=True)
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
        return f"No rows yet: {metric.in_words} {metric.shown(now.at_fit)} at fit."
    if math.isnan(now.value):
        return f"{state.capitalize()}: the {metric.in_words} is not known."
    value = f"{metric.shown(now.value)} ({metric.between(now.low, now.high)}), at fit {metric.shown(now.at_fit)}"
    return f"{state.capitalize()}: {metric.in_words} {value}, {_basis(snapshot, now)}."


def _basis(snapshot: TableSnapshot, now: Estimate) -> str:
    """Say what an estimate rests on, and how long ago labels came."""
    if now.basis == "labels":
        return f"by {count(now.n_labels, 'label')}"
    labelled = snapshot.state.labelled
    since = ""
    if labelled is not None:
        since = f"; the last label came {count(int(snapshot.state.n_rows - labelled.arrived.max()), 'row')} ago"
    return f"expected if labels still follow from inputs as they did{since}"


# --- One screen


def _print(snapshot: TableSnapshot, found: dict[str, Any], metrics: list[str], by: str | None) -> None:
    console = results_console()
    alarm = f" Alarm since round {found['alarm_since']:,}." if found["alarm"] else ""
    reasons = [] if snapshot.is_empty else [each["text"] for each in found["reasons"][:_MOST_REASONS]]
    say(console, f"{status_line(snapshot)}{alarm}", *reasons)
    read = snapshot.rules.measures.read
    if metrics:
        rows = [(name, *_numbers(read(name), found["metrics"][name])) for name in metrics]
        console.print(_table("Metrics", ("metric", "now", "interval", "at fit"), rows))
    if by is not None:
        own = read(None)
        rows = [(each["segment"], *_numbers(own, each)) for each in found["segments"][:_MOST_SEGMENTS]]
        n_more = len(found["segments"]) - len(rows)
        title = f"{own.name} by {by}" + (f", the worst {len(rows)} of {len(found['segments'])}" if n_more else "")
        console.print(_table(title, (by, "now", "interval", "at fit"), rows))
    moved = found["drift"]["columns"][:_MOST_COLUMNS]
    if moved:
        values = [(each["name"], _value(each["then"]), _value(each["now"])) for each in moved]
        console.print(_table("What moved", ("column", "then", "now"), values))
    advice = found["advice"]
    say(console, advice["text"], *([f"  {advice['command']}"] if advice["command"] else []))


def _numbers(metric: Metric, one: dict[str, Any]) -> tuple[str, str, str]:
    return metric.shown(one["value"]), metric.between(one["low"], one["high"]) or "-", metric.shown(one["at_fit"])


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


# --- accous report


REPORT_EXAMPLES = """
Examples:

`accous report model/ -o report.html`

`accous report model/ -o report.html --by country --force --quiet && xdg-open report.html`
"""
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="An .html file.")]


def report(
    model: ModelFolder,
    output: _Output = Path("report.html"),
    by: _By = None,
    estimator: NamedEstimator = None,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Write an HTML report that opens offline: how good the model is now, what moved, what to do."""
    require_html(output)
    if output.exists() and not force:
        raise DataError(f"{output} already exists: give another name, or use --force to replace it.")
    from accous.report.figures import headline, report_source
    from accous.report.page import render_page
    from accous.table.model import load_table_model
    from accous.table.runs import require_separate_files

    require_separate_files({}, {"--output": str(output)}, model)
    require_no_batches_left(model, may_be_served=True)
    remarks = remarks_console(quiet=quiet)
    with remarks.status("Writing the report"):
        source = report_source(load_table_model(model, estimator).snapshot(), str(model), by=by)
        write_page(output, render_page(source))
    say(remarks, f"{headline(source)}. Report: {output}")
    return 0


def require_html(output: Path) -> None:
    """Raise a ParameterError unless the name of the report ends in .html."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"The name of the report must end in .html, got {str(output)!r}.")


def write_page(output: Path, page: str) -> None:
    """Write a page; if that fails, an older one stays intact."""
    from accous.checkpoint.files import write_atomically

    try:
        # Braces in a name would be taken for a place to fill in.
        name = output.name.replace("{", "{{").replace("}", "}}")
        write_atomically(output.parent, lambda stream: stream.write(page.encode()), name=name)
    except OSError as error:
        raise DataError(f"The report could not be written to {output}: {error.strerror or error}.") from None
