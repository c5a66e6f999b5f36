"""How many bytes of bodies that are still arriving a process holds: many slow clients together are bounded too."""

from __future__ import annotations

from accous.service.refusals import Refusal

__all__ = ["Arriving"]


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
