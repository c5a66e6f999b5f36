"""Text as UTF-8 bytes, from a file, a pipe or a growing file; gzip, other encodings and byte order marks removed."""

from __future__ import annotations

import codecs
import os
import select
import sys
import time
import zlib
from pathlib import Path
from stat import S_ISREG

from accous.exceptions import DataError, ParameterError

__all__ = ["STDIN", "TextSource"]

STDIN = "-"
_BLOCK = 1 << 20
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
            tail = _read_fully(self._descriptor, n_tail)
            self._n_raw = start + len(tail)
            return tail, b""
        tail, content, n_left = b"", read_so_far, end
        while True:
            tail = (tail + content[:n_left])[-n_tail:] if n_tail else b""
            if n_left <= len(content):
                return tail, content[n_left:]
            n_left -= len(content)
            piece = self.read()
            while piece is None:
                piece = self.read()
            if not piece:
                return b"", b""
            content = piece

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


def _read_fully(descriptor: int, n_bytes: int) -> bytes:
    content = b""
    while len(content) < n_bytes:
        piece = os.read(descriptor, n_bytes - len(content))
        if not piece:
            break
        content += piece
    return content
