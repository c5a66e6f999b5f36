"""Limits OpenMP to one thread where there is little to do, as in the small fits of trees on a reference.

Threads of OpenMP wait for each other by spinning. On a busy machine, a fit of a tenth of a second then takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from threadpoolctl import ThreadpoolController

__all__ = ["one_openmp_thread_if_few"]

# With more rows, more threads are worth their cost.
MOST_ROWS = 20_000


class _Pool(NamedTuple):
    """The functions of an OpenMP library; each thread of Python has a number of its own."""

    get: Callable[[], int]
    set: Callable[[int], None]


@contextmanager
def one_openmp_thread_if_few(n_rows: int) -> Iterator[None]:
    """Limit OpenMP to one thread for the calling thread if there are at most 20,000 rows.

    Parameters
    ----------
    n_rows : int
        Rows to fit or to predict.
    """
    pools = _pools() if n_rows <= MOST_ROWS else ()
    before = [pool.get() for pool in pools]
    try:
        for pool in pools:
            pool.set(1)
        yield
    finally:
        for pool, count in zip(pools, before, strict=True):
            pool.set(count)


@cache
def _pools() -> tuple[_Pool, ...]:
    import sklearn.utils._openmp_helpers  # noqa: F401  (loads the library that scikit-learn uses)

    return tuple(_bind(each) for each in ThreadpoolController().select(user_api="openmp").lib_controllers)


def _bind(controller: Any) -> _Pool:
    return _Pool(controller.get_num_threads, controller.set_num_threads)
