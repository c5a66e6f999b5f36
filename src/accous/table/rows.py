"""Rows of a stream on their way through a model: read, rejected, remembered, predicted."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import BoolArray
from accous.exceptions import DataError, ParameterError
from accous.table.columns import ColumnEncoder, Marks, NumberColumn
from accous.table.kinds import LINE, LabelKind
from accous.table.readers import (
    BadRow,
    Chunk,
    Position,
    RowsOutput,
    TableReader,
    exactly,
    is_usable,
    no_such_column,
    require_usable,
)
from accous.text import count

# --- Rows on their way from a table to a round: features, copied columns, and the position of each row


@dataclass(frozen=True, kw_only=True)
class PendingRows:
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

    def followed_by(self, others: PendingRows) -> PendingRows:
        """Return these rows and the others as one."""
        if not len(self) and not self.bad_rows:
            return others
        moved = tuple((first + len(self), chunk) for first, chunk in others._chunks)
        return PendingRows(
            X=np.concatenate((self.X, others.X)),
            frame=pl.concat((self.frame, others.frame)),
            lines=np.concatenate((self.lines, others.lines)),
            bad_rows=self.bad_rows + others.bad_rows,
            n_missing=np.concatenate((self.n_missing, others.n_missing)),
            n_unknown=np.concatenate((self.n_unknown, others.n_unknown)),
            marks=self.marks.followed_by(others.marks),
            _chunks=(*self._chunks, *moved),
        )

    def after(self, n_rows: int) -> PendingRows:
        """Return the rows after the first ``n_rows``, with the bad rows that follow."""
        if n_rows == 0:
            return self
        end = self.end_of(n_rows - 1)
        # Of the chunks that are used up the last one stays as long as it has rows.
        chunks = tuple((first - n_rows, chunk) for first, chunk in self._chunks if first + len(chunk.ends) > n_rows)
        return PendingRows(
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

    def read(self, start: Position) -> Iterator[PendingRows | None]:
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

    def _prepare(self, chunk: Chunk) -> PendingRows:
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
    ) -> PendingRows:
        n_missing, n_unknown, marks = features.n_missing, features.n_unknown, features.marks
        if good is not None:
            n_missing, n_unknown, marks = n_missing[good], n_unknown[good], marks[good]
        return PendingRows(
            X=X,
            frame=chunk.frame.select(exactly(self._passed)),
            lines=np.asarray(chunk.lines, dtype=np.int64),
            bad_rows=bad_rows,
            n_missing=n_missing,
            n_unknown=n_unknown,
            marks=marks,
            _chunks=((0, chunk),),
        )


def _head(rows: PendingRows, n_rows: int) -> PendingRows:
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


# --- The bad rows that were set aside, as a table


def rejects_frame(bad_rows: list[BadRow]) -> pl.DataFrame:
    """Return the line of each row, what is wrong with it, and its text."""
    columns = {
        "line": [bad.line for bad in bad_rows],
        "column": [bad.column or None for bad in bad_rows],
        "reason": [bad.reason for bad in bad_rows],
        "row": [bad.text for bad in bad_rows],
    }
    return pl.DataFrame(columns, schema_overrides={"column": pl.String})


def write_rejects(bad_rows: list[BadRow], path: str) -> None:
    """Write the rows to a new CSV file."""
    file = RowsOutput(path, "csv", 0)
    file.write(rejects_frame(bad_rows))
    file.put_on_disk()
    file.close()


# --- Rows that were counted or have joined before, remembered by numbers of 64 bits, so that none counts twice


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


# --- Labelled rows that are in the reference already, such as the file that accous fit was given


_FEWEST = 20
_LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class RowsToJoin:
    """Which of some labelled rows join the reference.

    Attributes
    ----------
    is_new : array of bool
        The rows that join.
    is_copy : array of bool
        The rows that do not, because the reference has them already.
    n_alike : int
        Rows that join although a single row of the reference is the same; 0 if they are few.
    """

    is_new: BoolArray
    is_copy: BoolArray
    n_alike: int = 0


def rows_to_join(
    model: Any, kind: LabelKind, X: NDArray[np.float64], labels: pl.Series, is_unknown: BoolArray
) -> RowsToJoin:
    """Return which rows join the reference, and which are copies of rows that it has.

    A row repeats one of the reference if their features and labels have the same bits and the reference has that row
    once. If more than half of the different rows repeat one, and at least twenty, they are taken for the same rows, and
    do not join again. Rows may also be alike because few categories make them so, or because the same customers come
    again with the same features. Then some of them have another label than the row of the reference with their
    features. One such row is enough to let all join: leaving out the others would leave changed labels only.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
    kind : LabelKind
        Of the model.
    X : array of shape (n_rows, n_features)
    labels : polars.Series
        As text.
    is_unknown : array of bool
        The rows that have not joined before, by their names.
    """
    none = np.zeros(len(X), dtype=bool)
    if is_unknown.sum() < _FEWEST:
        return RowsToJoin(is_unknown, none)
    truths = pl.Series([str(truth) for truth in model.task_.truths.tolist()], dtype=pl.String)
    known, n_times = np.unique(_contents(kind, model.reference_, truths), return_counts=True)
    contents = _contents(kind, X, labels)
    is_repeated = is_unknown & np.isin(contents, known[n_times == 1])
    n_repeated = len(np.unique(contents[is_repeated]))
    if n_repeated < _FEWEST:
        return RowsToJoin(is_unknown, none)
    is_other = is_unknown & ~is_repeated
    has_other_label = np.isin(_contents(kind, X[is_other]), _contents(kind, model.reference_)).any()
    if n_repeated > _LARGEST_SHARE * len(np.unique(contents[is_unknown])) and not has_other_label:
        return RowsToJoin(is_unknown & ~is_repeated, is_repeated)
    return RowsToJoin(is_unknown, none, int(is_repeated.sum()))


def copies_in_words(n_copies: int) -> str:
    """Say how many rows did not join because the reference has them."""
    are = count(n_copies, "row is in the reference already and does", "rows are in the reference already and do")
    return f"{are} not join again: label and features are the same. Give new rows only."


def _contents(kind: LabelKind, X: NDArray[np.float64], labels: pl.Series | None = None) -> NDArray[np.uint64]:
    """Return a number for each row, from its features and its label, if that counts."""
    content = np.asarray(X, dtype=np.float64) + 0.0  # -0.0 is 0.0
    if labels is not None:
        answers = np.asarray(kind.true_answers(labels), dtype=np.float64) + 0.0
        content = np.column_stack((answers, content))
    return numbers_of_lines(np.zeros(len(content), dtype=np.int64), content)


# --- Frames of polars and of pandas; pyarrow, which polars itself would use for pandas, is not needed


Frame = TypeVar("Frame")
_NUMPY_KINDS = "biufM"


def to_polars(frame: Any) -> pl.DataFrame:
    """Return a polars frame as it is, and a pandas frame converted."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if not _is_pandas(frame):
        raise DataError(f"A polars or pandas DataFrame is needed, got {type(frame).__name__}{_advice(frame)}.")
    names = [str(name) for name in frame.columns]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataError(f"The frame has two columns called {name!r}; rename one.")
    return pl.DataFrame([_to_series(name, frame.iloc[:, number]) for number, name in enumerate(names)])


