"""Whether labels that are joined by position meet their own rows: columns that both files have must agree."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import DataError
from accous.tabular.formats.chunks import Position, TableReader
from accous.tabular.label_tables import LINE, LabelTable, is_comparable, place_texts

__all__ = ["require_same_rows"]

_SAME_NUMBER = 1e-6
_MOSTLY = 0.9  # of the rows must have values of their own, or a shift of all rows might go unseen
"""How far numbers may be apart: one of the files may have them with fewer digits."""


def require_same_rows(labels: LabelTable, name: str, rows: TableReader | None, n_rows: int) -> None:
    """Raise a DataError unless the first label can belong to the first row, the second to the second, and so on.

    Parameters
    ----------
    labels : LabelTable
        Labels without a key.
    name : str
        Of their file, for messages.
    rows : TableReader or None
        The rows that were predicted, or what was kept of them. None: they cannot be read again.
    n_rows : int
        How many rows were predicted.
    """
    tells_apart = False
    if rows is not None:
        names = [each for each in labels.others.columns if each in rows.columns]
        types = rows.column_types(names)
        names = [each for each in names if is_comparable(types.get(each))]
        if names:
            _require_agreement(labels.others, name, rows, names, n_rows)
        compared = labels.others.select(names)[:n_rows].drop_nulls()
        tells_apart = bool(names) and compared.n_unique() > max(1.0, _MOSTLY * compared.height)
    if labels.n_covered < n_rows and not tells_apart:
        raise DataError(
            f"{name} covers {labels.n_covered:,} of the {n_rows:,} rows that were predicted, and no column says which: "
            f"join by a key (accous adapt and this command with --key COL) or by a column {LINE!r}, or give all "
            f"{n_rows:,} rows in the order of the stream, with NA where a label is missing."
        )


def _require_agreement(others: pl.DataFrame, name: str, rows: TableReader, names: list[str], n_rows: int) -> None:
    n_before, n_compared = 0, min(others.height, n_rows)
    rows.read_if_simple(names)
    for chunk in rows.chunks(names, Position()):
        if chunk is None:
            continue
        if n_before >= n_compared:
            return
        height = min(chunk.frame.height, n_compared - n_before)
        given, there = others[n_before : n_before + height], chunk.frame[:height]
        for column in names:
            found = place_texts(there[column])
            differing = np.flatnonzero(_differs(given[column].alias("values"), found))
            if len(differing):
                row = int(differing[0])
                raise DataError(
                    f"{name} has no key, so that its labels are joined by position, but in row {n_before + row + 1:,} "
                    f"{column!r} is {given[column][row]!r}, and {found[row]!r} in {rows.name}: join by a key (accous "
                    f"adapt and this command with --key {column}) or by a column {LINE!r}, give all rows in the order "
                    "of the stream, or leave that column out."
                )
        n_before += chunk.frame.height


def _differs(first: pl.Series, second: pl.Series) -> NDArray[np.bool_]:
    """Return where two columns of text hold different values; a missing value differs from none."""
    # Another program may write True where this one writes true.
    is_other = np.array((first.str.to_lowercase() != second.str.to_lowercase()).fill_null(False).to_numpy())
    if is_other.any():
        is_other &= ~np.isclose(_numbers(first), _numbers(second), rtol=_SAME_NUMBER, atol=0.0)
    return is_other


def _numbers(texts: pl.Series) -> FloatArray:
    return texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
