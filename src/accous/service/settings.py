"""How a model is served, and the sockets for that."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from accous.exceptions import DataError
from accous.service.limits import Limits, SaveEvery
from accous.service.tokens import Tokens

__all__ = ["Settings", "address_of", "is_loopback", "listen"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
    return host in _LOOPBACK


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
