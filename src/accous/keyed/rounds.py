"""Rows of keys as they arrive, cut into rounds that many keys run together, and what follows a round."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.core.kernels_keys import COMPARE, IMPOSSIBLE, INPUTS, LOOK_LEFT, LOOK_OVER, REFIT, Number
from accous.core.many_keys import N_EVENT_COLUMNS, KeyStack, end_look, slots_of
from accous.diagnostics.drift import DriftEvent, DriftLog, main_columns, shares
from accous.exceptions import ParameterError
from accous.keyed.shared import KeyEvent, SharedModel
from accous.keyed.state import impossible_state
from accous.model.round import check_fit
from accous.model.safeguards import FIRST_STRENGTH, Fit
from accous.model.watching import LOOK_DECAY, parts_of_coef
from accous.text import require_choice, require_integer, require_number_or
from accous.threads import one_blas_thread

# --- Rows of keys as they arrive, cut into rounds that many keys run together


# --- From rows that arrive in any cut to the rounds of each key: which rows are ripe, which are late, which
#     wait


LATE_POLICIES = ("drop", "count", "next")


@dataclass(frozen=True)
class KeyedRows:
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

    def take(self, indices: IntArray | BoolArray | slice) -> KeyedRows:
        """Return some of the rows."""
        return KeyedRows(
            self.X[indices],
            self.times[indices],
            self.numbers[indices],
            self.is_predicted[indices],
            self.positions[indices],
        )

    def in_order(self) -> KeyedRows:
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
    def from_matrix(cls, matrix: FloatArray) -> KeyedRows:
        """Undo ``to_matrix``."""
        return cls(
            matrix[:, :-3],
            matrix[:, -3],
            np.ascontiguousarray(matrix[:, -2]).view(np.int64),
            matrix[:, -1] > 0.0,
            np.full(len(matrix), -1),
        )


def join_rows(parts: list[KeyedRows]) -> KeyedRows:
    """Return the rows of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return KeyedRows(
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

    rows: KeyedRows
    bounds: IntArray
    n_open: int
    n_late: int
    beside: KeyedRows | None
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
        require_number_or("round_time", self.round_time, None)
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

    def plan(self, waiting: KeyedRows, new: KeyedRows, newest: float, closed: float, *, is_last: bool) -> Plan:
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

    def _sort_out(self, new: KeyedRows, closed: float) -> tuple[KeyedRows, KeyedRows | None, int]:
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
        self, rows: KeyedRows, n_ripe: int, n_late: int, beside: KeyedRows | None, newest: float, closed: float
    ) -> Plan:
        n_rounds = n_ripe // self.round_size
        bounds = np.arange(n_rounds + 1) * self.round_size
        return Plan(rows, bounds, n_ripe - int(bounds[-1]), n_late, beside, newest, closed)

    def _by_time(self, rows: KeyedRows, n_late: int, beside: KeyedRows | None, newest: float, closed: float) -> Plan:
        assert self.round_time is not None
        numbers = np.floor(rows.times / self.round_time)
        now = closed if math.isinf(closed) else math.floor(closed / self.round_time)
        n_closed = int(np.searchsorted(numbers, now, side="left"))
        starts = np.flatnonzero(np.diff(numbers[:n_closed], prepend=-np.inf))
        n_open = int(np.searchsorted(numbers, now, side="right")) - n_closed
        return Plan(rows, np.append(starts, n_closed), n_open, n_late, beside, newest, closed)


# --- The rows and rounds of several keys in one call, as flat arrays


