"""Requests and responses: limits, large and compressed bodies, refusals, metrics."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from accous.diagnostics.trust import VERDICTS

# --- What the service answers: bytes of a kind, a status and headers


JSON, HTML = b"application/json", b"text/html; charset=utf-8"
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    # Not "no-referrer": browsers would hide where the login form is from, and it would be refused.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_NO_CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
SECURITY_HEADERS = (*_SECURITY, _NO_CONTENT_POLICY)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes
    ----------
    body : bytes
    content_type : bytes
    status : int
    headers : tuple of (name, value)
    """

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


def json_answer(content: Any, status: int = 200) -> Answer:
    """Return plain values as an answer in JSON."""
    return Answer(msgspec.json.encode(content), JSON, status)


def headers_of(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return all headers of an answer; its own replace those that every answer has."""
    own, length = answer.headers, (b"content-length", b"%d" % len(answer.body))
    if not own:
        return [(b"content-type", answer.content_type), length, *SECURITY_HEADERS]
    replaced = {name for name, _ in own}
    always = [(b"content-type", answer.content_type), length, *SECURITY_HEADERS]
    return [each for each in always if each[0] not in replaced] + list(own)


# --- Refusals: what a client did wrong, or why the service cannot do it now, in one JSON shape


class Refusal(Exception):
    """A request that is not carried out.

    Parameters
    ----------
    status : int
    code : str
        A word for programs.
    message : str
        A sentence for people: what is wrong, and what to do.
    headers : tuple of (name, value)
    **details
        More fields of the error, such as the row.
    """

    def __init__(
        self, status: int, code: str, message: str, *, headers: tuple[tuple[bytes, bytes], ...] = (), **details: Any
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers, self.details = headers, details

    @property
    def answer(self) -> Answer:
        """The refusal as JSON."""
        return self._answer({"code": self.code, "message": self.message, **self.details})

    def answer_at(self, path: str) -> Answer:
        """Return the refusal in the shape that clients of an address expect: /v2 is the Open Inference Protocol."""
        return self._answer(self.message) if path == "/v2" or path.startswith("/v2/") else self.answer

    def _answer(self, error: Any) -> Answer:
        return Answer(msgspec.json.encode({"error": error}), JSON, self.status, self.headers)


# --- The limits of a service: what one request may cost, and when to save


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a request may cost.

    Attributes
    ----------
    body_bytes, rows, columns : int
    arriving_bytes : int
        Bytes of all bodies together that have come in part.
    body_seconds : float
        Time that a body may take to arrive.
    head_bytes, head_seconds
        The same for the lines before the body.
    queue : int
        Batches that may wait for the learner; beyond, clients are asked to come back.
    queue_bytes : int
        Bytes that their bodies may have together.
    queue_seconds : float
        Time that a batch may wait before it is given back unlearned.
    connections : int
    """

    body_bytes: int = 16 << 20
    rows: int = 10_000
    columns: int = 4_096
    arriving_bytes: int = 256 << 20
    body_seconds: float = 30.0
    head_bytes: int = 64 << 10
    head_seconds: float = 15.0
    queue: int = 1_024
    queue_bytes: int = 256 << 20
    queue_seconds: float = 60.0
    connections: int = 2_000


NO_LIMITS = Limits(body_bytes=1 << 62, rows=1 << 31, columns=1 << 31)


@dataclass(frozen=True, kw_only=True)
class SaveEvery:
    """When the learner saves the model and starts its log again; whichever comes first.

    Attributes
    ----------
    batches : int
    seconds : float
    log_bytes : int
    """

    batches: int = 5_000
    seconds: float = 60.0
    log_bytes: int = 64 << 20


# --- How many bytes of bodies that are still arriving a process holds: many slow clients together are bounded
#     too


class Arriving:
    """Counts the bytes of bodies that have come in part; used in the event loop only.

    Parameters
    ----------
    most_bytes : int

    Attributes
    ----------
    n_bytes : int
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.n_bytes = most_bytes, 0

    def has_room(self, n_bytes: int) -> bool:
        """Whether so many more bytes may be held."""
        return self.n_bytes + n_bytes <= self._most_bytes

    @staticmethod
    def refusal(headers: tuple[tuple[bytes, bytes], ...] = ()) -> Refusal:
        """Return what a client is told whose body has no room."""
        text = "Too many large requests are arriving at the same time: try again in a second."
        return Refusal(503, "too_busy", text, headers=((b"retry-after", b"1"), *headers))


# --- Bodies that come packed with gzip or deflate, unpacked no further than the limit


ENCODINGS = ("gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpack(body: bytes, most_bytes: int) -> bytes:
    """Return what was packed; refuse it as soon as it is longer than allowed."""
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = unpacker.decompress(body, most_bytes + 1)
    except zlib.error:
        raise Refusal(400, "malformed_encoding", "The body is not packed as Content-Encoding says.") from None
    if len(found) > most_bytes:
        raise too_large(most_bytes)
    if not unpacker.eof or unpacker.unused_data:
        raise Refusal(400, "malformed_encoding", "The packed body is not one whole piece: pack it once, and send all.")
    return found


def too_large(most_bytes: int, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Refusal:
    """Return the refusal of a body that is too long."""
    text = f"A request may have {most_bytes:,} bytes: send the rows in several requests."
    return Refusal(413, "too_large", text, headers=headers)


# --- A request as the endpoints see it, and its body, read within the limits


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# What is still read of a body that is too long, so that its sender gets to see the refusal.
_DRAINED_BYTES, _DRAINED_SECONDS = 4 << 20, 1.0
_MOST_OPTIONS = 20


class Call:
    """A request.

    Parameters
    ----------
    scope, receive
        Of ASGI.
    limits : Limits
    arriving : Arriving
        Counts what has come of all bodies.
    """

    __slots__ = ("_arriving", "_headers", "_limits", "_receive", "parts", "scope")

    def __init__(self, scope: Scope, receive: Receive, limits: Limits, arriving: Arriving) -> None:
        self.scope, self._receive, self._limits, self._arriving = scope, receive, limits, arriving
        self._headers: dict[bytes, bytes] | None = None
        self.parts: dict[str, str] = {}

    @property
    def method(self) -> str:
        """GET, POST and so on."""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """What is asked for."""
        return str(self.scope["path"])

    def header(self, name: bytes) -> str:
        """Return a header; empty if it is missing."""
        if self._headers is None:
            self._headers = dict(self.scope["headers"])
        return self._headers.get(name, b"").decode("latin-1")

    def options(self, *allowed: str, otherwise: str = "this address takes none") -> dict[str, str]:
        """Return what the address says after the question mark; refuse what is not allowed there.

        Parameters
        ----------
        *allowed : str
            The names that may be there.
        otherwise : str
            What the refusal says if none may be.
        """
        query = self.scope["query_string"]
        if not query:
            return {}
        try:
            text = query.decode("ascii")
            found = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_OPTIONS, errors="strict"))
        except ValueError:
            raise Refusal(400, "malformed_query", "What follows the question mark cannot be read.") from None
        unknown = next((name for name in found if name not in allowed), None)
        if unknown is not None:
            advice = f"use {', '.join(allowed)}" if allowed else otherwise
            raise Refusal(422, "invalid", f"The address has the parameter {unknown[:40]!r}: {advice}.")
        return found

    async def body(self) -> bytes:
        """Return the body, unpacked; refuse one that is too long or takes too long, as soon as that shows."""
        encoding = self.header(b"content-encoding").strip().lower()
        if encoding in ("", "identity"):
            return await self._packed_body()
        if encoding not in ENCODINGS:
            text = f"The header Content-Encoding is {encoding[:40]!r}: use gzip, deflate or none."
            raise Refusal(415, "unsupported_encoding", text, headers=CLOSE)
        return await asyncio.to_thread(unpack, await self._packed_body(), self._limits.body_bytes)

    async def _packed_body(self) -> bytes:
        limit = self._limits.body_bytes
        declared = self.header(b"content-length")
        if declared.isdigit() and int(declared) > limit:
            raise await self._drained(too_large(limit, headers=CLOSE))
        end = time.monotonic() + self._limits.body_seconds
        message = await self._next(self._limits.body_seconds)
        piece: bytes = message.get("body", b"")
        if not message.get("more_body", False) and len(piece) <= limit:
            return piece
        return await self._gathered(message, end)

    async def _gathered(self, message: Message, end: float) -> bytes:
        """Return a body that comes in several messages, of which this is the first, until then."""
        arriving, limit = self._arriving, self._limits.body_bytes
        pieces: list[bytes] = []
        n_bytes = 0
        try:
            while True:
                piece: bytes = message.get("body", b"")
                if n_bytes + len(piece) > limit:
                    raise await self._drained(too_large(limit, headers=CLOSE))
                if not arriving.has_room(len(piece)):
                    raise await self._drained(arriving.refusal(CLOSE))
                pieces.append(piece)
                n_bytes += len(piece)
                arriving.n_bytes += len(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
                message = await self._next(end - time.monotonic())
        finally:
            arriving.n_bytes -= n_bytes

    async def _next(self, seconds: float) -> Message:
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                message = await self._receive()
        except TimeoutError:
            raise Refusal(408, "too_slow", "The body did not arrive in time.", headers=CLOSE) from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        return message

    async def _drained(self, refusal: Refusal) -> Refusal:
        """Return a refusal after reading on for a while, and keeping nothing, so that its sender gets to see it."""
        end, n_bytes = time.monotonic() + _DRAINED_SECONDS, 0
        try:
            more = True
            while more and n_bytes < _DRAINED_BYTES:
                message = await self._next(end - time.monotonic())
                n_bytes += len(message.get("body", b""))
                more = message.get("more_body", False)
        except (Refusal, ClientGone):
            pass
        return refusal

    async def wait_for_leaving(self) -> None:
        """Return when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class ClientGone(Exception):
    """Nobody is there to answer."""


CLOSE = ((b"connection", b"close"),)


# --- Large bodies are read in a thread, so that other requests do not wait for them


T = TypeVar("T")
# Reading more than this takes longer than other requests should wait.
LARGE = 32 << 10


async def read_aside(n_bytes: int, function: Callable[..., T], *arguments: object) -> T:
    """Call a function that reads so many bytes; in a thread if they are many."""
    if n_bytes <= LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


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
