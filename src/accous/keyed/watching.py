"""What the rounds of each key show about its inputs: rows out of bound, columns that moved, changes as events."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.kernels_keys import count_rows_of_keys
from accous.core.many_keys import N_EVENT_COLUMNS, KeyStack, Number, look_back, slots_of
from accous.diagnostics.drift import ROUNDS_BETWEEN_LOOKS, DriftEvent, DriftLog, main_columns, shares
from accous.keyed.predictions import KeyEvent
from accous.keyed.shared_model import SharedModel
from accous.model.watching import LOOK_DECAY, ROUND_DECAY, parts_of_coef

__all__ = ["count_round", "keys_to_look_at", "look_at_inputs", "look_at_pools"]

_COUNTED = int(Number.N_ROWS), int(Number.N_RECENT), int(Number.N_RECENT_OUT)


def keys_to_look_at(stack: KeyStack, active: IntArray) -> list[int]:
    """Return the keys whose look is due, after a round."""
    rounds = stack.numbers[Number.N_ROUNDS][stack.places(active)].tolist()
    return [key for key, number in zip(active.tolist(), rounds, strict=True) if number % ROUNDS_BETWEEN_LOOKS == 0.0]


def look_at_pools(shared: SharedModel, stack: KeyStack, keys: list[int]) -> None:
    """Look back at the pools of some keys."""
    for key in keys:
        look_back(stack, key, shared.pool, shared.rounds, shared.reference)


def look_at_inputs(shared: SharedModel, stack: KeyStack, keys: list[int], names: list[Any]) -> list[KeyEvent]:
    """Return the changes that a look at the thetas of some keys finds; events have the names of the keys."""
    found = (_look(shared, stack, key, names[key]) for key in keys)
    return [event for event in found if event is not None]


def count_round(stack: KeyStack, active: IntArray, starts: IntArray, is_long: FloatArray) -> None:
    """Note how many rows a round of each active key had, and which share of them was longer than the bound."""
    count_rows_of_keys(active, starts, is_long, ROUND_DECAY, stack.numbers, *_COUNTED)


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
    stack.sizes[key] = tuple(np.array(after.sizes, dtype=np.float32).tolist())
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
    return DriftLog(watch, settled, events, stack.sizes[key])


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
