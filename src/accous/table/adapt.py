"""`accous adapt` and `accous predict`: a model over a table, resumable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.table.kinds import ClassForm, check_known_labels, form_of, require_no_feature
from accous.table.model import RoundResult, TableModel, load_table_model, open_store, save_table_model
from accous.table.options import AdaptOptions, PredictOptions
from accous.table.readers import (
    STDIN,
    BadRow,
    Position,
    RowsOutput,
    TableReader,
    finish_parquet,
    is_usable,
    open_as_asked,
    partial_path,
    predicting_path,
    require_widths,
    to_texts,
    with_labels,
    written_format_of,
)
from accous.table.rows import (
    NamedRows,
    PendingRows,
    RowReader,
    output_columns,
    output_schema,
    predictions_frame,
    rejects_frame,
)
from accous.table.runs import (
    Job,
    JobSpec,
    RoundRule,
    UnknownCounts,
    absolute,
    add_unknown,
    begin_or_resume,
    chosen_columns,
    is_same_file,
    require_free,
    require_separate_files,
)
from accous.table.snapshot import TableSnapshot
from accous.table.store import ID_STEP, Store, identify_source, ids_from

# --- Scores against the labels of a stream: how far the adapted model and the fixed one are off


class Scoring:
    """Sums up losses; labels are never learned from.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
    label : str
        The column.
    """

    def __init__(self, model: Any, label: str) -> None:
        self._model, self._label, self._form = model, label, form_of(model.task_)
        self._of_frame: tuple[pl.DataFrame, NDArray[Any], NDArray[np.bool_], pl.Series] | None = None
        self._fixed: tuple[Any, NDArray[Any]] | None = None

    def count(self, rows: PendingRows, answers: NDArray[Any], start: int, stop: int) -> tuple[int, float, float]:
        """Count the rows of a batch with a label, and sum up the losses of the fixed and the adapted model on them.

        A class that the reference does not have counts as an error of both.
        """
        truths, has_label = (each[start:stop] for each in self._labels(rows.frame)[:2])
        if self._fixed is None or self._fixed[0] is not rows.X:
            # The fixed model reads no columns that only labelled rows have.
            known = rows.X[:, : self._model.n_features_in_]
            self._fixed = rows.X, self._form.fixed_answers(self._model, known)
        fixed = self._fixed[1][start:stop]
        self._last = answers
        labelled = np.flatnonzero(has_label)
        if not len(labelled):
            return 0, 0, 0
        losses, losses_fixed = (
            self._form.losses(self._model, truths[labelled], each[labelled]).sum().item() for each in (answers, fixed)
        )
        return len(labelled), losses_fixed, losses

    def observe(self, frame: pl.DataFrame, batch: NDArray[np.float64], start: int, stop: int) -> None:
        """Let the model measure with the labels that were just counted; the arguments are those of `count`."""
        _, has_label, texts = self._labels(frame)
        rows = np.flatnonzero(has_label[start:stop])
        if len(rows):
            is_whole, given = len(rows) == stop - start, texts[start:stop]
            # Where all rows have a label, none was chosen; others may be of a certain kind of rows.
            probability = 1.0 if is_whole else None
            self._model.observe(
                batch[rows],
                self._form.values(given if is_whole else given.gather(rows)),
                predicted=self._form.predictions(self._last[rows]),
                probability=probability,
                learn=False,
            )

    def _labels(self, frame: pl.DataFrame) -> tuple[NDArray[Any], NDArray[np.bool_], pl.Series]:
        """Return the true answer of each row, whether it has a label, and the label as text, read once for a frame."""
        if self._of_frame is None or self._of_frame[0] is not frame:
            texts = to_texts(frame[self._label])
            self._of_frame = frame, self._form.true_answers(texts), texts.is_not_null().to_numpy(), texts
        return self._of_frame[1:]


# --- The online stage over a table: predict, learn, write, save. A run that is killed resumes where it was


_END = object()
_MOST_WAITING, _ROWS_BETWEEN_PRUNES = 20_000, 100_000  # predictions in memory, and on the disk
_MOST_AHEAD = 2048
_MOST_ROUNDS_TOGETHER = 16  # between two looks whether to stop or to save


class _Following:
    """Follows the stream of a job.

    Parameters
    ----------
    job : AdaptJob
        That has begun.
    output, rejects : RowsOutput
        The second is for bad rows; None if they are not kept.
    should_stop : callable
        Called after every few rounds; if it returns True, the run is saved and ends early.
    on_round : callable
        Called after every few rounds with the record so far.
    """

    def __init__(
        self,
        job: AdaptJob,
        output: RowsOutput,
        rejects: RowsOutput | None,
        should_stop: Callable[[], bool],
        on_round: Callable[[Job], None],
    ) -> None:
        options = job.options
        self._job, self._record, self._table_model = job, job.record, job.table_model
        self._output, self._rejects = output, rejects
        self._rule, self._save_rule = RoundRule(options.batch_size, options.by), options.save_rule()
        self._should_stop, self._on_round = should_stop, on_round
        self._scoring = None if job.label is None else Scoring(job.table_model.model, job.label)
        self._memory, self._ahead = _RememberedRows(job), _Ahead(job.table_model)
        self._last_save, self._last_saved_round = time.monotonic(), job.table_model.model.n_rounds_

    def run(self) -> bool:
        """Follow the stream to its end; return whether that was reached."""
        waiting: PendingRows | None = None
        pieces = self._job.reader().read(self._record.position)
        while (rows := self._next(pieces)) is not _END:
            if rows is None:
                self._output.flush()
                if self._is_over():
                    return False
                continue
            waiting = rows if waiting is None else waiting.followed_by(rows)
            waiting, is_stopped = self._run_rounds(waiting, is_end=False)
            if is_stopped:
                return False
        return self._finish(waiting)

    def _next(self, pieces: Iterator[PendingRows | None]) -> Any:
        """Return the next piece; if reading fails, save the rounds before it, whose rows are all written."""
        try:
            return next(pieces, _END)
        except Exception:
            self._save(is_last=True)
            raise

    def _is_over(self) -> bool:
        if self._should_stop():
            self._save(is_last=True)
            return True
        is_news = self._table_model.model.n_rounds_ != self._last_saved_round
        if is_news and self._save_rule.rounds is None and self._save_rule.is_due(0, self._last_save):
            self._save()
        return False

    def _finish(self, waiting: PendingRows | None) -> bool:
        if waiting is not None:
            waiting, is_stopped = self._run_rounds(waiting, is_end=True)
            if is_stopped and len(waiting):
                return False
            self._reject(waiting.bad_rows)
            if waiting.bad_rows:
                last = waiting.bad_rows[-1]
                self._record.position = Position(last.end, last.line)
        self._write_header()
        self._output.put_on_disk()
        self._job.finish_output(self._job.options.output)
        self._save(is_last=True, is_finished=True)
        return True

    def _write_header(self) -> None:
        """Name the columns also if there were no rows, so that the output is a table."""
        if not self._output.n_bytes:
            columns = output_columns(self._job.options.key, self._job.kept, self._table_model.form)
            self._output.write(pl.DataFrame(schema=columns))

    def _run_rounds(self, rows: PendingRows, *, is_end: bool) -> tuple[PendingRows, bool]:
        """Run the complete rounds; return the remaining rows, and whether to stop."""
        results, model = _Results(rows, self._table_model), self._table_model.model
        ends, n_run, start = self._rule.stops(rows.frame, len(rows), is_end=is_end), 0, 0
        while n_run < len(ends):
            n_most = self._save_rule.rounds_left(model.state_.n_rounds, _MOST_ROUNDS_TOGETHER)
            n_run += self._run_some(rows, results, start, ends[n_run : n_run + n_most])
            start = ends[n_run - 1]
            is_stopped = self._should_stop()
            is_due = self._save_rule.is_due(model.state_.n_rounds, self._last_save) or self._memory.is_full
            if is_stopped or is_due:
                self._emit(rows, results, start)
                self._save(is_last=is_stopped)
                if is_stopped:
                    return rows.after(start), True
            self._on_round(self._record)
        self._emit(rows, results, start)
        return rows.after(start), False

    def _run_some(self, rows: PendingRows, results: _Results, start: int, ends: list[int]) -> int:
        """Run these rounds, or the first one if it is to be scored; return how many."""
        scoring, record = self._scoring, self._record
        ends = ends if scoring is None else ends[:1]
        stop = ends[-1]
        part, X = slice(start, stop), rows.X
        result = self._table_model.run_rounds(
            X[part],
            rows.marks[part],
            ends=[end - start for end in ends],
            known_scores=lambda first, last: self._ahead.scores(X, start + first, start + last),
            learns_first=self._job.options.learn_first,
            count_errors=None if scoring is None else lambda found: scoring.count(rows, found, start, stop),
            times=None if results.times is None else results.times[part],
        )
        if scoring is not None:
            scoring.observe(rows.frame, X[part], start, stop)
            record.n_scored += result.counts[0]
            record.n_wrong_fixed += result.counts[1]
            record.n_wrong += result.counts[2]
        results.rounds[part] = result.rounds
        results.scores[part] = result.scores
        results.ratios[part] = result.ratios
        record.n_rows += stop - start
        record.n_rounds += len(ends)
        return len(ends)

    def _emit(self, rows: PendingRows, results: _Results, stop: int) -> None:
        """Write the rows up to ``stop`` and the bad rows between them; record the position."""
        start, results.n_emitted = results.n_emitted, stop
        if start == stop:
            return
        part = slice(start, stop)
        form = self._table_model.form
        named = self._memory.add(rows, start, stop, results, self._job.label)
        self._output.write(
            predictions_frame(named.copied(), results.rounds[part], results.scores[part], results.ratios[part], form)
        )
        self._record.position = rows.position_after(stop - 1)
        self._record.n_missing += int(rows.n_missing[part].sum())
        n_unknown = int(rows.n_unknown[part].sum())
        if n_unknown:
            self._record.n_unknown += n_unknown
            encoder = self._table_model.encoder
            self._record.unknown_in = add_unknown(self._record.unknown_in, rows.marks[part], encoder)
        first_end, end = rows.end_of(start - 1) if start else -1, rows.end_of(stop - 1)
        self._reject([bad for bad in rows.bad_rows if first_end < bad.end < end])

    def _reject(self, bad_rows: list[BadRow]) -> None:
        if not bad_rows or self._rejects is None:
            return
        self._rejects.write(rejects_frame(bad_rows))
        self._record.n_rejected += len(bad_rows)

    def _save(self, *, is_last: bool = False, is_finished: bool = False) -> None:
        record = self._record
        record.n_output_bytes = self._output.put_on_disk()
        record.n_reject_bytes = 0 if self._rejects is None else self._rejects.put_on_disk()
        record.is_finished = is_finished
        self._memory.put_on_disk(is_last=is_last)
        save_table_model(self._table_model, self._job.options.model)
        self._last_save, self._last_saved_round = time.monotonic(), self._table_model.model.n_rounds_


class _Ahead:
    """Predicts rows of later rounds together with those of a round, as long as the predictor stays the same.

    One call for ten rows of trees takes nearly as long as one for a thousand.
    """

    def __init__(self, table_model: TableModel) -> None:
        self._model, self._form = table_model.model, table_model.form
        self._of: tuple[Any, Any] = None, None
        self._found, self._start = np.empty(0), 0
        self._first, self._n_ahead = 0, 0

    def scores(self, X: NDArray[np.float64], start: int, stop: int) -> NDArray[np.float64] | None:
        """Return the scores of some rows by the predictor in use; rows after them may be predicted with them.

        None if they are to be computed round by round.
        """
        # Intervals of numbers depend on the round.
        if not isinstance(self._form, ClassForm) or self._model.state_.learning is not None:
            return None
        predictor = self._model.estimator_
        is_same, is_same_piece = self._of[0] is predictor, self._of[1] is X
        if not (is_same and is_same_piece) or stop > self._start + len(self._found):
            if is_same_piece:
                # As many rows again as this predictor has predicted, or as the one before it had.
                self._n_ahead = min(start - self._first, _MOST_AHEAD)
            if not (is_same and is_same_piece):
                self._of, self._first = (predictor, X), start
            ahead = X[start : max(stop, start + self._n_ahead)]
            self._start, self._found = start, self._form.scores(self._model, ahead)
        return self._found[start - self._start : stop - self._start]


class _RememberedRows:
    """The predictions of a run on their way to the store, which has them before the model is saved."""

    def __init__(self, job: AdaptJob) -> None:
        self._job, self._store, self._table_model = job, job.store, job.table_model
        self._next_id = job.store.next_id()
        self._waiting: list[pl.DataFrame] = []
        self._n_waiting = self._n_written = 0

    def add(self, rows: PendingRows, start: int, stop: int, results: _Results, label: str | None) -> NamedRows:
        """Give the rows their ids, and remember what was predicted."""
        ids = ids_from(self._next_id, stop - start)
        self._next_id = int(ids[-1]) + ID_STEP
        named = NamedRows(rows, start, stop, ids, self._job.options.key, self._job.kept)
        form, source = self._table_model.form, self._job.record.source
        found = named.to_store(
            source, results.rounds[start:stop], results.scores[start:stop], form, self._table_model.encoder
        )
        if label is not None:
            found = found.with_columns(label=to_texts(rows.frame[label][start:stop]))
        self._waiting.append(found)
        self._n_waiting += len(ids)
        if self._n_waiting >= _MOST_WAITING:
            self._write()
        return named

    @property
    def is_full(self) -> bool:
        """Whether so much was written that a save should come, which forgets what is old."""
        return self._n_written >= _ROWS_BETWEEN_PRUNES

    def put_on_disk(self, *, is_last: bool) -> None:
        """Write what is waiting; at the end of a run, and now and then in a long one, forget what is old."""
        self._write()
        if is_last or self.is_full:
            self._store.prune()
            self._n_written = 0
        self._table_model.stored = self._store.position

    def _write(self) -> None:
        if self._waiting:
            self._store.add_predictions(pl.concat(self._waiting), learned=True)
            self._n_written += self._n_waiting
            self._waiting, self._n_waiting = [], 0


class _Results:
    """The results of rows, round by round, and when the rows happened."""

    def __init__(self, rows: PendingRows, table_model: TableModel) -> None:
        n_rows = len(rows)
        column = table_model.time_column
        self.times = None if column is None else column.seconds(rows.frame)
        self.rounds = np.zeros(n_rows, dtype=np.int64)
        self.scores = table_model.form.no_scores(n_rows)
        self.ratios = np.zeros(n_rows)
        self.n_emitted = 0


# --- What accous adapt and accous predict share: a saved model, rows to predict, and where the predictions go


class _PredictingJob:
    """A job that predicts rows from file to file.

    Parameters
    ----------
    options : AdaptOptions or PredictOptions
    rows : str
        The file of the rows.
    argument : str
        What the command calls it, for messages.
    label : str, optional
        Column or file of labels, for scoring only.
    is_growing : bool
        Whether to wait for more rows at the end of the file.

    Attributes
    ----------
    table_model : TableModel
    table : TableReader
        The rows.
    label : str or None
        Their column of labels.
    kept : list of str
        Columns to copy to the predictions, besides the key.
    rejects_path : str or None
        Where rows set aside go: next to the predictions, unless another file is named.
    """

    options: AdaptOptions | PredictOptions

    def __init__(
        self,
        options: AdaptOptions | PredictOptions,
        rows: str,
        argument: str,
        *,
        label: str | None = None,
        is_growing: bool = False,
    ) -> None:
        self.options = options
        self._output_format = "csv" if options.output == STDIN else written_format_of(options.output)
        self._rows, self._named_label, self._is_growing = rows, label, is_growing
        self.rejects_path = options.rejects
        if options.on_bad_row == "skip" and not options.rejects and options.output != STDIN:
            self.rejects_path = f"{options.output}.rejects.csv"
        self.table_model = load_table_model(options.model, options.estimator)
        outputs = {"--output": options.output, "--rejects": self.rejects_path}
        require_separate_files({argument: rows}, outputs, options.model, label)
        self.table, self.label = self._open()
        table = self.table
        kept = chosen_columns("--keep", options.keep, table.columns, table.name, table.widths)
        self.kept = [name for name in kept if name != options.key]
        output_columns(options.key, self.kept, self.table_model.form)

    @property
    def _is_parquet(self) -> bool:
        return self._output_format == "parquet"

    def _open(self) -> tuple[TableReader, str | None]:
        """Open the rows, whose embeddings must be as wide as those of the reference; return their label column, too."""
        widths = self.table_model.settings.get("widths", {})
        table = open_as_asked(self._rows, self.options, is_growing=self._is_growing, widths=widths)
        require_widths(table.name, table.widths, widths)
        return (table, None) if self._named_label is None else with_labels(table, self._named_label)

    def _make_reader(self, *others: str | None) -> RowReader:
        """Return what reads the rows; it passes the key, some other columns and those that are kept through."""
        options = self.options
        passed = list(dict.fromkeys(filter(None, [options.key, *others, *self.kept])))
        skips_bad, accepts_unknown = options.on_bad_row == "skip", options.unknown_category == "use"
        return RowReader(
            self.table, self.table_model.encoder, passed, skips_bad=skips_bad, accepts_unknown=accepts_unknown
        )

    @contextmanager
    def _outputs(
        self, path: str, n_bytes: int = 0, n_reject_bytes: int = 0
    ) -> Iterator[tuple[RowsOutput, RowsOutput | None]]:
        """Open the files of the predictions and of the rows set aside, behind so many bytes; close them at the end."""
        text_format = "csv" if self._is_parquet else self._output_format
        with ExitStack() as opened:
            output = opened.enter_context(closing(RowsOutput(path, text_format, n_bytes)))
            rejects = None
            if self.rejects_path is not None:
                rejects = opened.enter_context(closing(RowsOutput(self.rejects_path, "csv", n_reject_bytes)))
            yield output, rejects

    def finish_output(self, path: str) -> None:
        """Turn the collected rows into a Parquet file, if the output is one."""
        if not self._is_parquet:
            return
        key = self.options.key
        types = self.table.column_types(self.kept if key is None else [key, *self.kept])
        finish_parquet(path, output_schema(key, self.kept, self.table_model.form, types))


# --- The job of accous adapt from files to files: open, begin or resume, follow the stream, finish the output


class AdaptJob(_PredictingJob):
    """Follows a stream from file to file with a saved table model; the caller holds the folder's lock.

    Parameters
    ----------
    options : AdaptOptions

    Attributes
    ----------
    n_rows_before : int
        Rows that the job had predicted when it was begun here.
    abandoned : str or None
        The stream of an unfinished run whose place this job takes, because that run has no results.
    doubt : str or None
        A remark if many of the labels to score with are none that the model knows, after `begin`.
    is_reference : bool
        Whether the stream is the file that the model was fitted on, after `begin`.
    is_followed_again : bool
        Whether the model has learned from the rows of this stream before, after `begin`.
    repeated_key : str or None
        A key that several rows have, after `follow`: labels that come late belong to the last of them.
    store : Store
        What the folder remembers of its predictions, after `begin`.
    """

    options: AdaptOptions

    def __init__(self, options: AdaptOptions) -> None:
        super().__init__(options, options.stream, "STREAM", label=options.label, is_growing=options.follow)
        self.n_rows_before = 0
        self.abandoned: str | None = None
        self.doubt: str | None = None
        self.is_reference = False
        self.is_followed_again = False
        self.repeated_key: str | None = None
        self.store: Store

    @property
    def record(self) -> Job:
        """The job and its progress."""
        assert self.table_model.job is not None
        return self.table_model.job

    def begin(self) -> bool:
        """Begin the job or resume it; return whether there is anything to do."""
        options, table_model = self.options, self.table_model
        self.reader()  # checks the columns: a stream that does not fit must not replace the record of the last run
        self._check_labels()
        before, spec = table_model.job, self._spec()
        if before is not None and before.is_finished and before.spec == spec and self._is_parquet:
            self._remove_partial()
            return False
        table_model.job = begin_or_resume(
            spec, before, is_new=options.new, overwrites=options.force, folder=options.model
        )
        self.store = open_store(table_model, options.model)
        self.store.position = replace(self.store.position, keep_days=options.keep_days)
        if not self.record.n_rows:
            self.is_reference = is_same_file(options.stream, table_model.settings.get("reference_file"))
            self._name_stream()
        self.n_rows_before = self.record.n_rows
        if before is not None and not before.is_finished and not options.new and self.record.spec != before.spec:
            self.abandoned = None if before.spec.is_taken_up_by(spec) else before.spec.stream
        if self.record.n_output_bytes == 0:
            # The job is saved before its output exists, so that the output is never taken for a foreign file.
            save_table_model(table_model, options.model)
        return True

    def _name_stream(self) -> None:
        """Give a new run the number of its stream."""
        store, record = self.store, self.record
        record.first_id, known = store.next_id(), store.sources()
        source = identify_source(self.options.stream, known)
        self.is_followed_again = source is not None and store.has_learned(source)
        record.source = record.first_id if source is None else source

    def _check_labels(self) -> None:
        """Refuse labels that are a feature or none that the model knows."""
        if self.label is None:
            return
        named, table_model = self._named_label or "", self.table_model
        require_no_feature(self.label, named, table_model.encoder.used_columns)
        if self.options.stream != STDIN:
            table, label = self._open()
            self.doubt = check_known_labels(table, label or "", named, table_model.form)

    def _spec(self) -> JobSpec:
        """Return everything that the output depends on."""
        options = self.options.record(self.kept)
        if new_classes := self.table_model.settings.get("new_classes"):
            # The predictions have columns for them: a file that lacks these is not continued.
            options["new-classes"] = ",".join(new_classes)
        rejects = "" if self.rejects_path is None else absolute(self.rejects_path)
        return JobSpec(absolute(self.options.stream), absolute(self.options.output), rejects, options)

    def follow(
        self, *, should_stop: Callable[[], bool] = lambda: False, on_round: Callable[[Job], None] = lambda _: None
    ) -> bool:
        """Follow the stream to its end; return whether that was reached.

        Parameters
        ----------
        should_stop : callable
            Called after every few rounds; if it returns True, the run is saved and ends early.
        on_round : callable
            Called after every few rounds with the record so far.
        """
        record = self.record
        outputs = self._outputs(self._text_path, record.n_output_bytes, record.n_reject_bytes)
        with self.store, outputs as (output, rejects):
            is_finished = _Following(self, output, rejects, should_stop, on_round).run()
            if is_finished and self.options.key is not None:
                self.repeated_key = self.store.repeated_key(record.first_id)
        if is_finished:
            self._remove_partial()
        return is_finished

    def reader(self) -> RowReader:
        """Return what reads the stream."""
        return self._make_reader(self.options.by, self.label, self._time())

    def _time(self) -> str | None:
        """Return the column of times if the stream has it in a type that can be read."""
        column, table = self.table_model.time_column, self.table
        if column is None or column.name not in table.columns:
            return None
        return column.name if is_usable(table.column_types([column.name]).get(column.name, pl.String())) else None

    @property
    def _text_path(self) -> str:
        """The file that rows are appended to."""
        return partial_path(self.options.output) if self._is_parquet else self.options.output

    def _remove_partial(self) -> None:
        """Remove the rows collected for a Parquet file, once that is saved as finished."""
        if self._is_parquet:
            Path(self._text_path).unlink(missing_ok=True)


# --- The job of accous predict from file to file: predict rows with a saved table model that stays as it is


class PredictJob(_PredictingJob):
    """Predicts a table; nothing is learned, and the folder of the model only remembers what was predicted.

    A file of predictions appears when it is complete: if the job fails or is stopped, there is none.

    Parameters
    ----------
    options : PredictOptions

    Attributes
    ----------
    n_rows, n_rejected, n_missing, n_unknown : int
        Rows that were predicted and set aside, values that are missing, and categories that the reference does not
        have.
    unknown_in : list of pairs
        The columns with such categories, each with their number.
    is_remembered : bool
        Whether the folder remembers the predictions: not if it cannot be written to.
    """

    options: PredictOptions

    def __init__(self, options: PredictOptions) -> None:
        super().__init__(options, options.rows, "ROWS")
        self._reader = self._make_reader()
        self._require_free_files()
        self.n_rows = self.n_rejected = self.n_missing = self.n_unknown = 0
        self.unknown_in: UnknownCounts = []
        self._counts: NDArray[np.int64] = np.zeros(len(self.table_model.form.names), dtype=np.int64)
        self._sum = 0.0
        self.is_remembered = os.access(options.model, os.W_OK)
        self._ids: list[tuple[int, int]] = []  # the first and the last one of a run of ids
        self._n_since_prune = 0

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Predict all rows; return whether the end was reached.

        Parameters
        ----------
        should_stop : callable
            Called after every piece of the table.
        """
        store = open_store(self.table_model, self.options.model, only_adds=True) if self.is_remembered else None
        is_done = False
        try:
            with self._outputs(self._text_path) as (output, rejects):
                for rows in self._reader.read(Position()):
                    if rows is not None:
                        self._write(rows, output, rejects, store)
                    output.flush()
                    if should_stop():
                        return False
                output.put_on_disk()
            self._put_in_place()
            is_done = True
        finally:
            self._remove_unfinished()
            if store is not None:
                self._close(store, is_done=is_done)
        return True

    def _close(self, store: Store, *, is_done: bool) -> None:
        """Forget what is old, and predictions that nobody sees."""
        with store:
            if not (is_done or self._is_direct):
                store.drop(self._ids)
            store.prune(keep_days=self.table_model.stored.keep_days)

    def _remember(self, rows: PendingRows, result: RoundResult, store: Store | None) -> NamedRows:
        """Give the rows their ids; if nothing is remembered, they have none."""
        table_model, options = self.table_model, self.options
        if store is None:
            return NamedRows(rows, 0, len(rows), None, options.key, self.kept)
        with store.changing():
            ids = ids_from(store.next_id(in_state=False), len(rows))
            is_next = bool(self._ids) and self._ids[-1][1] + ID_STEP == ids[0]
            self._ids.append((self._ids.pop()[0] if is_next else int(ids[0]), int(ids[-1])))
            source = identify_source(options.rows, store.sources()) or self._ids[0][0]
            named = NamedRows(rows, 0, len(rows), ids, options.key, self.kept)
            found = named.to_store(source, result.rounds, result.scores, table_model.form, table_model.encoder)
            store.add_predictions(found, learned=False)
            self._n_since_prune += len(rows)
            if self._n_since_prune >= _ROWS_BETWEEN_PRUNES:
                self._n_since_prune = 0
                store.prune(keep_days=self.table_model.stored.keep_days)
        return named

    def summary(self) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        names = self.table_model.form.names
        mean = {"mean_prediction": self._sum / self.n_rows if self.n_rows else None}
        return {
            "rows": self.n_rows,
            "output": absolute(self.options.output),
            "rounds_learned": self.table_model.model.n_rounds_,
            **({"predicted": dict(zip(names, self._counts.tolist(), strict=True))} if names else mean),
            "rejected": self.n_rejected,
            "missing_values": self.n_missing,
            "unknown_categories": self.n_unknown,
            "unknown_by_column": dict(self.unknown_in),
        }

    def _write(self, rows: PendingRows, output: RowsOutput, rejects: RowsOutput | None, store: Store | None) -> None:
        if len(rows):
            result = self.table_model.predict_rows(rows.X)
            form = self.table_model.form
            copied = self._remember(rows, result, store).copied()
            output.write(predictions_frame(copied, result.rounds, result.scores, result.ratios, form))
            answers = form.answers(result.scores)
            if form.names:
                self._counts += np.bincount(answers, minlength=len(form.names))
            else:
                self._sum += float(answers.sum())
        if rows.bad_rows and rejects is not None:
            rejects.write(rejects_frame(rows.bad_rows))
        self.n_rows += len(rows)
        self.n_rejected += len(rows.bad_rows)
        self.n_missing += int(rows.n_missing.sum())
        self.n_unknown += int(rows.n_unknown.sum())
        self.unknown_in = add_unknown(self.unknown_in, rows.marks, self.table_model.encoder)

    @property
    def _is_direct(self) -> bool:
        """Whether rows go to the output at once: to the standard output, or to a device or pipe."""
        output = self.options.output
        return output == STDIN or (Path(output).exists() and not Path(output).is_file())

    @property
    def _unfinished(self) -> str:
        return predicting_path(self.options.output)

    @property
    def _text_path(self) -> str:
        if self._is_direct:
            return self.options.output
        return partial_path(self._unfinished) if self._is_parquet else self._unfinished

    def _put_in_place(self) -> None:
        if self._is_direct:
            return
        self.finish_output(self._unfinished)
        Path(self._unfinished).replace(self.options.output)

    def _remove_unfinished(self) -> None:
        if not self._is_direct:
            for path in (self._unfinished, partial_path(self._unfinished)):
                Path(path).unlink(missing_ok=True)

    def _require_free_files(self) -> None:
        if self.options.force:
            return
        output = self.options.output
        if output != STDIN and Path(output).is_file():
            raise DataError(f"{output} already exists: give another name, or use --force to replace it.")
        require_free(self.rejects_path)


# --- The results of a run


_OF_STATUS = ("state", "alarm", "metric", "value", "low", "high", "basis", "at_fit", "n_labels", "reasons", "advice")


def summarize_run(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return the results of a run, ready for JSON."""
    job = snapshot.job
    assert job is not None
    found = snapshot.to_json()
    return {
        "stream": job.spec.stream,
        "output": job.spec.output,
        "key": job.spec.options.get("key") or None,
        "finished": job.is_finished,
        "rows": job.n_rows,
        "rounds": job.n_rounds,
        "rejected": job.n_rejected,
        "missing_values": job.n_missing,
        "unknown_categories": job.n_unknown,
        "unknown_by_column": dict(job.unknown_in),
        "labelled_rows": job.n_scored,
        "error_fixed": job.n_wrong_fixed / job.n_scored if job.n_scored else None,
        "error": job.n_wrong / job.n_scored if job.n_scored else None,
        **{name: found[name] for name in _OF_STATUS},
    }
