"""The limits of a service: what one request may cost, and when to save."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_LIMITS", "Limits", "SaveEvery"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a request may cost.

    Attributes
    ----------
    body_bytes, rows, columns : int
    arriving_bytes : int
        Bytes of all bodies together that have come in part.
    body_seconds : float
        Time that a body may take to arrive.
    head_bytes, head_seconds
        The same for the lines before the body.
    queue : int
        Batches that may wait for the learner; beyond, clients are asked to come back.
    queue_bytes : int
        Bytes that their bodies may have together.
    queue_seconds : float
        Time that a batch may wait before it is given back unlearned.
    connections : int
    """

    body_bytes: int = 16 << 20
    rows: int = 10_000
    columns: int = 4_096
    arriving_bytes: int = 256 << 20
    body_seconds: float = 30.0
    head_bytes: int = 64 << 10
    head_seconds: float = 15.0
    queue: int = 1_024
    queue_bytes: int = 256 << 20
    queue_seconds: float = 60.0
    connections: int = 2_000


NO_LIMITS = Limits(body_bytes=1 << 62, rows=1 << 31, columns=1 << 31)


@dataclass(frozen=True, kw_only=True)
class SaveEvery:
    """When the learner saves the model and starts its log again; whichever comes first.

    Attributes
    ----------
    batches : int
    seconds : float
    log_bytes : int
    """

    batches: int = 5_000
    seconds: float = 60.0
    log_bytes: int = 64 << 20
