"""Who may ask: hosts, tokens, and the cookie of the page."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starlette.requests import Request

from accous.exceptions import ParameterError
from accous.service.bodies import CLOSE, HttpError

# --- Who may do what: tokens for reading and for writing, compared in constant time, and a cookie for the page


TokenScope = Literal["read", "write"]
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

    def allows(self, token: str, scope: TokenScope) -> bool:
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


# --- The gate: which requests reach an endpoint at all


_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+|::1)(?::[0-9]{1,5})?")
_CHALLENGE = {"www-authenticate": 'Bearer realm="accous"'} | CLOSE


class Gate:
    """Checks who asks, and from where.

    Parameters
    ----------
    tokens : Tokens
    hosts : tuple of str
        Further names that requests may use for this machine while there are no tokens.
    """

    def __init__(self, tokens: Tokens, hosts: tuple[str, ...] = ()) -> None:
        self.tokens = tokens
        self._hosts = frozenset((*_LOOPBACK, *(host.lower() for host in hosts)))

    def require_host(self, request: Request) -> None:
        """Refuse a name of this machine that is not its own: a page on the web can make a browser use one."""
        if not self.tokens.is_open:
            return
        named = request.headers.getlist("host")
        found = _HOST.fullmatch(named[0].lower()) if len(named) == 1 else None
        if found is None or found[1] not in self._hosts:
            text = "This service answers to localhost only; to give it a name, use tokens."
            raise HttpError(421, "wrong_host", text, headers=CLOSE)

    def require(self, request: Request, scope: TokenScope, *, accepts_cookie: bool = False) -> None:
        """Refuse a request without the right token."""
        if self.tokens.is_open:
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.tokens.allows(token.strip(), scope):
            return
        if accepts_cookie and self.has_cookie(request):
            return
        if kind and self.tokens.allows(token.strip(), "read"):
            raise HttpError(403, "read_only", "This token may read only: use a token for writing.", headers=CLOSE)
        text = "A token is needed: send the header 'Authorization: Bearer TOKEN'."
        raise HttpError(401, "no_token", text, headers=_CHALLENGE)

    def has_cookie(self, request: Request) -> bool:
        """Whether the page's cookie is there."""
        cookie = request.cookies.get(COOKIE)
        return cookie is not None and self.tokens.knows_cookie(cookie)

    @staticmethod
    def require_same_origin(request: Request) -> None:
        """Refuse what another site's page sends: browsers say where a page is from, programs do not."""
        origin = request.headers.get("origin", "")
        if origin and origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
            raise HttpError(403, "other_origin", "Pages of other sites may not send requests here.", headers=CLOSE)
