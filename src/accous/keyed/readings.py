"""What can be said of a key from its state: verdict, estimated error, effective rows, and what changed since when.

Everything is computed from the state when you ask for it, as `accous.AdaptiveClassifier` computes it; a key keeps no
recent rows, so nothing is known of how the reference covers them beyond the share out of bound.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.core.many_keys import N_EVENT_COLUMNS, KeyStack, Number
from accous.diagnostics.evidence import NO_EVIDENCE, Evidence
from accous.diagnostics.losses import loss_interval, weight_distance
from accous.diagnostics.risk import widen
from accous.diagnostics.trust import Checks, WeightEvidence, judge
from accous.keyed.shared import SharedModel
from accous.model.predictors import LinearPredictor
from accous.model.safeguards import compare, shrink
from accous.threads import one_blas_thread

__all__ = ["KeyReading", "read_key"]

_NO_LEARNERS = np.empty((0, 0)), np.empty(0)


class KeyReading(NamedTuple):
    """What is known of one key.

    Attributes
    ----------
    key : object
    rounds, rows, late_rows : int
        Rounds played, rows learned from, and rows that came too late.
    time : float
        The newest time; NaN without times.
    verdict : str
        See `accous.diagnostics.trust`.
    reason : str
    estimated_error, estimated_error_low, estimated_error_high : float
        Of the model in use, without labels.
    fixed_error : float
        Estimate for the model that never adapts.
    effective_rows : float
        Effective rows of the reference.
    drift : float
        Total variation of the weights from the base weights, in [0, 1].
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
    verdict: str
    reason: str
    estimated_error: float
    estimated_error_low: float
    estimated_error_high: float
    fixed_error: float
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
    numbers, rules = stack.numbers[:, key], shared.rules
    ratios, weights = _weights(shared, stack, key)
    is_held, is_moved = bool(numbers[Number.IS_HELD]), bool(stack.is_moved[key])
    predictor = LinearPredictor.of_coefs(stack.predictors[key].copy(), shared.classes) if is_moved else shared.fixed
    fitted = shrink(weights, rules.base_weight, float(numbers[Number.STRENGTH])) if is_moved else rules.base_weight
    with one_blas_thread():
        fixed_errors = rules.fixed.errors()
        errors = fixed_errors
        if is_moved and not is_held:
            answers = rules.erm.cross_fitted(fitted, predictor)
            errors = None if answers is None else rules.task.errors(answers)
        excess = (0.0, 0.0)
        if is_moved:
            quick = rules.erm.cross_fitted(fitted, predictor, is_quick=True)
            excess = compare(rules.fixed, rules.task, weights, quick)
    in_use, fixed = (_interval(shared, each, weights, is_held=is_held) for each in (errors, fixed_errors))
    n_recent = float(numbers[Number.N_RECENT])
    trust = judge(
        WeightEvidence.of(weights, np.minimum(ratios, shared.max_ratio), rules.base_weight, shared.max_ratio),
        share_out_of_bound=float(numbers[Number.N_RECENT_OUT]) / n_recent if n_recent else 0.0,
        exponent=float(numbers[Number.SHARE]),
        is_vetoed=is_held,
        excess=excess,
        scale=rules.fixed.scale,
        guard=rules.guard.sentence,
        interval=in_use,
        checks=Checks(evidence=_evidence(shared), unverified=shared.model.unverified_),
    )
    columns = numbers[Number.EVENT_COLUMNS : Number.EVENT_COLUMNS + N_EVENT_COLUMNS]
    return KeyReading(
        key=name,
        rounds=int(numbers[Number.N_ROUNDS]),
        rows=int(numbers[Number.N_ROWS]),
        late_rows=int(numbers[Number.N_LATE]),
        time=float(numbers[Number.NEWEST_TIME]),
        verdict=trust.verdict,
        reason=trust.reason,
        estimated_error=in_use[0],
        estimated_error_low=in_use[1],
        estimated_error_high=in_use[2],
        fixed_error=fixed[0],
        effective_rows=trust.effective_sample_size,
        drift=weight_distance(weights, rules.base_weight),
        is_adapted=is_moved and not is_held,
        changes=int(numbers[Number.N_EVENTS]),
        since_round=int(numbers[Number.EVENT_ROUND]),
        since_time=float(numbers[Number.EVENT_TIME]) if numbers[Number.EVENT_ROUND] else math.nan,
        is_moving=bool(numbers[Number.EVENT_ROUND]) and math.isnan(numbers[Number.EVENT_ROUNDS]),
        columns=tuple(rules.names[int(column) - 1] for column in columns if column),
    )


def _evidence(shared: SharedModel) -> Evidence | None:
    return None if shared.model.backtest_ is None else shared.model.backtest_.evidence


def _weights(shared: SharedModel, stack: KeyStack, key: int) -> tuple[FloatArray, FloatArray]:
    """Return the ratios of the reference at a key's theta, and the weights in use."""
    active = np.array([key])
    means = stack.parts["means"][key].copy()
    padded = shared.rounds.ratios(stack, active)
    pooled = np.minimum(shared.rounds.pool(stack, active, padded)[0], shared.max_ratio)
    stack.parts["means"][key] = means
    base = shared.rules.base_weight
    weights = base * pooled
    return padded[0, : shared.shape.n_reference], weights * (base.sum() / weights.sum())


def _interval(shared: SharedModel, errors: Any, weights: FloatArray, *, is_held: bool) -> tuple[float, float, float]:
    if errors is None:
        return (math.nan,) * 3
    task, evidence = shared.rules.task, _evidence(shared) or NO_EVIDENCE
    n_coefs, scale = shared.rules.erm.n_coefs, shared.rules.fixed.scale
    interval = loss_interval(task.losses(errors), weights, *_NO_LEARNERS, n_coefs)
    residuals = evidence.fixed if is_held else evidence.adapted
    return widen(interval, residuals, drift=math.nan, seen_drift=evidence.drift, disagreement=math.nan, scale=scale)
