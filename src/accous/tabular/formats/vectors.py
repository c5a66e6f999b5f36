"""Embeddings in a table: a column whose values are rows of numbers, spread into one column for each number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import ParameterError
from accous.text import count

__all__ = [
    "EMBEDDING",
    "Fault",
    "faults_of",
    "is_vector",
    "read_vectors",
    "require_widths",
    "spread_names",
    "spread_vectors",
]

EMBEDDING = "embedding"  # what the rows of an array are called, which has no names


@dataclass(frozen=True)
class Fault:
    """The reason why a row cannot be used."""

    column: str
    reason: str


def spread_names(name: str, width: int) -> list[str]:
    """Names of the columns that a vector is spread into.

    Examples
    --------
    >>> spread_names("embedding", 3)
    ['embedding_0', 'embedding_1', 'embedding_2']
    """
    return [f"{name}_{number}" for number in range(width)]


def is_vector(dtype: Any) -> bool:
    """Whether values of this polars type are lists or arrays of numbers, one level deep."""
    return isinstance(dtype, (pl.List, pl.Array)) and dtype.inner is not None and _is_number(dtype.inner)


def faults_of(values: NDArray[np.float64], name: str) -> dict[int, Fault]:
    """Name the first number in each row that is NaN or infinite: an embedding has no missing values to fill in."""
    is_finite = np.isfinite(values)
    rows = np.flatnonzero(~is_finite.all(axis=1))
    columns = is_finite[rows].argmin(axis=1)
    return {
        row: Fault(f"{name}_{column}", f"{values[row, column]} is not a finite number")
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    }


def read_vectors(column: pl.Series, width: int) -> tuple[NDArray[np.float64], dict[int, Fault]]:
    """Return a column of lists as an array of shape (n_rows, width), and what is wrong with some of its rows."""
    name = column.name
    column = column.alias("values")  # some names are patterns to polars
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    lengths = lists.list.len()
    is_whole = (lengths == width).fill_null(False)
    values = np.full((len(column), width), np.nan)
    numbers = lists.filter(is_whole).explode().cast(pl.Float64).to_numpy()
    values[is_whole.to_numpy()] = numbers.reshape(-1, width)
    faults = faults_of(values, name)
    for row in np.flatnonzero(~is_whole.to_numpy()).tolist():
        length = lengths[row]
        reason = "the embedding is missing" if length is None else f"{_numbers(length)} instead of {width}"
        faults[row] = Fault(name, reason)
    return values, faults


def spread_vectors(frame: pl.DataFrame, widths: Mapping[str, int]) -> tuple[pl.DataFrame, dict[int, Fault]]:
    """Spread the embeddings of a frame, by their names and widths; return what is wrong with some rows too.

    A frame that has the spread columns instead, or no such column, is returned as it is.
    """
    faults: dict[int, Fault] = {}
    parts: list[pl.DataFrame] = []
    for column in frame:
        is_empty = column.null_count() == len(column)  # whatever type it has then
        if column.name not in widths or not (is_empty or is_vector(column.dtype)):
            parts.append(column.to_frame())
            continue
        width = widths[column.name]
        if is_empty:
            column = pl.Series(column.name, [None] * len(column), dtype=pl.List(pl.Float64))
        values, found = read_vectors(column, width)
        faults = found | faults  # of two bad embeddings in a row, the first one is named
        parts.append(pl.DataFrame(values, schema=spread_names(column.name, width), orient="row"))
    return (pl.concat(parts, how="horizontal") if parts else frame), faults


def require_widths(table: str, widths: Mapping[str, int], fitted: Mapping[str, int]) -> None:
    """Raise a ParameterError for a table whose embeddings are not as wide as those of the reference."""
    for name, width in widths.items():
        if fitted.get(name, width) != width:
            raise ParameterError(
                f"{table} holds embeddings of {_numbers(width)} ({name!r}), but the model was fitted with "
                f"{fitted[name]}: embed both with the same network, or fit again."
            )


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == pl.Boolean)


def _numbers(width: int) -> str:
    return count(width, "number")
