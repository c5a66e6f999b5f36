"""Keys in tables: the step on Arrow tables that engines call, folders of Parquet, newest states, the fleet."""

from __future__ import annotations

import hashlib
import math
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed

from accous.diagnostics.status import DEGRADED, HEALTHY, UNCERTAIN
from accous.exceptions import CheckpointError, DataError, ParameterError
from accous.keyed.adapter import KeyedAdapter, KeyReading
from accous.keyed.shared import KeyEvent, Predictions
from accous.keyed.state import StateFormat
from accous.model.estimators import AdaptiveRegressor
from accous.model_folders import load, save
from accous.table.rows import to_polars
from accous.text import import_extra, require_integer

if TYPE_CHECKING:
    import pyarrow as pa


# --- A model on its way to workers: the bytes of its folder, and the adapter that each worker makes of them
#     once


_ADAPTERS: dict[tuple[str, str], tuple[Any, KeyedAdapter]] = {}


class ShippedModel:
    """A fitted model and the settings of its keys, in a form that can be sent to other processes.

    What is sent is the folder that `accous.save` writes, so nothing of the model is ever unpickled.

    Parameters
    ----------
    model : path, AdaptiveClassifier or TableModel
    settings : dict
        Of `KeyedAdapter`.
    """

    def __init__(self, model: Any, settings: dict[str, Any]) -> None:
        self.settings = dict(settings)
        if isinstance(model, (str, Path)):
            self.files = _read_folder(Path(model))
        else:
            with tempfile.TemporaryDirectory() as folder:
                save(model, folder)
                self.files = _read_folder(Path(folder))
        if not self.files:
            raise ParameterError(f"There is no saved model in {model}: make one with accous.save or accous fit.")

    @cached_property
    def digest(self) -> str:
        """A name for these bytes."""
        digest = hashlib.blake2b(digest_size=16)
        for name, content in sorted(self.files.items()):
            digest.update(name.encode() + b"\0" + content)
        return digest.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "files": self.files, "digest": self.digest}

    def unpack(self) -> tuple[Any, KeyedAdapter]:
        """Return the model and its adapter; a process makes them once."""
        name = self.digest, repr(sorted(self.settings.items()))
        if name not in _ADAPTERS:
            with tempfile.TemporaryDirectory() as folder:
                for path, content in self.files.items():
                    target = Path(folder) / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
                model = load(folder)
            _ADAPTERS[name] = model, KeyedAdapter(_shareable(model), **self.settings)
        return _ADAPTERS[name]


def _shareable(model: Any) -> Any:
    """Return what keys share of a model; refuse a table's model that predicts numbers."""
    shared = getattr(model, "model", model)
    if shared is not model and isinstance(shared, AdaptiveRegressor):
        raise ParameterError(
            "Keys predict classes only, but this model predicts numbers: fit one with a label of classes "
            "(`accous fit --estimator linear`)."
        )
    if "feature_names_in_" not in vars(shared):
        return shared
    # The step finds the columns by their names and passes arrays; scikit-learn would warn that these have no names.
    shared = copy(shared)
    del shared.feature_names_in_
    return shared


