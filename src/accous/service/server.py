"""The server: HTTP, routes, workers and their start."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from accous.checkpoint.files import MANIFEST_NAME, exclusive_lock
from accous.exceptions import AccousError, ParameterError
from accous.service.auth import Gate, Settings, TokenScope, address_of, is_loopback, listen
from accous.service.bodies import BatchReader
from accous.service.dialects import Inference, Invocations
from accous.service.http import (
    CLOSE,
    LARGE,
    SECURITY_HEADERS,
    Answer,
    Call,
    ClientGone,
    Limits,
    Metrics,
    Receive,
    Refusal,
    Scope,
    Send,
    headers_of,
)
from accous.service.learner import Learner, OwnedModel, open_owned
from accous.service.live import Reading, ReadingTimer
from accous.service.service import ARROW_EXAMPLE, Endpoints, Pages, Served, Service, Throughput, stream_events
from accous.table.model import load_table_model
from accous.text import LOGGER

# --- The addresses of the service, who may use each, and which endpoint answers


Endpoint = Callable[[Call], Awaitable[Answer]]
Reply = Callable[[Answer], None]
AtOnce = Callable[[Call, bytes, Reply], Answer | None]
_MODELS = "/v2/models/"


@dataclass(frozen=True)
class Route:
    """An address and a method.

    Attributes
    ----------
    name : str
        For metrics.
    endpoint : callable
    scope : {"read", "write"}, optional
        What a token must allow; None: nobody needs one.
    accepts_cookie : bool
        Whether the page's cookie will do.
    is_stream : bool
        Whether the answer goes on.
    at_once : callable, optional
        Answers a small request whose body is there, without a task of its own: it returns the answer, or None if it
        calls its last argument later.
    """

    name: str
    endpoint: Endpoint
    scope: TokenScope | None = None
    accepts_cookie: bool = False
    is_stream: bool = False
    at_once: AtOnce | None = None


class Routes:
    """All addresses.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        own = Endpoints(service)
        self._fixed: dict[str, dict[str, Route]] = {
            "/v1/predict": {"POST": Route("predict", own.predict, "read", at_once=own.predict_at_once)},
            "/v1/adapt": {"POST": Route("adapt", own.adapt, "write", at_once=own.adapt_at_once)},
            "/v1/step": {"POST": Route("step", own.step, "write", at_once=own.step_at_once)},
            "/v1/labels": {"POST": Route("labels", own.labels, "write")},
            "/v1/state": {"GET": _look("state", own.state)},
            "/v1/trust": {"GET": _look("trust", own.trust)},
            "/v1/history": {"GET": _look("history", own.history)},
            "/v1/events": {"GET": _look("events", own.events_head, is_stream=True)},
            "/metrics": {"GET": _look("metrics", own.metrics)},
            "/healthz": {"GET": Route("healthz", own.healthz)},
            "/readyz": {"GET": Route("readyz", own.readyz)},
            **_for_people(Pages(service)),
            **_of_others(Inference(service), Invocations(service), own),
        }
        inference = Inference(service)
        self._of_models = {
            (): {"GET": Route("v2 model", inference.model, "read")},
            ("ready",): {"GET": Route("v2 ready", inference.model_ready)},
            ("infer",): {"POST": Route("v2 infer", inference.infer, "read")},
        }

    def at_once(self) -> dict[bytes, Route]:
        """Return the routes whose small POST requests need no task, by their address."""
        found = ((path, methods.get("POST")) for path, methods in self._fixed.items())
        return {path.encode(): route for path, route in found if route is not None and route.at_once is not None}

    def find(self, call: Call) -> Route:
        """Return the route of a request; refuse an address or a method that there is not."""
        methods = self._fixed.get(call.path) or self._find_model(call)
        if methods is None:
            raise Refusal(
                404, "not_found", "There is nothing at this address; /docs lists what there is.", headers=CLOSE
            )
        method = "GET" if call.method == "HEAD" else call.method
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(methods)
            headers = ((b"allow", allowed.encode()), *CLOSE)
            raise Refusal(405, "wrong_method", f"Use {allowed} here.", headers=headers)
        return route

    def _find_model(self, call: Call) -> dict[str, Route] | None:
        """Return the routes of an address such as /v2/models/NAME/versions/1/infer."""
        if not call.path.startswith(_MODELS):
            return None
        name, *rest = call.path.removeprefix(_MODELS).split("/")
        call.parts["name"] = name
        if rest[:1] == ["versions"] and len(rest) > 1:
            call.parts["version"] = rest[1]
            rest = rest[2:]
        return self._of_models.get(tuple(rest))


