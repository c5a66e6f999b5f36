"""Threads that change the same model take turns; threads that only read it never wait."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, Self

__all__ = ["LOCK_NAME", "TakesTurns"]

LOCK_NAME = "_turn_lock"


class TakesTurns:
    """Gives every object a lock of its own, made on first use.

    The lock is not part of the object's state: copies, clones, pickles and saved models do not have it, and make their
    own when they need one.
    """

    def turn(self) -> AbstractContextManager[Any]:
        """Return the lock to hold while the object learns; a thread that holds it may take it again."""
        attributes = vars(self)
        lock: AbstractContextManager[Any] | None = attributes.get(LOCK_NAME)
        # `setdefault` is one step: threads that come here together all get the lock of the first.
        return attributes.setdefault(LOCK_NAME, threading.RLock()) if lock is None else lock

    def __copy__(self) -> Self:
        """Return a copy that learns independently; both share what was learned so far and never modify it."""
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))
        other.__dict__.pop(LOCK_NAME, None)
        return other

    def __getstate__(self) -> Any:
        """Return what pickles and copies keep: everything but the lock."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != LOCK_NAME} if isinstance(state, dict) else state
