"""``accous inspect``: what is in a model's folder, in the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli.options import columns_table, results_console
from accous.exceptions import ParameterError
from accous.table.options import AsJson, ModelFolder, NamedEstimator, Quiet
from accous.text import count

if TYPE_CHECKING:
    from accous.diagnostics.alerts import Condition
    from accous.diagnostics.scales import LossScale

__all__ = ["EXAMPLES", "inspect"]

EXAMPLES = """
Examples:

`accous inspect model/`

`accous inspect model/ --json | jq .rounds`

`accous inspect model/ --fail-if "predictions == no" || page-someone`

`accous inspect model/ --fail-if "error > 20%" --fail-if drift`
"""
ALERT_EXIT_CODE = 3
_QUESTIONS = {"inputs": "inputs covered?", "adaptation": "adaptation better?", "predictions": "estimate believable?"}
_OFF = "far from the estimate, though the intervals of both overlap"
_ALARMED = "the predictions with the labels given last were far worse than estimated"
_OUTSIDE = "outside the interval of the estimate, which is too wide to be shown, so rely on this"
_NO_ESTIMATE = "the estimate is too wide to be shown, so rely on this"
_NOT_COVERED = "far from what the reference makes likely, which does not cover the inputs, so rely on this"
_CONTRADICTED_BY = {
    "labels": "labels contradict the error estimated without them, so rely on the measured one",
    "the backtest": "the backtest contradicts the estimated error, so rely on no estimate before labels arrive",
}
_SINGLE_EQUAL = re.compile(r"(?<![=<>!])=(?![=<>])")
_MOST_LENGTHS, _LEAST_WEIGHT = 3, 0.005
_FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="CONDITION",
        help="End with exit code 3 if this holds, such as 'predictions == no' or drift.",
    ),
]


def inspect(
    model: ModelFolder,
    fail_if: _FailIf = None,
    estimator: NamedEstimator = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Show what a model has learned so far, and the progress of its last run.

    With `--fail-if`, print one line of JSON for each condition that holds instead, and end with exit code 3 if there is
    one. You can give the option several times.
    """
    from accous.checkpoint.files import expecting_own_content
    from accous.diagnostics.alerts import parse_condition

    for text in fail_if or []:
        if _SINGLE_EQUAL.search(text):
            raise ParameterError(f"--fail-if {text!r}: a single = compares nothing, use ==.")
    conditions = [parse_condition(text) for text in fail_if or []]
    with expecting_own_content(model):
        return _show(_summary(model, estimator), conditions, model, quiet=quiet, as_json=as_json)


def _show(summary: dict[str, Any], conditions: list[Condition], model: Path, *, quiet: bool, as_json: bool) -> int:
    """Print a summary, or which conditions hold, and return the exit code."""
    state = summary["state"]
    alerts = [condition.alert(state) for condition in conditions if condition.check(state)]
    found = [{"alert": each.alert, "value": each.value, "model": str(model)} | each.to_json() for each in alerts]
    if as_json:
        shown = {**state, "alerts": found} if conditions else state
        typer.echo(json.dumps(shown, indent=2, allow_nan=False))
    elif conditions:
        for line in found:
            typer.echo(json.dumps(line, allow_nan=False))
    else:
        _print(summary, is_brief=quiet)
    if not quiet:
        for condition in conditions:
            if condition.check(state) is None:
                typer.echo(f"Not known, so not an alert: {condition.text}", err=True)
    return ALERT_EXIT_CODE if alerts else 0


def _summary(model: Path, estimator: str | None) -> dict[str, Any]:
    """Return what the last save wrote, or compute it from the model."""
    from accous.table.summary import read_table_model_summary

    summary = read_table_model_summary(model)
    if summary is None:
        from accous.table.model import load_table_model
        from accous.table.summary import summarize_table_model

        summary = summarize_table_model(load_table_model(model, estimator).snapshot())
    return summary


def _print(summary: dict[str, Any], *, is_brief: bool) -> None:
    from rich.console import Group
    from rich.table import Table

    console = results_console()
    table = Table(show_header=False, title="State")
    for name, value in _lines(summary["state"]):
        # Only lines that are ours are lines.
        table.add_row(name, value if isinstance(value, str) else Group(*value))
    console.print(table)
    if not is_brief:
        console.print(columns_table(summary["columns"]))


