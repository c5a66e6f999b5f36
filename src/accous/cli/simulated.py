"""The simulated stream of ``accous demo``: as tables, and as rows that a server of ``--serve`` gets live."""

from __future__ import annotations

import json
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import announcing_compilation, remarks_console
from accous.exceptions import DataError, ParameterError
from accous.table.options import FitOptions, ServeOptions
from accous.text import import_extra

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from accous.cli.demo import DemoOptions
    from accous.streams import GaussianStream

_SWITCHES = 20  # enough for a learner that forgets nothing to fall behind, few enough to see each one


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


# --- The stream as two CSV files, to try the other commands on


_BATCHES_A_DAY = 24


def write_stream(options: DemoOptions, folder: Path) -> tuple[Path, Path]:
    """Write ``reference.csv`` and ``stream.csv``, both with labels; files that are there already are left alone."""
    import numpy as np
    import polars as pl

    stream = make_stream(options.shift, n_rounds=options.rounds, batch_size=options.batch_size, seed=options.seed)
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
        reference, rows = write_stream(options, folder)
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
