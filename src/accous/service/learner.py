"""The one thread that logs and learns, the batches that wait for it, and what a start finds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from accous.checkpoint.files import sync_folder
from accous.exceptions import AccousError, CheckpointError
from accous.service.bodies import (
    Batch,
    BatchReader,
    Label,
    MadePrediction,
    key_text,
    plain_predictions,
    prediction_content,
    prediction_sets,
    read_id,
)
from accous.service.http import NO_LIMITS, Answer, Limits, Metrics, Refusal, SaveEvery, json_answer
from accous.service.log import BatchLog, Kept, KeptAnswer, LogError, Opened, Record, load_kept, open_log
from accous.table.model import TableModel, load_table_model, save_table_model
from accous.table.runs import LogPosition
from accous.text import LOGGER

# --- What a record of the log does to the model; the same on its first day and when the log is played again


Parsed = Batch | list[Label]
_ID, _KEY = "accous id", "accous key"
_MOST_UNKNOWN = 20


class Executor:
    """Carries out records, in their order.

    Parameters
    ----------
    table_model : TableModel
    reader : BatchReader
    kept : Kept
    """

    def __init__(self, table_model: TableModel, reader: BatchReader, kept: Kept) -> None:
        self._table_model, self._reader, self._kept = table_model, reader, kept

    def parse(self, record: Record) -> Parsed:
        """Return the rows or labels of a record; refuse what cannot be learned from."""
        if record.kind == "labels":
            return self._reader.read_labels(record.body, record.content_type)
        batch = self._reader.read(record.body, record.content_type, record.options)
        if not len(batch.X):
            raise Refusal(422, "no_rows", "There is no row in the request, so there is nothing to learn from.")
        return batch

    def carry_out(self, number: int, record: Record, parsed: Parsed) -> Answer:
        """Learn from a record; return the answer, and keep it if the client may ask again.

        Parameters
        ----------
        number : int
            Of the record in the log.
        record : Record
        parsed : Batch or list of Label
            What `parse` returned for it.
        """
        try:
            answer = self._do(number, record, parsed)
        except Refusal as refusal:
            answer = refusal.answer
        except AccousError as error:
            answer = Refusal(422, "not_learned", f"The batch cannot be learned from: {error}").answer
        except Exception:
            # The model keeps its state. The log is played again with the same result.
            LOGGER.exception("Record %d of the log could not be learned from", number)
            answer = Refusal(500, "not_learned", "The batch could not be learned from; the model is unchanged.").answer
        if record.key is not None:
            self._kept.keep_answer(record.key, KeptAnswer(record.digest, answer.status, answer.body))
        return answer

    def _do(self, number: int, record: Record, parsed: Parsed) -> Answer:
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
        if parsed.keys is not None:
            self._kept.keep_predictions(parsed.keys, plain_predictions(table_model.kind, played), played.number)
        if record.kind == "adapt":
            return json_answer({"round": played.number, "rows": len(parsed.X)})
        content = prediction_content(table_model, played, parsed, origin=f"s{number}", salt=self._reader.salt)
        sets = prediction_sets(copy(table_model.model), parsed) if record.learns_first else sets
        return json_answer(content if sets is None else content | {"sets": sets})

    # --- late labels ---

    def _count(self, labels: list[Label]) -> Answer:
        before, n_earlier = self._n_labelled(), 0
        all_matched: list[Label] = []
        for column, wanted in ((_ID, True), (_KEY, False)):
            found = [(each, self._find(each)) for each in labels if (each.id is not None) is wanted]
            matched = [(each, made) for each, made in found if made is not None]
            if matched:
                self._observe(column, matched)
            all_matched += [each for each, _ in matched]
            rounds = [made.round for each, made in matched if each.label is not None]
            n_earlier += int(self._table_model.model.is_before_joining(rounds).sum())
        counted, n_matched = self._n_labelled() - before, len(all_matched)
        n_labelled = len([each for each in labels if each.label is not None])
        return json_answer(
            {
                "round": int(self._table_model.model.n_rounds_),
                "labels": len(labels),
                "counted": counted,
                "counted_before": max(0, n_matched - (len(labels) - n_labelled) - counted - n_earlier),
                "before_joining": n_earlier,
                "without_label": len(labels) - n_labelled,
                "unmatched": len(labels) - n_matched,
                "labelled_rows": self._n_labelled(),
                "unknown_labels": self._unknown(all_matched),
            }
        )

    def _unknown(self, labels: list[Label]) -> dict[str, int]:
        """Return the labels that the reference does not have, and how often each is there: a new class, or misspelt.

        A label that matches no prediction is counted nowhere, so it is not asked about.
        """
        texts = pl.Series([_label_text(each.label) for each in labels], dtype=pl.String).drop_nulls()
        counts = Counter(texts.filter(~self._table_model.kind.is_possible(texts)).to_list())
        return dict(counts.most_common(_MOST_UNKNOWN))

    def _find(self, label: Label) -> MadePrediction | None:
        if label.id is not None:
            return read_id(label.id, self._reader.salt)
        return self._kept.prediction(key_text(label.key))

    def _observe(self, column: str, matched: list[tuple[Label, MadePrediction]]) -> None:
        if all(each.label is None for each, _ in matched):
            return
        places = [each.id if each.id is not None else key_text(each.key) for each, _ in matched]
        frame = pl.DataFrame({column: places})
        rows = [each.row for each, _ in matched]
        if all(row is not None for row in rows):
            frame = frame.hstack(self._reader.frame_of([row or {} for row in rows]))
        predictions = pl.DataFrame(
            {
                column: places,
                "prediction": [made.prediction for _, made in matched],
                "round": [made.round for _, made in matched],
            }
        )
        y = pl.Series([_label_text(each.label) for each, _ in matched], dtype=pl.String)
        self._table_model.observe(frame, y, predictions=predictions, key=column)

    def _n_labelled(self) -> int:
        labels = self._table_model.model.state_.late_labels
        return 0 if labels is None else int(labels.n_labelled)


def _label_text(label: Any) -> str | None:
    return None if label is None else key_text(label)


# --- A batch that waits for the learner, and how its answer gets back to the event loop


Reply = Callable[[Answer | Refusal], None]


@dataclass(eq=False, slots=True)
class Waiting:
    """A batch in the queue; `is_taken` and `is_given_up` change under the learner's lock only.

    Attributes
    ----------
    record : Record
    parsed : Batch or list of Label
    loop : event loop
        Where ``reply`` is called.
    reply : callable
        Takes the answer or the refusal, once.
    future : Future, optional
        Of the same answer, for others who send a record with the same key; needed if it has one.
    timer : TimerHandle, optional
        Gives the batch back when it has waited too long.
    """

    record: Record
    parsed: Parsed
    loop: asyncio.AbstractEventLoop
    reply: Reply
    future: asyncio.Future[Answer] | None = None
    timer: asyncio.TimerHandle | None = None
    is_taken: bool = False
    is_given_up: bool = False


def resolve(answers: Iterable[tuple[Waiting, Answer | Refusal]]) -> None:
    """Give answers to those who wait; called in their event loop. One who cannot take it holds up nobody else."""
    for waiting, answer in answers:
        if waiting.timer is not None:
            waiting.timer.cancel()
        try:
            waiting.reply(answer)
        except Exception:
            LOGGER.exception("An answer could not be given")


def settle(future: asyncio.Future[Answer], answer: Answer | Refusal) -> None:
    """Set the result of a future whose request may have been given up."""
    if future.done():
        return
    if isinstance(answer, Refusal):
        future.set_exception(answer)
        future.exception()  # seen: the client may have gone
    else:
        future.set_result(answer)


# --- The learner: one thread that logs the waiting batches in one piece, learns from them in order, and saves


_MOST_IN_GROUP, _MOST_BYTES_IN_GROUP = 256, 16 << 20
_SECONDS_BETWEEN_ANSWERS = 0.002
_RETRY_AFTER = b"1"
_REPLAYED = ((b"idempotent-replayed", b"true"),)


class Learner:
    """Takes batches from the event loop and learns from them in a thread of its own.

    Parameters
    ----------
    table_model : TableModel
    folder, kept_path : Path
        Of the model, and of what is kept.
    log : BatchLog
    kept : Kept
    executor : Executor
    limits : Limits
    save_every : SaveEvery
    metrics : Metrics

    Attributes
    ----------
    n_done : int
        Records of the log that the model contains now.
    """

    def __init__(
        self,
        *,
        table_model: TableModel,
        folder: Path,
        kept_path: Path,
        log: BatchLog,
        kept: Kept,
        executor: Executor,
        limits: Limits,
        save_every: SaveEvery,
        metrics: Metrics,
    ) -> None:
        self._table_model, self._folder, self._kept_path = table_model, folder, kept_path
        self._log, self._kept, self._executor = log, kept, executor
        self._limits, self._save_every, self._metrics = limits, save_every, metrics
        self._queue: deque[Waiting] = deque()
        self._n_bytes = 0  # of the bodies in the queue
        self._in_flight: dict[str, Waiting] = {}
        self._changed = threading.Condition()
        self._is_stopping = False
        self.n_done = log.n_records
        self._n_since_save, self._last_save = log.n_records - self._n_saved(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)

    @property
    def n_waiting(self) -> int:
        """Batches in the queue."""
        return len(self._queue)

    @property
    def is_alive(self) -> bool:
        """Whether batches are taken."""
        return self._thread.is_alive() and not self._is_stopping

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, learn from what is waiting, save, and wait until that is done."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def require_room(self) -> None:
        """Refuse a batch while the queue is full, before its body is read."""
        if len(self._queue) >= self._limits.queue or self._n_bytes >= self._limits.queue_bytes:
            self._metrics.refused_batches.inc()
            raise _full()

    def parse(self, record: Record) -> Parsed:
        """Return the rows or labels of a record; refuse what cannot be learned from."""
        return self._executor.parse(record)

    async def known_answer(self, key: str, digest: bytes) -> Answer | None:
        """Return the answer to a request that came before, also if it is not learned from yet; None if it is new."""
        with self._changed:
            known = self._find_known(key, digest)
        return known if known is None or isinstance(known, Answer) else await asyncio.shield(known)

    async def learn(self, record: Record, parsed: Parsed) -> Answer:
        """Queue a batch; return its answer when it is durable and learned.

        Raises
        ------
        Refusal
            If the queue is full or takes too long, the service stops, or the disk does not take the batch. It does not
            count then.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        known = self.submit(Waiting(record, parsed, loop, partial(settle, future), future))
        if isinstance(known, Answer):
            return known
        # Shielded: who waits for the same answer still gets it when this request is given up.
        return await asyncio.shield(future if known is None else known)

    def submit(self, waiting: Waiting) -> Answer | asyncio.Future[Answer] | None:
        """Queue a batch; called in its event loop.

        Returns
        -------
        Answer, Future or None
            The answer to the same request, or its future, if it came before; ``reply`` is not called then.
        """
        record = waiting.record
        with self._changed:
            # Again: the same request may have come while the rows of this one were read.
            known = None if record.key is None else self._find_known(record.key, record.digest)
            if known is not None:
                return known
            self._put(waiting)
        waiting.timer = waiting.loop.call_later(self._limits.queue_seconds, self._give_up, waiting)
        return None

    def _find_known(self, key: str, digest: bytes) -> Answer | asyncio.Future[Answer] | None:
        kept, waiting = self._kept.answer(key), self._in_flight.get(key)
        other = kept.digest if kept is not None else waiting.record.digest if waiting is not None else digest
        if other != digest:
            raise Refusal(
                422, "key_reused", "This Idempotency-Key belongs to another request: use a new key for a new batch."
            )
        if kept is None:
            return None if waiting is None else waiting.future
        return Answer(kept.body, status=kept.status, headers=_REPLAYED)

    def _put(self, waiting: Waiting) -> None:
        if self._is_stopping or not self._thread.is_alive():
            raise Refusal(503, "stopping", "The service is stopping: try again.", headers=((b"retry-after", b"2"),))
        self.require_room()
        if waiting.record.key is not None:
            self._in_flight[waiting.record.key] = waiting
        self._queue.append(waiting)
        self._n_bytes += len(waiting.record.body)
        self._changed.notify()

    def _give_up(self, waiting: Waiting) -> None:
        """Give a batch back that the learner has not taken in time; called in the event loop."""
        with self._changed:
            if waiting.is_taken:
                return
            waiting.is_given_up = True
            self._forget(waiting)
        text = "The batch waited too long and was not learned: try again."
        waiting.reply(Refusal(503, "too_slow", text, headers=((b"retry-after", b"5"),)))

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
        self.save(is_last=True)

    def _take(self) -> list[Waiting] | None:
        """Return the batches that are waiting; none if it is time to look around, None at the end."""
        group: list[Waiting] = []
        with self._changed:
            if not self._queue and not self._is_stopping:
                self._changed.wait(timeout=1.0)
            n_bytes = 0
            while self._queue and len(group) < _MOST_IN_GROUP and n_bytes < _MOST_BYTES_IN_GROUP:
                waiting = self._queue.popleft()
                self._n_bytes -= len(waiting.record.body)
                if not waiting.is_given_up:
                    waiting.is_taken = True
                    group.append(waiting)
                    n_bytes += len(waiting.record.body)
            return None if not group and self._is_stopping else group

    def _carry_out(self, group: list[Waiting]) -> None:
        started = time.perf_counter()
        try:
            if self._log.is_broken:
                self.save()
            number = self._log.append([waiting.record for waiting in group])
        except LogError as error:
            self._metrics.log_failures.inc()
            LOGGER.error("The log of batches cannot be written: %s", error)
            refusal = Refusal(
                507, "not_durable", "The disk does not take the batch, so it was not learned: free some space."
            )
            self._answer([(waiting, refusal) for waiting in group])
            return
        self._metrics.sync_seconds.observe(time.perf_counter() - started)
        done: list[tuple[Waiting, Answer | Refusal]] = []
        last = time.monotonic()
        for place, waiting in enumerate(group):
            began = time.perf_counter()
            done.append((waiting, self._executor.carry_out(number + place, waiting.record, waiting.parsed)))
            self._metrics.learn_seconds.observe(time.perf_counter() - began)
            self._n_since_save += 1
            self.n_done += 1
            if time.monotonic() - last > _SECONDS_BETWEEN_ANSWERS:
                self._answer(done)
                done, last = [], time.monotonic()
        self._answer(done)

    def _answer(self, done: list[tuple[Waiting, Answer | Refusal]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Waiting, Answer | Refusal]]] = {}
        with self._changed:
            for waiting, answer in done:
                self._forget(waiting)
                by_loop.setdefault(waiting.loop, []).append((waiting, answer))
        for loop, answers in by_loop.items():
            try:
                loop.call_soon_threadsafe(resolve, answers)
            except RuntimeError:  # the event loop has ended; nobody waits any more
                LOGGER.warning("%d answers have nobody to go to", len(answers))

    def _forget(self, waiting: Waiting) -> None:
        key = waiting.record.key
        if key is not None and self._in_flight.get(key) is waiting:
            del self._in_flight[key]

    # --- saving ---

    def _n_saved(self) -> int:
        position = self._table_model.log_position
        return 0 if position is None else position.n_records

    def _is_save_due(self) -> bool:
        rule, n_new = self._save_every, self._n_since_save
        is_long_ago = time.monotonic() - self._last_save >= rule.seconds
        return n_new >= rule.batches or bool(n_new and is_long_ago) or self._log.n_bytes >= rule.log_bytes

    def save(self, *, is_last: bool = False) -> None:
        """Save what is kept, then the model, then start the log again; a crash anywhere between loses nothing."""
        began = time.perf_counter()
        self._last_save = time.monotonic()
        try:
            self._kept.save(self._kept_path, self._log.name)
            self._table_model.log_position = LogPosition(self._log.name, self._log.n_records)
            save_table_model(self._table_model, self._folder, is_last=is_last)
            self._n_since_save = 0
            if not self._log.is_empty or self._log.is_broken:
                self._log.restart()
        except (AccousError, OSError) as error:
            # The log still has everything.
            self._metrics.save_failures.inc()
            LOGGER.error("The model could not be saved: %s", error)
            return
        self._metrics.save_seconds.observe(time.perf_counter() - began)


