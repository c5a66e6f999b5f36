"""The application: finds the endpoint of a request, lets the gate check it, and sends the answer.

Twenty fixed addresses need no framework: this costs about half of the processor time of one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from accous.logs import LOGGER
from accous.service.answers import Answer
from accous.service.calls import Call, ClientGone, Receive, Scope, Send
from accous.service.event_stream import stream_events
from accous.service.metrics import Metrics
from accous.service.refusals import Refusal
from accous.service.routes import Route, Routes
from accous.service.service import Service

__all__ = ["App"]

_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    # Not "no-referrer": browsers would hide where the login form is from, and it would be refused.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
_NO_CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_HEADERS = [*_SECURITY, _NO_CONTENT_POLICY]


class App:
    """The service as an ASGI application.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service, self._routes = service, Routes(service)
        self._timers: dict[str, tuple[Any, dict[int, Any]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        began = time.perf_counter()
        call = Call(scope, receive, self._service.limits)
        route, answer = await self._answer(call)
        if route is not None and route.is_stream and answer is None and call.method == "GET":
            await stream_events(self._service, call, send, _HEADERS)
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
            LOGGER.exception("%s %s failed", call.method, call.path)
            failure = Refusal(500, "failed", "The service made a mistake; its log says which.")
            return route, failure.answer_at(call.path)

    def _note(self, route: Route | None, status: int, seconds: float) -> None:
        name, metrics = "other" if route is None else route.name, self._service.metrics
        timer, counters = self._timers.get(name) or self._timers.setdefault(name, _timer(metrics, name))
        timer.observe(seconds)
        counter = counters.get(status)
        if counter is None:
            counter = counters[status] = metrics.requests.labels(name, str(status))
        counter.inc()


def _timer(metrics: Metrics, name: str) -> tuple[Any, dict[int, Any]]:
    return metrics.request_seconds.labels(name), {}


async def _send(send: Send, answer: Answer, *, is_head: bool) -> None:
    own = answer.headers
    base = _SECURITY if own and any(name == b"content-security-policy" for name, _ in own) else _HEADERS
    body = answer.body
    headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(body)), *base]
    if own:
        replaced = {name for name, _ in own}
        headers = [each for each in headers if each[0] not in replaced] + list(own)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else body})
