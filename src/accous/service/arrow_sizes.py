"""How large a table in Arrow IPC would become, read from its headers: rows, columns, and bytes when unpacked.

The headers are flatbuffers, and what is needed of them is little: tables with numbered fields, vectors and structures.
See "Encapsulated message format" in https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from accous.service.limits import Limits
from accous.service.packed_bodies import too_large
from accous.service.refusals import Refusal
from accous.service.sizes import require_columns, require_rows

__all__ = ["require_arrow_size"]

_FILE = b"ARROW1"
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
_GOES_ON = 0xFFFFFFFF
_PAIR, _BLOCK = 16, 24  # bytes of a node or buffer, and of a block of a file's footer


class _Table(NamedTuple):
    """A table of a flatbuffer: the bytes, and where it starts."""

    content: bytes
    start: int

    def place(self, number: int) -> int | None:
        """Return where a field is; None if it is left out."""
        where = self.start - _read("<i", self.content, self.start)
        offset = 4 + 2 * number
        inside = _read("<H", self.content, where + offset) if offset < _read("<H", self.content, where) else 0
        return self.start + inside if inside else None

    def number(self, number: int, form: str) -> int:
        """Return a number; 0 if it is left out."""
        place = self.place(number)
        return 0 if place is None else _read(form, self.content, place)

    def table(self, number: int) -> _Table | None:
        """Return a table inside of this one."""
        place = self.place(number)
        return None if place is None else _Table(self.content, place + _read("<I", self.content, place))

    def vector(self, number: int) -> tuple[int, int]:
        """Return where the items of a vector start, and how many there are."""
        place = self.place(number)
        if place is None:
            return 0, 0
        place += _read("<I", self.content, place)
        return place + 4, _read("<I", self.content, place)

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the items of a vector of two numbers each."""
        start, count = self.vector(number)
        return struct.iter_unpack("<qq", self.content[start : start + _PAIR * count])


def require_arrow_size(body: bytes, limits: Limits) -> None:
    """Refuse a table that has too many rows or columns, or would take more memory than the largest body."""
    n_rows = n_bytes = n_messages = 0
    try:
        if body.startswith(_FILE):
            _require_fields(_footer(body).table(1), limits)
        for start, message in _messages(body):
            n_messages += 1
            require_rows(n_messages - 2, limits)  # a table of many empty pieces
            kind, header = message.number(1, "<B"), message.table(2)
            if header is None:
                continue
            if kind == _SCHEMA:
                _require_fields(header, limits)
            if kind in (_DICTIONARY, _RECORDS):
                records = header.table(1) if kind == _DICTIONARY else header
                n_rows += header.number(0, "<q") if kind == _RECORDS else 0
                n_bytes += 0 if records is None else _unpacked_bytes(records, body, start, limits)
            require_rows(n_rows, limits)
            _require_bytes(n_bytes, limits)
    except struct.error:
        raise Refusal(400, "malformed_arrow", "The body is not a table in Arrow IPC: a header is wrong.") from None


def _require_fields(schema: _Table | None, limits: Limits) -> None:
    if schema is not None:
        require_columns(schema.vector(1)[1], limits)


def _messages(body: bytes) -> Iterator[tuple[int, _Table]]:
    """Yield each message with the place where its data starts."""
    if body.startswith(_FILE):
        yield from _messages_of_file(body)
        return
    place = 0
    while place + 4 <= len(body):
        found = _message_at(body, place)
        if found is None:
            return
        yield found
        place = found[0] + max(0, found[1].number(3, "<q"))


def _messages_of_file(body: bytes) -> Iterator[tuple[int, _Table]]:
    """Yield the messages that the footer names, as often as it names them: a reader would follow it."""
    footer = _footer(body)
    for number in (2, 3):
        start, count = footer.vector(number)
        for place in range(count):
            found = _message_at(body, _read("<q", body, start + _BLOCK * place))
            if found is not None:
                yield found


def _footer(body: bytes) -> _Table:
    end = len(body) - len(_FILE) - 4
    return _root(body, end - _read("<I", body, end))


def _message_at(body: bytes, place: int) -> tuple[int, _Table] | None:
    """Return where the data of a message starts, and its header; None at the end of a stream."""
    size = _read("<I", body, place)
    if size == _GOES_ON:
        place += 4
        size = _read("<I", body, place)
    return None if size == 0 else (place + 4 + size, _root(body, place + 4))


def _unpacked_bytes(records: _Table, body: bytes, start: int, limits: Limits) -> int:
    """Return the bytes of all buffers, as they are used and not as they are packed."""
    for length, _ in records.pairs(1):
        _require_bytes(length, limits)
    if records.table(3) is None:
        return sum(max(0, length) for _, length in records.pairs(2))
    # Each packed buffer begins with its true length; -1: it is not packed after all.
    lengths = [(_read("<q", body, start + offset), length) for offset, length in records.pairs(2) if length > 0]
    return sum(length if unpacked < 0 else unpacked for unpacked, length in lengths)


def _require_bytes(n_bytes: int, limits: Limits) -> None:
    if n_bytes > limits.body_bytes:
        raise too_large(limits.body_bytes)


def _root(content: bytes, place: int) -> _Table:
    return _Table(content, place + _read("<I", content, place))


def _read(form: str, content: bytes, place: int) -> int:
    if place < 0:
        raise struct.error
    found: int = struct.unpack_from(form, content, place)[0]
    return found
