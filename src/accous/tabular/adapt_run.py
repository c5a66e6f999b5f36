"""The online stage over a table: predict, learn, write, save. A run that is killed resumes where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from accous.tabular.folder import save_table_model
from accous.tabular.formats.chunks import BadRow, Position
from accous.tabular.formats.writing import RowsOutput
from accous.tabular.job_record import Job
from accous.tabular.predictions import copied_columns, output_columns, predictions_frame
from accous.tabular.rejected_rows import rejects_frame
from accous.tabular.rounds import RoundRule
from accous.tabular.row_reader import RowReader, Rows
from accous.tabular.scoring import Scoring
from accous.tabular.table_model import TableModel
from accous.tabular.unknown_counts import add_unknown

__all__ = ["AdaptRun", "SaveRule"]

_END = object()


@dataclass(frozen=True)
class SaveRule:
    """When to save during a run: after a number of rounds, or after a number of seconds.

    Neither changes the output.
    """

    rounds: int | None = None
    seconds: float = 30.0

    def is_due(self, n_rounds: int, last_time: float) -> bool:
        """Whether to save after this round."""
        if self.rounds is not None:
            return n_rounds % self.rounds == 0
        return time.monotonic() - last_time >= self.seconds


class AdaptRun:
    """Follows a stream with a model.

    Parameters
    ----------
    table_model : TableModel
        With the job to carry out.
    folder : Path
        Where to save it.
    reader : RowReader
    output, rejects : RowsOutput
        The second is for bad rows; None if they are not kept.
    rule : RoundRule
    save_rule : SaveRule
    key : str, optional
        The column that identifies a row in the output; None: its line does.
    kept : list of str
        Other columns to pass through.
    label : str, optional
        Column to score with.
    learns_first : bool
    should_stop : callable
        Called after every round; if it returns True, the run is saved and ends early.
    on_round : callable
        Called after every round with the job so far.
    finish : callable
        Called when all rows are on disk, before the run is saved as finished.
    """

    def __init__(
        self,
        *,
        table_model: TableModel,
        folder: Path,
        reader: RowReader,
        output: RowsOutput,
        rejects: RowsOutput | None,
        rule: RoundRule,
        save_rule: SaveRule,
        key: str | None,
        kept: list[str],
        label: str | None = None,
        learns_first: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        on_round: Callable[[Job], None] = lambda _: None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        assert table_model.job is not None
        self._table_model, self._folder, self._reader = table_model, folder, reader
        self._output, self._rejects = output, rejects
        self._rule, self._save_rule = rule, save_rule
        self._key, self._kept, self._learns_first = key, kept, learns_first
        self._should_stop, self._on_round, self._finish_output = should_stop, on_round, finish
        self._job = table_model.job
        self._scoring = None if label is None else Scoring(table_model.model, label)
        self._last_save, self._last_saved_round = time.monotonic(), table_model.model.n_rounds_

    def run(self) -> bool:
        """Follow the stream to its end; return whether that was reached."""
        waiting: Rows | None = None
        pieces = self._reader.read(self._job.position)
        while (rows := self._next(pieces)) is not _END:
            if rows is None:
                self._output.flush()
                if self._is_over():
                    return False
                continue
            waiting = rows if waiting is None else waiting.followed_by(rows)
            waiting, is_stopped = self._play_all(waiting, is_end=False)
            if is_stopped:
                return False
        return self._finish(waiting)

    def _next(self, pieces: Iterator[Rows | None]) -> Any:
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

    def _finish(self, waiting: Rows | None) -> bool:
        if waiting is not None:
            waiting, is_stopped = self._play_all(waiting, is_end=True)
            if is_stopped and len(waiting):
                return False
            self._reject(waiting.bad_rows)
            if waiting.bad_rows:
                last = waiting.bad_rows[-1]
                self._job.position = Position(last.end, last.line)
        self._write_header()
        self._output.put_on_disk()
        self._finish_output()
        self._save(is_last=True, is_finished=True)
        return True

    def _write_header(self) -> None:
        """Name the columns also if there were no rows, so that the output is a table."""
        if not self._output.n_bytes:
            columns = output_columns(self._key, self._kept, self._table_model.kind)
            self._output.write(pl.DataFrame(schema=columns))

    def _play_all(self, rows: Rows, *, is_end: bool) -> tuple[Rows, bool]:
        """Play the complete rounds; return the remaining rows, and whether to stop."""
        results = _Results(rows, self._table_model)
        start = 0
        for stop in self._rule.stops(rows.frame, len(rows), is_end=is_end):
            self._play(rows, results, start, stop)
            start = stop
            is_stopped = self._should_stop()
            if is_stopped or self._save_rule.is_due(self._table_model.model.n_rounds_, self._last_save):
                self._emit(rows, results, stop)
                self._save(is_last=is_stopped)
                if is_stopped:
                    return rows.after(start), True
            self._on_round(self._job)
        self._emit(rows, results, start)
        return rows.after(start), False

    def _play(self, rows: Rows, results: _Results, start: int, stop: int) -> None:
        batch = rows.X[start:stop]
        scoring = self._scoring
        count_errors = None if scoring is None else lambda found: scoring.count(rows.frame, batch, found, start, stop)
        played = self._table_model.play_round(
            batch,
            rows.marks[start:stop],
            learns_first=self._learns_first,
            count_errors=count_errors,
            times=None if results.times is None else results.times[start:stop],
        )
        if scoring is not None:
            history = self._table_model.history
            changes = [event.round for event in self._table_model.model.drift_events_]
            estimated = history.risk_at(np.array([history.n_rounds]), changes=changes)
            scoring.observe(rows.frame, batch, played.scores, start, stop, estimated)
        results.rounds[start:stop] = played.number
        results.scores[start:stop] = played.scores
        results.ratios[start:stop] = played.ratios
        n_scored, n_wrong_fixed, n_wrong = played.counts
        job = self._job
        job.n_rows += stop - start
        job.n_rounds += 1
        job.n_scored += n_scored
        job.n_wrong_fixed += n_wrong_fixed
        job.n_wrong += n_wrong

    def _emit(self, rows: Rows, results: _Results, stop: int) -> None:
        """Write the rows up to ``stop`` and the bad rows between them; record the position."""
        start, results.n_emitted = results.n_emitted, stop
        if start == stop:
            return
        part = slice(start, stop)
        kind = self._table_model.kind
        copied = copied_columns(rows.frame[part], rows.lines[part], self._key, self._kept)
        self._output.write(
            predictions_frame(copied, results.rounds[part], results.scores[part], results.ratios[part], kind)
        )
        self._job.position = rows.position_after(stop - 1)
        self._job.n_missing += int(rows.n_missing[part].sum())
        n_unknown = int(rows.n_unknown[part].sum())
        if n_unknown:
            self._job.n_unknown += n_unknown
            encoder = self._table_model.encoder
            self._job.unknown_in = add_unknown(self._job.unknown_in, rows.marks[part], encoder)
        first_end, end = rows.end_of(start - 1) if start else -1, rows.end_of(stop - 1)
        self._reject([bad for bad in rows.bad_rows if first_end < bad.end < end])

    def _reject(self, bad_rows: list[BadRow]) -> None:
        if not bad_rows or self._rejects is None:
            return
        self._rejects.write(rejects_frame(bad_rows))
        self._job.n_rejected += len(bad_rows)

    def _save(self, *, is_last: bool = False, is_finished: bool = False) -> None:
        job = self._job
        job.n_output_bytes = self._output.put_on_disk()
        job.n_reject_bytes = 0 if self._rejects is None else self._rejects.put_on_disk()
        job.is_finished = is_finished
        save_table_model(self._table_model, self._folder, is_last=is_last)
        self._last_save, self._last_saved_round = time.monotonic(), self._table_model.model.n_rounds_


class _Results:
    """The results of rows, round by round, and when the rows happened."""

    def __init__(self, rows: Rows, table_model: TableModel) -> None:
        n_rows = len(rows)
        column = table_model.time_column
        self.times = None if column is None else column.seconds(rows.frame)
        self.rounds = np.zeros(n_rows, dtype=np.int64)
        self.scores = table_model.kind.no_scores(n_rows)
        self.ratios = np.zeros(n_rows)
        self.n_emitted = 0
