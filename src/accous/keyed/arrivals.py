"""From rows that arrive in any cut to the rounds of each key: which rows are ripe, which are late, which wait."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.exceptions import ParameterError
from accous.parameters import require_choice, require_integer, require_number

__all__ = ["LATE_POLICIES", "Plan", "RoundPlanner", "Rows", "join_rows"]

LATE_POLICIES = ("drop", "count", "next")


@dataclass(frozen=True)
class Rows:
    """Rows on their way to a round.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    times : array of shape (n_rows,)
        NaN if rows have no times.
    numbers : array of shape (n_rows,)
        What the caller calls each row.
    is_predicted : array of shape (n_rows,)
        Whether an earlier call has predicted the row.
    positions : array of shape (n_rows,)
        Place in this call; -1 for rows of earlier calls.
    """

    X: FloatArray
    times: FloatArray
    numbers: IntArray
    is_predicted: BoolArray
    positions: IntArray

    def __len__(self) -> int:
        return len(self.X)

    def take(self, indices: IntArray | BoolArray | slice) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.X[indices],
            self.times[indices],
            self.numbers[indices],
            self.is_predicted[indices],
            self.positions[indices],
        )

    def in_order(self) -> Rows:
        """Return the rows in the order of their times; those of one time in the order of their values."""
        order = np.argsort(self.times, kind="stable")
        sorted_times = self.times[order]
        if (sorted_times[1:] == sorted_times[:-1]).any():
            order = np.lexsort((self.numbers, *self.X.T[::-1], self.times))
        return self.take(order)

    def to_matrix(self) -> FloatArray:
        """Return the rows as a state keeps them."""
        marks = self.times, self.numbers.view(np.float64), self.is_predicted.astype(np.float64)
        return np.concatenate((self.X, np.stack(marks, axis=1)), axis=1)

    @classmethod
    def from_matrix(cls, matrix: FloatArray) -> Rows:
        """Undo ``to_matrix``."""
        return cls(
            matrix[:, :-3],
            matrix[:, -3],
            np.ascontiguousarray(matrix[:, -2]).view(np.int64),
            matrix[:, -1] > 0.0,
            np.full(len(matrix), -1),
        )


def join_rows(parts: list[Rows]) -> Rows:
    """Return the rows of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.is_predicted for part in parts]),
        np.concatenate([part.positions for part in parts]),
    )


@dataclass(frozen=True)
class Plan:
    """What a call does with the rows of one key.

    Attributes
    ----------
    rows : Rows
        Rows of the rounds, then rows of the open round, then rows that are not ripe.
    bounds : array of shape (n_rounds + 1,)
        Where each round begins, and where the last one ends.
    n_open : int
        Rows after the rounds that are predicted now.
    n_late : int
        Rows that came too late.
    beside : Rows or None
        Late rows that are predicted and not learned from.
    newest, closed : float
        The newest time so far, and the time before which nothing is taken any more.
    """

    rows: Rows
    bounds: IntArray
    n_open: int
    n_late: int
    beside: Rows | None
    newest: float
    closed: float


