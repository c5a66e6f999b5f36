"""Late labels of a table's rows: what they measure, and how the rows join the reference."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError, TrapWarning
from accous.model.estimators import AdaptiveModel
from accous.parameters import listed
from accous.tabular.columns.encoder import ColumnEncoder, Features
from accous.tabular.columns.marks import Marks
from accous.tabular.frame_labels import LabelledRows, labels_of_frame, match_frame, times_in_order
from accous.tabular.frames import to_polars
from accous.tabular.history import History
from accous.tabular.job_record import Job
from accous.tabular.label_kinds import LabelKind
from accous.tabular.label_tables import written_intervals
from accous.tabular.reference_copies import RowsToJoin, copies_in_words, rows_to_join
from accous.tabular.remembered_rows import RowNumbers, find_new, numbers_of_rows, numbers_of_texts, remember
from accous.tabular.table_watch import TableWatch

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["TableLabels"]


class TableLabels:
    """The methods of `accous.tabular.TableModel` that take labels which arrive late."""

    model: AdaptiveModel
    encoder: ColumnEncoder
    label: str
    settings: dict[str, Any]
    job: Job | None
    counted_labels: NDArray[np.uint64]
    joined_rows: NDArray[np.uint64]
    watch: TableWatch
    history: History

    if TYPE_CHECKING:

        def turn(self) -> AbstractContextManager[Any]:  # noqa: D102
            ...

        def prepare(self, frame: Any) -> Features:  # noqa: D102
            ...

        @property
        def kind(self) -> LabelKind:  # noqa: D102
            ...

        def estimates_at(self, rounds: pl.Series) -> NDArray[np.float64]:  # noqa: D102
            ...

    def observe(self, frame: Any, y: Any = None, *, predictions: Any = None, key: str | None = None) -> Self:
        """Count labels that arrived late; read the result in ``measured_``. Nothing is learned from them.

        Labels are compared as ``accous labels`` does it: 7 and 7.0 are the same, rows without a label are left out, and
        a class that the reference does not have counts as an error.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame
            The rows, oldest first. With ``predictions``, it may lack the columns of the model; then P(y | x) is not
            tested on these rows.
        y : str or array of shape (n_rows,), optional
            The labels, or the column that holds them. None is the label column of the reference.
        predictions : polars.DataFrame or pandas.DataFrame, optional
            What `step` or ``accous adapt`` returned at the time. Its predictions are compared, with the estimates of
            their rounds. Predictions from before rows joined the reference are left out: they say nothing about the
            present model. None predicts the rows now.
        key : str, optional
            The column, in both frames, that labels and predictions are joined by. Each prediction then counts once,
            however often you pass its label. None takes ``line``, if both have it, and else the position.

        Raises
        ------
        DataError
            If labels cannot be joined, a column is missing or a value cannot be used. Nothing is counted then.
        """
        table = to_polars(frame)
        labelled = labels_of_frame(table, y, self.label, self.kind)
        with self.turn():
            if predictions is None:
                rows = labelled.rows
                values = self.kind.values(labelled.labels[rows])
                self.model.observe(self._usable(self.prepare(frame), rows).X[rows], values)
            else:
                self._observe_predicted(table, labelled, to_polars(predictions), key)
        return self

    def _observe_predicted(
        self, table: pl.DataFrame, labelled: LabelledRows, predictions: pl.DataFrame, key: str | None
    ) -> None:
        new = match_frame(table, labelled, predictions, key)
        new = new.filter(~self.model.is_before_joining(new["round"].to_numpy()))
        numbers = np.empty(0, dtype=np.uint64)
        if key is not None:
            # Lines and positions say nothing: `predict` counts them anew in every frame.
            numbers = numbers_of_rows(f"key {key}", numbers_of_texts(new["place"]), new["label"], new["round"])
            is_new, _ = find_new(numbers, self.counted_labels)
            new, numbers = new.filter(pl.Series(is_new)), numbers[is_new]
        if not new.height:
            return
        X, rows = None, new["row"].to_numpy()
        if set(self.encoder.used_columns) <= set(table.columns):
            X = self._usable(self.prepare(table), rows).X[rows]
        predicted = self.kind.values(new["prediction"])
        self.model.observe(
            X,
            self.kind.values(new["label"]),
            predicted=predicted,
            estimated=self.estimates_at(new["round"]),
            intervals=None if self.kind.names else written_intervals(new),
        )
        self.note_late_labels(new)
        self.counted_labels = remember(self.counted_labels, numbers)

    def note_late_labels(self, new: pl.DataFrame) -> None:
        """Note in the history what late labels measured of the rounds that predicted their rows.

        Parameters
        ----------
        new : polars.DataFrame
            The columns ``round``, ``prediction`` and ``label``, the last two as text.
        """
        truths, answers = (self.kind.true_answers(new[column]) for column in ("label", "prediction"))
        losses = np.asarray(self.kind.losses(self.model, truths, answers), dtype=np.float64)
        self.history.add_labels(new["round"].to_numpy().astype(np.float64), losses)

    def extend(
        self,
        frame: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        key: str | None = None,
        order: Any = None,
        max_reference: int | None = None,
        drop: str = "oldest",
    ) -> Self:
        """Add labelled rows to the reference and fit again; what the rounds have learned goes on.

        The columns stay encoded as ``fit`` decided. Rows without a label are left out. If more than half of the rows,
        and at least twenty, are in the reference already, with the same features and labels, those are left out, with
        a `TrapWarning`. If the reference has an order in time, it is replayed again; see
        `accous.AdaptiveClassifier.extend`.

        Parameters
        ----------
        frame : polars.DataFrame or pandas.DataFrame
        y : str or array of shape (n_rows,), optional
            The labels, or the column that holds them. None is the label column of the reference.
        sample_weight : array of shape (n_rows,), optional
            Base weights of the rows. None gives each the mean base weight of the reference.
        key : str, optional
            A column that names the rows. A row whose key has joined before is left out.
        order : bool or array of shape (n_rows,), optional
            None sorts the rows by the column that ``fit`` sorted the reference by, if it did. True says that they are
            in order of time, an array gives their times, and False says that they have no order.
        max_reference : int, optional
            Most rows of the reference. None is twice the number of rows that ``fit`` was given.
        drop : {"oldest", "least weight"}, default="oldest"
            Which rows leave if there are more.

        Raises
        ------
        DataError
            If a column is missing, a value cannot be used, or a new class would change the predictions of an unfinished
            run. Nothing is changed then.
        """
        table = to_polars(frame)
        labelled = labels_of_frame(table, y, self.label, self.kind)
        rows = labelled.rows
        if order is None:
            rows, order = rows[times_in_order(table[rows], self.settings)], True
        features = self._usable(self.prepare(frame), rows)
        numbers = None
        if key is not None:
            by_key = numbers_of_rows(f"key {key}", labelled.keys(table, key)[rows], labelled.labels[rows])
            numbers = RowNumbers((by_key,), (by_key,))
        weights = None if sample_weight is None else labelled.per_row(sample_weight, "sample_weight")[rows]
        times = order if isinstance(order, (bool, np.bool_)) else labelled.per_row(order, "order")[rows]
        found = self.extend_rows(
            features.X[rows],
            labelled.labels[rows],
            features.marks[rows],
            numbers=numbers,
            sample_weight=weights,
            order=times,
            max_reference=max_reference,
            drop=drop,
        )
        if found.is_copy.any():
            warnings.warn(copies_in_words(int(found.is_copy.sum())), TrapWarning, stacklevel=2)
        return self

    def extend_rows(
        self,
        X: NDArray[np.float64],
        labels: pl.Series,
        marks: Marks,
        *,
        numbers: RowNumbers | None = None,
        sample_weight: NDArray[np.float64] | None = None,
        order: Any = True,
        max_reference: int | None = None,
        drop: str = "oldest",
    ) -> RowsToJoin:
        """Add encoded rows to the reference; those that are remembered, or in the reference already, are left out.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        labels : polars.Series
            As text.
        marks : Marks
        numbers : RowNumbers, optional
            What the rows are remembered by.
        sample_weight, order, max_reference, drop
            As for `extend`.

        Returns
        -------
        RowsToJoin
            Which rows have joined, and which are in the reference already.
        """
        with self.turn():
            is_unknown = np.ones(len(X), dtype=bool) if numbers is None else numbers.find_new(self.joined_rows)
            found = rows_to_join(self.model, self.kind, X, labels, is_unknown)
            rows = np.flatnonzero(found.is_new)
            if not len(rows):
                return found
            values = self.kind.new_values(labels[rows])
            new_classes = self._new_classes(values)
            self.model.extend(
                X[rows],
                values,
                sample_weight=None if sample_weight is None else sample_weight[rows],
                order=order if isinstance(order, (bool, np.bool_)) else order[rows],
                max_reference=max_reference,
                drop=drop,
            )
            n_reference, n_joined = len(self.model.task_), self.settings.get("n_joined", 0) + len(rows)
            self.encoder = self.encoder.joined_by(marks[rows], n_reference)
            self.watch = self.watch.after_joining(self.encoder)
            self.settings = self.settings | {"n_joined": n_joined}
            if new_classes:
                earlier = self.settings.get("new_classes", [])
                self.settings = self.settings | {"new_classes": [*earlier, *new_classes]}
            if numbers is not None:
                self.joined_rows = numbers.remember(self.joined_rows, is_unknown)
        return found

    def _new_classes(self, values: NDArray[Any]) -> list[str]:
        """Return the names of new classes; raise a DataError for some while a run has no column for them."""
        known = self.kind.names
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
