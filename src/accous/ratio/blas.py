"""One BLAS thread inside a round, so that the same seed gives the same bits on any number of cores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]

_lock = threading.Lock()
_n_inside = 0
_threads_before: list[int] = []


@cache
def _blas_libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any Python thread is inside; the last one out restores the setting.

    The limit belongs to the process, so it is counted: two rounds that overlap in time would otherwise restore
    each other's limit.
    """
    global _n_inside, _threads_before  # noqa: PLW0603
    with _lock:
        if _n_inside == 0:
            _threads_before = [library.get_num_threads() for library in _blas_libraries()]
            _set_threads([1] * len(_threads_before))
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                _set_threads(_threads_before)


def _set_threads(counts: list[int]) -> None:
    for library, count in zip(_blas_libraries(), counts, strict=True):
        library.set_num_threads(count)
