"""What the service answers: bytes of a kind, a status and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["HTML", "JSON", "Answer", "json_answer"]

JSON, HTML = b"application/json", b"text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes
    ----------
    body : bytes
    content_type : bytes
    status : int
    headers : tuple of (name, value)
    """

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


def json_answer(content: Any, status: int = 200) -> Answer:
    """Return plain values as an answer in JSON."""
    return Answer(msgspec.json.encode(content), JSON, status)