def _look(name: str, endpoint: Endpoint, *, is_stream: bool = False) -> Route:
    """Return a route that a token for reading opens, and the page's cookie too."""
    return Route(name, endpoint, "read", accepts_cookie=True, is_stream=is_stream)


def _for_people(pages: Pages) -> dict[str, dict[str, Route]]:
    return {
        "/": {"GET": Route("page", pages.live)},
        "/page/view": {"GET": _look("view", pages.view)},
        "/login": {"POST": Route("login", pages.login)},
        "/logout": {"POST": Route("logout", pages.logout)},
        "/report": {"GET": _look("report", pages.report)},
        "/docs": {"GET": _look("docs", pages.interface)},
        ARROW_EXAMPLE: {"GET": _look("docs", pages.arrow_example)},
        "/openapi.json": {"GET": _look("docs", pages.openapi)},
        **{path: {"GET": Route("assets", pages.asset)} for path in pages.assets},
        "/favicon.ico": {"GET": Route("assets", pages.icon)},
    }


def _of_others(inference: Inference, invocations: Invocations, own: Endpoints) -> dict[str, dict[str, Route]]:
    return {
        "/v2": {"GET": Route("v2", inference.server)},
        "/v2/health/live": {"GET": Route("v2 live", inference.live)},
        "/v2/health/ready": {"GET": Route("v2 ready", inference.ready)},
        "/invocations": {"POST": Route("invocations", invocations.invoke, "read")},
        "/ping": {"GET": Route("healthz", own.healthz)},
    }


# --- The application: finds the endpoint of a request, lets the gate check it, and sends the answer


