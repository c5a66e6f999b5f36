"""A crash at a chosen file operation: every call that `save` makes of the operating system is counted."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self
from unittest.mock import patch

from accous.checkpoint.files import DigestStream

OPERATIONS = ["open", "mkdir", "fsync", "replace", "unlink"]


class Operations:
    """While inside, the operation of a given number meets its end, and so do all that follow it.

    Parameters
    ----------
    number : int
        Which one, counted from 0.
    when : {"before", "after"}
        Whether it is still carried out; a write of which it is not is cut in half.
    end : callable
        Kills the process or raises.
    """

    def __init__(self, number: int, when: str, end: Callable[[], None]) -> None:
        self.number, self.when, self.end = number, when, end
        self.n_seen = 0
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for name in OPERATIONS:
            self._patches.enter_context(patch.object(os, name, self._wrap(getattr(os, name))))
        self._patches.enter_context(patch.object(DigestStream, "write", self._wrap_write(DigestStream.write)))
        return self

    def __exit__(self, *error: object) -> None:
        self._patches.close()

    def _wrap(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def carry_out(*args: Any, **kwargs: Any) -> Any:
            number, self.n_seen = self.n_seen, self.n_seen + 1
            if number > self.number or (number == self.number and self.when == "before"):
                self.end()
            result = operation(*args, **kwargs)
            if number == self.number:
                self.end()
            return result

        return carry_out

    def _wrap_write(self, write: Callable[[DigestStream, bytes], int]) -> Callable[[DigestStream, bytes], int]:
        def carry_out(stream: DigestStream, content: bytes) -> int:
            if self.n_seen == self.number and self.when == "before":
                write(stream, content[: len(content) // 2])
                stream.flush()
            return self._wrap(write)(stream, content)

        return carry_out
