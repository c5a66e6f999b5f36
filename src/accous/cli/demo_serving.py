"""``accous demo --serve``: a server with the demo's model, to which the demo's stream is replayed live."""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import webbrowser
from collections import deque
from pathlib import Path
from typing import Any

import polars as pl
import typer

from accous.cli.compiling import compile_with_notice
from accous.cli.demo_race import make_stream
from accous.cli.demo_tables import write_demo_tables
from accous.cli.options import remarks_console
from accous.exceptions import ParameterError
from accous.table.fit import FitJob, FitRequest
from accous.text import import_extra

__all__ = ["serve_demo"]

# Labels of one round in five arrive, fifty rounds late.
_LABELLED, _LATE = 5, 50


def serve_demo(shift: str, *, n_rounds: int, batch_size: int, seed: int, port: int, pace: float) -> int:
    """Fit the demo's model, serve it, replay the stream, and open the page; return the exit code at Ctrl-C.

    Parameters
    ----------
    shift : str
        How the inputs drift.
    n_rounds, batch_size, seed : int
        Of the stream.
    port : int
    pace : float
        Rounds a second.
    """
    if not 0.1 <= pace <= 10_000:
        raise ParameterError(f"--pace must be between 0.1 and 10000, got {pace}.")
    serving = import_extra("accous.service.server", "accous demo --serve")
    remarks, is_over = remarks_console(quiet=False), threading.Event()
    compile_with_notice(remarks)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stream = make_stream(shift, n_rounds=n_rounds, batch_size=batch_size, seed=seed)
        reference, rows = write_demo_tables(stream, folder)
        with remarks.status("Fitting"):
            request = FitRequest(reference=str(reference), label="label", folder=folder / "demo", is_ordered=False)
            FitJob(request).fit_and_save()
        replay = _Replay(pl.read_csv(rows).drop("day"), batch_size, pace, is_over)

        def begin(_owned: Any, addresses: list[str]) -> None:
            typer.echo(f"The live page: {addresses[0]} (Ctrl-C ends the demo)")
            replay.start(addresses[0])
            webbrowser.open(addresses[0])

        try:
            serving.serve(serving.Settings(model=folder / "demo", port=port), begin)
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
        self._waiting: deque[list[dict[str, Any]]] = deque()
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self, address: str) -> None:
        """Begin to send."""
        self._connection = http.client.HTTPConnection(address.removeprefix("http://"))
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        size = self._batch_size
        try:
            for number, start in enumerate(range(0, len(self._rows), size)):
                ids = self._send("/v1/step", {"rows": self._rows[start : start + size]})["ids"]
                labels = self._labels[start : start + size]
                found = [{"id": one, "label": label} for one, label in zip(ids, labels, strict=True)]
                self._waiting.append(found if number % _LABELLED == 0 else [])
                if len(self._waiting) > _LATE:
                    self._send_labels()
                if self._is_over.wait(1.0 / self._pace):
                    return
            while self._waiting and not self._is_over.wait(1.0 / self._pace):
                self._send_labels()
        except (OSError, http.client.HTTPException, KeyError):
            self._is_over.set()  # the server has ended

    def _send_labels(self) -> None:
        """Send the labels of the round that waits the longest, if they are among those that arrive."""
        if late := self._waiting.popleft():
            self._send("/v1/labels", {"labels": late})

    def _send(self, path: str, content: Any) -> Any:
        self._connection.request("POST", path, json.dumps(content), {"Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())
