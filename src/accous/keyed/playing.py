"""The rounds of some keys in one call: read the states, play the rounds wave by wave, write the states."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.core.kernels_keys import score_rows_of_keys
from accous.core.many_keys import KeyStack, Number, count_learners, make_stack
from accous.keyed.arrivals import Rows, join_rows
from accous.keyed.chunk_plans import ChunkPlan, ChunkPlanner
from accous.keyed.fitting import start_fits, update_fits
from accous.keyed.predictions import KeyEvent
from accous.keyed.shared_model import SharedModel
from accous.keyed.state_format import StateFormat
from accous.keyed.watching import count_round, keys_to_look_at, look_at_inputs, look_at_pools

__all__ = ["KeyPlayer", "Played"]


class Played(NamedTuple):
    """What the rounds of some keys gave.

    Attributes
    ----------
    states : list of bytes
        One per key.
    rows : Rows
        The rows that were predicted.
    owners, rounds, class_numbers : arrays of shape (n_rows,)
        Place of the key of each row, its round, and its predicted class.
    probabilities : array of shape (n_rows, n_classes)
    events : list of KeyEvent
    """

    states: list[bytes]
    rows: Rows
    owners: IntArray
    rounds: IntArray
    class_numbers: IntArray
    probabilities: FloatArray
    events: list[KeyEvent]


class _Outcome(NamedTuple):
    """What is written down for each row; round 0 means that it was not predicted."""

    class_numbers: IntArray
    probabilities: FloatArray
    rounds: IntArray


class KeyPlayer:
    """Plays the rounds of a few dozen keys at a time.

    Parameters
    ----------
    shared : SharedModel
    planner : ChunkPlanner
    form : StateFormat
    """

    def __init__(self, shared: SharedModel, planner: ChunkPlanner, form: StateFormat) -> None:
        self._shared, self._planner, self._form = shared, planner, form
        self._fixed = shared.fixed.coefs[None]
        none = np.empty(0, dtype=np.int64)
        self._no_rows = Rows(np.empty((0, shared.shape.n_features)), np.empty(0), none, none > 0, none)
        # Stacks that no call uses at the moment, by their number of keys. A call takes one out, and puts it back.
        self._spare: dict[int, KeyStack] = {}

    def play(
        self, names: list[Any], states: list[bytes | None], new: Rows, counts: IntArray, *, is_last: bool
    ) -> Played:
        """Play all rounds that the new rows complete.

        Parameters
        ----------
        names : list
            The keys.
        states : list of bytes or None
            One per key; None before its first row.
        new : Rows
            Of all keys, one key after the other.
        counts : array of shape (n_keys,)
            How many of them each key has.
        is_last : bool
            Whether no more rows will come.
        """
        stack, waiting = self.read(names, states, max(counts.tolist(), default=0))
        plan = self._planner.plan(stack, waiting, new, counts, is_last=is_last)
        outcome = self._outcome_of(len(plan.rows))
        events: list[KeyEvent] = []
        has_times = len(plan.rows) > 0 and not math.isnan(plan.rows.times[0])
        for wave in range(max(plan.n_rounds.tolist(), default=0)):
            active = plan.keys_of_round(wave)
            indices, starts = plan.rows_of_round(active, wave)
            X = plan.rows.X[indices]
            if has_times:
                newest = np.maximum.reduceat(plan.rows.times[indices], starts[:-1])
                stack.numbers[Number.ROUND_TIME, active] = np.fmax(stack.numbers[Number.ROUND_TIME, active], newest)
            self._predict(stack, active, starts, X, indices, outcome)
            events += self._play_round(stack, active, X, starts, names)
        played = self._finish(stack, plan, outcome, events)
        self._spare[len(stack)] = stack
        return played

    def read(self, names: list[Any], states: list[bytes | None], most_rows: int = 0) -> tuple[KeyStack, list[Rows]]:
        """Return keys as a stack, with room for the rounds that so many rows per key can make, and the waiting rows."""
        shared, form = self._shared, self._form
        most_rounds = most_rows + 1 + max(sum(form.peek(state)) if state else 0 for state in states)
        stack = self._empty_stack(len(states), count_learners(most_rounds, shared.min_interval))
        waiting, fresh, with_slots = [], [], []
        for key, state in enumerate(states):
            if state is None:
                fresh.append(key)
                waiting.append(self._no_rows)
                continue
            matrix = form.unpack(state, stack, key, names[key])
            waiting.append(Rows.from_matrix(matrix) if len(matrix) else self._no_rows)
            if not stack.is_moved[key]:
                stack.fitted[key] = shared.base_shares[0]
            if any(stack.n_merged[key].tolist()):
                with_slots.append(key)
        if fresh:
            self._start(stack, np.array(fresh))
        shared.rounds.restore(stack, with_slots)
        return stack, waiting

    def _empty_stack(self, n_keys: int, n_learners: int) -> KeyStack:
        stack = self._spare.pop(n_keys, None)
        if stack is None or stack.coefs.shape[1] < n_learners:
            return make_stack(self._shared.shape, n_keys, n_learners)
        stack.clear()
        return stack

    def _start(self, stack: KeyStack, keys: IntArray) -> None:
        stack.singles[keys] = 0.0
        self._shared.rounds.start(stack, keys)
        start_fits(self._shared, stack, keys)
        stack.fitted[keys] = self._shared.base_shares
        for number in (Number.NEWEST_TIME, Number.CLOSED_TIME, Number.ROUND_TIME):
            stack.numbers[number, keys] = np.nan

    def nothing(self) -> Played:
        """Return what no keys give."""
        none = np.empty(0, dtype=np.int64)
        return Played([], self._no_rows, none, none, none, np.empty((0, len(self._shared.classes))), [])

    def _outcome_of(self, n_rows: int) -> _Outcome:
        n_classes = len(self._shared.classes)
        counts = np.zeros((2, n_rows), dtype=np.int64)
        return _Outcome(counts[0], np.zeros((n_rows, n_classes)), counts[1])

    def _play_round(
        self, stack: KeyStack, active: IntArray, X: FloatArray, starts: IntArray, names: list[Any]
    ) -> list[KeyEvent]:
        """Play one round of each active key: the steps are those of `accous.model.round.play_round`."""
        shared = self._shared
        was_held = stack.numbers[Number.IS_HELD].tolist()
        features, is_long = shared.ratio.features_.transform_each(X)
        step_sizes = np.array([shared.ratio.step_size_for(n) for n in (starts[1:] - starts[:-1]).tolist()])
        ratios = shared.rounds.play(stack, active, features, starts, step_sizes)
        due = keys_to_look_at(stack, active)
        look_at_pools(shared, stack, due)
        pooled = shared.rounds.pool(stack, active, ratios)
        update_fits(shared, stack, active, pooled)
        count_round(stack, active, starts, is_long)
        return look_at_inputs(shared, stack, due, names) + _vetoes(stack, was_held, names)

    def _predict(
        self,
        stack: KeyStack,
        keys: IntArray,
        starts: IntArray,
        X: FloatArray,
        indices: IntArray | slice,
        outcome: _Outcome,
    ) -> None:
        """Predict rows of some keys by the state before their round."""
        if len(stack) == 1:
            # The same for a single key, in less time.
            is_fixed = not stack.is_moved[0] or stack.numbers[Number.IS_HELD, 0] != 0.0
            owners = np.zeros(len(X), dtype=np.int64)
            self._score(owners, X, self._fixed if is_fixed else stack.predictors, indices, outcome)
            outcome.rounds[indices] = stack.numbers[Number.N_ROUNDS, 0] + 1.0
            return
        is_adapted = stack.is_moved & (stack.numbers[Number.IS_HELD] == 0.0)
        coefs = np.where(is_adapted[:, None, None], stack.predictors, self._fixed)
        owners = np.repeat(keys, starts[1:] - starts[:-1])
        self._score(owners, X, coefs, indices, outcome)
        outcome.rounds[indices] = stack.numbers[Number.N_ROUNDS, owners] + 1.0

    @staticmethod
    def _score(
        owners: IntArray, X: FloatArray, coefs: FloatArray, indices: IntArray | slice, outcome: _Outcome
    ) -> None:
        scores = np.empty((len(X), coefs.shape[1]))
        probabilities = np.empty((len(X), outcome.probabilities.shape[1]))
        score_rows_of_keys(owners, X, coefs, scores, probabilities)
        outcome.probabilities[indices] = probabilities
        outcome.class_numbers[indices] = scores[:, 0] > 0.0 if scores.shape[1] == 1 else scores.argmax(axis=1)

    def _finish(self, stack: KeyStack, plan: ChunkPlan, outcome: _Outcome, events: list[KeyEvent]) -> Played:
        keys, rows, owners = np.arange(len(stack)), plan.rows, plan.owners
        indices, starts = plan.open_rows()
        if starts[-1]:
            self._predict(stack, keys, starts, rows.X[indices], indices, outcome)
        is_out = ~rows.is_predicted & (outcome.rounds > 0)
        ends, lasts = plan.ends.tolist(), plan.offsets[1:].tolist()
        matrix = np.empty((len(rows), 0))
        if ends != lasts:
            matrix = Rows(rows.X, rows.times, rows.numbers, outcome.rounds > 0, rows.positions).to_matrix()
        played = Played(
            [
                self._form.pack(stack, key, matrix[start:end])
                for key, (start, end) in enumerate(zip(ends, lasts, strict=True))
            ],
            rows,
            owners,
            outcome.rounds,
            outcome.class_numbers,
            outcome.probabilities,
            events,
        )
        if np.count_nonzero(is_out) < len(is_out):
            played = _some_rows(played, is_out)
        return played if plan.beside is None else self._with_beside(plan, played)

    def _with_beside(self, plan: ChunkPlan, played: Played) -> Played:
        """Add late rows that are predicted and not learned from.

        By the fixed predictor: the state of their round is gone, and the state of now depends on which other rows
        happen to be in the call.
        """
        beside, owners = plan.beside, plan.beside_owners
        assert beside is not None
        assert owners is not None
        outcome = self._outcome_of(len(beside))
        self._score(np.zeros(len(beside), dtype=np.int64), beside.X, self._fixed, slice(None), outcome)
        return Played(
            played.states,
            join_rows([played.rows, beside]),
            np.concatenate((played.owners, owners)),
            np.concatenate((played.rounds, np.zeros(len(beside), dtype=np.int64))),
            np.concatenate((played.class_numbers, outcome.class_numbers)),
            np.concatenate((played.probabilities, outcome.probabilities)),
            played.events,
        )


def _some_rows(played: Played, is_out: BoolArray) -> Played:
    return Played(
        played.states,
        played.rows.take(is_out),
        played.owners[is_out],
        played.rounds[is_out],
        played.class_numbers[is_out],
        played.probabilities[is_out],
        played.events,
    )


def _vetoes(stack: KeyStack, was_held: list[float], names: list[Any]) -> list[KeyEvent]:
    """Return an event for each key whose predictions come from another model than before."""
    is_held = stack.numbers[Number.IS_HELD].tolist()
    if is_held == was_held:
        return []
    numbers = stack.numbers
    return [
        KeyEvent(
            names[key],
            int(numbers[Number.N_ROUNDS, key]),
            float(numbers[Number.ROUND_TIME, key]),
            "held" if now else "released",
            float(numbers[Number.VETO_EXCESS, key]),
            (),
            -1,
        )
        for key, (before, now) in enumerate(zip(was_held, is_held, strict=True))
        if before != now and numbers[Number.SHARE, key] > 0.0
    ]
