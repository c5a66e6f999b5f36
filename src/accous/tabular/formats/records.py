"""Cuts a text into records: lines, except for line ends inside quotes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecordCutter", "Records"]

IntArray = NDArray[np.int64]
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
