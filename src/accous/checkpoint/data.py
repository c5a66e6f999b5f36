"""The data files of a saved model: nested dicts of arrays, written and read whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accous.checkpoint.files import StoredFile, open_checked, write_atomically
from accous.checkpoint.plain import read_plain, write_plain

__all__ = ["read_data", "write_data"]


def write_data(folder: Path, prefix: str, plain: dict[str, Any]) -> StoredFile:
    """Write nested dicts of arrays to a file named by its prefix and its digest."""
    return write_atomically(folder, lambda stream: write_plain(stream, plain), name=f"{prefix}-{{digest}}.npz")


def read_data(folder: Path, stored: StoredFile) -> dict[str, Any]:
    """Read what ``write_data`` wrote, after checking its size and checksum.

    Raises
    ------
    FileNotFoundError
        If the file is gone, for example because another process has just saved.
    """
    with open_checked(folder, stored) as file:
        return read_plain(file)
