"""A progress bar for a grid of runs, with the remaining time estimated from finished runs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from rich.console import Console

    from accous_bench.run import Run

__all__ = ["GridProgress"]

_SECONDS_BETWEEN_LINES = 20.0


class GridProgress:
    """Shows how many runs are done and how long the others will take.

    Runs of one contender take about equally long, but contenders may differ by a factor of a hundred. The remaining
    time is therefore estimated by contender, data set, rounds and batch size.

    Parameters
    ----------
    runs : sequence of Run
    n_jobs : int
        Number of runs in parallel.
    console : Console
    """

    def __init__(self, runs: Sequence[Run], n_jobs: int, console: Console) -> None:
        self._n_jobs = n_jobs
        self._left = Counter(_kind(run.names) for run in runs)
        self._seconds: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        self._n_failed = 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        is_hidden = console.quiet or not console.is_terminal
        self._progress = Progress(
            *columns,
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=is_hidden,
        )
        self._console, self._is_hidden, self._last_word = console, is_hidden, time.monotonic()
        self.n_finished, self._n_runs = 0, len(runs)
        self._task = self._progress.add_task("runs", total=len(runs), left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def note(self, row: dict[str, Any]) -> None:
        """Update the bar after a finished run."""
        kind = _kind(row)
        self._left[kind] -= 1
        self._seconds[kind].append(float(row["seconds"]))
        self._n_failed += row["status"] == "failed"
        left = f"about {timedelta(seconds=round(self.seconds_left()))} left"
        failures = f", {self._n_failed} failed" if self._n_failed else ""
        what = f"{row['dataset']} {row['shift']} {row['contender']}"
        self.n_finished += 1
        if self._is_hidden and time.monotonic() - self._last_word > _SECONDS_BETWEEN_LINES:
            # In a log file, print lines instead of a bar.
            self._console.print(f"{self.n_finished} of {self._n_runs} runs finished, {left}{failures}")
            self._last_word = time.monotonic()
        self._progress.update(self._task, advance=1, left=left + failures, description=what)

    def seconds_left(self) -> float:
        """Estimate from the mean time of finished runs of the same kind, or of all runs if there are none yet."""
        finished = [seconds for times in self._seconds.values() for seconds in times]
        overall = sum(finished) / len(finished)
        means = {kind: sum(times) / len(times) for kind, times in self._seconds.items()}
        return sum(count * means.get(kind, overall) for kind, count in self._left.items()) / self._n_jobs


def _kind(names: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(names[key] for key in ("contender", "dataset", "n_rounds", "batch_size"))
