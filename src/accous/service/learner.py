"""The one thread that logs and learns, the batches that wait for it, and what a start finds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import polars as pl

from accous.checkpoint.files import sync_folder
from accous.exceptions import AccousError, CheckpointError
from accous.service.bodies import (
    NO_LIMITS,
    Batch,
    BatchReader,
    HttpError,
    Label,
    Limits,
    MadePrediction,
    Result,
    json_result,
    key_text,
    label_text,
    plain_predictions,
    prediction_content,
    prediction_sets,
    read_id,
)
from accous.service.live import Metrics
from accous.service.log import (
    BatchLog,
    Idempotency,
    LogError,
    Opened,
    Record,
    StoredResponse,
    load_idempotency,
    open_log,
)
from accous.table.model import TableModel, load_table_model, open_store, save_table_model
from accous.table.rows import features_to_json
from accous.table.runs import LogPosition
from accous.table.store import Store, ids_from
from accous.text import LOGGER

# --- What a record of the log does to the model; the same on its first day and when the log is played again


Parsed = Batch | list[Label]
_GIVEN = ("place", "label")
_MOST_UNKNOWN = 20


class Executor:
    """Carries out records, in their order.

    Parameters
    ----------
    table_model : TableModel
    reader : BatchReader
    idempotency : Idempotency
    store : Store
        What the model's folder remembers of predictions and labels.

    Attributes
    ----------
    n_rows : int
        Of all rounds.
    n_labels : int
        Counted since the start.
    """

    def __init__(self, table_model: TableModel, reader: BatchReader, idempotency: Idempotency, store: Store) -> None:
        self._table_model, self._reader, self._idempotency = table_model, reader, idempotency
        self._store = store
        self.n_rows, self.n_labels = int(table_model.history.totals()["n_rows"]), 0

    def parse(self, record: Record) -> Parsed:
        """Return the rows or labels of a record; refuse what cannot be learned from."""
        if record.kind == "labels":
            return self._reader.read_labels(record.body, record.content_type)
        batch = self._reader.read(record.body, record.content_type, record.options)
        if not len(batch.X):
            raise HttpError(422, "no_rows", "There is no row in the request, so there is nothing to learn from.")
        return batch

    def carry_out(self, number: int, record: Record, parsed: Parsed) -> Result:
        """Learn from a record; return the response, and keep it if the client may ask again.

        Parameters
        ----------
        number : int
            Of the record in the log.
        record : Record
        parsed : Batch or list of Label
            What `parse` returned for it.
        """
        try:
            result = self._do(number, record, parsed)
        except HttpError as error:
            result = error.result()
        except AccousError as error:
            result = HttpError(422, "not_learned", f"The batch cannot be learned from: {error}").result()
        except (Exception, pl.exceptions.PanicException):
            # A panic of polars is no Exception. The model keeps its state; played again, the result is the same.
            LOGGER.exception("Record %d of the log could not be learned from", number)
            text = "The batch could not be learned from; the model is unchanged."
            result = HttpError(500, "not_learned", text).result()
        if record.key is not None:
            self._idempotency.keep_response(record.key, StoredResponse(record.digest, result.status, result.body))
        return result

    def _do(self, number: int, record: Record, parsed: Parsed) -> Result:
        if not isinstance(parsed, Batch):
            return self._count(parsed)
        table_model = self._table_model
        # Like the predictions, from before the round unless it learns first.
        sets = None if record.learns_first else prediction_sets(copy(table_model.model), parsed)
        played = table_model.run_round(
            parsed.X,
            parsed.marks,
            learns_first=record.learns_first,
            times=parsed.times,
            needs_ratio=record.kind == "step" and "ratio" in parsed.include,
        )
        self.n_rows += len(parsed.X)
        if parsed.keys is not None:
            self._idempotency.keep_predictions(parsed.keys, plain_predictions(table_model.kind, played), played.number)
        if record.kind == "adapt":
            return json_result({"round": played.number, "rows": len(parsed.X)})
        content = prediction_content(table_model, played, parsed, origin=f"s{number}", salt=self._reader.salt)
        sets = prediction_sets(copy(table_model.model), parsed) if record.learns_first else sets
        return json_result(content if sets is None else content | {"sets": sets})

    def close(self) -> None:
        """Forget what is old in the store, and close it: nothing more is carried out."""
        with self._store, suppress(AccousError):  # what is old can wait
            self._store.prune()

    # --- late labels ---

    def _count(self, labels: list[Label]) -> Result:
        model, store, kind = self._table_model, self._store, self._table_model.kind
        texts = [label_text(each.label, kind) for each in labels]
        places = [each.id if each.id is not None else key_text(each.key) for each in labels]
        # Of two labels for one row the later one counts.
        given = pl.DataFrame({"place": places, "label": texts}, schema={"place": pl.String, "label": pl.String})
        given = given.drop_nulls().unique("place", keep="last", maintain_order=True)
        with store.changing():
            self._remember(labels, places)
            joined = store.join(given, by="key")
            new, corrected = joined.new, joined.corrected
            store.set_labels(joined)
            if corrected.height:
                model.recount_labels(store.labelled())
            elif new.height:
                model.count_labels(new)
        model.stored = store.position
        self.n_labels += new.height
        unknown = set(joined.unknown)
        matched = [each for each, place in zip(labels, places, strict=True) if place not in unknown]
        return json_result(
            {
                "round": int(model.model.n_rounds_),
                "labels": len(labels),
                "counted": new.height,
                "counted_before": joined.n_before,
                "corrected": corrected.height,
                "without_label": texts.count(None),
                "unmatched": len(joined.unknown),
                "labelled_rows": self._n_labelled(),
                "unknown_labels": self._unknown(matched),
            }
        )

    def _remember(self, labels: list[Label], places: list[str]) -> None:
        """Put the predictions that labels are about into the store, if it does not have them yet."""
        labelled = {place: each for place, each in zip(places, labels, strict=True) if each.label is not None}
        found = {place: (each, self._find(each)) for place, each in labelled.items()}
        made = {place: (each, made) for place, (each, made) in found.items() if made is not None}
        sought = pl.DataFrame({"place": list(made), "label": [""] * len(made)}, schema=dict.fromkeys(_GIVEN, pl.String))
        known = {(row["place"], row["round"]) for row in self._store.join(sought, by="key").rows.iter_rows(named=True)}
        new = [(place, *pair) for place, pair in made.items() if (place, pair[1].round) not in known]
        if not new:
            return
        ids = ids_from(self._store.next_id(), len(new))
        rows = pl.DataFrame(
            {
                "id": ids,
                "key": [place for place, _, _ in new],
                "source": np.zeros(len(new), dtype=np.int64),
                "line": ids,
                "round": [each.round for _, _, each in new],
                "predicted": [each.prediction for _, _, each in new],
                "features": [self._features(label) for _, label, _ in new],
            },
            schema_overrides={"features": pl.String},
        )
        self._store.add_predictions(rows.with_columns(scores=pl.lit(None, pl.Binary)), learned=False)

    def _features(self, label: Label) -> str | None:
        if label.row is None:
            return None
        return features_to_json(self._reader.frame_of([label.row]), self._table_model.encoder)[0]

    def _unknown(self, labels: list[Label]) -> dict[str, int]:
        """Return the labels that the reference does not have, and how often each is there: a new class, or misspelt.

        A label that matches no prediction is counted nowhere, so it is not asked about.
        """
        texts = pl.Series(
            [label_text(each.label, self._table_model.kind) for each in labels], dtype=pl.String
        ).drop_nulls()
        counts = Counter(texts.filter(~self._table_model.kind.is_possible(texts)).to_list())
        return dict(counts.most_common(_MOST_UNKNOWN))

    def _find(self, label: Label) -> MadePrediction | None:
        if label.id is not None:
            return read_id(label.id, self._reader.salt)
        return self._idempotency.prediction(key_text(label.key))

    def _n_labelled(self) -> int:
        labels = self._table_model.model.state_.labelled
        return 0 if labels is None else len(labels)


# --- A batch that waits for the learner


@dataclass(eq=False, slots=True)
class Pending:
    """A batch in the queue; `is_taken` and `is_given_up` change under the learner's lock only.

    Attributes
    ----------
    record : Record
    parsed : Batch or list of Label
    future : Future
        Of the result; belongs to the event loop of the request.
    timer : TimerHandle, optional
        Gives the batch back when it has waited too long.
    """

    record: Record
    parsed: Parsed
    future: asyncio.Future[Result]
    timer: asyncio.TimerHandle | None = None
    is_taken: bool = False
    is_given_up: bool = False

    def resolve(self, result: Result | HttpError) -> None:
        """Set the result; called in the event loop. The request may have been given up."""
        if self.timer is not None:
            self.timer.cancel()
        if self.future.done():
            return
        if isinstance(result, HttpError):
            self.future.set_exception(result)
            self.future.exception()  # seen: the client may have gone
        else:
            self.future.set_result(result)


def _resolve(results: list[tuple[Pending, Result | HttpError]]) -> None:
    for pending, result in results:
        pending.resolve(result)


# --- The learner: one thread that logs the pending batches in one piece, learns from them in order, and saves


_MOST_IN_GROUP, _MOST_BYTES_IN_GROUP, _MOST_LOG_BYTES = 256, 16 << 20, 64 << 20
_SECONDS_BETWEEN_RESULTS = 0.002
_REPLAYED = {"idempotent-replayed": "true"}


class Learner:
    """Takes batches from the event loop and learns from them in a thread of its own.

    Parameters
    ----------
    owned : OwnedModel
    limits : Limits
    metrics : Metrics
    save_batches, save_seconds
        The model is saved, and the log started again, after so many of them, whichever comes first.

    Attributes
    ----------
    executor : Executor
        Carries the batches out.
    n_done : int
        Records of the log that the model contains now.
    """

    def __init__(
        self, owned: OwnedModel, limits: Limits, metrics: Metrics, *, save_batches: int, save_seconds: float
    ) -> None:
        self._table_model, self._folder = owned.table_model, owned.folder
        self._log, self._idempotency, self.executor = owned.log, owned.idempotency, owned.executor
        self._limits, self._metrics = limits, metrics
        self._save_batches, self._save_seconds = save_batches, save_seconds
        self._queue: SimpleQueue[Pending | None] = SimpleQueue()  # None: look around
        self._n_bytes = 0  # of the bodies in the queue
        self._in_flight: dict[str, Pending] = {}
        self._lock = threading.Lock()
        self._is_stopping = False
        self._save_error: Exception | None = None
        self.n_done = self._log.n_records
        self._n_since_save, self._last_save = self._log.n_records - self._n_saved(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)

    @property
    def n_pending(self) -> int:
        """Batches in the queue."""
        return self._queue.qsize()

    @property
    def is_alive(self) -> bool:
        """Whether batches are taken."""
        return self._thread.is_alive() and not self._is_stopping

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, learn from what is pending, save, and wait until that is done.

        Raises
        ------
        CheckpointError
            If the model could not be saved; the log still has everything.
        """
        with self._lock:
            self._is_stopping = True
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        if self._save_error is not None:
            raise CheckpointError(
                f"The model could not be saved ({self._save_error}). Nothing is lost: the next start learns again from "
                "the log. Free some space first."
            )

    def require_room(self) -> None:
        """Refuse a batch while the queue is full, before its body is read."""
        if self._queue.qsize() >= self._limits.queue or self._n_bytes >= self._limits.queue_bytes:
            self._metrics.refused_batches.inc()
            text = "Too many batches are waiting for the learner: try again in a second."
            raise HttpError(429, "queue_full", text, headers={"retry-after": "1"})

    async def learn(self, record: Record, parsed: Parsed) -> Result:
        """Queue a batch; return its result when it is durable and learned, or the first result of the same request.

        Raises
        ------
        HttpError
            If the queue is full or takes too long, the service stops, or the disk does not take the batch. It does not
            count then.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            known = None if record.key is None else self._find_known(record.key, record.digest)
            if isinstance(known, Result):
                return known
            if known is None:
                pending = Pending(record, parsed, loop.create_future())
                self._put(pending)
        if known is not None:
            return await asyncio.shield(known.future)
        pending.timer = loop.call_later(self._limits.queue_seconds, self._give_up, pending)
        return await pending.future

    def _find_known(self, key: str, digest: bytes) -> Result | Pending | None:
        stored, pending = self._idempotency.response(key), self._in_flight.get(key)
        other = stored.digest if stored is not None else pending.record.digest if pending is not None else digest
        if other != digest:
            raise HttpError(
                422, "key_reused", "This Idempotency-Key belongs to another request: use a new key for a new batch."
            )
        return pending if stored is None else Result(stored.body, stored.status, _REPLAYED)

    def _put(self, pending: Pending) -> None:
        if not self.is_alive:
            raise HttpError(503, "stopping", "The service is stopping: try again.", headers={"retry-after": "2"})
        self.require_room()
        if pending.record.key is not None:
            self._in_flight[pending.record.key] = pending
        self._n_bytes += len(pending.record.body)
        self._queue.put(pending)

    def _give_up(self, pending: Pending) -> None:
        """Give a batch back that the learner has not taken in time; called in the event loop."""
        with self._lock:
            if pending.is_taken:
                return
            pending.is_given_up = True
            self._forget(pending)
        text = "The batch waited too long and was not learned: try again."
        pending.resolve(HttpError(503, "too_slow", text, headers={"retry-after": "5"}))

    # --- the thread ---

    def _run(self) -> None:
        while True:
            group = self._take()
            if group is None:
                break
            if group:
                self._carry_out(group)
            if self._is_save_due():
                self.save()
        self.save()
        self.executor.close()

    def _take(self) -> list[Pending] | None:
        """Return the batches that are pending; none if it is time to look around, None at the end."""
        group: list[Pending] = []
        n_bytes = 0
        try:
            pending = self._queue.get(timeout=0.0 if self._is_stopping else 1.0)
            while pending is not None:
                with self._lock:
                    self._n_bytes -= len(pending.record.body)
                    pending.is_taken = not pending.is_given_up
                if pending.is_taken:
                    group.append(pending)
                    n_bytes += len(pending.record.body)
                if len(group) == _MOST_IN_GROUP or n_bytes >= _MOST_BYTES_IN_GROUP:
                    break
                pending = self._queue.get_nowait()
        except Empty:
            pass
        return None if not group and self._is_stopping and self._queue.empty() else group

    def _carry_out(self, group: list[Pending]) -> None:
        started = time.perf_counter()
        try:
            if self._log.is_broken:
                self.save()
            number = self._log.append([pending.record for pending in group])
        except LogError as error:
            self._metrics.log_failures.inc()
            LOGGER.error("The log of batches cannot be written: %s", error)
            text = "The disk does not take the batch, so it was not learned: free some space."
            self._return([(pending, HttpError(507, "not_durable", text)) for pending in group])
            return
        self._metrics.sync_seconds.observe(time.perf_counter() - started)
        done: list[tuple[Pending, Result | HttpError]] = []
        last = time.perf_counter()
        for place, pending in enumerate(group):
            began, n_labels = time.perf_counter(), self.executor.n_labels
            done.append((pending, self.executor.carry_out(number + place, pending.record, pending.parsed)))
            now = time.perf_counter()
            self._metrics.learn_seconds.observe(now - began)
            self._metrics.labels.inc(self.executor.n_labels - n_labels)
            self._n_since_save += 1
            self.n_done += 1
            if now - last > _SECONDS_BETWEEN_RESULTS:
                self._return(done)
                done, last = [], now
        self._return(done)

    def _return(self, done: list[tuple[Pending, Result | HttpError]]) -> None:
        """Give results to the event loop."""
        if not done:
            return
        with self._lock:
            for pending, _ in done:
                self._forget(pending)
        try:
            done[0][0].future.get_loop().call_soon_threadsafe(_resolve, done)
        except RuntimeError:  # the event loop has ended; nobody waits any more
            LOGGER.warning("%d results have nobody to go to", len(done))

    def _forget(self, pending: Pending) -> None:
        key = pending.record.key
        if key is not None and self._in_flight.get(key) is pending:
            del self._in_flight[key]

    # --- saving ---

    def _n_saved(self) -> int:
        position = self._table_model.log_position
        return 0 if position is None else position.n_records

    def _is_save_due(self) -> bool:
        n_new, is_long_ago = self._n_since_save, time.monotonic() - self._last_save >= self._save_seconds
        return n_new >= self._save_batches or bool(n_new and is_long_ago) or self._log.n_bytes >= _MOST_LOG_BYTES

    def save(self) -> None:
        """Save what is kept, then the model, then start the log again; a crash anywhere between loses nothing."""
        began = time.perf_counter()
        self._last_save = time.monotonic()
        try:
            self._idempotency.save(self._folder / FOLDER / IDEMPOTENCY, self._log.name)
            self._table_model.log_position = LogPosition(self._log.name, self._log.n_records)
            save_table_model(self._table_model, self._folder)
            self._n_since_save = 0
            if not self._log.is_empty or self._log.is_broken:
                self._log.restart()
            self._save_error = None
        except (AccousError, OSError) as error:
            # The log still has everything.
            self._save_error = error
            self._metrics.save_failures.inc()
            LOGGER.error("The model could not be saved: %s", error)
            return
        self._metrics.save_seconds.observe(time.perf_counter() - began)


# --- The owner of a model's folder: what it holds when a service starts, after the log has been played again


FOLDER, LOG, IDEMPOTENCY = "service", "batches.log", "idempotency.bin"


@dataclass(frozen=True)
class OwnedModel:
    """A model that is up to date.

    Attributes
    ----------
    folder : Path
    table_model : TableModel
    reader : BatchReader
    log : BatchLog
    idempotency : Idempotency
    executor : Executor
    n_replayed : int
        Records that were learned from again, because the model had not been saved with them.
    n_cut : int
        Bytes of an incomplete last group of the log, which were cut off.
    """

    folder: Path
    table_model: TableModel
    reader: BatchReader
    log: BatchLog
    idempotency: Idempotency
    executor: Executor
    n_replayed: int
    n_cut: int


def open_owned(folder: Path, limits: Limits, estimator: str | None = None) -> OwnedModel:
    """Load a model and play the log again; the caller holds the folder's lock.

    Parameters
    ----------
    folder : Path
        Made by ``accous fit``.
    limits : Limits
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    """
    table_model = load_table_model(folder, estimator)
    place = folder / FOLDER
    if not place.is_dir():
        place.mkdir()
        sync_folder(folder)
    opened, is_new = _open_log(table_model, place / LOG)
    has_none = is_new and not (place / IDEMPOTENCY).is_file()
    idempotency = Idempotency() if has_none else load_idempotency(place / IDEMPOTENCY, opened.log.name)
    if is_new:
        # From now on the model knows its log: that of another model in this folder is never taken for it.
        idempotency.save(place / IDEMPOTENCY, opened.log.name)
        table_model.log_position = LogPosition(opened.log.name, opened.log.n_records)
        save_table_model(table_model, folder)
    # What was accepted once counts, also if the limits are lower now.
    store = open_store(table_model, folder)
    again = Executor(table_model, BatchReader(table_model, NO_LIMITS), idempotency, store)
    n_replayed = _replay(table_model, opened, again, place / LOG)
    reader = BatchReader(table_model, limits)
    executor = Executor(table_model, reader, idempotency, store)
    return OwnedModel(folder, table_model, reader, opened.log, idempotency, executor, n_replayed, opened.n_cut)


def _open_log(table_model: TableModel, path: Path) -> tuple[Opened, bool]:
    """Return the log, and whether the model does not know it yet."""
    position = table_model.log_position
    own, n_records = (None, 0) if position is None else (position.log, position.n_records)
    if path.is_file():
        opened = open_log(path)
        if opened.n_cut:
            LOGGER.warning(
                "%s: cut off %d bytes of a last group that was not complete, and kept them in %s",
                path, opened.n_cut, opened.cut,
            )  # fmt: skip
        name, n_found = opened.log.name, opened.log.n_records
        if name == own and n_found >= n_records:
            return opened, False
        opened.log.close()
        aside = path.with_name(f"{path.name}.{name[:8]}")
        path.rename(aside)
        if n_found:
            LOGGER.warning("%s belongs to another model, or is older than this one: it is now %s", path, aside)
    elif position is not None:
        # The model was copied without its log, or the log was lost: what the model contains is all there is.
        LOGGER.warning("%s is missing: requests that were sent before are not known", path)
    return Opened(BatchLog.create(path, own, n_records), [], 0), True


def _replay(table_model: TableModel, opened: Opened, executor: Executor, path: Path) -> int:
    position, n_replayed = table_model.log_position, 0
    n_contained = 0 if position is None else position.n_records
    if opened.records and opened.records[0][0] > n_contained + 1:
        raise CheckpointError(
            f"{path} begins with record {opened.records[0][0]:,}, but the model contains {n_contained:,}: restore the "
            "folder from a copy."
        )
    for number, record in opened.records:
        if number <= n_contained:
            continue
        try:
            parsed = executor.parse(record)
        except HttpError as error:
            raise CheckpointError(
                f"Record {number:,} of {path} cannot be read by this version of accous ({error.message}): start the "
                "version that wrote it once more."
            ) from None
        executor.carry_out(number, record, parsed)
        n_replayed += 1
    return n_replayed
