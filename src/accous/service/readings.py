"""What people look at, computed on a timer from a copy of the model and never by a request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from accous.report.page.page import render_page
from accous.report.page.words import Subject, subject_of_pipeline
from accous.service.page_view import page_view
from accous.table.history import COUNTS, MEANS
from accous.table.model import TableModel
from accous.table.summary import summarize_table_model
from accous.text import LOGGER

__all__ = ["Reading", "ReadingTimer"]

# A reading costs as much as tens of rounds: it takes at most a twentieth of the time.
_FEWEST_LABELS = 10  # fewer say nothing
_LEAST_SECONDS, _SHARE_OF_TIME = 1.0, 20.0


@dataclass(eq=False)
class Reading:
    """The model after some record of the log, and what it says of itself.

    Attributes
    ----------
    n_records : int
        The last record that it contains.
    subject : Subject
        A copy of the model that does not change.
    state : dict
        What ``accous inspect --json`` prints.
    view : bytes
        What the page shows, in JSON.
    """

    n_records: int
    subject: Subject
    state: dict[str, Any]
    view: bytes
    _report: str | None = field(default=None, repr=False)
    _turn: Any = field(default_factory=threading.Lock, repr=False)

    def report(self) -> str:
        """Return the HTML report, made when it is first asked for."""
        with self._turn:
            if self._report is None:
                self._report = render_page(self.subject)
            return self._report

    def trust(self) -> dict[str, Any]:
        """Return the three answers and the verdict."""
        state = self.state
        content = {"rounds": state["rounds"], "verdict": state["trust"], "reason": state["trust_reason"]}
        for name in ("inputs", "adaptation", "predictions"):
            content[name] = {"answer": state[f"trust_{name}"], "sentence": state["sentences"][name]}
        return content | {"findings": state["findings"]}

    def history(self, since: int) -> dict[str, Any]:
        """Return the points of the history that end after a round, and the changes after it."""
        history = self.subject.history
        is_wanted = history.rounds > since
        points = {name: _plain(history.column(name)[is_wanted]) for name in (*COUNTS, *MEANS)}
        changes = [
            {"round": event.round, "kind": event.kind, "columns": list(event.features), "size": event.size}
            for event in self.subject.events
            if event.round > since
        ]
        rounds = history.rounds[is_wanted].tolist()
        return {"rounds": self.state["rounds"], "stride": history.stride, "round": rounds, **points, "drift": changes}


class ReadingTimer:
    """Takes readings while there is something new.

    Parameters
    ----------
    table_model : TableModel
    name : str
        Of the model, for people.
    n_records : callable
        Returns the number of the last record that the model contains.
    measured : list
        What late labels had measured by some rounds; readings add to it.
    on_reading : callable
        Called with each new reading and the one before, in the timer's thread.
    """

    def __init__(
        self,
        *,
        table_model: TableModel,
        name: str,
        n_records: Callable[[], int],
        measured: list[list[float]],
        on_reading: Callable[[Reading, Reading | None], None],
    ) -> None:
        self._table_model, self._name, self._n_records = table_model, name, n_records
        self._measured, self._on_reading = measured, on_reading
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="readings", daemon=True)
        self.latest = self._read(None)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the reading that is being taken."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        next_at = 0.0
        while not self._is_stopping.wait(_LEAST_SECONDS):
            try:
                self._read_due()
                began = time.monotonic()
                if began >= next_at and self._n_records() != self.latest.n_records:
                    self.latest = self._read(self.latest)
                    next_at = began + _SHARE_OF_TIME * (time.monotonic() - began)
            except Exception:
                LOGGER.exception("A reading of the model failed")

    def _read_due(self) -> None:
        """Read what the rounds have left to read, while the learner goes on."""
        with self._table_model.turn():
            due = self._table_model.history.due
        for each in due:
            each.read()

    def _read(self, before: Reading | None) -> Reading:
        with self._table_model.turn():
            # A record counts after its round: at worst there is one more reading.
            n_records, twin = self._n_records(), self._table_model.aside()
        state = summarize_table_model(twin)["state"]
        self._note_measured(state)
        subject = subject_of_pipeline(twin, self._name)
        view = page_view(subject, state, self._measured, n_records)
        reading = Reading(n_records, subject, state, msgspec.json.encode(view))
        self._on_reading(reading, before)
        return reading

    def _note_measured(self, state: dict[str, Any]) -> None:
        """Note what labels have measured; when there are too many notes, every other one goes."""
        is_new = state.get("measured_error") is not None and not state["labels_outdated"]
        if not is_new or state["labelled_rows"] < _FEWEST_LABELS:
            return
        names = ("measured_error", "measured_error_low", "measured_error_high", "labelled_rows")
        note = [float(state["rounds"]), *(float(state[name]) for name in names)]
        if not self._measured or self._measured[-1][4] != note[4]:
            self._measured.append(note)
        if len(self._measured) > 128:
            del self._measured[:-1:2]


def _plain(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
