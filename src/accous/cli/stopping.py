"""Ctrl-C and SIGTERM: stop after the current round, with everything saved. A reader that left: stop quietly."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["StopRequest", "give_up_stdout", "stop_on_signals"]


class StopRequest:
    """Whether a signal has arrived.

    Attributes
    ----------
    signal : int or None
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, as in shells: 130 or 143."""
        return 128 + (self.signal or 0)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Treat signals as requests; a second one ends the process at once."""
    request = StopRequest()
    before: dict[int, Any] = {}

    def take(number: int, _frame: FrameType | None) -> None:
        request.signal = number
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, take)
    try:
        yield request
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def give_up_stdout() -> int:
    """End quietly with the exit code of SIGPIPE: nobody reads the output any more."""
    # Python flushes stdout on its way out, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
