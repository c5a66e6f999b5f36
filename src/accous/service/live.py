"""What people and Prometheus look at: readings on a timer, the live page, events, metrics."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from accous.diagnostics.status import DEGRADED, HEALTHY, UNCERTAIN, Action
from accous.exceptions import AccousError
from accous.report.figures import ReportSource, headline, headline_notes, performance_figure, report_source
from accous.report.page import NOTES, TONES, event_rows, learned_rows, render_page, tile_rows
from accous.service.bodies import HttpError
from accous.table.history import COUNTS, MEANS
from accous.table.model import TableModel
from accous.text import LOGGER

# --- What Prometheus can read: counts and times of requests, rounds and saves, and what the model says of
#     itself


_FAST = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a third of the lines, which nobody reads
        registry = self._registry = CollectorRegistry()

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"accous_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"accous_{name}", text, labels, registry=registry)

        def times(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"accous_{name}", text, labels, registry=registry, buckets=_FAST)

        self.requests = count("requests", "Requests answered, by endpoint and status.", "endpoint", "status")
        self.request_seconds = times("request_seconds", "Time to answer a request.", "endpoint")
        self.predicted_rows = count("predicted_rows", "Rows predicted without learning.")
        self.learned_rows = count("learned_rows", "Rows learned from since the start.")
        self.labels = count("labels", "Labels counted since the start.")
        self.refused_batches = count("refused_batches", "Batches refused because the queue was full.")
        self.sync_seconds = times("log_sync_seconds", "Time to write and sync a group of batches.")
        self.learn_seconds = times("learn_seconds", "Time to learn from a batch.")
        self.save_seconds = times("save_seconds", "Time to save the model and start the log again.")
        self.log_failures = count("log_failures", "Groups of batches that could not be written to disk.")
        self.save_failures = count("save_failures", "Saves that failed; the log still has their batches.")
        self.rounds = gauge("rounds", "Rounds that the model has learned from.")
        self.rows = gauge("rows", "Rows of all rounds.")
        self.queue = gauge("queue_depth", "Batches that wait for the learner.")
        self.streams = gauge("event_streams", "Open streams of events.")
        self._effective = gauge("effective_rows", "Reference rows that carry the weight.")
        self._outside = gauge("outside_share", "Share of recent rows unlike any row of the reference.")
        self._drift = gauge("last_drift_round", "Round of the last change of the inputs.")
        self._state = gauge("state", "1 for the state that holds now.", "state")
        self._alarm = gauge("alarm", "1 from the moment the alarm has gone off.")
        self._values = {
            name: gauge(f"metric_{name}", text, "metric", "basis")
            for name, text in (
                ("value", "The model's metric on recent rows, by labels or expected from inputs."),
                ("low", "Lower end of its interval of 90 %."),
                ("high", "Upper end of its interval of 90 %."),
                ("at_fit", "The same metric on held-out rows of the reference."),
            )
        }

    def take_state(self, state: dict[str, Any]) -> None:
        """Show what ``/v1/state`` says; what it does not say is not there."""
        self._effective.set(state["effective_rows"])
        self._alarm.set(float(state["alarm"]))
        for gauge, value in ((self._outside, state["drift"]["outside"]), (self._drift, state["last_drift_round"])):
            gauge.set(float("nan") if value is None else value)
        self._state.clear()
        if state["state"] is not None:
            for each in (HEALTHY, DEGRADED, UNCERTAIN):
                self._state.labels(each).set(float(each == state["state"]))
        for name, gauge in self._values.items():
            gauge.clear()
            if state[name] is not None:
                gauge.labels(state["metric"], state["basis"]).set(state[name])

    def exposition(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        found: bytes = generate_latest(self._registry)
        return found


# --- What the live page shows, as plain values: the verdict first, then numbers, charts and changes


_MOST_MOVED = 10
_NOTHING = "\N{EN DASH}"


def page_view(source: ReportSource, state: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows; before the first row nothing is judged.

    Parameters
    ----------
    source : ReportSource
    state : dict
        What ``/v1/state`` returns.
    """
    drift, advice, is_empty = state["drift"], state["advice"], source.is_empty
    headings, rows = event_rows(source)
    return {
        "name": state["name"],
        "rounds": state["rounds"],
        "rows": state["rows"],
        "reference_rows": state["reference_rows"],
        "state": "no rows yet" if is_empty else state["state"],
        "tone": "none" if is_empty else TONES[state["state"]],
        "headline": headline(source),
        "notes": headline_notes(source),
        "alarm": f"Alarm since round {state['alarm_since']:,}." if state["alarm"] else "",
        "reasons": [] if is_empty else [each["text"] for each in state["reasons"]],
        "advice": "Send rows to /v1/step." if is_empty else advice["text"] + _ADDRESSES.get(advice["code"], ""),
        "tiles": [{"name": name, "value": value, "note": note} for name, value, note in tile_rows(source)],
        "chart": performance_figure(source),
        "chart_note": NOTES["performance"],
        "moved": [
            [each["name"], f"{each['share']:.0%}", _said(each["then"]), _said(each["now"])]
            for each in drift["columns"][:_MOST_MOVED]
        ],
        "changes": {"headings": headings, "rows": rows, "all": len(drift["events"])},
        "learned": dict(zip(("headings", "rows"), learned_rows(source), strict=True)) | {"note": NOTES["learned"]},
        "findings": state["findings"],
    }


