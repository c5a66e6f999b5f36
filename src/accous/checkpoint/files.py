"""Files of a saved model: atomic, checksummed, locked, and the manifest that lists them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, TypeVar

from accous.exceptions import AccousError, CheckpointError, LockedError

# --- Files that are written completely or not at all, and read only if their checksum matches


_DATA_FILE = re.compile(r"(reference|state-\d+)-[0-9a-f]{16}\.npz")
_LONGEST_REASON = 300
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
    path = folder / stored.name
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is not a regular file: restore the folder from a copy.")
    with path.open("rb") as file:
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


def open_to_write(path: Path, flags: int) -> int:
    """Open a file of a model's folder for writing, and return its descriptor.

    Somebody else may have made the folder: a link in it, of either kind, may lead to any file of the user's.

    Parameters
    ----------
    path : Path
    flags : int
        As for `os.open`.

    Raises
    ------
    CheckpointError
        If the file is a link or not a regular file.
    OSError
        If it cannot be opened.
    """
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        # Not every system knows O_NOFOLLOW.
        if not path.is_symlink():
            descriptor = os.open(path, flags, 0o666)
            found = os.fstat(descriptor)
            if S_ISREG(found.st_mode) and found.st_nlink <= 1:
                return descriptor
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
    raise CheckpointError(
        f"{path} is a link or not a regular file, where accous does not write: remove it, then run the command again."
    )


@contextmanager
def expecting_own_content(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with content that has the right checksums, and that accous did not write, into one error."""
    try:
        yield
    except (AccousError, OSError):
        raise
    except Exception as error:
        # The text of an error may hold whole arrays.
        what = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        raise CheckpointError(f"{folder} does not hold what accous writes ({what}): restore it from a copy.") from error


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
    descriptor = open_to_write(file, os.O_RDWR | os.O_CREAT)
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


# --- The manifest: which files make up the saved model, and what kind of model it is. Replacing it commits a
#     save


MANIFEST_NAME = "manifest.json"
_FORMAT = "accous"
_VERSION = 4


@dataclass(frozen=True)
class Manifest:
    """What a folder holds.

    Attributes
    ----------
    model : dict
        Class and parameters, as ``models.describe`` gives them.
    reference, state : StoredFile
    attached : dict, optional
        Data that a caller of ``save_with`` keeps with the model, in JSON types.
    """

    model: dict[str, Any]
    reference: StoredFile
    state: StoredFile
    attached: dict[str, Any] | None = None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the folder's manifest in one step."""
    content = {"format": _FORMAT, "version": _VERSION, "accous": _own_version(), **vars(manifest)}
    # Not `asdict` of all: it would copy the description of every column.
    content |= {"reference": asdict(manifest.reference), "state": asdict(manifest.state)}
    text = json.dumps({**content, "checksum": _checksum(content)}, indent=2, allow_nan=False) + "\n"
    write_atomically(folder, lambda stream: stream.write(text.encode()), name=MANIFEST_NAME)


def read_manifest(folder: Path) -> Manifest:
    """Read and check the folder's manifest."""
    path = folder / MANIFEST_NAME
    content = _read_content(path)
    if content is None or content.get("format") != _FORMAT:
        raise CheckpointError(f"{path} was not written by accous: give the folder that a model was saved to.")
    format_version = content.get("version")
    if isinstance(format_version, int) and format_version != _VERSION:
        is_newer = format_version > _VERSION
        writer, advice = ("a newer", "upgrade accous") if is_newer else ("an earlier", "fit the model again")
        raise CheckpointError(
            f"{folder} was written by {writer} accous (format {format_version}; this one reads {_VERSION}): {advice}."
        )
    try:
        if content.pop("checksum", None) != _checksum(content):
            raise CheckpointError(
                f"{path} was changed since it was saved (its checksum does not match): restore the folder from a copy."
            )
        files = {name: StoredFile(**content[name]) for name in ("reference", "state")}
        if not all(is_data_file(stored.name) for stored in files.values()):
            raise ValueError("a file name that accous does not use")
        return Manifest(content["model"], files["reference"], files["state"], content["attached"])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is incomplete ({error}): restore the folder from a copy.") from error


def peek_manifest(path: Path) -> dict[str, Any] | None:
    """Return what a manifest holds, in any version of the format and unchecked; None if accous did not write it."""
    try:
        content = _read_content(path)
    except CheckpointError:
        return None
    return content if content is not None and content.get("format") == _FORMAT else None


def _read_content(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON ({error}): restore the folder from a copy.") from error
    return content if isinstance(content, dict) else None


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("accous")
    except PackageNotFoundError:
        return "unknown"


# --- Read the manifest and the files of one save, even while another process saves to the folder


T = TypeVar("T")


def read_consistently(folder: Path, read: Callable[[Manifest], T]) -> T:
    """Return what ``read`` returns for the manifest and the files that it names.

    Parameters
    ----------
    folder : Path
    read : callable
        Opens the files that the manifest names. If one of them is gone because another process has saved in the
        meantime, ``read`` is called again with the new manifest.

    Raises
    ------
    CheckpointError
        If there is no saved model, or it cannot be read.
    """
    if not folder.is_dir():
        why = "it is a file" if folder.exists() else "there is no such folder"
        raise CheckpointError(f"{folder} holds no saved model ({why}): give the folder that a model was saved to.")
    try:
        if not (folder / MANIFEST_NAME).is_file():
            raise CheckpointError(
                f"{folder} holds no saved model ({MANIFEST_NAME} is missing): give the folder that a model was saved "
                "to."
            )
        with expecting_own_content(folder):
            return _read_latest(folder, read)
    except OSError as error:
        raise CheckpointError(
            f"Cannot read {folder} ({error}): change its permissions or give another folder."
        ) from error


def _read_latest(folder: Path, read: Callable[[Manifest], T]) -> T:
    manifest = read_manifest(folder)
    while True:
        try:
            return read(manifest)
        except FileNotFoundError as error:
            latest = read_manifest(folder)
            if latest == manifest:
                raise CheckpointError(f"{error.filename} is missing: restore the folder from a copy.") from error
            manifest = latest
