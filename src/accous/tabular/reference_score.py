"""How well held-out rows of the reference were predicted, and how they were held out, in words.

With an order in time this is not the error of the backtest, whose models are fitted once and get no labels afterwards.
"""

from __future__ import annotations

from typing import Any

from accous.diagnostics.losses import ERROR, LossScale

__all__ = ["TOO_FEW_ROWS", "held_out_in_words", "no_better_in_words", "reference_error", "scale_of"]

TOO_FEW_ROWS = "unknown, the reference has too few rows to cross-validate"
_IN_BLOCKS, _IN_FOLDS = "in blocks of time, each predicted by a fit on all rows before it", "cross-validated"


def held_out_in_words(*, is_ordered: bool) -> str:
    """Return how rows of the reference were held out."""
    return _IN_BLOCKS if is_ordered else _IN_FOLDS


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
