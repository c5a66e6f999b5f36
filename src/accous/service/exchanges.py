"""A request that is answered without a task of its own, in the place of uvicorn's cycle of messages.

A task, an event and two messages for each request cost more than a prediction. Small requests whose body came along
with their head need none of them.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from accous.service.answers import Answer, headers_of

__all__ = ["Exchange", "rendered"]

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
