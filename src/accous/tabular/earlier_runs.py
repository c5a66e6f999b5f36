"""The runs that a model remembers, so that late labels find the predictions and the stream they are about."""

from __future__ import annotations

from collections.abc import Sequence

from accous.tabular.formats.sources import STDIN
from accous.tabular.job_record import Job, absolute

__all__ = ["MOST_RUNS", "find_run", "last_run_with_rows", "remember_run"]

MOST_RUNS = 64
"""Runs that a model remembers besides the last one; the oldest are forgotten first."""


def remember_run(earlier: Sequence[Job], before: Job | None, now: Job) -> tuple[Job, ...]:
    """Return the earlier runs, oldest first, when another one begins.

    Parameters
    ----------
    earlier : sequence of Job
    before : Job, optional
        The run that was the last one. It is not remembered if it has predicted nothing, or nothing into a file.
    now : Job
        The run that begins; it replaces what an earlier one has written into the same file.
    """
    runs = [*earlier, *([] if before is None else [before])]
    kept = [run for run in runs if run.n_rows and run.spec.output not in (STDIN, now.spec.output)]
    return tuple(kept[-MOST_RUNS:])


def last_run_with_rows(job: Job | None, earlier: Sequence[Job]) -> Job | None:
    """Return the last run that has predicted rows; the last one if there is none, and None without a run."""
    return next((run for run in _newest_first(job, earlier) if run.n_rows), job)


def find_run(job: Job | None, earlier: Sequence[Job], predictions: str) -> Job | None:
    """Return the run that has written a file; None if no run that is remembered has."""
    place = absolute(predictions)
    return next((run for run in _newest_first(job, earlier) if run.spec.output == place), None)


def _newest_first(job: Job | None, earlier: Sequence[Job]) -> list[Job]:
    return [*([] if job is None else [job]), *reversed(earlier)]
