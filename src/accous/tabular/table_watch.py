"""What the columns of a table show that the reference does not: missing values, categories, values of constants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accous.arrays import IntArray, from_plain, to_plain
from accous.diagnostics.coverage import (
    NOTHING_FOUND,
    ROUNDS_BETWEEN_COLUMN_LOOKS,
    ColumnRanges,
    ColumnWatch,
    Finding,
    constant_sentence,
    largest_rare_count,
    smallest_rare_count,
)
from accous.model.watching import NO_ROWS, RecentRows, recent_from_plain
from accous.tabular.calendar_traps import is_part_of_calendar
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.marks import CATEGORIES, MISSING, NEW_VALUES, Mark, Marks
from accous.tabular.columns.plans import NumberColumn

__all__ = ["TableWatch", "number_findings", "watch_from_plain"]

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
    varied : tuple of str
        The columns that had more than one new value.
    """

    recent: RecentRows = NO_ROWS
    columns: ColumnWatch = NOTHING_FOUND
    latest: dict[str, str] = field(default_factory=dict)
    varied: tuple[str, ...] = ()

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
        return self._with_values(marks, recent, columns)

    def _with_values(self, marks: Marks, recent: RecentRows, columns: ColumnWatch) -> TableWatch:
        new = marks.latest() if marks.values.width else {}
        if not new:
            return TableWatch(recent, columns, self.latest, self.varied)
        is_varied = {
            name: not is_only or self.latest.get(name, value) != value for name, (value, is_only) in new.items()
        }
        varied = (*self.varied, *(name for name in new if is_varied[name] and name not in self.varied))
        return TableWatch(recent, columns, self.latest | {name: value for name, (value, _) in new.items()}, varied)

    def after_joining(self, encoder: ColumnEncoder) -> TableWatch:
        """Return the watch after rows have joined the reference: a category that joined is no longer new.

        Only the last new value of each column is kept: where there were several, the rows so far stay as they are.
        """
        settled = {
            name
            for name, categories in encoder.joined_categories.items()
            if name not in self.varied and self.latest.get(name) in categories
        }
        places = [
            number for number, mark in enumerate(encoder.marks) if mark.kind == CATEGORIES and mark.column in settled
        ]
        latest = {name: value for name, value in self.latest.items() if name not in settled}
        return replace(self, recent=self.recent.cleared(places), latest=latest) if places else self

    def findings(self, encoder: ColumnEncoder) -> list[Finding]:
        """Return what the recent rows show, in words."""
        hits, kinds = self.recent.last(), encoder.marks
        if hits is None or not kinds:
            return []
        found = _rare(kinds, hits.sum(axis=0, dtype=np.int64), len(hits))
        return [self._finding(kinds[number], share, encoder) for number, share in found]

    def _finding(self, mark: Mark, share: float, encoder: ColumnEncoder) -> Finding:
        expected, value = mark.n_hits / mark.n_reference, self.latest.get(mark.column, "")
        where = "all recent rows" if share == 1.0 else f"{share:.1%} of the recent rows"
        if mark.kind == MISSING:
            sentence = (
                f"Column {mark.column!r} was missing in {expected:.1%} of the reference and is missing in {where}."
            )
        elif mark.kind == NEW_VALUES and mark.n_hits:
            constant = encoder.constants[mark.column].only_value
            sentence = (
                f"Column {mark.column!r} was {constant} in all but {expected:.1%} of the reference and is another "
                f"value, such as {value!r}, in {where}."
            )
        elif mark.kind == NEW_VALUES:
            constant = encoder.constants[mark.column].only_value
            sentence = constant_sentence(mark.column, constant, value, share, is_one=mark.column not in self.varied)
        else:
            sentence = (
                f"Column {mark.column!r} has categories that the model's columns do not know, such as {value!r}, "
                f"in {where}."
            )
            plan = next(plan for plan in encoder.used if plan.name == mark.column)
            if is_part_of_calendar(plan):
                sentence += f" To leave it out, run accous fit with --drop {mark.column}."
        return Finding(mark.column, mark.kind, share, expected, sentence)

    def to_plain(self) -> dict[str, Any]:
        """Return everything as arrays, numbers and strings."""
        return {
            "recent": self.recent.to_plain(),
            "columns": to_plain(self.columns),
            # As lists: a column may have any name.
            "latest": [list(self.latest), list(self.latest.values())],
            "varied": list(self.varied),
        }


def watch_from_plain(plain: dict[str, Any] | None) -> TableWatch:
    """Undo ``to_plain``; folders of the first versions have no watch."""
    if plain is None:
        return TableWatch()
    latest = dict(zip(*plain["latest"], strict=True))
    columns = from_plain(ColumnWatch, plain["columns"])
    return TableWatch(recent_from_plain(plain["recent"]), columns, latest, tuple(plain["varied"]))


def number_findings(encoder: ColumnEncoder, rows: Any, reference: Any) -> tuple[Finding, ...]:
    """Return which columns of numbers leave their range in the reference, in the units of the table.

    Parameters
    ----------
    encoder : ColumnEncoder
    rows, reference : array of shape (n_rows, n_features)
        Encoded rows.
    """
    first_features = np.cumsum([0, *(len(plan.feature_names) for plan in encoder.used)]).tolist()
    numbers = [(place, plan) for place, plan in zip(first_features, encoder.used, strict=False) if _is_number(plan)]
    if rows is None or not numbers:
        return ()
    chosen, plans = [place for place, _ in numbers], [plan for _, plan in numbers]
    scale, mean = (np.array([getattr(plan, name) for plan in plans]) for name in ("deviation", "mean"))
    ranges = ColumnRanges.of(reference[:, chosen] * scale + mean, [plan.name for plan in plans])
    return ranges.findings(rows[:, chosen] * scale + mean)


def _is_number(plan: Any) -> bool:
    return isinstance(plan, NumberColumn)


def _rare(kinds: list[Mark], counts: IntArray, n_rows: int) -> list[tuple[int, float]]:
    """Return number and share of the marks that are too frequent for chance, or too seldom where values are missing."""
    n_tests = len(kinds)
    found = []
    for number, (mark, count) in enumerate(zip(kinds, counts.tolist(), strict=True)):
        if mark.kind == NEW_VALUES and mark.n_hits > _FEW_OTHER_VALUES * mark.n_reference:
            continue  # the column is no longer constant, since labelled rows have joined the reference
        least = smallest_rare_count(n_rows, mark.n_reference, mark.n_hits, n_tests)
        is_rare = count >= least
        if mark.kind == MISSING and mark.n_hits and not is_rare:
            is_rare = count <= largest_rare_count(n_rows, mark.n_reference, mark.n_hits, n_tests)
        if is_rare:
            found.append((number, count / n_rows))
    return found
