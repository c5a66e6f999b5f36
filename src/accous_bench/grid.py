"""All runs of a grid, on this machine's cores or on a cluster, each written down as soon as it is finished."""

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
    """A process that played a run died, as it does when memory runs out."""


def unfinished(runs: Sequence[Run], file: Path) -> list[Run]:
    """Runs that are not among the file's finished ones; the file is mended if its last line is torn."""
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
    """Play runs and append their records to a file, in the order in which they finish.

    The numbers do not depend on ``n_jobs`` or on the cluster: every run has its own seed and one BLAS thread.

    Parameters
    ----------
    runs : sequence of Run
    file : Path
    n_jobs : int, default=1
        Processes on this machine.
    dask : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers play the runs instead.
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
        client = Client(dask, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise AccousError(f"There is no Dask scheduler at {dask} ({error}): start one, or leave --dask out.") from error
    with client, parallel_config(backend="dask", client=client, wait_for_workers_timeout=60):
        yield


def _until_a_worker_dies(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        yield from rows
    except TerminatedWorkerError as error:
        raise WorkerDiedError(
            "A process that played a run was killed, perhaps for lack of memory: what was finished is kept, so run the "
            "same command again, with fewer --jobs."
        ) from error
