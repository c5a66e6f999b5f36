"""``accous bench report``: the tables and figures of a benchmark, next to the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accous.exceptions import MissingExtraError, ParameterError

__all__ = ["EXAMPLES", "report"]

EXAMPLES = (
    "Examples: accous bench report results/table3 -o report; from the aggregates of an earlier report: "
    "accous bench report report/aggregates.json -o again"
)

_Inputs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FOLDER",
        help="Folders written by accous bench run, or files of aggregates.",
        show_default="all folders in results",
    ),
]
_Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the report; created if it does not exist.")]
_HasFigures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures (needs matplotlib).")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


def report(
    inputs: _Inputs = None,
    output: _Output = Path("bench-report"),
    figures: _HasFigures = True,
    quiet: _Quiet = False,
) -> int:
    """Make the tables and figures of a benchmark, next to the paper's numbers.

    Writes report.md, report.tex, report.html (one page, opens offline), aggregates.json (the data behind the report,
    small enough to commit) and figures/*.svg and *.png. Footnotes name failed runs, missing seeds and shorter streams.
    """
    from accous_bench.reporting.report import write_report

    written = write_report(inputs or _default_folders(), output, has_figures=figures)
    if not quiet:
        failed = f", {written.n_failed} of them failed" if written.n_failed else ""
        typer.echo(f"Report on {written.n_done + written.n_failed} runs{failed}:")
        for path in written.files:
            if path.suffix != ".png":
                typer.echo(f"  {path}")
    if written.missing_figures:
        raise MissingExtraError(f"The tables are in {output}, but there are no figures. {written.missing_figures}")
    return 0


def _default_folders() -> list[Path]:
    """Return the folders that accous bench run writes to by default."""
    folders = sorted({path.parent for path in Path("results").glob("*/*.jsonl")})
    if not folders:
        raise ParameterError("There are no results here yet: pass a folder that accous bench run has written.")
    return folders
