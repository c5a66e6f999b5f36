"""Files that are written completely or not at all, and read only if their checksum matches.

This module and ``manifest.py`` import no numerical library, so that ``accous inspect`` starts fast.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from accous.exceptions import CheckpointError

__all__ = [
    "DigestStream",
    "StoredFile",
    "is_data_file",
    "is_temporary_file",
    "open_checked",
    "remove_files",
    "sync_folder",
    "write_atomically",
]

_DATA_FILE = re.compile(r"(reference|state-\d+)-[0-9a-f]{16}\.npz")
_TEMPORARY_FILE = re.compile(r"\.accous-[0-9a-f]{16}\.tmp")


@dataclass(frozen=True)
class StoredFile:
    """A file of a saved model.

    Attributes
    ----------
    name : str
    sha256 : str
        Digest of its content, in hexadecimal.
    size : int
        Bytes.
    """

    name: str
    sha256: str
    size: int

    def is_in(self, folder: Path) -> bool:
        """Whether the folder has a file with this name and size; its content is not read."""
        path = folder / self.name
        return path.is_file() and path.stat().st_size == self.size


class DigestStream:
    """Writes to a file and computes the digest of the content; it cannot seek, so no byte is written twice."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Digest so far, in hexadecimal."""
        return self._sha256.hexdigest()

    def write(self, content: bytes) -> int:
        """Write the content."""
        self._sha256.update(content)
        self.size += len(content)
        return self._file.write(content)

    def flush(self) -> None:
        """Pass everything on to the operating system."""
        self._file.flush()


def write_atomically(folder: Path, fill: Callable[[DigestStream], Any], *, name: str) -> StoredFile:
    """Write a file that gets its name only when all of its content is on the disk.

    Parameters
    ----------
    folder : Path
    fill : callable
        Writes the content to the stream it is given.
    name : str
        ``{digest}`` in it stands for the first 16 digits of the content's digest. An existing file is replaced.
    """
    temporary = folder / f".accous-{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            stream = DigestStream(file)
            fill(stream)
            file.flush()
            os.fsync(file.fileno())
        stored = StoredFile(name.format(digest=stream.sha256[:16]), stream.sha256, stream.size)
        temporary.replace(folder / stored.name)
        sync_folder(folder)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return stored


@contextmanager
def open_checked(folder: Path, stored: StoredFile) -> Iterator[BinaryIO]:
    """Open a file of a saved model for reading, after checking its size and checksum.

    Raises
    ------
    FileNotFoundError
        If the file is gone, for example because another process has just saved.
    """
    with (folder / stored.name).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < stored.size:
            raise CheckpointError(
                f"{folder / stored.name} is truncated ({size} of {stored.size} bytes): restore the folder from a copy."
            )
        if hashlib.file_digest(file, "sha256").hexdigest() != stored.sha256:
            raise CheckpointError(
                f"{folder / stored.name} was changed since it was saved (its checksum does not match): restore the "
                "folder from a copy."
            )
        file.seek(0)
        yield file


def is_data_file(name: str) -> bool:
    """Whether accous gives this name to files with a reference or a state."""
    return _DATA_FILE.fullmatch(name) is not None


def is_temporary_file(name: str) -> bool:
    """Whether accous gives this name to files that are not complete yet."""
    return _TEMPORARY_FILE.fullmatch(name) is not None


def remove_files(folder: Path, is_stale: Callable[[str], bool]) -> None:
    """Remove the files that are no longer used; a file that cannot be removed stays until the next save."""
    for path in folder.iterdir():
        if is_stale(path.name):
            with suppress(OSError):
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Write the folder's list of files to the disk, on systems that support it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not support it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
