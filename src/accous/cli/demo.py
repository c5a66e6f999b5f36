"""``accous demo``: a model drifts, an alarm says so, a hundred labels are asked for, and it recovers, on real rows.

The rows are hours of the bike rental in Washington, D.C.: `bike_hours.csv.gz` has those of January to October 2011 from
the Bike Sharing data set of the UCI repository (Fanaee-T and Gama, 2013, doi:10.24432/C5W894), licensed under CC BY
4.0. Parts of the label and the year were left out, and the hours were numbered.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli import simulated
from accous.cli.options import announcing_compilation, remarks_console, results_console, say
from accous.cli.status import require_html
from accous.exceptions import ParameterError
from accous.table.options import LARGEST_SEED, AdaptOptions, AskOptions, FitOptions, LabelsOptions, between, one_of
from accous.text import ProgressBar, count

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from accous.arrays import FloatArray
    from accous.table.model import TableModel

EXAMPLES = """
Examples:

`accous demo`

`accous demo --simulated --shift sin --rounds 1000 -o waves.png`
"""
_MOST_ROUNDS, _MOST_ROWS = 1_000_000, 100_000
_SIMULATED = "Simulated stream"


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What to run, and what to make of it."""

    simulated: Annotated[
        bool, typer.Option("--simulated", help="Follow a simulated stream with five classifiers instead.")
    ] = False
    rounds: Annotated[
        int, between("--rounds", 1, _MOST_ROUNDS, help="Rounds of the stream.", rich_help_panel=_SIMULATED)
    ] = 3000
    batch_size: Annotated[
        int, between("--batch-size", 1, _MOST_ROWS, help="Unlabelled rows in each round.", rich_help_panel=_SIMULATED)
    ] = 1
    shift: Annotated[
        str,
        one_of(
            "--shift",
            "lin|squ|sin|ber",
            help="How the inputs drift: slowly (lin), in jumps (squ), in waves (sin) or in jumps at random times "
            "(ber).",
            rich_help_panel=_SIMULATED,
        ),
    ] = "squ"
    seed: Annotated[int, between("--seed", 0, LARGEST_SEED, help="Seed of the stream.", rich_help_panel=_SIMULATED)] = 0
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture: a .png, .svg or .pdf file.")] = Path(
        "demo.png"
    )
    report: Annotated[Path, typer.Option(help="Report: an .html file.")] = Path("demo.html")
    tables: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Only write the demo's tables to this folder.")
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table: no progress bar, no remarks.")] = (
        False
    )
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a table.")] = False

    def __post_init__(self) -> None:
        if self.image_format not in ("png", "svg", "pdf"):
            raise ParameterError(f"--output must end in .png, .svg or .pdf, got {str(self.output)!r}.")
        require_html(self.report)
        chosen = (self.rounds, self.batch_size, self.shift, self.seed)
        if not self.simulated and chosen != (3000, 1, "squ", 0):
            raise ParameterError("--rounds, --batch-size, --shift and --seed are of the simulated stream: --simulated.")

    @property
    def image_format(self) -> str:
        """What the name of the picture says."""
        return self.output.suffix.lower().removeprefix(".")


def demo(options: DemoOptions) -> int:
    """Watch a model drift and recover on real data: a bike rental, hour by hour.

    A model is fitted on six weeks of winter. Then spring comes. accous asks for 100 labels in every 1,000 hours: they
    raise the alarm, and the model learns from them. In less than a minute you get a table, a picture and a report.
    """
    remarks = remarks_console(quiet=options.quiet)
    if options.simulated:
        return simulated.demo(options, remarks)
    if options.tables is not None:
        names = ", ".join(path.name for path in write_tables(options.tables))
        say(remarks, f"Tables in {options.tables}: {names}")
        return 0
    with (
        tempfile.TemporaryDirectory() as place,
        announcing_compilation(remarks),
        ProgressBar("Running", console=remarks) as bar,
    ):
        recovery = run_demo(Path(place), bar.show)
    if options.as_json:
        typer.echo(json.dumps(recovery.to_json(), indent=2))
    else:
        _print_table(recovery, results_console(), is_brief=options.quiet)
    exit_code = simulated.save_picture(lambda: draw(recovery, options.image_format), options.output, remarks)
    return max(exit_code, simulated.save_page(lambda: recovery.page, options.report, remarks))


# --- The rows, and the tables of the tutorial


LABEL, KEY, TIME = "cnt", "slot", "datetime"
N_REFERENCE, N_PART, N_LABELS, _BATCH = 1_000, 1_000, 100, 24