# Where the command line has a command, the service has an address.
_ADDRESSES = {Action.LABEL: " Ask /v1/ask which, and send their labels to /v1/labels."}


def _said(value: float | str | None) -> str:
    return _NOTHING if value is None else f"{value:,.4g}" if isinstance(value, float) else value


# --- What people look at, computed on a timer from a copy of the model and never by a request


# A reading costs as much as tens of rounds: it takes at most a twentieth of the time.
_LEAST_SECONDS, _SHARE_OF_TIME = 1.0, 20.0


@dataclass(eq=False)
class Reading:
    """The model after some record of the log, and what it says of itself.

    Attributes
    ----------
    n_records : int
        The last record that it contains.
    source : ReportSource
        A copy of the model that does not change.
    state : dict
        What ``/v1/state`` returns.
    view : dict
        What the page shows.
    """

    n_records: int
    source: ReportSource
    state: dict[str, Any]
    view: dict[str, Any]

    @cached_property
    def report(self) -> str:
        """The HTML report, made when it is first asked for."""
        return render_page(self.source)

    def state_by(self, column: str) -> dict[str, Any]:
        """Return ``state`` with segments by a column, the worst first."""
        try:
            return self.state | {"segments": self.source.snapshot.to_json(by=column)["segments"]}
        except AccousError as error:
            raise HttpError(422, "invalid", str(error)) from None

    def history(self, since: int) -> dict[str, Any]:
        """Return the points of the history that end after a round, and the changes after it."""
        history = self.source.history
        is_wanted = history.rounds > since
        points = {name: _plain(history.column(name)[is_wanted]) for name in (*COUNTS, *MEANS)}
        changes = [each for each in self.state["drift"]["events"] if each["round"] > since]
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
    on_reading : callable
        Called with each new reading and the one before, in the timer's thread.
    """

    def __init__(
        self, table_model: TableModel, name: str, n_records: Callable[[], int],
        on_reading: Callable[[Reading, Reading | None], None],
    ) -> None:  # fmt: skip
        self._table_model, self._name, self._n_records, self._on_reading = table_model, name, n_records, on_reading
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
                began = time.monotonic()
                if began >= next_at and self._n_records() != self.latest.n_records:
                    self.latest = self._read(self.latest)
                    next_at = began + _SHARE_OF_TIME * (time.monotonic() - began)
            except Exception:
                LOGGER.exception("A reading of the model failed")

    def _read(self, before: Reading | None) -> Reading:
        with self._table_model.lock():
            # A record counts after its round: at worst there is one more reading.
            n_records, snapshot = self._n_records(), self._table_model.snapshot()
        # Who asks need not know where files are: rows come from requests now.
        reference = Path(snapshot.settings["reference"]).name
        snapshot = replace(snapshot, job=None, settings=snapshot.settings | {"reference": reference})
        source = report_source(snapshot, self._name)
        state = state_of(source)
        reading = Reading(n_records, source, state, page_view(source, state))
        self._on_reading(reading, before)
        return reading


def state_of(source: ReportSource) -> dict[str, Any]:
    """Return what a model says of itself, with what is the service's own."""
    snapshot, table, labelled = source.snapshot, source.table, source.snapshot.state.labelled
    assert table is not None
    return source.said | {
        "name": source.name,
        "label": table.label,
        "task": table.settings.get("task", "classification"),
        "reference_rows": len(snapshot.state.weights),
        "labelled_rows": 0 if labelled is None else len(labelled),
        "effective_rows": snapshot.effective_sample_size,
        "last_drift_round": snapshot.last_drift_round,
        "findings": list(snapshot.drift.coverage.sentences),
    }


