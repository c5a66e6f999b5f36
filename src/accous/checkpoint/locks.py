"""An exclusive lock on a folder; the operating system releases it when the process ends, even if it is killed.

The package filelock (4.2.10) would save about 40 lines here and pass the tests with killed processes, but would be a
dependency of 10,000 lines. We would still write the note about the owner, which nobody could read on Windows because
filelock locks its first byte, and check that the folder exists, because filelock creates it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from accous.exceptions import LockedError

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

__all__ = ["LOCK_NAME", "exclusive_lock", "lock_to_save"]

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
