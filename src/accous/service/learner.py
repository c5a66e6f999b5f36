"""The one thread that logs and learns, the batches that wait for it, and what a start finds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from starlette.responses import Response

from accous.checkpoint.files import sync_folder
from accous.exceptions import AccousError, CheckpointError, DataError
from accous.model.learning import draw_rows
from accous.service.bodies import (
    NO_LIMITS,
    AskBody,
    BatchReader,
    HttpError,
    Label,
    LabelsBody,
    Limits,
    MadePrediction,
    RequestBatch,
    id_of_line,
    key_text,
    label_text,
    line_of,
    prediction_content,
    prediction_sets,
    read_id,
    respond,
    respond_json,
)
from accous.service.live import Metrics
from accous.service.log import BatchLog, Idempotency, LogError, Record, StoredResponse, load_idempotency, open_log
from accous.table.labels import learn_from_store, only_measure
from accous.table.model import TableModel, load_table_model, open_store, save_table_model
from accous.table.rows import stored_scores
from accous.table.runs import LogPosition
from accous.table.store import ID_STEP, SERVED, Joined, Store, first_id, ids_from
from accous.text import LOGGER

# --- What a record of the log does to the model; the same on its first day and when the log is replayed


Parsed = RequestBatch | LabelsBody | AskBody
_MOST_UNKNOWN = 20
_ROWS_BETWEEN_PRUNES = 100_000


class Predicted(NamedTuple):
    """Rows that were predicted in a round and are not in the store yet; the log has them."""

    record: int
    batch: RequestBatch
    round: int
    scores: NDArray[np.float64]


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
    reader : BatchReader
    n_rows : int
        Of all rounds.
    n_labels : int
        Counted since the start.
    n_unstored : int
        Predictions that are not in the store yet.
    """

    def __init__(self, table_model: TableModel, reader: BatchReader, idempotency: Idempotency, store: Store) -> None:
        self._table_model, self.reader, self._idempotency, self._store = table_model, reader, idempotency, store
        self.n_rows, self.n_labels = int(table_model.history.totals()["n_rows"]), 0
        self._unstored: list[Predicted] = []
        self.n_unstored = self._n_since_prune = 0

    @property
    def n_labelled(self) -> int:
        """Rows whose labels measure the model."""
        labels = self._table_model.model.state_.labelled
        return 0 if labels is None else len(labels)

    def parse(self, record: Record) -> Parsed:
        """Return what a record wants; refuse what cannot be carried out."""
        if record.kind == "labels":
            return self.reader.read_labels(record.body, record.content_type)
        if record.kind == "ask":
            return self.reader.read_ask(record.body, record.content_type)
        return self.reader.read(record.body, record.content_type, record.options)

    def carry_out(self, number: int, record: Record, parsed: Parsed) -> Response:
        """Learn from a record; return the response, and keep it if the client may ask again.

        Parameters
        ----------
        number : int
            Of the record in the log.
        record : Record
        parsed : RequestBatch, LabelsBody or AskBody
            What `parse` returned for it.
        """
        try:
            if isinstance(parsed, RequestBatch):
                result = self._run_record(number, record, parsed)
            else:
                result = self._ask(parsed.n) if isinstance(parsed, AskBody) else self._count(parsed)
        except HttpError as error:
            result = error.response()
        except AccousError as error:
            result = HttpError(422, "not_learned", f"The batch cannot be learned from: {error}").response()
        except (Exception, pl.exceptions.PanicException):
            # A panic of polars is no Exception. The model keeps its state; replayed, the result is the same.
            LOGGER.exception("Record %d of the log could not be learned from", number)
            text = "The batch could not be learned from; the model is unchanged."
            result = HttpError(500, "not_learned", text).response()
        if record.key is not None:
            self._idempotency.keep_response(
                record.key, StoredResponse(record.digest, result.status_code, bytes(result.body))
            )
        return result

    def _run_record(self, number: int, record: Record, batch: RequestBatch) -> Response:
        table_model = self._table_model
        if batch.encoder is not table_model.encoder:
            # It waited while new categories were learned, which it would not do when the log is replayed.
            batch = self.reader.read(record.body, record.content_type, record.options)
        # If there are none, nothing is learned either.
        sets = prediction_sets(table_model.model, batch)
        result = table_model.run_rounds(
            batch.X,
            batch.marks,
            learns_first=record.learns_first,
            times=batch.times,
            needs_ratio=record.kind == "step" and "ratio" in batch.choices.include,
        )
        self.n_rows += len(batch.X)
        if batch.keys is not None or (record.kind == "step" and "ids" in batch.choices.include):
            self._unstored.append(Predicted(number, batch, result.number, result.scores))
            self.n_unstored += len(batch.X)
        if record.kind == "adapt":
            return respond_json({"round": result.number, "rows": len(batch.X)})
        if record.learns_first:
            sets = prediction_sets(table_model.model, batch)
        content = prediction_content(table_model.form, result, batch, origin=f"s{number}", salt=self.reader.salt)
        return respond_json(content | sets)

    # --- what the folder remembers ---

    def store_predictions(self) -> None:
        """Put the predictions into the store that are not there yet; who opens it after a crash does it again."""
        if not self._unstored:
            return
        self._store.add_predictions(self._to_store(self._unstored), learned=True)
        self._n_since_prune += self.n_unstored
        self._unstored, self.n_unstored = [], 0
        if self._n_since_prune >= _ROWS_BETWEEN_PRUNES:
            self._n_since_prune = 0
            self._store.prune()
        self._table_model.stored = self._store.position

    def _to_store(self, group: list[Predicted]) -> pl.DataFrame:
        sizes = [len(each.batch.X) for each in group]
        scores = np.concatenate([each.scores for each in group])
        lines = [line_of(each.record, row) for each in group for row in range(len(each.batch.X))]
        keys: list[Any] = [each.batch.keys or [None] * len(each.batch.X) for each in group]
        return pl.DataFrame(
            {
                "id": ids_from(self._store.next_id(), len(scores)),
                "key": pl.Series(list(chain.from_iterable(keys)), dtype=pl.String),
                "source": np.full(len(scores), SERVED),
                "line": lines,
                "round": np.repeat([each.round for each in group], sizes),
                # The classes are those of then: labels, which may bring more, come after this.
                **stored_scores(scores, self._table_model.form),
                "features": self._features([each.batch.rows for each in group]),
            }
        )

    def _features(self, tables: list[Sequence[dict[str, Any]] | pl.DataFrame]) -> list[str]:
        found: list[str] = []
        for is_frame, part in groupby(tables, key=lambda each: isinstance(each, pl.DataFrame)):
            some: list[Any] = list(part)
            # Of many plain rows one frame is made, of whatever requests they are.
            found += chain.from_iterable(
                map(self.reader.remembered, some if is_frame else [list(chain.from_iterable(some))])
            )
        return found

    def close(self) -> None:
        """Forget what is old in the store, and close it: nothing more is carried out."""
        with self._store, suppress(AccousError):  # what is old can wait
            self._store.prune()

    # --- which rows to label ---

    def _ask(self, n_wanted: int) -> Response:
        """Choose among the rows since the last time, each with the same probability."""
        self.store_predictions()
        store, model = self._store, self._table_model
        with store.changing():
            rows = store.served_since(store.position.asked_id)
            # By the last row: no two calls that have rows to choose from have the same.
            last = int(rows["id"][-1]) if rows.height else 0
            chosen = rows[draw_rows(rows.height, n_wanted, int(model.settings["seed"]), last)]
            shares = [chosen.height / rows.height] * chosen.height if rows.height else []
            if rows.height:
                store.mark_asked(chosen["id"].to_list(), shares)
                store.position = replace(store.position, asked_id=last)
        model.stored = store.position
        salt, names = self.reader.salt, chosen.select("line", "round", "predicted").iter_rows()
        return respond_json(
            {
                "round": int(model.model.n_rounds_),
                "rows": rows.height,
                "ids": [id_of_line(line, number, predicted, salt) for line, number, predicted in names],
                "keys": chosen["key"].to_list(),
                "probabilities": shares,
            }
        )

    # --- late labels ---

    def _count(self, body: LabelsBody) -> Response:
        self.store_predictions()
        model, store, form = self._table_model, self._store, self._table_model.form
        given = [(each, label_text(each.label, form)) for each in body.labels]
        with store.changing():
            joined = self._join({_place(each): (each, text) for each, text in given if text is not None})
            new, corrected, labels = joined.new, joined.corrected, joined.rows["given"]
            store.set_labels(joined)
            if corrected.height:
                model.recount_labels(store)
            elif new.height:
                model.count_labels(new, store.position.last_id)
        self.n_labels += new.height
        unknown = Counter(labels.filter(~form.is_possible(labels)).to_list())
        n_learned = self._learn(new, corrected, may_learn=body.learn) if new.height or corrected.height else 0
        model.stored = store.position
        return respond_json(
            {
                "round": int(model.model.n_rounds_),
                "labels": len(given),
                "counted": new.height,
                "counted_before": joined.n_before,
                "corrected": corrected.height,
                "without_label": sum(text is None for _, text in given),
                "unmatched": len(joined.unknown),
                "learned": n_learned,
                "labelled_rows": self.n_labelled,
                # A new class, or misspelt. A label that matches no prediction is counted nowhere, so it is not here.
                "unknown_labels": dict(unknown.most_common(_MOST_UNKNOWN)),
            }
        )

    def _join(self, given: dict[str, tuple[Label, str]]) -> Joined:
        """Find the predictions of labels by their places; those that only an id remembers are stored."""
        made = {place: read_id(place, self.reader.salt) for place, (each, _) in given.items() if each.id is not None}
        lines = {str(each.line): place for place, each in made.items() if each is not None and each.line is not None}
        labels = _labels({line: given[place][1] for line, place in lines.items()})
        by_line = self._store.join(labels, by="line", source=SERVED)
        found = {lines[line] for line in by_line.rows["place"]}
        rest = {place: pair for place, pair in given.items() if place not in found}
        self._remember({place: (given[place][0], each) for place in rest if (each := made.get(place)) is not None})
        by_key = self._store.join(_labels({place: text for place, (_, text) in rest.items()}), by="key")
        rows = pl.concat([by_line.rows, by_key.rows]).unique("id", keep="last", maintain_order=True).sort("id")
        return Joined(rows, by_key.unknown)

    def _remember(self, made: dict[str, tuple[Label, MadePrediction]]) -> None:
        """Put predictions that were not kept into the store, by what their ids say, if it does not have them yet."""
        known = set(self._store.join(_labels(dict.fromkeys(made, "")), by="key").rows["place"])
        new = [(place, *pair) for place, pair in made.items() if place not in known]
        if not new:
            return
        ids = ids_from(self._store.next_id(), len(new))
        rows = pl.DataFrame(
            {
                "id": ids,
                "key": [place for place, _, _ in new],
                "source": np.full(len(new), SERVED),
                "line": ids,
                "round": [each.round for _, _, each in new],
                "predicted": [each.prediction for _, _, each in new],
                "features": [None if each.row is None else self.reader.remembered([each.row])[0] for _, each, _ in new],
            },
            schema_overrides={"features": pl.String},
        )
        self._store.add_predictions(rows.with_columns(scores=pl.lit(None, pl.Binary)), learned=False)

    def _learn(self, new: pl.DataFrame, corrected: pl.DataFrame, *, may_learn: bool) -> int:
        """Learn from labels that were counted just now; return from how many in all, 0 if that has to wait for more."""
        model, store = self._table_model, self._store
        before = model.learned_
        model.remember_before(store.position.n_batches)
        if not may_learn:
            only_measure(model, store)
        try:
            if corrected.height:
                learn_from_store(model, store)
            elif may_learn:
                rows = new.drop_nulls("features")
                try:
                    self._learn_new(rows)
                except DataError:  # a label that cannot become a class counts as an error, and that is all
                    self._learn_new(rows.filter(model.form.is_possible(rows["given"])))
        except AccousError as error:
            LOGGER.warning("Labels were counted and not learned from: %s", error)
        return 0 if model.learned_ == before else model.learned_[-1].n_labels

    def _learn_new(self, rows: pl.DataFrame) -> None:
        model = self._table_model
        if not rows.height:
            return
        start, ids = first_id(model.settings, model.label), rows["id"].to_numpy()
        position, is_asked = (ids - start) // ID_STEP, rows["asked"].is_not_null().to_numpy()
        model.learn(rows["features"].to_list(), rows["given"], ids=ids, position=position, is_asked=is_asked)


