"""The endpoints of the service as an application of Starlette: predict, learn, count labels, look, and the pages."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import polars as pl
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from accous.service.bodies import (
    CLOSE,
    ENCODINGS,
    HEADERS,
    JSON,
    BatchReader,
    HttpError,
    Limits,
    RequestBatch,
    ResponseOptions,
    prediction_content,
    prediction_sets,
    respond,
    respond_json,
    too_large,
    unpack,
)
from accous.service.interface import Endpoint, Gate, Pages, not_found
from accous.service.learner import Learner, Parsed
from accous.service.live import Events, Metrics, ReadingTimer, read_event_id
from accous.service.log import Record
from accous.service.protocols import Inference
from accous.table.kinds import form_of
from accous.table.model import RoundResult
from accous.text import LOGGER

T = TypeVar("T")


# --- The parts of a service that its endpoints use: the model, and whoever learns, reads and counts


@dataclass(kw_only=True)
class Service:
    """What the endpoints use.

    Attributes
    ----------
    name : str
        Of the model, in addresses.
    reader : callable
        Returns the reader of rows for the model to predict with.
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
    n_connections : callable
        Returns how many there are.
    n_streams : int
        Open streams of events.
    bodies : Intake
        Reads the bodies of requests.
    """

    name: str
    reader: Callable[[], BatchReader]
    limits: Limits
    gate: Gate
    metrics: Metrics
    events: Events = field(default_factory=Events)
    learner: Learner | None = None
    readings: ReadingTimer | None = None
    learns_first: bool = False
    is_ready: bool = False
    n_connections: Callable[[], int] = lambda: 0
    n_streams: int = 0
    bodies: Intake = field(init=False)
    # Ids of predictions in different processes differ; requests are predicted in several threads.
    _origin: str = field(default_factory=lambda: f"p{secrets.token_hex(6)}")
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.bodies = Intake(self.limits)

    def owned(self, part: T | None) -> T:
        """Return the learner or the readings; refuse in a worker, which has none."""
        if part is None:
            raise HttpError(404, "reads_only", "This process only predicts: for this, use the service's own port.")
        return part

    def require_ready(self) -> int:
        """Return the number of rounds; refuse while requests are not welcome."""
        if not self.is_ready or (self.learner is not None and not self.learner.is_alive):
            text = "The service is starting or stopping."
            raise HttpError(503, "not_ready", text, headers={"retry-after": "1"})
        return self.n_rounds

    @property
    def n_rounds(self) -> int:
        """Rounds that the model has learned from: every one that was acknowledged."""
        return int(self.reader().table_model.model.n_rounds_)

    def up_to_date(self, content: dict[str, Any]) -> Response:
        """Return a reading with the rounds, rows and labels of now; it says as of which round all the rest is."""
        found = content | {"rounds": self.n_rounds, "as_of_round": content["rounds"]}
        if self.learner is not None:
            executor = self.learner.executor
            now = {"rows": executor.n_rows, "labelled_rows": executor.n_labelled}
            found |= {name: value for name, value in now.items() if name in content}
        return respond_json(found)

    def predict(self, reader: BatchReader, batch: RequestBatch, *, needs_ratio: bool, model: Any = None) -> RoundResult:
        """Predict rows, all from one round; of this copy of the model, if there is one."""
        result = reader.table_model.predict_rows(batch.X, needs_ratio=needs_ratio, model=model)
        self.metrics.predicted_rows.inc(len(batch.X))
        return result

    def predicted(self, reader: BatchReader, batch: RequestBatch) -> dict[str, Any]:
        """Return the predictions of rows, ready for JSON."""
        # One copy for all parts: learning may go on between them.
        model = copy(reader.table_model.model)
        result = self.predict(reader, batch, needs_ratio="ratio" in batch.choices.include, model=model)
        origin = f"{self._origin}-{next(self._numbers)}"
        form = form_of(model.task_, getattr(model, "classes_", None))
        content = prediction_content(form, result, batch, origin=origin, salt=reader.salt)
        return content | prediction_sets(model, batch)


# --- Bodies of requests: read within the limits, and what is large is unpacked and decoded aside, few at a time


# Reading more than this takes longer than other requests should wait.
_LARGE = 32 << 10
# What is still read of a body that is refused, so that its sender gets to see why.
_DRAINED_BYTES, _DRAINED_SECONDS = 4 << 20, 1.0
_DECODED_AT_ONCE = 2


class Intake:
    """Reads bodies; used in the event loop only.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._n_bytes = limits, 0
        self._decoding = asyncio.Semaphore(_DECODED_AT_ONCE)

    async def read(self, request: Request, function: Callable[[bytes], T]) -> T:
        """Call a function with the body of a request, in a thread if that takes long; return what it returns."""
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", *ENCODINGS):
            text = f"The header Content-Encoding is {encoding[:40]!r}: use gzip, deflate or none."
            raise HttpError(415, "unsupported_encoding", text, headers=CLOSE)
        pieces: list[bytes] = []
        try:
            await self._receive(request, pieces)
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if encoding in ENCODINGS:
                async with self._decoding:
                    return await asyncio.to_thread(lambda: function(unpack(body, self._limits.body_bytes)))
            if len(body) <= _LARGE:
                return function(body)
            async with self._decoding:
                return await asyncio.to_thread(function, body)
        finally:
            self._n_bytes -= sum(map(len, pieces))

    async def _receive(self, request: Request, pieces: list[bytes]) -> None:
        """Add the pieces of a body as they come; refuse one that is too long or too slow as soon as that shows."""
        loop, limit, n_bytes = asyncio.get_running_loop(), self._limits.body_bytes, 0
        declared = request.headers.get("content-length", "")
        error = too_large(limit, CLOSE) if declared.isdigit() and int(declared) > limit else None
        try:
            async with asyncio.timeout(_DRAINED_SECONDS if error else self._limits.body_seconds) as end:
                async for piece in request.stream():
                    n_bytes += len(piece)
                    if error is not None:
                        if n_bytes > limit + _DRAINED_BYTES:
                            break
                        continue
                    error = self._refused(n_bytes, len(piece))
                    if error is None:
                        pieces.append(piece)
                        self._n_bytes += len(piece)
                    else:
                        end.reschedule(loop.time() + _DRAINED_SECONDS)
        except TimeoutError:
            error = error or HttpError(408, "too_slow", "The body did not arrive in time.", headers=CLOSE)
        if error is not None:
            raise error

    def _refused(self, n_bytes: int, n_more: int) -> HttpError | None:
        if n_bytes > self._limits.body_bytes:
            return too_large(self._limits.body_bytes, CLOSE)
        if self._n_bytes + n_more > self._limits.held_bytes:
            text = "Too many large requests are arriving at the same time: try again in a second."
            return HttpError(503, "too_busy", text, headers={"retry-after": "1"} | CLOSE)
        return None


