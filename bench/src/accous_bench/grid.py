"""Runs a grid on this machine's cores or on a cluster, and writes each run to a file as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from accous.exceptions import AccousError, MissingExtraError
from accous_bench.results import append_row, finished_runs, read_rows, repair
from accous_bench.run import Run, play

__all__ = ["WorkerDiedError", "play_grid", "unfinished"]


class WorkerDiedError(AccousError):
    """A worker process died during a run, for example because memory ran out."""


def unfinished(runs: Sequence[Run], file: Path) -> list[Run]:
    """Return the runs that are not finished in the file; an incomplete last line of the file is removed."""
    repair(file)
    finished = finished_runs(read_rows(file)) if file.is_file() else set()
    return [run for run in runs if run.identity() not in finished]


def play_grid(
    runs: Sequence[Run],
    file: Path,
    *,
    n_jobs: int = 1,
    dask: str | None = None,
    on_row: Callable[[dict[str, Any]], None] = lambda _: None,
) -> None:
    """Execute runs and append their records to a file, in the order in which they finish.

    The numbers do not depend on ``n_jobs`` or on the cluster: every run has its own seed and one BLAS thread.

    Parameters
    ----------
    runs : sequence of Run
    file : Path
    n_jobs : int, default=1
        Number of processes on this machine.
    dask : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers execute the runs instead.
    on_row : callable, optional
        Called with each record after it has been written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with _backend(n_jobs, dask):
        rows = Parallel(return_as="generator_unordered", batch_size=1)(delayed(play)(run) for run in runs)
        for row in _until_a_worker_dies(rows):
            append_row(file, row)
            on_row(row)


@contextmanager
def _backend(n_jobs: int, dask: str | None) -> Iterator[None]:
    if dask is None:
        with parallel_config(backend="loky", n_jobs=n_jobs):
            yield
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        message = "--dask needs distributed, which is not installed: pip install 'accous[dask]' adds it."
        raise MissingExtraError(message, name="distributed") from error
    try:
        client = Client(dask, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise AccousError(
            f"There is no Dask scheduler at {dask} ({error}): start one, or run without --dask."
        ) from error
    with client, parallel_config(backend="dask", client=client, wait_for_workers_timeout=60):
        yield


def _until_a_worker_dies(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        yield from rows
    except TerminatedWorkerError as error:
        raise WorkerDiedError(
            "A worker process was killed, perhaps because memory ran out. Finished runs are kept: run the "
            "same command again with fewer --jobs."
        ) from error