_FIRST = np.zeros(1, dtype=np.int64)


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
    n_left : int
        Rows after the rounds, of all keys.
    beside, beside_owners : Rows and array, or None
        Late rows that are predicted and not learned from, and their keys.
    """

    rows: KeyedRows
    offsets: IntArray
    bounds: IntArray
    firsts: IntArray
    n_rounds: IntArray
    n_open: IntArray
    n_left: int
    beside: KeyedRows | None = None
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
        return _FIRST if len(self.n_rounds) == 1 else np.flatnonzero(self.n_rounds > number)

    def rows_of_round(self, keys: IntArray, number: int) -> tuple[IntArray, IntArray]:
        """Return where the rows of a round of some keys begin, and where they end."""
        if len(self.n_rounds) == 1:
            return self.bounds[number : number + 1], self.bounds[number + 1 : number + 2]
        at = self.firsts[keys] + number
        return self.bounds[at], self.bounds[at + 1]


class ChunkPlanner:
    """Plans the rounds of several keys.

    Parameters
    ----------
    planner : RoundPlanner
    """

    def __init__(self, planner: RoundPlanner) -> None:
        self._planner = planner

    def plan(
        self, stack: KeyStack, waiting: list[KeyedRows], new: KeyedRows, counts: IntArray, *, is_last: bool
    ) -> ChunkPlan:
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

    def _plan_by_arrival(
        self, numbers: FloatArray, waiting: list[KeyedRows], new: KeyedRows, counts: IntArray
    ) -> ChunkPlan:
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
        bounds = ranges(firsts, firsts + n_rounds + 1)[0] - np.repeat(firsts, n_rounds + 1)
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
            n_left=len(rows) - size * int(n_rounds.sum()),
        )

    def _plan_one(self, numbers: FloatArray, waiting: KeyedRows, new: KeyedRows) -> ChunkPlan:
        """Do the same for a single key, in less time."""
        rows, size = join_rows([waiting, new]) if len(waiting) else new, self._planner.round_size
        n_rounds, n_left = divmod(len(rows), size)
        # Either all rows have times or none has; without them there is nothing to look for.
        if len(new) and not math.isnan(new.times[0]):
            newest = float(new.times.max())
            if not newest <= numbers[Number.NEWEST_TIME, 0]:
                numbers[Number.NEWEST_TIME, 0] = newest
        return ChunkPlan(
            rows=rows,
            offsets=np.array([0, len(rows)]),
            bounds=np.arange(0, n_rounds * size + 1, size),
            firsts=_FIRST,
            n_rounds=np.array([n_rounds]),
            n_open=np.array([n_left]),
            n_left=n_left,
        )

    def _plan_each(
        self, numbers: FloatArray, waiting: list[KeyedRows], new: KeyedRows, counts: IntArray, *, is_last: bool
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
            n_left=sum(len(plan.rows) - int(plan.bounds[-1]) for plan in plans),
            beside=join_rows(beside) if beside else None,
            beside_owners=np.concatenate(owners) if owners else None,
        )


def ranges(starts: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of several ranges, one after the other, and where each range begins among them."""
    lengths = ends - starts
    begins = np.concatenate(([0], np.cumsum(lengths)))
    return np.repeat(starts - begins[:-1], lengths) + np.arange(begins[-1]), begins


# --- What follows a round of keys: refits and watching


# --- The predictor of each key after a round: refit if its weights have moved, and compare with the fixed one
#     if due


def start_fits(shared: SharedModel, stack: KeyStack, keys: IntArray) -> None:
    """Write the state before the first round for some keys of a stack of zeros."""
    numbers = stack.numbers
    numbers[Number.IS_HELD, keys] = float(shared.rules.guard.starts_held)
    numbers[Number.VETO_EXCESS, keys] = numbers[Number.VETO_ERROR, keys] = np.nan
    numbers[Number.STRENGTH, keys] = FIRST_STRENGTH
    numbers[Number.EFFECTIVE_ROWS, keys] = np.nan
    numbers[Number.SHARE, keys] = 0.0 if shared.rules.has_safeguards else 1.0


