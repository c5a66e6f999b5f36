"""Labels that are to be scored with must have something to do with those of the model."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from accous.exceptions import ParameterError
from accous.parameters import listed
from accous.tabular.formats.chunks import Position, TableReader
from accous.tabular.formats.labelled import LabelledTable
from accous.tabular.formats.values import to_texts
from accous.tabular.label_kinds import LabelKind

__all__ = ["check_labels", "require_no_feature"]

_FEWEST_LABELS = 3  # one or two rows of a new class are no reason to doubt the column
_LARGEST_SHARE = 0.2  # of labels that the model does not know; with more, they may be those of something else


def require_no_feature(column: str, label: str, features: Collection[str]) -> None:
    """Raise a ParameterError if the column of the labels is one that the model predicts from.

    Parameters
    ----------
    column : str
    label : str
        What ``--label`` was given, for the error.
    features : collection of str
        The columns that the model uses.
    """
    if column in features:
        raise ParameterError(
            f"--label {label}: the model uses column {column!r} as a feature, so it cannot be the label. Give the "
            "column of the labels."
        )


def check_labels(table: TableReader, column: str, label: str, kind: LabelKind) -> str | None:
    """Raise a ParameterError if no label in the first rows can be one of the model, and return a remark if many cannot.

    Closes the table. Rows without a label do not count. A new class among known ones is no error, nor are one or two
    labels of new ones.

    Parameters
    ----------
    table : TableReader
        Opened for this alone.
    column : str
    label : str
        What ``--label`` was given, for the error.
    kind : LabelKind
        Of the model.
    """
    try:
        labels = to_texts(_first_labels(table, column)).drop_nulls()
    finally:
        table.close()
    stranger = kind.stranger(labels) if len(labels) >= _FEWEST_LABELS else None
    if stranger is not None:
        raise ParameterError(
            f"--label {label}: none of the first {len(labels):,} labels {stranger.replace('reference', 'model')}; the "
            f"first is {labels[0]!r}. Give the column of the labels."
        )
    odd = labels.filter(~kind.is_possible(labels))
    if len(odd) < _FEWEST_LABELS or len(odd) <= _LARGEST_SHARE * len(labels):
        return None
    counted = f" ({listed(kind.names)}) and count as errors" if kind.names else ""
    return (
        f"--label {label}: {len(odd) / len(labels):.0%} of the first {len(labels):,} labels are none that the model "
        f"knows{counted}; the first is {odd[0]!r}. Is this the column of the labels?"
    )


def _first_labels(table: TableReader, column: str) -> pl.Series:
    """Return the labels of the first piece of a table that has any; a file that grows may have no rows yet."""
    if isinstance(table, LabelledTable):
        return table.labels
    for chunk in table.chunks([column], Position()):
        if chunk is None:
            break
        if chunk.frame[column].null_count() < chunk.frame.height:
            return chunk.frame[column]
    return pl.Series(column, [], dtype=pl.String)
