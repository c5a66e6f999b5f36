"""The offline stage on a table: read the reference, learn how to encode its columns, and cross-validate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.classifier.adaptation import AdaptiveClassifier
from accous.exceptions import DataError, ParameterError
from accous.ratio.no_shift import NoShift
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.learning import Choices
from accous.tabular.formats.chunks import BadRow, Chunk, Position, TableReader, no_such_column, require_usable
from accous.tabular.formats.values import exactly, to_texts

__all__ = ["ReferenceTable", "cross_validate", "read_reference"]

_N_FOLDS = 5
_MOST_CLASSES = 200


@dataclass(frozen=True)
class ReferenceTable:
    """A labelled table, ready for fitting.

    Attributes
    ----------
    frame : polars.DataFrame
        All columns except the label.
    y : array of shape (n_rows,)
        Integers if all labels are integers, otherwise strings.
    encoder : ColumnEncoder
    X : array of shape (n_rows, n_features)
    bad_rows : list of BadRow
        The rows set aside.
    """

    frame: pl.DataFrame
    y: NDArray[Any]
    encoder: ColumnEncoder
    X: NDArray[np.float64]
    bad_rows: list[BadRow]


def read_reference(table: TableReader, label: str, choices: Choices, *, skips_bad: bool) -> ReferenceTable:
    """Read a labelled table and learn how to encode its columns.

    Parameters
    ----------
    table : TableReader
    label : str
        Its label column.
    choices : Choices
    skips_bad : bool
        Whether bad rows are set aside, or are an error.
    """
    wanted = _columns_to_read(table, label, choices)
    pieces = [chunk for chunk in table.chunks(wanted, Position()) if chunk is not None]
    bad_rows = [bad for chunk in pieces for bad in chunk.bad_rows]
    frame = pl.concat([chunk.frame for chunk in pieces]) if pieces else pl.DataFrame(schema=wanted)
    frame = frame.with_columns(pl.lit(None).alias(name) for name in choices.drop).select(exactly(table.columns))
    labels = to_texts(frame[label])
    is_good = labels.is_not_null().to_numpy().copy()
    bad_rows += [_bad_row(pieces, int(row), label, "the label is missing") for row in np.flatnonzero(~is_good)]
    frame = frame.drop(exactly([label]))
    if not is_good.any():
        raise DataError(f"{table.name} has no row with a label.")
    encoder = ColumnEncoder.learn(frame.filter(is_good), choices).with_records(frame.filter(is_good))
    features = encoder.encode(frame)
    for bad in features.bad_values:
        if is_good[bad.row]:
            is_good[bad.row] = False
            bad_rows.append(_bad_row(pieces, bad.row, bad.column, bad.reason))
    bad_rows.sort(key=lambda bad: bad.end)
    if bad_rows and not skips_bad:
        raise bad_rows[0].error(table.name, table.unit)
    y = _as_classes(labels.filter(is_good), label, table.name)
    return ReferenceTable(frame.filter(is_good), y, encoder, np.ascontiguousarray(features.X[is_good]), bad_rows)


def cross_validate(reference: ReferenceTable, choices: Choices, *, C: float, seed: int) -> float | None:
    """Return the accuracy of five-fold cross-validation on the reference, preprocessing included.

    It is None if there are too few rows: a fold is empty, or the others have a single class or no usable column.
    """
    fold_of_row = _folds(reference.y, seed)
    is_right = np.zeros(len(reference.y), dtype=bool)
    for fold in range(_N_FOLDS):
        is_held = fold_of_row == fold
        if not is_held.any() or len(np.unique(reference.y[~is_held])) < 2:
            return None
        try:
            encoder = ColumnEncoder.learn(reference.frame.filter(~is_held), choices)
        except DataError:
            return None
        model = AdaptiveClassifier(ratio=NoShift(), C=C)
        model.fit(encoder.encode(reference.frame.filter(~is_held)).X, reference.y[~is_held])
        predicted = model.predict(encoder.encode(reference.frame.filter(is_held)).X)
        is_right[is_held] = predicted == reference.y[is_held]
    return float(is_right.mean())


def _columns_to_read(table: TableReader, label: str, choices: Choices) -> list[str]:
    """Return the label and all columns that are not dropped."""
    if label not in table.columns:
        raise no_such_column(table, label)
    require_usable(table, [label])
    if label in choices.drop:
        raise ParameterError(f"The label {label!r} cannot be dropped.")
    # A column of the file that is dropped is not even read: nothing in it can make a row a bad one. An embedding of
    # which single numbers are dropped is read and checked as a whole.
    wanted = [name for name in table.columns if name not in choices.drop]
    if wanted == [label]:
        raise DataError(f"{table.name} has no column other than the label {label!r}: drop fewer columns, or add some.")
    return wanted


def _folds(y: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Distribute the rows of each class over the folds, in random order."""
    folds = np.empty(len(y), dtype=np.int64)
    random = np.random.default_rng(seed)
    n_dealt = 0
    for label in np.unique(y):
        rows = random.permutation(np.flatnonzero(y == label))
        folds[rows] = (n_dealt + np.arange(len(rows))) % _N_FOLDS
        n_dealt += len(rows)
    return folds


def _as_classes(labels: pl.Series, name: str, table: str) -> NDArray[Any]:
    different = labels.unique().to_list()
    if len(different) < 2:
        raise DataError(f"{table}: the label {name!r} is always {different[0]!r}; at least two classes are needed.")
    if len(different) > _MOST_CLASSES:
        raise DataError(
            f"{table}: the label {name!r} has {len(different)} different values, too many for classes; if it is a "
            "number, divide it into classes first."
        )
    if all(_is_whole_number(label) for label in different):
        return labels.cast(pl.Int64).to_numpy()
    return np.array(labels.to_list(), dtype=str)


def _is_whole_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 18 and str(int(text)) == text


def _bad_row(pieces: list[Chunk], row: int, column: str, reason: str) -> BadRow:
    for chunk in pieces:
        if row < len(chunk.ends):
            text = chunk.row_bytes(row).decode("utf-8", "replace").rstrip("\r")
            return BadRow(int(chunk.ends[row]), int(chunk.lines[row]), column, reason, text)
        row -= len(chunk.ends)
    raise IndexError(row)
