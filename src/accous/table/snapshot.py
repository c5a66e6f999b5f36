"""`TableSnapshot`: what a table model can say, in the words of the classifier and in terms of the table's columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.arrays import IntArray, from_plain, to_plain
from accous.diagnostics.coverage import (
    NOTHING_FOUND,
    ROUNDS_BETWEEN_COLUMN_LOOKS,
    ColumnFinding,
    ColumnRanges,
    ColumnWatch,
    Coverage,
    largest_rare_count,
    smallest_rare_count,
)
from accous.diagnostics.drift import DriftEvent, Regime, SeasonWatch
from accous.diagnostics.performance import PredictedRows
from accous.diagnostics.status import Finding, Reason, Status
from accous.exceptions import ParameterError
from accous.model.performance import AlarmWatch, MovedColumn
from accous.model.snapshot import Snapshot
from accous.model.watching import NO_ROWS, RecentRows, recent_from_plain, shares_of_parts
from accous.table.checks import find_time_column
from accous.table.columns import (
    CATEGORIES,
    MISSING,
    NEW_VALUES,
    CategoryColumn,
    ColumnEncoder,
    Mark,
    Marks,
    NumberColumn,
)
from accous.table.history import History
from accous.table.runs import Job
from accous.text import did_you_mean, listed

# --- What the columns of a table show that the reference does not: missing values, categories, values of
#     constants


_FEW_OTHER_VALUES = 0.05


@dataclass(frozen=True)
class TableWatch:
    """The marks of the last rows, and what they showed.

    Attributes
    ----------
    recent : RecentRows
        The marks of the last 500 rows.
    columns : ColumnWatch
        The onsets.
    latest : dict of str to str
        The last new value of each column.
    """

    recent: RecentRows = NO_ROWS
    columns: ColumnWatch = NOTHING_FOUND
    latest: dict[str, str] = field(default_factory=dict)

    def after(self, this_round: int, marks: Marks, kinds: list[Mark]) -> TableWatch:
        """Return the watch after the rows of a round."""
        if not kinds:
            return self
        recent, columns = self.recent.add(marks.hits), self.columns
        if this_round % ROUNDS_BETWEEN_COLUMN_LOOKS == 0 and recent.n_closed != columns.n_closed:
            hits = np.concatenate(recent.blocks)
            found = _rare(kinds, hits.sum(axis=0, dtype=np.int64), len(hits))
            rare = [(kinds[number].kind, kinds[number].column, share) for number, share in found]
            columns = columns.look(this_round, recent.n_closed, rare)
        return TableWatch(recent, columns, self.latest | marks.latest())

    def findings(self, encoder: ColumnEncoder) -> list[ColumnFinding]:
        """Return what the recent rows show, in words."""
        hits, kinds = self.recent.last(), encoder.marks
        if hits is None or not kinds:
            return []
        found = _rare(kinds, hits.sum(axis=0, dtype=np.int64), len(hits))
        return [self._finding(kinds[number], share, encoder) for number, share in found]

    def _finding(self, mark: Mark, share: float, encoder: ColumnEncoder) -> ColumnFinding:
        known = encoder.constants[mark.column].only_value if mark.kind == NEW_VALUES else ""
        expected, value = mark.n_hits / mark.n_reference, self.latest.get(mark.column, "")
        return ColumnFinding(mark.column, mark.kind, share, expected, known, value)

    def to_plain(self) -> dict[str, Any]:
        """Return everything as arrays, numbers and strings."""
        return {
            "recent": self.recent.to_plain(),
            "columns": to_plain(self.columns),
            # As lists: a column may have any name.
            "latest": [list(self.latest), list(self.latest.values())],
        }


def watch_from_plain(plain: dict[str, Any]) -> TableWatch:
    """Undo ``to_plain``."""
    latest = dict(zip(*plain["latest"], strict=True))
    columns = from_plain(ColumnWatch, plain["columns"])
    return TableWatch(recent_from_plain(plain["recent"]), columns, latest)


def number_findings(columns: Iterable[DecodedColumn], rows: Any, reference: Any) -> tuple[ColumnFinding, ...]:
    """Return which columns of numbers leave their range in the reference, in the units of the table.

    Parameters
    ----------
    columns : iterable of DecodedColumn
    rows, reference : array of shape (n_rows, n_features)
        Encoded rows.
    """
    numbers = [column for column in columns if isinstance(column.plan, NumberColumn)]
    if rows is None or not numbers:
        return ()
    then, now = (np.column_stack([column.values(part) for column in numbers]) for part in (reference, rows))
    return ColumnRanges.of(then, [column.plan.name for column in numbers]).findings(now)


def _rare(kinds: list[Mark], counts: IntArray, n_rows: int) -> list[tuple[int, float]]:
    """Return number and share of the marks that are too frequent for chance, or too seldom where values are missing."""
    n_tests = len(kinds)
    found = []
    for number, (mark, n_found) in enumerate(zip(kinds, counts.tolist(), strict=True)):
        if mark.kind == NEW_VALUES and mark.n_hits > _FEW_OTHER_VALUES * mark.n_reference:
            continue  # the column is no longer constant, since labelled rows have joined the reference
        least = smallest_rare_count(n_rows, mark.n_reference, mark.n_hits, n_tests)
        is_rare = n_found >= least
        if mark.kind == MISSING and mark.n_hits and not is_rare:
            is_rare = n_found <= largest_rare_count(n_rows, mark.n_reference, mark.n_hits, n_tests)
        if is_rare:
            found.append((number, n_found / n_rows))
    return found


# --- Columns of the table from their features: what segments and columns that moved are told by


_MANY_OUTSIDE, _MOST_MOVED = 0.2, 20
_OTHERS = "other"


@dataclass(frozen=True)
class DecodedColumn:
    """A number or a category, and its first feature."""

    plan: NumberColumn | CategoryColumn
    first: int

    def values(self, rows: NDArray[np.float64]) -> NDArray[Any]:
        """Return numbers, or names of categories; NaN or "nan" where a row is not known."""
        plan = self.plan
        if isinstance(plan, NumberColumn):
            return np.asarray(rows[:, self.first] * plan.deviation + plan.mean)
        features = rows[:, self.first : self.first + len(plan.feature_names)]
        names = np.array([*self._names, _OTHERS, "nan"], dtype=object)
        places = np.where(features.any(axis=1), features.argmax(axis=1), len(names) - 2)
        return np.asarray(names[np.where(np.isnan(features).any(axis=1), len(names) - 1, places)])

    @property
    def _names(self) -> list[str]:
        return [name.removeprefix(f"{self.plan.name} = ") for name in self.plan.feature_names]

    def then_and_now(self, reference: NDArray[np.float64], recent: NDArray[np.float64]) -> tuple[Any, Any]:
        """Return the means, or how often the category was there whose share has changed most."""
        if isinstance(self.plan, NumberColumn):
            return float(self.values(reference).mean()), float(self.values(recent).mean())
        features = slice(self.first, self.first + len(self._names))
        shares = np.stack([rows[:, features].mean(axis=0) for rows in (reference, recent)])
        place = int(np.abs(shares[1] - shares[0]).argmax())
        return f"{self._names[place]} {shares[0, place]:.0%}", f"{self._names[place]} {shares[1, place]:.0%}"


def with_column_reasons(reasons: tuple[Reason, ...], findings: tuple[ColumnFinding, ...]) -> tuple[Reason, ...]:
    """Return reasons with what single columns show: new categories, and numbers beyond those of the reference.

    Other values of a column that was constant in the reference count as categories: they make no row unlike others.
    """
    outside = max((each.share for each in findings if each.kind == "outside"), default=0.0)
    new = sorted((each for each in findings if each.kind in (CATEGORIES, NEW_VALUES)), key=lambda each: -each.share)
    found = list(reasons)
    if outside >= _MANY_OUTSIDE:
        known = max((each.number for each in reasons if each.code == Finding.FEW_INSIDE), default=0.0)
        found = [each for each in found if each.code != Finding.FEW_INSIDE]
        found.append(Reason(Finding.FEW_INSIDE, max(known, outside)))
    return (*found, *(Reason(Finding.NEW_CATEGORIES, each.share, each.column) for each in new[:1]))


# --- What a table model reports, in the words of the classifier and in terms of the table's own columns


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSnapshot(Snapshot):
    """What a table model can say after one round, in terms of the table's own columns.

    Attributes
    ----------
    inner : Snapshot
        What the model on the encoded columns says.
    encoder : ColumnEncoder
    watch : TableWatch
        What the columns of the last rows showed.
    seasons : SeasonWatch, optional
    past : History
        What happened in the rounds.
    label : str
    settings : dict
        Those of ``accous fit``.
    job : Job, optional
        The last run of ``accous adapt``.
    """

    inner: Snapshot
    encoder: ColumnEncoder
    watch: TableWatch
    seasons: SeasonWatch | None
    past: History
    label: str
    settings: dict[str, Any]
    job: Job | None

    def apart(self) -> Self:
        """Return a copy whose readings leave no trace, as `Snapshot.apart`; it has a history of its own."""
        other = super().apart()
        vars(other).update(inner=self.inner.apart(), past=self.past.copy())
        return other

    # --- how good it is now: what the inner snapshot says, in the table's own columns

    def performance(self, metric: str | None = None, *, by: str | None = None) -> Any:
        """Return how good the model is on recent rows, as `Snapshot.performance`; ``by`` is a column of the table."""
        return self.inner.performance(metric) if by is None else super().performance(metric, by=by)

    @cached_property
    def status(self) -> Status:
        """The state of the model, with reasons that the columns of the table give too."""
        found = self.inner.status
        return replace(found, reasons=with_column_reasons(found.reasons, self.coverage.columns))

    def command(self, folder: str) -> str | None:
        """Return what to type next, for the model's folder and the stream of its last run; None if there is nothing."""
        stream = "STREAM" if self.job is None else str(self.job.spec.stream)
        return self.status.advice.command(folder, stream) or None

    @property
    def recent(self) -> PredictedRows:
        """What the predictor in use says of recent rows."""
        return self.inner.recent

    @property
    def alarm(self) -> AlarmWatch | None:
        """The alarm with all rows so far; None if the reference has too few rows."""
        return self.inner.alarm

    def segment_values(self, by: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return a column's values of recent, labelled and held-out rows: numbers, or names of categories."""
        columns = self.decoded
        if by not in columns:
            meant = did_you_mean(by, list(columns))
            raise ParameterError(f"There are no segments by {by!r}{meant}: use one of {listed(list(columns))}.")
        held, labelled, recent = self.rules.held_out.predictions, self.state.labelled, self.state.recent.last()
        reference = self.rules.cover.numbers
        assert held is not None
        assert reference is not None
        of_held_out = columns[by].values(reference[held.rows])
        width = reference.shape[1]
        of_labelled = columns[by].values(np.zeros((0, width)) if labelled is None else labelled.rows)
        if recent is not None:
            return columns[by].values(recent), of_labelled, of_held_out
        return (of_held_out if labelled is None else of_labelled[-len(self.recent) :]), of_labelled, of_held_out

    @cached_property
    def decoded(self) -> dict[str, DecodedColumn]:
        """The numbers and categories among the columns, which their features can be turned back to."""
        firsts = np.cumsum([0, *(len(plan.feature_names) for plan in self.encoder.used)]).tolist()
        plans = zip(firsts, self.encoder.used, strict=False)
        return {
            plan.name: DecodedColumn(plan, first)
            for first, plan in plans
            if isinstance(plan, (NumberColumn, CategoryColumn))
        }

    def moved_columns(self) -> tuple[MovedColumn, ...]:
        """Return the columns that moved, the one that moved most first, without the one that tells the time."""
        time = find_time_column(self.settings, self.encoder.plans)
        shares = [(name, share) for name, share in self.drift_attribution.items() if share > 0.0]
        reference, recent = self.rules.cover.numbers, self.state.recent.last()
        found = []
        for name, share in sorted(shares, key=lambda each: -each[1])[:_MOST_MOVED]:
            if time is None or name != time.name:
                then_and_now = None, None
                if name in self.decoded and reference is not None and recent is not None:
                    then_and_now = self.decoded[name].then_and_now(reference, recent)
                found.append(MovedColumn(name, share, *then_and_now))
        return tuple(found)

    @cached_property
    def coverage(self) -> Coverage:
        """How well the reference covers the last rows, with findings about the table's own columns."""
        found = [
            *number_findings(self.decoded.values(), self.state.recent.last(), self.rules.reference),
            *self.watch.findings(self.encoder),
        ]
        place = {plan.name: number for number, plan in enumerate(self.encoder.plans)}
        found.sort(key=lambda finding: place[finding.column])
        return replace(self.inner.coverage, columns=tuple(found))

    @cached_property
    def drift_attribution(self) -> dict[str, float]:
        """Share of each column of the table in what moved; zeros while there is no shift.

        If there is a time column, what the time of the day and the weekend explain is left out, once an hour has been
        seen on two days.
        """
        parts = self.state.watch.column_parts
        if self.seasons is not None and self.seasons.explained is not None:
            parts = np.maximum(0.0, parts - self.seasons.explained)
        shares = dict.fromkeys(self.encoder.used_columns, 0.0)
        for column, share in zip(self.encoder.column_of_feature, shares_of_parts(parts).tolist(), strict=True):
            shares[column] += share
        return shares

    @cached_property
    def drift_events(self) -> tuple[DriftEvent, ...]:
        """The changes in the inputs, named by the table's own columns, in order.

        If there is a time column, those that the time of the day and the weekend explain are left out.
        """
        seasonal = self.seasonal_events
        return tuple(event for event in self._events if event not in seasonal)

    @cached_property
    def seasonal_events(self) -> tuple[DriftEvent, ...]:
        """The changes that are what the same hours did on the days before."""
        rounds = () if self.seasons is None else self.seasons.seasonal
        return tuple(event for event in self._events if event.kind == "shift" and event.round in rounds)

    @cached_property
    def _events(self) -> list[DriftEvent]:
        events = [replace(event, features=self._columns_of(event.features)) for event in self.inner.drift_events]
        return sorted((*events, *self.watch.columns.events), key=lambda event: event.round)

    @cached_property
    def regimes(self) -> tuple[Regime, ...]:
        """The regimes that the ratio remembers, told apart by the table's own columns."""
        return tuple(replace(each, features=self._columns_of(each.features)) for each in self.inner.regimes)

    @property
    def history(self) -> Any:
        """What the last 10,000 rounds did, as a pandas frame; ``past`` has the whole stream in fewer points."""
        return self.inner.history

    def _columns_of(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that features, which the classifier calls x0, x1 and so on, were made from."""
        columns = self.encoder.column_of_feature
        return tuple(dict.fromkeys(columns[int(feature[1:])] for feature in features))