class App:
    """The service as an ASGI application.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service, self._routes = service, Routes(service)
        self._at_once = self._routes.at_once()
        self._timers: dict[str, tuple[Any, dict[int, Any]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        began = time.perf_counter()
        call = Call(scope, receive, self._service.limits, self._service.arriving)
        route, answer = await self._answer(call)
        if route is not None and route.is_stream and answer is None and call.method == "GET":
            await stream_events(self._service, call, send, list(SECURITY_HEADERS))
            return
        if answer is None:  # nobody is there
            return
        try:
            await _send(send, answer, is_head=scope["method"] == "HEAD")
        finally:
            self._note(route, answer.status, time.perf_counter() - began)

    async def _answer(self, call: Call) -> tuple[Route | None, Answer | None]:
        route: Route | None = None
        try:
            self._service.gate.require_host(call)
            route = self._routes.find(call)
            if call.method == "POST":
                self._service.gate.require_same_origin(call)
            if route.scope is not None:
                self._service.gate.require(call, route.scope, accepts_cookie=route.accepts_cookie)
            # Only GET opens a stream: who asks for its head gets a head that ends.
            is_open = route.is_stream and call.method == "GET"
            return route, None if is_open else await route.endpoint(call)
        except Refusal as refusal:
            return route, refusal.answer_at(call.path)
        except ClientGone:
            return route, None
        except asyncio.CancelledError:
            raise
        except Exception:
            return route, _failed(call)

    def takes_at_once(self, path: bytes) -> bool:
        """Whether small requests to an address can be answered without a task of their own."""
        return path in self._at_once

    def answer_at_once(self, scope: Scope, body: bytes, reply: Reply) -> None:
        """Answer a small request whose body is there: now, or as soon as the learner has learned from it.

        Parameters
        ----------
        scope : dict
            Of ASGI, for an address that `takes_at_once` knows.
        body : bytes
        reply : callable
            Takes the answer, once.
        """
        began, service = time.perf_counter(), self._service
        call = Call(scope, _no_message, service.limits, service.arriving)
        route = self._at_once[call.path.encode()]

        def finish(answer: Answer) -> None:
            reply(answer)
            self._note(route, answer.status, time.perf_counter() - began)

        try:
            service.gate.require_host(call)
            service.gate.require_same_origin(call)
            if route.scope is not None:
                service.gate.require(call, route.scope)
            assert route.at_once is not None
            answer = route.at_once(call, body, finish)
        except Refusal as refusal:
            answer = refusal.answer
        except Exception:
            answer = _failed(call)
        if answer is not None:
            finish(answer)

    def _note(self, route: Route | None, status: int, seconds: float) -> None:
        name, metrics = "other" if route is None else route.name, self._service.metrics
        timer, counters = self._timers.get(name) or self._timers.setdefault(name, _timer(metrics, name))
        timer.observe(seconds)
        counter = counters.get(status)
        if counter is None:
            counter = counters[status] = metrics.requests.labels(name, str(status))
        counter.inc()


async def _no_message() -> Any:
    raise RuntimeError("a request that needs no task has its body")


def _failed(call: Call) -> Answer:
    LOGGER.exception("%s %s failed", call.method, call.path)
    return Refusal(500, "failed", "The service made a mistake; its log says which.").answer_at(call.path)


def _timer(metrics: Metrics, name: str) -> tuple[Any, dict[int, Any]]:
    return metrics.request_seconds.labels(name), {}


async def _send(send: Send, answer: Answer, *, is_head: bool) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": headers_of(answer)})
    await send({"type": "http.response.body", "body": b"" if is_head else answer.body})


# --- A request that is answered without a task of its own, in the place of uvicorn's cycle of messages


_CLOSE = (b"connection", b"close")


class _NoEvent:
    """Stands where uvicorn wakes a task: there is none."""

    def set(self) -> None:
        """Wake nobody."""


class Exchange:
    """What uvicorn's protocol wants to know of the request that it is at.

    Attributes
    ----------
    keep_alive : bool
        Whether the connection stays open; uvicorn clears it when the server ends.
    disconnected : bool
        Whether the client has gone.
    """

    message_event = _NoEvent()
    more_body = False

    __slots__ = ("disconnected", "keep_alive", "response_complete", "response_started")

    def __init__(self) -> None:
        self.keep_alive, self.disconnected = True, False
        self.response_started = self.response_complete = False

    def write(self, transport: Any, answer: Answer) -> None:
        """Write the answer, and close the connection if one of both sides wants that."""
        self.response_started = self.response_complete = True
        if self.disconnected:
            return
        self.keep_alive = self.keep_alive and _CLOSE not in answer.headers
        transport.write(rendered(answer, keep_alive=self.keep_alive))
        if not self.keep_alive:
            transport.close()


def rendered(answer: Answer, *, keep_alive: bool) -> bytes:
    """Return an answer as it goes over the wire."""
    pieces = [STATUS_LINE[answer.status]]
    for name, value in headers_of(answer):
        pieces += (name, b": ", value, b"\r\n")
    if not keep_alive and _CLOSE not in answer.headers:
        pieces.append(b"connection: close\r\n")
    pieces += (b"\r\n", answer.body)
    return b"".join(pieces)


# --- The HTTP protocol of uvicorn with what it lacks


# What only a task can deal with: a body that is not there yet or is packed, and a request that may have come before.
_NEED_TASK = frozenset((b"expect", b"transfer-encoding", b"content-encoding", b"idempotency-key", b"upgrade"))
# Of requests that come in one piece: other clients wait for all that are answered without a task.
_MOST_AT_ONCE = 16
_MOST_DROPPED, _SECONDS_TO_SEE = 64 << 20, 1.0
_REFUSAL = (
    b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    b'{"error":{"code":"%s","message":"%s"}}'
)


async def _refuse_crowd(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer instead of the application while there are too many connections."""
    headers = ((b"retry-after", b"1"), *CLOSE)
    refusal = Refusal(503, "too_many_connections", "There are too many connections: try again.", headers=headers)
    answer = refusal.answer_at(scope["path"])
    own = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body)), *headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": own})
    await send({"type": "http.response.body", "body": answer.body})


def limited_protocol(limits: Limits, app: App) -> type[HttpToolsProtocol]:
    """Return a protocol with these limits, which asks the application for what needs no task."""
    return type("LimitedProtocol", (_LimitedProtocol,), {"limits": limits, "direct_app": app})


