"""``accous demo``: see what the package does, in seconds and without data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli.report import require_html, write_page
from accous.exceptions import DataError, ParameterError
from accous.parameters import require_choice
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.cli.demo_race import Race

__all__ = ["demo"]

_SHIFTS = ("lin", "squ", "sin", "ber")
_IMAGE_FORMATS = ("png", "svg", "pdf")
_MOST_ROUNDS, _MOST_ROWS, _LARGEST_SEED = 1_000_000, 100_000, 2**32 - 1

_Rounds = Annotated[int, typer.Option("--rounds", help="Rounds of the stream.")]
_BatchSize = Annotated[int, typer.Option("--batch-size", help="Unlabelled rows in each round.")]
_Shift = Annotated[
    str,
    typer.Option(
        "--shift",
        metavar="|".join(_SHIFTS),
        help="How the inputs drift: slowly (lin), in jumps (squ), in waves (sin) or in jumps at random times (ber).",
    ),
]
_Seed = Annotated[int, typer.Option("--seed", help="Seed of the stream.")]
_Output = Annotated[Path, typer.Option("--output", "-o", help="The picture: a .png, .svg or .pdf file.")]
_Report = Annotated[Path, typer.Option("--report", help="The report: an .html file.")]
_Tables = Annotated[
    Path | None,
    typer.Option("--tables", metavar="FOLDER", help="Only write reference.csv and stream.csv to this folder."),
]
_Serve = Annotated[
    bool, typer.Option("--serve", help="Serve a model, replay the stream to it, and open the live page.")
]
_Port = Annotated[int, typer.Option("--port", help="Port for --serve; 0 takes a free one.")]
_Pace = Annotated[float, typer.Option("--pace", help="Rounds a second for --serve.")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table: no progress bar, no remarks.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a table.")]


def demo(
    rounds: _Rounds = 3000,
    batch_size: _BatchSize = 1,
    shift: _Shift = "squ",
    seed: _Seed = 0,
    output: _Output = Path("demo.png"),
    report: _Report = Path("demo.html"),
    tables: _Tables = None,
    serve: _Serve = False,
    port: _Port = 8321,
    pace: _Pace = 25.0,
    quiet: _Quiet = False,
    as_json: _AsJson = False,
) -> int:
    """Follow a simulated stream with five classifiers, and write a table, a picture and a report.

    Each classifier is fitted on a labelled reference. Then unlabelled batches arrive, and their distribution drifts.
    The demo compares a model that never changes, one that adapts to one batch at a time (the best one-step method),
    one that adapts with a single learner, accous, and an oracle that knows the drift. It takes about twenty seconds.
    """
    _require_between("--rounds", rounds, 1, _MOST_ROUNDS)
    _require_between("--batch-size", batch_size, 1, _MOST_ROWS)
    _require_between("--seed", seed, 0, _LARGEST_SEED)
    _require_between("--port", port, 0, 65_535)
    require_choice("--shift", shift, _SHIFTS)
    image_format = _image_format(output)
    require_html(report)
    from rich.console import Console

    remarks = Console(stderr=True, quiet=quiet, highlight=False)
    if serve:
        from accous.cli.demo_serving import serve_demo

        return serve_demo(shift, n_rounds=rounds, batch_size=batch_size, seed=seed, port=port, pace=pace)
    if tables is not None:
        return _write_tables(tables, shift, rounds, batch_size, seed, remarks)
    race = _run(shift, rounds, batch_size, seed, remarks)
    if as_json:
        typer.echo(json.dumps(_as_record(race, shift), indent=2))
    else:
        _print_table(race, Console(highlight=False), is_brief=quiet)
    exit_code = _save_picture(race, output, image_format, remarks)
    return max(exit_code, _save_report(race, report, remarks))


def _require_between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ParameterError(f"{name} must be between {low} and {high}, got {value}.")


def _image_format(output: Path) -> str:
    image_format = output.suffix.lower().removeprefix(".")
    if image_format not in _IMAGE_FORMATS:
        raise ParameterError(f"--output must end in .png, .svg or .pdf, got {str(output)!r}.")
    return image_format


def _run(shift: str, n_rounds: int, batch_size: int, seed: int, remarks: Console) -> Race:
    from rich.progress import track

    from accous.cli.compiling import compile_with_notice
    from accous.cli.demo_race import make_stream, run_race

    compile_with_notice(remarks)
    stream = make_stream(shift, n_rounds=n_rounds, batch_size=batch_size, seed=seed)

    def with_bar(batches: Iterable[Any]) -> Iterable[Any]:
        is_hidden = remarks.quiet or not remarks.is_terminal
        title = "Following the stream"
        return track(batches, title, n_rounds, console=remarks, transient=True, disable=is_hidden)

    return run_race(stream, with_bar)


def _write_tables(folder: Path, shift: str, n_rounds: int, batch_size: int, seed: int, remarks: Console) -> int:
    from accous.cli.demo_race import make_stream
    from accous.cli.demo_tables import write_demo_tables

    stream = make_stream(shift, n_rounds=n_rounds, batch_size=batch_size, seed=seed)
    reference, rows = write_demo_tables(stream, folder)
    remarks.print(f"Tables: {reference} and {rows}", soft_wrap=True, markup=False)
    return 0


def _as_record(race: Race, shift: str) -> dict[str, Any]:
    stream = race.stream
    contenders = [
        {
            "name": name,
            "mean_error": race.mean_error(name),
            "mean_error_rare": race.rare_error(name),
            "gap_closed": race.gap_closed(name),
        }
        for name in race.errors
    ]
    return {
        "shift": shift,
        "rounds": stream.n_rounds,
        "batch_size": stream.batch_size,
        "seed": stream.random_state,
        "contenders": contenders,
        "finding": race.finding(),
    }


def _print_table(race: Race, console: Console, *, is_brief: bool) -> None:
    from rich.table import Table

    stream = race.stream
    rows = "one unlabelled row" if stream.batch_size == 1 else f"{stream.batch_size} unlabelled rows"
    table = Table(title=f"{count(stream.n_rounds, 'round')} of {rows}")
    table.add_column("classifier")
    table.add_column("mean error", justify="right")
    table.add_column("gap to the oracle closed", justify="right")
    for name in race.errors:
        share = race.gap_closed(name)
        table.add_row(name, f"{race.mean_error(name):.1%}", "-" if share is None else f"{share:.0%}")
    console.print(table)
    if is_brief:
        return
    console.print(race.finding())
    if any((race.gap_closed(name) or 0.0) > 1.005 for name in race.errors):
        console.print(
            "More than 100%: the oracle knows the true ratio, but it has few reference rows of the rare population to "
            "learn from, so another classifier can beat it."
        )


def _save_picture(race: Race, output: Path, image_format: str, remarks: Console) -> int:
    try:
        from accous.cli.demo_picture import draw_race
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        _warn("No picture, because matplotlib is not installed: pip install 'accous[plot]' adds it.")
        return 0
    try:
        output.write_bytes(draw_race(race, image_format))
    except OSError as error:
        _warn(f"accous: the picture could not be written to {output}: {error.strerror or error}.")
        return 1
    remarks.print(f"Picture: {output}", soft_wrap=True, markup=False)
    return 0


def _save_report(race: Race, output: Path, remarks: Console) -> int:
    from accous.report.page import render_page
    from accous.report.words import Subject

    assert race.model is not None
    assert race.history is not None
    columns = [f"feature {number}" for number in range(1, race.stream.n_features + 1)]
    settings = {"stream": repr(race.stream), "rounds": f"{race.stream.n_rounds:,}"}
    subject = Subject("accous demo", race.model, race.history, columns, settings)
    try:
        write_page(output, render_page(subject))
    except DataError as error:
        _warn(f"accous: {error}")
        return 1
    remarks.print(f"Report: {output}", soft_wrap=True, markup=False)
    return 0


def _warn(message: str) -> None:
    typer.echo(message, err=True)
