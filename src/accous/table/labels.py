"""`accous labels` and `accous extend`: late labels joined with predictions, and labelled rows for the reference."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import DataError, ParameterError
from accous.table.adapt import StreamRows, is_unchanged, open_stream_again, read_stream_rows
from accous.table.columns import Marks
from accous.table.kinds import (
    LINE,
    LabelTable,
    is_comparable,
    match_predictions,
    place_texts,
    read_label_table,
    require_no_feature,
    written_intervals,
)
from accous.table.model import TableModel, labels_of_frame, load_table_model, save_table_model, times_in_order
from accous.table.options import ExtendOptions, LabelsOptions
from accous.table.readers import STDIN, BadRow, Position, TableReader, open_table, require_widths, with_labels
from accous.table.rows import (
    PendingRows,
    RowNumbers,
    RowReader,
    find_new,
    numbers_of_keyed_rows,
    numbers_of_lines,
    numbers_of_rows,
    numbers_of_texts,
    remember,
    write_rejects,
)
from accous.table.runs import Job, absolute, find_run, last_run_with_rows, require_free, require_separate_files
from accous.table.summary import summarize_labels
from accous.text import count

# --- accous labels: late labels joined with the predictions that they belong to


# --- What became of the labels


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
        Labels that an earlier call has counted.
    n_differing : int
        How many of those have another class now; what was counted stays.
    n_unmatched : int
        Labels without a prediction; ``first_unmatched`` is the place of one.
    n_missing, n_repeated : int
        Rows without a label, and rows that repeat another one.
    n_unnamed : int
        Rows that have a label, but no key; ``key`` is the name of its column.
    joined_by : str
        How labels and predictions were joined, in words.
    n_earlier : int
        Labels that are not counted, because they are about predictions from before rows joined the reference.
    has_rows : bool
        Whether the rows were found in the stream, so that P(y | x) can be tested and the fixed model is measured too.
    is_known_run : bool
        Whether the predictions are those of a run that the model remembers, whose stream can be read again.
    """

    n_read: int
    n_counted: int
    n_before: int
    n_differing: int
    n_unmatched: int
    first_unmatched: str
    n_missing: int
    n_repeated: int
    n_unnamed: int
    key: str
    joined_by: str
    n_earlier: int
    has_rows: bool
    is_known_run: bool


# --- Whether labels that are joined by position meet their own rows: columns that both files have must agree


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


# --- The job of accous labels: late labels are joined with the predictions and counted, each of them once


