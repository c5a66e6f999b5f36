"""Rows that were counted or have joined before, remembered by numbers of 64 bits, so that none counts twice."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = [
    "MOST_REMEMBERED",
    "RowNumbers",
    "find_new",
    "numbers_of_keyed_rows",
    "numbers_of_lines",
    "numbers_of_rows",
    "numbers_of_texts",
    "remember",
]

MOST_REMEMBERED = 1 << 20
"""Rows that a model remembers; the oldest are forgotten first."""

Numbers = NDArray[np.uint64]
# An odd number that spreads rounds over all numbers of 64 bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_N_LABEL_BITS, _LABEL_BITS = np.uint64(8), np.uint64(0xFF)


@dataclass(frozen=True)
class RowNumbers:
    """Numbers of rows that may have more than one name, such as a line and a key.

    Attributes
    ----------
    sought : tuple of arrays of uint64
        One array for each name. A row is known if any of its numbers is remembered.
    kept : tuple of arrays of uint64
        The numbers to remember the rows by.
    """

    sought: tuple[Numbers, ...]
    kept: tuple[Numbers, ...]

    def find_new(self, before: Numbers) -> NDArray[np.bool_]:
        """Return which rows are not remembered by any of their names; a row that is there twice is new once."""
        return np.logical_and.reduce([find_new(numbers, before)[0] for numbers in self.sought])

    def remember(self, before: Numbers, is_new: NDArray[np.bool_]) -> Numbers:
        """Return all numbers after the new rows were added."""
        return remember(before, np.concatenate([numbers[is_new] for numbers in self.kept]))


def numbers_of_keyed_rows(
    file: str, lines: Numbers, labels: pl.Series, *, key: str | None = None, keys: Numbers | None = None
) -> RowNumbers:
    """Return numbers by which a row of a file is known again, whether it is named by a key or not.

    A row without a key is known by its line. A row with a key is known by the key, in any file. It is known by its line
    too if one of the two times it had no key; if both times it had one, the keys decide alone.

    Parameters
    ----------
    file : str
        The path of the file that holds the rows.
    lines : array of uint64
        As `numbers_of_lines` returns them.
    labels : polars.Series
    key : str, optional
        Column of the keys.
    keys : array of uint64, optional
        `numbers_of_texts` of the keys.
    """
    without_key = numbers_of_rows(file, lines, labels)
    beside_key = numbers_of_rows(f"{file} with a key", lines, labels)
    if keys is None:
        return RowNumbers((without_key, beside_key), (without_key,))
    by_key = numbers_of_rows(f"key {key}", keys, labels)
    return RowNumbers((by_key, without_key), (by_key, beside_key))


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
