"""Waiting for a condition, not for a time: the limit is for what will never happen, however busy the machine is."""

import time
from collections.abc import Callable

PATIENCE = 600.0  # seconds


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Return as soon as the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"no {what} within {PATIENCE:g} seconds"
        time.sleep(0.02)
