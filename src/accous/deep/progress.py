"""A bar for work that may take long: seen on a terminal after two seconds, at once where it is asked for."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from accous.extras import has_package

__all__ = ["LateBar"]

_SECONDS_OF_PATIENCE = 2.0


class LateBar:
    """A bar on standard error that is there only when somebody waits for it, and only where rich is installed.

    Parameters
    ----------
    description : str
    total : int
    verbose : bool
        Show it at once, and also where standard error is no terminal.
    """

    def __init__(self, description: str, total: int, *, verbose: bool) -> None:
        self._description, self._total, self._verbose = description, total, verbose
        self._begin, self._done = time.monotonic(), 0
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        if self._verbose:
            self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, n: int = 1, *, description: str | None = None) -> None:
        """Count ``n`` more as done, and say something new."""
        self._done += n
        self._description = description or self._description
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done, description=self._description)
        elif sys.stderr.isatty() and time.monotonic() - self._begin > _SECONDS_OF_PATIENCE:
            self._show()

    def _show(self) -> None:
        if not has_package("rich"):
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(self._description, total=self._total, completed=self._done)
        self._progress.start()
