"""Large bodies are read in a thread, so that other requests do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["LARGE", "read_aside"]

T = TypeVar("T")
# Reading more than this takes longer than other requests should wait.
LARGE = 32 << 10


async def read_aside(n_bytes: int, function: Callable[..., T], *arguments: object) -> T:
    """Call a function that reads so many bytes; in a thread if they are many."""
    if n_bytes <= LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
