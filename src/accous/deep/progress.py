"""A progress bar for long work: it appears after two seconds on a terminal, or at once on request."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from accous.extras import has_package

__all__ = ["LateBar"]

_SECONDS_OF_PATIENCE = 2.0


class LateBar:
    """A progress bar on standard error that appears only when work takes long, and only where rich is installed.

    Parameters
    ----------
    description : str
    total : int
    verbose : bool
        Show it at once, even if standard error is not a terminal.
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
        """Count ``n`` more as done, and update the description if given."""
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
