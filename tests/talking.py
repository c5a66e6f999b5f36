"""Writes to a process and reads from it at once, without ever waiting for it longer than asked."""

from __future__ import annotations

import os
import select
from typing import IO, TYPE_CHECKING

from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from tests.forks import Forked

_MOST_BYTES = 1 << 16


def is_readable(file: int | IO[bytes], seconds: float) -> bool:
    """Whether there is something to read, or nothing more will come, within so many seconds."""
    return bool(select.select([file], [], [], seconds)[0])


def read_terminal(leader: int) -> bytes:
    """Everything that is shown on a terminal until its other side is closed; closes this side."""
    shown = b""
    try:
        while is_readable(leader, PATIENCE):
            piece = os.read(leader, _MOST_BYTES)
            if not piece:
                return shown
            shown += piece
    except OSError:  # the other side has ended
        return shown
    finally:
        os.close(leader)
    raise TimeoutError(f"nothing more on the terminal for {PATIENCE:g} seconds")


class Talk:
    """What goes to the standard input of a process, and what comes from its two outputs."""

    def __init__(self, process: Forked, content: bytes) -> None:
        self._input = _still_open(process.stdin)
        self._left = memoryview(content)
        self._outputs = {stream for stream in map(_still_open, (process.stdout, process.stderr)) if stream}
        self._found: dict[IO[bytes], bytes] = dict.fromkeys(self._outputs, b"")
        if self._input is not None:
            self._input.flush()
            os.set_blocking(self._input.fileno(), False)
        for stream in self._outputs:
            os.set_blocking(stream.fileno(), False)

    @property
    def is_going_on(self) -> bool:
        """Whether something can still be written or read."""
        return self._input is not None or bool(self._outputs)

    def go_on(self, seconds: float, until: int) -> None:
        """Write and read what can be, waiting at most so long for it, and no longer once a file can be read."""
        writable = [] if self._input is None else [self._input]
        to_read, to_write, _ = select.select([*self._outputs, until], writable, [], max(seconds, 0.0))
        for stream in self._outputs.intersection(to_read):
            self._read(stream)
        if to_write:
            self._write()

    def finish(self) -> None:
        """Take what the process has left behind: nobody waits for others that hold its streams."""
        while to_read := select.select(list(self._outputs), [], [], 0.0)[0]:
            for stream in to_read:
                self._read(stream)
        for stream in self._found:
            os.set_blocking(stream.fileno(), True)

    def found(self, stream: IO[bytes] | None) -> bytes:
        """What came from an output."""
        return self._found.get(stream, b"") if stream is not None else b""

    def _read(self, stream: IO[bytes]) -> None:
        piece = os.read(stream.fileno(), _MOST_BYTES)
        self._found[stream] += piece
        if not piece:
            self._outputs.discard(stream)

    def _write(self) -> None:
        assert self._input is not None
        try:
            n_written = os.write(self._input.fileno(), self._left[:_MOST_BYTES])
            self._left = self._left[n_written:]
        except BrokenPipeError:
            self._left = memoryview(b"")
        if not self._left:
            self._input.close()
            self._input = None


def _still_open(stream: IO[bytes] | None) -> IO[bytes] | None:
    return None if stream is None or stream.closed else stream
