"""What Prometheus can read: counts and times of requests, rounds and saves, and what the model says of itself."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from accous.diagnostics.trust import VERDICTS

__all__ = ["Metrics"]

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