class _LimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose next request does not arrive soon, or has too long a head."""

    limits = Limits()
    direct_app: App
    _held: list[bytes] | None = None  # the body of a request that may need no task
    _n_at_once = 0  # of the requests in the piece that has just come
    _n_head_bytes = 0
    _n_dropped: int | None = None
    _is_in_head = True
    _has_begun = False  # a head, of which the end has yet to come
    _is_half_closed = False
    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.own_app: Any = self.app

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head of a request has ended; drop what comes after a refusal."""
        if self._n_dropped is not None:
            self._n_dropped += len(data)
            if self._n_dropped > _MOST_DROPPED:
                self.transport.close()
            return
        if self._is_in_head:
            self._n_head_bytes += len(data)
            # The body may have come along: only a head that has not ended is too long.
            if self._n_head_bytes > self.limits.head_bytes and b"\r\n\r\n" not in data:
                self._refuse(b"431 Request Header Fields Too Large", b"head_too_large", b"The headers are too long.")
                return
        self._n_at_once = 0
        super().data_received(data)
        if self._held is not None:
            self._start_held()
        # The end of a piece may be the beginning of the next head, which nothing has counted.
        has_begun = self._has_begun or (self._is_in_head and self._n_head_bytes)
        if has_begun and self._deadline is None and self._n_dropped is None:
            self._expect_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Go on while an answer is due: whoever sends no more may still read. A stream would never end, so it does."""
        cycle = self.cycle
        is_due = cycle is not None and not (cycle.response_started or cycle.response_complete or cycle.more_body)
        self._is_half_closed = is_due
        return is_due

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_half_closed and self.cycle.response_complete:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._has_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head, self._has_begun, self._n_head_bytes = False, False, 0
        self._stop_waiting()
        # The request before, in the same piece, may be answered already: it is not the last one, so nothing is idle.
        self._unset_keepalive_if_required()
        is_crowded = len(self.connections) > self.limits.connections
        self.app = _refuse_crowd if is_crowded else self.own_app
        if not is_crowded and self._may_need_no_task():
            self._held = []
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        if self._held is None:
            super().on_message_complete()
        else:
            body, self._held = b"".join(self._held), None
            self._answer_at_once(body)
        self._is_in_head = True

    def _may_need_no_task(self) -> bool:
        """Whether the application can answer at once if the body comes along with the head."""
        if not self.direct_app.takes_at_once(self.url) or self.parser.get_method() != b"POST":
            return False
        is_first = self.cycle is None or (self.cycle.response_complete and not self.pipeline)
        if not is_first or self._n_at_once >= _MOST_AT_ONCE or self.flow.write_paused or self.transport.is_closing():
            return False
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        return (
            _NEED_TASK.isdisjoint(headers)
            and length.isdigit()
            and int(length) <= min(LARGE, self.limits.body_bytes)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
        )

    def _start_held(self) -> None:
        """Leave a request to a task after all, because some of its body has yet to come."""
        pieces, self._held = self._held or [], None
        super().on_headers_complete()
        if pieces:
            super().on_body(b"".join(pieces))

    def _answer_at_once(self, body: bytes) -> None:
        scope, exchange = cast("Scope", self.scope), Exchange()
        scope["method"], scope["path"], scope["query_string"] = "POST", self.url.decode("ascii"), b""
        self.cycle = exchange  # type: ignore[assignment]
        self._n_at_once += 1

        def reply(answer: Answer) -> None:
            # uvicorn tells only the last of several requests in one piece that the client has gone, and what followed
            # this one may have been refused. A write would be an error then.
            if self._n_dropped is not None or self.transport.is_closing():
                exchange.disconnected = True
            exchange.write(self.transport, answer)
            if not exchange.disconnected:
                self.on_response_complete()

        self.direct_app.answer_at_once(scope, body, reply)

    def send_400_response(self, msg: str) -> None:
        self._refuse(b"400 Bad Request", b"malformed_http", b"This is not a request in HTTP/1.1.")

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # A refusal would be taken for the answer that is due to the request before.
            self._expect_head()
            return
        self._refuse(b"408 Request Timeout", b"too_slow", b"The request did not arrive in time.")

    def _refuse(self, status: bytes, code: bytes, message: bytes) -> None:
        self._stop_waiting()
        self._held = None
        if not self.transport.is_closing():
            n_bytes = len(b'{"error":{"code":"","message":""}}') + len(code) + len(message)
            self.transport.write(_REFUSAL % (status, n_bytes, code, message))
            # Who still sends gets to see the refusal: closed at once, the connection would be reset.
            self._n_dropped = 0
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(_SECONDS_TO_SEE, self.transport.close)


# --- uvicorn with our limits, the events of new readings, and an orderly end


_DRAIN_SECONDS = 30
_SECONDS_BETWEEN_ACTIVITY = 2.0
_SHOWN = (
    *("rounds", "trust", "estimated_error", "estimated_error_low", "estimated_error_high"),
    "estimated_error_known",
    *("effective_sample_size", "measured_error", "labelled_rows"),
)


class Server:
    """uvicorn with our limits and an end that waits for the learner.

    Parameters
    ----------
    service : Service
    settings : Settings
    """

    def __init__(self, service: Service, settings: Settings) -> None:
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        app = App(service)
        config = uvicorn.Config(
            app,
            loop="uvloop" if sys.platform != "win32" else "asyncio",
            http=limited_protocol(settings.limits, app),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        self._server = _EndingServer(config, self._begin_to_end)

    def run_on(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        """Run until a signal comes and all requests are answered."""
        factory = self._server.config.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self._run(sock, on_ready))

    async def _run(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        if self._service.readings is not None:
            self._add_events(self._service.readings.latest, None)
        serving = asyncio.ensure_future(self._server.serve([sock]))
        telling = asyncio.ensure_future(self._tell_activity())
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        if not serving.done():
            self._service.is_ready = True
            on_ready()
        try:
            await serving
        finally:
            telling.cancel()

    async def _tell_activity(self) -> None:
        """Tell those who watch what goes on, also while nothing does."""
        service = self._service
        throughput = Throughput(service.counts)
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_ACTIVITY)
            found = throughput()
            if service.events.has_followers and service.learner is not None:
                service.events.tell("activity", found | {"waiting": service.learner.n_waiting})

    def publish(self, reading: Reading, before: Reading | None) -> None:
        """Take a new reading; called in the thread that took it."""
        n_rows = reading.source.history.totals()["n_rows"]
        self._service.metrics.take_state(reading.state, n_rows)
        if self._loop is not None and before is not None:
            try:
                self._loop.call_soon_threadsafe(self._add_events, reading, before)
            except RuntimeError:  # the event loop has ended
                return

    def _add_events(self, reading: Reading, before: Reading | None) -> None:
        self._service.events.add(reading.n_records, events_of(reading, before))

    def _begin_to_end(self) -> None:
        self._service.is_ready = False
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._service.events.close)


class _EndingServer(uvicorn.Server):
    """Says when it begins to end, so that streams without an end do not hold it up, and leaves the rest to us.

    uvicorn itself would raise the signal again when it is done, which ends the process before the learner has saved.
    """

    def __init__(self, config: uvicorn.Config, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as requests to end."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to end; a second Ctrl-C does not wait for open requests."""
        self._on_end()
        super().handle_exit(sig, frame)


