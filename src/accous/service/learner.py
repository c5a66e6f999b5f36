"""The learner: one thread that logs the waiting batches in one piece, learns from them in order, and saves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from functools import partial
from pathlib import Path

from accous.exceptions import AccousError
from accous.service.answers import Answer
from accous.service.batch_log import BatchLog, LogError, Record
from accous.service.carrying_out import Executor, Parsed
from accous.service.kept import Kept
from accous.service.limits import Limits, SaveEvery
from accous.service.metrics import Metrics
from accous.service.refusals import Refusal
from accous.service.waiting import Waiting, resolve, settle
from accous.table.model import TableModel, save_table_model
from accous.table.runs import LogPosition
from accous.text import LOGGER

__all__ = ["Learner"]

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