def settle_round(
    shared: SharedModel, stack: KeyStack, active: IntArray, starts: IntArray, is_long: FloatArray, names: list[Any]
) -> list[KeyEvent]:
    """Do what follows a round of each active key; return what it found. Events have the names of the keys."""
    all_due, due = shared.rounds.settle(stack, active, starts, is_long)
    if all_due & (LOOK_LEFT | LOOK_OVER):
        places = (due & (LOOK_LEFT | LOOK_OVER)).nonzero()[0]
        for place in places.tolist():
            n_rows, is_left = int(starts[place + 1] - starts[place]), bool(due[place] & LOOK_LEFT)
            end_look(stack, int(active[place]), n_rows, shared.rounds, is_left=is_left)
        none = np.zeros(len(places) + 1, dtype=np.int64)
        due_then, due[places] = shared.rounds.settle(stack, active[places], none, is_long)
        all_due |= due_then
    if all_due & IMPOSSIBLE:
        # Its limits hold for every number of a state, and its matrices may still be no squares of anything.
        raise impossible_state(names[int(np.isfinite(stack.coef).all(axis=1).argmin())])
    if all_due & REFIT:
        _refit(shared, stack, active[(due & REFIT).nonzero()[0]])
    events: list[KeyEvent] = []
    if all_due & COMPARE:
        found = (_compare(shared, stack, key, names[key]) for key in active[(due & COMPARE).nonzero()[0]].tolist())
        events += [event for event in found if event is not None]
    if all_due & INPUTS:
        looks = (_look(shared, stack, key, names[key]) for key in active[(due & INPUTS).nonzero()[0]].tolist())
        events = [event for event in looks if event is not None] + events
    return events


def _refit(shared: SharedModel, stack: KeyStack, keys: IntArray) -> None:
    numbers = stack.numbers
    starts = np.where(stack.is_moved[keys][:, None, None], stack.predictors[keys], shared.fixed.coefs)
    stack.predictors[keys] = shared.erm.fit_each([stack.shrunk[key] for key in keys.tolist()], starts)
    stack.fitted[keys] = stack.weighing[keys]
    stack.is_moved[keys] = True
    numbers[Number.N_REFITS, keys] += 1.0
    numbers[Number.LAST_REFIT, keys] = numbers[Number.N_ROUNDS, keys]


def _compare(shared: SharedModel, stack: KeyStack, key: int, name: Any) -> KeyEvent | None:
    """Compare a key's predictor with the fixed one; return an event if predictions come from another one from now."""
    numbers, weighing = stack.numbers[:, key], stack.weighing[key]
    places = Number.N_ROUNDS, Number.N_REFITS, Number.LAST_REFIT
    this_round, n_refits, last_refit = (int(numbers[each]) for each in places)
    estimator = shared.predictor(stack.predictors[key]) if stack.is_moved[key] else shared.fixed
    fitted = stack.shrunk[key]
    if last_refit != this_round:
        fitted = shared.rounds.weights_of(stack, key, stack.fitted[key])
    with one_blas_thread():
        fit = Fit(estimator, fitted, n_refits, last_refit)
        fit, check = check_fit(shared.rules, fit, float(numbers[Number.STRENGTH]), stack.weights[key], this_round)
    veto, was_held = check.veto, bool(numbers[Number.IS_HELD])
    numbers[Number.IS_HELD], numbers[Number.STRENGTH] = float(veto.is_held), check.strength
    numbers[Number.VETO_EXCESS], numbers[Number.VETO_ERROR] = veto.excess, veto.standard_error
    numbers[Number.VETO_ROUND], numbers[Number.VETO_REFITS] = veto.n_rounds, veto.n_refits
    stack.is_checked[key], stack.checked[key] = True, weighing
    stack.checked[key, -1] = 1.0
    if fit.last_refit == this_round:
        n_effective = numbers[Number.EFFECTIVE_ROWS]
        stack.is_moved[key] = True
        stack.predictors[key] = fit.estimator.coefs
        stack.fitted[key] = weighing
        stack.fitted[key, -1] = n_effective / (n_effective + check.strength)
    numbers[Number.N_REFITS], numbers[Number.LAST_REFIT] = fit.n_refits, fit.last_refit
    if veto.is_held == was_held:
        return None
    kind, time = "held" if veto.is_held else "released", float(numbers[Number.ROUND_TIME])
    return KeyEvent(name, this_round, time, kind, float(veto.excess), (), -1)


