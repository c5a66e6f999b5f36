"""Rows on their way from a table to a round: features, copied columns, and the position of each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.marks import Marks
from accous.tabular.columns.plans import NumberColumn
from accous.tabular.formats.chunks import BadRow, Chunk, Position, TableReader, no_such_column, require_usable
from accous.tabular.formats.values import exactly, is_usable

__all__ = ["RowReader", "Rows"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows that are waiting for their round.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    frame : polars.DataFrame
        The columns to copy, to group by and to score with.
    lines : array of shape (n_rows,)
        Line of each row in the table, or its number if the table has no lines.
    bad_rows : list of BadRow
        Bad rows between and after them.
    n_missing, n_unknown : array of shape (n_rows,)
        Values in each row that are missing, and categories that the reference does not have.
    marks : Marks
        What each row shows in single columns.
    """

    X: NDArray[np.float64]
    frame: pl.DataFrame
    lines: NDArray[np.int64]
    bad_rows: list[BadRow]
    n_missing: NDArray[np.int64]
    n_unknown: NDArray[np.int64]
    marks: Marks
    _chunks: tuple[tuple[int, Chunk], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.X)

    def end_of(self, row: int) -> int:
        """Where a row ends in the table."""
        first, chunk = self._chunk_of(row)
        return int(chunk.ends[row - first])

    def position_after(self, row: int) -> Position:
        """How far the table is read when this row is the last one used."""
        first, chunk = self._chunk_of(row)
        return chunk.position_after(row - first)

    def followed_by(self, others: Rows) -> Rows:
        """Return these rows and the others as one."""
        if not len(self) and not self.bad_rows:
            return others
        moved = tuple((first + len(self), chunk) for first, chunk in others._chunks)
        return Rows(
            X=np.concatenate((self.X, others.X)),
            frame=pl.concat((self.frame, others.frame)),
            lines=np.concatenate((self.lines, others.lines)),
            bad_rows=self.bad_rows + others.bad_rows,
            n_missing=np.concatenate((self.n_missing, others.n_missing)),
            n_unknown=np.concatenate((self.n_unknown, others.n_unknown)),
            marks=self.marks.followed_by(others.marks),
            _chunks=(*self._chunks, *moved),
        )

    def after(self, n_rows: int) -> Rows:
        """Return the rows after the first ``n_rows``, with the bad rows that follow."""
        if n_rows == 0:
            return self
        end = self.end_of(n_rows - 1)
        # Of the chunks that are used up the last one stays as long as it has rows.
        chunks = tuple((first - n_rows, chunk) for first, chunk in self._chunks if first + len(chunk.ends) > n_rows)
        return Rows(
            X=self.X[n_rows:],
            frame=self.frame[n_rows:],
            lines=self.lines[n_rows:],
            bad_rows=[bad for bad in self.bad_rows if bad.end > end],
            n_missing=self.n_missing[n_rows:],
            n_unknown=self.n_unknown[n_rows:],
            marks=self.marks[n_rows:],
            _chunks=chunks,
        )

    def _chunk_of(self, row: int) -> tuple[int, Chunk]:
        return next((first, chunk) for first, chunk in reversed(self._chunks) if first <= row)


class RowReader:
    """Reads a table, encodes its rows, and sets bad rows aside or stops at the first one.

    Parameters
    ----------
    table : TableReader
    encoder : ColumnEncoder
    passed : list of str
        Columns to read besides the features.
    skips_bad : bool
    accepts_unknown : bool
        Whether categories that the reference does not have are accepted, or make their rows bad.
    """

    def __init__(
        self, table: TableReader, encoder: ColumnEncoder, passed: list[str], *, skips_bad: bool, accepts_unknown: bool
    ) -> None:
        self._table = table
        self._encoder = encoder
        self._passed = passed
        self._skips_bad = skips_bad
        self._accepts_unknown = accepts_unknown
        encoder.require_columns(table.columns, table.name)
        numbers = [plan.name for plan in encoder.used if isinstance(plan, NumberColumn)]
        table.read_as_numbers([name for name in numbers if name not in passed])
        for name in passed:
            if name not in table.columns:
                raise no_such_column(table, name)
        require_usable(table, [*encoder.used_columns, *passed])
        watched = [name for name in encoder.constants if name in table.columns and name not in passed]
        types = table.column_types(watched)
        self._watched = [name for name in watched if name not in types or is_usable(types[name])]
        table.read_if_simple(self._watched)

    def read(self, start: Position) -> Iterator[Rows | None]:
        """Yield the rows from a position on; None while there is nothing new yet.

        Raises
        ------
        DataError
            At a bad row, unless bad rows are skipped; the rows before it have been yielded.
        """
        wanted = list(dict.fromkeys([*self._encoder.used_columns, *self._passed, *self._watched]))
        for chunk in self._table.chunks(wanted, start):
            if chunk is None:
                yield None
                continue
            rows = self._prepare(chunk)
            first_bad = rows.bad_rows[0] if rows.bad_rows else None
            if first_bad is None or self._skips_bad:
                yield rows
                continue
            n_before = int(np.searchsorted(rows._chunks[0][1].ends, first_bad.end))
            yield _head(rows, n_before)
            raise first_bad.error(self._table.name, self._table.unit)

    def _prepare(self, chunk: Chunk) -> Rows:
        features = self._encoder.encode(chunk.frame, accepts_unknown=self._accepts_unknown)
        if not features.bad_values:
            return self._rows(chunk, features.X, chunk.bad_rows, features)
        is_good = np.ones(len(chunk.lines), dtype=bool)
        bad_rows = list(chunk.bad_rows)
        for bad in features.bad_values:
            is_good[bad.row] = False
            raw = chunk.row_bytes(bad.row).decode("utf-8", "replace").rstrip("\r")
            end, line = int(chunk.ends[bad.row]), int(chunk.lines[bad.row])
            bad_rows.append(BadRow(end, line, bad.column, bad.reason, raw))
        good = np.flatnonzero(is_good)
        row_bytes = chunk.row_bytes
        kept = replace(
            chunk,
            frame=chunk.frame[good],
            lines=chunk.lines[good],
            ends=chunk.ends[good],
            next_lines=chunk.next_lines[good],
            row_bytes=lambda row: row_bytes(int(good[row])),
        )
        bad_rows.sort(key=lambda bad: bad.end)
        return self._rows(kept, np.ascontiguousarray(features.X[good]), bad_rows, features, good)

    def _rows(
        self,
        chunk: Chunk,
        X: NDArray[np.float64],
        bad_rows: list[BadRow],
        features: Any,
        good: NDArray[np.int64] | None = None,
    ) -> Rows:
        n_missing, n_unknown, marks = features.n_missing, features.n_unknown, features.marks
        if good is not None:
            n_missing, n_unknown, marks = n_missing[good], n_unknown[good], marks[good]
        return Rows(
            X=X,
            frame=chunk.frame.select(exactly(self._passed)),
            lines=np.asarray(chunk.lines, dtype=np.int64),
            bad_rows=bad_rows,
            n_missing=n_missing,
            n_unknown=n_unknown,
            marks=marks,
            _chunks=((0, chunk),),
        )


def _head(rows: Rows, n_rows: int) -> Rows:
    return replace(
        rows,
        X=rows.X[:n_rows],
        frame=rows.frame[:n_rows],
        lines=rows.lines[:n_rows],
        bad_rows=[],
        n_missing=rows.n_missing[:n_rows],
        n_unknown=rows.n_unknown[:n_rows],
        marks=rows.marks[:n_rows],
    )