def _place(label: Label) -> str:
    return label.id if label.id is not None else key_text(label.key)


def _labels(given: dict[str, str]) -> pl.DataFrame:
    schema = {"place": pl.String, "label": pl.String}
    return pl.DataFrame({"place": list(given), "label": list(given.values())}, schema=schema)


# --- A batch that waits for the learner


class Pending(NamedTuple):
    """A batch in the queue, and the future of its result, which belongs to the event loop of the request."""

    record: Record
    parsed: Parsed
    future: asyncio.Future[Response]


def _resolve(results: list[tuple[Pending, Response]]) -> None:
    """Set results; called in the event loop. Requests may have been given up."""
    for pending, result in results:
        if not pending.future.done():
            pending.future.set_result(result)


# --- The learner: one thread that logs the pending batches in one piece, learns from them in order, and saves


_MOST_IN_GROUP, _MOST_BYTES_IN_GROUP, _MOST_LOG_BYTES = 256, 16 << 20, 64 << 20
_MOST_UNSTORED = 2_000
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
        self._in_flight: dict[str | None, Pending] = {}
        self._lock = threading.Lock()
        self._is_stopping = False
        self._save_error: BaseException | None = None
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

    async def learn(self, record: Record, parsed: Parsed) -> Response:
        """Queue a batch; return its result when it is durable and learned, or the first result of the same request.

        Raises
        ------
        HttpError
            If the queue is full, the service stops, or the disk does not take the batch. It does not count then.
        """
        with self._lock:
            known = None if record.key is None else self._find_known(record.key, record.digest)
            if isinstance(known, Response):
                return known
            if known is None:
                pending = Pending(record, parsed, asyncio.get_running_loop().create_future())
                self._put(pending)
        return await (pending.future if known is None else asyncio.shield(known.future))

    def _find_known(self, key: str, digest: bytes) -> Response | Pending | None:
        stored, pending = self._idempotency.response(key), self._in_flight.get(key)
        other = stored.digest if stored is not None else pending.record.digest if pending is not None else digest
        if other != digest:
            raise HttpError(
                422, "key_reused", "This Idempotency-Key belongs to another request: use a new key for a new batch."
            )
        return pending if stored is None else respond(stored.body, status=stored.status, headers=_REPLAYED)

    def _put(self, pending: Pending) -> None:
        if not self.is_alive:
            raise HttpError(503, "stopping", "The service is stopping: try again.", headers={"retry-after": "2"})
        self.require_room()
        if pending.record.key is not None:
            self._in_flight[pending.record.key] = pending
        self._n_bytes += len(pending.record.body)
        self._queue.put(pending)

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
            elif self.executor.n_unstored >= _MOST_UNSTORED:
                self._trying(self.executor.store_predictions)
        self.save()
        self.executor.close()

    def _take(self) -> list[Pending] | None:
        """Return the batches that are pending; none if it is time to look around, None at the end."""
        group: list[Pending] = []
        n_bytes = 0
        try:
            pending = self._queue.get(timeout=0.0 if self._is_stopping else 1.0)
            while pending is not None:
                group.append(pending)
                n_bytes += len(pending.record.body)
                if len(group) == _MOST_IN_GROUP or n_bytes >= _MOST_BYTES_IN_GROUP:
                    break
                pending = self._queue.get_nowait()
        except Empty:
            pass
        with self._lock:
            self._n_bytes -= n_bytes
        return None if not group and self._is_stopping and self._queue.empty() else group

    def _carry_out(self, group: list[Pending]) -> None:
        try:
            if self._log.is_broken:
                self.save()
            with self._metrics.sync_seconds.time():
                number = self._log.append([pending.record for pending in group])
        except LogError as error:
            self._metrics.log_failures.inc()
            LOGGER.error("The log of batches cannot be written: %s", error)
            text = "The batch could not be written to disk, so it was not learned: free some space."
            self._return([(pending, HttpError(507, "not_durable", text).response()) for pending in group])
            return
        done: list[tuple[Pending, Response]] = []
        last, n_labels = time.perf_counter(), self.executor.n_labels
        for place, pending in enumerate(group):
            with self._metrics.learn_seconds.time():
                done.append((pending, self.executor.carry_out(number + place, pending.record, pending.parsed)))
            self._n_since_save += 1
            self.n_done += 1
            if (now := time.perf_counter()) - last > _SECONDS_BETWEEN_RESULTS:
                self._return(done)
                done, last = [], now
        self._metrics.labels.inc(self.executor.n_labels - n_labels)
        self._return(done)

    def _return(self, done: list[tuple[Pending, Response]]) -> None:
        """Give results to the event loop."""
        if not done:
            return
        with self._lock:
            for pending, _ in done:
                self._in_flight.pop(pending.record.key, None)
        try:
            done[0][0].future.get_loop().call_soon_threadsafe(_resolve, done)
        except RuntimeError:  # the event loop has ended; nobody waits any more
            LOGGER.warning("%d results have no recipient", len(done))

    # --- saving ---

    def _n_saved(self) -> int:
        position = self._table_model.log_position
        return 0 if position is None else position.n_records

    def _is_save_due(self) -> bool:
        n_new, is_long_ago = self._n_since_save, time.monotonic() - self._last_save >= self._save_seconds
        return n_new >= self._save_batches or bool(n_new and is_long_ago) or self._log.n_bytes >= _MOST_LOG_BYTES

    def save(self) -> None:
        """Save what is kept, then the model, then start the log again; a crash anywhere between loses nothing."""
        self._last_save = time.monotonic()
        with self._metrics.save_seconds.time():
            self._trying(self._save)

    def _save(self) -> None:
        self.executor.store_predictions()
        self._idempotency.save(self._folder / FOLDER / IDEMPOTENCY, self._log.name)
        self._table_model.log_position = LogPosition(self._log.name, self._log.n_records)
        save_table_model(self._table_model, self._folder)
        self._n_since_save = 0
        if not self._log.is_empty or self._log.is_broken:
            self._log.restart()

    def _trying(self, function: Callable[[], None]) -> None:
        """Write something that the log still has; note whether the disk took it."""
        try:
            function()
            self._save_error = None
        except (Exception, pl.exceptions.PanicException) as error:  # whatever it is, the log has the batches
            self._save_error = error
            self._metrics.save_failures.inc()
            LOGGER.error("The model could not be saved: %s", error)


