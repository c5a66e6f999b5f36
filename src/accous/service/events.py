"""The stream of events: what changed, with ids by which a reader that was away goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec

__all__ = ["EventId", "Events", "read_event_id"]

EventId = tuple[int, int]
_MOST, _MOST_TOLD = 2_000, 8
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0


class _Follower:
    """Somebody who reads the stream now."""

    def __init__(self) -> None:
        self.is_news = asyncio.Event()
        self.told: deque[bytes] = deque(maxlen=_MOST_TOLD)


class Events:
    """Keeps the last events, and wakes those who wait for more.

    An id is the number of the last record of the log that the event knows of, and the event's place among those of the
    same reading. Both go on when the service starts again, so ids never repeat.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[EventId, bytes]] = deque(maxlen=_MOST)
        self._followers: set[_Follower] = set()
        self._is_closed = False

    def add(self, n_records: int, events: list[tuple[str, Any]]) -> None:
        """Add the events of a reading; called in the event loop."""
        for place, (kind, content) in enumerate(events):
            head = f"id: {n_records}.{place}\nevent: {kind}\ndata: ".encode()
            self._kept.append(((n_records, place), head + msgspec.json.encode(content) + b"\n\n"))
        self._wake()

    def tell(self, kind: str, content: Any) -> None:
        """Tell those who follow now; what is told so has no id, and is not kept."""
        message = f"event: {kind}\ndata: ".encode() + msgspec.json.encode(content) + b"\n\n"
        for follower in self._followers:
            follower.told.append(message)
        self._wake()

    @property
    def has_followers(self) -> bool:
        """Whether anybody listens."""
        return bool(self._followers)

    def _wake(self) -> None:
        for follower in self._followers:
            follower.is_news.set()

    def close(self) -> None:
        """End all streams: the service stops."""
        self._is_closed = True
        self._wake()

    async def follow(self, last: EventId | None) -> AsyncIterator[bytes]:
        """Yield the events after one, or the latest reading if there is none; then what comes, and signs of life.

        If events after ``last`` are no longer kept, an event ``reset`` says so: what is shown must be fetched again.
        """
        follower = _Follower()
        self._followers.add(follower)
        try:
            yield b"retry: 1000\n\n"
            if last is not None and self._has_forgotten(last):
                yield b'event: reset\ndata: {"reason":"events before this are no longer kept"}\n\n'
            place = last if last is not None else self._before_latest()
            while not self._is_closed:
                for number, content in [each for each in self._kept if each[0] > place]:
                    place = number
                    yield content
                while follower.told:
                    yield follower.told.popleft()
                try:
                    async with asyncio.timeout(_SECONDS_BETWEEN_SIGNS_OF_LIFE):
                        await follower.is_news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                follower.is_news.clear()
        finally:
            self._followers.discard(follower)

    def _has_forgotten(self, last: EventId) -> bool:
        """Whether there may have been events after this one that are not kept; also if the id is from the future."""
        if not self._kept:
            return True
        return last < self._kept[0][0] or last > self._kept[-1][0]

    def _before_latest(self) -> EventId:
        latest = max((number for number, _ in self._kept), default=(0, 0))
        return latest[0], -1


def read_event_id(text: str) -> EventId | None:
    """Return the id that a reader saw last; None if it is none of ours."""
    first, _, second = text.strip().partition(".")
    is_number = first.isascii() and first.isdigit() and second.isascii() and second.isdigit() and len(text) < 40
    return (int(first), int(second)) if is_number else None
