"""Late labels and the predictions they belong to: both tables, and the rows that match by key, line or position."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import DataError, ParameterError
from accous.parameters import listed
from accous.tabular.formats.chunks import Chunk, Position, TableReader, no_such_column, require_usable
from accous.tabular.formats.labelled import read_label_array
from accous.tabular.formats.opening import format_of, open_table
from accous.tabular.formats.values import is_usable, to_texts

__all__ = [
    "LINE",
    "LabelTable",
    "check_labels",
    "is_comparable",
    "match_predictions",
    "match_rows",
    "place_texts",
    "read_label_table",
    "written_intervals",
]

LINE = "line"
"""The column that holds the line number of a row in the stream."""

_FORMATS_WITH_HEADER = ("csv", "tsv")
_ENDS = ("low", "high")


@dataclass(frozen=True)
class LabelTable:
    """Labels and the rows they belong to.

    Attributes
    ----------
    rows : polars.DataFrame
        The columns ``place`` (value of the place column, or position from 1 on, as text) and ``label`` (text). Each
        place occurs once.
    place_column : str or None
        The column that names the rows: a key, or ``line``. None: their position does.
    n_read, n_missing, n_repeated : int
        Rows of the table, those without a label, and those that repeat a place and its label.
    n_unnamed : int
        Rows that have a label, but no value in the place column.
    n_covered : int
        The last position that the table has a row for, with a label or without. 0 if a column names the rows.
    others : polars.DataFrame
        Other columns, as text, if the rows are named by their position: they can show whether it is right.
    label_column : str or None
        The column of the labels; None if they have no name.
    """

    rows: pl.DataFrame
    place_column: str | None
    n_read: int
    n_missing: int
    n_repeated: int
    n_unnamed: int = 0
    n_covered: int = 0
    others: pl.DataFrame = field(default_factory=pl.DataFrame)
    label_column: str | None = None


def is_comparable(dtype: Any) -> bool:
    """Whether values of this type (None: text) have one form as text, so that those of two files can be compared."""
    return dtype is None or (is_usable(dtype) and dtype not in (pl.Datetime, pl.Time))


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
    usual_key: str | None,
    label: str | None,
    usual_label: str,
    compared: Collection[str] = (),
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
        Column that names the row. None: ``usual_key`` or ``line``, if the table has it; otherwise the first label
        belongs to the first row that was predicted, and so on.
    usual_key : str, optional
    label : str, optional
        Column of the labels. None: ``usual_label``, or the only column besides the key.
    usual_label : str
    compared : collection of str
        Columns to read too, if the table has them and its rows are named by their position.
    table_format, encoding, separator : str, optional
        Where they cannot be told from the file.
    """
    if (table_format or format_of(path, "--format")) == "npy":
        if key is not None or label is not None:
            raise ParameterError(f"{path} is an array without columns: leave out --key and --label, or use a table.")
        labels = place_texts(read_label_array(path))
        rows = pl.DataFrame({"place": _positions(0, len(labels)), "label": labels})
        return replace(check_labels(rows, path, None), n_covered=len(labels))
    table = open_table(path, table_format, encoding=encoding, separator=separator)
    try:
        place_column = key or next((name for name in (usual_key, LINE) if name in table.columns), None)
        label = _label_column(table, place_column, label, usual_label)
        _require_columns(table, [label] if place_column is None else [place_column, label])
        is_list = table.columns == [label] and (table_format or format_of(path, "--format")) in _FORMATS_WITH_HEADER
        others = _others(table, label, compared) if place_column is None else []
        if place_column is None and usual_key is not None and not others:
            _require_only_labels(table, label, usual_key)
        table.read_if_simple(others)
        rows = _read_rows(table, place_column, label, others, is_list=is_list)
    finally:
        table.close()
    found = replace(check_labels(rows.select("place", "label"), table.name, place_column), label_column=label)
    if place_column is not None:
        return found
    n_covered = int(rows["place"][-1]) if rows.height else 0
    of_others = pl.DataFrame({name: rows[f"other {number}"] for number, name in enumerate(others)})
    return replace(found, n_covered=n_covered, others=of_others)


def _require_only_labels(table: TableReader, label: str, usual_key: str) -> None:
    """Raise a DataError if another column looks like the key of the run under another name."""
    rest = [name for name in table.columns if name != label]
    if rest:
        raise DataError(
            f"{table.name} has no column {usual_key!r}, which is the key of the run, and no other column of the stream "
            f"to compare: rename {listed(rest)} if it is the key, name another key with --key, or leave only the "
            "labels in the file to join them by position."
        )


def _others(table: TableReader, label: str, compared: Collection[str]) -> list[str]:
    """Return the columns that are read besides the labels."""
    names = [name for name in table.columns if name in compared and name != label]
    types = table.column_types(names)
    return [name for name in names if is_comparable(types.get(name))]


def _read_rows(
    table: TableReader, place_column: str | None, label: str, others: list[str], *, is_list: bool
) -> pl.DataFrame:
    """Return the columns ``place`` and ``label``, and ``other 0`` and so on."""
    names = ["place", "label", *(f"other {number}" for number in range(len(others)))]
    pieces, n_before = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))], 0
    wanted = list(dict.fromkeys(each for each in (place_column, label, *others) if each is not None))
    for chunk in _good_chunks(table, wanted):
        # An empty line in a file of one column is a row without a label: only its line shows that it is there.
        places = _texts(chunk.lines - 1) if is_list else _places(chunk.frame, place_column, n_before)
        texts = (place_texts(chunk.frame[name]) for name in (label, *others))
        pieces.append(pl.DataFrame(dict(zip(names, (places, *texts), strict=True))))
        n_before += chunk.frame.height
    return pl.concat(pieces)


