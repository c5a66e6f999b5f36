"""The same step on one machine: a folder of Parquet files, one bucket of keys per task of joblib."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from accous.exceptions import DataError
from accous.extras import import_extra
from accous.keyed.bucket_step import BucketStep
from accous.keyed.newest import newest_states
from accous.keyed.pages import hash_key
from accous.keyed.shipped_model import ShippedModel
from accous.parameters import require_integer

__all__ = ["adapt_folder"]


def adapt_folder(
    source: str | os.PathLike[str],
    model: Any,
    output: str | os.PathLike[str],
    *,
    key: str,
    time: str | None = None,
    number: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    buckets: int = 16,
    n_jobs: int = 1,
    trust_every: int | None = 64,
    is_last: bool = False,
    **settings: Any,
) -> int:
    """Predict and learn from Parquet files of rows of many keys, without an engine.

    The arguments are those of `accous.spark.adapt_table`. All rows and all states that the keys go on from are in
    memory at once. A bucket is written to one file when it is done. Files of an earlier call in the same folder are
    removed first.

    Parameters
    ----------
    source : path
        A Parquet file, or a folder of them.
    model : path, AdaptiveClassifier or TableModel
    output : path
        A folder for one file per bucket.
    key, time, number : str
    resume : path, optional
        The output of an earlier call, or what a stream wrote: its keys go on from their newest states. It must be
        another folder than ``output``.
    buckets : int, default=16
    n_jobs : int, default=1
        Processes.
    trust_every : int or None, default=64
    is_last : bool, default=False
    **settings
        Of `KeyedAdapter`.

    Returns
    -------
    int
        Number of rows.
    """
    require_integer("buckets", buckets, at_least=1)
    datasets = import_extra("pyarrow.dataset", "adapt_folder")
    if not Path(source).exists():
        raise DataError(f"There is no table at {source}: give a Parquet file or a folder of them.")
    rows = datasets.dataset(str(source), format="parquet", partitioning="hive").to_table()
    if resume is not None and Path(resume).resolve() == Path(output).resolve():
        raise DataError(
            f"adapt_folder cannot write to {output}, which it resumes from: rows would count twice if it had to be run "
            "again. Give another folder for the output."
        )
    if key not in rows.column_names:
        raise DataError(f"The rows have no column {key!r}: they have {', '.join(rows.column_names)}.")
    step = BucketStep(
        ShippedModel(model, settings), key, time, number, trust_every, "all", is_batch=True, is_last=is_last
    )
    step.shipped.unpack()  # a model that keys cannot share is refused before anything is removed
    states = {} if resume is None else _states(datasets, resume, key)
    folder = _clean(Path(output))
    parts = _split(rows.column(key).to_pylist(), buckets)
    known = _split(list(states), buckets)
    names = list(states)
    Parallel(n_jobs=n_jobs)(
        delayed(_play)(
            step,
            rows.take(parts[bucket]),
            {names[place]: states[names[place]] for place in known[bucket].tolist()},
            folder / f"bucket-{bucket:05d}.parquet",
        )
        for bucket in range(buckets)
    )
    return int(rows.num_rows)


def _clean(folder: Path) -> Path:
    """Make the folder, and remove what an earlier call left there: it may have had other keys in more buckets."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("bucket-*.parquet"), *folder.glob("bucket-*.part")):
        old.unlink()
    return folder


def _split(keys: list[Any], buckets: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the places of the keys of each bucket."""
    if None in keys:
        raise DataError(f"The key is missing in row {keys.index(None)}: give every row a key, or leave such rows out.")
    hashed = {key: hash_key(key) % buckets for key in set(keys)}
    numbers = np.array([hashed[key] for key in keys], dtype=np.int64)
    return [np.flatnonzero(numbers == bucket) for bucket in range(buckets)]


def _states(datasets: Any, folder: str | os.PathLike[str], key: str) -> dict[Any, bytes]:
    # Spark keeps the kind in the names of folders.
    table = datasets.dataset(str(folder), format="parquet", partitioning="hive").to_table(
        columns=[key, "state"], filter=datasets.field("kind") == "state"
    )
    return newest_states(zip(table.column(key).to_pylist(), table.column("state").to_pylist(), strict=True))


def _play(step: BucketStep, rows: Any, states: dict[Any, bytes], target: Path) -> None:
    parquet = import_extra("pyarrow.parquet", "adapt_folder")
    _, table = step(rows, states)
    partial = target.with_suffix(".part")
    parquet.write_table(table, partial)
    partial.replace(target)
