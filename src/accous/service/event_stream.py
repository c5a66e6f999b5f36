"""Sends the stream of events until the reader leaves or the service stops."""

from __future__ import annotations

import asyncio

from accous.service.calls import Call, Send
from accous.service.events import read_event_id
from accous.service.service import Service

__all__ = ["EVENT_STREAM", "stream_events"]

EVENT_STREAM = b"text/event-stream; charset=utf-8"


async def stream_events(service: Service, call: Call, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    """Send events as they come.

    Parameters
    ----------
    service : Service
    call : Call
        With the last event that the reader saw, in the header ``Last-Event-ID``.
    send
        Of ASGI.
    headers : list of (name, value)
    """
    last = read_event_id(call.header(b"last-event-id"))
    kind = (b"content-type", EVENT_STREAM)
    # Proxies that collect an answer before they pass it on must not do so here.
    start = [kind, (b"x-accel-buffering", b"no"), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    service.metrics.streams.inc()
    sending = asyncio.ensure_future(_send_all(service, last, send))
    leaving = asyncio.ensure_future(call.wait_for_leaving())
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        service.metrics.streams.dec()
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send_all(service: Service, last: tuple[int, int] | None, send: Send) -> None:
    async for content in service.events.follow(last):
        await send({"type": "http.response.body", "body": content, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
