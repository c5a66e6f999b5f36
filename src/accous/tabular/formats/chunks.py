"""The pieces in which a table is read: rows, their positions, and the rows that cannot be read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.parameters import did_you_mean, listed
from accous.tabular.formats.values import NO_DECIMAL_COMMAS, is_usable

__all__ = ["BadRow", "Chunk", "Position", "TableReader", "digest_of", "no_such_column", "require_usable"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used.

    Attributes
    ----------
    end : int
        Where it ends, in the units of `Chunk.ends`.
    line : int
        Its line in the file, or its number in a file without lines; counted from 1.
    column : str
        The column at fault; empty if it is the whole row.
    reason : str
        What is wrong.
    text : str
        The row as in the file, as far as it can be shown.
    """

    end: int
    line: int
    column: str
    reason: str
    text: str

    def error(self, table: str, unit: str) -> DataError:
        """Return the error that this row causes."""
        where = f", column {self.column!r}" if self.column else ""
        # A whole column has decimal commas: hardly a row would be left.
        is_comma = self.reason.endswith(NO_DECIMAL_COMMAS)
        fix = (
            "write numbers with a decimal point"
            if is_comma
            else "fix it, or set such rows aside with --on-bad-row skip"
        )
        return DataError(f"{table}, {unit} {self.line}{where}: {self.reason}; {fix}.")


@dataclass(frozen=True)
class Position:
    """How far a table has been read.

    Attributes
    ----------
    end : int
        Bytes of the text in UTF-8 without a byte-order mark, or rows if the file is not text.
    line : int
        Lines before it.
    tail_length : int
        Length of the row that ends here, in bytes; 0 if unknown.
    tail_digest : str
        Digest of that row, to recognize the table.
    """

    end: int = 0
    line: int = 0
    tail_length: int = 0
    tail_digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Rows in the order of the table.

    Attributes
    ----------
    frame : polars.DataFrame
        The requested columns: text, or typed columns if the file has types.
    lines, ends : array of shape (n_rows,)
        Line of each row, and where it ends.
    next_lines : array of shape (n_rows,)
        Lines up to the end of each row.
    bad_rows : list of BadRow
        In order; none of them is in the frame.
    row_bytes : callable
        The bytes of a row by its number in this chunk.
    """

    frame: pl.DataFrame
    lines: IntArray
    ends: IntArray
    next_lines: IntArray
    bad_rows: list[BadRow] = field(default_factory=list)
    row_bytes: Callable[[int], bytes] = lambda _: b""

    def position_after(self, row: int) -> Position:
        """How far the table is read when this row is the last one used."""
        content = self.row_bytes(row)
        return Position(int(self.ends[row]), int(self.next_lines[row]), len(content), digest_of(content))


def digest_of(content: bytes) -> str:
    """Return a short digest of a row, to notice a different table; it does not protect against tampering."""
    return hashlib.sha256(content).hexdigest()[:16] if content else ""


def no_such_column(table: TableReader, name: str, *, label: str | None = None) -> ParameterError:
    """Return the error for a named column that the table does not have; the label is never suggested for another."""
    meant = did_you_mean(name, [each for each in table.columns if each != label])
    return ParameterError(f"{table.name} has no column {name!r}{meant}: it has {listed(table.columns)}.")


def require_usable(table: TableReader, names: list[str]) -> None:
    """Raise a DataError for a column whose values are lists, objects, bytes or durations."""
    for name, dtype in table.column_types(names).items():
        if not is_usable(dtype):
            raise DataError(
                f"{table.name}, column {name!r}: values of the type {dtype} cannot be used; save numbers, text, dates "
                "or booleans."
            )


class TableReader(Protocol):
    """A table that is read once, in order.

    Attributes
    ----------
    name : str
        For messages.
    unit : str
        What a row's place is counted in: ``"line"`` or ``"row"``.
    columns : list of str
    widths : dict of str to int
        Embeddings, and how many numbers each has: ``{"embedding": 2}`` stands for the columns ``embedding_0`` and
        ``embedding_1``.
    n_rows : int or None
        Where it is known before they are read.
    """

    name: str
    unit: str
    columns: list[str]
    widths: dict[str, int]
    n_rows: int | None

    def read_as_numbers(self, names: list[str]) -> None:
        """Allow reading columns directly as numbers, which is faster, if all values of a piece are numbers."""

    def read_if_simple(self, names: list[str]) -> None:
        """Read nested values of columns as missing; in other columns they make their rows bad."""

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rest of the table; None while there is nothing new yet."""

    def share_read(self) -> float | None:
        """Share of the table read so far, where its size is known."""

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the types of columns that have one; text columns have none."""

    def close(self) -> None:
        """Close the file."""
