"""``accous bench``: list what can be run, run a grid of contenders and streams, report the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.exceptions import ParameterError
from accous_bench.commands.report import EXAMPLES, report

if TYPE_CHECKING:
    from rich.console import Console

    from accous_bench.run import Run
    from accous_bench.spec import Spec

__all__ = ["bench"]

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
_Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Run on the Dask cluster at tcp://...", rich_help_panel="Where"),
]
_PART = "Only a part of the grid (several, separated by commas)"
_Contenders = Annotated[str | None, typer.Option("--contenders", help="Only these.", rich_help_panel=_PART)]
_Datasets = Annotated[str | None, typer.Option("--datasets", help="Only these.", rich_help_panel=_PART)]
_Shifts = Annotated[str | None, typer.Option("--shifts", help="Only these.", rich_help_panel=_PART)]
_BatchSizes = Annotated[str | None, typer.Option("--batch-sizes", help="Only these.", rich_help_panel=_PART)]
_Seeds = Annotated[str | None, typer.Option("--seeds", help="Only these.", rich_help_panel=_PART)]
_Rounds = Annotated[
    int | None, typer.Option("--rounds", help="Number of rounds, instead of the spec's.", rich_help_panel=_PART)
]
_Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol", help="predict_first, fresh_rows or batch_first, instead of the spec's.", rich_help_panel=_PART
    ),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show a progress bar or messages.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


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
    epilog="Examples: accous bench run smoke --jobs 2; accous bench run table3 --contenders FIX,OLRE,Accous,oracle"
)
def run(
    spec: _SpecName,
    output: _Output = None,
    jobs: _Jobs = 1,
    dask: _Dask = None,
    contenders: _Contenders = None,
    datasets: _Datasets = None,
    shifts: _Shifts = None,
    batch_sizes: _BatchSizes = None,
    seeds: _Seeds = None,
    rounds: _Rounds = None,
    protocol: _Protocol = None,
    quiet: _Quiet = False,
    as_json: _AsJson = False,
) -> int:
    """Run a grid; finished runs are not run again.

    Every run is one line of JSON in the output folder, written as soon as it is finished: you can interrupt and restart
    at any time. A run that fails is recorded and the others continue; the next start tries it again.
    """
    if jobs < 1:
        raise ParameterError(f"--jobs must be at least 1, got {jobs}.")
    from rich.console import Console

    from accous.checkpoint.files import exclusive_lock
    from accous_bench.spec import find_spec, prepare, read_spec

    chosen = _texts(contenders=contenders, datasets=datasets, shifts=shifts)
    chosen |= _numbers(batch_sizes=batch_sizes, seeds=seeds)
    wanted = _with_protocol(_with_rounds(read_spec(find_spec(spec)).only(**chosen), rounds), protocol)
    folder = output or Path("results") / wanted.name
    remarks = Console(stderr=True, quiet=quiet, highlight=False)
    prepare(wanted, tell=lambda remark: remarks.print(remark, soft_wrap=True))
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder, "accous bench run"):
        return _play(wanted.runs(), folder / f"{wanted.name}.jsonl", jobs, dask, remarks, as_json=as_json)


def _play(runs: list[Run], file: Path, jobs: int, dask: str | None, remarks: Console, *, as_json: bool) -> int:
    from accous_bench.commands.progress import GridProgress
    from accous_bench.grid import play_grid, unfinished
    from accous_bench.results import read_rows

    left = unfinished(runs, file)
    remarks.print(f"{len(left)} of {len(runs)} runs to do, results in {file}", soft_wrap=True)
    with GridProgress(left, 1 if dask else jobs, remarks) as progress:
        try:
            play_grid(left, file, n_jobs=jobs, dask=dask, on_row=progress.note)
        except KeyboardInterrupt:
            remarks.print(
                f"Stopped: {progress.n_finished} of {len(left)} runs are finished and kept. Run it again to continue."
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


def _with_rounds(spec: Spec, rounds: int | None) -> Spec:
    from dataclasses import replace

    if rounds is None:
        return spec
    if rounds < 1:
        raise ParameterError(f"--rounds must be at least 1, got {rounds}.")
    return replace(spec, rounds=(rounds,))


def _with_protocol(spec: Spec, protocol: str | None) -> Spec:
    from dataclasses import replace

    from accous.parameters import did_you_mean
    from accous_bench.protocols import PROTOCOLS

    if protocol is None:
        return spec
    if protocol not in PROTOCOLS:
        meant = did_you_mean(protocol, PROTOCOLS)
        raise ParameterError(f"--protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}{meant}.")
    return replace(spec, protocol=protocol)


def _texts(**options: str | None) -> dict[str, list[Any]]:
    return {
        key: [part.strip() for part in text.split(",") if part.strip()]
        for key, text in options.items()
        if text is not None
    }


def _numbers(**options: str | None) -> dict[str, list[Any]]:
    numbers: dict[str, list[Any]] = {}
    for key, parts in _texts(**options).items():
        try:
            numbers[key] = [int(part) for part in parts]
        except ValueError as error:
            option = "--" + key.replace("_", "-")
            raise ParameterError(f"{option} takes integers separated by commas, got {options[key]!r}.") from error
    return numbers