_MOST_NAMED = 3


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
        self._predictions = self._find_predictions()
        last, earlier = self.table_model.job, self.table_model.earlier_runs
        # The job whose stream the predictions are about; None if it is not remembered.
        self._job = find_run(last, earlier, self._predictions)
        # Of the last run if it is not: runs on one model usually have one key.
        job = self._job or last
        self._usual_key = None if job is None else job.spec.options.get("key") or None

    def run(self) -> LabelsCounted:
        """Count the labels and save the model."""
        if self._job is not None and self._job.n_scored:
            raise DataError(
                f"The run that wrote {self._predictions} has counted the labels of its stream already (accous adapt "
                "--label): they must not count twice."
            )
        table, matched = self.match()
        numbers, before = self._numbers(matched), self.table_model.counted_labels
        is_new, n_differing = find_new(numbers, before)
        n_before, is_earlier = int((~is_new).sum()), self._is_earlier(matched)
        is_new &= ~is_earlier
        new = matched.filter(pl.Series(is_new))
        rows = self.rows(new, table.place_column)
        if new.height:
            self._observe(new, None if rows is None else rows.X)
            self.table_model.counted_labels = remember(before, numbers[is_new])
            save_table_model(self.table_model, self._options.model, is_last=True)
        unmatched = table.rows.join(matched, on="place", how="anti")["place"]
        return LabelsCounted(
            n_read=table.n_read,
            n_counted=new.height,
            n_before=n_before,
            n_differing=n_differing,
            n_unmatched=len(unmatched),
            first_unmatched=unmatched[0] if len(unmatched) else "",
            n_missing=table.n_missing,
            n_repeated=table.n_repeated,
            n_unnamed=table.n_unnamed,
            key=table.place_column or "",
            joined_by=self.joined_in_words(table, matched),
            n_earlier=matched.height - n_before - new.height,
            has_rows=rows is not None,
            is_known_run=self._job is not None,
        )

    def match(self) -> tuple[LabelTable, pl.DataFrame]:
        """Read the labels; return them, and the predictions that they belong to.

        Raises
        ------
        DataError
            If no label is a class of the reference, or none belongs to a prediction.
        """
        options, job = self._options, self._job
        table = read_label_table(
            options.labels,
            key=options.key,
            usual_key=self._usual_key,
            label=options.label,
            usual_label=self.table_model.label,
            compared=() if job is None else self._columns(job),
            table_format=options.format,
            encoding=options.encoding,
            separator=options.separator,
        )
        column = table.label_column or ""
        require_no_feature(column, options.label or column, self.table_model.encoder.used_columns)
        can_count = job is not None and job.n_rejected == 0
        n_rows = None if job is None else job.n_rows
        matched = match_predictions(table, self._predictions, can_count=can_count, n_rows=n_rows)
        self._require_matches(table, matched)
        if job is not None and table.place_column is None:
            self._require_positions(table, job)
        return table, matched

    def joined_in_words(self, table: LabelTable, matched: pl.DataFrame) -> str:
        """Say how labels and predictions were joined.

        It names the column of the labels if it is called otherwise than in the reference, and the key of the run if
        positions were taken on trust.
        """
        text, column = _joined_by(table.place_column, matched), table.label_column
        if column not in (None, self.table_model.label):
            text += f" (labels in column {column!r})"
        if table.place_column is None and table.others.is_empty() and self._usual_key is not None:
            text += f". The run has the key {self._usual_key!r}, and these labels do not: if they are in another order "
            text += "than its rows, they are compared with the wrong ones"
        return text

    def _columns(self, job: Job) -> list[str]:
        """Return columns of the rows that were predicted: of the stream, or kept in the predictions."""
        try:
            stream = open_stream_again(self.table_model, job)
        except DataError:  # emptied or damaged since
            stream = None
        if stream is None:
            return _kept(job)
        stream.close()
        return stream.columns

    def _require_positions(self, table: LabelTable, job: Job) -> None:
        """Compare labels that have no key with the stream, or with what the predictions kept if it has changed."""
        rows = None
        if not table.others.is_empty() and is_unchanged(self.table_model, job):
            rows = open_stream_again(self.table_model, job)
        elif not set(_kept(job)).isdisjoint(table.others.columns):
            rows = open_table(self._predictions)
        try:
            require_same_rows(table, self._options.labels, rows, job.n_rows)
        finally:
            if rows is not None:
                rows.close()

    def summary(self, counted: LabelsCounted) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        measured = self.table_model.measured_
        estimated = None if measured is None or np.isnan(measured.estimated) else measured.estimated
        return {
            "labels": counted.n_read,
            "counted": counted.n_counted,
            "counted_before": counted.n_before,
            "before_joining": counted.n_earlier,
            "differing": counted.n_differing,
            "unmatched": counted.n_unmatched,
            "without_label": counted.n_missing,
            "without_key": counted.n_unnamed,
            "repeated": counted.n_repeated,
            "estimated_error": estimated,
            **summarize_labels(measured),
        }

    def _find_predictions(self) -> str:
        options = self._options
        if options.predictions is not None:
            return options.predictions
        job = last_run_with_rows(self.table_model.job, self.table_model.earlier_runs)
        if job is None:
            raise DataError(f"{options.model} has predicted nothing yet: run accous adapt first.")
        if not job.n_rows:
            raise DataError(
                "The last run has predicted no rows: name what an earlier one has written with --predictions."
            )
        if job.spec.output == STDIN:
            raise ParameterError("The last run wrote its predictions to stdout: name their file with --predictions.")
        if not Path(job.spec.output).is_file():
            raise DataError(
                f"{job.spec.output}, which the last run has written, is not there: name the file with --predictions."
            )
        return job.spec.output

    def _require_matches(self, table: LabelTable, matched: pl.DataFrame) -> None:
        if not table.rows.height:
            where = f" in a row that has its {table.place_column}" if table.n_unnamed else ""
            raise DataError(f"{self._options.labels} holds no label{where}.")
        stranger = self.table_model.kind.stranger(table.rows["label"].cast(pl.String))
        if stranger is not None:
            raise DataError(
                f"None of the labels in {self._options.labels} {stranger}; the first is {table.rows['label'][0]!r}: is "
                "this the file, and --label its column?"
            )
        if not matched.height:
            how = _joined_by(table.place_column, matched)
            raise DataError(
                f"Nothing in {self._options.labels} ({count(table.rows.height, 'label')}) belongs to a row of "
                f"{self._predictions}, {how} (the first is {table.rows['place'][0]!r}): give another --key or "
                f"--predictions{self._other_runs()}."
            )

    def _other_runs(self) -> str:
        """Name what other runs have written, the latest first."""
        runs = [*self.table_model.earlier_runs, *filter(None, [self.table_model.job])]
        others = [run.spec.output for run in reversed(runs) if run.n_rows and run is not self._job]
        shown = [each for each in others if Path(each).is_file()][:_MOST_NAMED]
        return f"; other runs have written {', '.join(shown)}" if shown else ""

    def _numbers(self, matched: pl.DataFrame) -> NDArray[np.uint64]:
        """Return numbers that rows are remembered by, whatever they were joined by."""
        places = matched["number"].to_numpy().astype(np.uint64)
        return numbers_of_rows(absolute(self._predictions), places, matched["label"], matched["round"])

    def _is_earlier(self, matched: pl.DataFrame) -> NDArray[np.bool_]:
        """Return which predictions were made before rows last joined the reference."""
        rounds = matched["round"].to_numpy().astype(np.float64)
        # A run numbers rows by the round they end; other files may hold what accous predict wrote after that round.
        return self.table_model.model.is_before_joining(rounds if self._job is None else rounds - 1.0)

    def rows(self, new: pl.DataFrame, place_column: str | None) -> StreamRows | None:
        """Return the rows of predictions, read again from the stream; None if that cannot be."""
        if self._job is None or not new.height:
            return None
        return read_stream_rows(self.table_model, self._job, new["place"], place_column=place_column)

    def _observe(self, new: pl.DataFrame, X: NDArray[np.float64] | None) -> None:
        kind = self.table_model.kind
        labels, predicted = (kind.values(new[column]) for column in ("label", "prediction"))
        self.table_model.model.observe(
            X,
            labels,
            predicted=predicted,
            estimated=self.table_model.current().estimates_at(new["round"]),
            intervals=None if kind.names else written_intervals(new),
        )
        self.table_model.note_late_labels(new)


def _kept(job: Job) -> list[str]:
    return str(job.spec.options.get("keep") or "").split(",")


def _joined_by(place_column: str | None, matched: pl.DataFrame) -> str:
    """Say how labels and predictions were joined."""
    if place_column is not None:
        return "joined by line" if place_column == LINE else f"joined by key {place_column}"
    if not matched.height:
        return "joined by position"
    return f"joined by position: rows {matched['number'][0] + 1:,} to {matched['number'][-1] + 1:,}"


# --- accous extend: labelled rows join the reference


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

    def _labelled(self, read: PendingRows, label: str) -> _LabelledRows:
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