def _full() -> Refusal:
    return Refusal(
        429, "queue_full", "Too many batches are waiting for the learner: try again in a second.",
        headers=((b"retry-after", _RETRY_AFTER),),
    )  # fmt: skip


# --- The owner of a model's folder: what it holds when a service starts, after the log has been played again


FOLDER, LOG, KEPT = "service", "batches.log", "kept.bin"


@dataclass(frozen=True)
class OwnedModel:
    """A model that is up to date.

    Attributes
    ----------
    table_model : TableModel
    reader : BatchReader
    log : BatchLog
    kept : Kept
    executor : Executor
    kept_path : Path
    n_replayed : int
        Records that were learned from again, because the model had not been saved with them.
    n_cut : int
        Bytes of an incomplete last group of the log, which were cut off.
    """

    table_model: TableModel
    reader: BatchReader
    log: BatchLog
    kept: Kept
    executor: Executor
    kept_path: Path
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
    # No request waits for the risk: the timer reads what the rounds have left to read.
    table_model.history.reads_later = True
    place = folder / FOLDER
    if not place.is_dir():
        place.mkdir()
        sync_folder(folder)
    opened = _open_log(table_model, place / LOG)
    if table_model.log_position is None:
        # From now on the model knows its log: that of another model in this folder is never taken for it.
        table_model.log_position = LogPosition(opened.log.name, opened.log.n_records)
        save_table_model(table_model, folder)
    kept = load_kept(place / KEPT, opened.log.name)
    reader = BatchReader(table_model, limits)
    executor = Executor(table_model, reader, kept)
    # What was accepted once counts, also if the limits are lower now.
    again = Executor(table_model, BatchReader(table_model, NO_LIMITS), kept)
    n_replayed = _replay(table_model, opened, again, place / LOG)
    return OwnedModel(table_model, reader, opened.log, kept, executor, place / KEPT, n_replayed, opened.n_cut)


