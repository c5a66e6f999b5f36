"""One BLAS thread inside a round, so that the same seed gives the same bits on any number of cores."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


class _Limit:
    """How many are inside, and the numbers of BLAS threads to go back to when the last one leaves."""

    def __init__(self) -> None:
        self._n_inside = 0
        self._before: list[int] = []

    def enter(self, libraries: list[Any]) -> None:
        """Limit the libraries to one thread, if this is the first one inside."""
        if self._n_inside == 0:
            self._before = [library.get_num_threads() for library in libraries]
            _set_threads(libraries, [1] * len(libraries), self._before)
        self._n_inside += 1

    def leave(self, libraries: list[Any]) -> None:
        """Restore the libraries, if this is the last one inside."""
        self._n_inside -= 1
        if self._n_inside == 0:
            _set_threads(libraries, self._before, [1] * len(libraries))


class _Thread(threading.local):
    """How often this thread is inside, and the limit of the pools that belong to it alone."""

    def __init__(self) -> None:
        self.depth = 0
        self.limit = _Limit()


_lock = threading.Lock()
_of_process = _Limit()
_this_thread = _Thread()


class _OneBlasThread(AbstractContextManager[None]):
    """Has no state of its own; a thread that is inside already only counts."""

    def __enter__(self) -> None:
        _this_thread.depth += 1
        if _this_thread.depth == 1:
            try:
                shared, per_thread = _blas_libraries()
                with _lock:
                    _of_process.enter(shared)
                _this_thread.limit.enter(per_thread)
            except BaseException:
                _this_thread.depth -= 1
                raise

    def __exit__(self, *_: object) -> None:
        _this_thread.depth -= 1
        if _this_thread.depth == 0:
            shared, per_thread = _blas_libraries()
            _this_thread.limit.leave(per_thread)
            with _lock:
                _of_process.leave(shared)


_limit = _OneBlasThread()


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread; whoever leaves last restores what was set before.

    Most pools belong to the process: they are limited while any Python thread is inside, since two rounds that overlap
    in time would otherwise restore each other's limit. Pools of OpenMP belong to the thread that uses them.
    """
    return _limit


@cache
def _blas_libraries() -> tuple[list[Any], list[Any]]:
    """BLAS libraries of this process with a pool for all threads, and those with one per thread."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    per_thread = [library for library in libraries if getattr(library, "threading_layer", None) == "openmp"]
    return [library for library in libraries if library not in per_thread], per_thread


def _set_threads(libraries: list[Any], counts: list[int], present: list[int]) -> None:
    for library, count, now in zip(libraries, counts, present, strict=True):
        if count == now:
            continue
        # threadpoolctl lets only the first thread that asks set a shared pool, and never takes that right back; here
        # whoever comes first sets it and whoever leaves last restores it, and these need not be the same thread.
        getattr(library, "_real_set_num_threads", library.set_num_threads)(count)
