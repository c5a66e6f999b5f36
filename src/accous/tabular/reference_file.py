"""Whether a file is the one that a model was fitted on: its length and a digest tell, under any name."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

__all__ = ["identify_file", "is_same_file"]


def identify_file(path: str) -> dict[str, Any] | None:
    """Return length and digest of a file, ready for JSON; None if it is no file, such as the standard input."""
    file = Path(path)
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return {"bytes": file.stat().st_size, "digest": digest}


def is_same_file(path: str, known: dict[str, Any] | None) -> bool:
    """Whether a file has the length and the digest of another, which `identify_file` has returned."""
    file = Path(path)
    # A stream may be long: it is read for this only if it has the same length.
    if known is None or not file.is_file() or file.stat().st_size != known["bytes"]:
        return False
    return identify_file(path) == known
