"""Panics of polars as errors: a damaged file may make its Rust code give up, which prints a backtrace by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

__all__ = ["panics_as_errors"]


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of polars into a ``ComputeError``, and keep its backtrace off the standard error.

    Rust writes the backtrace to the descriptor itself, so nothing in Python can hold it back: the descriptor leads
    nowhere meanwhile.
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
