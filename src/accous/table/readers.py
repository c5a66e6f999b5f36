"""Readers and writers of people's tables: delimited text, JSON lines, Parquet, npy, embeddings."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import os
import select
import sys
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.table.options import TableOptions
from accous.text import count, did_you_mean, listed, require_choice

# --- Text and typed columns as numbers, categories or times; values that cannot be read are marked


MISSING_TEXTS = ("", "?", "na", "n/a", "#n/a", "nan", "null", "none", "<na>")
NO_DECIMAL_COMMAS = "decimal commas are not read"
_MISSING = list(MISSING_TEXTS)

# Methods of a series look up its name in a frame, where some names would be taken as patterns.
_ANY_NAME = "values"

_TEXT = pl.col(_ANY_NAME).str.strip_chars()
# Every method of a series is a query of its own, and in a small table the queries take most of the time. It takes a
# third of the time of this one to make it.
_TEXT_OR_NULL = pl.when(~_TEXT.str.to_lowercase().is_in(_MISSING)).then(_TEXT)

# Three numbers with something between them, or the compact form of ISO 8601: what every form of a date has.
LIKE_A_DATE = r"\d\D+\d+\D+\d|\d{8}T\d{6}"


def exactly(names: list[str]) -> Any:
    """Select columns by their exact names; elsewhere polars reads ``*`` or ``^a.*$`` as a pattern.

    Examples
    --------
    >>> pl.DataFrame({"a": [1], "*": [2]}).select(exactly(["*"])).columns
    ['*']
    """
    return cs.by_name(*names)


def is_usable(dtype: Any) -> bool:
    """Whether values of this polars type can be read as numbers, categories or times, and written as text.

    Examples
    --------
    >>> is_usable(pl.Float32()), is_usable(pl.Binary()), is_usable(pl.List(pl.String))
    (True, False, False)
    """
    return not dtype.is_nested() and dtype not in (pl.Binary, pl.Duration, pl.Object)


def to_numbers(column: pl.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers, NaN where they are missing, and which values are not finite numbers."""
    column = column.alias(_ANY_NAME)
    if column.dtype == pl.String:
        numbers = column.cast(pl.Float64, strict=False)
        if numbers.null_count() > column.null_count():
            numbers = numbers.fill_null(column.str.strip_chars().cast(pl.Float64, strict=False))
        values = _as_array(numbers)
        is_bad = np.isinf(values)
        if np.isnan(values).any():
            is_bad |= np.isnan(values) & to_texts(column).is_not_null().to_numpy()
        return values, is_bad
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        values = _as_array(column.cast(pl.Float64))
        return values, np.isinf(values)
    return to_numbers(column.cast(pl.String))


def to_texts(column: pl.Series) -> pl.Series:
    """Return text without surrounding blanks; null where it is missing."""
    column = column.alias(_ANY_NAME)
    texts = column if column.dtype == pl.String else column.cast(pl.String)
    return texts.to_frame().select(_TEXT_OR_NULL).to_series()


def to_times(column: pl.Series, form: str) -> tuple[pl.Series, NDArray[np.bool_]]:
    """Return times (null where they are missing), and which values do not have this form."""
    column = column.alias(_ANY_NAME)
    if column.dtype in (pl.Date, pl.Datetime):
        times = column.cast(pl.Datetime("us"))
        return times, np.zeros(len(column), dtype=bool)
    return texts_to_times(to_texts(column), form)


def count_times(texts: pl.Series, forms: tuple[str, ...]) -> dict[str, int]:
    """Return how many of the texts that `to_texts` has returned have each form.

    Examples
    --------
    >>> count_times(to_texts(pl.Series(["2024-05-31", "31.5.2024", "2024-06-01", "?"])), ("%Y-%m-%d", "%d.%m.%Y"))
    {'%Y-%m-%d': 2, '%d.%m.%Y': 1}
    """
    text = pl.col(_ANY_NAME)
    frame = texts.alias(_ANY_NAME).to_frame().filter(text.str.contains(LIKE_A_DATE))
    if frame.is_empty():
        return dict.fromkeys(forms, 0)
    counts = [text.str.to_datetime(form, strict=False, time_unit="us").count().alias(form) for form in forms]
    return frame.select(counts).row(0, named=True)


def texts_to_times(texts: pl.Series, form: str) -> tuple[pl.Series, NDArray[np.bool_]]:
    """Do as `to_times` for texts that `to_texts` has returned."""
    times = texts.str.to_datetime(form, strict=False, time_unit="us")
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is not None:
        times = times.dt.replace_time_zone(None)
    return times, (times.is_null() & texts.is_not_null()).to_numpy()


def _as_array(numbers: pl.Series) -> NDArray[np.float64]:
    return np.asarray(numbers.to_numpy(), dtype=np.float64)  # what is missing becomes NaN


# --- The pieces in which a table is read: rows, their positions, and the rows that cannot be read


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

    def bad_row(self, row: int, column: str, reason: str) -> BadRow:
        """Return a row as one that cannot be used."""
        text = self.row_bytes(row).decode("utf-8", "replace").rstrip("\r")
        return BadRow(int(self.ends[row]), int(self.lines[row]), column, reason, text)

    def part(self, rows: IntArray) -> Chunk:
        """Return some of the rows."""
        cut = {name: getattr(self, name)[rows] for name in ("frame", "lines", "ends", "next_lines")}
        return replace(self, **cut, row_bytes=lambda row: self.row_bytes(int(rows[row])))


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


class TableReader(ABC):
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
    unit = "row"
    columns: list[str]
    widths: dict[str, int]
    n_rows: int | None

    def read_as_numbers(self, names: list[str]) -> None:  # noqa: B027 - typed columns are numbers already
        """Allow reading columns directly as numbers, which is faster, if all values of a piece are numbers."""

    def read_if_simple(self, names: list[str]) -> None:  # noqa: B027 - most formats have no nested values
        """Read nested values of columns as missing; in other columns they make their rows bad."""

    @abstractmethod
    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rest of the table; None while there is nothing new yet."""

    @abstractmethod
    def share_read(self) -> float | None:
        """Share of the table read so far, where its size is known."""

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the types of columns that have one; text columns have none."""
        return {}

    def close(self) -> None:  # noqa: B027 - not every format keeps its file open
        """Close the file."""


# --- Cuts a text into records: lines, except for line ends inside quotes


