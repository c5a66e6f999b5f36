"""Files of a saved model: atomic, checksummed, locked."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import re
import secrets
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import CheckpointError, LockedError

# --- Files that are written completely or not at all, and read only if their checksum matches


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


# --- An exclusive lock on a folder; the operating system releases it when the process ends, even if it is
#     killed


if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl


LOCK_NAME = ".accous.lock"
# Windows locks bytes, and other processes cannot read a locked byte: this one is far behind the note about the owner.
_LOCKED_BYTE = 1 << 20
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)
# The lock files that this process holds, and its number: a process that is forked meanwhile does not hold them.
_held: dict[str, int] = {}


@contextmanager
def exclusive_lock(path: Path, what: str) -> Iterator[None]:
    """Lock a folder for this process.

    The operating system locks the file `LOCK_NAME` in the folder, and releases the lock when the process ends for any
    reason. The file stays: if it were removed, two processes could lock two different files.

    Parameters
    ----------
    path : Path
        An existing folder.
    what : str
        What this process does, for the error that other processes get, such as ``"accous adapt"``.

    Raises
    ------
    LockedError
        If another process holds the lock; the message gives its process number and what it does.
    OSError
        If the folder is missing or you cannot write to it.
    """
    file = path / LOCK_NAME
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            raise LockedError(_refusal(path, os.read(descriptor, 200))) from None
        _write_owner(descriptor, what)
        name = os.path.realpath(file)
        _held[name] = os.getpid()
        try:
            yield
        finally:
            _held.pop(name, None)
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            _unlock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_to_save(path: Path) -> Iterator[None]:
    """Lock a folder while Python code saves a model to it, so that no command or service has it meanwhile.

    A process that holds the lock already goes on. A folder without the file `LOCK_NAME`, which no command has used, is
    not locked: nothing but Python code saves there.

    Parameters
    ----------
    path : Path
        A folder, which need not exist.

    Raises
    ------
    LockedError
        If another process holds the lock.
    OSError
        If you cannot write to the folder.
    """
    file = path / LOCK_NAME
    if not file.exists() or _held.get(os.path.realpath(file)) == os.getpid():
        yield
        return
    with exclusive_lock(path, "accous.save"):
        yield


def _refusal(path: Path, owner: bytes) -> str:
    pid, _, what = owner.decode("utf-8", "replace").strip().partition(" ")
    name = f"process {pid} ({what})" if pid.isdigit() else "another process"
    return f"{path} is in use by {name}: wait until it has finished or stop it, then run the command again."


def _write_owner(descriptor: int, what: str) -> None:
    """Write down who holds the lock; the lock also works without this note, for example on a full disk."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid()} {what}\n".encode())


if sys.platform == "win32":  # pragma: no cover

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


# --- Write arrays to an .npz file and read them back, without pickle


_FIRST_VERSION = np.lib.format.magic(1, 0)
_HEADER_START = len(_FIRST_VERSION) + 2  # two bytes with its length
# Larger arrays are written and read in pieces, so that they are not twice in memory.
_MOST_BYTES_AT_ONCE = 1 << 20
# Of the ZIP format: bytes before the name of a member, and the bit that says that it has a password.
_LOCAL_HEADER, _ENCRYPTED = 30, 1


def write_arrays(stream: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a stream, which does not have to support seeking; the same arrays give the same bytes."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            # Our own ZipInfo contains no time.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                # numpy refuses objects; their bytes would be addresses in memory.
                if array.nbytes > _MOST_BYTES_AT_ONCE or array.dtype.hasobject:
                    np.lib.format.write_array(member, array, allow_pickle=False)
                    continue
                is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
                header = _make_header(array.dtype, array.shape, is_fortran=is_fortran)
                member.write(header + array.tobytes("F" if is_fortran else "C"))


def read_arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Return the arrays by their names, with the bits, the types and the memory order that they were written with.

    Raises
    ------
    ValueError, EOFError, zipfile.BadZipFile
        If the file holds anything else.
    """
    with zipfile.ZipFile(file) as archive:
        return {info.filename.removesuffix(".npy"): _read_member(archive, info, file) for info in archive.infolist()}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: BinaryIO) -> NDArray[Any]:
    if info.file_size > _MOST_BYTES_AT_ONCE:
        with archive.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    content = _read_stored(info, file) or archive.read(info)
    start = _HEADER_START + int.from_bytes(content[len(_FIRST_VERSION) : _HEADER_START], "little")
    if content.startswith(_FIRST_VERSION):
        shape, is_fortran, dtype = _parse_header(content[len(_FIRST_VERSION) : start])
        n_bytes = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and 0 < n_bytes == len(content) - start:
            array = np.frombuffer(content, dtype, offset=start).copy()
            return array.reshape(shape, order="F" if is_fortran else "C")
    # Anything unusual, and whatever must be refused.
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def _read_stored(info: zipfile.ZipInfo, file: BinaryIO) -> bytes | None:
    """Return the bytes of a member that is not compressed; None if it is, or if anything is not as it should be.

    `zipfile` makes several objects for every member, which for small ones takes most of the time.
    """
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
        return None
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if not header.startswith(b"PK\x03\x04") or len(header) < _LOCAL_HEADER:
        return None
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
    content = file.read(info.file_size)
    return content if zlib.crc32(content) == info.CRC else None


@lru_cache(maxsize=1000)
def _make_header(dtype: np.dtype[Any], shape: tuple[int, ...], *, is_fortran: bool) -> bytes:
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": is_fortran, "shape": shape})
    return header.getvalue()


@lru_cache(maxsize=1000)
def _parse_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return np.lib.format.read_array_header_1_0(io.BytesIO(header))
