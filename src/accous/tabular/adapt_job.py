"""The job of ``accous adapt`` from files to files: open, begin or resume, follow the stream, finish the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from accous.tabular.adapt_request import AdaptRequest
from accous.tabular.adapt_run import AdaptRun, SaveRule
from accous.tabular.chosen_columns import chosen_columns
from accous.tabular.earlier_runs import remember_run
from accous.tabular.folder import load_table_model, save_table_model
from accous.tabular.formats.chunks import TableReader
from accous.tabular.formats.labelled import with_labels
from accous.tabular.formats.sources import STDIN
from accous.tabular.formats.values import is_usable
from accous.tabular.formats.writing import RowsOutput, finish_parquet
from accous.tabular.job_record import Job, begin_or_resume
from accous.tabular.known_labels import check_known_labels, require_no_feature
from accous.tabular.predictions import output_columns, output_schema
from accous.tabular.reference_file import is_same_file
from accous.tabular.repeated_rows import first_repeated, followed_before
from accous.tabular.rounds import RoundRule
from accous.tabular.row_reader import RowReader
from accous.tabular.stream_opening import open_stream
from accous.tabular.summary import summarize_run

__all__ = ["AdaptJob"]


class AdaptJob:
    """Follows a stream from file to file with a saved table model; the caller holds the folder's lock.

    Parameters
    ----------
    request : AdaptRequest

    Attributes
    ----------
    table_model : TableModel
    table : TableReader
        The stream.
    n_rows_before : int
        Rows that the job had predicted when it was begun here.
    abandoned : str or None
        The stream of an unfinished run whose place this job takes, because that run has no results.
    doubt : str or None
        A remark if many of the labels to score with are none that the model knows, after `begin`.
    is_reference : bool
        Whether the stream is the file that the model was fitted on, after `begin`.
    followed_before : str or None
        What an earlier run has written about the rows of the same stream, which this run learns again, after `begin`.
    repeated_key : str or None
        A key that several rows have, after `follow`: labels that come late cannot be joined by it.
    """

    def __init__(self, request: AdaptRequest) -> None:
        self._request = request
        request.require_output_format()
        self.table_model = load_table_model(request.model, request.estimator)
        request.require_separate_files()
        self.table, self._label = self._open()
        self._kept: list[str] = []
        self.n_rows_before = 0
        self.abandoned: str | None = None
        self.doubt: str | None = None
        self.is_reference = False
        self.followed_before: str | None = None
        self.repeated_key: str | None = None

    @property
    def record(self) -> Job:
        """The job and its progress."""
        assert self.table_model.job is not None
        return self.table_model.job

    def begin(self) -> bool:
        """Begin the job or resume it; return whether there is anything to do."""
        request, table, table_model = self._request, self.table, self.table_model
        kept = chosen_columns("--keep", request.keep, table.columns, table.name, table.widths)
        self._kept = [name for name in kept if name != request.key]
        output_columns(request.key, self._kept, table_model.kind)
        self._reader()  # checks the columns: a stream that does not fit must not replace the record of the last run
        if self._label is not None:
            require_no_feature(self._label, request.label or "", table_model.encoder.used_columns)
        if self._label is not None and request.stream != STDIN:
            table, label = self._open()
            self.doubt = check_known_labels(table, label or "", request.label or "", table_model.kind)
        before, spec = table_model.job, request.spec(self._kept)
        if new_classes := table_model.settings.get("new_classes"):
            # The predictions have columns for them: a file that lacks these is not continued.
            spec = replace(spec, options={**spec.options, "new-classes": ",".join(new_classes)})
        is_finished = before is not None and before.is_finished and before.spec == spec
        if is_finished and request.output_format == "parquet":
            self._remove_partial()
            return False
        table_model.job = begin_or_resume(
            spec, before, is_new=request.is_new, overwrites=request.overwrites, folder=request.model
        )
        if not self.record.n_rows:
            self.is_reference = is_same_file(request.stream, table_model.settings.get("reference_file"))
            self.followed_before = followed_before(table_model, before, spec.stream)
            table_model.earlier_runs = remember_run(table_model.earlier_runs, before, self.record)
        self.n_rows_before = self.record.n_rows
        if before is not None and not before.is_finished and not request.is_new and self.record.spec != before.spec:
            self.abandoned = None if before.spec.is_taken_up_by(spec) else before.spec.stream
        if self.record.n_output_bytes == 0:
            # The job is saved before its output exists, so that the output is never taken for a foreign file.
            save_table_model(table_model, request.model)
        return True

    def follow(
        self,
        save_rule: SaveRule,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_round: Callable[[Job], None] = lambda _: None,
    ) -> bool:
        """Follow the stream to its end; return whether that was reached.

        Parameters
        ----------
        save_rule : SaveRule
        should_stop, on_round : callable
            As for `AdaptRun`.
        """
        request, record = self._request, self.record
        reader = self._reader()
        output = RowsOutput(request.text_output, request.text_format, record.n_output_bytes)
        rejects = (
            None if request.rejects_path is None else RowsOutput(request.rejects_path, "csv", record.n_reject_bytes)
        )
        run = AdaptRun(
            table_model=self.table_model,
            folder=request.model,
            reader=reader,
            output=output,
            rejects=rejects,
            rule=RoundRule(request.batch_size, request.by),
            save_rule=save_rule,
            key=request.key,
            kept=self._kept,
            label=self._label,
            learns_first=request.learns_first,
            should_stop=should_stop,
            on_round=on_round,
            finish=self._finish_output,
        )
        try:
            is_finished = run.run()
        finally:
            output.close()
            if rejects is not None:
                rejects.close()
        if is_finished:
            self._remove_partial()
            if request.key is not None and self.record.n_rows and Path(request.output).is_file():
                self.repeated_key = first_repeated(request.output, request.key)
        return is_finished

    def summary(self) -> dict[str, Any]:
        """Return the results so far, ready for JSON."""
        return summarize_run(self.table_model)

    def _open(self) -> tuple[TableReader, str | None]:
        """Open the stream; return it with the column of labels to score with."""
        label = self._request.label
        table = open_stream(self._request, self.table_model)
        return (table, None) if label is None else with_labels(table, label)

    def _reader(self) -> RowReader:
        request = self._request
        read = filter(None, (request.key, request.by, self._label, self._time()))
        passed = list(dict.fromkeys([*read, *self._kept]))
        return RowReader(
            self.table,
            self.table_model.encoder,
            passed,
            skips_bad=request.skips_bad,
            accepts_unknown=request.accepts_unknown,
        )

    def _time(self) -> str | None:
        """Return the column of times if the stream has it in a type that can be read."""
        column, table = self.table_model.time_column, self.table
        if column is None or column.name not in table.columns:
            return None
        return column.name if is_usable(table.column_types([column.name]).get(column.name, pl.String())) else None

    def _finish_output(self) -> None:
        """Turn the collected rows into a Parquet file, if the output is one."""
        if self._request.output_format != "parquet":
            return
        key = self._request.key
        types = self.table.column_types(self._kept if key is None else [key, *self._kept])
        finish_parquet(self._request.output, output_schema(key, self._kept, self.table_model.kind, types))

    def _remove_partial(self) -> None:
        """Remove the rows collected for a Parquet file, once that is saved as finished."""
        if self._request.output_format == "parquet":
            Path(self._request.text_output).unlink(missing_ok=True)
