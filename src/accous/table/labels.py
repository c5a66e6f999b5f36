"""`accous labels` and `accous extend`: late labels joined with predictions, and labelled rows for the reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.table.columns import Marks
from accous.table.kinds import ID, LINE, LabelTable, key_texts, read_label_table, require_no_feature
from accous.table.model import (
    TableModel,
    labels_of_frame,
    load_table_model,
    open_store,
    save_table_model,
    times_in_order,
)
from accous.table.options import ExtendOptions, LabelsOptions
from accous.table.readers import STDIN, BadRow, Position, TableReader, open_table, require_widths, with_labels
from accous.table.rows import PendingRows, RowReader, features_from_json, write_rejects
from accous.table.runs import require_free, require_separate_files
from accous.table.store import STORE_NAME, Joined, Store, identify_source, looks_like_id
from accous.text import count

# --- accous labels: late labels joined with the predictions that the folder remembers


@dataclass(frozen=True, kw_only=True)
class LabelsCounted:
    """What became of the labels in a file.

    Attributes
    ----------
    n_read : int
        Rows of the file.
    n_counted : int
        Labels that were counted now.
    n_before : int
        Labels that were known already.
    n_corrected : int
        Labels that took the place of another one.
    n_unmatched : int
        Labels whose row is not remembered; ``first_unmatched`` is the place of one.
    n_missing, n_repeated : int
        Rows without a label, and rows that repeat another one.
    n_unnamed : int
        Rows that have a label, but nothing in the column that names the row, ``place_column``.
    joined_by : str
        How labels and predictions were joined, in words.
    n_earlier : int
        Labels that do not measure, because they are about predictions from before rows joined the reference.
    unseen : dict of str to int
        How many of the new labels are of each class that the reference does not have.
    """

    n_read: int
    n_counted: int
    n_before: int
    n_corrected: int
    n_unmatched: int
    first_unmatched: str
    n_missing: int
    n_repeated: int
    n_unnamed: int
    place_column: str
    joined_by: str
    n_earlier: int
    unseen: dict[str, int]


class LabelJob:
    """Counts late labels with a saved table model; the caller holds the folder's lock.

    Parameters
    ----------
    options : LabelsOptions
    table_model : TableModel, optional
        The model, if it is loaded already.

    Attributes
    ----------
    table_model : TableModel
    """

    def __init__(self, options: LabelsOptions, table_model: TableModel | None = None) -> None:
        self._options = options
        self.table_model: TableModel = (
            load_table_model(options.model, options.estimator) if table_model is None else table_model
        )

    def open_store(self) -> Store:
        """Open what the folder remembers; raise a DataError if that is nothing yet."""
        if not (self._options.model / STORE_NAME).exists():
            raise DataError(f"{self._options.model} has predicted nothing yet: run accous adapt first.")
        return open_store(self.table_model, self._options.model)

    def run(self) -> LabelsCounted:
        """Count the labels and save the model."""
        model = self.table_model
        with self.open_store() as store:
            table, joined = self.match(store)
            new, corrected = joined.new, joined.corrected
            store.set_labels(joined)
            if corrected.height:
                model.recount_labels(store.labelled())
            n_earlier = 0 if corrected.height or not new.height else model.count_labels(new)
            if new.height or corrected.height:
                # The store is ahead of the model until it is saved: whoever opens it before takes this batch back.
                model.stored = store.position
                save_table_model(model, self._options.model)
        return LabelsCounted(
            n_read=table.n_read,
            n_counted=new.height - n_earlier,
            n_before=joined.n_before,
            n_corrected=corrected.height,
            n_unmatched=len(joined.unknown),
            first_unmatched=joined.unknown[0] if len(joined.unknown) else "",
            n_missing=table.n_missing,
            n_repeated=table.n_repeated,
            n_unnamed=table.n_unnamed,
            place_column=table.place_column or LINE,
            joined_by=self.joined_in_words(table),
            n_earlier=n_earlier,
            unseen=self._unseen(new["given"]),
        )

    def _unseen(self, labels: pl.Series) -> dict[str, int]:
        names = self.table_model.kind.names
        return dict(Counter(each for each in labels.to_list() if each not in names)) if names else {}

    def undo(self) -> int:
        """Take the last labels back and save the model; return how many there were."""
        with self.open_store() as store, store.changing():
            n_labels = store.undo_last()
            if not n_labels:
                raise DataError(f"{self._options.model} has no labels that could be taken back.")
            self._save_recounted(store)
        return n_labels

    def forget(self, keys: list[str]) -> int:
        """Delete what is remembered of rows, and measure as if their labels had not come; return how many rows."""
        with self.open_store() as store, store.changing():
            n_rows = store.forget(keys)
            if n_rows:
                self._save_recounted(store)
        return n_rows

    def _save_recounted(self, store: Store) -> None:
        # The model is saved before the store changes: if that does not happen, the next one to open it does it again.
        self.table_model.recount_labels(store.labelled())
        self.table_model.stored = store.position
        save_table_model(self.table_model, self._options.model)

    def match(self, store: Store) -> tuple[LabelTable, Joined]:
        """Read the labels; return them, and the predictions that they belong to.

        Raises
        ------
        DataError
            If no label is a class of the reference, or none belongs to a prediction.
        """
        options = self._options
        assert options.labels is not None
        reader = open_table(options.labels, options.format, encoding=options.encoding, separator=options.separator)
        try:
            by, column, source = self._places(reader, store)
            table = read_label_table(
                reader, by=by, place_column=column, label=options.label, usual_label=self.table_model.label
            )
        finally:
            reader.close()
        label = table.label_column
        require_no_feature(label, options.label or label, self.table_model.encoder.used_columns)
        self._require_labels(table)
        joined = store.join(table.rows, by=by, source=source)
        if not joined.rows.height:
            raise DataError(
                f"Nothing in {options.labels} ({count(table.rows.height, 'label')}) belongs to a prediction that "
                f"{options.model} remembers, {self.joined_in_words(table)} (the first is {table.rows['place'][0]!r}): "
                "is it the --key that accous adapt had?"
            )
        return table, joined

    def _places(self, reader: TableReader, store: Store) -> tuple[str, str | None, int | None]:
        """Return what names the rows (key, id or line), its column, and the file whose lines are meant."""
        options, job = self._options, self.table_model.job
        usual = None if job is None else job.spec.options.get("key") or None
        if options.key is not None:
            return "key", options.key, None
        if options.id is not None:
            return "id", options.id, None
        if usual in reader.columns:
            return "key", usual, None
        if ID in reader.columns and _holds_ids(reader):
            return "id", ID, None
        if LINE in reader.columns:
            return "line", LINE, None
        known = store.sources()
        source = identify_source(options.labels or "", known)
        if source in known:
            return "line", None, source
        named = "" if usual is None else f" {usual!r}, which is the key of the run,"
        raise DataError(
            f"Nothing in {reader.name} says which rows its labels belong to: it has no column{named or ' of a key,'} "
            f"{ID!r} or {LINE!r} of the predictions, and is not the file that was predicted. Name a key with --key COL."
        )

    def joined_in_words(self, table: LabelTable) -> str:
        """Say how labels and predictions were joined; it names the column of the labels if it has another name."""
        text = f"joined by key {table.place_column}" if table.by == "key" else f"joined by {table.by}"
        if table.label_column != self.table_model.label:
            text += f" (labels in column {table.label_column!r})"
        return text

    def summary(self, counted: LabelsCounted | None = None) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        found = self.table_model.snapshot().to_json()
        if counted is None:
            return found
        return {
            "labels": counted.n_read,
            "counted": counted.n_counted,
            "counted_before": counted.n_before,
            "before_joining": counted.n_earlier,
            "corrected": counted.n_corrected,
            "unmatched": counted.n_unmatched,
            "without_label": counted.n_missing,
            "without_key": counted.n_unnamed,
            "repeated": counted.n_repeated,
            "unseen_classes": counted.unseen,
            **found,
        }

    def _require_labels(self, table: LabelTable) -> None:
        name = self._options.labels
        if not table.rows.height:
            where = f" in a row that has its {table.place_column}" if table.n_unnamed else ""
            raise DataError(f"{name} holds no label{where}.")
        stranger = self.table_model.kind.stranger(table.rows["label"].cast(pl.String))
        if stranger is not None:
            raise DataError(
                f"None of the labels in {name} {stranger}; the first is {table.rows['label'][0]!r}: is "
                "this the file, and --label its column?"
            )


def _holds_ids(reader: TableReader) -> bool:
    """Whether a column called id holds ids of predictions, and not somebody's own."""
    for chunk in reader.chunks([ID], Position()):
        if chunk is not None and chunk.frame.height:
            numbers = key_texts(chunk.frame[ID]).cast(pl.Int64, strict=False).drop_nulls()
            return len(numbers) > 0 and looks_like_id(int(numbers[0]))
    return False


