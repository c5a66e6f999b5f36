"""Bodies that come packed with gzip or deflate, unpacked no further than the limit."""

from __future__ import annotations

import zlib

from accous.service.refusals import Refusal

__all__ = ["ENCODINGS", "too_large", "unpack"]

ENCODINGS = ("gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpack(body: bytes, most_bytes: int) -> bytes:
    """Return what was packed; refuse it as soon as it is longer than allowed."""
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = unpacker.decompress(body, most_bytes + 1)
    except zlib.error:
        raise Refusal(400, "malformed_encoding", "The body is not packed as Content-Encoding says.") from None
    if len(found) > most_bytes:
        raise too_large(most_bytes)
    if not unpacker.eof or unpacker.unused_data:
        raise Refusal(400, "malformed_encoding", "The packed body is not one whole piece: pack it once, and send all.")
    return found


def too_large(most_bytes: int, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Refusal:
    """Return the refusal of a body that is too long."""
    text = f"A request may have {most_bytes:,} bytes: send the rows in several requests."
    return Refusal(413, "too_large", text, headers=headers)
