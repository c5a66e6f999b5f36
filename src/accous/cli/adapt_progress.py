"""The progress bar of ``accous adapt``: rounds, rows per second, and errors if there are labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.diagnostics.losses import LossScale
    from accous.table.runs import Job

__all__ = ["AdaptProgress"]

_SECONDS_BETWEEN = 0.1


class AdaptProgress:
    """A bar on a terminal, nothing elsewhere.

    Parameters
    ----------
    console : rich.console.Console
    share_read : callable
        Share of the stream read so far; None where its size is unknown.
    scale : LossScale
        How errors are written.
    """

    def __init__(self, console: Console, share_read: Callable[[], float | None], scale: LossScale) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._share_read, self._scale = share_read, scale
        is_shown = console.is_terminal and not console.quiet
        columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not is_shown)
        self._is_shown = is_shown
        self._next_time = 0.0
        self._start_time, self._start_rows = time.monotonic(), -1

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("Reading", total=None if self._share_read() is None else 1.0)
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, job: Job) -> None:
        """Show the progress of a job, at most ten times per second."""
        if not self._is_shown:
            return
        now = time.monotonic()
        if self._start_rows < 0:
            self._start_rows = job.n_rows
        if now < self._next_time:
            return
        self._next_time = now + _SECONDS_BETWEEN
        rate = (job.n_rows - self._start_rows) / max(now - self._start_time, 1e-9)
        text = f"round {job.n_rounds:,}, {count(job.n_rows, 'row')}, {rate:,.0f} rows per second"
        if job.n_scored:
            fixed, ours = (self._scale.shown(each / job.n_scored) for each in (job.n_wrong_fixed, job.n_wrong))
            text += f"; {self._scale.name} of the fixed model {fixed}, of accous {ours}"
        self._bar.update(self._task, description=text, completed=self._share_read() or 0.0)