def _lines(record: dict[str, Any]) -> list[tuple[str, str | list[str]]]:
    joined = record["joined_rows"]
    later = f" after {joined:,} joined" if joined else ""
    lines: list[tuple[str, str | list[str]]] = [
        (
            "reference",
            f"{record['reference']}, {count(record['reference_rows'], 'row')}{later}, label {record['label']}",
        ),
        *([("classes", ", ".join(record["classes"]))] if record["classes"] else []),
        ("ratio", record["ratio"]),
        _on_reference(record, later),
        ("rounds", f"{record['rounds']:,}, {count(record['refits'], 'refit')}"),
        (f"estimated {_scale(record).name} now", _estimate(record)),
        *_measured(record),
        *_intervals(record),
        (
            "effective sample size",
            f"{record['effective_sample_size']:,.0f} of {record['reference_rows']:,} reference rows",
        ),
        ("verdict", _verdict(record)),
        *(
            (question, f"{record[f'trust_{name}']}. {record['sentences'][name]}")
            for name, question in _QUESTIONS.items()
        ),
        ("rows beyond the ratio's bound", f"{record['out_of_reference_rows']:,} so far"),
    ]
    if record["findings"]:
        lines.append(("not known to the reference", record["findings"]))
    if record["regimes"]:
        lines.append(("regimes", _regimes(record["regimes"])))
    if record["weight_of_interval_length"]:
        lines.append(("history in use", _main_lengths(record["weight_of_interval_length"])))
    run = record["last_run"]
    if run is not None:
        state = "finished" if run["finished"] else "unfinished"
        done = f"{count(run['rows'], 'row')}, {count(run['rounds'], 'round')}"
        lines.append(("last run", f"{run['stream']} to {run['output']}, {state}: {done}"))
        if run["labelled_rows"]:
            shown = _scale(record).shown
            text = f"fixed model {shown(run['error_fixed'])}, accous {shown(run['error'])}"
            lines.append((f"{_scale(record).name} of the last run", text))
    return lines


def _regimes(regimes: list[dict[str, Any]]) -> str:
    """Return how many regimes are remembered, and since when one of them is in force."""
    n_visits = sum(len(regime["visits"]) for regime in regimes)
    known = f"{len(regimes)} remembered, {count(n_visits, 'visit')}"
    for number, regime in enumerate(regimes, start=1):
        if regime["current"]:
            apart = f", differs in {', '.join(regime['columns'])}" if regime["columns"] else ""
            return f"{known}; number {number} in force since round {regime['visits'][-1][0]:,}{apart}"
    return f"{known}; none of them in force"


def _main_lengths(weights: dict[str, float]) -> str:
    """Return the lengths of history that carry most of the weight, at most three, largest share first."""
    leading = sorted(weights.items(), key=lambda item: -item[1])[:_MOST_LENGTHS]
    shown = [f"{count(int(length), 'round')} ({weight:.0%})" for length, weight in leading if weight >= _LEAST_WEIGHT]
    return ("mainly " if len(shown) < len(weights) else "") + ", ".join(shown)


def _verdict(record: dict[str, Any]) -> str:
    """Return the verdict as the report does, and by what the estimate is contradicted: "no overlap" would hide that."""
    from accous.diagnostics.messages import verdict_in_words

    by = record["contradicted_by"]
    shown = verdict_in_words(record["trust"], {name: record[f"trust_{name}"] for name in _QUESTIONS})
    link = ": " if record["trust"] == "contradicted" else ", and "
    return f"{record['trust']}{link}{_CONTRADICTED_BY[by]}" if by else shown


