"""What follows a round of keys: refits and watching."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.kernels_keys import N_SHOWN, SHARE_STEPS, count_rows_of_keys, sample_shares, weigh_keys
from accous.core.many_keys import N_EVENT_COLUMNS, KeyStack, Number, look_back, slots_of
from accous.diagnostics.drift import ROUNDS_BETWEEN_LOOKS, DriftEvent, DriftLog, main_columns, shares
from accous.keyed.shared import KeyEvent, SharedModel
from accous.model.predictors import LinearPredictor
from accous.model.round import SMALLEST_SHIFT, check_fit, is_check_due, refit_limit
from accous.model.safeguards import FIRST_STRENGTH, Check, Fit, Veto, shrink
from accous.model.watching import LOOK_DECAY, ROUND_DECAY, parts_of_coef
from accous.threads import one_blas_thread

# --- The predictor of each key after a round: refit if its weights have moved, and compare with the fixed one
#     if due


def start_fits(shared: SharedModel, stack: KeyStack, keys: IntArray) -> None:
    """Write the state before the first round for some keys of a stack of zeros."""
    numbers = stack.numbers
    numbers[Number.IS_HELD, keys] = float(shared.rules.guard.starts_held)
    numbers[Number.VETO_EXCESS, keys] = numbers[Number.VETO_ERROR, keys] = np.nan
    numbers[Number.STRENGTH, keys] = FIRST_STRENGTH
    numbers[Number.EFFECTIVE_ROWS, keys] = np.nan
    numbers[Number.SHARE, keys] = 0.0 if shared.rules.has_fallback else 1.0


def update_fits(shared: SharedModel, stack: KeyStack, active: IntArray, pooled: FloatArray) -> None:
    """Weigh the reference of each active key by its pooled ratio; refit and compare where it is due."""
    rules, numbers = shared.rules, stack.numbers
    weights, shown = np.empty(pooled.shape), np.empty((len(active), N_SHOWN))
    strengths = numbers[Number.STRENGTH] if rules.has_fallback else np.zeros(numbers.shape[1])
    weigh_keys(
        active,
        rules.base_weight,
        pooled,
        shared.max_ratio,
        strengths,
        shared.sample,
        stack.fitted,
        weights,
        shown,
    )
    n_rows = shared.shape.n_reference
    # Plain numbers: with few keys this takes less time than a dozen calls of numpy, with many not much more.
    for place, (key, (distance, n_effective, n_shrunk, moved)) in enumerate(
        zip(active.tolist(), shown.tolist(), strict=True)
    ):
        numbers[Number.EFFECTIVE_ROWS, key] = n_effective
        share = _share_in_use(stack, key, distance) if rules.has_fallback else 1.0
        numbers[Number.SHARE, key] = share
        if share == 0.0:
            _fall_back(shared, stack, key)
            continue
        is_due = _is_refit_due(shared, stack, key, n_shrunk / n_rows, moved)
        # Without a refit since the last comparison there is nothing to compare.
        if is_due or (rules.has_fallback and numbers[Number.N_REFITS, key] > numbers[Number.VETO_REFITS, key]):
            _fit_and_check(shared, stack, key, weights[place], is_due=is_due)


def _share_in_use(stack: KeyStack, key: int, distance: float) -> float:
    """Return how far the ratio counts: 0 if the weights say that there is nothing to adapt to."""
    if distance < SMALLEST_SHIFT:
        return 0.0
    hold, (filters, cautious) = float(stack.holds[key]), stack.filters
    share = 1.0 - float(filters[-1][key, 0])
    return share if hold == 0.0 else (1.0 - hold) * share + hold * (1.0 - float(cautious[-1][key, 0]))


def _fall_back(shared: SharedModel, stack: KeyStack, key: int) -> None:
    """Put the fixed predictor in the place of the adapted one: there is nothing to adapt to."""
    numbers = stack.numbers[:, key]
    stack.is_moved[key] = stack.is_checked[key] = False
    stack.fitted[key] = shared.base_shares[0]
    numbers[Number.IS_HELD] = shared.rules.guard.holds(0.0, 0.0)
    numbers[Number.VETO_EXCESS] = numbers[Number.VETO_ERROR] = 0.0
    numbers[Number.VETO_ROUND], numbers[Number.VETO_REFITS] = numbers[Number.N_ROUNDS], numbers[Number.N_REFITS]


def _is_refit_due(shared: SharedModel, stack: KeyStack, key: int, effective_share: float, moved: float) -> bool:
    refit = shared.rules.refit
    if isinstance(refit, str):
        return refit == "always" or moved > float(refit_limit(shared.rules.erm, effective_share))
    return bool(stack.numbers[Number.N_ROUNDS, key] - stack.numbers[Number.LAST_REFIT, key] >= int(refit))


def _fit_and_check(shared: SharedModel, stack: KeyStack, key: int, weights: FloatArray, *, is_due: bool) -> None:
    rules, numbers = shared.rules, stack.numbers[:, key].tolist()
    this_round, strength = int(numbers[Number.N_ROUNDS]), numbers[Number.STRENGTH]
    latest = LinearPredictor.of_coefs(stack.predictors[key].copy(), shared.classes)
    estimator = latest if stack.is_moved[key] else shared.fixed
    fit = Fit(estimator, weights, int(numbers[Number.N_REFITS]), int(numbers[Number.LAST_REFIT]))
    if is_due:
        shrunk = shrink(weights, rules.base_weight, strength) if rules.has_fallback else weights
        fit = Fit(rules.erm.fit(shrunk, estimator), shrunk, fit.n_refits + 1, this_round)
    check = _check_of(stack, key, numbers)
    sampled = weights[shared.sample]
    if rules.has_fallback and is_check_due(check, rules.erm, this_round, fit.n_refits, sampled):
        if not is_due:
            # The weights of the last fit are not kept. Those of now are as near as the refit rule allows.
            fit = fit._replace(weights=shrink(weights, rules.base_weight, strength))
        with one_blas_thread():
            fit, check = check_fit(rules, fit, strength, weights, this_round)
        _write_check(shared, stack, key, check)
    if fit.last_refit == this_round:
        stack.is_moved[key] = True
        stack.predictors[key] = fit.estimator.coefs
        sample_shares(key, np.ascontiguousarray(fit.weights), shared.sample, stack.fitted)
    stack.numbers[Number.N_REFITS, key], stack.numbers[Number.LAST_REFIT, key] = fit.n_refits, fit.last_refit


def _check_of(stack: KeyStack, key: int, numbers: list[float]) -> Check:
    veto = Veto(
        bool(numbers[Number.IS_HELD]),
        numbers[Number.VETO_EXCESS],
        numbers[Number.VETO_ERROR],
        int(numbers[Number.VETO_ROUND]),
        int(numbers[Number.VETO_REFITS]),
    )
    shares = stack.checked[key] / SHARE_STEPS if stack.is_checked[key] else None
    return Check(veto, numbers[Number.STRENGTH], shares)


def _write_check(shared: SharedModel, stack: KeyStack, key: int, check: Check) -> None:
    numbers, veto = stack.numbers[:, key], check.veto
    numbers[Number.IS_HELD], numbers[Number.STRENGTH] = float(veto.is_held), check.strength
    numbers[Number.VETO_EXCESS], numbers[Number.VETO_ERROR] = veto.excess, veto.standard_error
    numbers[Number.VETO_ROUND], numbers[Number.VETO_REFITS] = veto.n_rounds, veto.n_refits
    assert check.weights is not None
    stack.is_checked[key] = True
    sample_shares(key, np.ascontiguousarray(check.weights), shared.sample, stack.checked)


# --- What the rounds of each key show about its inputs: rows out of bound, columns that moved, changes as
#     events


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
