"""Replays of real streams by the ensemble and the pool side by side, with all that a policy may look at.

Neither the ratio nor the predictor depends on who makes the predictions. So one replay is enough to score any policy
that chooses, round by round, between the fixed and an adapted predictor (`benchmarks.pool_policies`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous import AdaptiveClassifier, backtest
from accous.arrays import FloatArray
from accous.diagnostics.risk import loss_difference
from accous.model.safeguards import choose_guard
from accous.threads import one_blas_thread
from benchmarks.pool_arms import DEFAULT, FALLBACK, Arm
from benchmarks.real_stream_tables import prepare, read_stream

__all__ = ["COUNTERS", "NAMES", "OfArm", "Replay", "replay"]

NAMES = {"ensemble": FALLBACK, "pool": DEFAULT}
# Columns that grow with the rows; every stream leaves them out unless asked to keep them.
COUNTERS = {"elec2": ("date",), "nsl_kdd": ("row",), "bank_marketing": ("row",), "online_shoppers": ("month_no",)}
BATCH_SIZE = 10
ROUNDS_BETWEEN_COVERAGES = 50
UNKNOWN = (float("nan"),) * 3


@dataclass(frozen=True)
class OfArm:
    """What one arm did.

    Attributes
    ----------
    wrong : array of shape (n_rounds,)
        Wrong predictions of the adapted predictor, whether it was held back or not.
    excess, standard_error : arrays of shape (n_rounds,)
        What the latest check before the round had found: the weighted, cross-fitted error of the adapted predictor
        minus that of the fixed one; NaN before the first check.
    unexplained : float
        Residuals of the backtest beyond what sampling explains; NaN without one.
    guard : str
        The guard that follows from the backtest.
    """

    wrong: FloatArray
    excess: FloatArray
    standard_error: FloatArray
    unexplained: float
    guard: str


@dataclass(frozen=True)
class Replay:
    """A stream that both arms followed.

    Attributes
    ----------
    n_rows : array of shape (n_rounds,)
    fixed : array of shape (n_rounds,)
        Wrong predictions of the fixed predictor.
    outside : array of shape (n_rounds,)
        Share of the recent rows outside the reference, from the latest look, every 50 rounds; NaN before the first.
    between : array of shape (n_rounds, 3)
        Pool minus ensemble at the latest check, in units of the standard error of the difference: cross-fitted error
        on the reference under the mean of both weights and under the pool's, and the mean of 1 - p(y) under the pool's.
        NaN before the first check.
    arms : dict of OfArm
    """

    n_rows: FloatArray
    fixed: FloatArray
    outside: FloatArray
    between: FloatArray
    arms: dict[str, OfArm]


def replay(stream: str, n_reference: int = 1000, most_rows: int = 12_000, keeps: tuple[str, ...] = ()) -> Replay:
    """Let both arms predict each batch of ten, then learn from it; only policies see the order of the reference."""
    rows, y = read_stream(stream, most_rows, keeps)
    X = prepare(rows[:n_reference])(rows)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models, evidence = {}, {}
        for name, arm in NAMES.items():
            with arm.switched():
                models[name] = arm.model(0).fit(X[:n_reference], y[:n_reference])
                evidence[name] = backtest(arm.model(0), rows[:n_reference], y[:n_reference], prepare=prepare).evidence
        found = _follow(models, X[n_reference:], y[n_reference:])
    arms = {
        name: OfArm(
            **{key: np.array(values) for key, values in found[name].items()},
            unexplained=float("nan") if known is None else known.fixed.unexplained,
            guard=choose_guard(known, "normal").name,
        )
        for name, known in evidence.items()
    }
    stacked = {key: np.array(values) for key, values in found["both"].items()}
    return Replay(**stacked, arms=arms)


def _follow(models: dict[str, AdaptiveClassifier], X: FloatArray, y: NDArray[Any]) -> dict[str, dict[str, list[Any]]]:
    """Return what is known before each round, and what came out of it."""
    found: dict[str, dict[str, list[Any]]] = {"both": {key: [] for key in ("n_rows", "fixed", "outside", "between")}}
    found |= {name: {key: [] for key in ("wrong", "excess", "standard_error")} for name in models}
    outside = float("nan")
    between: tuple[float, ...] = UNKNOWN
    pool = models["pool"]
    for number, start in enumerate(range(0, len(y), BATCH_SIZE)):
        rows, labels = X[start : start + BATCH_SIZE], y[start : start + BATCH_SIZE]
        if number and number % ROUNDS_BETWEEN_COVERAGES == 0:
            outside = pool.coverage_.share_outside
        before = pool.state_.fallback.veto.n_rounds
        _append(found["both"], (len(labels), (pool.predict_fixed(rows) != labels).sum(), outside, between))
        for name, model in models.items():
            veto, wrong = model.state_.fallback.veto, (model.state_.estimator.predict(rows) != labels).sum()
            _append(found[name], (wrong, veto.excess, veto.standard_error))
            _adapt(NAMES[name], model, rows)
        if pool.state_.fallback.veto.n_rounds != before:
            between = _compare(models)
    return found


def _adapt(arm: Arm, model: AdaptiveClassifier, rows: FloatArray) -> None:
    with arm.switched():
        model.adapt(rows)


def _append(lists: dict[str, list[Any]], values: tuple[Any, ...]) -> None:
    for each, value in zip(lists.values(), values, strict=True):
        each.append(value)


def _compare(models: dict[str, AdaptiveClassifier]) -> tuple[float, ...]:
    """Return the standardised differences between the arms' cross-fitted losses."""
    states = {name: model.state_ for name, model in models.items()}
    rules = models["pool"].rules_
    errors, losses = {}, {}
    for name, state in states.items():
        answers = rules.erm.cross_fitted(state.fitted_weights, state.estimator, is_quick=True)
        loss = rules.task.losses_of_fit(rules.erm, state.fitted_weights, state.estimator)
        if answers is None or loss is None:
            return UNKNOWN
        losses[name] = loss
        errors[name] = rules.task.losses(rules.task.errors(answers))
    weights = states["pool"].weights
    mean = 0.5 * (weights + states["ensemble"].weights)
    scores = []
    for found, by in ((errors, mean), (errors, weights), (losses, weights)):
        difference, standard_error = loss_difference(found["pool"], found["ensemble"], by)
        scores.append(difference / max(standard_error, 1e-12))
    return tuple(scores)