# --- The owner of a model's folder: what it holds when a service starts, after the log has been replayed


FOLDER, LOG, IDEMPOTENCY = "service", "batches.log", "idempotency.bin"


@dataclass(frozen=True)
class OwnedModel:
    """A model that is up to date.

    Attributes
    ----------
    folder : Path
    table_model : TableModel
    log : BatchLog
    idempotency : Idempotency
    executor : Executor
    n_replayed : int
        Records that were learned from again, because the model had not been saved with them.
    """

    folder: Path
    table_model: TableModel
    log: BatchLog
    idempotency: Idempotency
    executor: Executor
    n_replayed: int


def open_owned(folder: Path, limits: Limits, estimator: str | None = None) -> OwnedModel:
    """Load a model and replay the log; the caller holds the folder's lock.

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
    if place.is_symlink():
        raise CheckpointError(f"{place} is a link, where accous does not write: remove it, then run the command again.")
    if not place.is_dir():
        place.mkdir()
        sync_folder(folder)
    log, records, is_new = _open_log(place / LOG, table_model.log_position)
    has_none = is_new and not (place / IDEMPOTENCY).is_file()
    idempotency = Idempotency() if has_none else load_idempotency(place / IDEMPOTENCY, log.name)
    if is_new:
        # From now on the model knows its log: that of another model in this folder is never taken for it.
        idempotency.save(place / IDEMPOTENCY, log.name)
        table_model.log_position = LogPosition(log.name, log.n_records)
        save_table_model(table_model, folder)
    # What was accepted once counts, also if the limits are lower now.
    executor = Executor(table_model, BatchReader(table_model, NO_LIMITS), idempotency, open_store(table_model, folder))
    _replay(records, executor, place / LOG)
    executor.reader = BatchReader(table_model, limits)
    prepare_to_predict(table_model)
    return OwnedModel(folder, table_model, log, idempotency, executor, len(records))


def prepare_to_predict(table_model: TableModel) -> None:
    """Predict a row, so that no request waits for what is fitted on its first use: what learned from labels."""
    table_model.predict_rows(np.zeros((1, table_model.model.n_features_in_)))


def _open_log(path: Path, position: LogPosition | None) -> tuple[BatchLog, list[tuple[int, Record]], bool]:
    """Return the log, its records that the model does not contain, and whether the model does not know the log yet."""
    own, n_contained = (None, 0) if position is None else (position.log, position.n_records)
    if path.is_file():
        log, records = open_log(path)
        if log.name == own and log.n_records >= n_contained:
            if records and records[0][0] > n_contained + 1:
                raise CheckpointError(
                    f"{path} begins with record {records[0][0]:,}, but the model contains {n_contained:,}: restore the "
                    "folder from a copy."
                )
            return log, [each for each in records if each[0] > n_contained], False
        log.close()
        aside = path.with_name(f"{path.name}.{log.name[:8]}")
        path.rename(aside)
        if log.n_records:
            LOGGER.warning("%s belongs to another model, or is older than this one: it is now %s", path, aside)
    elif position is not None:
        # The model was copied without its log, or the log was lost: what the model contains is all there is.
        LOGGER.warning("%s is missing: requests that were sent before are not known", path)
    return BatchLog.create(path, own, n_contained), [], True


def _replay(records: list[tuple[int, Record]], executor: Executor, path: Path) -> None:
    for number, record in records:
        try:
            parsed = executor.parse(record)
        except HttpError as error:
            raise CheckpointError(
                f"Record {number:,} of {path} cannot be read by this version of accous ({error.message}): start the "
                "version that wrote it once more."
            ) from None
        executor.carry_out(number, record, parsed)
        if executor.n_unstored >= _MOST_UNSTORED:
            executor.store_predictions()
