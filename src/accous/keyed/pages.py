"""Pages: the states of some keys as one value, for stores in which every value costs a round trip.

::

    4s magic  I number of keys, then for each key:  c type of key  I its length  I length of the state, key, state

A key is a text (``s``, UTF-8) or an integer (``i``, in digits).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from accous.exceptions import CheckpointError, DataError

__all__ = ["hash_key", "pack_page", "unpack_page"]

_MAGIC = b"ACKP"
_HEADER = struct.Struct("<4sI")
_ENTRY = struct.Struct("<cII")


def pack_page(states: dict[Any, bytes]) -> bytes:
    """Return the states of some keys as one value.

    Examples
    --------
    >>> from accous.keyed.pages import pack_page, unpack_page
    >>> unpack_page(pack_page({"a": b"state", 7: b"other"}))
    {'a': b'state', 7: b'other'}
    """
    parts = [_HEADER.pack(_MAGIC, len(states))]
    for key, state in states.items():
        kind, content = _encode(key)
        parts += [_ENTRY.pack(kind, len(content), len(state)), content, state]
    return b"".join(parts)


def unpack_page(page: bytes) -> dict[Any, bytes]:
    """Undo ``pack_page``."""
    if page[:4] != _MAGIC:
        raise CheckpointError("A page of states was not written by accous: the store belongs to something else.")
    states: dict[Any, bytes] = {}
    at = _HEADER.size
    try:
        for _ in range(_HEADER.unpack_from(page)[1]):
            kind, n_key, n_state = _ENTRY.unpack_from(page, at)
            at += _ENTRY.size
            key, at = page[at : at + n_key], at + n_key
            states[key.decode() if kind == b"s" else int(key)] = bytes(page[at : at + n_state])
            at += n_state
    except (struct.error, ValueError) as error:
        raise CheckpointError("A page of states is torn.") from error
    if at != len(page):
        raise CheckpointError("A page of states is torn.")
    return states


def hash_key(key: Any) -> int:
    """Return a number below 2^32 for a key, the same on every machine."""
    kind, content = _encode(key)
    return zlib.crc32(kind + content)


def _encode(key: Any) -> tuple[bytes, bytes]:
    if isinstance(key, str):
        return b"s", key.encode()
    if isinstance(key, int) and not isinstance(key, bool):
        return b"i", str(key).encode()
    raise DataError(f"A key of type {type(key).__name__} cannot be stored: make the column of keys text or integers.")
