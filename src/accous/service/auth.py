"""Who may ask: hosts, tokens, and the settings of a service."""

from __future__ import annotations

import hashlib
import hmac
import socket
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Literal

from accous.exceptions import DataError, ParameterError
from accous.service.http import CLOSE, Call, Limits, Refusal, SaveEvery

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
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="accous"'), *CLOSE)


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

    def require_host(self, call: Call) -> None:
        """Refuse a name of this machine that is not its own: a page on the web can make a browser use one."""
        if not self.tokens.is_open:
            return
        host = call.header(b"host").lower()
        name = host if host.startswith("[") and host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts:
            raise Refusal(
                421,
                "wrong_host",
                "This service answers to localhost only; to give it a name, use tokens.",
                headers=CLOSE,
            )

    def require(self, call: Call, scope: TokenScope, *, accepts_cookie: bool = False) -> None:
        """Refuse a request without the right token."""
        if self.tokens.is_open:
            return
        kind, _, token = call.header(b"authorization").partition(" ")
        if kind.lower() == "bearer" and self.tokens.allows(token.strip(), scope):
            return
        if accepts_cookie and self.has_cookie(call):
            return
        if kind and self.tokens.allows(token.strip(), "read"):
            raise Refusal(403, "read_only", "This token may read only: use a token for writing.", headers=CLOSE)
        raise Refusal(
            401, "no_token", "A token is needed: send the header 'Authorization: Bearer TOKEN'.", headers=_CHALLENGE
        )

    def has_cookie(self, call: Call) -> bool:
        """Whether the page's cookie is there."""
        try:
            cookie = SimpleCookie(call.header(b"cookie")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self.tokens.knows_cookie(cookie.value)

    @staticmethod
    def require_same_origin(call: Call) -> None:
        """Refuse what another site's page sends: browsers say where a page is from, programs do not."""
        origin = call.header(b"origin")
        if origin and origin.partition("://")[2].lower() != call.header(b"host").lower():
            raise Refusal(403, "other_origin", "Pages of other sites may not send requests here.", headers=CLOSE)


# --- How a model is served, and the sockets for that


_LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is served.

    Attributes
    ----------
    model : Path
    host : str
    port : int
        0 takes a free one.
    tokens : Tokens
    limits : Limits
    save_every : SaveEvery
    learns_first : bool
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    workers : int
        Further processes that only predict, on a port of their own.
    read_port : int
        Of the workers; 0 takes a free one.
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 8321
    tokens: Tokens = field(default_factory=Tokens)
    limits: Limits = field(default_factory=Limits)
    save_every: SaveEvery = field(default_factory=SaveEvery)
    learns_first: bool = False
    estimator: str | None = None
    workers: int = 0
    read_port: int = 8322

    @property
    def name(self) -> str:
        """The model's name in addresses."""
        return self.model.resolve().name or "model"


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach the address."""
    return host in _LOOPBACK_ADDRESSES


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, so that a port that is taken is noticed before the model is loaded."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise DataError(f"Cannot serve on {host} port {port}: {error.strerror or error}.") from None
    return sock


def address_of(sock: socket.socket) -> str:
    """Return the address for browsers and programs."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
