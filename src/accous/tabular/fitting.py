"""The offline stage on a table: read the reference, learn how to encode its columns, and cross-validate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.risk import Look, measure_evidence
from accous.exceptions import DataError, ParameterError
from accous.model.backtest import CUTS, Backtest, backtest
from accous.ratio.base.online import NoShift
from accous.tabular.calendar_traps import remarks_on_used
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.learning import Choices
from accous.tabular.formats.chunks import BadRow, Chunk, Position, TableReader, no_such_column, require_usable
from accous.tabular.formats.values import exactly, to_texts
from accous.tabular.label_task import CLASSES, REGRESSION, LabelTask, find_task
from accous.tabular.order import RowOrder, find_order, not_in_order, put_in_order, unsorted_dates
from accous.tabular.reference_span import remarks_on_span
from accous.tabular.repeated_reference import remarks_on_repeats
from accous.tabular.traps import Remark, leave_out_traps, remarks_on_labels, remarks_on_texts

__all__ = ["ReferenceTable", "cross_validate", "read_reference", "replay", "time_blocks"]

_N_FOLDS = 5


@dataclass(frozen=True)
class ReferenceTable:
    """A labelled table, ready for fitting.

    Attributes
    ----------
    frame : polars.DataFrame
        All columns except the label.
    y : array of shape (n_rows,)
        Numbers to predict; of classes, integers if all labels are integers, otherwise strings.
    encoder : ColumnEncoder
    X : array of shape (n_rows, n_features)
    bad_rows : list of BadRow
        The rows set aside.
    order : RowOrder
        What orders the rows of ``frame``, ``X`` and ``y``: if it is known, they are in order of time.
    choices : Choices
        About the columns: the user's, and the traps that are left out.
    remarks : list of Remark
        The traps.
    task : LabelTask
        Whether the label is a class or a number.
    """

    frame: pl.DataFrame
    y: NDArray[Any]
    encoder: ColumnEncoder
    X: NDArray[np.float64]
    bad_rows: list[BadRow]
    order: RowOrder
    choices: Choices
    remarks: list[Remark]
    task: LabelTask = CLASSES

    def part(self, n_rows: int, seed: int) -> ReferenceTable:
        """Return its latest rows, or rows drawn at random if it has no order in time.

        Parameters
        ----------
        n_rows : int
        seed : int
            For the draw.
        """
        n_all = len(self.y)
        if n_rows == n_all:
            return self
        rows = np.arange(n_all - n_rows, n_all)
        if not self.order.is_known:
            rows = np.sort(np.random.default_rng(seed).permutation(n_all)[:n_rows])
        return replace(self, frame=self.frame[rows], y=self.y[rows], X=self.X[rows])


def read_reference(
    table: TableReader,
    label: str,
    choices: Choices,
    *,
    skips_bad: bool,
    is_ordered: bool | None = None,
    task: str | None = None,
) -> ReferenceTable:
    """Read a labelled table, put its rows in order of time if there is one, and learn how to encode its columns.

    Parameters
    ----------
    table : TableReader
    label : str
        Its label column.
    choices : Choices
    skips_bad : bool
        Whether bad rows are set aside, or are an error.
    is_ordered : bool, optional
        Whether the rows are in order of time already; None looks for a date column that gives the order.
    task : {"classification", "regression"}, optional
        What the label is; None decides by its values.
    """
    frame, pieces = _read_frame(table, label, choices)
    bad_rows = [bad for chunk in pieces for bad in chunk.bad_rows]
    labels = to_texts(frame[label])
    frame = frame.drop(exactly([label]))
    found_task = find_task(labels, label, task)
    is_no_number = found_task.is_bad(labels)
    is_good = labels.is_not_null().to_numpy() & ~is_no_number
    if not is_good.any():
        raise DataError(f"{table.name} has no row with a label.")
    order = find_order(frame.filter(is_good), choices, is_ordered=is_ordered)
    ordered = put_in_order(frame, order)
    good = frame[ordered.rows[is_good[ordered.rows]]]
    has_order = order.is_known if is_ordered is not None else order.is_known or None
    choices, remarks = leave_out_traps(good, choices, has_order=has_order)
    encoder = ColumnEncoder.learn(good, choices).with_records(good)
    features = encoder.encode(frame)
    bad_rows += _bad_labels(pieces, label, labels, is_no_number)
    bad_values = [(bad.row, bad.column, bad.reason) for bad in features.bad_values]
    bad_values += [(int(row), str(order.column), "the time cannot be read") for row in np.flatnonzero(ordered.is_bad)]
    for row, column, reason in bad_values:
        if is_good[row]:
            is_good[row] = False
            bad_rows.append(_bad_row(pieces, row, column, reason))
    bad_rows.sort(key=lambda bad: bad.end)
    if bad_rows and not skips_bad:
        raise bad_rows[0].error(table.name, table.unit)
    rows = ordered.rows[is_good[ordered.rows]]
    y = found_task.read(labels[rows], label, table.name)
    frame, X = frame[rows], np.ascontiguousarray(features.X[rows])
    found = ReferenceTable(frame, y, encoder, X, bad_rows, order, choices, remarks, found_task)
    return replace(found, remarks=remarks_on_repeats(frame, y, is_whole=not choices.drop) + remarks + _remarks(found))


def _remarks(table: ReferenceTable) -> list[Remark]:
    """Return what you should know about the order, about columns that are used, and about texts that are not."""
    frame, plans, choices = table.frame, table.encoder.plans, table.choices
    dates = unsorted_dates(frame, choices) if table.order.by == "rows" else []
    found = [Remark("order", name, not_in_order(name)) for name in dates]
    found += remarks_on_span(frame, table.order)
    found += remarks_on_texts(frame, plans) + remarks_on_labels(frame, plans, table.y, table.task.kind)
    told = [str(remark.column) for remark in table.remarks]
    return found + remarks_on_used(frame, plans, {*choices.keep, *told})


MakeModel = Callable[[ColumnEncoder], Any]
"""Makes an unfitted model for features that an encoder makes."""


def cross_validate(reference: ReferenceTable, make_model: MakeModel, *, seed: int) -> FloatArray | None:
    """Return the losses of held-out rows of the reference, preprocessing included: errors, or how far numbers are off.

    If the rows are in order of time, they are divided into five blocks, and each block is predicted by a fit on all
    blocks before it. Otherwise there are five random folds.

    It is None if there are too few rows: a fold is empty, or the others have a single class or no usable column.

    Parameters
    ----------
    reference : ReferenceTable
    make_model : callable
    seed : int
        For the random folds.
    """
    if reference.order.is_known:
        return _chain_forward(reference, make_model)
    fold_of_row = _folds(reference.y, seed)
    losses = np.zeros(len(reference.y))
    for fold in range(_N_FOLDS):
        is_held = fold_of_row == fold
        if not is_held.any() or len(np.unique(reference.y[~is_held])) < 2:
            return None
        predicted = _predict_rest(reference, np.flatnonzero(~is_held), np.flatnonzero(is_held), make_model)
        if predicted is None:
            return None
        losses[is_held] = _losses(reference, predicted, reference.y[is_held])
    return losses


def _losses(reference: ReferenceTable, predicted: Any, y: NDArray[Any]) -> FloatArray:
    """Return 1 for classes that are wrong and 0 for others, or how far numbers are off."""
    return np.asarray(np.abs(y - predicted) if reference.task.name == REGRESSION else predicted != y, dtype=np.float64)


def time_blocks(n_rows: int) -> list[tuple[int, int]]:
    """Return the second to fifth block of rows in order of time, as first row and end; none if there are too few."""
    cuts = np.linspace(0, n_rows, _N_FOLDS + 1).astype(int).tolist()
    return [] if n_rows < 2 * _N_FOLDS else list(pairwise(cuts[1:]))


def _chain_forward(reference: ReferenceTable, make_model: MakeModel) -> FloatArray | None:
    """Return the losses in the second to fifth block of rows, each predicted from all rows before it."""
    losses: list[FloatArray] = []
    for start, end in time_blocks(len(reference.y)):
        predicted: Any = reference.y[0]  # while there is a single class, it is all that a model can predict
        if len(np.unique(reference.y[:start])) > 1:
            predicted = _predict_rest(reference, np.arange(start), np.arange(start, end), make_model)
        if predicted is not None:
            losses.append(_losses(reference, predicted, reference.y[start:end]))
    return np.concatenate(losses) if losses else None


def _predict_rest(
    reference: ReferenceTable, rows: NDArray[np.intp], rest: NDArray[np.intp], make_model: MakeModel
) -> NDArray[Any] | None:
    """Predict the rest by a fit on these rows; None if they have no usable column."""
    try:
        encoder = ColumnEncoder.learn(reference.frame[rows], reference.choices)
    except DataError:
        return None
    model = make_model(encoder).set_params(ratio=NoShift())
    model.fit(encoder.encode(reference.frame[rows]).X, reference.y[rows])
    return model.predict(encoder.encode(reference.frame[rest]).X)


def _read_frame(table: TableReader, label: str, choices: Choices) -> tuple[pl.DataFrame, list[Chunk]]:
    """Return the whole table, with empty columns in place of those that are dropped, and its chunks."""
    wanted = _columns_to_read(table, label, choices)
    pieces = [chunk for chunk in table.chunks(wanted, Position()) if chunk is not None]
    frame = pl.concat([chunk.frame for chunk in pieces]) if pieces else pl.DataFrame(schema=wanted)
    frame = frame.with_columns(pl.lit(None).alias(name) for name in table.columns if name not in wanted)
    return frame.select(exactly(table.columns)), pieces


def replay(
    reference: ReferenceTable, make_model: MakeModel, *, batch_size: int, on_progress: Callable[[float], None]
) -> Backtest:
    """Replay the reference in its order, preprocessing included.

    Parameters
    ----------
    reference : ReferenceTable
        Its rows are in order of time.
    make_model : callable
        Each replay has an encoder of its own, so each has a model of its own.
    batch_size : int
        Rows in a round.
    on_progress : callable
        Called with the share of the work that is done.
    """
    looks: list[Look] = []
    later: set[str] = set()
    for number, cut in enumerate(CUTS):
        encoder = ColumnEncoder.learn(reference.frame[: round(cut * len(reference.y))], reference.choices)
        model = make_model(encoder)
        found = backtest(
            model,
            encoder.encode(reference.frame).X,
            reference.y,
            batch_size=batch_size,
            cuts=(cut,),
            on_progress=lambda share, done=number: on_progress((done + share) / len(CUTS)),  # type: ignore[misc]
        )
        looks += found.looks
        later.update(found.later_classes)
    evidence = measure_evidence(looks, len(reference.y), found.scale)
    return replace(found, looks=tuple(looks), evidence=evidence, later_classes=tuple(sorted(later)))


def _columns_to_read(table: TableReader, label: str, choices: Choices) -> list[str]:
    """Return the label and all columns that are not dropped."""
    if label not in table.columns:
        raise no_such_column(table, label)
    require_usable(table, [label])
    if label in choices.drop:
        raise ParameterError(f"The label {label!r} cannot be dropped.")
    if label == choices.time:
        raise ParameterError(f"--time {label} is the label: name another column.")
    # A column of the file that is dropped is not even read: nothing in it can make a row a bad one. An embedding of
    # which single numbers are dropped is read and checked as a whole.
    wanted = [name for name in table.columns if name not in choices.drop or name == choices.time]
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


def _bad_labels(pieces: list[Chunk], label: str, labels: pl.Series, is_no_number: NDArray[np.bool_]) -> list[BadRow]:
    """Return the rows whose label is missing or cannot be used."""
    reasons = ((labels.is_null().to_numpy(), "the label is missing"), (is_no_number, "the label is not a number"))
    return [_bad_row(pieces, int(row), label, reason) for is_bad, reason in reasons for row in np.flatnonzero(is_bad)]


def _bad_row(pieces: list[Chunk], row: int, column: str, reason: str) -> BadRow:
    for chunk in pieces:
        if row < len(chunk.ends):
            text = chunk.row_bytes(row).decode("utf-8", "replace").rstrip("\r")
            return BadRow(int(chunk.ends[row]), int(chunk.lines[row]), column, reason, text)
        row -= len(chunk.ends)
    raise IndexError(row)