def read_rows() -> pl.DataFrame:
    """Return the rows in order of time."""
    import polars as pl

    return pl.read_csv(files("accous.cli").joinpath("bike_hours.csv.gz").read_bytes())


def write_tables(folder: Path) -> list[Path]:
    """Write the reference, the parts of the stream without labels, and all labels; files that are there are kept."""
    rows = read_rows()
    tables = {"reference.csv": rows[:N_REFERENCE]}
    for number, first in enumerate(range(N_REFERENCE, rows.height, N_PART), start=1):
        tables[f"part{number}.csv"] = rows[first : first + N_PART].drop(LABEL)
    tables["truth.csv"] = rows[N_REFERENCE:].select(KEY, LABEL)
    return simulated.write_new(folder, tables)


# --- The run: what the commands fit, adapt, ask and labels do


@dataclass(frozen=True)
class Part:
    """What happened in one part of the stream.

    Attributes
    ----------
    until : str
        The time of its last row.
    error_fixed, error : float
        Mean absolute error of the model that was fitted once, and of accous, which predicted before it learned.
    said, said_by_labels : float
        What accous said of its error before and after the labels came.
    state : str
        Of the model after the labels.
    alarm : bool
    n_labels : int
        Labels that the model has learned from so far.
    weight : float
        Share of what was learned from labels in the predictions that follow.
    """

    until: str
    error_fixed: float
    error: float
    said: float
    said_by_labels: float
    state: str
    alarm: bool
    n_labels: int
    weight: float


