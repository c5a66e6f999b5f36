"""``accous demo --simulated`` and ``--serve``: five classifiers follow a stream whose answers are known exactly."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import announcing_compilation, remarks_console, results_console, say
from accous.cli.status import write_page
from accous.exceptions import DataError, ParameterError
from accous.table.options import FitOptions, ServeOptions
from accous.text import ProgressBar, count, import_extra

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from rich.console import Console

    from accous.arrays import FloatArray, IntArray
    from accous.cli.demo import DemoOptions
    from accous.model.estimators import AdaptiveClassifier
    from accous.model.predictors import LinearPredictor
    from accous.streams import Batch, GaussianStream
    from accous.table.history import History


def demo(options: DemoOptions, remarks: Console) -> int:
    """Follow a simulated stream with five classifiers, and write a table, a picture and a report.

    Each classifier is fitted on a labelled reference. Then unlabelled batches arrive, and their distribution drifts.
    The demo compares a model that never changes, one that adapts to one batch at a time (the best one-step method),
    one that adapts with a single learner, accous, and an oracle that knows the drift. It takes about twenty seconds.
    """
    stream = _stream(options)
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


def _stream(options: DemoOptions) -> GaussianStream:
    return make_stream(options.shift, n_rounds=options.rounds, batch_size=options.batch_size, seed=options.seed)


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
_CLEAR_DIFFERENCE = 0.001
_LATE_ROWS = 50  # labels that the model gets at a time


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

    @cached_property
    def is_rare(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Rounds in which most rows come from the population that is rare in the reference."""
        return self.stream.alphas < 0.5

    def mean_error(self, name: str) -> float:
        """Mean error over all rounds."""
        return float(self.errors[name].mean())

    def rare_error(self, name: str) -> float | None:
        """Mean error over the rounds of the rare population; None where there is no such round."""
        return float(self.errors[name][self.is_rare].mean()) if self.is_rare.any() else None

    def gap_closed(self, name: str) -> float | None:
        """Share of the way from the fixed model to the oracle; None where the two are as good as equal."""
        gap = self.mean_error(FIXED) - self.mean_error(ORACLE)
        return (self.mean_error(FIXED) - self.mean_error(name)) / gap if gap > _SMALLEST_GAP else None

    def headline(self) -> str:
        """What was seen, in a line."""
        fixed, ours = self.rare_error(FIXED), self.rare_error(ACCOUS)
        if fixed is None or ours is None:
            fixed, ours = self.mean_error(FIXED), self.mean_error(ACCOUS)
            return f"Without drift, the fixed model errs on {fixed:.0%} of the rows, accous on {ours:.0%}"
        return f"When the inputs drift, the fixed model errs on {fixed:.0%} of the rows, accous on {ours:.0%}"

    def finding(self) -> str:
        """What was seen, in plain words."""
        share, fixed, ours = self.gap_closed(ACCOUS), self.mean_error(FIXED), self.mean_error(ACCOUS)
        if share is None:
            return "The fixed model is as good as the oracle on this stream: there is nothing to gain by adapting."
        if fixed - ours < _CLEAR_DIFFERENCE:
            return f"Adapting did not help on this stream: accous errs on {ours:.1%}, the fixed model on {fixed:.1%}."
        overall = f"Over all rounds accous closed {share:.0%} of the gap to the oracle, without a label."
        return f"{self.headline()}. {overall} {self._compare_with_single()}"

    def _compare_with_single(self) -> str:
        lead = self.mean_error(SINGLE) - self.mean_error(ACCOUS)
        if abs(lead) < _CLEAR_DIFFERENCE:
            return "One learner over the whole history does as well on this stream."
        verdict = "more" if lead > 0 else "fewer"
        return f"One learner over the whole history makes {100 * abs(lead):.1f} points {verdict} errors."


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
    late = _LateLabels(models[ACCOUS])
    for batch in stream:
        predicted = {name: models[name].predict(batch.X) for name in (FIXED, ACCOUS)}
        is_wrong = [predicted[name] != batch.y for name in (FIXED, ACCOUS)]
        for name, model in models.items():
            if name == ONE_STEP:  # knows nothing but the batch at hand, so it has to learn from it first
                model.adapt(batch.X)
            errors[name][batch.round - 1] = stream.risk(model.estimator_, batch.alpha)
            if name != ONE_STEP:
                model.adapt(batch.X)
        errors[ORACLE][batch.round - 1] = stream.risk(oracle(batch.alpha), batch.alpha)
        late.add(batch, predicted[ACCOUS])
        history.add(models[ACCOUS], len(batch.X), len(batch.X), *(int(wrong.sum()) for wrong in is_wrong))
        on_progress(batch.round / len(stream))
    late.pass_on()
    return Race(stream, errors, models[ACCOUS], history)


