"""The log of batches, and the idempotency of requests."""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from accous.checkpoint.files import expecting_own_content, open_to_write, write_atomically
from accous.exceptions import CheckpointError
from accous.text import LOGGER

# --- The log of batches: append-only groups of records, each with its length and checksum, synced before it
#     counts


_MAGIC = b"accous batch log 4\n"
_HEAD = struct.Struct("<16sQ")  # the log's own name, and the number of records before this file
_GROUP = struct.Struct("<16sIQ")  # the log's own name, bytes of the group, and the number of records before it
_CHECK_BYTES = 16
_START = len(_MAGIC) + _HEAD.size + _CHECK_BYTES


class LogError(OSError):
    """The disk did not take a group: none of its batches counts."""


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One request that changes the model, as it came.

    Attributes
    ----------
    kind : {"adapt", "step", "labels", "ask"}
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
    n_cut : int
        Bytes of an incomplete last group, which were cut off.
    """

    def __init__(self, path: Path, name: str, n_records: int, n_bytes: int, n_cut: int = 0) -> None:
        self._path, self.name, self.n_records, self.n_bytes, self.n_cut = path, name, n_records, n_bytes, n_cut
        self._descriptor = open_to_write(path, os.O_WRONLY | os.O_APPEND)
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
        head = _GROUP.pack(bytes.fromhex(self.name), len(payload), self.n_records)
        content = memoryview(b"".join((head, _check(head, payload, name=self.name), payload)))
        if self.is_broken:
            raise LogError("the log could not be repaired after a disk error")
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
        self._descriptor = fresh._descriptor
        self.n_bytes, self.is_broken = fresh.n_bytes, False

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


def open_log(path: Path) -> tuple[BatchLog, list[tuple[int, Record]]]:
    """Open a log and read its records, counted from 1 over its whole life.

    An incomplete last group is cut off, and kept in a file of its own.

    Raises
    ------
    CheckpointError
        If the file is not a log, or damaged before its last group.
    """
    content = path.read_bytes()
    name, n_records, records, end = _read_records(path, content)
    n_cut = len(content) - end
    if _goes_on(content, end, n_records, name):
        raise CheckpointError(
            f"{path} is damaged at byte {end:,}, and what follows is not: restore the folder from a copy."
        )
    if n_cut:
        kept = _cut_off(path, content, end, n_records)
        LOGGER.warning("%s: cut off %d bytes of a last group that was not complete, now in %s", path, n_cut, kept)
    return BatchLog(path, name, n_records, end, n_cut), records


def count_records(path: Path) -> tuple[str, int]:
    """Return the name of a log and how many records it ever had; the file stays as it is."""
    return _read_records(path, path.read_bytes())[:2]


def _read_records(path: Path, content: bytes) -> tuple[str, int, list[tuple[int, Record]], int]:
    """Return the log's name, how many records it ever had, those that it has, and where the last whole group ends."""
    head, check = content[: _START - _CHECK_BYTES], content[_START - _CHECK_BYTES : _START]
    if not content.startswith(_MAGIC) or check != _check(head):
        raise CheckpointError(f"{path} is not a log that accous serve wrote: restore it from a copy.")
    named, n_records = _HEAD.unpack_from(content, len(_MAGIC))
    name, end = named.hex(), _START
    records: list[tuple[int, Record]] = []
    while (found := _group_at(content, end, name)) is not None and found[0] == n_records:
        payload = found[1]
        with expecting_own_content(path):
            group = msgspec.msgpack.decode(payload, type=list[Record])
        records += enumerate(group, n_records + 1)
        n_records += len(group)
        end += _GROUP.size + _CHECK_BYTES + len(payload)
    return name, n_records, records, end


def _group_at(content: bytes, start: int, name: str) -> tuple[int, bytes] | None:
    """Return the number of records before the group that starts here, and its payload; None if none is whole."""
    inside = start + _GROUP.size + _CHECK_BYTES
    if inside > len(content):
        return None
    head = content[start : start + _GROUP.size]
    _, length, n_before = _GROUP.unpack(head)
    payload = content[inside : inside + length]
    is_whole = len(payload) == length and content[start + _GROUP.size : inside] == _check(head, payload, name=name)
    return (n_before, payload) if is_whole else None


