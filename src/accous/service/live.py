"""What people and Prometheus look at: readings on a timer, the live page, events, metrics."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from accous.diagnostics.trust import VERDICTS
from accous.report.figures import error_figure, lengths_figure, moved_figure, sample_size_figure
from accous.report.page import NOTES, TITLES, event_rows, render_page, tile_rows
from accous.report.words import ReportSource, answer_rows, judge_in_words, report_source
from accous.table.history import COUNTS, MEANS
from accous.table.model import TableModel
from accous.table.summary import summarize_table_model
from accous.text import LOGGER

# --- What Prometheus can read: counts and times of requests, rounds and saves, and what the model says of
#     itself


_FAST = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BOUNDS = ("", "_low", "_high")
_ANSWERS = ("yes", "no", "not known")


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
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
        self.refused_batches = count("refused_batches", "Batches refused because the queue was full.")
        self.sync_seconds = times("log_sync_seconds", "Time to write and sync a group of batches.")
        self.learn_seconds = times("learn_seconds", "Time to learn from a batch.")
        self.save_seconds = times("save_seconds", "Time to save the model and start the log again.")
        self.log_failures = count("log_failures", "Groups that the disk did not take.")
        self.save_failures = count("save_failures", "Saves that failed; the log still has their batches.")
        self.rounds = gauge("rounds", "Rounds that the model has learned from.")
        self.rows = gauge("rows", "Rows of all rounds.")
        self.queue = gauge("queue_depth", "Batches that wait for the learner.")
        self.streams = gauge("event_streams", "Open streams of events.")
        self._error = gauge(
            "estimated_error",
            "Error estimated without labels; NaN for inputs that the reference lacks.",
            "bound",
        )
        self._measured = gauge("measured_error", "Error measured by late labels.", "bound")
        self._effective = gauge("effective_rows", "Reference rows that carry the weight.")
        self._verdict = gauge("verdict", "1 for the verdict that holds now.", "verdict")
        self._answers = gauge("trust", "1 for the answer that holds now, for each question.", "question", "answer")
        self._drift = gauge("last_drift_round", "Round of the last change of the inputs.")

    def take_state(self, state: dict[str, Any], n_rows: int) -> None:
        """Show what the record of ``accous inspect --json`` says."""
        self.rounds.set(state["rounds"])
        self.rows.set(n_rows)
        self._effective.set(state["effective_sample_size"])
        _show(self._measured, state, "measured_error", hidden=_BOUNDS if state["labels_outdated"] else ())
        _show(self._error, state, "estimated_error", hidden=() if state["estimated_error_covered"] else _BOUNDS)
        for verdict in VERDICTS:
            self._verdict.labels(verdict).set(float(verdict == state["trust"]))
        for question in ("inputs", "adaptation", "predictions"):
            for answer in _ANSWERS:
                self._answers.labels(question, answer).set(float(state[f"trust_{question}"] == answer))
        _set(self._drift, state["last_drift_round"])

    def exposition(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        found: bytes = generate_latest(self._registry)
        return found


def _show(gauge: Any, state: dict[str, Any], name: str, hidden: tuple[str, ...]) -> None:
    for ending in _BOUNDS:
        _set(gauge.labels(ending[1:] or "value"), None if ending in hidden else state.get(f"{name}{ending}"))


def _set(gauge: Any, value: float | None) -> None:
    gauge.set(float("nan") if value is None else value)


# --- What the live page shows, as plain values: the verdict first, then numbers, charts and changes


_ADDRESSES = {
    "Run accous adapt on a stream first.": "Send rows to /v1/step.",
    ", or accous adapt --label": "",
    "accous labels": "/v1/labels",
}
_ANSWER_TONES = {"yes": "good", "no": "bad", "not known": "none"}


def page_view(source: ReportSource, state: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows.

    Parameters
    ----------
    source : ReportSource
    state : dict
        What ``accous inspect --json`` prints.
    """
    verdict = judge_in_words(source)
    headings, rows = event_rows(source)
    return {
        "name": source.name,
        "rounds": state["rounds"],
        "rows": source.history.totals()["n_rows"],
        "reference_rows": state["reference_rows"],
        "verdict": {
            "tone": verdict.tone,
            "badge": verdict.badge,
            "headline": verdict.headline,
            "sentences": [text for text in (verdict.moved, verdict.trust) if text],
            "advice": [_for_service(text) for text in verdict.advice],
        },
        "answers": [
            {"question": question, "answer": answer, "tone": _ANSWER_TONES[answer], "sentence": sentence}
            for question, answer, sentence in answer_rows(source)
        ],
        "tiles": [{"name": name, "value": value, "note": note} for name, value, note in tile_rows(source)],
        "charts": _charts(source),
        "changes": {"headings": headings, "rows": rows, "all": len(source.events)},
        "findings": list(state["findings"]),
    }


def _for_service(text: str) -> str:
    """Name the address where the report names the command."""
    for command, address in _ADDRESSES.items():
        text = text.replace(command, address)
    return text


def _charts(source: ReportSource) -> dict[str, dict[str, Any]]:
    figures = {
        "error": error_figure(source),
        "sample": sample_size_figure(source),
        "moved": moved_figure(source),
        "lengths": lengths_figure(source),
    }
    return {
        name: {"title": TITLES[name], "note": " ".join(NOTES[name].split()), "figure": figure}
        for name, figure in figures.items()
        if figure is not None
    }


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
        What ``accous inspect --json`` prints.
    view : dict
        What the page shows.
    """

    n_records: int
    source: ReportSource
    state: dict[str, Any]
    view: dict[str, Any]
    _report: str | None = field(default=None, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def report(self) -> str:
        """Return the HTML report, made when it is first asked for."""
        with self._lock:
            if self._report is None:
                self._report = render_page(self.source)
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
        history = self.source.history
        is_wanted = history.rounds > since
        points = {name: _plain(history.column(name)[is_wanted]) for name in (*COUNTS, *MEANS)}
        changes = [
            {"round": event.round, "kind": event.kind, "columns": list(event.features), "size": event.size}
            for event in self.source.events
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
        state = _without_places(summarize_table_model(snapshot)["state"])
        source = report_source(snapshot, self._name)
        reading = Reading(n_records, source, state, page_view(source, state))
        self._on_reading(reading, before)
        return reading


def _without_places(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state with names of files instead of their places: clients need not know the server's disk."""
    run = state["last_run"]
    if run is not None:
        run = run | {name: run[name] and Path(run[name]).name for name in ("stream", "output")}
    return state | {"reference": Path(state["reference"]).name, "last_run": run}


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
