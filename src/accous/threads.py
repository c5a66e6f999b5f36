"""Threads: how many BLAS and OpenMP use in a round, and the lock of objects that learn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NamedTuple, Self

from threadpoolctl import ThreadpoolController

# --- Limits BLAS to one thread during a round or a reduction: the same seed gives the same bits on any number
#     of cores


class _Library(NamedTuple):
    """The two functions of a BLAS or OpenMP library that matter here."""

    get: Callable[[], int]
    set: Callable[[int], None]


class _Limit:
    """How many callers are inside the limit, and the numbers of BLAS threads to restore when the last one leaves."""

    def __init__(self) -> None:
        self._n_inside = 0
        self._before: list[int] = []

    def enter(self, libraries: list[_Library]) -> None:
        """Limit the libraries to one thread if this is the first caller inside."""
        if self._n_inside == 0 and libraries:
            self._before = [library.get() for library in libraries]
            for library, count in zip(libraries, self._before, strict=True):
                if count != 1:
                    library.set(1)
        self._n_inside += 1

    def leave(self, libraries: list[_Library]) -> None:
        """Restore the libraries if this is the last caller inside."""
        self._n_inside -= 1
        if self._n_inside == 0 and libraries:
            for library, count in zip(libraries, self._before, strict=True):
                if count != 1:
                    library.set(count)


class _Thread(threading.local):
    """How many times this thread has entered the limit, and the limit for pools that belong to this thread only."""

    def __init__(self) -> None:
        self.depth = 0
        self.limit = _Limit()


_lock = threading.Lock()
_of_process = _Limit()
_this_thread = _Thread()


class _OneBlasThread(AbstractContextManager[None]):
    """The context manager. It has no state of its own; a thread that is already inside only increments its counter."""

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
    """Limit BLAS to one thread; the last caller to leave restores the previous setting.

    Most thread pools belong to the process. They stay limited while any Python thread is inside, because two callers
    that overlap in time would otherwise restore each other's limit. OpenMP pools belong to the thread that uses them.
    """
    return _limit


@cache
def _blas_libraries() -> tuple[list[_Library], list[_Library]]:
    """Return the BLAS libraries of this process with one pool for all threads, and those with one pool per thread."""
    shared: list[_Library] = []
    per_thread: list[_Library] = []
    for controller in ThreadpoolController().select(user_api="blas").lib_controllers:
        is_openmp = getattr(controller, "threading_layer", None) == "openmp"
        (per_thread if is_openmp else shared).append(_bind_blas(controller))
    return shared, per_thread


def _bind_blas(controller: Any) -> _Library:
    """Look up the library's functions once; threadpoolctl looks them up in every call."""
    # threadpoolctl lets only the first thread that asks set a shared pool, and no other thread after that. Here the
    # first caller to enter sets the pool and the last one to leave restores it, and these may be different threads.
    set_threads = getattr(controller, "_real_set_num_threads", controller.set_num_threads)
    find = getattr(controller, "_get_symbol", None)
    is_openblas = find is not None and getattr(controller, "threading_layer", None) != "openmp"
    get_threads = find("openblas_get_num_threads") if find is not None and is_openblas else None
    return _Library(get_threads or controller.get_num_threads, set_threads)


# --- Limits OpenMP to one thread where there is little to do, as in the small fits of trees on a reference


# With more rows, more threads are worth their cost.
MOST_ROWS = 20_000


@contextmanager
def one_openmp_thread_if_few(n_rows: int) -> Iterator[None]:
    """Limit OpenMP to one thread for the calling thread if there are at most 20,000 rows.

    Parameters
    ----------
    n_rows : int
        Rows to fit or to predict.
    """
    pools = _pools() if n_rows <= MOST_ROWS else []
    before = [pool.get() for pool in pools]
    try:
        for pool in pools:
            pool.set(1)
        yield
    finally:
        for pool, count in zip(pools, before, strict=True):
            pool.set(count)


@cache
def _pools() -> list[_Library]:
    """Return the OpenMP libraries; in each, every thread of Python has a number of its own."""
    import sklearn.utils._openmp_helpers  # noqa: F401  (loads the library that scikit-learn uses)

    found = ThreadpoolController().select(user_api="openmp").lib_controllers
    return [_Library(each.get_num_threads, each.set_num_threads) for each in found]


# --- Threads that change the same model take turns; threads that only read it never wait


LOCK_NAME, CALLBACKS_NAME = "_lock", "_callbacks"
_OF_ONE = (LOCK_NAME, CALLBACKS_NAME)  # no copy has them


class Lockable:
    """Gives every object a lock of its own, made on first use.

    The lock is not part of the object's state: copies, clones, pickles and saved models do not have it, and make their
    own when they need one.
    """

    def lock(self) -> AbstractContextManager[Any]:
        """Return the lock to hold while the object learns; a thread that holds it may take it again."""
        attributes = vars(self)
        lock: AbstractContextManager[Any] | None = attributes.get(LOCK_NAME)
        # `setdefault` is one step: threads that come here together all get the lock of the first.
        return attributes.setdefault(LOCK_NAME, threading.RLock()) if lock is None else lock

    def __copy__(self) -> Self:
        """Return a copy that learns independently; both share what was learned so far and never modify it."""
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))
        for name in _OF_ONE:
            other.__dict__.pop(name, None)
        return other

    def __getstate__(self) -> Any:
        """Return what pickles and copies keep: everything but the lock."""
        state = super().__getstate__()
        left_out = (*_OF_ONE, "_snapshot")  # what was read can be read again
        return (
            {name: value for name, value in state.items() if name not in left_out} if isinstance(state, dict) else state
        )