def events_of(reading: Reading, before: Reading | None) -> list[tuple[str, Any]]:
    """Return what is new in a reading: changes of the inputs, another verdict, and the reading itself."""
    state = reading.state
    found: list[tuple[str, Any]] = []
    if before is not None:
        since = before.state["rounds"]
        found += [
            ("drift", {"round": event.round, "kind": event.kind, "columns": list(event.features), "size": event.size})
            for event in reading.source.events
            if event.round > since
        ]
        if state["trust"] != before.state["trust"]:
            change = {"from": before.state["trust"], "to": state["trust"], "reason": state["trust_reason"]}
            found.append(("verdict", {"rounds": state["rounds"], **change}))
    return [*found, ("reading", {name: state.get(name) for name in _SHOWN})]


# --- Workers: processes that only predict, from the last save of the process that learns


_SECONDS_BETWEEN_LOOKS, _SECONDS_BEFORE_RESTART = 0.25, 1.0


class FollowedModel:
    """The last save of a folder that another process writes to; each answer comes from one save as a whole.

    Parameters
    ----------
    folder : Path
    limits : Limits
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    """

    def __init__(self, folder: Path, limits: Limits, estimator: str | None = None) -> None:
        self._folder, self._limits, self._estimator = folder, limits, estimator
        self._seen = self._mark()
        self._served = self._load()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def served(self) -> Served:
        """Return the model to predict with."""
        return self._served

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._is_stopping.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._is_stopping.wait(_SECONDS_BETWEEN_LOOKS):
            try:
                mark = self._mark()
                if mark != self._seen:
                    self._served, self._seen = self._load(), mark
            except (AccousError, OSError):
                LOGGER.exception("The model cannot be loaded again: the one before stays")

    def _mark(self) -> tuple[int, int]:
        found = (self._folder / MANIFEST_NAME).stat()
        return found.st_mtime_ns, found.st_ino

    def _load(self) -> Served:
        table_model = load_table_model(self._folder, self._estimator)
        return Served(table_model, BatchReader(table_model, self._limits))


