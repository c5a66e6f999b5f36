"""The base class of text tables: records, resuming at a position, rows that cannot be decoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.formats.chunks import BadRow, Chunk, Position, digest_of
from accous.tabular.formats.records import RecordCutter, Records
from accous.tabular.formats.sources import TextSource

__all__ = ["TextTable"]


class TextTable(ABC):
    """A table with one record per line.

    Parameters
    ----------
    source : TextSource
    """

    unit = "line"
    columns: list[str]
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

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return nothing: all columns are text."""
        return {}

    def read_as_numbers(self, names: list[str]) -> None:
        """Do nothing: subclasses may read faster."""
        del names

    def read_if_simple(self, names: list[str]) -> None:
        """Do nothing: subclasses may have nested values."""
        del names

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
            piece = self._source.read()
            while piece is None:
                piece = self._source.read()
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
        try:
            records.content.decode()
        except UnicodeDecodeError:
            return [
                self._bad(records, number, "", "the text is not UTF-8 (name its encoding with --encoding)")
                for number in range(len(records))
                if not _is_utf8(records.raw(number))
            ]
        return []

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