def _read_folder(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


# --- The step of a bucket of keys on Arrow tables: what Spark, Dask, Ray and a single machine call alike


OUTPUT_FIELDS = {
    "kind": "string",
    "time": "double",
    "number": "bigint",
    "round": "bigint",
    "prediction": "string",
    "probability": "double",
    "event": "string",
    "size": "double",
    "columns": "string",
    "rounds_to_adapt": "bigint",
    "status": "string",
    "value": "double",
    "low": "double",
    "high": "double",
    "at_fit": "double",
    "effective_rows": "double",
    "drift": "double",
    "state": "binary",
}
"""The columns of the result besides the key, with their types in SQL; ``kind`` says which of them a row has."""


@dataclass(frozen=True)
class BucketStep:
    """Takes rows of some keys as an Arrow table, and returns their new states and a table of what there is to say.

    Parameters
    ----------
    shipped : ShippedModel
    key : str
        The column of the keys: texts or integers.
    time : str, optional
        The column of the times.
    number : str, optional
        A column of integers that names the rows in the result.
    status_every : int or None
        A key's status is in the result whenever its rounds pass a multiple of this number.
        None leaves it out.
    with_states : {"none", "new", "all"}
        Which states the result has too: those of keys that had rows, or also those that were known before.
    label : str, optional
        A column of labels. Rows that have one are not predicted: they tell their key what the truth of earlier rows is.
    is_batch : bool
        Whether this is the only call for these rows, so that every key gets a status.
    is_last : bool
        Whether no more rows will come.
    """

    shipped: ShippedModel
    key: str
    time: str | None = None
    number: str | None = None
    status_every: int | None = 64
    with_states: str = "none"
    label: str | None = None
    is_batch: bool = False
    is_last: bool = False

    def __post_init__(self) -> None:
        if self.key in OUTPUT_FIELDS:
            raise DataError(
                f"The column of keys is called {self.key!r}, as is a column of the result: rename it, for example to "
                f"'{self.key}_key'."
            )

    def __call__(self, rows: pa.Table, states: dict[Any, bytes]) -> tuple[dict[Any, bytes], pa.Table]:
        """Take the rows of a call.

        Parameters
        ----------
        rows : pyarrow.Table
        states : dict of key to bytes
            Of the keys that are known; only those with rows are read.
        """
        model, adapter = self.shipped.unpack()
        observed: dict[Any, bytes] = {}
        if self.label is not None:
            labels = self._column(rows, self.label)
            labelled, rows = rows.filter(labels.is_valid()), rows.filter(labels.is_null())
            if labelled.num_rows:
                names, truths = (self._column(labelled, each).to_pylist() for each in (self.key, self.label))
                observed = adapter.observe(states, names, features_of(model, labelled), truths)
        keys = self._column(rows, self.key).to_pylist()
        times = None if self.time is None else _seconds(self._column(rows, self.time))
        numbers = None if self.number is None else self._column(rows, self.number).to_numpy(zero_copy_only=False)
        after, predictions, events = adapter.step_many(
            {**states, **observed}, keys, times, features_of(model, rows), numbers=numbers, is_last=self.is_last
        )
        after = {**observed, **after}
        readings = self._readings(adapter, states, after)
        shown = {"none": {}, "new": after, "all": {**states, **after}}[self.with_states]
        return after, self._table(rows.schema.field(self.key).type, predictions, events, readings, shown)

    def _column(self, rows: pa.Table, name: str) -> Any:
        if name not in rows.column_names:
            raise DataError(f"The rows have no column {name!r}: they have {', '.join(rows.column_names)}.")
        return rows.column(name).combine_chunks()

    def _readings(self, adapter: Any, before: dict[Any, bytes], after: dict[Any, bytes]) -> list[KeyReading]:
        if self.status_every is None:
            return []
        every = self.status_every
        due = {
            key: state
            for key, state in after.items()
            if self.is_batch
            or adapter.rounds_of(state) // every > (adapter.rounds_of(before[key]) // every if before.get(key) else 0)
        }
        return adapter.readings(due) if due else []

    def _table(
        self,
        key_type: Any,
        predictions: Predictions,
        events: list[KeyEvent],
        readings: list[KeyReading],
        states: dict[Any, bytes],
    ) -> pa.Table:
        pyarrow = import_extra("pyarrow", "BucketStep")
        of_states = {"kind": ["state"] * len(states), "key": list(states), "state": list(states.values())}
        parts = [_of_predictions(predictions), _of_events(events), _of_readings(readings), of_states]
        schema = output_schema(pyarrow, key_type, self.key)
        tables = []
        for part in parts:
            n_rows = len(part["key"])
            if n_rows:
                part[self.key] = part.pop("key")
                arrays = [
                    pyarrow.array(part[each.name], type=each.type, from_pandas=True)
                    if each.name in part
                    else pyarrow.nulls(n_rows, each.type)
                    for each in schema
                ]
                tables.append(pyarrow.Table.from_arrays(arrays, schema=schema))
        return pyarrow.concat_tables(tables) if tables else schema.empty_table()


def output_schema(pyarrow: Any, key_type: Any, key: str) -> Any:
    """Return the schema of the result."""
    types = {
        "string": pyarrow.string(),
        "double": pyarrow.float64(),
        "bigint": pyarrow.int64(),
        "binary": pyarrow.binary(),
    }
    fields = [(name, types[kind]) for name, kind in OUTPUT_FIELDS.items()]
    return pyarrow.schema([(key, key_type), *fields])


def features_of(model: Any, rows: pa.Table) -> Any:
    """Return the rows as the classifier reads them: the columns of its reference, encoded if the model is a table's."""
    if hasattr(model, "prepare"):
        features = model.prepare(to_polars(rows.to_pandas()))
        if features.bad_values:
            bad = features.bad_values[0]
            raise DataError(f"Row {bad.row} of the rows, column {bad.column!r}: {bad.reason}; fix or remove the row.")
        return features.X
    names = getattr(model, "feature_names_in_", None)
    names = [f"x{column}" for column in range(model.n_features_in_)] if names is None else names.tolist()
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        raise DataError(f"The rows have no column {missing[0]!r}, which the model needs; it reads {', '.join(names)}.")
    if not rows.num_rows:
        return np.empty((0, len(names)))
    columns = []
    for name in names:
        column = rows.column(name)
        if column.null_count:
            raise DataError(f"Column {name!r} has missing values: fill them in, or leave such rows out.")
        values = column.to_numpy()
        if values.dtype.kind not in "iufb":
            raise DataError(
                f"Column {name!r} holds values of type {column.type}, but the model reads numbers there: turn them "
                "into numbers, or fit a model of tables with `accous fit`."
            )
        columns.append(values)
    return np.stack(columns, axis=1).astype(np.float64)


def _seconds(column: Any) -> Any:
    """Return times as numpy reads them: datetimes become seconds in `KeyedAdapter`."""
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise DataError(f"The time is missing in row {row}: give every row a time, or leave such rows out.")
    return column.to_numpy(zero_copy_only=False)


def _of_predictions(predictions: Predictions) -> dict[str, Any]:
    classes = predictions.classes.tolist()
    texts = {each: str(each) for each in set(classes)}
    return {
        "kind": ["prediction"] * len(predictions),
        "key": predictions.keys,
        "time": predictions.times,
        "number": predictions.numbers,
        "round": predictions.rounds,
        "prediction": [texts[each] for each in classes],
        "probability": predictions.probabilities.max(axis=1, initial=0.0),
    }


def _of_events(events: list[KeyEvent]) -> dict[str, Any]:
    return {
        "kind": ["event"] * len(events),
        "event": [event.kind for event in events],
        "columns": [",".join(event.columns) for event in events],
        **_fields(events, "key", "time", "round", "size", "rounds_to_adapt"),
    }


def _of_readings(readings: list[KeyReading]) -> dict[str, Any]:
    return {
        "kind": ["status"] * len(readings),
        "round": [reading.rounds for reading in readings],
        "status": [reading.state for reading in readings],
        "columns": [",".join(reading.columns) for reading in readings],
        **_fields(readings, "key", "time", "value", "low", "high", "at_fit", "effective_rows", "drift"),
    }


def _fields(records: list[Any], *names: str) -> dict[str, Any]:
    return {name: [getattr(each, name) for each in records] for name in names}


# --- All keys at a glance: what is known of each, worst first


def fleet(states: Mapping[Any, bytes], adapter: KeyedAdapter) -> list[KeyReading]:
    """Return what is known of each key, worst first; ``pandas.DataFrame(fleet(...))`` is a table with a row per key.

    Degraded keys come first, then uncertain ones; among them those whose inputs move, then the largest drift.

    Parameters
    ----------
    states : mapping of key to bytes
    adapter : KeyedAdapter
        With the model that the states belong to.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier
    >>> from accous.keyed import KeyedAdapter, fleet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> adapter = KeyedAdapter(AdaptiveClassifier().fit(X, X.sum(axis=1) + rng.normal(size=300) > 0))
    >>> keys = np.repeat(["still", "moving"], 400)
    >>> X_new = rng.normal(size=(800, 2)) + 1.5 * (keys == "moving")[:, None]
    >>> states, _, _ = adapter.step_many({}, keys, None, X_new)
    >>> [(reading.key, reading.drift > 0.2, reading.changes) for reading in fleet(states, adapter)]
    [('moving', True, 1), ('still', False, 0)]
    """
    return sorted(adapter.readings(states), key=_badness, reverse=True)


def _badness(reading: KeyReading) -> tuple[int, bool, float]:
    drift = 0.0 if math.isnan(reading.drift) else reading.drift
    return (HEALTHY, UNCERTAIN, DEGRADED).index(reading.state), reading.is_moving, drift


# --- Of several states of a key, the newest: results of streams hold one per micro-batch


def newest_states(pairs: Iterable[tuple[Any, bytes]]) -> dict[Any, bytes]:
    """Return the newest state of each key: the one that has seen most rows, and has run most rounds with them.

    Parameters
    ----------
    pairs : iterable of (key, bytes)
        In any order; a key may come several times. Pairs without a state are left out.

    Returns
    -------
    dict of key to bytes

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier
    >>> from accous.keyed import KeyedAdapter, newest_states
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> adapter = KeyedAdapter(AdaptiveClassifier().fit(X, X[:, 0] > 0))
    >>> first, _, _ = adapter.step(None, X[:7])
    >>> second, _, _ = adapter.step(first, X[7:9])
    >>> newest_states([("shop", second), ("shop", first)]) == {"shop": second}
    True
    """
    newest: dict[Any, tuple[tuple[int, int], bytes]] = {}
    for key, state in pairs:
        if state is not None:
            age = StateFormat.age(state, key)
            if key not in newest or age > newest[key][0]:
                newest[key] = age, bytes(state)
    return {key: state for key, (_, state) in newest.items()}


# --- Pages: the states of some keys as one value, for stores in which every value costs a round trip


_MAGIC = b"ACKP"
_HEADER = struct.Struct("<4sI")
_ENTRY = struct.Struct("<cII")


def pack_page(states: dict[Any, bytes]) -> bytes:
    """Return the states of some keys as one value.

    Examples
    --------
    >>> from accous.keyed.arrow import pack_page, unpack_page
    >>> unpack_page(pack_page({"a": b"state", 7: b"other"}))
    {'a': b'state', 7: b'other'}
    """
    parts = [_HEADER.pack(_MAGIC, len(states))]
    for key, state in states.items():
        kind, content = _encode(key)
        parts += [_ENTRY.pack(kind, len(content), len(state)), content, state]
    return b"".join(parts)


def unpack_page(page: bytes) -> dict[Any, bytes]:
    """Undo ``pack_page``."""
    if page[:4] != _MAGIC:
        raise CheckpointError("A page of states was not written by accous: the store belongs to something else.")
    states: dict[Any, bytes] = {}
    at = _HEADER.size
    try:
        for _ in range(_HEADER.unpack_from(page)[1]):
            kind, n_key, n_state = _ENTRY.unpack_from(page, at)
            at += _ENTRY.size
            key, at = page[at : at + n_key], at + n_key
            states[key.decode() if kind == b"s" else int(key)] = bytes(page[at : at + n_state])
            at += n_state
    except (struct.error, ValueError) as error:
        raise CheckpointError("A page of states is torn.") from error
    if at != len(page):
        raise CheckpointError("A page of states is torn.")
    return states


def hash_key(key: Any) -> int:
    """Return a number below 2^32 for a key, the same on every machine."""
    kind, content = _encode(key)
    return zlib.crc32(kind + content)


def _encode(key: Any) -> tuple[bytes, bytes]:
    if isinstance(key, str):
        return b"s", key.encode()
    if isinstance(key, int) and not isinstance(key, bool):
        return b"i", str(key).encode()
    raise DataError(f"A key of type {type(key).__name__} cannot be stored: make the column of keys text or integers.")


# --- The same step on one machine: a folder of Parquet files, one bucket of keys per task of joblib


def adapt_folder(
    source: str | os.PathLike[str],
    model: Any,
    output: str | os.PathLike[str],
    *,
    key: str,
    time: str | None = None,
    number: str | None = None,
    label: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    buckets: int = 16,
    n_jobs: int = 1,
    status_every: int | None = 64,
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
    key, time, number, label : str
    resume : path, optional
        The output of an earlier call, or what a stream wrote: its keys go on from their newest states. It must be
        another folder than ``output``.
    buckets : int, default=16
    n_jobs : int, default=1
        Processes.
    status_every : int or None, default=64
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
        ShippedModel(model, settings), key, time, number, status_every, "all", label, is_batch=True, is_last=is_last
    )
    step.shipped.unpack()  # a model that keys cannot share is refused before anything is removed
    states = {} if resume is None else _states(datasets, resume, key)
    folder = _clean(Path(output))
    parts = _split(rows.column(key).to_pylist(), buckets)
    known = _split(list(states), buckets)
    names = list(states)
    Parallel(n_jobs=n_jobs)(
        delayed(_run_step)(
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


def _run_step(step: BucketStep, rows: Any, states: dict[Any, bytes], target: Path) -> None:
    parquet = import_extra("pyarrow.parquet", "adapt_folder")
    _, table = step(rows, states)
    partial = target.with_suffix(".part")
    parquet.write_table(table, partial)
    partial.replace(target)