def options_of(request: Request, *allowed: str, otherwise: str = "this address takes none") -> dict[str, str]:
    """Return what the address says after the question mark; refuse what is not allowed there.

    Parameters
    ----------
    request : Request
    *allowed : str
        The names that may be there.
    otherwise : str
        What the error says if none may be.
    """
    if not request.scope["query_string"]:
        return {}
    found = dict(request.query_params)
    unknown = next((name for name in found if name not in allowed), None)
    if unknown is not None:
        advice = f"use {', '.join(allowed)}" if allowed else otherwise
        raise HttpError(422, "invalid", f"The address has the parameter {unknown[:40]!r}: {advice}.")
    return found


# --- The endpoints of our own interface: predict, learn, count labels, and look


_LONGEST_KEY = 255
_EVENT_STREAM = "text/event-stream; charset=utf-8"


class Endpoints:
    """Answers requests.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def predict(self, request: Request) -> Response:
        """Predict rows; nothing is learned."""
        content_type, options = request.headers.get("content-type", ""), _choices(request)
        return await self._service.bodies.read(request, partial(self._predict, content_type, options))

    def _predict(self, content_type: str, options: dict[str, str], body: bytes) -> Response:
        reader = self._service.reader()
        batch = reader.read(body, content_type, options)
        if batch.keys is not None:
            text = "Predictions are not kept, so key cannot be used here: send labels by the ids of the answer."
            raise HttpError(422, "key_not_kept", text)
        return respond_json(self._service.predicted(reader, batch))

    async def learn(self, request: Request) -> Response:
        """Carry out a batch, labels or a question which rows to label; the address says which it is."""
        service, learner = self._service, self._service.owned(self._service.learner)
        learner.require_room()
        kind = request.scope["path"].rpartition("/")[2]
        content_type = request.headers.get("content-type", "")
        options = options_of(request) if kind in ("labels", "ask") else _choices(request)
        key = request.headers.get("idempotency-key") or None
        if key is not None and (len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable()):
            raise HttpError(400, "bad_key", f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable characters.")

        def read(body: bytes) -> tuple[Record, Parsed]:
            digest = b"" if key is None else _digest(body, kind, content_type, options)
            record = Record(kind, content_type, body, options, service.learns_first, key, digest)
            return record, learner.executor.parse(record)

        record, parsed = await service.bodies.read(request, read)
        response = await learner.learn(record, parsed)
        if response.status_code == 200 and isinstance(parsed, RequestBatch):
            service.metrics.learned_rows.inc(len(parsed.X))
        return response

    # --- looking ---

    async def state(self, request: Request) -> Response:
        """What ``accous status --json`` prints, and what is the service's own."""
        column, reading = options_of(request, "by").get("by"), self._service.owned(self._service.readings).latest
        found = reading.state if column is None else await asyncio.to_thread(reading.state_by, column)
        return self._service.up_to_date(found)

    async def history(self, request: Request) -> Response:
        """The rounds so far, in a bounded number of points."""
        since = options_of(request, "since").get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) < 19):
            raise HttpError(422, "invalid", "since must be the number of a round, such as 0 or 1200.")
        return self._service.up_to_date(self._service.owned(self._service.readings).latest.history(int(since)))

    async def events(self, request: Request) -> Response:
        """Server-sent events, until the reader leaves or the service stops."""
        service = self._service
        if request.method == "HEAD":  # who asks for the head only gets one that ends
            return respond(b"", _EVENT_STREAM)
        if service.n_streams >= service.limits.streams:
            text = f"There are {service.limits.streams:,} streams of events already: try again later."
            raise HttpError(503, "too_many_streams", text, headers={"retry-after": "5"} | CLOSE)
        follower = service.events.follow(read_event_id(request.headers.get("last-event-id", "")))
        # Proxies that collect a response before they pass it on must not do so here.
        headers = HEADERS | {"x-accel-buffering": "no"}
        return _EventStream(service, follower, headers=headers, media_type=_EVENT_STREAM)

    async def metrics(self, _request: Request) -> Response:
        """What Prometheus reads."""
        service = self._service
        if service.learner is not None:
            service.metrics.queue.set(service.learner.n_pending)
            service.metrics.rows.set(service.learner.executor.n_rows)
        service.metrics.rounds.set(service.n_rounds)
        service.metrics.streams.set(service.n_streams)
        return respond(service.metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")

    async def healthz(self, _request: Request) -> Response:
        """Whether the process is alive."""
        return respond_json({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        """Whether requests are welcome."""
        return respond_json({"status": "ready", "rounds": self._service.require_ready()})


class _EventStream(StreamingResponse):
    """A stream that is counted from the moment it is allowed."""

    def __init__(self, service: Service, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._service = service

    async def __call__(self, *arguments: Any) -> None:
        self._service.n_streams += 1
        try:
            await super().__call__(*arguments)
        finally:
            self._service.n_streams -= 1


def _choices(request: Request) -> dict[str, str]:
    """Return what the address says about the response; a body of JSON has a place of its own for it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON:
        return options_of(request, otherwise="with JSON, put include, alpha and key beside the rows")
    return options_of(request, *ResponseOptions.__struct_fields__)


def _digest(body: bytes, kind: str, content_type: str, options: dict[str, str]) -> bytes:
    digest = hashlib.blake2b(body, digest_size=16)
    digest.update(f"\n{kind}\n{content_type}\n{sorted(options.items())}".encode("utf-8", "replace"))
    return digest.digest()


# --- The addresses of the service, who may use each, and which endpoint answers


# Asked by whoever decides whether the process lives: also answered while there are too many connections.
_HEALTH = frozenset(("/healthz", "/ping", "/readyz", "/v2/health/live", "/v2/health/ready"))


def make_app(service: Service) -> Starlette:
    """Return the service as an application."""
    endpoints = _endpoints(service)
    endpoints += Pages(service, endpoints).endpoints()
    routes = [Route(each.path, _Guarded(service, each).answer, methods=[each.method]) for each in endpoints]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _nowhere})
    app.router.redirect_slashes = False
    return app


def _endpoints(service: Service) -> list[Endpoint]:
    own, inference = Endpoints(service), Inference(service)
    post, get, look = partial(Endpoint, "POST"), partial(Endpoint, "GET"), partial(Endpoint, "GET", access="look")
    protocol, key = "Open Inference Protocol: ", "Idempotency-Key"
    labels = "Count labels that arrived late, by the ids or keys of predictions, then learn from them."
    ask = "Choose rows to label among those that were predicted and learned from since the last time."
    found = [
        post("/v1/predict", own.predict, "Predict rows; nothing is learned.", "read", "RowsToPredict", "PredictedBatch",
             ("include", "alpha")),
        post("/v1/step", own.learn, "Predict rows, then learn from them.", "write", "RowsBody", "PredictedBatch",
             (key, "include", "alpha", "key")),
        post("/v1/adapt", own.learn, "Learn from rows.", "write", "RowsBody", "LearnedBatch", (key, "key")),
        post("/v1/ask", own.learn, ask, "write", "AskBody", "Asked", (key,)),
        post("/v1/labels", own.learn, labels, "write", "LabelsBody", "Counted", (key,)),
        post("/invocations", inference.invoke, "Predict, as MLflow's scoring server does.", "read", "Invocation"),
        look("/v1/state", own.state, "State, metric, advice and what moved, as accous status --json prints them.",
             parameters=("by",)),
        look("/v1/history", own.history, "The rounds so far, in at most 512 points.", parameters=("since",)),
        look("/v1/events", own.events, "Events: reading, drift, state, alarm, learned.", gives="text/event-stream",
             parameters=("Last-Event-ID",)),
        look("/metrics", own.metrics, "Metrics for Prometheus.", gives="text/plain"),
        get("/healthz", own.healthz, "Whether the process is alive."),
        get("/ping", own.healthz),
        get("/readyz", own.readyz, "Whether requests are welcome."),
        get("/v2", inference.server, f"{protocol}the server."),
        get("/v2/health/live", inference.live),
        get("/v2/health/ready", inference.ready),
    ]  # fmt: skip
    for place, text in (("/v2/models/{name}", protocol), ("/v2/models/{name}/versions/{version}", "")):
        found += [
            post(f"{place}/infer", inference.infer, text and f"{text}predict.", "read", "InferBody"),
            get(place, inference.model, text and f"{text}inputs and outputs.", "read"),
            get(f"{place}/ready", inference.model_ready, text and f"{text}whether the model is ready."),
        ]
    return found


class _Guarded:
    """An endpoint behind the gate: who may not ask is refused, errors become responses, and all is counted."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self._service, self._endpoint = service, endpoint

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        metrics, path = self._service.metrics, self._endpoint.path
        with metrics.request_seconds.labels(path).time():
            try:
                self._require(request)
                response = await self._endpoint.answer(request)
            except HttpError as error:
                response = error.response(request.scope["path"])
            except ClientDisconnect:
                response = Response(status_code=400)  # nobody is there to see it
            except (Exception, pl.exceptions.PanicException):
                LOGGER.exception("%s %s failed", request.method, request.scope["path"])
                failed = HttpError(500, "failed", "Something went wrong in the service; its log says what.")
                response = failed.response(request.scope["path"])
        metrics.requests.labels(path, response.status_code).inc()
        return response

    def _require(self, request: Request) -> None:
        service, access = self._service, self._endpoint.access
        if service.n_connections() > service.limits.connections and self._endpoint.path not in _HEALTH:
            headers = {"retry-after": "1"} | CLOSE
            raise HttpError(503, "too_many_connections", "There are too many connections: try again.", headers=headers)
        service.gate.require_host(request)
        if request.method == "POST":
            service.gate.require_same_origin(request)
        if access == "look":
            service.gate.require(request, "read", accepts_cookie=True)
        elif access != "open":
            service.gate.require(request, access)


async def _nowhere(request: Request, error: Exception) -> Response:
    """Say what is wrong with an address that is none, or a method that it does not take."""
    found = not_found()
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = next(iter((error.headers or {}).values()), "")
        methods = ", ".join(sorted(each for each in allowed.split(", ") if each != "HEAD"))
        found = HttpError(405, "wrong_method", f"Use {methods} here.", headers={"allow": methods} | CLOSE)
    return found.response(request.scope["path"])