def _plain(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


# --- The stream of events: what changed, with ids by which a reader that was away goes on


EventId = tuple[int, int]
_MOST = 2_000
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0


class Events:
    """Keeps the last events, and wakes those who wait for more.

    An id is the number of the last record of the log that the event knows of, and the event's place among those of the
    same reading. Both go on when the service starts again, so ids never repeat.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[EventId, bytes]] = deque(maxlen=_MOST)
        self._followers: set[asyncio.Event] = set()
        self._is_closed = False

    def add(self, n_records: int, events: list[tuple[str, Any]]) -> None:
        """Add the events of a reading; called in the event loop."""
        for place, (kind, content) in enumerate(events):
            head = f"id: {n_records}.{place}\nevent: {kind}\ndata: ".encode()
            self._kept.append(((n_records, place), head + msgspec.json.encode(content) + b"\n\n"))
        self._wake()

    def _wake(self) -> None:
        for is_news in self._followers:
            is_news.set()

    def close(self) -> None:
        """End all streams: the service stops."""
        self._is_closed = True
        self._wake()

    async def follow(self, last: EventId | None) -> AsyncIterator[bytes]:
        """Yield the events after one, or the latest reading if there is none; then what comes, and signs of life.

        If events after ``last`` are no longer kept, an event ``reset`` says so: what is shown must be fetched again.
        """
        is_news = asyncio.Event()
        self._followers.add(is_news)
        try:
            yield b"retry: 1000\n\n"
            if last is not None and self._has_forgotten(last):
                yield b'event: reset\ndata: {"reason":"events before this are no longer kept"}\n\n'
            place = last if last is not None else self._before_latest()
            while not self._is_closed:
                for number, content in [each for each in self._kept if each[0] > place]:
                    place = number
                    yield content
                try:
                    async with asyncio.timeout(_SECONDS_BETWEEN_SIGNS_OF_LIFE):
                        await is_news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                is_news.clear()
        finally:
            self._followers.discard(is_news)

    def _has_forgotten(self, last: EventId) -> bool:
        """Whether there may have been events after this one that are not kept; also if the id is from the future."""
        if not self._kept:
            return True
        return last < self._kept[0][0] or last > self._kept[-1][0]

    def _before_latest(self) -> EventId:
        latest = max((number for number, _ in self._kept), default=(0, 0))
        return latest[0], -1


def read_event_id(text: str) -> EventId | None:
    """Return the id that a reader saw last; None if it is none of ours."""
    first, _, second = text.strip().partition(".")
    is_number = first.isascii() and first.isdigit() and second.isascii() and second.isdigit() and len(text) < 40
    return (int(first), int(second)) if is_number else None
