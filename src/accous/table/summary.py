"""The results of a run as plain values, and how well a reference was predicted, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accous.diagnostics.scales import ERROR, LossScale

if TYPE_CHECKING:
    from accous.table.model import TableSnapshot


# --- The results of a run


_OF_STATUS = ("state", "alarm", "metric", "value", "low", "high", "basis", "at_fit", "n_labels", "reasons", "advice")


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
    >>> from accous.diagnostics.scales import ERRORS
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

    Examples
    --------
    >>> no_better_in_words({"accuracy": 0.8, "error_of_constant": 0.2})
    'The model is no better than always predicting the most frequent class.'
    """
    error, of_constant = reference_error(settings), settings.get("error_of_constant")
    if error is None or of_constant is None or error < round(of_constant, 12):
        return ""
    constant = "most frequent class" if scale_of(settings).is_of_classes else "median"
    return f"The model is no better than always predicting the {constant}."
