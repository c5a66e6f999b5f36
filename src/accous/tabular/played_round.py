"""One round on encoded rows: what it found, and how the model predicts the rows and learns from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accous.model.estimators import AdaptiveModel
from accous.tabular.label_kinds import LabelKind

__all__ = ["NO_COUNTS", "PlayedRound", "predict_and_adapt", "ratios_of"]

NO_COUNTS = (0, 0, 0)


@dataclass(frozen=True)
class PlayedRound:
    """The result of one round.

    Attributes
    ----------
    number : int
        Rounds that the model has learned from, this one included.
    scores : array of shape (n_rows,) or (n_rows, n_scores)
        What the kind of the label computes for each row; see `accous.tabular.label_kinds`.
    ratios : array of shape (n_rows,)
    counts : tuple of float
        Rows with a label, and the sums of the losses of the fixed model and of the adapted one on them: for classes,
        their errors.
    """

    number: int
    scores: NDArray[np.float64]
    ratios: NDArray[np.float64]
    counts: tuple[int, float, float]


def predict_and_adapt(
    model: AdaptiveModel, kind: LabelKind, X: NDArray[np.float64], *, learns_first: bool, needs_ratio: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Play a round of the model; return the scores and the ratios of its rows, NaN if those are not needed."""
    if learns_first:
        model.adapt(X)
        return kind.scores(model, X), ratios_of(model, X, needs_ratio=needs_ratio)
    # A pool judges the rows before it learns from them: their ratios cost next to nothing then.
    is_kept = needs_ratio and model.ratio_.is_pooled
    scores = kind.scores(model, X)
    ratios = ratios_of(model, X, needs_ratio=needs_ratio and not is_kept)
    model.adapt(X)
    return scores, model.ratio_.batch_ratio() if is_kept else ratios


def ratios_of(model: AdaptiveModel, X: NDArray[np.float64], *, needs_ratio: bool) -> NDArray[np.float64]:
    """Return the ratios of rows, or NaN if they are not needed."""
    return model.ratio_.predict_ratio(X) if needs_ratio else np.full(len(X), np.nan)
