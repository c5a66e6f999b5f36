"""Labels that come late: how they are compared with predictions, and how rows join the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray
from accous.diagnostics.labels import JudgedRows, LateLabels, inside_of
from accous.exceptions import DataError, ParameterError
from accous.model.round import AdaptationState
from accous.model.snapshot import Snapshot
from accous.model.tasks import LateTruths
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows, naming_values

# --- Labels that arrive late: what a model measures with them, without learning from them


def judge_late_rows(
    snapshot: Snapshot,
    X: Any,
    rows: Any,
    late: LateTruths,
    *,
    predicted: Any,
    predicted_fixed: Any,
    estimated: Any,
    intervals: Any,
) -> JudgedRows:
    """Compare labels with the predictions of the time, or with those of now; `AdaptiveClassifier.observe` explains."""
    rules, n_rows = snapshot.rules, len(late.is_unseen)
    with one_blas_thread():
        errors = _late_errors(snapshot, snapshot.predictor, rows, late, (predicted, "predicted"))
        fixed = None
        if rows is not None or predicted_fixed is not None:
            given = predicted_fixed, "predicted_fixed"
            fixed = _late_errors(snapshot, rules.fixed.estimator, rows, late, given)
        features = None if rows is None else _kept_features(snapshot, rows, X)
    judged = JudgedRows(
        losses=rules.task.losses(errors),
        losses_fixed=None if fixed is None else rules.task.losses(fixed),
        errors_fixed=fixed,
        is_unseen=late.is_unseen,
        unseen_names=late.unseen_names,
        estimates=_estimates(snapshot, estimated, n_rows),
        features=features,
        one=snapshot.scale.one,
    )
    return judged if intervals is None else replace(judged, is_inside=_inside(snapshot, intervals, late, n_rows))


def _late_errors(
    snapshot: Snapshot, predictor: Any, rows: Any, late: LateTruths, given: tuple[Any, str]
) -> NDArray[Any]:
    predicted, name = given
    if predicted is None:
        with naming_values(rows, snapshot.rules.reference), one_openmp_thread_if_few(count_rows(rows)):
            predicted = np.asarray(predictor.predict(rows))
    return snapshot.rules.task.late_errors(late, predicted, name)


def _inside(snapshot: Snapshot, intervals: Any, late: LateTruths, n_rows: int) -> FloatArray:
    if snapshot.rules.task.kind != "regressor":
        raise ParameterError("intervals are for numbers: a classifier predicts sets.")
    ends = np.asarray(intervals, dtype=np.float64)
    if ends.shape != (n_rows, 2):
        raise DataError(f"intervals must have the shape ({n_rows}, 2), got {ends.shape}.")
    return inside_of(ends, late.values)


def _estimates(snapshot: Snapshot, estimated: Any, n_rows: int) -> FloatArray:
    if estimated is None:
        risk = snapshot.risk
        return np.tile((risk.adapted, risk.adapted_low, risk.adapted_high), (n_rows, 1))
    estimates = np.asarray(estimated, dtype=np.float64)
    if estimates.shape != (n_rows, 3):
        raise DataError(f"estimated must have the shape ({n_rows}, 3), got {estimates.shape}.")
    return estimates


def _kept_features(snapshot: Snapshot, rows: Any, X: Any) -> FloatArray | None:
    """Return the features to keep of labelled rows: those of the ratio, or the rows themselves if it has none."""
    ratio = snapshot.state.ratio
    if getattr(ratio, "reference_features_", None) is not None:
        features: FloatArray = ratio.comparison_features(X)[0]
        return features
    return np.array(rows) if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" else None


def is_before_joining(state: AdaptationState, rounds: Any) -> BoolArray:
    """Return which rows were predicted before rows last joined the reference, given their rounds; NaN: not known."""
    last = 0 if state.joined is None else state.joined.n_rounds
    # In the very round in which rows joined, a row may have been predicted before or since: it counts.
    is_before: BoolArray = np.asarray(rounds, dtype=np.float64) < last
    return is_before


def with_labels(state: AdaptationState, rows: JudgedRows) -> AdaptationState:
    """Return the state after labelled rows that were compared with their predictions."""
    labels = (state.late_labels or LateLabels()).after(rows)
    return replace(state, late_labels=replace(labels, last_row=state.n_rows))


# --- Labelled rows that join the reference later, so that a model recovers when P(y | x) has changed


"""Rows of each class that never leave the reference: leaving rows out of a fit needs that many."""
