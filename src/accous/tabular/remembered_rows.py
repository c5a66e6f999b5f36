"""Rows that were counted or have joined before, remembered by numbers of 64 bits, so that none counts twice."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["MOST_REMEMBERED", "find_new", "numbers_of_lines", "numbers_of_rows", "numbers_of_texts", "remember"]

MOST_REMEMBERED = 1 << 20
"""Rows that a model remembers; the oldest are forgotten first."""

Numbers = NDArray[np.uint64]
# An odd number that spreads rounds over all numbers of 64 bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_N_LABEL_BITS, _LABEL_BITS = np.uint64(8), np.uint64(0xFF)


def numbers_of_rows(origin: str, places: Numbers, labels: pl.Series, rounds: pl.Series | None = None) -> Numbers:
    """Return the numbers that rows are remembered by; the last eight bits are those of the label.

    Parameters
    ----------
    origin : str
        What the places are in, such as the path of a file.
    places : array of uint64
        Where the rows are: their positions, or `numbers_of_texts` of their keys.
    labels : polars.Series
        Their labels, as text.
    rounds : polars.Series, optional
        The rounds they were predicted in; null where that is not known. Rounds go on over all runs of a model, so a
        run that replaces the file of another has other numbers.
    """
    numbers = places + _digest(origin)
    if rounds is not None:
        numbers = numbers + rounds.fill_null(0).to_numpy().astype(np.uint64) * _SPREAD
    different = labels.unique().drop_nulls().to_list()
    bits = labels.replace_strict(different, [int(_digest(each) & _LABEL_BITS) for each in different], default=0)
    return (numbers << _N_LABEL_BITS) | bits.cast(pl.UInt64).to_numpy()


def numbers_of_texts(texts: pl.Series) -> Numbers:
    """Return a number for each text, the same on every machine."""
    return np.array([_digest(text) for text in texts.to_list()], dtype=np.uint64)


def numbers_of_lines(lines: NDArray[np.int64], X: NDArray[np.float64]) -> Numbers:
    """Return a number for each row of a file, from its line and its content: a file that is replaced has others."""
    content = np.ascontiguousarray(X)
    return np.array(
        [_digest_bytes(b"%d:" % line + row.tobytes()) for line, row in zip(lines.tolist(), content, strict=True)],
        dtype=np.uint64,
    )


def find_new(numbers: Numbers, before: Numbers) -> tuple[NDArray[np.bool_], int]:
    """Return which rows are not remembered, and how many of the others have another label now.

    A row that is there twice is new once.
    """
    is_new = ~np.isin(numbers | _LABEL_BITS, before | _LABEL_BITS)
    n_differing = int((~is_new & ~np.isin(numbers, before)).sum())
    is_first = np.zeros(len(numbers), dtype=bool)
    is_first[np.unique(numbers | _LABEL_BITS, return_index=True)[1]] = True
    return is_new & is_first, n_differing


def remember(before: Numbers, numbers: Numbers) -> Numbers:
    """Return all numbers, without the oldest if there are too many."""
    return np.concatenate((before, numbers))[-MOST_REMEMBERED:]


def _digest(text: str) -> np.uint64:
    return _digest_bytes(str(text).encode("utf-8", "surrogateescape"))


def _digest_bytes(content: bytes) -> np.uint64:
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))