def _goes_on(content: bytes, start: int, n_records: int, name: str) -> bool:
    """Whether a later group began here or behind: it did so only after what is wrong here had been synced."""
    mark, place = bytes.fromhex(name), start - 1
    while (place := content.find(mark, place + 1, len(content) - _GROUP.size + len(mark))) >= 0:
        if _GROUP.unpack_from(content, place)[2] > n_records:
            return True
    return False


def _cut_off(path: Path, content: bytes, end: int, n_records: int) -> Path:
    """Shorten a file, after what follows has been written to another one."""
    kept = path.with_name(f"{path.name}.cut-after-{n_records}")
    write_atomically(path.parent, lambda stream: stream.write(content[end:]), name=kept.name)
    with os.fdopen(open_to_write(path, os.O_RDWR), "r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    return kept


def _check(*pieces: bytes, name: str = "") -> bytes:
    """Return a checksum; with the log's name, the bytes of a request cannot look like a group."""
    digest = hashlib.blake2b(digest_size=_CHECK_BYTES, key=bytes.fromhex(name))
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _sync(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)


# --- Idempotency: responses by the client's key for a request


_STORE_MAGIC = b"accous idempotency 2\n"


class StoredResponse(msgspec.Struct, array_like=True, frozen=True):
    """The first response to a request.

    Attributes
    ----------
    digest : bytes
        Of the request.
    status : int
    body : bytes
    """

    digest: bytes
    status: int
    body: bytes


class _Content(msgspec.Struct, array_like=True):
    log: str
    responses: list[tuple[str, StoredResponse]]


class Idempotency:
    """The latest responses to requests that have a key.

    Parameters
    ----------
    most_responses, most_bytes : int
        How many are kept, and how many bytes of them.
    """

    def __init__(self, most_responses: int = 100_000, most_bytes: int = 16 << 20) -> None:
        self._most_responses, self._most_bytes, self._n_bytes = most_responses, most_bytes, 0
        self._responses: OrderedDict[str, StoredResponse] = OrderedDict()

    def response(self, key: str) -> StoredResponse | None:
        """Return the first response to the request with this key."""
        return self._responses.get(key)

    def keep_response(self, key: str, response: StoredResponse) -> None:
        """Keep a response, and drop the oldest if there are too many."""
        before = self._responses.pop(key, None)
        self._n_bytes += len(response.body) - (len(before.body) if before is not None else 0)
        self._responses[key] = response
        while len(self._responses) > 1 and (
            len(self._responses) > self._most_responses or self._n_bytes > self._most_bytes
        ):
            _, oldest = self._responses.popitem(last=False)
            self._n_bytes -= len(oldest.body)

    def save(self, path: Path, log: str) -> None:
        """Write everything to a file, in one step."""
        content = msgspec.msgpack.encode(_Content(log, list(self._responses.items())))
        head = _STORE_MAGIC + hashlib.sha256(content).digest()
        write_atomically(path.parent, lambda stream: (stream.write(head), stream.write(content)), name=path.name)


def load_idempotency(path: Path, log: str) -> Idempotency:
    """Return what was saved; nothing, if it belongs to another log.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged: without it, a repeated request could count twice.
    """
    found = Idempotency()
    if not path.is_file():
        raise CheckpointError(
            f"{path} is missing, so a repeated request could count twice: restore it from a copy, or remove the "
            f"folder {path.parent} to go on with the model as it was saved last."
        )
    content = path.read_bytes()
    body = content[len(_STORE_MAGIC) + 32 :]
    if content[: len(_STORE_MAGIC) + 32] != _STORE_MAGIC + hashlib.sha256(body).digest():
        raise CheckpointError(f"{path} is damaged: restore the folder from a copy.")
    with expecting_own_content(path):
        saved = msgspec.msgpack.decode(body, type=_Content)
    if saved.log == log:
        for key, response in saved.responses:
            found.keep_response(key, response)
    return found
