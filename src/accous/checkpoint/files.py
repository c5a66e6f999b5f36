"""Files that appear whole or not at all, and are read back only if their checksum holds.

No numerical library is imported here, nor in ``manifest.py``: what they hold can be shown at once.
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
        """Whether the folder has a file of this name and size; its content is not read."""
        path = folder / self.name
        return path.is_file() and path.stat().st_size == self.size


class DigestStream:
    """Writes to a file and keeps the digest of what went through; it cannot seek, so nothing is written twice."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Digest so far, in hexadecimal."""
        return self._sha256.hexdigest()

    def write(self, content: bytes) -> int:
        """Write all of it."""
        self._sha256.update(content)
        self.size += len(content)
        return self._file.write(content)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()


def write_atomically(folder: Path, fill: Callable[[DigestStream], Any], *, name: str) -> StoredFile:
    """Write a file that has its name only once all of it is on the disk.

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
    """Open a file of a saved model for reading; one that is not the file described is refused.

    Raises
    ------
    FileNotFoundError
        Where the file is gone, as it may be when another process has just saved.
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
    """Whether a file of this name is a reference or a state of ours."""
    return _DATA_FILE.fullmatch(name) is not None


def is_temporary_file(name: str) -> bool:
    """Whether a file of this name is one that a save did not finish."""
    return _TEMPORARY_FILE.fullmatch(name) is not None


def remove_files(folder: Path, is_stale: Callable[[str], bool]) -> None:
    """Remove the files that nothing refers to; one that cannot be removed is left for the next time."""
    for path in folder.iterdir():
        if is_stale(path.name):
            with suppress(OSError):
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Put the folder's list of files on the disk, where the system can do that for a folder."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not know how to.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
