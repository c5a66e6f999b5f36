"""Label-free risk, prediction sets and audits over many independent references: a part of ``benchmarks.trust``.

Every reference has its own stream. In a few random rounds after round 100, the model's estimates are compared with the
exact error of the round and with fresh labelled rows of its distribution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.diagnostics.risk import conformal_sets
from accous.streams import ConstantShift, GaussianStream
from accous.threads import one_blas_thread
from benchmarks.problems import SHIFTS, TableProblem

__all__ = ["Setting", "insight_row", "measure_insights", "measure_table_risks", "table_row"]

FIRST_ROUND = 100
TIMES_PER_REFERENCE = 4
FRESH_ROWS = 1000
AUDITED_ROWS = 200
FLIPPED_SHARES = (0.2, 0.4)
LEVEL = 0.9


@dataclass(frozen=True)
class Setting:
    """A kind of stream."""

    shift: str
    n_reference: int = 1000
    batch_size: int = 1
    n_rounds: int = 400
    n_features: int = 12


def insight_row(setting: Setting, found: list[dict[str, float]]) -> dict[str, Any]:
    """Return means and standard deviations over references; each reference counts once."""
    row: dict[str, Any] = dict(vars(setting)) | {"n_references": len(found)}
    for name in found[0]:
        values = np.array([one[name] for one in found])
        row[name] = float(values.mean())
        row[f"{name}_sd"] = float(values.std())
    return row


def measure_insights(setting: Setting, seed: int) -> dict[str, float]:
    """Return means over a few rounds of one stream."""
    stream = GaussianStream(
        SHIFTS[setting.shift],
        n_rounds=setting.n_rounds,
        n_reference=setting.n_reference,
        n_features=setting.n_features,
        batch_size=setting.batch_size,
        random_state=seed,
    )
    rng = np.random.default_rng([seed, 7])
    times = set(rng.choice(np.arange(FIRST_ROUND, setting.n_rounds), TIMES_PER_REFERENCE, replace=False).tolist())
    with one_blas_thread():
        found = list(_look_at(stream, times, seed))
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _look_at(stream: GaussianStream, times: set[int], seed: int) -> Iterator[dict[str, float]]:
    model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
    for batch in stream:
        if batch.round in times:
            yield _risks(model, stream, batch.alpha) | _sets(model, stream, batch.alpha, seed + 10_000 * batch.round)
        model.adapt(batch.X)


def measure_table_risks(table: str, shift: str, n_rounds: int, seed: int) -> dict[str, float]:
    """Return the same for the risks alone, on two pools of a table; the truth is the error outside the reference."""
    problem = TableProblem(table, shift, n_reference=1000, batch_size=1, n_rounds=n_rounds, seed=seed)
    rng = np.random.default_rng([seed, 7])
    times = set(rng.choice(np.arange(FIRST_ROUND, n_rounds), TIMES_PER_REFERENCE, replace=False).tolist())
    found = []
    with one_blas_thread():
        model = AdaptiveClassifier(standardize=False).fit(problem.X, problem.y)
        for number, (batch, alpha) in enumerate(zip(problem.batches(), problem.alphas, strict=True)):
            if number in times:
                found.append(_risks(model, problem, float(alpha)))
            model.adapt(batch)
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def table_row(table: str, shift: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Return means over references."""
    return {
        "table": table,
        "shift": shift,
        "n_references": len(found),
        **{name: float(np.mean([one[name] for one in found])) for name in found[0]},
    }


def _risks(model: Any, problem: Any, alpha: float) -> dict[str, float]:
    risk = model.sampling_risk()
    found = {}
    for name, predictor in (("adapted", model.estimator_), ("fixed", model.fixed_.estimator)):
        first, second = problem.component_risks(predictor)
        true = (1.0 - alpha) * first + alpha * second
        estimate, low, high = (getattr(risk, name + end) for end in ("", "_low", "_high"))
        found[f"{name}_covered"] = float(low <= true <= high)
        found[f"{name}_bias"] = estimate - true
        found[f"{name}_error"] = abs(estimate - true)
        found[f"{name}_half_width"] = 0.5 * (high - low)
    return found


def _sets(model: Any, stream: GaussianStream, alpha: float, seed: int) -> dict[str, float]:
    X, y = _fresh(stream, alpha, seed)
    rows = np.arange(len(y))
    weighted, plain = model.predict_set(X, alpha=1.0 - LEVEL), _unweighted_sets(model, X)
    return {
        "set_covered": float(weighted[rows, y].mean()),
        "set_size": float(weighted.sum(axis=1).mean()),
        "plain_set_covered": float(plain[rows, y].mean()),
        "plain_set_size": float(plain.sum(axis=1).mean()),
        **_audits(model, X[:AUDITED_ROWS], y[:AUDITED_ROWS], seed),
    }


def _audits(model: Any, X: Any, y: Any, seed: int) -> dict[str, float]:
    """Return false alarms on true labels, and alarms when some labels are flipped."""
    same = model.audit(X, y)
    found = {"audit_below_5": float(same.p_value < 0.05), "audit_false_alarm": float(same.concept_changed)}
    uniforms = np.random.default_rng(seed).random(len(y))
    for share in FLIPPED_SHARES:
        flipped = model.audit(X, np.where(uniforms < share, 1 - y, y))
        found[f"audit_alarm_{100 * share:.0f}_flipped"] = float(flipped.concept_changed)
    return found


def _fresh(stream: GaussianStream, alpha: float, seed: int) -> tuple[Any, Any]:
    fresh = replace(stream, shift=ConstantShift(alpha), n_rounds=1, batch_size=FRESH_ROWS, random_state=seed)
    batch = next(iter(fresh))
    return batch.X, batch.y


def _unweighted_sets(model: Any, X: Any) -> Any:
    """Return conformal sets of the fixed model, with the same weight for every reference row."""
    weights = model.base_weight_
    probabilities = model.erm_.cross_fitted_probabilities(weights, model.fixed_.estimator)
    scores = 1.0 - probabilities[np.arange(len(weights)), model.labels_]
    row_scores = 1.0 - model.fixed_.estimator.predict_proba(X)
    return conformal_sets(scores, weights, row_scores, np.ones(len(X)), 1.0 - LEVEL)
