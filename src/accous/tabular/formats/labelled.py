"""Labels in a separate file: its first row belongs to the first row of the table, and so on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import DataError, ParameterError
from accous.tabular.formats.chunks import Chunk, Position, TableReader, no_such_column
from accous.tabular.formats.npy import open_array
from accous.tabular.formats.opening import has_known_ending, open_table
from accous.tabular.formats.values import exactly
from accous.text import count

__all__ = ["LABEL", "LabelledTable", "place_of_labels", "read_label_array", "with_labels"]

LABEL = "label"  # what labels are called that come without a name


class LabelledTable:
    """A table of numbered rows with one more column.

    Parameters
    ----------
    table : TableReader
        Whose rows are counted.
    labels : polars.Series
        As many; also an attribute.
    """

    def __init__(self, table: TableReader, labels: pl.Series) -> None:
        self._table, self.labels = table, labels
        self.name, self.unit = table.name, table.unit
        self.widths, self.n_rows = table.widths, table.n_rows
        self.columns = [*table.columns, labels.name]
        self.close, self.share_read = table.close, table.share_read
        self.read_as_numbers, self.read_if_simple = table.read_as_numbers, table.read_if_simple

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars types of these columns."""
        own = {self.labels.name: self.labels.dtype} if self.labels.name in wanted else {}
        return self._table.column_types([name for name in wanted if name not in own]) | own

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rest of the table, with the labels."""
        has_label = self.labels.name in wanted
        for chunk in self._table.chunks([name for name in wanted if name != self.labels.name], start):
            if chunk is None or not has_label:
                yield chunk
                continue
            frame = chunk.frame.with_columns(self.labels[chunk.lines - 1]).select(exactly(wanted))
            yield replace(chunk, frame=frame)


def with_labels(table: TableReader, label: str) -> tuple[TableReader, str]:
    """Return a table that has the labels, and the name of their column.

    Parameters
    ----------
    table : TableReader
    label : str
        A column of it, an .npy file of labels, or another table's only column, or one of its columns as
        ``FILE:COLUMN``.
    """
    if label in table.columns:
        return table, label
    place = place_of_labels(label)
    if place is None:
        if list(table.widths) and table.n_rows is not None and len(table.columns) == sum(table.widths.values()):
            raise ParameterError(
                f"{table.name} has embeddings and no column {label!r}: give the file of its labels, such as "
                "--label labels.npy or --label labels.csv:COLUMN."
            )
        return table, label  # whoever reads the column will miss it
    if table.n_rows is None:
        raise ParameterError(
            f"--label {label} names a file, but {table.name} is a text file, whose labels are one of its columns: add "
            f"the column. To score predictions with a file of labels, run accous adapt without --label, then accous "
            f"labels MODEL {place[0]}. Files of labels work as --label for .npy and Parquet."
        )
    labels = _read_labels(*place)
    if len(labels) != table.n_rows:
        raise ParameterError(
            f"{place[0]} has {count(len(labels), 'label')} for the {count(table.n_rows, 'row')} of {table.name}: there "
            "must be one label per row, in the same order."
        )
    if labels.name in table.columns:
        raise ParameterError(f"{table.name} already has a column {labels.name!r}: rename the one in {place[0]}.")
    return LabelledTable(table, labels), labels.name


def place_of_labels(label: str) -> tuple[str, str] | None:
    """Return the file and column of labels; None if ``label`` names no file.

    Examples
    --------
    >>> place_of_labels("labels.csv:species"), place_of_labels("species")
    (('labels.csv', 'species'), None)
    """
    if has_known_ending(label):
        return label, ""
    path, _, column = label.rpartition(":")
    return (path, column) if column and has_known_ending(path) else None


def _read_labels(path: str, column: str) -> pl.Series:
    if path.lower().endswith(".npy"):
        return read_label_array(path, column)
    table = open_table(path)
    try:
        if not column and len(table.columns) != 1:
            raise ParameterError(f"{path} has {len(table.columns)} columns: name one, --label {path}:COLUMN.")
        column = column or table.columns[0]
        if column not in table.columns:
            raise no_such_column(table, column)
        pieces = []
        for chunk in table.chunks([column], Position()):
            if chunk is not None and chunk.bad_rows:
                bad = chunk.bad_rows[0]
                raise DataError(f"{table.name}, {table.unit} {bad.line}: {bad.reason}.")
            if chunk is not None:
                pieces.append(chunk.frame[column])
    finally:
        table.close()
    return pl.concat(pieces) if pieces else pl.Series(column, [], dtype=pl.String)


def read_label_array(path: str, column: str = "") -> pl.Series:
    """Read labels from a 1-D .npy array; such an array has no columns to name."""
    array = open_array(path)
    if array.ndim != 1 or column:
        raise ParameterError(f"{path} holds an array of shape {array.shape}: labels are a 1-D array without columns.")
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{path} holds texts that are not UTF-8: save labels.astype(str).") from None
    if array.dtype.kind == "f":
        return _numbers(np.asarray(array, dtype=np.float64))
    if array.dtype.kind not in "biuU":
        raise DataError(f"{path} holds values of type {array.dtype}: labels are numbers or texts.")
    return pl.Series(LABEL, array.tolist(), dtype=pl.String) if array.dtype.kind == "U" else pl.Series(LABEL, array)


def _numbers(values: np.ndarray[Any, np.dtype[np.float64]]) -> pl.Series:
    """Read floats: whole numbers may be classes and are written without a point; NaN is a missing label."""
    is_there = ~np.isnan(values)
    known = np.where(is_there, values, 0.0)
    is_whole = bool((np.abs(known) <= 1e15).all()) and bool((known % 1.0 == 0.0).all())
    return pl.Series(LABEL, known.astype(np.int64) if is_whole else known).set(pl.Series(~is_there), None)
