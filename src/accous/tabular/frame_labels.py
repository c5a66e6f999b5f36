"""Labels of the rows of a frame: as text, in order of time, and joined with the predictions of the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.parameters import did_you_mean, listed
from accous.tabular.label_kinds import LabelKind
from accous.tabular.label_tables import LINE, check_labels, match_rows, place_texts
from accous.tabular.order import RowOrder, put_in_order
from accous.tabular.remembered_rows import numbers_of_texts
from accous.text import count

__all__ = ["LabelledRows", "labels_of_frame", "match_frame", "times_in_order"]


@dataclass(frozen=True)
class LabelledRows:
    """The labels of a frame's rows.

    Attributes
    ----------
    labels : polars.Series
        As text; null in rows without a label.
    """

    labels: pl.Series

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows that have a label."""
        return np.flatnonzero(self.labels.is_not_null().to_numpy())

    def per_row(self, values: Any, name: str) -> NDArray[Any]:
        """Return values as an array with one for each row of the frame; ``name`` is the argument's, for the error."""
        array = np.asarray(values)
        if array.shape != (len(self.labels),):
            raise DataError(f"{name} must have one entry for each of the {len(self.labels)} rows, got {array.shape}.")
        return array

    def keys(self, table: pl.DataFrame, key: str) -> NDArray[np.uint64]:
        """Return a number for the key of each row; raise a DataError for a labelled row without a key."""
        texts = place_texts(require_column(table, key))
        missing = np.flatnonzero(texts.is_null().to_numpy() & self.labels.is_not_null().to_numpy())
        if len(missing):
            raise DataError(f"Row {missing[0]} of the frame (counted from 0) has no value in the key column {key!r}.")
        return numbers_of_texts(texts.fill_null(""))


def require_column(table: pl.DataFrame, name: str) -> pl.Series:
    """Return a column of a frame, or raise a DataError that names the others."""
    if name not in table.columns:
        meant = did_you_mean(name, table.columns)
        raise DataError(f"The frame has no column {name!r}{meant}: it has {listed(table.columns)}.")
    return table[name]


def labels_of_frame(table: pl.DataFrame, y: Any, usual: str, kind: LabelKind) -> LabelledRows:
    """Return the labels of a frame's rows.

    Parameters
    ----------
    table : polars.DataFrame
    y : str or array of shape (n_rows,), optional
        The labels, or their column; None is ``usual``.
    usual : str
        The label column of the reference.
    kind : LabelKind
        Of the model; classes decide how a number is written.
    """
    if y is None and usual not in table.columns:
        raise DataError(f"The frame has no label column {usual!r}: pass the labels, or the name of their column, as y.")
    if y is None or isinstance(y, str):
        column = require_column(table, usual if y is None else y)
    else:
        values = y.to_list() if isinstance(y, pl.Series) else np.asarray(y).tolist()
        if len(values) != table.height or any(isinstance(each, list) for each in values):
            raise DataError(f"y must have one label for each of the {table.height} rows of the frame.")
        column = pl.Series(values, strict=False)
    return LabelledRows(kind.texts(column))


def times_in_order(table: pl.DataFrame, settings: dict[str, Any]) -> NDArray[np.intp]:
    """Return the rows of a frame in the order that ``fit`` put the reference in, oldest first."""
    order = settings.get("order") or {"by": None}
    if order["by"] != "time":
        return np.arange(table.height)
    if order["column"] not in table.columns:
        raise DataError(
            f"There is no column {order['column']!r}, by which the reference is in order of time: add it, or say "
            "whether the rows are in order (order, or --ordered and --unordered)."
        )
    ordered = put_in_order(table, RowOrder("time", order["column"]))
    if ordered.is_bad.any():
        row = int(np.flatnonzero(ordered.is_bad)[0])
        shown = str(table[order["column"]][row])
        raise DataError(f"Column {order['column']!r} holds {shown!r}, which is no time; fix or remove the row.")
    return ordered.rows


def match_frame(
    table: pl.DataFrame, labelled: LabelledRows, predictions: pl.DataFrame, key: str | None
) -> pl.DataFrame:
    """Return the predictions that have a label, as `accous.tabular.label_tables.match_predictions`, and their ``row``.

    They are joined by the key, by the line if both frames have it, or by position.
    """
    has_lines = LINE in table.columns and LINE in predictions.columns
    place_column = key or (LINE if has_lines else None)
    if place_column is None and table.height != predictions.height:
        raise DataError(
            f"The frame has {count(table.height, 'row')} and the predictions {predictions.height:,}: join them by a "
            "column that both have, with key."
        )
    for name in ("prediction", *((place_column,) if place_column else ())):
        require_column(predictions, name)
    places = (
        pl.Series(np.arange(1, table.height + 1)).cast(pl.String)
        if place_column is None
        else place_texts(require_column(table, place_column))
    )
    rows = pl.DataFrame({"place": places, "label": labelled.labels})
    found = match_rows([predictions], check_labels(rows, "The frame", place_column), "The predictions")
    if not found.height:
        how = place_column or "position"
        raise DataError(f"None of the labels belongs to a row of the predictions, joined by {how}.")
    first = rows.with_row_index("row").drop_nulls().unique("place", keep="first").select("place", "row")
    return found.join(first, on="place", how="left", maintain_order="left")