# --- What the rounds of each key show about its inputs: rows out of bound, columns that moved, changes as
#     events


def _look(shared: SharedModel, stack: KeyStack, key: int, name: Any) -> KeyEvent | None:
    numbers, ratio, columns = stack.numbers[:, key], shared.ratio, shared.rules.columns
    share, this_round = float(numbers[Number.SHARE]), int(numbers[Number.N_ROUNDS])
    change = share * (stack.coef[key] - ratio.neutral_coef_)
    parts = LOOK_DECAY * stack.parts["column_parts"][key]
    if share:
        parts = parts + parts_of_coef(ratio, change, columns)
    stack.parts["column_parts"][key] = parts
    log = _log_of(shared, stack, key)
    after = log.look(
        this_round,
        ratio.neutral_coef_ + change,
        weigh=ratio.ratios_at,
        name=lambda change: main_columns(shares(parts_of_coef(ratio, change, columns)), shared.rules.names),
        recall=lambda first: slots_of(stack, key).earlier_visit(stack.parts["proportions"][key], first),
    )
    stack.parts["watch_coef"][key] = after.coef
    stack.parts["settled_coef"][key] = after.settled_coef
    stack.n_changes[key] = len(after.sizes)
    stack.changes[key, : len(after.sizes)] = after.sizes
    if not after.events or after.events is log.events:
        return None
    return _write_event(shared, stack, key, name, log, after.events[-1])


def _log_of(shared: SharedModel, stack: KeyStack, key: int) -> DriftLog:
    numbers = stack.numbers[:, key]
    events: tuple[DriftEvent, ...] = ()
    if numbers[Number.EVENT_ROUND]:
        columns = numbers[Number.EVENT_COLUMNS : Number.EVENT_COLUMNS + N_EVENT_COLUMNS]
        seen = numbers[[Number.SEEN_FIRST, Number.SEEN_LAST]].astype(np.int64).tolist()
        n_rounds = numbers[Number.EVENT_ROUNDS]
        event = DriftEvent(
            int(numbers[Number.EVENT_ROUND]),
            float(numbers[Number.EVENT_SIZE]),
            tuple(shared.rules.names[int(column) - 1] for column in columns if column),
            None if np.isnan(n_rounds) else int(n_rounds),
            seen=(seen[0], seen[1]) if seen[0] else None,
        )
        events = (event,)
    watch, settled = (stack.parts[part][key].astype(np.float64) for part in ("watch_coef", "settled_coef"))
    sizes = stack.changes[key, : stack.n_changes[key]].tolist()
    return DriftLog(watch, settled, events, tuple(sizes))


def _write_event(
    shared: SharedModel, stack: KeyStack, key: int, name: Any, log: DriftLog, event: DriftEvent
) -> KeyEvent | None:
    """Write the latest event into the state; return it if it is new, or if it is over now."""
    numbers = stack.numbers[:, key]
    is_new = not log.events or log.events[-1].round != event.round
    time = float(numbers[Number.ROUND_TIME])
    if is_new:
        numbers[Number.EVENT_TIME] = time
        numbers[Number.N_EVENTS] += 1.0
    numbers[Number.EVENT_ROUND], numbers[Number.EVENT_SIZE] = event.round, event.size
    numbers[Number.EVENT_ROUNDS] = np.nan if event.rounds_to_adapt is None else event.rounds_to_adapt
    numbers[Number.SEEN_FIRST], numbers[Number.SEEN_LAST] = event.seen or (0, 0)
    columns = numbers[Number.EVENT_COLUMNS : Number.EVENT_COLUMNS + N_EVENT_COLUMNS]
    columns[:] = 0.0
    for place, column in enumerate(event.features):
        columns[place] = shared.rules.names.index(column) + 1
    if event.rounds_to_adapt is not None:
        this_round = int(numbers[Number.N_ROUNDS])
        return KeyEvent(name, this_round, time, "settled", event.size, event.features, event.rounds_to_adapt)
    return KeyEvent(name, event.round, time, "shift", event.size, event.features, -1) if is_new else None