def _open_log(table_model: TableModel, path: Path) -> Opened:
    if not path.is_file():
        position = table_model.log_position
        if position is None:
            return Opened(BatchLog.create(path), [], 0)
        # The model was copied without its log, or the log was lost: what the model contains is all there is.
        return Opened(BatchLog.create(path, position.log, position.n_records), [], 0)
    opened = open_log(path)
    if opened.n_cut:
        LOGGER.warning(
            "%s: cut off %d bytes of a last group that was not complete, and kept them in %s",
            path, opened.n_cut, opened.cut,
        )  # fmt: skip
    position = table_model.log_position
    if position is not None and position.log == opened.log.name and opened.log.n_records >= position.n_records:
        return opened
    if position is None and opened.log.n_records == 0:
        return opened
    opened.log.close()
    if position is not None and position.log == opened.log.name:
        # An older copy of the log, all of which the model contains.
        return Opened(BatchLog.create(path, position.log, position.n_records), [], opened.n_cut)
    aside = path.with_name(f"{path.name}.{opened.log.name[:8]}")
    path.rename(aside)
    LOGGER.warning("%s belongs to another model that was in this folder: it is now %s", path, aside)
    return Opened(BatchLog.create(path), [], opened.n_cut)


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
        except Refusal as refusal:
            raise CheckpointError(
                f"Record {number:,} of {path} cannot be read by this version of accous ({refusal.message}): start the "
                "version that wrote it once more."
            ) from None
        executor.carry_out(number, record, parsed)
        n_replayed += 1
    return n_replayed