def match_predictions(labels: LabelTable, path: str, *, can_count: bool, n_rows: int | None) -> pl.DataFrame:
    """Return the predictions that have a label, in the order of the stream.

    Parameters
    ----------
    labels : LabelTable
    path : str
        The predictions that ``accous adapt`` wrote.
    can_count : bool
        Whether the rows of the file are all rows of the stream, so that labels can be joined by position.
    n_rows : int, optional
        How many rows to use; a run that was killed may have written a part of the next one. None: all.

    Returns
    -------
    polars.DataFrame
        The columns ``number`` (of the row in the file, from 0), ``place``, ``prediction``, ``round`` (null if the file
        has none), ``low`` and ``high`` (if the file has both) and ``label``.
    """
    place_column = labels.place_column
    if place_column is None and not can_count:
        raise DataError(
            f"These labels have no key and no column {LINE!r}, and the rows of {path} need not be all rows of the "
            "stream: join by a column that is in both files, with --key."
        )
    table = open_table(path)
    try:
        if place_column is not None and place_column not in table.columns:
            error = no_such_column(table, place_column)
            if place_column == LINE:
                raise ParameterError(f"{error} The run named its rows by a key: join by its column, with --key COL.")
            raise ParameterError(f"{error} To join by a key, run accous adapt with --key {place_column}.")
        wanted = [each for each in (place_column, "prediction") if each is not None]
        _require_columns(table, wanted)
        wanted += [each for each in ("round", *_ENDS) if each in table.columns and each not in wanted]
        frames = (chunk.frame for chunk in _good_chunks(table, wanted, n_rows))
        return match_rows(frames, labels, path, n_rows=n_rows)
    finally:
        table.close()


def match_rows(
    frames: Iterable[pl.DataFrame], labels: LabelTable, name: str, *, n_rows: int | None = None
) -> pl.DataFrame:
    """Return the rows of predictions that have a label, as `match_predictions` does.

    Parameters
    ----------
    frames : iterable of polars.DataFrame
        The predictions, piece by piece.
    labels : LabelTable
    name : str
        Of the predictions, for messages.
    n_rows : int, optional
        How many rows to use.
    """
    pieces, n_before = [], 0
    for frame in frames:
        pieces.append(_match(frame, labels, n_before))
        n_before += frame.height
    matched = pl.concat(pieces) if pieces else labels.rows.clear()
    if n_rows is not None and pieces:
        matched = matched.filter(matched["number"] < n_rows)
    repeated = matched.filter(matched["place"].is_duplicated())["place"]
    if len(repeated):
        what = f"{labels.place_column} = {repeated[0]}"
        raise DataError(f"{name} has several rows with {what}: give a --key that is different in every row.")
    return matched


def _match(frame: pl.DataFrame, labels: LabelTable, n_before: int) -> pl.DataFrame:
    rounds = (
        frame["round"].alias("values").cast(pl.Int64, strict=False)
        if "round" in frame.columns
        else pl.Series([None] * frame.height, dtype=pl.Int64)
    )
    found = pl.DataFrame(
        {
            "number": np.arange(n_before, n_before + frame.height),
            "place": _places(frame, labels.place_column, n_before),
            "prediction": place_texts(frame["prediction"]),
            "round": rounds,
        }
        | ({name: frame[name].cast(pl.Float64, strict=False) for name in _ENDS} if _has_ends(frame) else {})
    )
    return found.join(labels.rows, on="place", how="inner", maintain_order="left")


def _has_ends(frame: pl.DataFrame) -> bool:
    return set(_ENDS) <= set(frame.columns)


def written_intervals(matched: pl.DataFrame) -> FloatArray | None:
    """Return the intervals of predictions that have a label, NaN where there is none; None if they have no columns."""
    return matched.select(_ENDS).fill_null(np.nan).to_numpy() if _has_ends(matched) else None


def _places(frame: pl.DataFrame, column: str | None, n_before: int) -> pl.Series:
    """Return the values of the place column as text, or the positions of the rows."""
    return _positions(n_before, frame.height) if column is None else place_texts(frame[column])


def _positions(n_before: int, n_rows: int) -> pl.Series:
    return _texts(np.arange(n_before + 1, n_before + n_rows + 1))


def _texts(numbers: NDArray[np.int64]) -> pl.Series:
    return pl.Series(numbers).cast(pl.String)


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


def check_labels(rows: pl.DataFrame, name: str, place_column: str | None) -> LabelTable:
    """Leave out rows without a label and repeated ones; raise a DataError if a place has two different labels."""
    n_missing = rows["label"].null_count()
    labelled = rows.drop_nulls(["label", "place"])
    once = labelled.unique(maintain_order=True)
    repeated = once.filter(once["place"].is_duplicated())
    if repeated.height:
        place, *_ = repeated["place"]
        first, second, *_ = repeated.filter(repeated["place"] == place)["label"]
        raise DataError(f"{name} has two labels for {place_column} = {place}, {first!r} and {second!r}: remove one.")
    n_unnamed = rows.height - n_missing - labelled.height
    return LabelTable(once, place_column, rows.height, n_missing, labelled.height - once.height, n_unnamed)
