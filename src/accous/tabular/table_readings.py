"""What a table model reports, in the words of the classifier and in terms of the table's own columns."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.diagnostics.coverage import Coverage
from accous.diagnostics.drift import DriftEvent, Regime, SeasonWatch
from accous.diagnostics.labels import LabelledRounds, MeasuredError, doubt_about_intervals
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import Trust
from accous.model.backtest import Backtest
from accous.model.estimators import AdaptiveModel
from accous.model.watching import shares_of_parts
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.order import rises
from accous.tabular.table_watch import TableWatch, number_findings

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from accous.tabular.history import History
    from accous.tabular.time_column import TimeColumn

__all__ = ["TableReadings"]

_FEWEST_TIMES = 5


class TableReadings:
    """The attributes of `accous.tabular.TableModel` that say what it has learned; none of them learns anything."""

    model: AdaptiveModel
    encoder: ColumnEncoder
    seasons: SeasonWatch | None
    watch: TableWatch

    if TYPE_CHECKING:
        history: History

        @property
        def time_column(self) -> TimeColumn | None: ...  # noqa: D102

        def turn(self) -> AbstractContextManager[Any]:  # noqa: D102
            ...

    def at_one_round(self) -> Self:
        """Return a copy that stays in the last complete round, even if another thread goes on; it waits for that."""
        with self.turn():
            twin = copy(self)
            twin.model = copy(self.model)
        return twin

    def aside(self) -> Self:
        """Return a copy to read from, as `at_one_round` does; what is read leaves no trace in this model.

        A round notes an error that was read before it. With this, readers do not change what a model learns or saves.
        """
        with self.turn():
            twin = self.without_history()
            twin.history = self.history.copy()
        return twin

    def without_history(self) -> Self:
        """Return a copy as `aside` does, but for the history: nothing of it has to be copied."""
        with self.turn():
            twin = self.at_one_round()
        twin.history = type(self.history)()
        twin.model.state_ = replace(twin.model.state_, cache=dict(twin.model.state_.cache))
        return twin

    @property
    def risk_(self) -> RiskEstimate:
        """Estimated errors of the predictor in use and of the fixed one, without labels."""
        twin = self.at_one_round()
        return twin.model.risk_given(twin._coverage())

    @property
    def measured_(self) -> MeasuredError | None:
        """The error that late labels have measured; None without labels."""
        twin, rounds = self._with_labelled_rounds()
        return twin.model.measured_given(twin._coverage(), rounds)

    def intervals_in_words(self) -> str:
        """Say how far ``low`` and ``high`` of the predictions can be relied on; empty if nothing speaks about that."""
        twin = self.at_one_round()
        return "" if twin.model.task_.kind != "regressor" else doubt_about_intervals(twin.measured_, twin.trust_)

    @property
    def backtest_(self) -> Backtest | None:
        """The replay of the reference; None if it has no order in time, or too few rows."""
        return self.model.backtest_

    @property
    def coverage_(self) -> Coverage:
        """How well the reference covers the last rows, with findings about the table's own columns."""
        return self.at_one_round()._coverage()

    @property
    def trust_(self) -> Trust:
        """Three answers and a verdict, with findings about the table's own columns."""
        twin = self.at_one_round()
        watch, trust = twin.model.state_.cache.get("table_trust", (None, None))
        if trust is None or watch is not twin.watch:
            twin, rounds = self._with_labelled_rounds()
            trust = twin.model.trust_given(twin._coverage(), rounds)
            twin.model.state_.cache["table_trust"] = twin.watch, trust
        found: Trust = trust
        return found

    @property
    def drift_attribution_(self) -> dict[str, float]:
        """Share of each column of the table in what moved; zeros while there is no shift.

        If there is a time column, what the time of the day and the weekend explain is left out, once an hour has been
        seen on two days.
        """
        twin = self.at_one_round()
        parts = twin.model.state_.watch.column_parts
        if twin.seasons is not None and twin.seasons.explained is not None:
            parts = np.maximum(0.0, parts - twin.seasons.explained)
        shares = dict.fromkeys(twin.encoder.used_columns, 0.0)
        for column, share in zip(twin.encoder.column_of_feature, shares_of_parts(parts).tolist(), strict=True):
            shares[column] += share
        return shares

    @property
    def drift_events_(self) -> tuple[DriftEvent, ...]:
        """The changes in the inputs, named by the table's own columns, in order.

        If there is a time column, those that the time of the day and the weekend explain are left out.
        """
        twin = self.at_one_round()
        seasonal = twin._seasonal_events()
        return tuple(event for event in twin._events() if event not in seasonal)

    @property
    def seasonal_events_(self) -> tuple[DriftEvent, ...]:
        """The changes that are what the same hours did on the days before."""
        return self.at_one_round()._seasonal_events()

    @property
    def history_(self) -> Any:
        """What the last 10,000 rounds did, as a pandas frame; ``history`` has the whole stream in fewer points."""
        return self.at_one_round().model.history_

    @property
    def regimes_(self) -> tuple[Regime, ...]:
        """The regimes that the ratio remembers, told apart by the table's own columns."""
        return tuple(replace(each, features=self._columns_of(each.features)) for each in self.model.regimes_)

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

    def _columns_of(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that features, which the classifier calls x0, x1 and so on, were made from."""
        columns = self.encoder.column_of_feature
        return tuple(dict.fromkeys(columns[int(feature[1:])] for feature in features))

    def estimates_at(self, rounds: pl.Series) -> NDArray[np.float64]:
        """Return the estimated error around rounds and the ends of its interval; NaN where it is not known.

        Parameters
        ----------
        rounds : polars.Series
            Of whole numbers; null where the round is not known.

        Returns
        -------
        array of shape (n_rounds, 3)
        """
        model, estimates = copy(self.model), np.full((len(rounds), 3), np.nan)
        now = model.risk_.adapted, model.risk_.adapted_low, model.risk_.adapted_high
        changes, joined = [event.round for event in model.drift_events_], model.state_.joined
        is_known = rounds.is_not_null().to_numpy()
        if joined is not None and joined.n_rounds == model.n_rounds_:
            estimates[is_known] = now  # what was read before is about another model
            return estimates
        estimates[is_known] = self.history.risk_at(
            rounds.drop_nulls().to_numpy().astype(np.int64),
            changes=changes if joined is None else sorted((*changes, joined.n_rounds + 1)),
            latest=(model.n_rounds_, now),
        )
        return estimates

    def _with_labelled_rounds(self) -> tuple[Self, LabelledRounds | None]:
        """Return a copy that stays in the last round, and what labels have measured of the rounds up to it."""
        # Both in one turn: the copy shares the history, which goes on.
        with self.turn():
            twin = self.at_one_round()
            return twin, None if twin.model.state_.late_labels is None else twin._labelled_rounds()

    def _labelled_rounds(self) -> LabelledRounds | None:
        joined = self.model.state_.joined
        ends, n_rows, losses = self.history.labelled_since(0 if joined is None else joined.n_rounds)
        return LabelledRounds(n_rows, losses, self.estimates_at(pl.Series(ends))) if len(ends) else None

    def _coverage(self) -> Coverage:
        cache = self.model.state_.cache
        watch, coverage = cache.get("table_coverage", (None, None))
        if coverage is None or watch is not self.watch:
            coverage = self._find_coverage()
            cache["table_coverage"] = self.watch, coverage
        found: Coverage = coverage
        return found

    def _find_coverage(self) -> Coverage:
        rows, reference = self.model.state_.recent.last(), self.model.reference_
        found = [*number_findings(self.encoder, rows, reference), *self.watch.findings(self.encoder)]
        place = {plan.name: number for number, plan in enumerate(self.encoder.plans)}
        found.sort(key=lambda finding: place[finding.column])
        return replace(self.model.coverage_, columns=tuple(found))

    def _seasonal_events(self) -> tuple[DriftEvent, ...]:
        rounds = () if self.seasons is None else self.seasons.seasonal
        return tuple(event for event in self._events() if event.kind == "shift" and event.round in rounds)

    def _events(self) -> list[DriftEvent]:
        events = [replace(event, features=self._columns_of(event.features)) for event in self.model.drift_events_]
        return sorted((*events, *self.watch.columns.events), key=lambda event: event.round)
