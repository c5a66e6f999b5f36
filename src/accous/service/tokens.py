"""Who may do what: tokens for reading and for writing, compared in constant time, and a cookie for the page."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accous.exceptions import ParameterError

__all__ = ["COOKIE", "Scope", "Tokens", "cookie_of", "read_token_file"]

Scope = Literal["read", "write"]
COOKIE = "accous_page"
_LEAST_CHARACTERS = 16
_FORM = "lines such as 'read: TOKEN' and 'write: TOKEN'"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a service; without any, everybody who reaches it may do everything.

    Attributes
    ----------
    read, write : tuple of str
        Who may write may also read.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self.read and not self.write

    def allows(self, token: str, scope: Scope) -> bool:
        """Whether a token may do this; the time that it takes says nothing about the tokens."""
        known = self.write if scope == "write" else (*self.read, *self.write)
        found = False
        for each in known:
            found |= hmac.compare_digest(_digest(each), _digest(token))
        return found

    def knows_cookie(self, cookie: str) -> bool:
        """Whether a cookie was given to somebody who may read."""
        found = False
        for each in (*self.read, *self.write):
            found |= hmac.compare_digest(cookie_of(each).encode(), cookie.encode("utf-8", "replace"))
        return found


def cookie_of(token: str) -> str:
    """Return the cookie for a token: it opens the page, and does not give the token away."""
    return hmac.new(token.encode(), b"accous serve: the page", hashlib.sha256).hexdigest()


def _digest(token: str) -> bytes:
    """Return a digest, so that not even the length of a token shows in the time of a comparison."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def read_token_file(path: Path) -> Tokens:
    """Read a file with one token to a line, each after ``read:`` or ``write:``; lines with # are comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ParameterError(f"--token-file {path} cannot be read ({error}).") from None
    found: dict[str, list[str]] = {"read": [], "write": []}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        scope, _, token = (part.strip() for part in line.partition(":"))
        if scope not in found or not token:
            raise ParameterError(f"--token-file {path}, line {number}: use {_FORM}.")
        if len(token) < _LEAST_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
            raise ParameterError(
                f"--token-file {path}, line {number}: a token needs at least {_LEAST_CHARACTERS} letters and digits, "
                "such as openssl rand -hex 32 prints."
            )
        found[scope].append(token)
    if not any(found.values()):
        raise ParameterError(f"--token-file {path} holds no token: use {_FORM}.")
    return Tokens(tuple(found["read"]), tuple(found["write"]))