@dataclass(frozen=True, kw_only=True)
class RoundPlanner:
    """How rows become rounds.

    Attributes
    ----------
    round_size : int
        Rows of a round, unless rounds go by time.
    round_time : float or None
        Length of a round in time.
    lateness : float or None
        How much older than the newest row a row may be when it arrives. None takes rows as they come.
    late : {"drop", "count", "next"}
        What happens to older rows.
    """

    round_size: int = 10
    round_time: float | None = None
    lateness: float | None = None
    late: str = "next"

    def __post_init__(self) -> None:
        require_integer("round_size", self.round_size, at_least=1)
        require_choice("late", self.late, LATE_POLICIES)
        if self.round_time is not None:
            require_number("round_time", self.round_time, or_else=" or None")
        if self.lateness is not None and not (self.lateness >= 0.0 and math.isfinite(self.lateness)):
            raise ParameterError(f"lateness must be a number that is not negative, or None, got {self.lateness!r}.")

    @property
    def needs_times(self) -> bool:
        """Whether every row must have a time."""
        return self.round_time is not None or self.lateness is not None or self.late != "next"

    @property
    def is_by_arrival(self) -> bool:
        """Whether rounds are cut from rows as they come, so that no time matters."""
        return not self.needs_times

    @property
    def moves_late_rows(self) -> bool:
        """Whether late rows are given another time, at which they join a round."""
        return self.late == "next" and (self.round_time is not None or self.lateness is not None)

    def plan(self, waiting: Rows, new: Rows, newest: float, closed: float, *, is_last: bool) -> Plan:
        """Say what happens to the rows of one key.

        Parameters
        ----------
        waiting : Rows
            From earlier calls.
        new : Rows
            Of this call, with times.
        newest, closed : float
            As the last call left them; NaN before the first.
        is_last : bool
            Whether no more rows will come: nothing waits for rows that may be late.
        """
        on_time, beside, n_late = self._sort_out(new, closed)
        if len(new):
            newest = float(np.fmax(newest, new.times.max()))
        rows = join_rows([waiting, on_time])
        if self.lateness is None and self.round_time is None:
            # A late row joins what is open: it comes after the rows that wait.
            in_order = join_rows([waiting, on_time.in_order()])
            return self._by_count(in_order, len(in_order), n_late, beside, newest, newest)
        rows = rows.in_order()
        closed = math.inf if is_last else newest - (self.lateness or 0.0)
        if self.round_time is not None:
            plan = self._by_time(rows, n_late, beside, newest, closed)
        else:
            n_ripe = int(np.searchsorted(rows.times, closed, side="left"))
            plan = self._by_count(rows, n_ripe, n_late, beside, newest, closed)
        return replace(plan, closed=newest) if is_last else plan

    def _sort_out(self, new: Rows, closed: float) -> tuple[Rows, Rows | None, int]:
        """Return the rows to learn from, the late rows to predict, and how many are late."""
        limit = closed
        if self.round_time is not None:
            limit = math.floor(closed / self.round_time) * self.round_time if math.isfinite(closed) else closed
        is_late = new.times < limit
        n_late = int(is_late.sum())
        if n_late == 0:
            return new, None, 0
        if self.late == "next":
            if self.round_time is not None:
                # Late rows count as the first ones of the round that is open.
                return replace(new, times=np.where(is_late, limit, new.times)), None, n_late
            # They are ripe at once, after all rows that were ripe before.
            ripe = np.nextafter(limit, -np.inf)
            return (
                (new if self.lateness is None else replace(new, times=np.where(is_late, ripe, new.times))),
                None,
                n_late,
            )
        return new.take(~is_late), new.take(is_late) if self.late == "count" else None, n_late

    def _by_count(
        self, rows: Rows, n_ripe: int, n_late: int, beside: Rows | None, newest: float, closed: float
    ) -> Plan:
        n_rounds = n_ripe // self.round_size
        bounds = np.arange(n_rounds + 1) * self.round_size
        return Plan(rows, bounds, n_ripe - int(bounds[-1]), n_late, beside, newest, closed)

    def _by_time(self, rows: Rows, n_late: int, beside: Rows | None, newest: float, closed: float) -> Plan:
        assert self.round_time is not None
        numbers = np.floor(rows.times / self.round_time)
        now = closed if math.isinf(closed) else math.floor(closed / self.round_time)
        n_closed = int(np.searchsorted(numbers, now, side="left"))
        starts = np.flatnonzero(np.diff(numbers[:n_closed], prepend=-np.inf))
        n_open = int(np.searchsorted(numbers, now, side="right")) - n_closed
        return Plan(rows, np.append(starts, n_closed), n_open, n_late, beside, newest, closed)
