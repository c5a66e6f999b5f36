"""``accous bench``: list what can be run, run a grid of contenders and streams, report the results."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.exceptions import ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from accous_bench.grid import Run

__all__ = ["EXAMPLES", "bench", "report"]

_SECONDS_BETWEEN_LINES = 20.0


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
_ReportFolder = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for the report; created if it does not exist.")
]
_Repeated = Annotated[
    Path | None,
    typer.Option("--repeated", help="Folder of repeated runs: notes how many give the numbers of the inputs again."),
]
_HasFigures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw figures.")]
_ErrorsOnly = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


def report(
    inputs: _Inputs = None,
    output: _ReportFolder = Path("bench-report"),
    repeated: _Repeated = None,
    figures: _HasFigures = True,
    quiet: _ErrorsOnly = False,
) -> int:
    """Make the tables and figures of a benchmark, next to the paper's numbers.

    The folder gets report.md, the tables as CSV, the figures as SVG and PNG, and aggregates.json: the data behind the
    report, small enough to commit. Notes below a table name failed runs, missing seeds and shorter streams.
    """
    from accous_bench.tables import write_report

    folders = inputs or sorted({path.parent for path in Path("results").glob("*/*.jsonl")})
    if not folders:
        raise ParameterError("There are no results here yet: pass a folder that accous bench run has written.")
    for path in write_report(folders, output, has_figures=figures, repeated=repeated):
        if not quiet and path.suffix != ".png":
            typer.echo(path)
    return 0


bench = typer.Typer(
    name="bench",
    help="Reproduce the paper's tables and figures, or run your own contenders on the same streams.",
    no_args_is_help=True,
)
bench.command(epilog=EXAMPLES)(report)
_SpecName = Annotated[
    str, typer.Argument(metavar="SPEC", help="Name of a spec (see `accous bench list`), or a TOML file.")
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Folder for the results.", show_default="results/SPEC", rich_help_panel="Where"
    ),
]
_Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Number of processes on this machine.", rich_help_panel="Where")
]
_PART = "Only a part of the grid (several, separated by commas)"


def _part(option: str, what: str) -> Any:
    return typer.Option(f"--{option}", help=f"Only these {what}.", rich_help_panel=_PART)


_Contenders = Annotated[str | None, _part("contenders", "contenders")]
_Datasets = Annotated[str | None, _part("datasets", "data sets")]
_Shifts = Annotated[str | None, _part("shifts", "shifts")]
_BatchSizes = Annotated[str | None, _part("batch-sizes", "batch sizes")]
_Seeds = Annotated[str | None, _part("seeds", "seeds")]
_Rounds = Annotated[
    int | None, typer.Option("--rounds", help="Number of rounds, instead of the spec's.", rich_help_panel=_PART)
]
_Share = Annotated[
    float, typer.Option("--share", help="Only this random share of each contender's runs.", rich_help_panel=_PART)
]
_Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol", help="predict_first, fresh_rows or batch_first, instead of the spec's.", rich_help_panel=_PART
    ),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide the progress and remarks.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


@bench.command("list", epilog="Example: accous bench list --json")
def list_specs(as_json: _AsJson = False) -> int:
    """List the specs, contenders, data sets and shifts."""
    from rich.console import Console
    from rich.table import Table

    from accous_bench.contenders import contender_names
    from accous_bench.problems import get_problem, problem_names
    from accous_bench.spec import find_spec, read_spec, spec_names

    specs = [read_spec(find_spec(name)) for name in spec_names()]
    if as_json:
        record = {
            "specs": {spec.name: {"title": spec.title, "runs": len(spec.runs())} for spec in specs},
            "contenders": list(contender_names()),
            "datasets": {name: list(get_problem(name).shifts) for name in problem_names()},
        }
        typer.echo(json.dumps(record, indent=2))
        return 0
    table = Table("spec", "runs", "what", title="Specs", title_justify="left")
    for spec in specs:
        table.add_row(spec.name, str(len(spec.runs())), f"{spec.title}. {' '.join(spec.description.split())}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"Contenders: {', '.join(contender_names())}")
    console.print(
        "Data sets: " + "; ".join(f"{name} ({', '.join(get_problem(name).shifts)})" for name in problem_names())
    )
    return 0


@bench.command(
    epilog="Examples: accous bench run smoke --jobs 2; accous bench run table3 --contenders FIX,OLRE,accous,oracle"
)
def run(
    spec: _SpecName,
    output: _Output = None,
    jobs: _Jobs = 1,
    contenders: _Contenders = None,
    datasets: _Datasets = None,
    shifts: _Shifts = None,
    batch_sizes: _BatchSizes = None,
    seeds: _Seeds = None,
    rounds: _Rounds = None,
    share: _Share = 1.0,
    protocol: _Protocol = None,
    quiet: _Quiet = False,
    as_json: _AsJson = False,
) -> int:
    """Run a grid of contenders and streams, and skip what is finished.

    Each finished run is written at once, as one line of JSON in the output folder, so you can interrupt the command and
    start it again at any time. A run that fails is recorded, the others continue, and the next start tries it again.
    """
    if jobs < 1:
        raise ParameterError(f"--jobs must be at least 1, got {jobs}.")
    from rich.console import Console

    from accous.checkpoint.files import exclusive_lock
    from accous_bench.spec import find_spec, prepare, read_spec

    chosen = _entries(str, contenders=contenders, datasets=datasets, shifts=shifts)
    chosen |= _entries(int, batch_sizes=batch_sizes, seeds=seeds)
    wanted = read_spec(find_spec(spec)).only(**chosen)
    wanted = replace(
        wanted, rounds=wanted.rounds if rounds is None else (rounds,), protocol=protocol or wanted.protocol
    )
    folder = output or Path("results") / wanted.name
    remarks = Console(stderr=True, quiet=quiet, highlight=False)
    prepare(wanted, tell=lambda remark: remarks.print(remark, soft_wrap=True))
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder, "accous bench run"):
        return _run_missing(wanted.runs(share), folder / f"{wanted.name}.jsonl", jobs, remarks, as_json=as_json)


def _run_missing(runs: list[Run], file: Path, jobs: int, remarks: Console, *, as_json: bool) -> int:
    from accous_bench.grid import read_rows, run_grid, unfinished

    left = unfinished(runs, file)
    remarks.print(f"{len(left)} of {len(runs)} runs to do, results in {file}", soft_wrap=True)
    has_failed, spoken = list[bool](), [time.monotonic()]

    def count(row: dict[str, Any]) -> None:
        has_failed.append(row["status"] == "failed")
        if time.monotonic() - spoken[-1] > _SECONDS_BETWEEN_LINES:
            failures = f", {sum(has_failed)} failed" if any(has_failed) else ""
            remarks.print(f"{len(has_failed)} of {len(left)} runs finished{failures}")
            spoken.append(time.monotonic())

    try:
        run_grid(left, file, n_jobs=jobs, on_row=count)
    except KeyboardInterrupt:
        remarks.print(
            f"Stopped: {len(has_failed)} of {len(left)} runs are finished and kept. Run it again to continue."
        )
        raise
    wanted = {run.identity() for run in runs}
    rows = [row for row in read_rows(file) if row["run"] in wanted]
    failed = [row for row in rows if row["status"] == "failed"]
    if as_json:
        typer.echo(json.dumps({"file": str(file), "done": len(rows) - len(failed), "failed": len(failed)}))
    for row in failed[:5]:
        where = "{contender} on {dataset}, {shift}, batches of {batch_size}, seed {seed}".format(**row)
        remarks.print(f"failed: {where}: {row['reason']}", markup=False, soft_wrap=True)
    if failed:
        typer.echo(
            f"accous: {len(failed)} of {len(rows)} runs failed; run the same command to try them again.", err=True
        )
        return 1
    remarks.print(f"All {len(rows)} runs are done. Next: accous bench report {file.parent}", soft_wrap=True)
    return 0


def _entries(kind: type, **options: str | None) -> dict[str, list[Any]]:
    """Return the entries of options that separate several by commas."""
    found = {}
    for key, text in options.items():
        if text is not None:
            try:
                found[key] = [kind(part.strip()) for part in text.split(",") if part.strip()]
            except ValueError as error:
                option = "--" + key.replace("_", "-")
                raise ParameterError(f"{option} takes integers separated by commas, got {text!r}.") from error
    return found