_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
_LONGEST_RECORD = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Records:
    """Whole records of a text.

    Attributes
    ----------
    content : bytes
    starts, ends : array of shape (n_records,)
        Where each begins in ``content`` and where its line end stands.
    widths : array of shape (n_records,)
        Number of fields.
    lines, next_lines : array of shape (n_records,)
        The lines each begins and ends in, counted from 1.
    offset : int
        Where ``content`` begins in the whole text.
    """

    content: bytes
    starts: IntArray
    ends: IntArray
    widths: IntArray
    lines: IntArray
    next_lines: IntArray
    offset: int

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, number: int) -> bytes:
        """Return one record's bytes, without its line end."""
        return self.content[self.starts[number] : self.ends[number]]

    def text(self, number: int) -> str:
        """Return one record's text, for messages."""
        return self.raw(number).decode("utf-8", "replace").rstrip("\r")


class RecordCutter:
    """Collects pieces of a text and returns the complete records.

    Parameters
    ----------
    separator : str, optional
        Between fields; None for records that have none, in which quotes mean nothing.
    offset, line : int
        Where the text begins: bytes and lines before it.
    """

    def __init__(self, separator: str | None, offset: int = 0, line: int = 0) -> None:
        self._separator = None if separator is None else ord(separator)
        self.offset, self.line = offset, line
        self._rest = b""

    @property
    def is_stuck(self) -> bool:
        """Whether the current record is so long that a quote must have been left open."""
        return len(self._rest) > _LONGEST_RECORD

    @property
    def has_rest(self) -> bool:
        """Whether there is an incomplete record."""
        return bool(self._rest)

    def feed(self, piece: bytes) -> Records:
        """Take a piece and return the records it completes."""
        content = self._rest + piece
        data = np.frombuffer(content, dtype=np.uint8)
        is_newline = data == _NEWLINE
        newlines = np.flatnonzero(is_newline)
        is_outside = None
        if self._separator is not None and b'"' in content:
            is_outside = self._is_outside_quotes(data)
        ends = newlines if is_outside is None else np.flatnonzero(is_newline & is_outside)
        starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
        n_used = int(ends[-1]) + 1 if len(ends) else 0
        widths = self._widths(data[:n_used], None if is_outside is None else is_outside[:n_used], starts)
        lines = np.searchsorted(newlines, starts) + self.line + 1
        # A record ends in the line it begins in, unless there are line ends inside quotes.
        next_lines = lines if is_outside is None else np.searchsorted(newlines, ends) + self.line + 1
        records = Records(
            content=content[:n_used],
            starts=starts,
            ends=ends,
            widths=widths,
            lines=lines,
            next_lines=next_lines,
            offset=self.offset,
        )
        self._rest = content[n_used:]
        self.offset += n_used
        self.line += int(np.searchsorted(newlines, n_used))
        return records

    def drop_line(self) -> tuple[bytes, Records]:
        """Drop the line in which a quote was left open; return it, and the records after it."""
        line, _, rest = self._rest.partition(b"\n")
        self._rest = b""
        self.offset += len(line) + 1
        self.line += 1
        return line, self.feed(rest)

    def _is_outside_quotes(self, data: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Whether an even number of quotes precedes each character; doubled quotes inside a field cancel out."""
        is_quote = data == _QUOTE
        is_border = is_quote | (data == self._separator) | (data == _NEWLINE) | (data == _RETURN)
        is_after = np.concatenate(([True], is_border[:-1]))
        is_before = np.concatenate((is_border[1:], [True]))
        # A quote with other characters on both sides opens and closes nothing: 5"2.
        is_quote &= is_after | is_before
        # Parity survives the overflow of small integers.
        return (np.cumsum(is_quote, dtype=np.uint8) & 1) == 0

    def _widths(self, data: NDArray[np.uint8], is_outside: NDArray[np.bool_] | None, starts: IntArray) -> IntArray:
        if self._separator is None or not len(starts):
            return np.ones(len(starts), dtype=np.int64)
        is_separator = data == self._separator
        if is_outside is not None:
            is_separator &= is_outside
        # numpy is fastest with 16-bit sums.
        return np.add.reduceat(is_separator.view(np.uint8), starts, dtype=np.uint16).astype(np.int64) + 1


# --- Text as UTF-8 bytes, from a file, a pipe or a growing file; gzip, other encodings and byte order marks
#     removed


STDIN = "-"
_BLOCK = 1 << 22  # of thousands of columns, less is a few rows, and each piece costs a look at every column
_WAIT_SECONDS = 0.2
_UTF8_MARK = codecs.BOM_UTF8
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_GZIP_MARK = b"\x1f\x8b"
_ZIP_MARK = b"PK\x03\x04"


class TextSource:
    """A text read once from beginning to end.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard input.
    encoding : str, optional
        None: UTF-8, or UTF-16 where the text begins with its mark.
    is_growing : bool, optional
        Whether to wait for more at the end of the file.
    """

    def __init__(self, path: str, encoding: str | None = None, *, is_growing: bool = False) -> None:
        self.name = "standard input" if path == STDIN else path
        self._is_growing = is_growing
        self._descriptor = sys.stdin.fileno() if path == STDIN else _open(path)
        status = os.fstat(self._descriptor)
        self._is_file = S_ISREG(status.st_mode)
        self._size = status.st_size if self._is_file else None
        self._n_raw = 0
        self._head = self._read_head()
        self._inflate = zlib.decompressobj(wbits=31) if self._head.startswith(_GZIP_MARK) else None
        self._mark_length = len(_UTF8_MARK) if self._head.startswith(_UTF8_MARK) else 0
        self._is_at_start = True
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoding = _known_encoding(encoding)
        self._lines_decoded = 0
        self._has_ended = False

    def close(self) -> None:
        """Close the file; the standard input stays open."""
        if self.name != "standard input":
            os.close(self._descriptor)

    def share_read(self) -> float | None:
        """Share of the bytes read so far; None for a pipe or a file that grows."""
        return self._n_raw / self._size if self._size and not self._is_growing else None

    def read(self) -> bytes | None:
        """Return the next piece, empty at the end; None if there is nothing yet."""
        while not self._has_ended:
            raw = self._read_raw()
            if raw is None:
                return None
            content = self._decode(raw)
            if content:
                return content
        return b""

    def wait(self) -> bytes:
        """Return the next piece when there is one, empty at the end."""
        while (piece := self.read()) is None:
            pass
        return piece

    def go_to(self, end: int, n_tail: int, read_so_far: bytes) -> tuple[bytes, bytes]:
        """Go to a place in the text.

        Parameters
        ----------
        end : int
            Number of bytes before the place.
        n_tail : int
            How many of those to return.
        read_so_far : bytes
            Everything that `read` has returned so far.

        Returns
        -------
        tail, rest : bytes
            The bytes right before the place, fewer if the text is shorter; and the bytes already read beyond it.
        """
        if self._can_seek():
            start = self._mark_length + end - n_tail
            os.lseek(self._descriptor, start, os.SEEK_SET)
            tail = b""
            while len(tail) < n_tail and (piece := os.read(self._descriptor, n_tail - len(tail))):
                tail += piece
            self._n_raw = start + len(tail)
            return tail, b""
        tail, content, n_left = b"", read_so_far, end
        while True:
            tail = (tail + content[:n_left])[-n_tail:] if n_tail else b""
            if n_left <= len(content):
                return tail, content[n_left:]
            n_left -= len(content)
            content = self.wait()
            if not content:
                return b"", b""

    def _can_seek(self) -> bool:
        return self._is_file and self._inflate is None and self._encoding is None

    def _read_head(self) -> bytes:
        head = b""
        while len(head) < 4:
            piece = os.read(self._descriptor, _BLOCK)
            head += piece
            if not piece and not (self._is_growing and self._is_file and not head):
                break
            if not piece:
                time.sleep(_WAIT_SECONDS)
        if head.startswith(_ZIP_MARK):
            raise DataError(f"{self.name} is a zip archive or an Excel file: export the table as CSV.")
        return head

    def _read_raw(self) -> bytes | None:
        """Return the next bytes as they are, empty at the end; None where there is nothing yet."""
        if self._head:
            raw, self._head = self._head, b""
        elif self._is_file:
            raw = os.read(self._descriptor, _BLOCK)
            if not raw and self._is_growing:
                self._require_not_cut()
                time.sleep(_WAIT_SECONDS)
                return None
        else:
            if sys.platform != "win32" and not select.select([self._descriptor], [], [], _WAIT_SECONDS)[0]:
                return None
            raw = os.read(self._descriptor, _BLOCK)
        self._n_raw += len(raw)
        return raw

    def _require_not_cut(self) -> None:
        if os.fstat(self._descriptor).st_size < self._n_raw:
            raise DataError(f"{self.name} became shorter while it was followed: --follow needs a file that only grows.")

    def _decode(self, raw: bytes) -> bytes:
        is_last = not raw
        self._has_ended = is_last
        if self._inflate is not None:
            raw = self._unzip(raw)
        if not raw and not is_last:
            return b""
        if self._is_at_start:
            self._is_at_start = False
            raw = self._take_mark(raw)
        if self._encoding is None:
            return raw
        try:
            if self._decoder is None:
                self._decoder = codecs.getincrementaldecoder(self._encoding)()
            text = self._decoder.decode(raw, is_last)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name}, about line {self._lines_decoded + 1}: the text is not {self._encoding} "
                f"({error.reason}); name its encoding with --encoding."
            ) from None
        self._lines_decoded += text.count("\n")
        return text.encode()

    def _take_mark(self, raw: bytes) -> bytes:
        if raw.startswith(_UTF8_MARK):
            return raw[len(_UTF8_MARK) :]
        if self._encoding is None and raw.startswith(_UTF16_MARKS):
            self._encoding = "utf-16"
        return raw

    def _unzip(self, raw: bytes) -> bytes:
        assert self._inflate is not None
        parts = []
        try:
            if not raw and not self._inflate.eof:
                raise DataError(f"{self.name} is truncated: its gzip data end too early.")
            while raw:
                if self._inflate.eof:  # several archives in a row are one text
                    self._inflate = zlib.decompressobj(wbits=31)
                parts.append(self._inflate.decompress(raw))
                raw = self._inflate.unused_data
        except zlib.error as error:
            raise DataError(f"{self.name} is damaged: its gzip data cannot be read ({error}).") from None
        return b"".join(parts)


def _open(path: str) -> int:
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder: give a file.")
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def _known_encoding(encoding: str | None) -> str | None:
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise ParameterError(
            f"--encoding {encoding!r} is unknown: use a name such as utf-8, latin-1 or cp1252."
        ) from None
    return None if name in ("utf-8", "utf-8-sig", "ascii") else name


# --- The base class of text tables: records, resuming at a position, rows that cannot be decoded


class TextTable(TableReader):
    """A table with one record per line.

    Parameters
    ----------
    source : TextSource
    """

    unit = "line"
    n_rows: int | None = None
    _separator: str | None = None

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self.name = source.name
        self.widths: dict[str, int] = {}
        self._read_so_far = self._read_first_record()

    @abstractmethod
    def _take_first_record(self, record: str) -> None:
        """Learn the columns from the first record that is not blank."""

    @abstractmethod
    def _is_first_data(self) -> bool:
        """Whether the first record is a row rather than a header."""

    @abstractmethod
    def _parse(self, records: Records, rows: NDArray[np.int64], wanted: list[str]) -> tuple[pl.DataFrame, list[BadRow]]:
        """Read these records; bad ones are left out of the frame and returned separately."""

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def share_read(self) -> float | None:
        """Share of the bytes read so far."""
        return self._source.share_read()

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rest of the table; None while there is nothing new yet."""
        cutter, content = self._begin(start)
        has_ended = False
        while not has_ended:
            if content is None:
                yield None
            else:
                has_ended = not content
                yield from self._cut(cutter, content, wanted)
            if not has_ended:
                content = self._source.read()

    def _begin(self, start: Position) -> tuple[RecordCutter, bytes | None]:
        if start.end <= 0:
            return self._after_header()
        # Stop before the line end, which the last row may not have had yet.
        tail, rest = self._source.go_to(start.end - 1, start.tail_length, self._read_so_far)
        content = rest or self._source.read()
        if digest_of(tail) != start.tail_digest or not (content or b"\n").startswith(b"\n"):
            raise DataError(
                f"{self.name} is not the table that was read before: the text before line {start.line + 1} has "
                "changed; restore it, or start a new run with --new."
            )
        return RecordCutter(self._separator, start.end - 1, start.line - 1), content

    def _after_header(self) -> tuple[RecordCutter, bytes | None]:
        content, offset, line = self._read_so_far, 0, 0
        if not self._is_first_data():
            offset, line = self._header_end
            content = content[offset:]
        cutter = RecordCutter(self._separator, offset, line)
        return cutter, content or self._source.read()

    _header_end: tuple[int, int] = (0, 0)

    def _read_first_record(self) -> bytes:
        """Read up to the end of the first record that is not blank."""
        content = b""
        while True:
            piece = self._source.wait()
            content += piece
            records = RecordCutter(None).feed(content if piece else content + b"\n")
            for number in range(len(records)):
                if records.raw(number).strip():
                    self._header_end = int(records.ends[number]) + 1, int(records.lines[number])
                    self._take_first_record(self._decode_header(records.raw(number)))
                    return content
            if not piece:
                raise DataError(f"{self.name} is empty.")

    def _decode_header(self, raw: bytes) -> str:
        try:
            return raw.decode().rstrip("\r")
        except UnicodeDecodeError:
            raise DataError(
                f"{self.name}, line 1: the text is not UTF-8; name its encoding with --encoding, for example latin-1."
            ) from None

    def _cut(self, cutter: RecordCutter, content: bytes, wanted: list[str]) -> Iterator[Chunk]:
        is_last = not content
        records = cutter.feed(content if not is_last or not cutter.has_rest else b"\n")
        while True:
            if len(records):
                yield self._read_records(records, wanted)
            if not (cutter.is_stuck or (is_last and cutter.has_rest)):
                return
            line, end = cutter.line + 1, cutter.offset
            text, records = cutter.drop_line()
            yield self._only_bad(text, line, end + len(text) + 1, wanted)

    def _only_bad(self, text: bytes, line: int, end: int, wanted: list[str]) -> Chunk:
        none = np.empty(0, dtype=np.int64)
        bad = BadRow(end, line, "", "a quote is opened and not closed", text.decode("utf-8", "replace"))
        frame = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        return Chunk(frame=frame, lines=none, ends=none, next_lines=none, bad_rows=[bad])

    def _read_records(self, records: Records, wanted: list[str]) -> Chunk:
        is_good = np.ones(len(records), dtype=bool)
        bad_rows = self._undecodable(records)
        # A line with only a line end, of one or two characters, is not a row.
        lengths = records.ends - records.starts
        for number in np.flatnonzero(lengths <= 1):
            is_good[number] = bool(records.raw(int(number)).strip())
        for bad in bad_rows:
            is_good[np.searchsorted(records.ends, bad.end - records.offset - 1)] = False
        rows = np.flatnonzero(is_good)
        frame, unread = self._parse(records, rows, wanted)
        if unread:
            rows = np.setdiff1d(rows, np.searchsorted(records.ends, [bad.end - records.offset - 1 for bad in unread]))
        bad_rows = sorted(bad_rows + unread, key=lambda bad: bad.end)
        ends = records.ends[rows] + 1 + records.offset
        return Chunk(
            frame=frame,
            lines=records.lines[rows],
            ends=ends,
            next_lines=records.next_lines[rows],
            bad_rows=bad_rows,
            row_bytes=lambda row: records.raw(rows[row]),
        )

    def _undecodable(self, records: Records) -> list[BadRow]:
        if _is_utf8(records.content):
            return []
        return [
            self._bad(records, number, "", "the text is not UTF-8 (name its encoding with --encoding)")
            for number in range(len(records))
            if not _is_utf8(records.raw(number))
        ]

    @staticmethod
    def _bad(records: Records, number: int, column: str, reason: str) -> BadRow:
        end = int(records.ends[number]) + 1 + records.offset
        return BadRow(end, int(records.lines[number]), column, reason, records.text(number))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- CSV and similar formats: a header, then one record per line


_SEPARATORS = (",", ";", "\t", "|")


class DelimitedTable(TextTable):
    """A table with a header and separators between fields.

    Parameters
    ----------
    source : TextSource
    separator : str, optional
        None: the one of comma, semicolon, tab and bar that is most frequent in the header.
    """

    def __init__(self, source: TextSource, separator: str | None = None) -> None:
        self._separator = separator
        self._numbers: frozenset[str] = frozenset()
        super().__init__(source)

    def _is_first_data(self) -> bool:
        return False

    def _take_first_record(self, record: str) -> None:
        if self._separator is None:
            self._separator = max(_SEPARATORS, key=record.count)
        names = [name.strip() for name in self._header_fields(record)]
        self.columns = [name or f"column_{number}" for number, name in enumerate(names, 1)]
        repeated = [name for name, count in Counter(self.columns).items() if count > 1]
        if repeated:
            raise DataError(f"{self.name}, line 1: two columns are called {repeated[0]!r}; rename one.")

    def _header_fields(self, record: str) -> list[str]:
        try:
            return next(csv.reader([record], delimiter=self._separator or ","))
        except csv.Error:
            what = (
                "has a carriage return in it; save the file with the line ends of Unix or Windows"
                if "\r" in record
                else "cannot be read as a list of column names; repair it"
            )
            raise DataError(f"{self.name}, line 1: the header {what}.") from None

    def _parse(self, records: Records, rows: NDArray[np.int64], wanted: list[str]) -> tuple[pl.DataFrame, list[BadRow]]:
        n_columns = len(self.columns)
        is_whole = records.widths[rows] == n_columns
        bad_rows = [self._wrong_width(records, int(row), int(records.widths[row])) for row in rows[~is_whole]]
        good = rows[is_whole]
        if not len(good) or not wanted:
            return _texts({name: [None] * len(good) for name in wanted}), bad_rows
        content = records.content if len(good) == len(records) else b"\n".join(records.raw(row) for row in good)
        frame = self._read_at_once(content, wanted)
        if frame is not None and frame.height == len(good):
            return frame, bad_rows
        frame, unread = self._read_one_by_one(records, good, wanted)
        return frame, bad_rows + unread

    def read_as_numbers(self, names: list[str]) -> None:
        """Read these columns as numbers in every piece where all values are numbers."""
        self._numbers = frozenset(names)

    def _read_at_once(self, content: bytes, wanted: list[str]) -> pl.DataFrame | None:
        # Both ways of reading a number round it in the same way, so it does not matter which one a piece takes.
        for numbers in dict.fromkeys((self._numbers, frozenset[str]())):
            schema = {name: pl.Float64 if name in numbers else pl.String for name in self.columns}
            table = pl.scan_csv(
                content, has_header=False, schema=schema, separator=self._separator or ",", raise_if_empty=False
            )
            try:
                # The streaming engine is made for many cores and large files; it takes four times as long for a piece.
                return table.select(exactly(wanted)).collect(engine="in-memory")
            except pl.exceptions.PolarsError:
                continue
        return None

    def _read_one_by_one(
        self, records: Records, rows: NDArray[np.int64], wanted: list[str]
    ) -> tuple[pl.DataFrame, list[BadRow]]:
        """Read records with misplaced quotes."""
        fields, bad_rows = [], []
        for row in rows.tolist():
            try:
                text = io.StringIO(records.text(row), newline="")
                record = next(csv.reader(text, delimiter=self._separator or ","), [])
            except csv.Error:
                bad_rows.append(self._bad(records, row, "", "misplaced quotes"))
                continue
            if len(record) == len(self.columns):
                fields.append(record)
            else:
                bad_rows.append(self._wrong_width(records, row, len(record)))
        columns = zip(*fields, strict=True) if fields else [()] * len(self.columns)
        by_name = dict(zip(self.columns, map(list, columns), strict=True))
        return _texts({name: by_name[name] for name in wanted}), bad_rows

    def _wrong_width(self, records: Records, row: int, width: int) -> BadRow:
        fields = count(width, "field")
        return self._bad(records, row, "", f"the row has {fields}, but the header has {len(self.columns)}")


def _texts(columns: dict[str, list[str | None]]) -> pl.DataFrame:
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


# --- JSON lines: one object per line


class JsonLinesTable(TextTable):
    """A table of objects; the first one defines the columns, and fields that a later one lacks are missing values."""

    _simple: frozenset[str] = frozenset()

    def read_if_simple(self, names: list[str]) -> None:
        """Read lists and objects in these columns as missing values."""
        self._simple = frozenset(names)

    def _is_first_data(self) -> bool:
        return True

    def _take_first_record(self, record: str) -> None:
        try:
            first = _parse_json(record)
        except ValueError as error:
            raise DataError(f"{self.name}, line 1: not valid JSON ({error}).") from None
        if not isinstance(first, dict):
            raise DataError(f'{self.name}, line 1: every line must be a JSON object, such as {{"age": 42}}.')
        self.columns = list(first)

    def _parse(self, records: Records, rows: NDArray[np.int64], wanted: list[str]) -> tuple[pl.DataFrame, list[BadRow]]:
        columns: dict[str, list[str | None]] = {name: [] for name in wanted}
        bad_rows = []
        for row in rows.tolist():
            try:
                record = _parse_json(records.raw(row).decode())
            except ValueError as error:
                bad_rows.append(self._bad(records, row, "", f"not valid JSON ({error})"))
                continue
            if not isinstance(record, dict):
                bad_rows.append(self._bad(records, row, "", "not a JSON object"))
                continue
            for name in self._simple:
                if isinstance(record.get(name), (dict, list)):
                    del record[name]
            nested = next((name for name in wanted if isinstance(record.get(name), (dict, list))), None)
            if nested is not None:
                bad_rows.append(self._bad(records, row, nested, "a list or an object where a single value is expected"))
                continue
            for name, values in columns.items():
                values.append(plain_text(record.get(name)))
        return _texts(columns), bad_rows


def _parse_json(text: str) -> Any:
    """Parse JSON with numbers as text; raise a ValueError with the reason if it cannot be used."""
    try:
        record = json.loads(text, parse_float=str, parse_int=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\u" in text and not _is_unicode(record):
        raise ValueError("it has half of a surrogate pair, such as \\ud800")
    return record


def _is_unicode(record: Any) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_text(value: Any) -> str | None:
    """Return a value of JSON as the text that it has in a file."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)  # true, false, NaN, Infinity


# --- Embeddings in a table: a column whose values are rows of numbers, spread into one column for each number


EMBEDDING = "embedding"  # what the rows of an array are called, which has no names


@dataclass(frozen=True)
class BadValue:
    """The first value of a row that cannot be used."""

    row: int
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
    inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else None
    return inner is not None and bool(inner.is_numeric() or inner == pl.Boolean)


def faults_of(values: NDArray[np.float64], name: str) -> dict[int, BadValue]:
    """Name the first number in each row that is NaN or infinite: an embedding has no missing values to fill in."""
    is_finite = np.isfinite(values)
    rows = np.flatnonzero(~is_finite.all(axis=1))
    columns = is_finite[rows].argmin(axis=1)
    return {
        row: BadValue(row, f"{name}_{column}", f"{values[row, column]} is not a finite number")
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    }


def read_vectors(column: pl.Series, width: int) -> tuple[NDArray[np.float64], dict[int, BadValue]]:
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
        reason = "the embedding is missing" if length is None else f"{count(length, 'number')} instead of {width}"
        faults[row] = BadValue(row, name, reason)
    return values, faults


def spread_vectors(frame: pl.DataFrame, widths: Mapping[str, int]) -> tuple[pl.DataFrame, dict[int, BadValue]]:
    """Spread the embeddings of a frame, by their names and widths; return what is wrong with some rows too.

    A frame that has the spread columns instead, or no such column, is returned as it is.
    """
    faults: dict[int, BadValue] = {}
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
                f"{table} holds embeddings of {count(width, 'number')} ({name!r}), but the model was fitted with "
                f"{fitted[name]}: embed both with the same network, or fit again."
            )


# --- What tables without lines share: their rows have numbers, counted from 1


_MOST_ROWS, _MOST_VALUES = 1 << 16, 1 << 22


class NumberedTable(TableReader):
    """A finished file whose rows have numbers."""

    n_rows: int
    _n_read = 0

    def share_read(self) -> float | None:
        """Share of the rows read so far."""
        return self._n_read / self.n_rows if self.n_rows else None

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rows from a position on."""
        if start.end > self.n_rows:
            raise DataError(
                f"{self.name} is not the table that was read before: it has {self.n_rows} rows, but {start.end} were "
                "read; restore it, or start a new run with --new."
            )
        self._require_same_row(start)
        # Fewer rows at once if they are wide, to bound the memory.
        size = max(1, min(_MOST_ROWS, _MOST_VALUES // max(1, self._width(wanted))))
        for first in range(start.end, self.n_rows, size):
            self._n_read = min(first + size, self.n_rows)
            yield self._read(first, size, wanted)

    def _require_same_row(self, start: Position) -> None:
        """Raise a DataError if the last row that was read has changed."""

    @abstractmethod
    def _width(self, wanted: list[str]) -> int:
        """How many numbers a row has."""

    @abstractmethod
    def _read(self, first: int, size: int, wanted: list[str]) -> Chunk:
        """Return at most so many rows."""


def _piece(
    frame: pl.DataFrame, first: int, faults: dict[int, BadValue], row_bytes: Callable[[int], bytes] = lambda _: b""
) -> Chunk:
    """Return the good rows of a frame that begins after so many rows, and what is wrong with the others."""
    ends = np.arange(first + 1, first + frame.height + 1)
    piece = Chunk(frame=frame, lines=ends, ends=ends, next_lines=ends, row_bytes=row_bytes)
    if not faults:
        return piece
    bad_rows = [piece.bad_row(row, fault.column, fault.reason) for row, fault in sorted(faults.items())]
    good = np.setdiff1d(np.arange(frame.height), list(faults))
    return replace(piece.part(good), bad_rows=bad_rows)


# --- Arrays that numpy has saved: the file is mapped into memory and read piece by piece, and nothing is
#     unpickled


class NpyTable(NumberedTable):
    """A 2-D array of numbers, one embedding a row.

    Parameters
    ----------
    path : str
    vector : str, optional
        What the embedding is called; its columns are ``embedding_0``, ``embedding_1`` and so on.
    """

    def __init__(self, path: str, vector: str = EMBEDDING) -> None:
        self.name = path
        self._array = open_array(path)
        _require_rows_of_numbers(self._array, path)
        self.n_rows = len(self._array)
        self._vector = vector
        self.widths = {vector: self._array.shape[1]}
        self.columns = spread_names(vector, self._array.shape[1])

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars type of all columns."""
        return dict.fromkeys(wanted, pl.Float64())

    def _width(self, wanted: list[str]) -> int:
        return len(self.columns)

    def _read(self, first: int, size: int, wanted: list[str]) -> Chunk:
        """Return rows; those with NaN or infinity are bad."""
        with np.errstate(invalid="ignore"):  # a NaN that signals, in a few bytes
            values = np.array(self._array[first : first + size], dtype=np.float64, order="C")
        frame = pl.DataFrame(values, schema=self.columns, orient="row")
        piece = _piece(frame, first, faults_of(values, self._vector), lambda row: _text(values[row]).encode())
        return replace(piece, frame=piece.frame.select(exactly(wanted)))

    def _require_same_row(self, start: Position) -> None:
        if start.tail_digest and start.tail_digest != digest_of(_text(self._array[start.end - 1]).encode()):
            raise DataError(
                f"{self.name} is not the table that was read before: its row {start.end} has changed; restore it, or "
                "start a new run with --new."
            )


def open_array(path: str) -> NDArray[Any]:
    """Map an .npy file into memory, for reading."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # numpy's reader of headers raises whatever it stumbles over
        if "Python objects" in str(error):
            raise DataError(
                f"{path} holds Python objects, which can only be unpickled and may run any code: save plain numbers or "
                "texts, for example numpy.save(path, array.astype('float32')) or array.astype(str)."
            ) from None
        raise DataError(f"{path} is not a readable .npy file ({error}).") from None


def _require_rows_of_numbers(array: NDArray[Any], path: str) -> None:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{path} holds values of type {array.dtype}: embeddings are floats or whole numbers.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"{path} holds an array of shape {array.shape}: a 2-D array is needed, one row for each embedding; reshape "
            "it with array.reshape(len(array), -1)."
        )


def _text(row: NDArray[Any]) -> str:
    return " ".join(map(repr, np.asarray(row, dtype=np.float64).tolist()))


# --- Panics of polars as errors: a damaged file can make its Rust code panic, which prints a backtrace


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


# --- Parquet: typed columns, rows by their number, lists of numbers spread into columns


_ROWS_LOOKED_AT, _SHARE_OF_WIDTH = 1000, 0.9


class ParquetTable(NumberedTable):
    """A Parquet file.

    Parameters
    ----------
    path : str
    expected : dict of str to int, optional
        How long the lists of some columns are; others are as long as nine in ten of their first thousand rows, or are
        no embeddings.
    """

    def __init__(self, path: str, expected: Mapping[str, int] | None = None) -> None:
        self.name = path
        try:
            with panics_as_errors():
                self._schema = pl.read_parquet_schema(path)
                self.n_rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
                self.widths = self._find_widths(expected or {})
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error}.") from None
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path} is not a readable Parquet file ({error}).") from None
        self._source_of = self._find_sources()
        self.columns = list(self._source_of)

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars types of these columns."""
        sources = {name: self._source_of[name] for name in wanted}
        return {
            name: pl.Float64() if source in self.widths else self._schema[source] for name, source in sources.items()
        }

    def _sources(self, wanted: list[str]) -> list[str]:
        return list(dict.fromkeys(self._source_of[name] for name in wanted))

    def _width(self, wanted: list[str]) -> int:
        return sum(self.widths.get(name, 1) for name in self._sources(wanted))

    def _read(self, first: int, size: int, wanted: list[str]) -> Chunk:
        try:
            with panics_as_errors():
                rows = pl.scan_parquet(self.name).slice(first, size)
                frame = rows.select(exactly(self._sources(wanted))).collect()
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{self.name}, about row {first + 1}: the file is damaged ({error}).") from None
        spread, faults = spread_vectors(frame, self.widths)
        return _piece(spread.select(exactly(wanted)), first, faults)

    def _find_sources(self) -> dict[str, str]:
        """Map each column of the table to the column of the file that it comes from."""
        spread = {column: name for name, width in self.widths.items() for column in spread_names(name, width)}
        for name in self._schema:
            if name not in self.widths and name in spread:
                raise DataError(
                    f"{self.name}: the lists in {spread[name]!r} need the column name {name!r}; rename one."
                )
        return {
            column: name
            for name in self._schema
            for column in (spread_names(name, self.widths[name]) if name in self.widths else [name])
        }

    def _find_widths(self, expected: Mapping[str, int]) -> dict[str, int]:
        vectors = [name for name, dtype in self._schema.items() if is_vector(dtype)]
        widths = {name: self._find_width(name) or expected.get(name, 0) for name in vectors}
        return {name: width for name, width in widths.items() if width}

    def _find_width(self, name: str) -> int:
        """Return the length of the lists in a column; 0 if they have several lengths."""
        dtype = self._schema[name]
        if isinstance(dtype, pl.Array):
            return dtype.size
        head = pl.scan_parquet(self.name).select(exactly([name])).head(_ROWS_LOOKED_AT).collect()[name].alias("values")
        lengths = Counter(head.drop_nulls().list.len().to_list())
        width, count = lengths.most_common(1)[0] if lengths else (0, 0)
        return width if count >= _SHARE_OF_WIDTH * lengths.total() else 0


# --- Opens a table in the format that its file name suggests


_SPREADSHEETS = (".xlsx", ".xls", ".ods")


@dataclass(frozen=True)
class AskedFormat:
    """What a caller of `open_table` asked for; the attributes are its parameters."""

    path: str
    encoding: str | None = None
    separator: str | None = None
    is_growing: bool = False
    widths: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Format:
    """How a format is recognised and opened.

    Attributes
    ----------
    endings : tuple of str
        What the names of its files end in.
    open : callable
        Takes an `AskedFormat` and returns a `TableReader`.
    whole_files : str
        What sentences call it, if it can only be read from a finished file; empty if it is text that may be piped.
    """

    endings: tuple[str, ...]
    open: Callable[[AskedFormat], TableReader]
    whole_files: str = ""


def _open_npy(asked: AskedFormat) -> NpyTable:
    # An array has no column names: if the model knows exactly one embedding, the array is that one.
    return NpyTable(asked.path, next(iter(asked.widths)) if asked.widths and len(asked.widths) == 1 else EMBEDDING)


def _open_text(asked: AskedFormat, make: Callable[[TextSource], TableReader]) -> TableReader:
    source = TextSource(asked.path, asked.encoding, is_growing=asked.is_growing)
    try:
        return make(source)
    except BaseException:
        source.close()
        raise


FORMATS: dict[str, Format] = {
    "csv": Format(
        (".csv", ".txt"), lambda asked: _open_text(asked, lambda source: DelimitedTable(source, asked.separator))
    ),
    "tsv": Format((".tsv", ".tab"), lambda asked: _open_text(asked, lambda source: DelimitedTable(source, "\t"))),
    "jsonl": Format((".jsonl", ".ndjson", ".json"), lambda asked: _open_text(asked, JsonLinesTable)),
    "parquet": Format((".parquet", ".pq"), lambda asked: ParquetTable(asked.path, asked.widths), "Parquet"),
    "npy": Format((".npy",), _open_npy, "An .npy array"),
}
"""The formats by the names that ``--format`` takes."""


def format_of(path: str, option: str) -> str:
    """Return the format that a file's name suggests; the error for an unclear name mentions ``option``.

    Examples
    --------
    >>> format_of("rows.tsv.gz", "--format")
    'tsv'
    """
    if path == STDIN:
        return "csv"
    suffix = _ending(path)
    if suffix == ".npz":
        raise ParameterError(f"{path} is an archive of arrays: save the array you need with numpy.save, as .npy.")
    if suffix in _SPREADSHEETS:
        raise ParameterError(f"{path} is a spreadsheet, which accous does not read: save it as CSV.")
    known = _format_of_ending()
    if suffix not in known:
        *first, last = (each.endings[0] for each in FORMATS.values())
        raise ParameterError(
            f"The name {path!r} does not tell the file format: use a name that ends in {', '.join(first)} or {last}, "
            f"or give {option}."
        )
    return known[suffix]


def written_format_of(path: str) -> str:
    """Return the format in which to write a table, by the name of its file.

    Examples
    --------
    >>> written_format_of("predictions.parquet")
    'parquet'
    """
    suffix = _ending(path)
    found = _format_of_ending().get(suffix)
    if found is None or found == "npy":
        what = f"as {suffix}" if suffix else "to a name without an ending"
        raise ParameterError(
            f"Predictions cannot be written {what} ({path}): use a name that ends in .csv, .tsv, .jsonl or .parquet."
        )
    return found


def has_known_ending(path: str) -> bool:
    """Whether a name says what is in the file.

    Examples
    --------
    >>> has_known_ending("labels.npy"), has_known_ending("churned")
    (True, False)
    """
    return _ending(path) in _format_of_ending()


def _format_of_ending() -> dict[str, str]:
    return {ending: name for name, each in FORMATS.items() for ending in each.endings}


def _ending(path: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix != ".gz"), "")


def open_table(
    path: str,
    table_format: str | None = None,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    is_growing: bool = False,
    widths: Mapping[str, int] | None = None,
) -> TableReader:
    """Open a table for one reading from beginning to end.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard input.
    table_format : str, optional
        A name in `FORMATS`. None: by the file's name.
    encoding : str, optional
        Of a text. None: UTF-8, or UTF-16 with its mark.
    separator : str, optional
        Between the fields of a CSV. None: as the header has it.
    is_growing : bool, optional
        Whether to wait for more at the end.
    widths : dict of str to int, optional
        How long the embeddings are that a model was fitted with, by their names.
    """
    name = format_of(path, "--format") if table_format is None else table_format
    chosen = FORMATS[require_choice("--format", name, tuple(FORMATS))]
    if chosen.whole_files and (path == STDIN or is_growing):
        raise ParameterError(f"{chosen.whole_files} must be a finished file: neither standard input nor --follow.")
    return chosen.open(AskedFormat(path, encoding, separator, is_growing, widths))


def open_as_asked(
    path: str, options: TableOptions, *, is_growing: bool = False, widths: Mapping[str, int] | None = None
) -> TableReader:
    """Open a table as the options of a command say."""
    given = {"encoding": options.encoding, "separator": options.separator}
    return open_table(path, options.format, **given, is_growing=is_growing, widths=widths)


# --- Labels in a separate file: its first row belongs to the first row of the table, and so on


LABEL = "label"  # what labels are called that come without a name


class LabelledTable(TableReader):
    """A table of numbered rows with one more column.

    Parameters
    ----------
    table : TableReader
        Whose rows are counted.
    labels : polars.Series
        As many; also an attribute.
    """

    def __init__(self, table: TableReader, labels: pl.Series) -> None:
        self._table, self.labels = table, labels
        self.name, self.unit = table.name, table.unit
        self.widths, self.n_rows = table.widths, table.n_rows
        self.columns = [*table.columns, labels.name]

    def share_read(self) -> float | None:
        """Share of the table read so far."""
        return self._table.share_read()

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars types of these columns."""
        own = {self.labels.name: self.labels.dtype} if self.labels.name in wanted else {}
        return self._table.column_types([name for name in wanted if name not in own]) | own

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rest of the table, with the labels."""
        has_label = self.labels.name in wanted
        for chunk in self._table.chunks([name for name in wanted if name != self.labels.name], start):
            if chunk is None or not has_label:
                yield chunk
                continue
            frame = chunk.frame.with_columns(self.labels[chunk.lines - 1]).select(exactly(wanted))
            yield replace(chunk, frame=frame)


def with_labels(table: TableReader, label: str) -> tuple[TableReader, str]:
    """Return a table that has the labels, and the name of their column.

    Parameters
    ----------
    table : TableReader
    label : str
        A column of it, an .npy file of labels, or another table's only column, or one of its columns as
        ``FILE:COLUMN``.
    """
    if label in table.columns:
        return table, label
    place = place_of_labels(label)
    if place is None:
        if list(table.widths) and table.n_rows is not None and len(table.columns) == sum(table.widths.values()):
            raise ParameterError(
                f"{table.name} has embeddings and no column {label!r}: give the file of its labels, such as "
                "--label labels.npy or --label labels.csv:COLUMN."
            )
        return table, label  # whoever reads the column will miss it
    if table.n_rows is None:
        raise ParameterError(
            f"--label {label} names a file, but {table.name} is a text file, whose labels are one of its columns: add "
            f"the column. To score predictions with a file of labels, run accous adapt without --label, then accous "
            f"labels MODEL {place[0]}. Files of labels work as --label for .npy and Parquet."
        )
    labels = _read_labels(*place)
    if len(labels) != table.n_rows:
        raise ParameterError(
            f"{place[0]} has {count(len(labels), 'label')} for the {count(table.n_rows, 'row')} of {table.name}: there "
            "must be one label per row, in the same order."
        )
    if labels.name in table.columns:
        raise ParameterError(f"{table.name} already has a column {labels.name!r}: rename the one in {place[0]}.")
    return LabelledTable(table, labels), labels.name


def place_of_labels(label: str) -> tuple[str, str] | None:
    """Return the file and column of labels; None if ``label`` names no file.

    Examples
    --------
    >>> place_of_labels("labels.csv:species"), place_of_labels("species")
    (('labels.csv', 'species'), None)
    """
    if has_known_ending(label):
        return label, ""
    path, _, column = label.rpartition(":")
    return (path, column) if column and has_known_ending(path) else None


def _read_labels(path: str, column: str) -> pl.Series:
    if path.lower().endswith(".npy"):
        return read_label_array(path, column)
    pieces = []
    with closing(open_table(path)) as table:
        if not column and len(table.columns) != 1:
            raise ParameterError(f"{path} has {len(table.columns)} columns: name one, --label {path}:COLUMN.")
        column = column or table.columns[0]
        if column not in table.columns:
            raise no_such_column(table, column)
        for chunk in table.chunks([column], Position()):
            if chunk is not None and chunk.bad_rows:
                bad = chunk.bad_rows[0]
                raise DataError(f"{table.name}, {table.unit} {bad.line}: {bad.reason}.")
            if chunk is not None:
                pieces.append(chunk.frame[column])
    return pl.concat(pieces) if pieces else pl.Series(column, [], dtype=pl.String)


def read_label_array(path: str, column: str = "") -> pl.Series:
    """Read labels from a 1-D .npy array; such an array has no columns to name."""
    array = open_array(path)
    if array.ndim != 1 or column:
        raise ParameterError(f"{path} holds an array of shape {array.shape}: labels are a 1-D array without columns.")
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{path} holds texts that are not UTF-8: save labels.astype(str).") from None
    if array.dtype.kind == "f":
        return _numbers_or_codes(np.asarray(array, dtype=np.float64))
    if array.dtype.kind not in "biuU":
        raise DataError(f"{path} holds values of type {array.dtype}: labels are numbers or texts.")
    return pl.Series(LABEL, array.tolist(), dtype=pl.String) if array.dtype.kind == "U" else pl.Series(LABEL, array)


def _numbers_or_codes(values: np.ndarray[Any, np.dtype[np.float64]]) -> pl.Series:
    """Read floats: whole numbers may be classes and are written without a point; NaN is a missing label."""
    is_there = ~np.isnan(values)
    known = np.where(is_there, values, 0.0)
    is_whole = bool((np.abs(known) <= 1e15).all()) and bool((known % 1.0 == 0.0).all())
    return pl.Series(LABEL, known.astype(np.int64) if is_whole else known).set(pl.Series(~is_there), None)


# --- Output files that can be truncated to a saved position, which is part of what a run saves


class RowsOutput:
    """A text file with one row per line, written from a position on.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard output, which cannot be cut back.
    text_format : {"csv", "tsv", "jsonl"}
    n_bytes : int
        How much of the file to keep; 0 starts it anew.
    """

    def __init__(self, path: str, text_format: str, n_bytes: int) -> None:
        self.name = "standard output" if path == STDIN else path
        self._format = text_format
        self.n_bytes = n_bytes
        self._file, self._is_file = (sys.stdout.buffer, False) if path == STDIN else self._open(Path(path), n_bytes)

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows; a CSV file gets its header with the first ones."""
        content = io.BytesIO()
        if self._format == "jsonl":
            frame.write_ndjson(content)
        else:
            separator = "\t" if self._format == "tsv" else ","
            frame.write_csv(content, include_header=self.n_bytes == 0, separator=separator)
        with self._writing():
            self._file.write(content.getvalue())
        self.n_bytes += content.tell()

    def flush(self) -> None:
        """Flush the buffers."""
        with self._writing():
            self._file.flush()

    def put_on_disk(self) -> int:
        """Sync to disk, so that a crash loses nothing; return the number of bytes written."""
        self.flush()
        if self._is_file:
            with self._writing():
                os.fsync(self._file.fileno())
        return self.n_bytes

    def close(self) -> None:
        """Close the file; rows that were not synced to disk may be lost."""
        if self.name != "standard output":
            with suppress(OSError):
                self._file.close()

    def _open(self, path: Path, n_bytes: int) -> tuple[BinaryIO, bool]:
        with self._writing():
            if path.exists() and not S_ISREG(path.stat().st_mode):
                return path.open("wb"), False
            size = path.stat().st_size if path.exists() else 0
            if size < n_bytes:
                raise DataError(
                    f"{path} has {size} bytes, but {n_bytes} were written: restore it, or start a new run with --new."
                )
            file: Any = path.open("r+b" if path.exists() else "xb")
            file.truncate(n_bytes)
            file.seek(n_bytes)
            return file, True

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise DataError(
                f"{self.name} cannot be written to ({error.strerror or error}); the last save is intact: free space or "
                "change permissions, then run the same command again."
            ) from None


def partial_path(path: str) -> str:
    """Where the rows of a Parquet file are collected until it can be written."""
    return f"{path}.partial"


def paths_beside(path: str) -> list[str]:
    """Return the files that may be written before an output gets its name, and the output itself."""
    whole = [path, predicting_path(path)]
    return [*whole, *map(partial_path, whole), *map(_unfinished_path, whole)]


def predicting_path(path: str) -> str:
    """Where predictions are written until they are complete."""
    return f"{path}.predicting"


def _unfinished_path(path: str) -> str:
    return f"{path}.unfinished"


def finish_parquet(path: str, schema: dict[str, Any]) -> None:
    """Turn the rows collected for a Parquet file into that file, atomically.

    Parameters
    ----------
    path : str
        The Parquet file.
    schema : dict of str to polars type
        Of the rows, in their order.
    """
    unfinished = Path(_unfinished_path(path))
    try:
        # In row groups of fixed size: the same rows give the same bytes.
        rows = pl.scan_csv(partial_path(path), schema=schema, raise_if_empty=False)
        rows.sink_parquet(unfinished, row_group_size=1 << 17, maintain_order=True)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        unfinished.unlink(missing_ok=True)
        raise DataError(f"{path} cannot be written ({error}); run the same command again to finish it.") from None
