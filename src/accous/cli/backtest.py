"""``accous backtest``: replay a labelled table in order of time, and compare what a model claims with the labels."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import typer

from accous.cli.options import ProgressBar, compile_with_notice, remarks_console, results_console, say
from accous.exceptions import DataError, ParameterError
from accous.table.options import BacktestOptions

if TYPE_CHECKING:
    from accous.diagnostics.evidence import Look
    from accous.diagnostics.losses import LossScale
    from accous.model.backtest import Backtest
    from accous.table.fit import FitJob

__all__ = ["EXAMPLES", "backtest"]

EXAMPLES = """
Examples:

`accous backtest reference.csv --label y --time date`

`accous backtest reference.parquet --label churned --ordered --plot backtest.png`

`accous backtest reference.csv --label y --time date --json | jq .verdict`
"""
_HEADINGS = ("rows", "reference rows", "measured (fixed)", "estimated", "measured (adapted)", "drift")
_DRIFT_NOTE = (
    "Drift: 0 means that recent rows look like the reference, 1 that a classifier tells them apart without error."
)


def backtest(options: BacktestOptions) -> int:
    """Replay labelled history as a stream, and see how far label-free estimates were from the truth.

    The first 40, 60 and 80% of the rows serve as the reference in turn, the others as a stream whose labels are known.
    """
    if options.plot is not None:
        _require_picture(options)
    from accous.table.fit import FitJob

    remarks = remarks_console(quiet=options.quiet)
    job = FitJob(options.to_fit())
    job.require_order()
    if job.reference.order.kind not in ("given", "times"):
        say(remarks, job.reference.order.sentence)
    # The one remark that is about the backtest itself.
    say(remarks, *(remark.text for remark in job.remarks if remark.kind == "repeated"))
    compile_with_notice(remarks)
    with ProgressBar(remarks, "Replaying") as bar:
        found = job.backtest(options.batch_size, bar.show)
    if options.as_json:
        record = {"estimator": job.estimator, **found.summary(), "table": _records(found)}
        typer.echo(json.dumps(record, indent=2, allow_nan=False))
    else:
        _print(found, job)
    if options.plot is not None:
        figure = found.plot()
        figure.suptitle(f"Backtest of the predictor {job.estimator}", fontsize="medium")
        try:
            figure.savefig(options.plot)
        except OSError as error:
            raise DataError(f"The picture cannot be written to {options.plot}: {error.strerror or error}.") from None
    return 0


def _require_picture(options: BacktestOptions) -> None:
    """Check the name of the picture before the replay, which may take minutes."""
    from accous.table.runs import require_separate_files

    plot = options.plot
    assert plot is not None
    if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ParameterError(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}.")
    if not plot.parent.is_dir():
        raise ParameterError(f"--plot {plot}: there is no folder {plot.parent}; create it, or name another.")
    if plot.exists() and not options.force:
        raise DataError(f"{plot} already exists: give another name, or use --force to replace it.")
    require_separate_files({"REFERENCE": options.reference}, {"--plot": str(plot)}, label=options.label)


def _records(found: Backtest) -> list[dict[str, float | None]]:
    """Return the looks, ready for JSON: null where something is not known."""
    return [{name: None if math.isnan(value) else value for name, value in look.items()} for look in found.table()]


def _print(found: Backtest, job: FitJob) -> None:
    from rich.table import Table

    console = results_console()
    table = Table(title=f"Backtest of the predictor {job.estimator}")
    for heading in _HEADINGS:
        table.add_column(heading, no_wrap=heading == "rows")
    for look in found.looks:
        table.add_row(*_cells(look, found.scale))
    console.print(table)
    say(console, *filter(None, (_DRIFT_NOTE, found.sentences[0], found.how, found.sentences[1])))


def _cells(look: Look, scale: LossScale) -> tuple[str, ...]:
    """Return one row of the table; rows are counted from 1, and both ends of a range belong to it."""
    errors = (look.error_fixed, look.estimate_fixed, look.error_adapted)
    return (
        f"{look.start + 1:,} to {look.stop:,}",
        f"{look.n_reference:,}",
        *("unknown" if math.isnan(error) else scale.shown(error) for error in errors),
        "unknown" if math.isnan(look.drift) else f"{look.drift:.2f}",
    )
