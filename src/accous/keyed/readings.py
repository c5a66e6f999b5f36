"""What can be said of a key from its state: how good the model is there, and what changed since when.

Everything is computed from the state when you ask for it. A key keeps no recent rows: held-out rows of the reference
stand for them, as often as the key's weights say.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.core.many_keys import N_EVENT_COLUMNS, KeyStack, Number
from accous.diagnostics.losses import effective_sample_size
from accous.diagnostics.performance import Estimate, Predictions, expected
from accous.diagnostics.status import Finding, History, Reason, Status, judge
from accous.keyed.shared import SharedModel
from accous.model.performance import estimate_to_json, status_to_json
from accous.model.predictors import LinearPredictor
from accous.threads import one_blas_thread

__all__ = ["KeyReading", "read_key"]

_N_ROWS = 500
_MANY_OUTSIDE = 0.2


class KeyReading(NamedTuple):
    """What is known of one key, by the names of ``accous status --json``.

    Attributes
    ----------
    key : object
    rounds, rows, late_rows : int
        Rounds played, rows learned from, and rows that came too late.
    time : float
        The newest time; NaN without times.
    state : {"healthy", "degraded", "uncertain"}
    metric : str
    value, low, high : float or None
        What the metric is of the model in use, if labels still follow from inputs as they did.
    basis : str
        "expected": a key has no labels.
    at_fit : float or None
        The same metric on held-out rows of the reference.
    reasons : list of dict
        Each with ``code``, ``number`` and ``text``; the first one decided the state.
    advice : dict
        With ``code``, ``n``, ``command`` and ``text``.
    effective_rows : float
        Effective rows of the reference.
    drift : float
        How well the weights tell the key's rows from the reference, twice the area under the curve minus 1, or the
        share of rows out of bound if that is more; in [0, 1].
    is_adapted : bool
        Whether an adapted model predicts.
    changes : int
        Changes of the inputs so far.
    since_round, since_time : int and float
        When the last of them was noticed; 0 and NaN if there was none.
    is_moving : bool
        Whether it is still going on.
    columns : tuple of str
        The columns that carry half of it.
    """

    key: Any
    rounds: int
    rows: int
    late_rows: int
    time: float
    state: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    basis: str
    at_fit: float | None
    reasons: list[dict[str, Any]]
    advice: dict[str, Any]
    effective_rows: float
    drift: float
    is_adapted: bool
    changes: int
    since_round: int
    since_time: float
    is_moving: bool
    columns: tuple[str, ...]


def read_key(shared: SharedModel, stack: KeyStack, key: int, name: Any) -> KeyReading:
    """Return what is known of a key of a stack."""
    numbers, weights = stack.numbers[:, key], _weights(shared, stack, key)
    is_adapted = bool(stack.is_moved[key]) and not numbers[Number.IS_HELD]
    adapted = shared.predictor(stack.predictors[key]) if is_adapted else None
    outside = float(numbers[Number.N_RECENT_OUT]) / max(1.0, float(numbers[Number.N_RECENT]))
    drift = max(outside, drift_of(weights, shared.rules.base_weight))
    with one_blas_thread():
        now = _expected(shared, weights, adapted)
        said = status_to_json(_judge(shared, now, drift, outside))
    columns = numbers[Number.EVENT_COLUMNS : Number.EVENT_COLUMNS + N_EVENT_COLUMNS]
    return KeyReading(
        key=name,
        rounds=int(numbers[Number.N_ROUNDS]),
        rows=int(numbers[Number.N_ROWS]),
        late_rows=int(numbers[Number.N_LATE]),
        time=float(numbers[Number.NEWEST_TIME]),
        metric=now.metric,
        **estimate_to_json(now),
        **{each: said[each] for each in ("state", "reasons", "advice")},
        effective_rows=effective_sample_size(weights),
        drift=drift,
        is_adapted=is_adapted,
        changes=int(numbers[Number.N_EVENTS]),
        since_round=int(numbers[Number.EVENT_ROUND]),
        since_time=float(numbers[Number.EVENT_TIME]) if numbers[Number.EVENT_ROUND] else math.nan,
        is_moving=bool(numbers[Number.EVENT_ROUND]) and math.isnan(numbers[Number.EVENT_ROUNDS]),
        columns=tuple(shared.rules.names[int(column) - 1] for column in columns if column),
    )


def _weights(shared: SharedModel, stack: KeyStack, key: int) -> FloatArray:
    """Return the weights of the reference at a key's theta."""
    active = np.array([key])
    means = stack.parts["means"][key].copy()
    pooled = np.minimum(
        shared.rounds.pool(stack.arrays, active, shared.rounds.ratios(stack.arrays, active))[0], shared.max_ratio
    )
    stack.parts["means"][key] = means
    base = shared.rules.base_weight
    weights = base * pooled
    return np.asarray(weights * (base.sum() / weights.sum()))


def drift_of(weights: FloatArray, base: FloatArray) -> float:
    """Return twice the area under the curve minus 1 when the ratio tells weighted rows from those of the reference.

    That is the unit of `accous.diagnostics.drift.drift_strength`, without recent rows.

    Examples
    --------
    >>> import numpy as np
    >>> drift_of(np.ones(4), np.ones(4)), drift_of(np.array([0.0, 0.0, 2.0, 2.0]), np.ones(4))
    (0.0, 0.5)
    """
    order = np.argsort(weights / base, kind="stable")
    before, now = base[order] / base.sum(), weights[order] / weights.sum()
    return max(0.0, 2.0 * float(now @ (np.cumsum(before) - 0.5 * before)) - 1.0)


def _expected(shared: SharedModel, weights: FloatArray, adapted: LinearPredictor | None) -> Estimate:
    """Return what is expected of the model in use on held-out rows, weighted as the key's inputs are."""
    rules = shared.rules
    metric, held, calibration = rules.measures.metric, rules.held_out.predictions, rules.held_out.calibration
    if held is None or calibration is None:
        return Estimate(metric.name, math.nan, math.nan, math.nan, "expected", math.nan, 0)
    shares = np.cumsum(weights[held.rows])
    places = shares[-1] * (np.arange(_N_ROWS) + 0.5) / _N_ROWS
    chosen = np.minimum(np.searchsorted(shares, places), len(shares) - 1)
    recent: Predictions = calibration.held_out[chosen]
    if adapted is not None:
        recent = rules.measures.made_by(adapted, rules.reference[held.rows[chosen]])
    return expected(metric, calibration, recent)


def _judge(shared: SharedModel, now: Estimate, drift: float, outside: float) -> Status:
    rules = shared.rules
    metric, held = rules.measures.metric, rules.held_out
    history = History(False, np.zeros(0), math.nan)
    if held.calibration is not None:
        history = held.history(metric, rules.cover)
    tolerance = rules.measures.tolerated(metric, now.at_fit, math.nan)
    also = (Reason(Finding.FEW_INSIDE, outside),) if outside >= _MANY_OUTSIDE else ()
    return judge(metric, now, history, drift, tolerance=tolerance, also=also)
