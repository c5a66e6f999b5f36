"""Rows of a request, encoded and checked: what is learned or predicted from them cannot fail for their sake."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.service.bodies import Label, LabelsBody, RowsBody, choices_of, decode_json, decode_rows
from accous.service.limits import Limits
from accous.service.refusals import Refusal
from accous.table.columns import Features, Marks, NumberColumn, PlainRowEncoder, frame_of_rows
from accous.table.model import TableModel

__all__ = ["Batch", "BatchReader", "key_text"]

_ALL_LABELS = 100_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded rows.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    marks : Marks
    times : array of shape (n_rows,), optional
    keys : list of str, optional
        What the client calls the rows.
    include : tuple of str
    alpha : float
    """

    X: NDArray[np.float64]
    marks: Marks
    times: NDArray[np.float64] | None
    keys: list[str] | None
    include: tuple[str, ...]
    alpha: float


class BatchReader:
    """Reads requests for one model.

    Parameters
    ----------
    table_model : TableModel
    limits : Limits
    """

    def __init__(self, table_model: TableModel, limits: Limits) -> None:
        self._table_model, self._limits = table_model, limits
        encoder, time = table_model.encoder, table_model.time_column
        self._plain = PlainRowEncoder(encoder)
        self._time = time
        self.columns = encoder.used_columns
        widths = table_model.settings.get("widths", {})
        self._numbers = [plan.name for plan in encoder.used if isinstance(plan, NumberColumn)] + list(widths)
        others = [*encoder.used_columns, *encoder.constants, *((time.name,) if time is not None else ())]
        self._others = [name for name in dict.fromkeys(others) if name not in self._numbers]
        # Ids of another model are not ids of this one.
        self.salt = zlib.crc32("\n".join([table_model.label, *self.columns]).encode("utf-8", "replace"))

    def read(self, body: bytes, content_type: str, options: dict[str, str]) -> Batch:
        """Return the rows of a request; refuse those that the model cannot use."""
        decoded = decode_rows(body, content_type, self._limits)
        if isinstance(decoded, RowsBody):
            return self.read_rows(decoded.rows, decoded.key, decoded.include, decoded.alpha)
        return self.read_frame(decoded, *choices_of(options))

    def read_rows(
        self, rows: Sequence[dict[str, Any]], key: str | None = None, include: tuple[str, ...] = (), alpha: float = 0.1
    ) -> Batch:
        """Return rows of plain values, encoded."""
        _require_alpha(alpha)
        keys = None if key is None else _keys([row.get(key) for row in rows], key)
        features = self._plain.encode(rows) if self._time is None else None
        if features is not None:
            return Batch(features.X, features.marks, None, keys, include, alpha)
        frame = frame_of_rows(rows, self._numbers, self._others)
        return self._batch(frame, len(rows), keys, include, alpha)

    def read_frame(
        self, frame: pl.DataFrame, key: str | None = None, include: tuple[str, ...] = (), alpha: float = 0.1
    ) -> Batch:
        """Return the rows of a frame, encoded."""
        _require_alpha(alpha)
        keys = None
        if not frame.height:
            self._require_columns(frame)
        if key is not None:
            values = frame[key].to_list() if key in frame.columns else [None] * max(1, frame.height)
            keys = _keys(values, key)
        return self._batch(frame, frame.height, keys, include, alpha)

    def read_labels(self, body: bytes, content_type: str) -> list[Label]:
        """Return late labels, each place once; refuse those that contradict each other or cannot be used."""
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "unsupported_content_type", "Labels come as JSON: set Content-Type: application/json.")
        labels = decode_json(body, LabelsBody, self._limits, most_objects=2 * _ALL_LABELS).labels
        if not labels:
            raise Refusal(422, "no_labels", "There is no label in the request.")
        if len(labels) > _ALL_LABELS:
            raise Refusal(413, "too_many_rows", f"A request may have {_ALL_LABELS:,} labels.")
        seen: dict[tuple[bool, str], Label] = {}
        for number, each in enumerate(labels):
            if (each.id is None) == (each.key is None):
                raise Refusal(422, "invalid", f"Label {number} (counted from 0) needs an id or a key, one of them.")
            if each.row is not None:
                self._require_row(each.row, number)
            place = (each.id is None, each.id if each.id is not None else key_text(each.key))
            before = seen.setdefault(place, each)
            if key_text(before.label) != key_text(each.label):
                raise Refusal(
                    422, "contradiction", f"Label {number} (counted from 0) contradicts another label of its row."
                )
        return list(seen.values())

    def frame_of(self, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
        """Return rows of plain values as a frame with the model's columns."""
        return frame_of_rows(rows, self._numbers, self._others)

    def _require_row(self, row: dict[str, Any], number: int) -> None:
        if any(name in row for name in self.columns):
            self._usable(self._prepared(self.frame_of([row])), number)
        else:
            raise Refusal(422, "invalid", f"The row of label {number} (counted from 0) has no column of the model.")

    def _batch(
        self, frame: pl.DataFrame, n_rows: int, keys: list[str] | None, include: tuple[str, ...], alpha: float
    ) -> Batch:
        if not n_rows:
            empty = np.empty((0, len(self._table_model.encoder.feature_names)))
            hits = np.empty((0, len(self._table_model.encoder.marks)), dtype=np.uint8)
            return Batch(empty, Marks(hits, pl.DataFrame()), None, keys, include, alpha)
        features = self._usable(self._prepared(frame))
        times = None if self._time is None else self._time.seconds(frame)
        return Batch(features.X, features.marks, times, keys, include, alpha)

    def _require_columns(self, frame: pl.DataFrame) -> None:
        try:
            self._table_model.encoder.require_columns(frame.columns, "The request")
        except DataError as error:
            raise Refusal(422, "wrong_columns", str(error)) from None

    def _prepared(self, frame: pl.DataFrame) -> Features:
        try:
            return self._table_model.prepare(frame)
        except DataError as error:
            message = str(error).replace("The frame", "The request").replace("of the frame", "of the request")
            raise Refusal(422, "wrong_columns", message) from None
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise Refusal(
                422, "wrong_columns", "The columns of the request cannot be read: check their types."
            ) from None

    def _usable(self, features: Features, label: int | None = None) -> Features:
        if features.bad_values:
            bad = features.bad_values[0]
            where = f"Row {bad.row}" if label is None else f"The row of label {label}"
            raise Refusal(
                422,
                "bad_value",
                f"{where} (counted from 0), column {bad.column!r}: {bad.reason}; fix or remove the row.",
                row=bad.row if label is None else label,
                column=bad.column,
            )
        return features


def key_text(value: Any) -> str:
    """Return a key or a label as text: 7 and 7.0 are the same.

    Examples
    --------
    >>> key_text(7.0), key_text("a"), key_text(True)
    ('7', 'a', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _keys(values: list[Any], key: str) -> list[str]:
    for row, value in enumerate(values):
        if value is None or isinstance(value, (list, dict, bytes)):
            raise Refusal(422, "no_key", f"Row {row} (counted from 0) has no value in the key column {key!r}.", row=row)
    return [key_text(value) for value in values]


def _require_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise Refusal(422, "invalid", f"alpha must be above 0 and below 1, got {alpha:g}.")
