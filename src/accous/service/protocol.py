"""The HTTP protocol of uvicorn with what it lacks.

That is limits (how long the head of a request may be and may take, and how many connections there may be), an answer to
a client that has closed its own side, and answers without a task for small requests.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from accous.service.answers import Answer
from accous.service.app import App
from accous.service.calls import CLOSE, Receive, Scope, Send
from accous.service.exchanges import Exchange
from accous.service.large_bodies import LARGE
from accous.service.limits import Limits
from accous.service.refusals import Refusal

__all__ = ["limited_protocol"]

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
