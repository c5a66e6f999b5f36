"""The application: finds the endpoint of a request, lets the gate check it, and sends the answer.

Twenty fixed addresses need no framework: this costs about half of the processor time of one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from accous.service.answers import SECURITY_HEADERS, Answer, headers_of
from accous.service.calls import Call, ClientGone, Receive, Scope, Send
from accous.service.event_stream import stream_events
from accous.service.metrics import Metrics
from accous.service.refusals import Refusal
from accous.service.routes import Reply, Route, Routes
from accous.service.service import Service
from accous.text import LOGGER

__all__ = ["App"]


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
