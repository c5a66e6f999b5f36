"""The endpoints of our own interface: predict, learn, count labels, and look."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from accous.service.answers import Answer, json_answer
from accous.service.batch_log import Record
from accous.service.batches import Batch
from accous.service.bodies import CHOICES
from accous.service.calls import Call
from accous.service.carrying_out import Parsed
from accous.service.event_stream import EVENT_STREAM
from accous.service.large_bodies import read_aside
from accous.service.refusals import Refusal
from accous.service.service import Service
from accous.service.waiting import Waiting

__all__ = ["Endpoints"]

Reply = Callable[[Answer], None]
_LONGEST_KEY = 255


class Endpoints:
    """Answers requests.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def predict(self, call: Call) -> Answer:
        """Predict rows; nothing is learned."""
        body, content_type, options = await call.body(), call.header(b"content-type"), _choices(call)
        return await read_aside(len(body), self._predict, body, content_type, options)

    def predict_at_once(self, call: Call, body: bytes, _reply: Reply) -> Answer:
        """Predict the rows of a small request."""
        return self._predict(body, call.header(b"content-type"), {})

    def _predict(self, body: bytes, content_type: str, options: dict[str, str]) -> Answer:
        service = self._service
        served = service.served()
        batch = served.reader.read(body, content_type, options)
        if batch.keys is not None:
            text = "Predictions are not kept, so key cannot be used here: send labels by the ids of the answer."
            raise Refusal(422, "key_not_kept", text)
        return json_answer(service.predicted(served, batch))

    async def adapt(self, call: Call) -> Answer:
        """Learn from a batch."""
        return await self._learn(call, "adapt")

    async def step(self, call: Call) -> Answer:
        """Predict a batch, then learn from it."""
        return await self._learn(call, "step")

    async def labels(self, call: Call) -> Answer:
        """Count labels that arrived late."""
        return await self._learn(call, "labels")

    def adapt_at_once(self, call: Call, body: bytes, reply: Reply) -> None:
        """Learn from a small request without a key; reply when that is done."""
        self._learn_at_once("adapt", call, body, reply)

    def step_at_once(self, call: Call, body: bytes, reply: Reply) -> None:
        """Predict a small request without a key and learn from it; reply when that is done."""
        self._learn_at_once("step", call, body, reply)

    def _learn_at_once(self, kind: str, call: Call, body: bytes, reply: Reply) -> None:
        learner = self._service.require_learner()
        learner.require_room()
        record = Record(kind, call.header(b"content-type"), body, {}, self._service.learns_first)
        parsed = learner.parse(record)

        def finish(found: Answer | Refusal) -> None:
            answer = found.answer if isinstance(found, Refusal) else found
            self._count_learned(answer, parsed)
            reply(answer)

        learner.submit(Waiting(record, parsed, asyncio.get_running_loop(), finish))

    async def _learn(self, call: Call, kind: str) -> Answer:
        learner = self._service.require_learner()
        learner.require_room()
        record = self._record(kind, await call.body(), call)
        if record.key is not None:
            known = await learner.known_answer(record.key, record.digest)
            if known is not None:
                return known
        parsed = await read_aside(len(record.body), learner.parse, record)
        answer = await learner.learn(record, parsed)
        self._count_learned(answer, parsed)
        return answer

    def _count_learned(self, answer: Answer, parsed: Parsed) -> None:
        if answer.status == 200 and isinstance(parsed, Batch):
            self._service.metrics.learned_rows.inc(len(parsed.X))

    def _record(self, kind: str, body: bytes, call: Call) -> Record:
        content_type, options = call.header(b"content-type"), call.options() if kind == "labels" else _choices(call)
        key = call.header(b"idempotency-key") or None
        if key is None:
            return Record(kind, content_type, body, options, self._service.learns_first)
        if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
            raise Refusal(400, "bad_key", f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable characters.")
        digest = hashlib.blake2b(body, digest_size=16)
        digest.update(f"\n{kind}\n{content_type}\n{sorted(options.items())}".encode("utf-8", "replace"))
        return Record(kind, content_type, body, options, self._service.learns_first, key, digest.digest())

    # --- looking ---

    async def state(self, call: Call) -> Answer:
        """What ``accous inspect --json`` prints."""
        call.options()
        return json_answer(self._service.require_readings().latest.state)

    async def trust(self, call: Call) -> Answer:
        """The three answers and the verdict."""
        call.options()
        return json_answer(self._service.require_readings().latest.trust())

    async def history(self, call: Call) -> Answer:
        """The rounds so far, in a bounded number of points."""
        since = call.options("since").get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) < 19):
            raise Refusal(422, "invalid", "since must be the number of a round, such as 0 or 1200.")
        return json_answer(self._service.require_readings().latest.history(int(since)))

    async def events_head(self, _call: Call) -> Answer:
        """What precedes the stream of events, for those who only ask for that."""
        return Answer(b"", EVENT_STREAM)

    async def metrics(self, _call: Call) -> Answer:
        """What Prometheus reads."""
        service = self._service
        if service.learner is not None:
            service.metrics.queue.set(service.learner.n_waiting)
        service.metrics.rounds.set(service.served().table_model.model.n_rounds_)
        return Answer(service.metrics.exposition(), b"text/plain; version=0.0.4; charset=utf-8")

    async def healthz(self, _call: Call) -> Answer:
        """Whether the process is alive."""
        return json_answer({"status": "alive"})

    async def readyz(self, _call: Call) -> Answer:
        """Whether requests are welcome."""
        service = self._service
        if service.is_ready and (service.learner is None or service.learner.is_alive):
            return json_answer({"status": "ready", "rounds": int(service.served().table_model.model.n_rounds_)})
        raise Refusal(503, "not_ready", "The service is starting or stopping.", headers=((b"retry-after", b"1"),))


def _choices(call: Call) -> dict[str, str]:
    """Return what the address says about the answer; a body of JSON has a place of its own for it."""
    if call.header(b"content-type").partition(";")[0].strip().lower() == "application/json":
        return call.options(otherwise=f"with JSON, put {', '.join(CHOICES[:-1])} and {CHOICES[-1]} beside the rows")
    return call.options(*CHOICES)
