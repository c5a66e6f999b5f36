"""The rows and rounds of several keys in one call, as flat arrays."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.many_keys import KeyStack, Number
from accous.keyed.arrivals import Plan, RoundPlanner, Rows, join_rows

__all__ = ["ChunkPlan", "ChunkPlanner"]


class ChunkPlan(NamedTuple):
    """What a call does with the rows of several keys.

    Attributes
    ----------
    rows : Rows
        The rows of all keys, one key after the other; within a key as in `accous.keyed.arrivals.Plan`.
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
