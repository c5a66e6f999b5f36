"""The log of batches: append-only groups of records, each with its length and checksum, synced before it counts.

A group is what one sync makes durable. Only the last group can be incomplete after a crash, and nobody was told that it
counts: it is cut off. A group that is damaged before the last one is another matter, and refused.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from accous.checkpoint.files import write_atomically
from accous.exceptions import CheckpointError

__all__ = ["BatchLog", "LogError", "Record", "open_log"]

_MAGIC = b"accous batch log 1\n"
_HEAD = struct.Struct("<16sQ")  # the log's own name, and the number of records before this file
_GROUP = struct.Struct("<IQ")  # bytes of the group, and the number of records before it
_CHECK_BYTES = 16
_START = len(_MAGIC) + _HEAD.size + _CHECK_BYTES


class LogError(OSError):
    """The disk did not take a group: none of its batches counts."""


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One request that changes the model, as it came.

    Attributes
    ----------
    kind : {"adapt", "step", "labels"}
    content_type : str
    body : bytes
    options : dict of str to str
        What the address said after the question mark.
    learns_first : bool
    key : str, optional
        The client's name for the request, by which a repetition is known.
    digest : bytes
        Of all the rest: another request must not have the same key.
    """

    kind: str
    content_type: str
    body: bytes
    options: dict[str, str] = {}
    learns_first: bool = False
    key: str | None = None
    digest: bytes = b""


@dataclass(frozen=True)
class Opened:
    """A log that was found.

    Attributes
    ----------
    log : BatchLog
    records : list of (number, Record)
        Counted from 1 over the whole life of the log.
    n_cut : int
        Bytes of an incomplete last group, which were cut off.
    """

    log: BatchLog
    records: list[tuple[int, Record]]
    n_cut: int


class BatchLog:
    """A log that is open for writing.

    Parameters
    ----------
    path : Path
    name : str
        The log's own name, in hexadecimal.
    n_records : int
        Records that it ever had.
    n_bytes : int
        Length of the file.
    """

    def __init__(self, path: Path, name: str, n_records: int, n_bytes: int) -> None:
        self._path, self.name, self.n_records, self.n_bytes = path, name, n_records, n_bytes
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        self.is_broken = False

    @classmethod
    def create(cls, path: Path, name: str | None = None, n_records: int = 0) -> BatchLog:
        """Write a new log without records in the place of any other, in one step."""
        name = secrets.token_hex(16) if name is None else name
        head = _MAGIC + _HEAD.pack(bytes.fromhex(name), n_records)
        write_atomically(path.parent, lambda stream: stream.write(head + _check(head)), name=path.name)
        return cls(path, name, n_records, _START)

    @property
    def is_empty(self) -> bool:
        """Whether there is no record since the log was started again."""
        return self.n_bytes == _START

    def append(self, records: Sequence[Record]) -> int:
        """Write a group and wait until it is on the disk; return the number of its first record.

        Raises
        ------
        LogError
            If the disk did not take it. The log is as before, or broken: then only `restart` helps.
        """
        payload = msgspec.msgpack.encode(records)
        head = _GROUP.pack(len(payload), self.n_records)
        content = memoryview(b"".join((head, _check(head, payload), payload)))
        if self.is_broken:
            raise LogError("the log could not be repaired after an error of the disk")
        try:
            while content:
                content = content[os.write(self._descriptor, content) :]
            _sync(self._descriptor)
        except OSError as error:
            self._cut_back()
            raise LogError(str(error.strerror or error)) from error
        self.n_bytes += len(head) + _CHECK_BYTES + len(payload)
        first, self.n_records = self.n_records + 1, self.n_records + len(records)
        return first

    def restart(self) -> None:
        """Drop the records: the model contains them."""
        fresh = BatchLog.create(self._path, self.name, self.n_records)
        os.close(self._descriptor)
        self._descriptor, self.n_bytes, self.is_broken = fresh._descriptor, fresh.n_bytes, False

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _cut_back(self) -> None:
        """Remove what an append has left; if even that fails, nothing more may be written behind it."""
        try:
            os.ftruncate(self._descriptor, self.n_bytes)
            _sync(self._descriptor)
        except OSError:
            self.is_broken = True


def open_log(path: Path) -> Opened:
    """Open a log and read its records; an incomplete last group is cut off.

    Raises
    ------
    CheckpointError
        If the file is not a log, or damaged before its last group.
    """
    content = path.read_bytes()
    head, check = content[: _START - _CHECK_BYTES], content[_START - _CHECK_BYTES : _START]
    if not content.startswith(_MAGIC) or check != _check(head):
        raise CheckpointError(f"{path} is not a log that accous serve has written: restore it from a copy.")
    name, n_records = _HEAD.unpack_from(content, len(_MAGIC))
    records: list[tuple[int, Record]] = []
    end = _START
    for start, stop, first, payload in _groups(content):
        if first != n_records or payload is None:
            if any(group is not None for *_, group in _groups(content, stop)):
                raise CheckpointError(
                    f"{path} is damaged at byte {start:,}, and what follows is not: restore the folder from a copy."
                )
            break
        for record in msgspec.msgpack.decode(payload, type=list[Record]):
            n_records += 1
            records.append((n_records, record))
        end = stop
    n_cut = len(content) - end
    if n_cut:
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
    return Opened(BatchLog(path, name.hex(), n_records, end), records, n_cut)


def _groups(content: bytes, start: int = _START) -> Iterator[tuple[int, int, int, bytes | None]]:
    """Yield where each group starts and ends, the records before it, and its payload; None if that is not whole."""
    while start + _GROUP.size + _CHECK_BYTES <= len(content):
        head = content[start : start + _GROUP.size]
        length, first = _GROUP.unpack(head)
        inside = start + _GROUP.size + _CHECK_BYTES
        stop, payload = inside + length, content[inside : inside + length]
        is_whole = len(payload) == length and content[start + _GROUP.size : inside] == _check(head, payload)
        yield start, stop, first, payload if is_whole else None
        start = stop


def _check(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_CHECK_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _sync(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)