class _LateLabels:
    """Passes the labels of the stream to the model in blocks, after it has predicted: it measures with them."""

    def __init__(self, model: AdaptiveClassifier) -> None:
        self._model = model
        self._pending: list[tuple[NDArray[Any], ...]] = []

    def add(self, batch: Batch, predicted: NDArray[Any]) -> None:
        """Keep the labels of a batch, with what was predicted for its rows."""
        self._pending.append((batch.X, batch.y, predicted))
        if sum(len(rows) for rows, *_ in self._pending) >= _LATE_ROWS:
            self.pass_on()

    def pass_on(self) -> None:
        """Pass what is pending to the model."""
        import numpy as np

        if self._pending:
            X, y, predicted = map(np.concatenate, zip(*self._pending, strict=True))
            self._model.observe(X, y, predicted=predicted, probability=1.0, learn=False)
            self._pending = []


# --- The picture: error over time, with the drift behind it


_SMOOTHED_ROUNDS = 20
_ROUNDS_AFTER_JUMP = 30
# Okabe and Ito's colours, told apart with any kind of colour vision. The thin lines lie on the thick ones.
FIXED_COLOUR, ACCOUS_COLOUR, _SHADE = "#D55E00", "#0072B2", "#EBE6D8"
_STYLES: dict[str, dict[str, Any]] = {
    FIXED: {"color": FIXED_COLOUR, "linewidth": 2.4},
    SINGLE: {"color": "#56B4E9", "linewidth": 1.3, "zorder": 4},
    ACCOUS: {"color": ACCOUS_COLOUR, "linewidth": 3.2, "zorder": 3},
    ORACLE: {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 3)), "zorder": 5},
}


def draw_race(race: Race, image_format: str) -> bytes:
    """Draw the errors over time and, where the stream jumps, the rounds after a jump.

    Parameters
    ----------
    race : Race
    image_format : str
        ``"png"``, ``"svg"`` or ``"pdf"``.

    Returns
    -------
    bytes
        The file's content.
    """
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained", dpi=150)
    jumps = _jump_indices(race)
    ratios = [3.2, 1.0] if len(jumps) else [1.0]
    panels = np.ravel(figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios))
    _draw_all_rounds(panels[0], race)
    if len(jumps):
        _draw_after_jumps(panels[1], race, jumps)
    _set_limits(panels[0], race)
    figure.suptitle(race.headline(), x=0.01, ha="left", fontsize=15, fontweight="bold")
    handles, labels = panels[0].get_legend_handles_labels()
    title = "mean error over all rounds"
    figure.legend(handles, labels, title=title, loc="outside lower center", ncols=4, frameon=False, fontsize=11)
    content = BytesIO()
    figure.savefig(content, format=image_format)
    return content.getvalue()


def _draw_all_rounds(axes: Axes, race: Race) -> None:
    import numpy as np
    import polars as pl
    from matplotlib.ticker import MultipleLocator, PercentFormatter

    n_rounds = len(race.stream)
    _shade(axes, 1.0 - race.stream.alphas, 1)
    for name, errors in _drawn(race).items():
        rounds, style = np.arange(1, n_rounds + 1), _STYLES[name]
        label = f"{name} {race.mean_error(name):.1%}"
        if name in (SINGLE, ACCOUS):  # the errors of the others move with the stream alone: nothing to smooth
            axes.plot(rounds, errors, color=style["color"], linewidth=0.8, alpha=0.35)
            errors = pl.Series(errors).rolling_mean(_SMOOTHED_ROUNDS, min_samples=1).to_numpy()
        axes.plot(rounds, errors, label=label, **style)
    rare_share, n_rows = 1.0 - race.stream.alpha_0, race.stream.batch_size
    title = f"Shaded: rows of a kind that makes up only {rare_share:.0%} of the labelled reference"
    axes.set_title(title, loc="left", fontsize=11)
    rows = "one unlabelled row" if n_rows == 1 else f"{n_rows} unlabelled rows"
    axes.set_xlabel(f"round, of {rows} (faint: each round; bold: mean of {_SMOOTHED_ROUNDS})")
    axes.set_ylabel("share of rows classified wrongly")
    axes.yaxis.set_major_locator(MultipleLocator(0.05))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_after_jumps(axes: Axes, race: Race, jumps: IntArray) -> None:
    """Draw the mean over all jumps, round by round: here smoothing would hide how soon the errors fall."""
    import numpy as np

    offsets = np.arange(_ROUNDS_AFTER_JUMP)
    _shade(axes, np.ones(len(offsets)), 0)
    for name, errors in _drawn(race).items():
        axes.plot(offsets, errors[jumps[:, None] + offsets].mean(axis=0), **_STYLES[name])
    axes.set_title("Right after a jump", loc="left", fontsize=11)
    axes.set_xlabel(f"rounds since (mean of {len(jumps)} jumps)" if len(jumps) > 1 else "rounds since")
    axes.spines[["top", "right"]].set_visible(False)


def _drawn(race: Race) -> dict[str, FloatArray]:
    """Errors of the contenders that are drawn: a line that jumps with every batch would hide the others."""
    return {name: errors for name, errors in race.errors.items() if name in _STYLES}


