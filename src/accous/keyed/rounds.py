"""Rows of keys as they arrive, cut into rounds that many keys run together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.core.many_keys import KeyStack, Number
from accous.exceptions import ParameterError
from accous.parameters import require_choice, require_integer, require_number

# --- From rows that arrive in any cut to the rounds of each key: which rows are ripe, which are late, which
#     wait


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


# --- The rows and rounds of several keys in one call, as flat arrays


class ChunkPlan(NamedTuple):
    """What a call does with the rows of several keys.

    Attributes
    ----------
    rows : Rows
        The rows of all keys, one key after the other; within a key as in `accous.keyed.rounds.Plan`.
    offsets : array of shape (n_keys + 1,)
        Where the rows of each key begin.
    bounds : array
        Where the rounds of all keys begin and end, one key after the other.
    firsts : array of shape (n_keys,)
        Where the bounds of each key begin.
    n_rounds, n_open : arrays of shape (n_keys,)
    beside, beside_owners : Rows and array, or None
        Late rows that are predicted and not learned from, and their keys.
    """

    rows: Rows
    offsets: IntArray
    bounds: IntArray
    firsts: IntArray
    n_rounds: IntArray
    n_open: IntArray
    beside: Rows | None = None
    beside_owners: IntArray | None = None

    @property
    def owners(self) -> IntArray:
        """The key of each row."""
        if len(self.n_rounds) == 1:
            return np.zeros(len(self.rows), dtype=np.int64)
        return np.repeat(np.arange(len(self.n_rounds)), np.diff(self.offsets))

    @property
    def ends(self) -> IntArray:
        """Where the last round of each key ends."""
        return self.bounds[self.firsts + self.n_rounds]

    def keys_of_round(self, number: int) -> IntArray:
        """Return the keys that have a round of this number in this call."""
        if len(self.n_rounds) == 1:
            return np.zeros(1, dtype=np.int64)
        return np.flatnonzero(self.n_rounds > number)

    def rows_of_round(self, keys: IntArray, number: int) -> tuple[IntArray | slice, IntArray]:
        """Return the places of the rows of a round of some keys, and where each key's rows begin among them."""
        if len(self.n_rounds) == 1:
            start, end = self.bounds[number : number + 2].tolist()
            return slice(start, end), np.array([0, end - start])
        at = self.firsts[keys] + number
        return _ranges(self.bounds[at], self.bounds[at + 1])

    def open_rows(self) -> tuple[IntArray | slice, IntArray]:
        """Return the places of the rows of the open rounds, and where each key's rows begin among them."""
        if len(self.n_rounds) == 1:
            start, n_open = int(self.bounds[-1]), int(self.n_open[0])
            return slice(start, start + n_open), np.array([0, n_open])
        ends = self.ends
        return _ranges(ends, ends + self.n_open)