def _estimate(record: dict[str, Any]) -> str:
    """Return the label-free error in words, or why it is not known."""
    from accous.diagnostics.messages import NOT_COVERED, unknown_in_words

    error, low, high = (record[name] for name in ("estimated_error", "estimated_error_low", "estimated_error_high"))
    if error is None:
        return "unknown: the reference has too few rows of some class"
    shown = _scale(record).shown
    by = f"; contradicted by {record['contradicted_by']}" if record["contradicted_by"] else ""
    if not record["estimated_error_known"]:
        by = by if record["labels_contradict"] and not record["labels_inside"] else ""
        if not record["estimated_error_covered"]:
            return f"not known: {NOT_COVERED}"
        ends = "{:.0%}".format if record["classes"] else shown
        return unknown_in_words(ends(low), None if high is None else ends(high)) + by
    age = f", {count(record['estimated_error_age'], 'round')} old" if record["estimated_error_age"] else ""
    return f"{shown(error)}, between {shown(low)} and {shown(high)}, without labels{age}{by}"


def _scale(record: dict[str, Any]) -> LossScale:
    """Return how errors are written."""
    from accous.diagnostics.scales import LossScale

    return LossScale(record["loss"])


def _on_reference(record: dict[str, Any], later: str) -> tuple[str, str]:
    """Return how well the reference was predicted when the model was fitted."""
    from accous.table.summary import held_out_in_words, no_better_in_words, reference_error, scale_of

    key = "accuracy" if record["classes"] else "error"
    of_constant, n_joined = record["reference_error_of_constant"], record["joined_rows"]
    settings = {key: record[f"reference_{key}"], "error_of_constant": of_constant, "n_joined": n_joined}
    error, scale = reference_error(settings), scale_of(settings)
    how = held_out_in_words(is_ordered=record["reference_ordered"])
    shown = "unknown" if error is None else f"{scale.shown(error)}{later and ' by fit'}, {how}"
    no_better = no_better_in_words(settings)
    return f"{scale.name} on the reference", f"{shown}. {no_better}" if no_better else shown


def _intervals(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return how far low and high of the predictions can be relied on, if something speaks about that."""
    found = record["intervals"]
    return [("prediction intervals", found["sentence"])] if found and found["sentence"] else []


def _contradiction(record: dict[str, Any]) -> str:
    """Say how labels contradict the estimate; nothing that is not shown is called contradicted."""
    if not record["estimated_error_covered"]:
        return _NOT_COVERED
    if not record["labels_estimate_known"]:
        return _NO_ESTIMATE if record["labels_inside"] else _OUTSIDE
    if not record["labels_inside"]:
        return "contradicts the estimate"
    return _OFF if record["labels_off"] else _ALARMED


def _plain_mean(record: dict[str, Any], scale: LossScale) -> str:
    """Return the mean in which no label counts less than another, and how they count in the one above."""
    from accous.diagnostics.messages import LABEL_HALF_LIFE

    mean, n_rows, n_labelled = (
        record[name] for name in ("measured_error_plain", "measured_error_plain_rows", "labelled_rows")
    )
    since = "" if n_rows == n_labelled else " since rows joined the reference"
    found = f"{scale.shown(mean)}, {count(n_rows, 'label')}{since}"
    return f"{found} (above, a label counts half after {LABEL_HALF_LIFE} more)"


def _measured(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what late labels have measured, beside the estimate."""
    from accous.diagnostics.messages import CONCEPT_CHANGED, labels_in_words

    if not record["labelled_rows"]:
        return []
    low, high = record["measured_error_low"], record["measured_error_high"]
    scale = _scale(record)
    interval = f"{scale.shown(low)} to {scale.shown(high)}"
    text = f"{scale.shown(record['measured_error'])} ({interval}), by {labels_in_words(record['labelled_rows'])}"
    if record["measured_error_moves"]:
        text += f"; {scale.shown(record['measured_error_latest'])} by the latest 200, so it moves"
    if record["labels_outdated"]:
        text += "; before rows joined the reference"
    elif record["labels_contradict"]:
        text += f"; {_contradiction(record)}"
    lines = [(f"measured {scale.name}", text)]
    if record["measured_error_plain"] is not None:
        lines.append(("the same, all labels alike", _plain_mean(record, scale)))
    if record["concept_changed"] == "yes":
        lines.append(("same input, same label?", CONCEPT_CHANGED))
    if record["unseen_classes"]:
        names = ", ".join(f"{name} ({count:,})" for name, count in record["unseen_classes"].items())
        lines.append(("classes not in the reference", names))
    return lines
