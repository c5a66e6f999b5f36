"""A request as the endpoints see it, and its body, read within the limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from accous.service.arriving import Arriving
from accous.service.limits import Limits
from accous.service.packed_bodies import ENCODINGS, too_large, unpack
from accous.service.refusals import Refusal

__all__ = ["CLOSE", "Call", "ClientGone", "Receive", "Scope", "Send"]

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
