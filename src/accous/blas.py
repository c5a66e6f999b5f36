"""One BLAS thread inside a round or a reduction, so that the same seed gives the same bits on any number of cores."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


class _Library(NamedTuple):
    """The two functions of a BLAS library that matter here."""

    get: Callable[[], int]
    set: Callable[[int], None]


class _Limit:
    """How many are inside, and the numbers of BLAS threads to go back to when the last one leaves."""

    def __init__(self) -> None:
        self._n_inside = 0
        self._before: list[int] = []

    def enter(self, libraries: list[_Library]) -> None:
        """Limit the libraries to one thread, if this is the first one inside."""
        if self._n_inside == 0 and libraries:
            self._before = [library.get() for library in libraries]
            for library, count in zip(libraries, self._before, strict=True):
                if count != 1:
                    library.set(1)
        self._n_inside += 1

    def leave(self, libraries: list[_Library]) -> None:
        """Restore the libraries, if this is the last one inside."""
        self._n_inside -= 1
        if self._n_inside == 0 and libraries:
            for library, count in zip(libraries, self._before, strict=True):
                if count != 1:
                    library.set(count)


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

    Most pools belong to the process: they are limited while any Python thread is inside, since two callers that overlap
    in time would otherwise restore each other's limit. Pools of OpenMP belong to the thread that uses them.
    """
    return _limit


@cache
def _blas_libraries() -> tuple[list[_Library], list[_Library]]:
    """BLAS libraries of this process with a pool for all threads, and those with one per thread."""
    shared: list[_Library] = []
    per_thread: list[_Library] = []
    for controller in ThreadpoolController().select(user_api="blas").lib_controllers:
        is_openmp = getattr(controller, "threading_layer", None) == "openmp"
        (per_thread if is_openmp else shared).append(_bind(controller))
    return shared, per_thread


def _bind(controller: Any) -> _Library:
    """Look up the library's own functions once; threadpoolctl does so in every call."""
    # threadpoolctl lets only the first thread that asks set a shared pool, and never takes that right back; here
    # whoever comes first sets it and whoever leaves last restores it, and these need not be the same thread.
    set_threads = getattr(controller, "_real_set_num_threads", controller.set_num_threads)
    find = getattr(controller, "_get_symbol", None)
    is_openblas = find is not None and getattr(controller, "threading_layer", None) != "openmp"
    get_threads = find("openblas_get_num_threads") if find is not None and is_openblas else None
    return _Library(get_threads or controller.get_num_threads, set_threads)
