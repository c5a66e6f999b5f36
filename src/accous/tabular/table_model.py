"""`TableModel`: a model on a table's own columns; one frame in, one frame out, no files."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.diagnostics.drift import SeasonWatch, start_seasons
from accous.exceptions import DataError
from accous.model.estimators import AdaptiveModel
from accous.model.snapshot import log_onsets
from accous.model.watching import LOOK_DECAY
from accous.tabular.columns.encoder import ColumnEncoder, Features
from accous.tabular.columns.marks import Marks
from accous.tabular.formats.values import is_usable
from accous.tabular.formats.vectors import spread_vectors
from accous.tabular.frames import like, to_polars
from accous.tabular.history import History
from accous.tabular.job_record import Job
from accous.tabular.label_kinds import LabelKind, kind_of
from accous.tabular.label_tables import LINE
from accous.tabular.log_position import LogPosition
from accous.tabular.played_round import NO_COUNTS, PlayedRound, predict_and_adapt, ratios_of
from accous.tabular.predictions import predictions_frame
from accous.tabular.table_labels import TableLabels
from accous.tabular.table_readings import TableReadings
from accous.tabular.table_watch import TableWatch
from accous.tabular.time_column import TimeColumn, find_time_column
from accous.threads import TakesTurns

__all__ = ["TableModel"]

Frame = TypeVar("Frame")


@dataclass(kw_only=True, repr=False)
class TableModel(TableReadings, TableLabels, TakesTurns):
    """An adaptive model that takes tables as they are: names, numbers, categories, dates, missing values.

    ``accous fit`` makes one, `accous.load` returns it, and `accous.save` saves it again. Frames are polars or pandas
    frames with the columns that the model was fitted on, in any order; other columns are ignored, labels included.
    The result is a frame of the same library with one row per input row: ``line``, ``round``, ``prediction``, one
    probability ``p_...`` per class, and ``ratio`` (how much more common such a row is now than in the reference). These
    are the columns that ``accous adapt`` writes, with the same values. Only ``line`` is another: a file counts its
    lines, `step` counts from 1 the rows of all rounds so far.

    What it reports has the names that it has in `accous.AdaptiveClassifier`: ``risk_``, ``measured_``, ``trust_``,
    ``coverage_``, ``drift_attribution_``, ``drift_events_``, ``backtest_``. Columns are those of the table.

    Attributes
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
        The model on the encoded columns.
    encoder : ColumnEncoder
    label : str
        The label column of the reference.
    settings : dict
        The settings of ``accous fit`` and its accuracy, ready for JSON.
    history : History
    job : Job, optional
        The last run of ``accous adapt``.
    earlier_runs : tuple of Job
        Runs before it that have predicted rows, oldest first.
    seasons : SeasonWatch, optional
        What each hour of the day did before; None until rows with times have been seen.
    counted_labels : array of uint64
        Which rows ``accous labels`` and `observe` have counted, by numbers made from the predictions and the place in
        them.
    joined_rows : array of uint64
        Which rows ``accous extend``, or `extend` with a key, has added to the reference.
    watch : TableWatch
        What the columns of the last rows showed.
    log_position : LogPosition, optional
        How much of the log of ``accous serve`` the model contains.
    """

    model: AdaptiveModel
    encoder: ColumnEncoder
    label: str
    settings: dict[str, Any]
    history: History = field(default_factory=History)
    job: Job | None = None
    earlier_runs: tuple[Job, ...] = ()
    seasons: SeasonWatch | None = None
    counted_labels: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    joined_rows: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    watch: TableWatch = field(default_factory=TableWatch)
    log_position: LogPosition | None = None

    def __repr__(self) -> str:
        """Return one line: the label, and how many columns, rounds and reference rows there are."""
        return (
            f"TableModel(label={self.label!r}, columns={len(self.encoder.used_columns)}, "
            f"rounds={self.model.n_rounds_}, reference_rows={len(self.model.reference_weight_)})"
        )

    @property
    def time_column(self) -> TimeColumn | None:
        """The column that says when a row happened: the one that ``fit`` was told, or the only date; or None."""
        return find_time_column(self.settings, self.encoder.plans)

    @property
    def kind(self) -> LabelKind:
        """What depends on whether the label is a class or a number."""
        return kind_of(self.model)

    def prepare(self, frame: Any) -> Features:
        """Encode the columns of a frame as the features of the classifier.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame

        Returns
        -------
        Features
            With the values that cannot be used (``bad_values``), and the numbers of missing values and new categories
            in each row.

        Raises
        ------
        DataError
            If a column is missing or has a type that cannot be used.
        """
        table, faults = spread_vectors(to_polars(frame), self.settings.get("widths", {}))
        self.encoder.require_columns(table.columns, "The frame")
        for name in self.encoder.used_columns:
            if not is_usable(table.schema[name]):
                raise DataError(
                    f"Column {name!r} of the frame has the type {table.schema[name]}, which cannot be used; convert it "
                    "to numbers, text, dates or booleans."
                )
        return self.encoder.encode(table).with_faults(faults)

    def predict(self, frame: Frame) -> Frame:
        """Predict rows without learning from them.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            As `step` returns it; ``round`` is the number of rounds learned so far, and ``line`` counts from 1 the rows
            of this frame.

        Raises
        ------
        DataError
            If a column is missing or a value cannot be used.
        """
        return self._as_frame(frame, self.predict_rows(self._usable_rows(frame).X), 0)

    def step(self, frame: Frame, *, learns_first: bool = False) -> Frame:
        """Play one round: predict the rows, then learn from them how the inputs drift.

        An empty frame is not a round: the result is empty and nothing is learned. Several threads may call this at
        once: they take turns, and no frame is lost. Threads that call `predict` do not wait.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame
            The batch of this round.
        learns_first : bool, default=False
            Whether to learn from the rows before they are predicted. One-step ratios need it.

        Returns
        -------
        polars.DataFrame or pandas.DataFrame
            One row per input row, with the columns listed above. A pandas result has the index of the input.

        Raises
        ------
        DataError
            If a column is missing or a value cannot be used; it names the row and the column. Nothing is learned then.
        """
        rows = self._usable_rows(frame)
        X = rows.X
        times = None if self.time_column is None or not len(X) else self.time_column.seconds(to_polars(frame))
        with self.turn():
            n_before = self.history.totals()["n_rows"]
            if not len(X):
                return self._as_frame(frame, self.predict_rows(X), n_before)
            played = self.play_round(X, rows.marks, learns_first=learns_first, times=times)
        return self._as_frame(frame, played, n_before)

    def play_round(
        self,
        X: NDArray[np.float64],
        marks: Marks | None = None,
        *,
        learns_first: bool = False,
        count_errors: Callable[[NDArray[Any]], tuple[int, float, float]] | None = None,
        times: NDArray[np.float64] | None = None,
        needs_ratio: bool = True,
    ) -> PlayedRound:
        """Play one round on encoded rows; every round of `step` and of ``accous adapt`` is played here.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            At least one row, without bad values.
        marks : Marks, optional
            What the rows show in single columns.
        learns_first : bool, default=False
        count_errors : callable, optional
            Takes the answers of the rows; returns the counts of `PlayedRound` for the history.
        times : array of shape (n_rows,), optional
            When each row happened, in seconds since 1970; NaN where that is not known.
        needs_ratio : bool, default=True
            Whether the ratios of the rows are computed, which nothing is learned from; NaN if not.
        """
        with self.turn():
            before = self.model.state_
            kind = self.kind
            scores, ratios = predict_and_adapt(self.model, kind, X, learns_first=learns_first, needs_ratio=needs_ratio)
            if times is not None:
                self._watch_season(X, times, before.watch.column_parts)
            if marks is not None:
                self._watch_columns(marks)
            counts = NO_COUNTS if count_errors is None else count_errors(kind.answers(scores))
            time = None if times is None else float(times[-1])
            self.history.add(self.model, len(X), *counts, time=time, aside=self.without_history, note=self._note_risk)
            return PlayedRound(self.model.n_rounds_, scores, ratios, counts)

    def _note_risk(self, number: int, risk: Any) -> None:
        """Note the risk of a round in the model's own history, as if it had been read then."""
        with self.turn():
            state = self.model.state_
            self.model.state_ = replace(state, rounds=state.rounds.noting(self.model.n_rounds_ - number, risk))

    def _watch_columns(self, marks: Marks) -> None:
        before, this_round = self.watch.columns, self.model.n_rounds_
        encoder = self.encoder
        new = marks.without(encoder.marks, encoder.joined_categories) if encoder.joined_categories else marks
        self.watch = self.watch.after(this_round, new, encoder.marks)
        if self.watch.columns is not before:
            log_onsets(self.watch.columns, this_round)

    def _watch_season(
        self, X: NDArray[np.float64], times: NDArray[np.float64], parts_before: NDArray[np.float64]
    ) -> None:
        seasons = start_seasons(X.shape[1]) if self.seasons is None else self.seasons
        seasons, watch = seasons.after(X, times), self.model.state_.watch
        log, parts = watch.log, watch.column_parts
        if parts is not parts_before:
            # The columns were looked at in this round; what they contributed now is the change of the discounted sum.
            means = np.average(self.model.reference_, axis=0, weights=self.model.base_weight_)
            seasons = seasons.explain(parts - LOOK_DECAY * parts_before, means, decay=LOOK_DECAY)
        if log is not None and log.events:
            last = log.events[-1]
            seasons = seasons.judge(last.round, is_over=last.rounds_to_adapt is not None)
        self.seasons = seasons

    def _usable_rows(self, frame: Any) -> Features:
        features = self.prepare(frame)
        return self._usable(features, np.arange(len(features.X)))

    def predict_rows(
        self, X: NDArray[np.float64], *, needs_ratio: bool = True, model: AdaptiveModel | None = None
    ) -> PlayedRound:
        """Predict encoded rows without learning from them; the round is the last one that was learned from.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        needs_ratio : bool, default=True
            Whether the ratios are computed, which takes as long as all the rest; NaN if not.
        model : AdaptiveClassifier or AdaptiveRegressor, optional
            A copy of the model that stays in one round, if more than this is to come from that round.
        """
        # All answers come from one round, also if another thread learns meanwhile.
        model, kind = copy(self.model) if model is None else model, self.kind
        if not len(X):
            return PlayedRound(model.n_rounds_, kind.no_scores(0), np.zeros(0), NO_COUNTS)
        ratios = ratios_of(model, X, needs_ratio=needs_ratio)
        return PlayedRound(model.n_rounds_, kind.scores(model, X), ratios, NO_COUNTS)

    def _as_frame(self, frame: Frame, played: PlayedRound, n_before: int) -> Frame:
        n_rows = len(played.ratios)
        rounds = np.full(n_rows, played.number, dtype=np.int64)
        lines = pl.DataFrame({LINE: np.arange(n_before + 1, n_before + n_rows + 1, dtype=np.int64)})
        predictions = predictions_frame(lines, rounds, played.scores, played.ratios, self.kind)
        return like(frame, predictions)
