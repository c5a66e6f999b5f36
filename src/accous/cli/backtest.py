"""``accous backtest``: replay a labelled table in order of time, and compare what a model claims with the labels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accous.cli.options import (
    AsJson,
    Categorical,
    Drop,
    Encoding,
    Force,
    KeepAsFeature,
    Label,
    Quiet,
    ReferenceFile,
    Separator,
    TableFormat,
    Task,
    Time,
    remarks_console,
    require_between,
    require_separator,
    require_task,
    results_console,
)
from accous.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from accous.model.backtest import Backtest
    from accous.table.fit import FitJob

__all__ = ["EXAMPLES", "backtest"]

EXAMPLES = """
Examples:

`accous backtest reference.csv --label y --time date`

`accous backtest reference.parquet --label churned --ordered --plot backtest.png`

`accous backtest reference.csv --label y --time date --json | jq .verdict`
"""
_BatchSize = Annotated[int, typer.Option("--batch-size", help="Rows in a round of the replay.")]
_Ordered = Annotated[
    bool,
    typer.Option("--ordered", help="The rows already are in order of time.", rich_help_panel="The table"),
]
_Estimator = Annotated[
    str,
    typer.Option(
        "--estimator", metavar="auto|linear|boosting|forest|MODULE:NAME", help="What predicts; auto: chosen as in fit.",
        rich_help_panel="The model",
    ),
]  # fmt: skip
_Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="A picture of the replays, such as .png.")]


def backtest(
    reference: ReferenceFile,
    label: Label,
    task: Task = None,
    time: Time = None,
    ordered: _Ordered = False,
    batch_size: _BatchSize = 10,
    plot: _Plot = None,
    estimator: _Estimator = "auto",
    drop: Drop = None,
    categorical: Categorical = None,
    keep_as_feature: KeepAsFeature = None,
    table_format: TableFormat = None,
    encoding: Encoding = None,
    separator: Separator = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Replay labelled history as a stream, and see how far label-free estimates were from the truth.

    The first 40, 60 and 80% of the rows serve as the reference in turn, the others as a stream whose labels are known.
    """
    require_between("--batch-size", batch_size, 1, 1_000_000)
    separator = require_separator(separator)
    if plot is not None:
        _require_picture(plot, may_replace=force)
    from accous.cli.compiling import compile_with_notice
    from accous.table.fit import FitJob, FitRequest

    request = FitRequest(
        reference=reference,
        label=label,
        estimator=estimator,
        task=require_task(task),
        drop=drop or [],
        categorical=categorical or [],
        time=time,
        is_ordered=True if ordered else None,
        keep_as_feature=keep_as_feature or [],
        table_format=table_format,
        encoding=encoding,
        separator=separator,
    )
    remarks = remarks_console(quiet=quiet)
    job = FitJob(request)
    order = job.reference.order.sentence(can_be_unordered=False)
    if order is not None:
        remarks.print(order, markup=False, soft_wrap=True)
    for remark in job.remarks:
        if remark.kind == "repeated":  # the one remark that is about the backtest itself
            remarks.print(remark.text, markup=False, soft_wrap=True)
    compile_with_notice(remarks)
    job.require_order()
    with remarks.status("Comparing predictors on the reference"):
        job.choose_estimator()
    found = _run(job, batch_size, remarks)
    if as_json:
        record = {"estimator": job.estimator, **found.summary(), "table": _records(found)}
        typer.echo(json.dumps(record, indent=2, allow_nan=False))
    else:
        _print(found, job)
    if plot is not None:
        figure = found.plot()
        figure.suptitle(f"Backtest of the predictor {job.estimator}", fontsize="medium")
        figure.savefig(plot)
    return 0


def _require_picture(plot: Path, *, may_replace: bool) -> None:
    """Check the name of the picture before the replay, which may take minutes."""
    if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ParameterError(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}.")
    if plot.exists() and not may_replace:
        raise DataError(f"{plot} already exists: give another name, or use --force to replace it.")


def _records(found: Backtest) -> list[dict[str, float | None]]:
    """Return the looks, ready for JSON: null where something is not known."""
    return [{name: None if math.isnan(value) else value for name, value in look.items()} for look in found.table()]


def _run(job: FitJob, batch_size: int, remarks: Console) -> Backtest:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Replaying"), BarColumn(bar_width=24), TimeRemainingColumn())
    is_shown = remarks.is_terminal and not remarks.quiet
    with Progress(*columns, console=remarks, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("", total=1.0)
        return job.backtest(batch_size, lambda share: bar.update(task, completed=share))


def _print(found: Backtest, job: FitJob) -> None:
    from rich.table import Table

    from accous.diagnostics.trust import DRIFT_NOTE, HEADINGS, look_cells

    console = results_console()
    table = Table(title=f"Backtest of the predictor {job.estimator}")
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=heading == "rows")
    for look in found.looks:
        table.add_row(*look_cells(look, found.scale))
    console.print(table)
    for sentence in filter(None, (DRIFT_NOTE, found.sentences[0], found.how, found.sentences[1])):
        console.print(sentence, markup=False, soft_wrap=True)