def _advice(frame: Any) -> str:
    if isinstance(frame, pl.LazyFrame):
        return ": pass frame.collect()"
    if isinstance(frame, dict):
        return ": pass polars.DataFrame([row]) for a dict that is one row"
    return ""


def like(original: Frame, result: pl.DataFrame) -> Frame:
    """Return a polars frame in the library of another frame, with its index where it has one."""
    if not _is_pandas(original):
        return cast(Frame, result)
    import pandas as pd

    columns = {column.name: column.to_list() if column.dtype == pl.String else column.to_numpy() for column in result}
    frame = pd.DataFrame(columns, index=cast(Any, original).index)
    return cast(Frame, frame)


def _is_pandas(frame: Any) -> bool:
    # A pandas frame cannot be at hand before pandas is imported.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _to_series(name: str, column: Any) -> pl.Series:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    values = column.to_numpy()
    if values.dtype.kind in _NUMPY_KINDS:
        return pl.Series(name, values)
    missing = column.isna().tolist()
    try:
        return pl.Series(
            name,
            [None if is_missing else value for value, is_missing in zip(values, missing, strict=True)],
            strict=False,
        )
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"Column {name!r} of the frame cannot be used ({error}).") from None


# --- The output for each row: its line, copied columns, round, what is predicted, and ratio


_DECIMALS = 6


def output_columns(key: str | None, kept: list[str], kind: LabelKind) -> list[str]:
    """Return the output columns; a copied column must not have the name of one of ours.

    Parameters
    ----------
    key : str, optional
        The column that identifies a row; its line does if there is none.
    kept : list of str
        The other copied columns.
    kind : LabelKind
    """
    ours = ["round", *kind.columns, "ratio"]
    options = {"--key": [key or LINE], "--keep": kept}
    for option, names in options.items():
        for name in names:
            if name in ours or (option == "--keep" and key is None and name == LINE):
                raise ParameterError(f"{option} {name}: the predictions have a column with that name; rename yours.")
    return [key or LINE, *kept, *ours]


def output_schema(key: str | None, kept: list[str], kind: LabelKind, types: dict[str, Any]) -> dict[str, pl.DataType]:
    """Return the types of the output columns, in their order; ``types`` are those of the copied columns, if known."""
    schema: dict[str, Any] = dict.fromkeys(output_columns(key, kept, kind), pl.Float64())
    copied = kept if key is None else [key, *kept]
    schema |= {LINE: pl.Int64()} if key is None else {}
    schema |= {name: types.get(name, pl.String()) for name in copied}
    return schema | {"round": pl.Int64()} | kind.columns


def copied_columns(frame: pl.DataFrame, lines: NDArray[np.int64], key: str | None, kept: list[str]) -> pl.DataFrame:
    """Return what identifies rows, their key or their lines, and the columns to pass through."""
    if key is not None:
        return frame.select(exactly([key, *kept]))
    of_lines = pl.DataFrame({LINE: lines})
    return of_lines.hstack(frame.select(exactly(kept))) if kept else of_lines


def predictions_frame(
    copied: pl.DataFrame,
    rounds: NDArray[np.int64],
    scores: NDArray[np.float64],
    ratios: NDArray[np.float64],
    kind: LabelKind,
) -> pl.DataFrame:
    """Return the output rows: what identifies them and is copied, then what was found.

    Numbers are rounded to keep files small and readable.
    """
    columns = {"round": rounds, **kind.shown(scores), "ratio": np.round(ratios, _DECIMALS)}
    return copied.hstack(pl.DataFrame(columns))
