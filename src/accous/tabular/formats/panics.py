"""Panics of polars as errors: a damaged file can make its Rust code panic, which prints a backtrace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

__all__ = ["panics_as_errors"]


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of polars into a ``ComputeError``, and keep its backtrace off standard error.

    Rust writes the backtrace to the file descriptor, so Python cannot intercept it: the descriptor points to the null
    device meanwhile.
    """
    try:
        saved = os.dup(2)
    except OSError:  # there is no standard error
        saved = None
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if saved is not None:
            os.dup2(nowhere, 2)
        yield
    except pl.exceptions.PanicException as error:
        raise pl.exceptions.ComputeError(str(error)) from None
    finally:
        if saved is not None:
            os.dup2(saved, 2)
            os.close(saved)
        os.close(nowhere)
