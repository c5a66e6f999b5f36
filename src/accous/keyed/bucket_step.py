"""The step of a bucket of keys on Arrow tables: what Spark, Dask, Ray and a single machine call alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accous.exceptions import DataError
from accous.extras import import_extra
from accous.keyed.predictions import KeyEvent, Predictions
from accous.keyed.readings import KeyReading
from accous.keyed.shipped_model import ShippedModel
from accous.table.rows import to_polars

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OUTPUT_FIELDS", "BucketStep", "features_of", "output_schema"]

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
    "verdict": "string",
    "estimated_error": "double",
    "estimated_error_low": "double",
    "estimated_error_high": "double",
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
    trust_every : int or None
        A key's verdict is in the result whenever its rounds pass a multiple of this number.
        None leaves verdicts out.
    with_states : {"none", "new", "all"}
        Which states the result has too: those of keys that had rows, or also those that were known before.
    is_batch : bool
        Whether this is the only call for these rows, so that every key gets a verdict.
    is_last : bool
        Whether no more rows will come.
    """

    shipped: ShippedModel
    key: str
    time: str | None = None
    number: str | None = None
    trust_every: int | None = 64
    with_states: str = "none"
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
        keys = self._column(rows, self.key).to_pylist()
        times = None if self.time is None else _seconds(self._column(rows, self.time))
        numbers = None if self.number is None else self._column(rows, self.number).to_numpy(zero_copy_only=False)
        after, predictions, events = adapter.step_many(
            states, keys, times, features_of(model, rows), numbers=numbers, is_last=self.is_last
        )
        readings = self._readings(adapter, states, after)
        shown = {"none": {}, "new": after, "all": {**states, **after}}[self.with_states]
        return after, self._table(rows.schema.field(self.key).type, predictions, events, readings, shown)

    def _column(self, rows: pa.Table, name: str) -> Any:
        if name not in rows.column_names:
            raise DataError(f"The rows have no column {name!r}: they have {', '.join(rows.column_names)}.")
        return rows.column(name).combine_chunks()

    def _readings(self, adapter: Any, before: dict[Any, bytes], after: dict[Any, bytes]) -> list[KeyReading]:
        if self.trust_every is None:
            return []
        every = self.trust_every
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
        "key": [event.key for event in events],
        "time": [event.time for event in events],
        "round": [event.round for event in events],
        "event": [event.kind for event in events],
        "size": [event.size for event in events],
        "columns": [",".join(event.columns) for event in events],
        "rounds_to_adapt": [event.rounds_to_adapt for event in events],
    }


def _of_readings(readings: list[KeyReading]) -> dict[str, Any]:
    return {
        "kind": ["trust"] * len(readings),
        "key": [reading.key for reading in readings],
        "time": [reading.time for reading in readings],
        "round": [reading.rounds for reading in readings],
        "verdict": [reading.verdict for reading in readings],
        "estimated_error": [reading.estimated_error for reading in readings],
        "estimated_error_low": [reading.estimated_error_low for reading in readings],
        "estimated_error_high": [reading.estimated_error_high for reading in readings],
        "effective_rows": [reading.effective_rows for reading in readings],
        "drift": [reading.drift for reading in readings],
        "columns": [",".join(reading.columns) for reading in readings],
    }
