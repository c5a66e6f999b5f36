"""`TableModel`: encoder and adaptive model together, one frame in and one frame out, saved in one folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray, IntArray, from_plain, to_plain
from accous.checkpoint.codecs import read_data
from accous.checkpoint.files import expecting_own_content, read_consistently
from accous.checkpoint.folder import learning_from_plain, learning_to_plain, load_with, save_with
from accous.diagnostics.coverage import ROUNDS_BETWEEN_COLUMN_LOOKS
from accous.diagnostics.drift import DriftEvent, SeasonWatch, start_seasons
from accous.exceptions import CheckpointError, DataError, ParameterError
from accous.model.backtest import Backtest
from accous.model.estimators import AdaptiveEstimator
from accous.model.learning import Learning, forget_labels_of, keep_labels, learn_from_kept, restore_learning
from accous.model.pair import AUTO, LINEAR, LinearAndTrees, make_trees
from accous.model.performance import read_probability
from accous.model.round import AdaptationState, log_onsets
from accous.model.snapshot import Snapshot, SnapshotReader
from accous.model.watching import LOOK_DECAY
from accous.table.checks import TimeColumn, find_time_column, rises
from accous.table.columns import (
    Block,
    ColumnEncoder,
    ColumnPlan,
    Features,
    Marks,
    PlainColumns,
    places_of_categories,
    plan_from_json,
    plan_to_json,
)
from accous.table.history import History
from accous.table.kinds import LINE, REGRESSION, LabelForm, check_labels, form_of, key_texts, place_texts
from accous.table.readers import is_usable, spread_vectors
from accous.table.rows import features_from_json, features_to_json, frame_from_json, like, predictions_frame, to_polars
from accous.table.runs import Job, LogPosition
from accous.table.snapshot import TableSnapshot, TableWatch, watch_from_plain
from accous.table.store import Store, StorePosition, first_id, rows_before, unpack_scores
from accous.text import count, did_you_mean, listed
from accous.threads import CALLBACKS_NAME, Lockable

# --- Labels of the rows of a frame: as text, in order of time, and joined with the predictions of the time


def require_column(table: pl.DataFrame, name: str) -> pl.Series:
    """Return a column of a frame, or raise a DataError that names the others."""
    if name not in table.columns:
        meant = did_you_mean(name, table.columns)
        raise DataError(f"The frame has no column {name!r}{meant}: it has {listed(table.columns)}.")
    return table[name]


def labels_of_frame(table: pl.DataFrame, y: Any, usual: str, form: LabelForm) -> pl.Series:
    """Return the labels of a frame's rows as text, null in rows without a label.

    Parameters
    ----------
    table : polars.DataFrame
    y : str or array of shape (n_rows,), optional
        The labels, or their column; None is ``usual``.
    usual : str
        The label column of the reference.
    form : LabelForm
        Of the model; classes decide how a number is written.
    """
    if y is None and usual not in table.columns:
        raise DataError(f"The frame has no label column {usual!r}: pass the labels, or the name of their column, as y.")
    if y is None or isinstance(y, str):
        column = require_column(table, usual if y is None else y)
    else:
        values = y.to_list() if isinstance(y, pl.Series) else np.asarray(y).tolist()
        if len(values) != table.height or any(isinstance(each, list) for each in values):
            raise DataError(f"y must have one label for each of the {table.height} rows of the frame.")
        column = pl.Series(values, strict=False)
    return form.texts(column)


def match_frame(table: pl.DataFrame, labels: pl.Series, predictions: pl.DataFrame, key: str | None) -> pl.DataFrame:
    """Return the predictions that have a label: ``prediction``, probabilities, ``round``, ``label`` and the ``row``.

    They are joined by the key, by the line if both frames have it, or by position.
    """
    has_lines = LINE in table.columns and LINE in predictions.columns
    place_column = key or (LINE if has_lines else None)
    if place_column is None and table.height != predictions.height:
        raise DataError(
            f"The frame has {count(table.height, 'row')} and the predictions {predictions.height:,}: join them by a "
            "column that both have, with key."
        )
    require_column(predictions, "prediction")
    rows = pl.DataFrame({"place": _places(table, place_column), "label": labels})
    once = check_labels(rows, "The frame", "position", place_column).rows
    first = rows.with_row_index("row").drop_nulls().unique("place", keep="first").select("place", "row")
    wanted = [each for each in predictions.columns if each == "round" or each.startswith("p_")]
    made = pl.DataFrame({"place": _places(predictions, place_column), "prediction": predictions["prediction"]})
    made = made.with_columns(place_texts(made["prediction"]).alias("prediction")).hstack(predictions.select(wanted))
    found = made.join(once, on="place", how="inner", maintain_order="left").join(first, on="place", how="left")
    if not found.height:
        how = place_column or "position"
        raise DataError(f"None of the labels belongs to a row of the predictions, joined by {how}.")
    repeated = found.filter(found["place"].is_duplicated())["place"]
    if len(repeated):
        raise DataError(f"The predictions have several rows with {place_column} = {repeated[0]}: give another key.")
    rounds = pl.col("round").cast(pl.Int64, strict=False) if "round" in wanted else pl.lit(None, pl.Int64)
    return found.with_columns(round=rounds)


def _places(table: pl.DataFrame, column: str | None) -> pl.Series:
    if column is None:
        return pl.Series(np.arange(table.height)).cast(pl.String)
    return key_texts(require_column(table, column))


# --- One round on encoded rows: what it found, and how the model predicts the rows and learns from them


NO_COUNTS = (0, 0, 0)


class RoundResult(NamedTuple):
    """The result of one round, or of several in a row.

    Attributes
    ----------
    number : int
        Rounds that the model has learned from, these included.
    ends : tuple of int
        Where the rows of each round end.
    scores : array of shape (n_rows,) or (n_rows, n_scores)
        What the kind of the label computes for each row; see `accous.table.kinds`.
    ratios : array of shape (n_rows,)
    counts : tuple of float
        Rows with a label, and the sums of the losses of the fixed model and of the adapted one on them: for classes,
        their errors.
    """

    number: int
    ends: tuple[int, ...]
    scores: NDArray[np.float64]
    ratios: NDArray[np.float64]
    counts: tuple[int, float, float] = NO_COUNTS

    @property
    def rounds(self) -> NDArray[np.int64]:
        """The round of each row."""
        first, sizes = self.number - len(self.ends) + 1, [end - start for start, end in pairwise((0, *self.ends))]
        return np.repeat(np.arange(first, self.number + 1, dtype=np.int64), sizes)


def ratios_of(model: AdaptiveEstimator, X: NDArray[np.float64], *, needs_ratio: bool) -> NDArray[np.float64]:
    """Return the ratios of rows, or NaN if they are not needed."""
    return model.ratio_.predict_ratio(X[:, : model.n_features_in_]) if needs_ratio else np.full(len(X), np.nan)


def _is_look(before: AdaptationState, after: AdaptationState) -> bool:
    """Whether a round was one with a look: at single columns, at what moved, or at a change of the inputs."""
    is_of_columns = after.n_rounds % ROUNDS_BETWEEN_COLUMN_LOOKS == 0
    old, new = before.watch, after.watch
    return is_of_columns or new.column_parts is not old.column_parts or new.log is not old.log


# --- TableModel: a model on a table's own columns; one frame in, one frame out, no files


_FEWEST_TIMES = 5


Frame = TypeVar("Frame")


@dataclass(frozen=True, eq=False)
class BeforeLabels:
    """What was learned before a file of labels.

    Attributes
    ----------
    batch : int
        The number of the file.
    learning : Learning, optional
    extra : tuple
        Plans of columns that only labelled rows have.
    rows : dict of int to str
        As `TableModel.label_rows`.
    """

    batch: int
    learning: Learning | None
    extra: tuple[ColumnPlan, ...]
    rows: dict[int, str]

    def to_plain(self, still: dict[int, str]) -> dict[str, Any]:
        """Return this as plain values, without the rows that are kept still."""
        learning, gone = self.learning, {number: text for number, text in self.rows.items() if number not in still}
        if learning is not None:
            learning = replace(learning, kept=replace(learning.kept, rows=learning.kept.rows[:0]))
        return {
            "batch": self.batch,
            "learning": learning_to_plain(learning),
            "extra": [plan_to_json(plan) for plan in self.extra],
            "gone": _rows_to_plain(gone),
        }


def _before_from_plain(
    plain: dict[str, Any] | None, still: dict[int, str], encoder: ColumnEncoder
) -> BeforeLabels | None:
    if plain is None:
        return None
    learning, extra = learning_from_plain(plain["learning"]), tuple(map(plan_from_json, plain["extra"]))
    rows: dict[int, str] = {}
    if learning is not None:
        known, ids = still | _rows_from_plain(plain["gone"]), learning.kept.ids.tolist()
        rows = {number: known[number] for number in ids}
        features = features_from_json(pl.Series(list(rows.values()), dtype=pl.String), replace(encoder, extra=extra))
        assert features is not None
        learning = replace(learning, kept=replace(learning.kept, rows=features.X))
    return BeforeLabels(plain["batch"], learning, extra, rows)


def _rows_to_plain(rows: dict[int, str]) -> dict[str, NDArray[Any]]:
    return {"ids": np.array(list(rows), dtype=np.int64), "rows": np.array(list(rows.values()), dtype=np.str_)}


def _rows_from_plain(plain: dict[str, NDArray[Any]]) -> dict[int, str]:
    return dict(zip(plain["ids"].tolist(), plain["rows"].tolist(), strict=True))


@dataclass(kw_only=True, repr=False)
class TableModel(SnapshotReader, Lockable):
    """An adaptive model that takes tables as they are: names, numbers, categories, dates, missing values.

    ``accous fit`` makes one, `accous.load` returns it, and `accous.save` saves it again. Frames are polars or pandas
    frames with the columns that the model was fitted on, in any order; other columns are ignored, labels included.
    The result is a frame of the same library with one row per input row: ``line``, ``round``, ``prediction``, one
    probability ``p_...`` per class, and ``ratio`` (how much more common such a row is now than in the reference). These
    are the columns that ``accous adapt`` writes, with the same values. Only ``line`` is another: a file counts its
    lines, `step` counts from 1 the rows of all rounds so far.

    What it reports has the names that it has in `accous.AdaptiveClassifier`: ``performance``, ``status_``, ``drift_``,
    ``history_``, ``regimes_``, ``backtest_``. Columns are those of the table.

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
    seasons : SeasonWatch, optional
        What each hour of the day did before; None until rows with times have been seen.
    watch : TableWatch
        What the columns of the last rows showed.
    stored : StorePosition
        How much of the folder's store of predictions the model contains.
    log_position : LogPosition, optional
        How much of the log of ``accous serve`` the model contains.
    label_rows : dict of int to str
        The rows whose labels are learned from, as JSON, by id.
    before_labels : BeforeLabels, optional
        What was learned before the last file of labels, which can be taken back.
    """

    model: AdaptiveEstimator
    encoder: ColumnEncoder
    label: str
    settings: dict[str, Any]
    history: History = field(default_factory=History)
    job: Job | None = None
    seasons: SeasonWatch | None = None
    watch: TableWatch = field(default_factory=TableWatch)
    stored: StorePosition = field(default_factory=StorePosition)
    log_position: LogPosition | None = None
    label_rows: dict[int, str] = field(default_factory=dict)
    before_labels: BeforeLabels | None = None

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
    def form(self) -> LabelForm:
        """What depends on whether the label is a class or a number."""
        return form_of(self.model.task_, getattr(self.model, "classes_", None))

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
        schema = table.schema  # made anew whenever it is asked for
        for name in self.encoder.used_columns:
            if not is_usable(schema[name]):
                raise DataError(
                    f"Column {name!r} of the frame has the type {schema[name]}, which cannot be used; convert it to "
                    "numbers, text, dates or booleans."
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
        """Run one round: predict the rows, then learn from them how the inputs drift.

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
        with self.lock():
            n_before = self.history.totals()["n_rows"]
            if not len(X):
                return self._as_frame(frame, self.predict_rows(X), n_before)
            result = self.run_rounds(X, rows.marks, learns_first=learns_first, times=times)
        return self._as_frame(frame, result, n_before)

    def run_rounds(
        self,
        X: NDArray[np.float64],
        marks: Marks | None = None,
        *,
        ends: Sequence[int] | None = None,
        learns_first: bool = False,
        known_scores: Callable[[int, int], NDArray[np.float64] | None] | None = None,
        count_errors: Callable[[NDArray[Any]], tuple[int, float, float]] | None = None,
        times: NDArray[np.float64] | None = None,
        needs_ratio: bool = True,
    ) -> RoundResult:
        """Run rounds on encoded rows, as `step` and ``accous adapt`` do.

        What only later looks show is done once for several rounds.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            At least one row, without bad values.
        marks : Marks, optional
            What the rows show in single columns.
        ends : sequence of int, optional
            Where the rows of each round end; None is one round.
        learns_first : bool, default=False
        known_scores : callable, optional
            Takes the first and the last place of a round's rows; returns their scores by the predictor in use, or None
            if they are to be computed.
        count_errors : callable, optional
            Takes the answers of the rows, which are of one round; returns the counts of `RoundResult` for the history.
        times : array of shape (n_rows,), optional
            When each row happened, in seconds since 1970; NaN where that is not known.
        needs_ratio : bool, default=True
            Whether the ratios of the rows are computed, which nothing is learned from; NaN if not.
        """
        with self.lock():
            ends, found = (len(X),) if ends is None else tuple(ends), []
            counts: tuple[int, float, float] = NO_COUNTS
            model, start = self.model, 0
            first, seen, parts_before = 0, 0, model.state_.watch.column_parts  # of the rounds that were not looked at
            for number, end in enumerate(ends):
                before = model.state_
                scores = known_scores(start, end) if known_scores is not None and not learns_first else None
                found.append(
                    self._predict_and_learn(X[start:end], scores, learns_first=learns_first, needs_ratio=needs_ratio)
                )
                is_told = CALLBACKS_NAME in vars(self) and model.state_.recent.n_closed != before.recent.n_closed
                if is_told or end == ends[-1] or _is_look(before, model.state_):
                    stops = [each - seen for each in ends[first : number + 1]]
                    if marks is not None:
                        self._watch_columns(marks[seen:end])
                    if times is not None:
                        self._watch_season(X[seen:end], times[seen:end], stops, parts_before)
                    first, seen, parts_before = number + 1, end, model.state_.watch.column_parts
                if count_errors is not None:
                    counts = count_errors(self.form.answers(found[-1][0]))
                self.history.add(model, end - start, *counts, time=None if times is None else float(times[end - 1]))
                if is_told:
                    self._tell()
                start = end
            scores, ratios = (np.concatenate(each) for each in zip(*found, strict=True))
            return RoundResult(model.state_.n_rounds, ends, scores, ratios, counts)

    def _predict_and_learn(
        self, X: NDArray[np.float64], scores: NDArray[np.float64] | None, *, learns_first: bool, needs_ratio: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run one round; return scores and ratios of its rows."""
        model, ratios = self.model, None
        before = model.state_
        # A pool judges the rows before it learns from them: their ratios cost next to nothing then.
        is_kept = needs_ratio and not learns_first and before.ratio.is_pooled
        if not learns_first:
            scores = self.form.scores(model, X) if scores is None else scores
            ratios = None if is_kept else ratios_of(model, X, needs_ratio=needs_ratio)
        model.adapt(X)
        if learns_first or scores is None:
            scores = self.form.scores(model, X)
        if ratios is None:
            after = model.state_.ratio
            ratios = after.batch_ratio() if is_kept else ratios_of(model, X, needs_ratio=needs_ratio)
        return scores, ratios

    def _watch_columns(self, marks: Marks) -> None:
        before, this_round, encoder = self.watch.columns, self.model.state_.n_rounds, self.encoder
        new = marks.without(encoder.marks, encoder.joined_categories) if encoder.joined_categories else marks
        self.watch = self.watch.after(this_round, new, encoder.marks)
        if self.watch.columns is not before:
            log_onsets(self.watch.columns, this_round)

    def _watch_season(
        self, X: NDArray[np.float64], times: NDArray[np.float64], ends: list[int], parts_before: NDArray[np.float64]
    ) -> None:
        X = X[:, : self.model.n_features_in_]
        seasons = start_seasons(X.shape[1]) if self.seasons is None else self.seasons
        seasons, watch = seasons.after(X, times, ends), self.model.state_.watch
        log, parts = watch.log, watch.column_parts
        if parts is not parts_before:
            # The columns were looked at in the last round; what they contributed is the change of the discounted sum.
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
        self, X: NDArray[np.float64], *, needs_ratio: bool = True, model: AdaptiveEstimator | None = None
    ) -> RoundResult:
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
        model = copy(self.model) if model is None else model
        form = form_of(model.task_, getattr(model, "classes_", None))
        if not len(X):
            return RoundResult(model.n_rounds_, (0,), form.no_scores(0), np.zeros(0))
        ratios = ratios_of(model, X, needs_ratio=needs_ratio)
        return RoundResult(model.n_rounds_, (len(X),), form.scores(model, X), ratios)

    def _as_frame(self, frame: Frame, result: RoundResult, n_before: int) -> Frame:
        lines = pl.DataFrame({LINE: np.arange(n_before + 1, n_before + len(result.ratios) + 1, dtype=np.int64)})
        return like(frame, predictions_frame(lines, result.rounds, result.scores, result.ratios, self.form))

    # --- labels that come late ---------------------------------------------------------------------------------------

    def ask(self, frame: Any, n: float) -> tuple[IntArray, FloatArray]:
        """Choose random rows to label, and say with which probabilities; see `accous.AdaptiveClassifier.ask`."""
        return self.model.ask(to_polars(frame), n)

    def observe(
        self,
        frame: Any,
        y: Any = None,
        *,
        predictions: Any = None,
        key: str | None = None,
        probability: Any = None,
        learn: bool = True,
        rows_since: int = 0,
    ) -> Self:
        """Count labels that arrived late, then learn from them; read ``performance`` and ``learned_``.

        Categories and classes that only labelled rows have become known with the next refit; see
        `accous.AdaptiveClassifier.observe`.

        Labels are compared as ``accous labels`` does it: 7 and 7.0 are the same, rows without a label are left out, and
        a class that the reference does not have counts as an error.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame
            The rows, oldest first. With ``predictions``, it may lack the columns of the model.
        y : str or array of shape (n_rows,), optional
            The labels, or the column that holds them. None is the label column of the reference.
        predictions : polars.DataFrame or pandas.DataFrame, optional
            What `step` or ``accous adapt`` returned at the time, with its probabilities. Predictions from before rows
            joined the reference are left out: they say nothing about the
            present model. None predicts the rows now.
        key : str, optional
            The column, in both frames, that labels and predictions are joined by. None takes ``line``, if both have it,
            and else the position. What you pass twice counts twice; ``accous labels`` on a folder counts it once.
        probability : float or array of shape (n_rows,), optional
            With which each row was chosen, as `ask` returns it; None says that the labels merely arrived.
        learn : bool, default=True
            Whether to learn from the labels after they were measured. Rows that lack columns of the model are only
            measured.
        rows_since : int, default=0
            Rows of the stream that have come since these.

        Raises
        ------
        DataError
            If labels cannot be joined, a column is missing or a value cannot be used. Nothing is counted then.
        """
        table = to_polars(frame)
        labels = labels_of_frame(table, y, self.label, self.form)
        asked = read_probability(probability, table.height)
        with self.lock():
            if predictions is None:
                rows = np.flatnonzero(labels.is_not_null().to_numpy())
                values = self.form.values(labels[rows])
                X = self._usable(self.prepare(frame), rows).X[rows]
                self.model.observe(X, values, probability=asked[rows], learn=False, rows_since=rows_since)
            else:
                rows = self._observe_predicted(table, labels, to_polars(predictions), key, asked, rows_since)
            if learn and len(rows) and set(self.encoder.used_columns) <= set(table.columns):
                spread, _ = spread_vectors(table[rows], self.settings.get("widths", {}))
                texts, is_asked = features_to_json(spread, self.encoder).to_list(), ~np.isnan(asked[rows])
                self.learn(texts, labels[rows], is_asked=is_asked, rows_since=rows_since)
        if CALLBACKS_NAME in vars(self):
            self._tell()
        return self

    def learn(
        self,
        rows: list[str],
        labels: pl.Series,
        *,
        ids: IntArray | None = None,
        position: IntArray | None = None,
        is_asked: BoolArray | None = None,
        rows_since: int = 0,
        is_due: bool = False,
    ) -> None:
        """Learn from labelled rows, or keep them until there are enough.

        Parameters
        ----------
        rows : list of str
            As `accous.table.rows.features_to_json` returns them.
        labels : polars.Series
            As text.
        ids, position : array of shape (n_rows,), optional
            By which the labels are found again, and the rows of the stream until each row.
        is_asked : array of shape (n_rows,), optional
            Whether each label was asked for; None: none was.
        rows_since : int, default=0
            Rows of the stream that have come since, where no position is given.
        is_due : bool, default=False
            Whether to learn from however few, because others were taken back.
        """
        with self.lock():
            learning = self.model.state_.learning
            n_seen = 0 if learning is None else learning.n_seen
            now = max(self.model.state_.n_rows - rows_since, n_seen + len(rows))
            ids = n_seen + np.arange(len(rows), dtype=np.int64) if ids is None else ids
            position = np.full(len(rows), now, dtype=np.int64) if position is None else position
            features = features_from_json(pl.Series(rows, dtype=pl.String), self.encoder)
            if features is None:
                raise DataError("A labelled row holds a value that cannot be used: correct it.")
            values = self.form.new_values(labels)
            self._new_classes(values)
            is_asked = np.zeros(len(rows), dtype=bool) if is_asked is None else is_asked
            keep_labels(self.model, features.X, values, position=position, ids=ids, is_asked=is_asked)
            self.label_rows |= dict(zip(ids.tolist(), rows, strict=True))
            if is_due or self.model.state_.learning.is_due:
                self._learn_again()

    def learn_all(self, rows: pl.DataFrame, *, start: int, step: int) -> None:
        """Learn from these labels, as if there had been no others.

        Parameters
        ----------
        rows : polars.DataFrame
            ``id``, ``features``, ``asked`` and ``given`` of labelled rows, as the store has them.
        start, step : int
            The first id, and the distance of ids: they say how many rows of the stream came before each.
        """
        with self.lock():
            learning, ids = self.model.state_.learning, rows["id"].to_numpy()
            values = self.form.new_values(rows["given"])
            kept = {}
            if learning is not None:
                kept = dict(zip(learning.kept.ids.tolist(), learning.kept.truths.tolist(), strict=True))
            wanted = dict(zip(ids.tolist(), values.tolist(), strict=True))
            gone = [number for number, truth in kept.items() if number not in wanted or wanted[number] != truth]
            is_due = forget_labels_of(self.model, np.array(gone, dtype=np.int64))
            still = kept.keys() - set(gone)
            if self.model.state_.learning is None:
                self.encoder, still = replace(self.encoder, extra=()), set()
            self.label_rows = {number: text for number, text in self.label_rows.items() if number in still}
            is_new = np.array([number not in still for number in ids.tolist()], dtype=bool)
            if is_new.any():
                new = rows.filter(pl.Series(is_new))
                position, is_asked = (ids[is_new] - start) // step, new["asked"].is_not_null().to_numpy()
                given = {"ids": ids[is_new], "position": position, "is_asked": is_asked}
                self.learn(new["features"].to_list(), new["given"], **given, is_due=is_due)
            elif is_due:
                self._learn_again()

    def remember_before(self, batch: int) -> None:
        """Remember what is learned now, so that the file of labels of this number can be taken back."""
        with self.lock():
            extra, rows = self.encoder.extra, dict(self.label_rows)
            self.before_labels = BeforeLabels(batch, self.model.state_.learning, extra, rows)

    def take_back(self, batch: int) -> bool:
        """Return to what was learned before this file of labels, if that is remembered."""
        with self.lock():
            before = self.before_labels
            if before is None or before.batch != batch:
                return False
            # First the columns: whoever predicts meanwhile may have fewer than the model reads, not more.
            self.encoder = replace(self.encoder, extra=before.extra)
            self.label_rows, self.before_labels = before.rows, None
            restore_learning(self.model, before.learning)
            return True

    def _learn_again(self) -> None:
        """Learn the categories of the kept rows, and refit on them."""
        kept = self.model.state_.learning.kept
        texts = [self.label_rows[number] for number in kept.ids.tolist()]
        encoder = self.encoder.with_extra(frame_from_json(texts, self.encoder))
        features = features_from_json(pl.Series(texts, dtype=pl.String), encoder)
        assert features is not None
        learn_from_kept(self.model, rows=features.X)
        self.encoder = encoder  # not before: whoever predicts meanwhile needs rows that the model can read
        still = self.model.state_.learning.kept.ids.tolist()
        self.label_rows = {number: self.label_rows[number] for number in still}

    def _observe_predicted(
        self,
        table: pl.DataFrame,
        labels: pl.Series,
        predictions: pl.DataFrame,
        key: str | None,
        asked: FloatArray,
        rows_since: int,
    ) -> NDArray[Any]:
        new = match_frame(table, labels, predictions, key)
        X, rows = None, new["row"].to_numpy()
        if not new.height:
            return rows
        if set(self.encoder.used_columns) <= set(table.columns):
            X = self._usable(self.prepare(table), rows).X[rows]
        columns, shares = [f"p_{name}" for name in self.form.names], None
        if columns and set(columns) <= set(new.columns):
            shares = new.select(pl.col(columns).cast(pl.Float64)).to_numpy()
        given = (new["label"], new["prediction"], new["round"])
        self._measure(X, *given, asked=asked[rows], shares=shares, since_made=rows_since)
        return rows

    def _measure(
        self,
        X: NDArray[np.float64] | None,
        labels: pl.Series,
        predicted: pl.Series,
        rounds: pl.Series,
        *,
        is_late: bool = True,
        asked: NDArray[np.float64] | None = None,
        shares: NDArray[np.float64] | None = None,
        since_made: Any = 0,
        since_came: Any = 0,
    ) -> None:
        """Compare labels with what was predicted, both as text, and note it in the history if they came late.

        ``shares`` are the probabilities of classes of the time, if all are known.
        """
        form = self.form
        values, answers = form.values(labels), form.values(predicted) if shares is None else shares
        since = {"since_made": since_made, "since_came": since_came}
        late = self.model.task_.read_late(values, len(labels))
        self.model.measure(X, late, predicted=answers, probability=asked, **since)
        if is_late:
            truths, found = form.true_answers(labels), form.true_answers(predicted)
            losses = np.asarray(form.losses(self.model, truths, found), dtype=np.float64)
            self.history.add_labels(rounds.to_numpy().astype(np.float64), losses)

    def count_labels(
        self, rows: pl.DataFrame, last_id: int, *, is_late: bool = True, since_came: IntArray | int = 0
    ) -> None:
        """Measure with labels of predictions that a store remembers.

        Parameters
        ----------
        rows : polars.DataFrame
            As in `accous.table.store.Joined`.
        last_id : int
            Of the newest prediction.
        is_late : bool, default=True
            Whether the labels came after their rounds.
        since_came : int or array of shape (n_rows,), default=0
            Rows that came after each label.
        """
        with self.lock():
            features = features_from_json(rows["features"], self.encoder)
            self._measure(
                None if features is None else features.X,
                rows["given"],
                rows["predicted"],
                rows["round"],
                is_late=is_late,
                asked=rows["asked"].cast(pl.Float64).fill_null(np.nan).to_numpy(),
                shares=self._shares(rows["scores"].to_list()),
                since_made=rows_before(rows["id"].to_numpy(), last_id),
                since_came=since_came,
            )

    def _shares(self, packed: list[bytes | None]) -> NDArray[np.float64] | None:
        """Return the probabilities of the time; None of numbers, and if other classes were known then."""
        for names in (self.form.names, form_of(self.model.task_).names):
            found = unpack_scores(packed, len(names))
            if names and not np.isnan(found).any():
                return found
        return None

    def recount_labels(self, store: Store) -> None:
        """Measure anew with all labels of a store, in the order in which they came, as if there had been no others.

        None of them becomes younger by it.
        """
        labelled = store.labelled()
        with self.lock():
            self.model.forget_labels()
            self.history.forget_labels()
            for (batch,), rows in labelled.group_by("label_batch", maintain_order=True):
                since_came = store.position.since_came(rows)
                self.count_labels(rows, store.position.last_id, is_late=batch != 0, since_came=since_came)

    def _new_classes(self, values: NDArray[Any]) -> list[str]:
        """Return the names of new classes; raise a DataError for some while a run has no column for them."""
        known = self.form.names
        new = sorted(set(map(str, values.tolist())) - set(known)) if known else []
        if new and self.job is not None and not self.job.is_finished and self.job.n_rounds:
            raise DataError(
                f"The run on {self.job.spec.stream} is unfinished, and its predictions have no column for the new "
                f"class {listed(new)}: finish the run first, or abandon it with accous adapt --new."
            )
        return new

    def _usable(self, features: Features, rows: NDArray[np.intp]) -> Features:
        """Raise a DataError if one of these rows has a value that cannot be used."""
        wanted = set(rows.tolist())
        bad = next((each for each in features.bad_values if each.row in wanted), None)
        if bad is not None:
            raise DataError(
                f"Row {bad.row} of the frame (counted from 0), column {bad.column!r}: {bad.reason}; fix or remove the "
                "row."
            )
        return features

    # --- what it says of itself: all of it is read from one snapshot ------------------------------------------------

    def snapshot(self) -> TableSnapshot:
        """Return everything the model can say after the last complete round, in one object.

        It stays as it is while rounds go on, and reading from it leaves no trace in the model.
        """
        with self.lock():
            known = self._known_snapshot()
            return self._snapshot_of(self.model.snapshot(), self.history.copy()) if known is None else known.apart()

    def current(self) -> TableSnapshot:
        """Return the snapshot that the attributes read from: what they have read stays known until the next round."""
        with self.lock():
            known = self._known_snapshot()
            if known is None:
                known = self._snapshot_of(self.model.current(), self.history)
                self._snapshot = known
            return known

    def _known_snapshot(self) -> TableSnapshot | None:
        """Return the snapshot of the last reading, if nothing has happened since."""
        known: TableSnapshot | None = vars(self).get("_snapshot")
        if known is None or known.inner is not self.model.current():
            return None
        parts = ("encoder", "watch", "seasons", "settings", "job")
        return known if all(getattr(known, name) is getattr(self, name) for name in parts) else None

    def _snapshot_of(self, inner: Snapshot, history: History) -> TableSnapshot:
        return TableSnapshot(
            rules=inner.rules,
            state=inner.state,
            inner=inner,
            encoder=self.encoder,
            watch=self.watch,
            seasons=self.seasons,
            past=history,
            label=self.label,
            settings=self.settings,
            job=self.job,
        )

    @property
    def seasonal_events_(self) -> tuple[DriftEvent, ...]:
        """The changes that are what the same hours did on the days before."""
        return self.current().seasonal_events

    @property
    def backtest_(self) -> Backtest | None:
        """The replay of the reference; None if it has no order in time, or too few rows."""
        return self.model.backtest_

    def backwards_in_words(self, n_rounds: int) -> str:
        """Say that the times of the last rounds are not in order; empty if they are, or if there are few or none.

        Parameters
        ----------
        n_rounds : int
        """
        history = self.history
        times = history.column("time")[history.rounds > self.model.n_rounds_ - n_rounds]
        times = times[np.isfinite(times)]
        if self.time_column is None or len(times) < _FEWEST_TIMES or (times == times[0]).all() or rises(times):
            return ""
        return (
            f"The times in {self.time_column.name!r} go back and forth from round to round: accous takes rows as they "
            "come, so sort the stream by time."
        )


# --- The predictors by the names they have on the command line, for classes and for numbers


_, BOOSTING, FOREST = NAMES = (LINEAR, "boosting", "forest")
_CLASSES = {
    ("classifier", BOOSTING): "HistGradientBoostingClassifier",
    ("classifier", FOREST): "RandomForestClassifier",
    ("regressor", BOOSTING): "HistGradientBoostingRegressor",
    ("regressor", FOREST): "RandomForestRegressor",
}
# Few leaves, small steps and a strong penalty: what a reference of a thousand rows supports (docs/defaults.md).
_BOOSTING = {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 120, "l2_regularization": 10.0}
_FOREST = {"n_estimators": 100, "min_samples_leaf": 5}


def make_estimator(name: str, *, kind: str, seed: int, blocks: tuple[Block, ...]) -> Any:
    """Make an unfitted predictor that reads the encoded features of a table; the built-in linear one has a name only.

    Parameters
    ----------
    name : str
        "auto" (linear and boosting together), "linear", "boosting", "forest", or MODULE:NAME, a function without
        arguments that returns a scikit-learn estimator.
    kind : {"classifier", "regressor"}
    seed : int
        For every ``random_state``; those that a function of the user's has set are kept.
    blocks : tuple
        What the features are; see `accous.table.columns.PlainColumns`.

    Examples
    --------
    >>> from accous.table.model import make_estimator
    >>> make_estimator("forest", kind="regressor", seed=0, blocks=())
    RandomForestRegressor(min_samples_leaf=5, random_state=0)
    """
    if is_own_code(name):
        return _seeded(_own_estimator(name), seed)
    if name == AUTO:
        return LinearAndTrees(_on_plain_columns(blocks, lambda categories: make_trees(kind, seed, categories)))
    if name not in NAMES:
        raise ParameterError(
            f"--estimator must be one of auto, {', '.join(NAMES)} or MODULE:NAME, got {name!r}"
            f"{did_you_mean(name, NAMES)}."
        )
    if name == LINEAR:
        return LINEAR
    cls = getattr(import_module("sklearn.ensemble"), _CLASSES[kind, name])
    if name == FOREST:
        return cls(**_FOREST, random_state=seed)
    return _on_plain_columns(
        blocks, lambda categories: cls(**_BOOSTING, categorical_features=categories, random_state=seed)
    )


def is_own_code(name: str) -> bool:
    """Whether the name is MODULE:NAME, code of the user's."""
    return ":" in name


def _on_plain_columns(blocks: tuple[Block, ...], make_trees: Callable[[list[int] | None], Any]) -> Any:
    """Return trees that read categories and missing values as such; they are made for the columns that hold codes."""
    from sklearn.pipeline import make_pipeline

    return make_pipeline(PlainColumns(blocks), make_trees(places_of_categories(blocks) or None))


def _seeded(estimator: Any, seed: int) -> Any:
    """Set every random_state that is None, also of parts, so that a folder gives the same predictions every time."""
    unset = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    ]
    return estimator.set_params(**dict.fromkeys(unset, seed)) if unset else estimator