# --- accous extend: labelled rows join the reference


# --- What became of the rows


@dataclass(frozen=True, kw_only=True)
class RowsJoined:
    """What became of the rows in a file.

    Attributes
    ----------
    n_read : int
        Rows of the file that could be read.
    n_joined : int
        Rows that joined now.
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


# --- The job of accous extend: labelled rows join the reference of a saved model


@dataclass(frozen=True)
class _LabelledRows:
    """Encoded rows with labels, in order of time."""

    X: NDArray[np.float64]
    labels: pl.Series
    marks: Marks


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
        require_separate_files({"LABELLED": options.rows}, {"--rejects": options.rejects}, options.model, options.label)
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
            order=options.ordered is not False,
            max_reference=options.max_reference,
            drop=options.drop_rows.replace("-", " "),
        )
        n_joined, n_copies = int(rows.is_new.sum()), int(rows.is_copy.sum())
        if n_joined:
            save_table_model(self.table_model, options.model)
        if read.bad_rows and options.rejects is not None:
            # Last: a command that fails leaves no file that would be in its way when it is repeated.
            write_rejects(read.bad_rows, options.rejects)
        return replace(
            read,
            n_joined=n_joined,
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
                return self._read_from_store()
            require_widths(table.name, table.widths, widths)
            return self._read_table(*with_labels(table, options.label or self.table_model.label))
        finally:
            table.close()

    def _read_table(self, table: TableReader, label: str) -> tuple[_LabelledRows, RowsJoined]:
        """Read rows that have the columns of the model."""
        options, settings = self._options, self.table_model.settings
        require_no_feature(label, options.label or label, self.table_model.encoder.used_columns)
        order = settings.get("order") or {"by": None}
        needed = [label, order["column"] if self._sorts and order["column"] in table.columns else None]
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

    def _labelled(self, read: PendingRows, label: str) -> _LabelledRows:
        """Return the rows that have a label, in order of time."""
        labelled = labels_of_frame(read.frame, label, label, self.table_model.kind)
        rows = labelled.rows
        if self._sorts and len(rows):
            rows = rows[times_in_order(read.frame[rows], self.table_model.settings)]
        return _LabelledRows(read.X[rows], labelled.labels[rows], read.marks[rows])

    def _read_from_store(self) -> tuple[_LabelledRows, RowsJoined]:
        """Read late labels, and their rows from what the folder remembers of its predictions."""
        options = self._options
        if options.rows == STDIN:
            raise DataError("stdin has none of the columns of the model: give late labels in a file.")
        job = LabelJob(options.to_labels(), self.table_model)
        with job.open_store() as store:
            table, joined = job.match(store)
        rows = features_from_json(joined.rows["features"], self.table_model.encoder)
        if rows is None:
            raise DataError(
                f"{options.rows} has none of the columns of the model, and its rows are not remembered: give a table "
                "that has the columns and the labels."
            )
        return _LabelledRows(rows.X, joined.rows["given"], rows.marks), RowsJoined(
            n_read=table.n_read,
            n_missing=table.n_missing,
            n_unmatched=len(joined.unknown),
            n_unnamed=table.n_unnamed,
            key=table.place_column or LINE,
            bad_rows=[],
            joined_by=job.joined_in_words(table),
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
