"""`accous extend`: labelled rows join the reference."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.table.columns import Marks
from accous.table.kinds import LINE, place_texts, require_no_feature
from accous.table.labels import LabelJob
from accous.table.model import TableModel, labels_of_frame, load_table_model, save_table_model, times_in_order
from accous.table.options import ExtendOptions
from accous.table.readers import STDIN, BadRow, Position, TableReader, open_table, require_widths, with_labels
from accous.table.rows import (
    RowNumbers,
    RowReader,
    Rows,
    numbers_of_keyed_rows,
    numbers_of_lines,
    numbers_of_texts,
    write_rejects,
)
from accous.table.runs import absolute, require_free, require_separate_files

# --- What became of the rows


@dataclass(frozen=True, kw_only=True)
class RowsJoined:
    """What became of the rows in a file.

    Attributes
    ----------
    n_read : int
        Rows of the file that could be read.
    n_joined, n_before : int
        Rows that joined now, and rows that had joined before.
    n_copies : int
        Rows that did not join because the reference has them already, such as those that ``fit`` was given.
    n_alike : int
        Rows that joined although a row of the reference is the same; 0 if they are few.
    n_missing, n_unmatched : int
        Rows without a label, and late labels without a row in the stream.
    n_unnamed : int
        Late labels without a key; ``key`` is the name of its column.
    n_left : int
        Rows that left the reference.
    new_classes : list of str
    bad_rows : list of BadRow
        The rows set aside.
    joined_by : str
        How late labels were joined with their rows, in words; empty if the file has the rows itself.
    """

    n_read: int
    n_joined: int = 0
    n_before: int = 0
    n_copies: int = 0
    n_alike: int = 0
    n_missing: int
    n_unmatched: int = 0
    n_unnamed: int = 0
    key: str = ""
    n_left: int = 0
    new_classes: list[str] = field(default_factory=list)
    bad_rows: list[BadRow]
    joined_by: str = ""


# --- The job of accous extend: labelled rows join the reference of a saved model, each of them once


@dataclass(frozen=True)
class _LabelledRows:
    """Encoded rows with labels, in order of time, and what they are remembered by."""

    X: NDArray[np.float64]
    labels: pl.Series
    marks: Marks
    numbers: RowNumbers


class ExtendJob:
    """Adds labelled rows to the reference of a saved table model; the caller holds the folder's lock.

    Parameters
    ----------
    options : ExtendOptions

    Attributes
    ----------
    table_model : TableModel
    """

    def __init__(self, options: ExtendOptions) -> None:
        self._options = options
        inputs = {"LABELLED": options.rows, "--predictions": options.predictions}
        require_separate_files(inputs, {"--rejects": options.rejects}, options.model, options.label)
        require_free(options.rejects)
        self.table_model: TableModel = load_table_model(options.model, options.estimator)

    def run(self) -> RowsJoined:
        """Add the rows and save the model; a crash at any moment leaves the model as it was, or as it is now."""
        options, model = self._options, self.table_model.model
        found, read = self._read()
        self._require_classes(found.labels)
        n_reference, classes = len(model.task_), set(self.table_model.kind.names)
        rows = self.table_model.extend_rows(
            found.X,
            found.labels,
            found.marks,
            numbers=found.numbers,
            order=options.ordered is not False,
            max_reference=options.max_reference,
            drop=options.drop_rows.replace("-", " "),
        )
        n_joined, n_copies = int(rows.is_new.sum()), int(rows.is_copy.sum())
        if n_joined:
            save_table_model(self.table_model, options.model, is_last=True)
        if read.bad_rows and options.rejects is not None:
            # Last: a command that fails leaves no file that would be in its way when it is repeated.
            write_rejects(read.bad_rows, options.rejects)
        return replace(
            read,
            n_joined=n_joined,
            n_before=len(found.labels) - n_joined - n_copies,
            n_copies=n_copies,
            n_alike=rows.n_alike,
            n_left=n_reference + n_joined - len(model.task_),
            new_classes=[name for name in self.table_model.kind.names if name not in classes],
        )

    def summary(self, joined: RowsJoined) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        model = self.table_model.model
        return {
            "model": str(self._options.model),
            "rows": joined.n_read,
            "joined": joined.n_joined,
            "joined_before": joined.n_before,
            "in_reference": joined.n_copies,
            "without_label": joined.n_missing,
            "without_key": joined.n_unnamed,
            "unmatched": joined.n_unmatched,
            "rejected": len(joined.bad_rows),
            "left": joined.n_left,
            "reference_rows": len(model.task_),
            "classes": self.table_model.kind.names,
            "new_classes": joined.new_classes,
            "backtest": None if model.backtest_ is None else model.backtest_.summary(),
            "guard": model.rules_.guard.name,
        }

    def _read(self) -> tuple[_LabelledRows, RowsJoined]:
        """Return the labelled rows of the file, and counts of the others."""
        options = self._options
        widths = self.table_model.settings.get("widths", {})
        table = open_table(
            options.rows, options.format, encoding=options.encoding, separator=options.separator, widths=widths
        )
        try:
            # A key may be a column of the model, such as the time of the row: it does not make labels a table of rows.
            used = set(self.table_model.encoder.used_columns) - {options.key}
            if used.isdisjoint(table.columns):
                return self._read_from_stream()
            if options.predictions is not None:
                raise ParameterError(
                    f"--predictions is for late labels alone, and {table.name} has columns of the model: leave it out."
                )
            require_widths(table.name, table.widths, widths)
            return self._read_table(*with_labels(table, options.label or self.table_model.label))
        finally:
            table.close()

    def _read_table(self, table: TableReader, label: str) -> tuple[_LabelledRows, RowsJoined]:
        """Read rows that have the columns of the model."""
        options, settings = self._options, self.table_model.settings
        require_no_feature(label, options.label or label, self.table_model.encoder.used_columns)
        order = settings.get("order") or {"by": None}
        needed = [label, options.key, order["column"] if self._sorts and order["column"] in table.columns else None]
        passed = list(dict.fromkeys(name for name in needed if name is not None))
        reader = RowReader(
            table, self.table_model.encoder, passed, skips_bad=options.on_bad_row == "skip", accepts_unknown=True
        )
        pieces = [piece for piece in reader.read(Position()) if piece is not None]
        if not pieces:
            raise DataError(f"{table.name} has no rows.")
        rows = pieces[0]
        for piece in pieces[1:]:
            rows = rows.followed_by(piece)
        found = self._labelled(rows, label)
        n_missing = len(rows) - len(found.labels)
        return found, RowsJoined(n_read=len(rows), n_missing=n_missing, bad_rows=rows.bad_rows)

    @property
    def _sorts(self) -> bool:
        """Whether the rows are sorted by the column that sorted the reference."""
        order = self.table_model.settings.get("order") or {"by": None}
        return self._options.ordered is None and order["by"] == "time"

    def _labelled(self, read: Rows, label: str) -> _LabelledRows:
        """Return the rows that have a label, in order of time."""
        labelled = labels_of_frame(read.frame, label, label, self.table_model.kind)
        rows = labelled.rows
        if self._sorts and len(rows):
            rows = rows[times_in_order(read.frame[rows], self.table_model.settings)]
        key, labels, X = self._options.key, labelled.labels[rows], read.X[rows]
        keys = None if key is None else labelled.keys(read.frame, key)[rows]
        lines = numbers_of_lines(read.lines[rows], X)
        numbers = numbers_of_keyed_rows(absolute(self._options.rows), lines, labels, key=key, keys=keys)
        return _LabelledRows(X, labels, read.marks[rows], numbers)

    def _read_from_stream(self) -> tuple[_LabelledRows, RowsJoined]:
        """Read late labels, and their rows from the stream that a run has predicted."""
        options = self._options
        if options.rows == STDIN:
            raise DataError("stdin has none of the columns of the model: give late labels in a file.")
        job = LabelJob(options.to_labels(), self.table_model)
        table, matched = job.match()
        rows = job.rows(matched, table.place_column)
        if rows is None:
            raise DataError(
                f"{options.rows} has none of the columns of the model, and its rows cannot be read again from the "
                "stream that was predicted: give a table that has the columns and the labels."
            )
        labels, lines = matched["label"], numbers_of_lines(rows.lines, rows.X)
        key = None if options.key == LINE else options.key  # lines name rows of this stream only
        keys = None if key is None else numbers_of_texts(place_texts(matched["place"]))
        numbers = numbers_of_keyed_rows(rows.stream, lines, labels, key=key, keys=keys)
        return _LabelledRows(rows.X, labels, rows.marks, numbers), RowsJoined(
            n_read=table.n_read,
            n_missing=table.n_missing,
            n_unmatched=table.rows.height - matched.height,
            n_unnamed=table.n_unnamed,
            key=table.place_column or "",
            bad_rows=[],
            joined_by=job.joined_in_words(table, matched),
        )

    def _require_classes(self, labels: pl.Series) -> None:
        if not len(labels):
            raise DataError(f"{self._options.rows} holds no label.")
        stranger = self.table_model.kind.stranger(labels)
        if stranger is not None:
            raise DataError(
                f"None of the labels in {self._options.rows} {stranger}; the first is {labels[0]!r}: is this the file, "
                "and --label its column?"
            )
