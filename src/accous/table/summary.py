"""Everything that `accous inspect` and the report know of a model, as plain values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accous.diagnostics.messages import ERROR, LossScale

if TYPE_CHECKING:
    from accous.diagnostics.drift import Regime
    from accous.diagnostics.labels import MeasuredError
    from accous.table.model import TableSnapshot


# --- The summary of a table model: written with the last save of a run, and shown without loading the model


# Goes up when the record below changes: one of another version is not read, but computed anew from the model.
_VERSION = 15
_OF_STATUS = ("state", "alarm", "metric", "value", "low", "high", "basis", "at_fit", "n_labels", "reasons", "advice")


def summarize_table_model(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return the state of a model and the lines about its columns, ready for JSON.

    The result depends only on what is saved, not on interruptions. Computing it costs as much as several rounds.
    """
    from accous.table.columns import shown_lines

    return {"version": _VERSION, "state": _state(snapshot), "columns": shown_lines(snapshot.encoder.plans)}


def summarize_run(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return the results of a run, ready for JSON."""
    job = snapshot.job
    assert job is not None
    found = snapshot.to_json()
    return {
        "stream": job.spec.stream,
        "output": job.spec.output,
        "key": job.spec.options.get("key") or None,
        "finished": job.is_finished,
        "rows": job.n_rows,
        "rounds": job.n_rounds,
        "rejected": job.n_rejected,
        "missing_values": job.n_missing,
        "unknown_categories": job.n_unknown,
        "unknown_by_column": dict(job.unknown_in),
        "labelled_rows": job.n_scored,
        "error_fixed": job.n_wrong_fixed / job.n_scored if job.n_scored else None,
        "error": job.n_wrong / job.n_scored if job.n_scored else None,
        **{name: found[name] for name in _OF_STATUS},
    }


def summarize_labels(measured: MeasuredError | None) -> dict[str, Any]:
    """Return what late labels have measured, ready for JSON; null where that is not known."""
    if measured is None:
        names = tuple(
            f"measured_error{end}"
            for end in ("", "_low", "_high", "_plain", "_plain_rows", "_latest", "_moves", "_fixed")
        )
        words = ("labels_contradict", "labels_inside", "labels_off", "labels_outdated", "concept_changed")
        unknown = dict.fromkeys((*names, "labels_estimate_known", *words))
        return {"labelled_rows": 0, **unknown, "unseen_classes": {}}
    return {
        "labelled_rows": measured.n_labelled,
        "measured_error": measured.error,
        "measured_error_low": measured.error_low,
        "measured_error_high": measured.error_high,
        "measured_error_plain": _finite(measured.error_plain),
        "measured_error_plain_rows": measured.n_plain,
        "measured_error_latest": _finite(measured.latest.error),
        "measured_error_moves": measured.latest.is_apart if measured.latest.n_rows else None,
        "measured_error_fixed": _finite(measured.error_fixed),
        "labels_estimate_known": None if _finite(measured.estimated) is None else measured.is_estimate_known,
        "labels_contradict": _contradiction(measured),
        "labels_inside": None if _finite(measured.estimated) is None else measured.is_inside,
        "labels_off": None if _finite(measured.estimated) is None else measured.is_exact and measured.is_off,
        "labels_outdated": measured.is_outdated,
        "concept_changed": measured.concept_changed,
        "unseen_classes": measured.unseen_classes,
    }


def _contradiction(measured: MeasuredError) -> bool | None:
    """Whether labels contradict the estimate; None without an estimate, or if both are of earlier predictors."""
    return None if _finite(measured.estimated) is None or measured.is_outdated else measured.contradicts


def _state(snapshot: TableSnapshot) -> dict[str, Any]:
    return {
        **_reference_of(snapshot),
        **_rounds_of(snapshot),
        **_trust_of(snapshot),
        **summarize_labels(snapshot.measured),
        "intervals": _intervals(snapshot),
        "last_run": None if snapshot.job is None else summarize_run(snapshot),
    }


def _intervals(snapshot: TableSnapshot) -> dict[str, Any] | None:
    """Return how far prediction intervals can be relied on; None if classes are predicted."""
    from accous.diagnostics.labels import ALPHA, NO_INTERVALS, doubt_about_intervals

    measured = snapshot.measured
    if snapshot.rules.task.kind != "regressor":
        return None
    found = NO_INTERVALS if measured is None else measured.intervals
    return {
        "promised": 1.0 - ALPHA,
        "labelled_rows": found.n_rows,
        "share_inside": _finite(found.share),
        "sentence": doubt_about_intervals(measured, snapshot.trust),
    }


def _reference_of(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return what the model was fitted on."""
    from accous.table.kinds import kind_of

    settings, rules = snapshot.settings, snapshot.rules
    return {
        "reference": settings["reference"],
        "reference_rows": len(snapshot.state.weights),
        "joined_rows": settings.get("n_joined", 0),
        "label": snapshot.label,
        "task": settings.get("task", "classification"),
        "classes": kind_of(rules.task).names,
        "loss": rules.task.loss_name,
        "columns": snapshot.encoder.used_columns,
        "features": len(snapshot.encoder.feature_names),
        "ratio": settings["ratio"],
        "estimator": settings.get("estimator", "linear"),
        "reference_accuracy": settings.get("accuracy"),
        "reference_error": settings.get("error"),
        "reference_error_of_constant": settings.get("error_of_constant"),
        "reference_ordered": bool(settings.get("order", {"by": None})["by"]),
        "backtest": None if rules.verification.backtest is None else rules.verification.backtest.summary(),
    }


def _rounds_of(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return what the rounds have learned, and the error that is estimated from it."""
    state, risk, learners = snapshot.state, snapshot.risk, {}
    if hasattr(state.ratio, "learner_lengths_"):
        weights = zip(state.ratio.learner_lengths_.tolist(), state.ratio.learner_weights_.tolist(), strict=True)
        learners = {str(length): weight for length, weight in weights}
    return {
        "rounds": state.n_rounds,
        "refits": state.n_refits,
        "effective_sample_size": snapshot.effective_sample_size,
        "largest_weight": float(state.weights.max()),
        "estimated_error": _finite(risk.adapted),
        "estimated_error_low": _finite(risk.adapted_low),
        "estimated_error_high": _finite(risk.adapted_high),
        "estimated_error_known": risk.is_known,
        "estimated_error_covered": risk.is_covered,
        "estimated_error_age": risk.age,
        "out_of_reference_rows": int(getattr(state.ratio, "n_out_of_bound_", 0)),
        "share_out_of_bound": _finite(state.watch.share_out_of_bound),
        "last_drift_round": snapshot.last_drift_round,
        "regimes": [_regime_of(each) for each in snapshot.regimes],
        "weight_of_interval_length": learners,
    }


def _regime_of(regime: Regime) -> dict[str, Any]:
    visits, columns = [list(visit) for visit in regime.visits], list(regime.features)
    return {"visits": visits, "columns": columns, "current": regime.is_current}


def _trust_of(snapshot: TableSnapshot) -> dict[str, Any]:
    """Return the three answers, and what they rest on."""
    trust, coverage, guard = snapshot.trust, snapshot.coverage, snapshot.rules.guard
    return {
        "trust": trust.verdict,
        "trust_reason": trust.reason,
        "contradicted_by": trust.contradicted_by or None,
        "trust_inputs": trust.inputs.answer,
        "trust_adaptation": trust.adaptation.answer,
        "trust_predictions": trust.predictions.answer,
        "sentences": trust.sentences,
        "guard": guard.name,
        "guard_reason": guard.sentence,
        "share_outside": _finite(coverage.share_outside),
        "drift_strength": _finite(coverage.drift_strength),
        "findings": coverage.sentences,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# --- How well held-out rows of the reference were predicted, and how they were held out, in words


TOO_FEW_ROWS = "unknown, the reference has too few rows to cross-validate"
_IN_BLOCKS, _IN_FOLDS = "in blocks of time, each predicted by a fit on all rows before it", "cross-validated"


def held_out_in_words(*, is_ordered: bool) -> str:
    """Return how rows of the reference were held out."""
    return _IN_BLOCKS if is_ordered else _IN_FOLDS


def predictors_in_words(predictors: dict[str, Any], scale: LossScale) -> str:
    """Return weights and held-out errors of the predictors that predict together.

    Examples
    --------
    >>> from accous.diagnostics.messages import ERRORS
    >>> found = {"linear": {"weight": 0.25, "error": 0.12}, "boosting": {"weight": 0.75, "error": 0.09}}
    >>> predictors_in_words(found | {"together": {"error": 0.08}}, ERRORS)
    'linear (weight 0.25, error 12.0%) and boosting (weight 0.75, error 9.0%), together 8.0%'
    """

    def shown(error: float | None) -> str:
        return "not known" if error is None else scale.shown(error)

    parts = [
        f"{name} (weight {predictors[name]['weight']:.2f}, {scale.name} {shown(predictors[name]['error'])})"
        for name in ("linear", "boosting")
    ]
    return f"{' and '.join(parts)}, together {shown(predictors['together']['error'])}"


def scale_of(settings: dict[str, Any]) -> LossScale:
    """Return how errors on the reference are written, given the settings of a model."""
    return LossScale("absolute" if "error" in settings else ERROR)


def reference_error(settings: dict[str, Any]) -> float | None:
    """Return the error on held-out rows of the reference, of classes or numbers; None if it is unknown."""
    if "error" in settings:
        error: float | None = settings["error"]
        return error
    accuracy = settings["accuracy"]
    # Rounded: 1 - (1 - 0.1) lies below 0.1, and an error that equals a constant's must not look smaller.
    return None if accuracy is None else round(1.0 - accuracy, 12)


def no_better_in_words(settings: dict[str, Any]) -> str:
    """Say that a constant predicts held-out rows as well as the model; empty if it does not, or that is not known.

    Rows that join later make another model, of which the errors of the fit say nothing.

    Examples
    --------
    >>> no_better_in_words({"accuracy": 0.8, "error_of_constant": 0.2})
    'The model is no better than always predicting the most frequent class.'
    """
    error, of_constant = reference_error(settings), settings.get("error_of_constant")
    if error is None or of_constant is None or settings.get("n_joined") or error < round(of_constant, 12):
        return ""
    constant = "most frequent class" if scale_of(settings).is_of_classes else "median"
    return f"The model is no better than always predicting the {constant}."
