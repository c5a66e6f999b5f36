"""What the service answers: bytes of a kind, a status and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["HTML", "JSON", "SECURITY_HEADERS", "Answer", "headers_of", "json_answer"]

JSON, HTML = b"application/json", b"text/html; charset=utf-8"
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    # Not "no-referrer": browsers would hide where the login form is from, and it would be refused.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_NO_CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
SECURITY_HEADERS = (*_SECURITY, _NO_CONTENT_POLICY)


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


def headers_of(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return all headers of an answer; its own replace those that every answer has."""
    own, length = answer.headers, (b"content-length", b"%d" % len(answer.body))
    if not own:
        return [(b"content-type", answer.content_type), length, *SECURITY_HEADERS]
    replaced = {name for name, _ in own}
    always = [(b"content-type", answer.content_type), length, *SECURITY_HEADERS]
    return [each for each in always if each[0] not in replaced] + list(own)
