"""Late labels and the predictions they belong to: both tables, and the rows that match by key or by row number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from accous.exceptions import DataError, ParameterError
from accous.tabular.formats.chunks import Chunk, Position, TableReader, no_such_column, require_usable
from accous.tabular.formats.labelled import read_label_array
from accous.tabular.formats.opening import format_of, open_table
from accous.tabular.formats.values import to_texts

__all__ = ["LINE", "LabelTable", "match_predictions", "n_header_lines", "place_texts", "read_label_table"]

LINE = "line"
"""The column that holds the line number of a row in the stream."""

_FORMATS_WITH_HEADER = ("csv", "tsv")


@dataclass(frozen=True)
class LabelTable:
    """Labels and the rows they belong to.

    Attributes
    ----------
    rows : polars.DataFrame
        The columns ``place`` (key, or row number in the stream, as text) and ``label`` (text). Each place occurs once.
    n_read, n_missing, n_repeated : int
        Rows of the table, those without a label, and those that repeat a place and its label.
    """

    rows: pl.DataFrame
    n_read: int
    n_missing: int
    n_repeated: int


def n_header_lines(path: str, table_format: str | None) -> int:
    """Return how many lines come before the first row of a table, so that row 1 is line 1 or line 2."""
    return int((table_format or format_of(path, "--format")) in _FORMATS_WITH_HEADER)


def place_texts(values: pl.Series) -> pl.Series:
    """Return keys or labels as text: 7 and 7.0 are the same, because numbers with gaps are often stored as floats."""
    values = values.alias("values")
    if values.dtype.is_float():
        whole = values.fill_nan(None)
        is_whole = bool((whole.drop_nulls() % 1.0 == 0.0).all()) and bool((whole.drop_nulls().abs() < 2**53).all())
        values = whole.cast(pl.Int64) if is_whole else whole
    return to_texts(values)


def read_label_table(
    path: str,
    *,
    key: str | None,
    label: str | None,
    usual_label: str,
    n_stream_header: int,
    table_format: str | None = None,
    encoding: str | None = None,
    separator: str | None = None,
) -> LabelTable:
    """Read a table of late labels.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard input.
    key : str, optional
        Column that names the row. None: the column ``line`` gives its line in the stream; without such a column, the
        first label belongs to the first row of the stream, and so on.
    label : str, optional
        Column of the labels. None: ``usual_label``, or the only column besides the key.
    usual_label : str
    n_stream_header : int
        Lines of the stream before its first row.
    table_format, encoding, separator : str, optional
        Where they cannot be told from the file.
    """
    if (table_format or format_of(path, "--format")) == "npy":
        if key is not None or label is not None:
            raise ParameterError(f"{path} is an array without columns: leave out --key and --label, or use a table.")
        labels = place_texts(read_label_array(path))
        places = pl.Series(range(1, len(labels) + 1), dtype=pl.Int64).cast(pl.String)
        return _checked(pl.DataFrame({"place": places, "label": labels}), path, "row")
    table = open_table(path, table_format, encoding=encoding, separator=separator)
    try:
        place_column = key or (LINE if LINE in table.columns else None)
        label = _label_column(table, place_column, label, usual_label)
        wanted = [label] if place_column is None else [place_column, label]
        _require_columns(table, wanted)
        offset = n_stream_header if place_column else n_header_lines(path, table_format)
        pieces = [
            pl.DataFrame({"place": _places(chunk, place_column, key, offset), "label": place_texts(chunk.frame[label])})
            for chunk in _good_chunks(table, wanted)
        ]
    finally:
        table.close()
    empty = pl.DataFrame(schema={"place": pl.String, "label": pl.String})
    return _checked(pl.concat([empty, *pieces]), table.name, "row" if key is None else f"{key} =")


def match_predictions(
    labels: pl.DataFrame, path: str, *, key: str | None, n_stream_header: int, can_count: bool, n_rows: int | None
) -> pl.DataFrame:
    """Return the predictions that have a label, in the order of the stream.

    Parameters
    ----------
    labels : polars.DataFrame
        As in `LabelTable`.
    path : str
        The predictions that ``accous adapt`` wrote.
    key : str, optional
    n_stream_header : int
    can_count : bool
        Whether the rows of a file without line numbers are the rows of the stream: no row was set aside.
    n_rows : int, optional
        How many rows to use; a run that was killed may have written a part of the next one. None: all.

    Returns
    -------
    polars.DataFrame
        The columns ``number`` (of the row in the file, from 0), ``place``, ``prediction``, ``round`` (null if the file
        has none) and ``label``.
    """
    table = open_table(path)
    try:
        place_column = key or (LINE if LINE in table.columns else None)
        if key is not None and key not in table.columns:
            error = no_such_column(table, key)
            raise ParameterError(f"{error} To join by a key, run accous adapt with --key {key}.")
        if place_column is None and not can_count:
            raise DataError(
                f"{path} has no column {LINE!r}, and its rows need not be all rows of the stream: join by a key that "
                "is in both files, with --key."
            )
        wanted = [each for each in (place_column, "prediction") if each is not None]
        _require_columns(table, wanted)
        wanted += ["round"] if "round" in table.columns else []
        pieces, n_before = [], 0
        for chunk in _good_chunks(table, wanted, n_rows):
            pieces.append(_match(chunk, labels, place_column, key, n_stream_header, n_before))
            n_before += chunk.frame.height
    finally:
        table.close()
    matched = pl.concat(pieces) if pieces else labels.clear()
    if n_rows is not None and pieces:
        matched = matched.filter(matched["number"] < n_rows)
    repeated = matched.filter(matched["place"].is_duplicated())["place"]
    if len(repeated):
        what = f"{key} = {repeated[0]}" if key else f"row {repeated[0]}"
        raise DataError(f"{path} has several rows with {what}: give a --key that is different in every row.")
    return matched


def _match(
    chunk: Chunk, labels: pl.DataFrame, place_column: str | None, key: str | None, n_header: int, n_before: int
) -> pl.DataFrame:
    frame = chunk.frame
    numbers = pl.Series(np.arange(n_before, n_before + frame.height))
    if place_column is None:
        places = (numbers + 1).cast(pl.String)
    else:
        places = _places(chunk, place_column, key, n_header)
    rounds = (
        frame["round"].alias("values").cast(pl.Int64, strict=False)
        if "round" in frame.columns
        else pl.Series([None] * frame.height, dtype=pl.Int64)
    )
    predicted = place_texts(frame["prediction"])
    found = pl.DataFrame({"number": numbers, "place": places, "prediction": predicted, "round": rounds})
    return found.join(labels, on="place", how="inner", maintain_order="left")


def _places(chunk: Chunk, column: str | None, key: str | None, n_header: int) -> pl.Series:
    """Return the key of each row, or its number in the stream."""
    if column is None:
        return pl.Series(chunk.lines - n_header).cast(pl.String)
    texts = place_texts(chunk.frame[column])
    if key is not None:
        return texts
    return (texts.cast(pl.Int64, strict=False) - n_header).cast(pl.String)


def _label_column(table: TableReader, place_column: str | None, label: str | None, usual_label: str) -> str:
    if label is not None:
        return label
    others = [name for name in table.columns if name != place_column]
    return others[0] if len(others) == 1 else usual_label


def _require_columns(table: TableReader, names: list[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise no_such_column(table, name)
    require_usable(table, names)


def _good_chunks(table: TableReader, wanted: list[str], n_rows: int | None = None) -> Iterator[Chunk]:
    """Yield the pieces of a table; raise a DataError for a bad row, unless it comes after the first ``n_rows``."""
    n_read = 0
    for chunk in table.chunks(wanted, Position()):
        if chunk is None:
            continue
        n_read += chunk.frame.height
        if chunk.bad_rows and (n_rows is None or n_read < n_rows):
            bad = chunk.bad_rows[0]
            raise DataError(f"{table.name}, {table.unit} {bad.line}: {bad.reason}; fix it.")
        yield chunk


def _checked(rows: pl.DataFrame, name: str, what: str) -> LabelTable:
    """Leave out rows without a label and repeated ones; raise a DataError if a place has two different labels."""
    labelled = rows.filter(rows["label"].is_not_null() & rows["place"].is_not_null())
    once = labelled.unique(maintain_order=True)
    repeated = once.filter(once["place"].is_duplicated())
    if repeated.height:
        place, *_ = repeated["place"]
        first, second, *_ = repeated.filter(repeated["place"] == place)["label"]
        raise DataError(f"{name} has two labels for {what} {place}, {first!r} and {second!r}: remove one.")
    return LabelTable(once, rows.height, rows.height - labelled.height, labelled.height - once.height)
