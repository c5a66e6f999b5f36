"""``accous demo --simulated``: five classifiers follow a stream whose answers are known exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import announcing_compilation, results_console, say
from accous.cli.status import write_page
from accous.exceptions import DataError
from accous.text import ProgressBar, count

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray
    from rich.console import Console

    from accous.arrays import FloatArray
    from accous.cli.demo import DemoOptions
    from accous.model.estimators import AdaptiveClassifier
    from accous.model.predictors import LinearPredictor
    from accous.streams import GaussianStream
    from accous.table.history import History


def demo(options: DemoOptions, remarks: Console) -> int:
    """Follow a simulated stream with five classifiers, and write a table, a picture and a report.

    Each classifier is fitted on a labelled reference. Then unlabelled batches arrive, and their distribution drifts.
    The demo compares a model that never changes, one that adapts to one batch at a time (the best one-step method),
    one that adapts with a single learner, accous, and an oracle that knows the drift. It takes about twenty seconds.
    """
    stream = make_stream(options.shift, n_rounds=options.rounds, batch_size=options.batch_size, seed=options.seed)
    if options.tables is not None:
        reference, rows = write_demo_tables(stream, options.tables)
        say(remarks, f"Tables: {reference} and {rows}")
        return 0
    with announcing_compilation(remarks), ProgressBar("Following the stream", console=remarks) as bar:
        race = run_race(stream, bar.show)
    if options.as_json:
        typer.echo(json.dumps(_as_record(race, options.shift), indent=2))
    else:
        _print_table(race, results_console(), is_brief=options.quiet)
    exit_code = save_picture(lambda: draw_race(race, options.image_format), options.output, remarks)
    return max(exit_code, save_page(lambda: _page(race), options.report, remarks))


def _as_record(race: Race, shift: str) -> dict[str, Any]:
    stream = race.stream
    contenders = [
        {"name": name, "mean_error": race.mean_error(name), "gap_closed": race.gap_closed(name)} for name in race.errors
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

    table = Table(title=f"{count(race.stream.n_rounds, 'round')} of {count(race.stream.batch_size, 'unlabelled row')}")
    table.add_column("classifier")
    table.add_column("mean error", justify="right")
    table.add_column("gap to the oracle closed", justify="right")
    for name in race.errors:
        share = race.gap_closed(name)
        table.add_row(name, f"{race.mean_error(name):.1%}", "-" if share is None else f"{share:.0%}")
    console.print(table)
    if not is_brief:
        console.print(race.finding())


def save_picture(draw: Callable[[], bytes], output: Path, remarks: Console) -> int:
    """Write a picture, if there is matplotlib; return the exit code."""
    try:
        output.write_bytes(draw())
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        _warn("No picture, because matplotlib is not installed: pip install 'accous[plot]' adds it.")
        return 0
    except OSError as error:
        _warn(f"accous: the picture could not be written to {output}: {error.strerror or error}.")
        return 1
    say(remarks, f"Picture: {output}")
    return 0


def save_page(render: Callable[[], str], output: Path, remarks: Console) -> int:
    """Write a report; return the exit code."""
    try:
        write_page(output, render())
    except DataError as error:
        _warn(f"accous: {error}")
        return 1
    say(remarks, f"Report: {output}")
    return 0


def _page(race: Race) -> str:
    from accous.report.figures import ReportSource
    from accous.report.page import render_page

    assert race.model is not None
    assert race.history is not None
    settings = {"stream": repr(race.stream), "rounds": f"{race.stream.n_rounds:,}"}
    return render_page(ReportSource("accous demo", race.model.snapshot(), race.history, settings))


def _warn(message: str) -> None:
    typer.echo(message, err=True)


# --- The race: five classifiers follow one simulated stream and are scored exactly


FIXED, SINGLE, ACCOUS, ORACLE = "fixed model", "single learner", "accous", "oracle"
ONE_STEP = "one batch at a time"  # by logistic regression, the best of the one-step estimators on these streams

_SWITCHES = 20  # enough for a learner that forgets nothing to fall behind, few enough to see each one
_SMALLEST_GAP = 0.001  # in error; below, shares of it say nothing


@dataclass(frozen=True)
class Race:
    """The exact error of every contender in every round, before it learned from that round.

    Attributes
    ----------
    stream : GaussianStream
    errors : dict of str to array of shape (n_rounds,)
        In the order of the table.
    model : AdaptiveClassifier, optional
        Accous after the last round.
    history : History, optional
        Its rounds, for the report.
    """

    stream: GaussianStream
    errors: dict[str, FloatArray]
    model: AdaptiveClassifier | None = None
    history: History | None = None

    def mean_error(self, name: str) -> float:
        """Mean error over all rounds."""
        return float(self.errors[name].mean())

    def gap_closed(self, name: str) -> float | None:
        """Share of the way from the fixed model to the oracle; None where the two are as good as equal."""
        gap = self.mean_error(FIXED) - self.mean_error(ORACLE)
        return (self.mean_error(FIXED) - self.mean_error(name)) / gap if gap > _SMALLEST_GAP else None

    def finding(self) -> str:
        """What was seen, in plain words."""
        share, fixed, ours = self.gap_closed(ACCOUS), self.mean_error(FIXED), self.mean_error(ACCOUS)
        if share is None:
            return "The fixed model is as good as the oracle on this stream: there is nothing to gain by adapting."
        found = f"The fixed model errs on {fixed:.1%} of the rows, accous on {ours:.1%}"
        if fixed - ours < _SMALLEST_GAP:
            return f"{found}: adapting did not help on this stream."
        # The oracle has few reference rows of the rare population to learn from, so another classifier can beat it.
        return f"{found}: it closed {share:.0%} of the gap to the oracle, without a label."


def make_stream(shift: str, *, n_rounds: int, batch_size: int, seed: int) -> GaussianStream:
    """Make a stream that drifts back and forth about ten times, whatever the number of rounds."""
    from accous.streams import BernoulliShift, GaussianStream, LinearShift, Shift, SineShift, SquareShift

    shifts: dict[str, Shift] = {
        "lin": LinearShift(),
        "squ": SquareShift(period=max(1, n_rounds // _SWITCHES)),
        "sin": SineShift(period=max(2, 2 * n_rounds // _SWITCHES)),
        "ber": BernoulliShift(flip=min(1.0, _SWITCHES / n_rounds)),
    }
    return GaussianStream(shifts[shift], n_rounds=n_rounds, batch_size=batch_size, random_state=seed)


def run_race(stream: GaussianStream, on_progress: Callable[[float], None] = lambda _: None) -> Race:
    """Run the contenders on the stream.

    Parameters
    ----------
    stream : GaussianStream
    on_progress : callable, optional
        Called after every round with the share of the rounds that are done.
    """
    import numpy as np

    from accous.model.estimators import AdaptiveClassifier
    from accous.model.predictors import LogisticErm
    from accous.ratio.one_step import LogisticRatio
    from accous.ratio.online import NoShift, SingleLearnerRatio
    from accous.table.history import History

    X_reference, y_reference = stream.reference()
    models = {
        FIXED: AdaptiveClassifier(ratio=NoShift(), standardize=False),
        ONE_STEP: AdaptiveClassifier(ratio=LogisticRatio(random_state=0), standardize=False),
        SINGLE: AdaptiveClassifier(ratio=SingleLearnerRatio(), standardize=False),
        ACCOUS: AdaptiveClassifier(standardize=False),
    }
    for model in models.values():
        model.fit(X_reference, y_reference)
    classes, labels = np.unique(y_reference, return_inverse=True)
    erm, history = LogisticErm(X_reference, labels, classes, 1.0), History()

    @lru_cache(maxsize=1)  # most streams stay for a while
    def oracle(alpha: float) -> LinearPredictor:
        """Return the regression weighted with the true ratio, which is unknown in practice."""
        ratio = stream.reference_ratio(alpha)
        return erm.fit(ratio / ratio.mean(), None)

    errors = {name: np.empty(len(stream)) for name in (*models, ORACLE)}
    for batch in stream:
        n_wrong = [int((models[name].predict(batch.X) != batch.y).sum()) for name in (FIXED, ACCOUS)]
        for name, model in models.items():
            if name == ONE_STEP:  # knows nothing but the batch at hand, so it has to learn from it first
                model.adapt(batch.X)
            errors[name][batch.round - 1] = stream.risk(model.estimator_, batch.alpha)
            if name != ONE_STEP:
                model.adapt(batch.X)
        errors[ORACLE][batch.round - 1] = stream.risk(oracle(batch.alpha), batch.alpha)
        history.add(models[ACCOUS], len(batch.X), len(batch.X), *n_wrong)
        on_progress(batch.round / len(stream))
    return Race(stream, errors, models[ACCOUS], history)


# --- The picture: error over time, with the drift behind it


_SMOOTHED_ROUNDS = 20
# Okabe and Ito's colours, told apart with any kind of colour vision. The thin lines lie on the thick ones.
FIXED_COLOUR, ACCOUS_COLOUR, _SHADE = "#D55E00", "#0072B2", "#EBE6D8"
_STYLES: dict[str, dict[str, Any]] = {
    FIXED: {"color": FIXED_COLOUR, "linewidth": 2.4},
    SINGLE: {"color": "#56B4E9", "linewidth": 1.3, "zorder": 4},
    ACCOUS: {"color": ACCOUS_COLOUR, "linewidth": 3.2, "zorder": 3},
    ORACLE: {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 3)), "zorder": 5},
}


def draw_race(race: Race, image_format: str) -> bytes:
    """Draw the errors over time, smoothed, as a "png", "svg" or "pdf" file; the line of the fifth would hide others."""
    import numpy as np
    import polars as pl
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure, rounds = Figure(figsize=(11, 5), layout="constrained", dpi=150), np.arange(1, len(race.stream) + 1)
    axes = figure.subplots()
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "step": "mid", "color": _SHADE, "linewidth": 0.0}
    axes.fill_between(rounds, 0.0, 1.0 - race.stream.alphas, **place)
    for name, style in _STYLES.items():
        smooth = pl.Series(race.errors[name]).rolling_mean(_SMOOTHED_ROUNDS, min_samples=1)
        axes.plot(rounds, smooth, label=f"{name} {race.mean_error(name):.1%}", **style)
    axes.set_title(
        f"Shaded: rows of a kind that makes up only {1.0 - race.stream.alpha_0:.0%} of the labelled reference"
    )
    axes.set_xlabel(f"round (mean of {_SMOOTHED_ROUNDS})")
    axes.set_ylabel("share of rows classified wrongly")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(title="mean error over all rounds", loc="outside lower center", ncols=4, frameon=False)
    content = BytesIO()
    figure.savefig(content, format=image_format)
    return content.getvalue()


# --- The stream as two CSV files, to try the other commands on


_BATCHES_A_DAY = 24


def write_demo_tables(stream: GaussianStream, folder: Path) -> tuple[Path, Path]:
    """Write ``reference.csv`` and ``stream.csv``, both with labels; files that are there already are left alone."""
    import numpy as np
    import polars as pl

    batches = list(stream)
    rows, labels = np.vstack([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    days = np.repeat([batch.round // _BATCHES_A_DAY for batch in batches], [len(batch.X) for batch in batches])
    dated = _frame(rows, labels).insert_column(0, pl.Series("day", np.datetime64("2026-01-01") + days))
    reference, following = write_new(folder, {"reference.csv": _frame(*stream.reference()), "stream.csv": dated})
    return reference, following


def write_new(folder: Path, tables: dict[str, pl.DataFrame]) -> list[Path]:
    """Write tables to a folder by their names, and return their paths; files that are there already are left alone."""
    for name in tables:
        if (folder / name).exists():
            raise DataError(f"{folder / name} already exists: give another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            table.write_csv(folder / name)
    except OSError as error:
        raise DataError(f"{folder} cannot be written to: {error.strerror or error}.") from None
    return [folder / name for name in tables]


def _frame(X: NDArray[np.float64], y: NDArray[Any]) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    columns: dict[str, Any] = {f"x{number}": X[:, number - 1].round(6) for number in range(1, X.shape[1] + 1)}
    return pl.DataFrame(columns | {"label": np.where(np.asarray(y) > 0, "yes", "no")})
