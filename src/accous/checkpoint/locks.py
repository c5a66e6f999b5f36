"""An exclusive lock of a folder, held by a live process: the operating system takes it back when the process ends."""

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

__all__ = ["LOCK_NAME", "exclusive_lock"]

LOCK_NAME = ".accous.lock"
# Windows locks bytes rather than files, and nobody else can read a locked byte: one far behind the process's number.
_LOCKED_BYTE = 1 << 20
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)


@contextmanager
def exclusive_lock(path: Path, what: str) -> Iterator[None]:
    """Hold a folder for one process.

    The lock is the operating system's, on the file `LOCK_NAME` in the folder. It ends with the process, however that
    ends, so a lock of a dead process is none. The file stays: removing it would let two processes lock two files.

    Parameters
    ----------
    path : Path
        An existing folder.
    what : str
        What the lock is for, for the message to those who come second: ``"accous adapt"``.

    Raises
    ------
    LockedError
        If another live process holds it; the message names its number.
    OSError
        If the folder is missing or cannot be written to.
    """
    file = path / LOCK_NAME
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            raise LockedError(
                _refusal(path, os.pread(descriptor, 200, 0) if sys.platform != "win32" else b"")
            ) from None
        _write_owner(descriptor, what)
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: Path, owner: bytes) -> str:
    pid, _, what = owner.decode("utf-8", "replace").strip().partition(" ")
    name = f"process {pid} ({what})" if pid.isdigit() else "another process"
    return f"{path} is in use by {name}: wait until it has finished or stop it, then run the command again."


def _write_owner(descriptor: int, what: str) -> None:
    """Leave a note of who holds the lock; the lock holds without it, also where the disk is full."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid()} {what}\n".encode())


if sys.platform == "win32":  # pragma: no cover

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
