"""The parts of a service that its endpoints use: the model, and whoever learns, reads and counts."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from accous.service.arriving import Arriving
from accous.service.batches import Batch, BatchReader
from accous.service.events import Events
from accous.service.gate import Gate
from accous.service.learner import Learner
from accous.service.limits import Limits
from accous.service.metrics import Metrics
from accous.service.prediction_answers import prediction_content, prediction_sets
from accous.service.readings import ReadingTimer
from accous.service.refusals import Refusal
from accous.table.model import PlayedRound, TableModel

__all__ = ["Served", "Service", "Throughput"]


@dataclass(frozen=True)
class Served:
    """A model to predict with, and the reader of its rows."""

    table_model: TableModel
    reader: BatchReader


@dataclass(kw_only=True)
class Service:
    """What the endpoints use.

    Attributes
    ----------
    name : str
        Of the model, in addresses.
    served : callable
        Returns the model to predict with.
    limits : Limits
    gate : Gate
    metrics : Metrics
    events : Events
    learner : Learner, optional
        None in a worker, which only predicts.
    readings : ReadingTimer, optional
        None in a worker.
    learns_first : bool
        Whether rounds learn from their rows before they predict them.
    is_ready : bool
    n_predicted : int
        Rows predicted since the start.
    arriving : Arriving
        Counts the bytes of bodies that have come in part.
    """

    name: str
    served: Callable[[], Served]
    limits: Limits
    gate: Gate
    metrics: Metrics
    events: Events = field(default_factory=Events)
    learner: Learner | None = None
    readings: ReadingTimer | None = None
    learns_first: bool = False
    is_ready: bool = True
    n_predicted: int = 0
    arriving: Arriving = field(init=False)
    # Ids of predictions in different processes differ.
    _origin: str = field(default_factory=lambda: f"p{secrets.token_hex(6)}")
    _n_predictions: int = 0
    # Small requests are predicted in the event loop, others in threads.
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.arriving = Arriving(self.limits.arriving_bytes)

    def require_learner(self) -> Learner:
        """Return who learns; refuse in a worker."""
        if self.learner is None:
            raise Refusal(
                404, "reads_only", "This process only predicts: send batches and labels to the service's own port."
            )
        return self.learner

    def require_readings(self) -> ReadingTimer:
        """Return who reads the model; refuse in a worker."""
        if self.readings is None:
            raise Refusal(404, "reads_only", "This process only predicts: ask the service's own port.")
        return self.readings

    def counts(self) -> dict[str, float]:
        """Return what was done so far."""
        return {"rounds": float(self.served().table_model.model.n_rounds_), "predicted_rows": float(self.n_predicted)}

    def predict(self, served: Served, batch: Batch, *, needs_ratio: bool, model: Any = None) -> PlayedRound:
        """Predict rows, all from one round; of this copy of the model, if there is one."""
        played = served.table_model.predict_rows(batch.X, needs_ratio=needs_ratio, model=model)
        self.metrics.predicted_rows.inc(len(batch.X))
        with self._counting:
            self.n_predicted += len(batch.X)
        return played

    def predicted(self, served: Served, batch: Batch) -> dict[str, Any]:
        """Return the predictions of rows, ready for JSON."""
        # One copy for all parts: learning may go on between them.
        model = copy(served.table_model.model)
        played = self.predict(served, batch, needs_ratio="ratio" in batch.include, model=model)
        with self._counting:
            self._n_predictions += 1
            origin = f"{self._origin}-{self._n_predictions}"
        content = prediction_content(served.table_model, played, batch, origin=origin, salt=served.reader.salt)
        sets = prediction_sets(model, batch)
        return content if sets is None else content | {"sets": sets}


class Throughput:
    """What a service did in a second, between two questions.

    Parameters
    ----------
    counts : callable
        Returns named counts that only grow.
    """

    def __init__(self, counts: Callable[[], dict[str, float]]) -> None:
        self._counts, self._before, self._at = counts, counts(), time.monotonic()

    def __call__(self) -> dict[str, float]:
        """Return each count's growth in a second, since the last call."""
        counts, now = self._counts(), time.monotonic()
        seconds = max(now - self._at, 1e-3)
        found = {name: round((value - self._before[name]) / seconds, 1) for name, value in counts.items()}
        self._before, self._at = counts, now
        return found