def _own_estimator(name: str) -> Any:
    """Import and call a function of the user's; modules in the working folder are found too, as with ``python -m``."""
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the user's code raises
        raise ParameterError(
            f"--estimator {name}: {module_name!r} cannot be imported ({type(error).__name__}: {error})."
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ParameterError(f"--estimator {name}: {module_name} has no function {attribute!r}.")
    try:
        estimator = factory()
    except Exception as error:
        raise ParameterError(f"--estimator {name} failed ({type(error).__name__}: {error}).") from error
    if isinstance(estimator, type) or not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise ParameterError(
            f"--estimator {name} must return a scikit-learn estimator, got {type(estimator).__name__}."
        )
    return estimator


# --- A table model's folder: everything that fit and adapt know, saved in one step


def save_table_model(table_model: TableModel, folder: Path) -> None:
    """Save to a folder; a crash at any moment leaves the previous save whole."""
    with table_model.lock():
        before = table_model.before_labels
        # Labels change the settings and the columns too.
        attached = {
            "label": table_model.label,
            "settings": table_model.settings,
            "columns": table_model.encoder.to_json(),
            "extra_columns": [plan_to_json(plan) for plan in table_model.encoder.extra],
        }
        progress = {
            "history": table_model.history.to_plain(),
            "job": to_plain(table_model.job),
            "watch": table_model.watch.to_plain(),
            "stored": to_plain(table_model.stored),
            "seasons": to_plain(table_model.seasons),
            "log_position": to_plain(table_model.log_position),
            "label_rows": _rows_to_plain(table_model.label_rows),
            "before_labels": None if before is None else before.to_plain(table_model.label_rows),
        }
        save_with(table_model.model, folder, attached, progress)


def load_table_model(folder: Path, estimator: str | None = None) -> TableModel:
    """Load what `save_table_model` saved.

    Parameters
    ----------
    folder : Path
    estimator : str, optional
        The name that ``accous fit`` was given. It is needed if it is MODULE:NAME: a folder alone never decides which
        code is imported.
    """

    def find_estimator(attached: dict[str, Any] | None) -> Any:
        # Before `load_with` asks for a pipeline, which no command can pass.
        if attached is None:
            raise _saved_from_python(folder)
        return _named_estimator(attached, estimator)

    model, attached, progress = load_with(folder, find_estimator=find_estimator)
    if attached is None or progress is None:
        raise _saved_from_python(folder)
    return restore_table_model(model, attached, progress, folder)


def open_store(table_model: TableModel, folder: Path, *, only_adds: bool = False) -> Store:
    """Open what the folder of a model remembers of its predictions; what the model does not contain is taken back.

    Parameters
    ----------
    table_model : TableModel
        As it was loaded from the folder.
    folder : Path
    only_adds : bool, default=False
        Whether predictions are added that nothing is learned from: then another process may use the folder.
    """
    position = None if only_adds else table_model.stored
    return Store.open(folder, position, start=first_id(table_model.settings, table_model.label))


def read_log_position(folder: Path) -> LogPosition | None:
    """Return which records of a service's log a saved model contains; None if it has never been served."""
    state = read_consistently(folder, lambda manifest: read_data(folder, manifest.state))
    with expecting_own_content(folder):
        return from_plain(LogPosition | None, state.get("progress", {}).get("log_position"))


def _saved_from_python(folder: Path) -> CheckpointError:
    return CheckpointError(
        f"{folder} holds a model that was saved from Python, without the preprocessing of tables: the command line "
        "needs one made by accous fit, and this one needs accous.load in Python."
    )


def known_estimator(attached: dict[str, Any]) -> Any:
    """Return the estimator that a folder names, unfitted; None if it is the built-in one or the user's own code."""
    name = attached["settings"].get("estimator", LINEAR)
    return None if is_own_code(name) or name == LINEAR else _estimator_of(attached)


def _named_estimator(attached: dict[str, Any], name: str | None) -> Any:
    """Return the estimator that a folder names, if the user names the same or none is needed."""
    saved = attached["settings"].get("estimator", LINEAR)
    if name is not None and name != saved:
        raise CheckpointError(f"The model was fitted with --estimator {saved}, not {name}: give the same one.")
    if not is_own_code(saved):
        return known_estimator(attached)
    if name is None:
        raise CheckpointError(
            f"The model uses the estimator {saved}, which is code of your own: allow it with --estimator {saved}."
        )
    return _estimator_of(attached)


def _estimator_of(attached: dict[str, Any]) -> Any:
    settings, blocks = attached["settings"], ColumnEncoder.from_json(attached["columns"]).blocks
    # Folders of classifiers do not name their task.
    kind = "regressor" if settings.get("task") == REGRESSION else "classifier"
    return make_estimator(settings["estimator"], kind=kind, seed=settings["seed"], blocks=blocks)


def restore_table_model(model: Any, attached: dict[str, Any], progress: dict[str, Any], folder: Path) -> TableModel:
    """Return the table model whose parts `accous.checkpoint.folder.load_with` has loaded.

    Parameters
    ----------
    model : AdaptiveClassifier
    attached, progress : dict
    folder : Path
        For messages.
    """
    with expecting_own_content(folder):
        encoder = ColumnEncoder.from_json(attached["columns"])
        label_rows = _rows_from_plain(progress["label_rows"])
        return TableModel(
            model=model,
            encoder=replace(encoder, extra=tuple(map(plan_from_json, attached["extra_columns"]))),
            label=attached["label"],
            settings=attached["settings"],
            history=History.from_plain(progress["history"]),
            job=from_plain(Job | None, progress["job"]),
            seasons=from_plain(SeasonWatch | None, progress["seasons"]),
            watch=watch_from_plain(progress["watch"]),
            stored=from_plain(StorePosition, progress["stored"]),
            log_position=from_plain(LogPosition | None, progress["log_position"]),
            label_rows=label_rows,
            before_labels=_before_from_plain(progress["before_labels"], label_rows, encoder),
        )
