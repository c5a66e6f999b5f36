"""What tables without lines share: their rows have numbers, counted from 1."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.formats.chunks import BadRow, Chunk, Position
from accous.tabular.formats.vectors import Fault

__all__ = ["chunk_of", "require_same_table", "rows_at_once"]

_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 22


def rows_at_once(n_columns: int) -> int:
    """Return the number of rows in a piece: fewer if they are wide, to bound the memory."""
    return max(1, min(_MOST_ROWS, _MOST_VALUES // max(1, n_columns)))


def require_same_table(name: str, n_rows: int, start: Position) -> None:
    """Raise a DataError for a table that has fewer rows than were already read from it."""
    if start.end > n_rows:
        raise DataError(
            f"{name} is not the table that was read before: it has {n_rows} rows, but {start.end} were "
            "read; restore it, or start a new run with --new."
        )


def chunk_of(
    frame: pl.DataFrame, first: int, good: NDArray[np.int64], faults: dict[int, Fault], texts: dict[int, str]
) -> Chunk:
    """Return a piece of a table.

    Parameters
    ----------
    frame : polars.DataFrame
        The good rows.
    first : int
        Rows before the piece.
    good : array
        Numbers of the good rows, from 0 in this piece.
    faults : dict of int to Fault
        What is wrong with the others.
    texts : dict of int to str
        The bad rows as they can be shown.
    """
    ends = good + (first + 1)
    bad_rows = [
        BadRow(first + row + 1, first + row + 1, fault.column, fault.reason, texts.get(row, ""))
        for row, fault in sorted(faults.items())
    ]
    return Chunk(frame=frame, lines=ends, ends=ends, next_lines=ends, bad_rows=bad_rows)
