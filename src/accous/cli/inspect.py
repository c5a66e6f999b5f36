"""``accous inspect``: what is in a model's folder, in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from accous.cli.options import AsJson, Quiet, results_console

__all__ = ["EXAMPLES", "inspect"]

EXAMPLES = """
Examples:

`accous inspect model/`

`accous inspect model/ --json | jq .rounds`
"""
_Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by accous fit.")]


def inspect(model: _Model, quiet: Quiet = False, as_json: AsJson = False) -> int:
    """Show what a model has learned so far, and the progress of its last run."""
    from accous.tabular.summary import read_table_model_summary

    summary = read_table_model_summary(model)
    if summary is None:
        from accous.tabular.folder import load_table_model
        from accous.tabular.summary import summarize_table_model

        summary = summarize_table_model(load_table_model(model))
    if as_json:
        typer.echo(json.dumps(summary["state"], indent=2, allow_nan=False))
        return 0
    _print(summary, is_brief=quiet)
    return 0


def _print(summary: dict[str, Any], *, is_brief: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from accous.cli.columns_table import columns_table

    console = results_console()
    table = Table(show_header=False, title="State")
    for name, value in _lines(summary["state"]):
        table.add_row(name, Text(value))
    console.print(table)
    if not is_brief:
        console.print(columns_table(summary["columns"]))


def _lines(record: dict[str, Any]) -> list[tuple[str, str]]:
    accuracy, risk = record["reference_accuracy"], record["estimated_error"]
    lines = [
        ("reference", f"{record['reference']}, {record['reference_rows']:,} rows, label {record['label']}"),
        ("classes", ", ".join(record["classes"])),
        ("ratio", record["ratio"]),
        ("accuracy on the reference", "unknown" if accuracy is None else f"{accuracy:.1%}, cross-validated"),
        ("rounds", f"{record['rounds']:,}, {record['refits']:,} refits"),
        ("estimated error now", "unknown" if risk is None else f"{risk:.1%}, without labels"),
        (
            "effective sample size",
            f"{record['effective_sample_size']:,.0f} of {record['reference_rows']:,} reference rows",
        ),
        ("trust in the adaptation", f"{record['trust']}: {record['trust_reason']}"),
        ("rows outside the reference", f"{record['out_of_reference_rows']:,} so far"),
    ]
    if record["findings"]:
        lines.append(("not known to the reference", " ".join(record["findings"])))
    if record["weight_of_interval_length"]:
        learners = record["weight_of_interval_length"].items()
        lines.append(("history in use", ", ".join(f"{length} rounds {weight:.0%}" for length, weight in learners)))
    run = record["last_run"]
    if run is not None:
        state = "finished" if run["finished"] else "unfinished"
        lines.append(
            ("last run", f"{run['stream']} to {run['output']}, {state}: {run['rows']:,} rows, {run['rounds']:,} rounds")
        )
        if run["labelled_rows"]:
            lines.append(("error of the last run", f"fixed model {run['error_fixed']:.1%}, accous {run['error']:.1%}"))
    return lines
