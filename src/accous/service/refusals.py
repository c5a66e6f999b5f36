"""Refusals: what a client did wrong, or why the service cannot do it now, in one JSON shape."""

from __future__ import annotations

from typing import Any

import msgspec

from accous.service.answers import JSON, Answer

__all__ = ["Refusal"]


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