class ChunkPlanner:
    """Plans the rounds of several keys.

    Parameters
    ----------
    planner : RoundPlanner
    """

    def __init__(self, planner: RoundPlanner) -> None:
        self._planner = planner

    def plan(self, stack: KeyStack, waiting: list[Rows], new: Rows, counts: IntArray, *, is_last: bool) -> ChunkPlan:
        """Say what happens to the rows of each key; note in the stack what came, and when.

        Parameters
        ----------
        stack : KeyStack
        waiting : list of Rows
            From earlier calls, one per key.
        new : Rows
            Of this call, one key after the other.
        counts : array of shape (n_keys,)
            How many of them each key has.
        is_last : bool
        """
        numbers = stack.numbers
        if not self._planner.is_by_arrival:
            plan = self._plan_each(numbers, waiting, new, counts, is_last=is_last)
        else:
            plan = self._plan_by_arrival(numbers, waiting, new, counts)
        numbers[Number.N_SEEN] += counts
        return plan

    def _plan_by_arrival(self, numbers: FloatArray, waiting: list[Rows], new: Rows, counts: IntArray) -> ChunkPlan:
        n_keys, size = len(counts), self._planner.round_size
        if n_keys == 1:
            return self._plan_one(numbers, waiting[0], new)
        n_waiting = np.array([len(rows) for rows in waiting])
        together = n_waiting + counts
        offsets = np.concatenate(([0], np.cumsum(together)))
        rows = new
        if n_waiting.any():
            keys = np.arange(n_keys)
            owners = np.concatenate((np.repeat(keys, n_waiting), np.repeat(keys, counts)))
            rows = join_rows([*(each for each in waiting if len(each)), new]).take(np.argsort(owners, kind="stable"))
        n_rounds = together // size
        firsts = np.concatenate(([0], np.cumsum(n_rounds + 1)[:-1]))
        bounds = _ranges(firsts, firsts + n_rounds + 1)[0] - np.repeat(firsts, n_rounds + 1)
        bounds = bounds * size + np.repeat(offsets[:-1], n_rounds + 1)
        if len(new) and not np.isnan(new.times).all():
            has_rows = counts > 0
            starts = (np.cumsum(counts) - counts)[has_rows]
            newest = np.maximum.reduceat(new.times, starts)
            column = numbers[Number.NEWEST_TIME]
            column[has_rows] = np.fmax(column[has_rows], newest)
        return ChunkPlan(
            rows=rows,
            offsets=offsets,
            bounds=bounds,
            firsts=firsts,
            n_rounds=n_rounds,
            n_open=together - n_rounds * size,
        )

    def _plan_one(self, numbers: FloatArray, waiting: Rows, new: Rows) -> ChunkPlan:
        """Do the same for a single key, in less time."""
        rows, size = join_rows([waiting, new]) if len(waiting) else new, self._planner.round_size
        n_rounds = len(rows) // size
        # Either all rows have times or none has; without them there is nothing to look for.
        if len(new) and not math.isnan(new.times[0]):
            newest = float(new.times.max())
            if not newest <= numbers[Number.NEWEST_TIME, 0]:
                numbers[Number.NEWEST_TIME, 0] = newest
        return ChunkPlan(
            rows=rows,
            offsets=np.array([0, len(rows)]),
            bounds=np.arange(0, n_rounds * size + 1, size),
            firsts=np.zeros(1, dtype=np.int64),
            n_rounds=np.array([n_rounds]),
            n_open=np.array([len(rows) - n_rounds * size]),
        )

    def _plan_each(
        self, numbers: FloatArray, waiting: list[Rows], new: Rows, counts: IntArray, *, is_last: bool
    ) -> ChunkPlan:
        ends = np.cumsum(counts)
        plans: list[Plan] = []
        for key, rows in enumerate(waiting):
            times = numbers[Number.NEWEST_TIME, key], numbers[Number.CLOSED_TIME, key]
            of_key = new.take(slice(int(ends[key] - counts[key]), int(ends[key])))
            plan = self._planner.plan(rows, of_key, *times, is_last=is_last)
            numbers[Number.NEWEST_TIME, key], numbers[Number.CLOSED_TIME, key] = plan.newest, plan.closed
            numbers[Number.N_LATE, key] += plan.n_late
            plans.append(plan)
        offsets = np.concatenate(([0], np.cumsum([len(plan.rows) for plan in plans])))
        n_rounds = np.array([len(plan.bounds) - 1 for plan in plans])
        beside = [plan.beside for plan in plans if plan.beside is not None]
        owners = [np.full(len(plan.beside), key) for key, plan in enumerate(plans) if plan.beside is not None]
        return ChunkPlan(
            rows=join_rows([plan.rows for plan in plans]),
            offsets=offsets,
            bounds=np.concatenate([plan.bounds + start for plan, start in zip(plans, offsets, strict=False)]),
            firsts=np.concatenate(([0], np.cumsum(n_rounds + 1)[:-1])),
            n_rounds=n_rounds,
            n_open=np.array([plan.n_open for plan in plans]),
            beside=join_rows(beside) if beside else None,
            beside_owners=np.concatenate(owners) if owners else None,
        )


def _ranges(starts: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of several ranges, one after the other, and where each range begins among them."""
    lengths = ends - starts
    begins = np.concatenate(([0], np.cumsum(lengths)))
    return np.repeat(starts - begins[:-1], lengths) + np.arange(begins[-1]), begins