def _jump_indices(race: Race) -> IntArray:
    """Rounds, counted from 0, from which on enough rounds are of nothing but the rare population."""
    import numpy as np

    alphas = race.stream.alphas
    starts = np.flatnonzero((alphas[1:] == 0.0) & (alphas[:-1] == 1.0)) + 1
    is_long = [not alphas[start : start + _ROUNDS_AFTER_JUMP].any() for start in starts]
    is_inside = starts + _ROUNDS_AFTER_JUMP <= len(alphas)
    return np.asarray(starts[np.array(is_long, dtype=bool) & is_inside])


def _shade(axes: Axes, rare_shares: FloatArray, first: int) -> None:
    """Shade each round by the share of the rare population in it."""
    from matplotlib.colors import LinearSegmentedColormap

    edges = (first - 0.5, first + len(rare_shares) - 0.5)
    axes.imshow(
        rare_shares[None, :],
        extent=(*edges, 0.0, 1.0),
        transform=axes.get_xaxis_transform(),
        aspect="auto",
        interpolation="nearest",
        cmap=LinearSegmentedColormap.from_list("shade", ["white", _SHADE]),
        vmin=0.0,
        vmax=1.0,
    )
    axes.set_xlim(*edges)


def _set_limits(axes: Axes, race: Race) -> None:
    """Show the range of the errors: the image behind them would ask for 0 to 1."""
    import numpy as np

    everything = np.concatenate(list(_drawn(race).values()))
    margin = 0.08 * (everything.max() - everything.min()) + 0.005
    axes.set_ylim(everything.min() - margin, everything.max() + margin)


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


# --- A server with the demo's model, to which the demo's stream is replayed live


# Labels of one round in five arrive, fifty rounds late.
_LABELLED, _LATE = 5, 50


def serve(options: DemoOptions) -> int:
    """Fit the demo's model, serve it, replay the stream, and open the page; return the exit code at Ctrl-C."""
    if not 0.1 <= options.pace <= 10_000:
        raise ParameterError(f"--pace must be between 0.1 and 10000, got {options.pace}.")
    serving = import_extra("accous.service.server", "accous demo --serve")
    import tempfile
    import webbrowser

    import polars as pl

    from accous.table.fit import FitJob

    remarks, is_over = remarks_console(quiet=False), threading.Event()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        reference, rows = write_demo_tables(_stream(options), folder)
        with announcing_compilation(remarks), remarks.status("Fitting"):
            fitting = FitOptions(
                reference=str(reference),
                label="label",
                output=folder / "demo",
                ordered=False,
                estimator="linear",
                refit_budget=None,
            )
            FitJob(fitting).fit_and_save()
        replay = _Replay(pl.read_csv(rows).drop("day"), options.batch_size, options.pace, is_over)

        def begin(_owned: Any, addresses: list[str]) -> None:
            typer.echo(f"The live page: {addresses[0]} (Ctrl-C ends the demo)")
            replay.start(addresses[0])
            webbrowser.open(addresses[0])

        try:
            serving.serve(ServeOptions(model=folder / "demo", port=options.port), begin)
        finally:
            replay.stop()
    return 0


class _Replay:
    """Sends a stream round by round over HTTP, and some of its labels later.

    Parameters
    ----------
    table : polars.DataFrame
        The rows, with labels.
    batch_size : int
    pace : float
        Rounds a second.
    is_over : threading.Event
        Ends the replay.
    """

    def __init__(self, table: pl.DataFrame, batch_size: int, pace: float, is_over: threading.Event) -> None:
        self._labels, self._rows = table["label"].to_list(), table.drop("label").to_dicts()
        self._batch_size, self._pace, self._is_over = batch_size, pace, is_over
        self._pending: deque[list[dict[str, Any]]] = deque()
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self, address: str) -> None:
        """Begin to send."""
        import http.client

        self._connection = http.client.HTTPConnection(address.removeprefix("http://"))
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        import http.client

        size = self._batch_size
        try:
            for number, start in enumerate(range(0, len(self._rows), size)):
                ids = self._send("/v1/step", {"rows": self._rows[start : start + size]})["ids"]
                labels = self._labels[start : start + size]
                found = [{"id": one, "label": label} for one, label in zip(ids, labels, strict=True)]
                self._pending.append(found if number % _LABELLED == 0 else [])
                if len(self._pending) > _LATE:
                    self._send_labels()
                if self._is_over.wait(1.0 / self._pace):
                    return
            while self._pending and not self._is_over.wait(1.0 / self._pace):
                self._send_labels()
        except (OSError, http.client.HTTPException, KeyError):
            self._is_over.set()  # the server has ended

    def _send_labels(self) -> None:
        """Send the labels of the oldest round that is pending, if they are among those that arrive."""
        if late := self._pending.popleft():
            self._send("/v1/labels", {"labels": late})

    def _send(self, path: str, content: Any) -> Any:
        self._connection.request("POST", path, json.dumps(content), {"Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())