@dataclass(frozen=True, eq=False)
class Recovery:
    """The whole run.

    Attributes
    ----------
    parts : list of Part
    errors_fixed, errors : array of shape (n_rows,)
        Absolute errors of the rows after the reference.
    at_fit : float
        Mean absolute error on held-out rows of the reference.
    page : str
        The report.
    """

    parts: list[Part]
    errors_fixed: FloatArray
    errors: FloatArray
    at_fit: float
    page: str

    def finding(self) -> str:
        """What was seen, in plain words."""
        alarm = next((part for part in self.parts if part.alarm), None)
        later = self.parts[1:]
        fixed, ours = (sum(getattr(part, name) for part in later) / len(later) for name in ("error_fixed", "error"))
        raised = "no alarm was raised" if alarm is None else f"labels raised the alarm on {alarm.until[:10]}"
        return (
            f"The model was fitted on winter, with an error of {self.at_fit:.0f} rentals an hour; then {raised}. After "
            f"the first {N_LABELS} labels, the model fitted once is off by {fixed:.0f}, accous by {ours:.0f}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {"at_fit": self.at_fit, "parts": [asdict(part) for part in self.parts], "finding": self.finding()}


def run_demo(folder: Path, on_progress: Callable[[float], None] = lambda _: None) -> Recovery:
    """Run the rows in a folder.

    Parameters
    ----------
    folder : Path
        Empty.
    on_progress : callable, optional
        Called with the share that is done.
    """
    import numpy as np

    from accous.report.figures import report_source
    from accous.report.page import render_page
    from accous.table.fit import FitJob
    from accous.table.model import load_table_model

    write_tables(folder)
    model, rows = folder / "model", read_rows()
    given: dict[str, Any] = {"label": LABEL, "task": "regression", "drop": (KEY,), "time": TIME}
    FitJob(FitOptions(reference=str(folder / "reference.csv"), output=model, **given)).fit_and_save()
    on_progress(0.3)
    n_parts = (rows.height - N_REFERENCE) // N_PART
    parts, errors, of_fixed = [], [], []
    for number in range(1, n_parts + 1):
        first = N_REFERENCE + (number - 1) * N_PART
        table, truth = rows[first : first + N_PART], rows[LABEL].to_numpy()[first : first + N_PART]
        predicted, said = _follow(folder, number)
        fitted = _learn(folder, number, table)
        now, status = fitted.performance(), fitted.status_
        fixed = fitted.model.predict_fixed(fitted.encoder.encode(table.drop(LABEL, KEY)).X)
        errors.append(np.abs(predicted - truth))
        of_fixed.append(np.abs(fixed - truth))
        learned = fitted.learned_[-1]
        parts.append(
            Part(
                until=str(table[TIME][-1]),
                error_fixed=float(of_fixed[-1].mean()),
                error=float(errors[-1].mean()),
                said=said,
                said_by_labels=now.value,
                state=status.state or "",
                alarm=bool(status.alarm),
                n_labels=learned.n_labels,
                weight=learned.weight,
            )
        )
        on_progress(0.3 + 0.7 * number / n_parts)
    fitted = load_table_model(model)
    fitted.job = None  # the files are gone: advice names none of them
    page = render_page(report_source(fitted.snapshot(), "MODEL"))
    return Recovery(parts, np.concatenate(of_fixed), np.concatenate(errors), fitted.performance().at_fit, page)


def _follow(folder: Path, number: int) -> tuple[FloatArray, float]:
    """Predict and learn a part without labels; return the predictions, and what the model says of its error then."""
    import polars as pl

    from accous.table.adapt import AdaptJob

    output = folder / f"predictions{number}.csv"
    options = AdaptOptions(
        model=folder / "model", stream=str(folder / f"part{number}.csv"), output=str(output), key=KEY, batch_size=_BATCH
    )
    job = AdaptJob(options)
    job.begin()
    job.follow()
    return pl.read_csv(output)["prediction"].to_numpy(), float(job.table_model.performance().value)


def _learn(folder: Path, number: int, truth: pl.DataFrame) -> TableModel:
    """Ask for labels, fill them in, and give them to the model."""
    import polars as pl

    from accous.table.labels import AskJob, LabelJob

    asked = folder / f"to_label{number}.csv"
    stream = str(folder / f"part{number}.csv")
    AskJob(AskOptions(model=folder / "model", stream=stream, n=N_LABELS, output=str(asked), key=KEY)).run()
    pl.read_csv(asked).drop(LABEL).join(truth.select(KEY, LABEL), on=KEY).write_csv(asked)
    job = LabelJob(LabelsOptions(model=folder / "model", labels=str(asked), key=KEY))
    job.run()
    return job.table_model


# --- The table and the picture


def _print_table(recovery: Recovery, console: Console, *, is_brief: bool) -> None:
    from rich.table import Table

    table = Table(title=f"Bike rentals: mean error in rentals an hour; each line is {count(N_PART, 'hour')}")
    for heading in ("until", "fitted once", "accous", "its estimate", "with labels", "labels", "alarm"):
        table.add_column(heading, justify="left" if heading == "until" else "right")
    for part in recovery.parts:
        numbers = (part.error_fixed, part.error, part.said, part.said_by_labels)
        labels, alarm = f"{part.n_labels:,}", "alarm" if part.alarm else ""
        table.add_row(part.until[:10], *(f"{number:.0f}" for number in numbers), labels, alarm)
    console.print(table)
    if not is_brief:
        say(console, recovery.finding())


def draw(recovery: Recovery, image_format: str) -> bytes:
    """Draw the errors of both models day by day, where labels came, and where the alarm was raised.

    Parameters
    ----------
    recovery : Recovery
    image_format : str
        ``"png"``, ``"svg"`` or ``"pdf"``.
    """
    import polars as pl
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained", dpi=150)
    axes, ink = figure.subplots(), rcParams["text.color"]
    times, week = read_rows()[TIME][N_REFERENCE:].str.to_datetime().to_list(), 7 * _BATCH
    lines = (
        ("fitted once", recovery.errors_fixed, simulated.FIXED_COLOUR),
        ("accous", recovery.errors, simulated.ACCOUS_COLOUR),
    )
    for name, errors, colour in lines:
        smooth = pl.Series(errors).rolling_mean(week, min_samples=1)[week:]
        axes.plot(times[week:], smooth, color=colour, label=f"{name} {errors.mean():.0f}", linewidth=2.4)
    axes.axhline(recovery.at_fit, color=ink, linestyle=(0, (4, 3)), linewidth=1.0, label="at fit")
    ends = [times[min(len(times), N_PART * number) - 1] for number in range(1, len(recovery.parts) + 1)]
    for end in ends:
        axes.axvline(end, color=ink, linewidth=0.6, alpha=0.5)
    alarm = next((end for end, part in zip(ends, recovery.parts, strict=True) if part.alarm), None)
    if alarm is not None:
        axes.axvline(alarm, color=simulated.FIXED_COLOUR, linewidth=2.0, linestyle=(0, (2, 2)))
        place: dict[str, Any] = {"ha": "right", "va": "top", "transform": axes.get_xaxis_transform()}
        axes.text(alarm, 0.97, "alarm ", color=simulated.FIXED_COLOUR, fontweight="bold", **place)
    title = f"At each thin line, {N_LABELS} labels of the last {N_PART:,} hours arrive"
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_ylabel("mean absolute error of a week, rentals an hour")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="mean error")
    figure.suptitle("Fitted in winter, then spring came", x=0.01, ha="left", fontsize=15, fontweight="bold")
    content = BytesIO()
    figure.savefig(content, format=image_format)
    return content.getvalue()