def run_worker(settings: Settings, sock: socket.socket) -> None:
    """Serve predictions until a signal comes or the process that learns is gone."""
    followed = FollowedModel(settings.model, settings.limits, settings.estimator)
    service = Service(
        name=settings.name,
        served=followed.served,
        limits=settings.limits,
        gate=Gate(settings.tokens, (settings.host,)),
        metrics=Metrics(),
        is_ready=False,
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    followed.start()
    try:
        Server(service, settings).run_on(sock, lambda: None)
    finally:
        followed.stop()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


class Workers:
    """Starts workers on one socket, and starts one again that ends by itself.

    Parameters
    ----------
    settings : Settings
    sock : socket
        Open, for all of them.
    """

    def __init__(self, settings: Settings, sock: socket.socket) -> None:
        self._settings, self._sock = settings, sock
        self._processes: list[SpawnProcess] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="workers", daemon=True)

    def start(self) -> None:
        """Start all."""
        self._processes = [self._spawn() for _ in range(self._settings.workers)]
        self._thread.start()

    def stop(self) -> None:
        """End all, after the requests that they have."""
        self._is_stopping.set()
        self._thread.join()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def _spawn(self) -> SpawnProcess:
        process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(self._settings, self._sock), name="accous worker"
        )
        process.start()
        return process

    def _watch(self) -> None:
        while not self._is_stopping.wait(_SECONDS_BEFORE_RESTART):
            for place, process in enumerate(self._processes):
                if not process.is_alive() and not self._is_stopping.is_set():
                    LOGGER.error("A worker ended with code %s: another one starts", process.exitcode)
                    self._processes[place] = self._spawn()


# --- Runs a service: lock, model, learner, readings, workers and server, and their orderly end


OnReady = Callable[[OwnedModel, list[str]], None]
# A thread that learns must not keep the event loop waiting for long.
_SWITCH_SECONDS = 0.0005


def serve(settings: Settings, on_ready: OnReady) -> None:
    """Serve a model until a signal ends it.

    Parameters
    ----------
    settings : Settings
    on_ready : callable
        Called with the model and the addresses when requests are welcome: the service's own, and that of the workers.
    """
    if not is_loopback(settings.host) and settings.tokens.is_open:
        raise ParameterError(
            f"--host {settings.host} can be reached from other machines: give tokens with --token-file, or serve on "
            "127.0.0.1."
        )
    with exclusive_lock(settings.model, "accous serve"), ExitStack() as stack:
        sock = stack.enter_context(listen(settings.host, settings.port))
        read_sock = stack.enter_context(listen(settings.host, settings.read_port)) if settings.workers else None
        owned = open_owned(settings.model, settings.limits, settings.estimator)
        sys.setswitchinterval(_SWITCH_SECONDS)
        run_owner(settings, owned, sock, read_sock, on_ready)


def run_owner(
    settings: Settings, owned: OwnedModel, sock: socket.socket, read_sock: socket.socket | None, on_ready: OnReady
) -> None:
    """Serve a model that is loaded, on sockets that are open."""
    metrics = Metrics()
    learner = Learner(
        table_model=owned.table_model,
        folder=settings.model,
        kept_path=owned.kept_path,
        log=owned.log,
        kept=owned.kept,
        executor=owned.executor,
        limits=settings.limits,
        save_every=settings.save_every,
        metrics=metrics,
    )
    served = Served(owned.table_model, owned.reader)
    service = Service(
        name=settings.name,
        served=lambda: served,
        limits=settings.limits,
        gate=Gate(settings.tokens, (settings.host,)),
        metrics=metrics,
        learner=learner,
        learns_first=settings.learns_first,
        is_ready=False,
    )
    server = Server(service, settings)
    service.readings = ReadingTimer(
        table_model=owned.table_model,
        name=settings.name,
        n_records=lambda: learner.n_done,
        measured=owned.kept.measured,
        on_reading=server.publish,
    )
    gc.freeze()  # what is loaded stays: the collector need not look at it again
    workers = None if read_sock is None else Workers(settings, read_sock)
    addresses = [address_of(each) for each in (sock, read_sock) if each is not None]
    learner.start()
    service.readings.start()
    try:
        if workers is not None:
            workers.start()
        server.run_on(sock, lambda: on_ready(owned, addresses))
    finally:
        if workers is not None:
            workers.stop()
        service.readings.stop()
        learner.stop()
        owned.log.close()
