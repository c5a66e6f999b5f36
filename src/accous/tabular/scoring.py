"""Scores against the labels of a stream: how far the adapted model and the fixed one are off."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.tabular.formats.values import to_texts
from accous.tabular.label_kinds import kind_of

__all__ = ["Scoring"]


class Scoring:
    """Sums up losses; labels are never learned from.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
    label : str
        The column.
    """

    def __init__(self, model: Any, label: str) -> None:
        self._model, self._label, self._kind = model, label, kind_of(model)
        self._of_frame: tuple[pl.DataFrame, NDArray[Any], NDArray[np.bool_], pl.Series] | None = None

    def count(
        self, frame: pl.DataFrame, batch: NDArray[np.float64], answers: NDArray[Any], start: int, stop: int
    ) -> tuple[int, float, float]:
        """Count the rows of a batch with a label, and sum up the losses of the fixed and the adapted model on them.

        A class that the reference does not have counts as an error of both.
        """
        truths, has_label = (each[start:stop] for each in self._labels(frame)[:2])
        fixed = self._kind.fixed_answers(self._model, batch)
        self._last = answers, fixed
        rows = np.flatnonzero(has_label)
        if not len(rows):
            return 0, 0, 0
        losses, losses_fixed = (
            self._kind.losses(self._model, truths[rows], each[rows]).sum().item() for each in (answers, fixed)
        )
        return len(rows), losses_fixed, losses

    def observe(
        self,
        frame: pl.DataFrame,
        batch: NDArray[np.float64],
        scores: NDArray[np.float64],
        start: int,
        stop: int,
        estimated: NDArray[np.float64],
    ) -> None:
        """Add the labels that were just counted to what the model's late labels measure.

        Parameters
        ----------
        frame, batch, start, stop
            As for the last call of `count`.
        scores : array
            Of the batch, as the kind of the label computes them.
        estimated : array of shape (1, 3)
            The estimated error at the time, with its interval.
        """
        _, has_label, texts = self._labels(frame)
        rows = np.flatnonzero(has_label[start:stop])
        if not len(rows):
            return
        intervals = self._kind.intervals(scores)
        predicted, predicted_fixed = (self._kind.predictions(found[rows]) for found in self._last)
        self._model.observe(
            batch[rows],
            self._kind.values(texts[(start + rows).tolist()]),
            predicted=predicted,
            predicted_fixed=predicted_fixed,
            estimated=np.repeat(estimated, len(rows), axis=0),
            intervals=None if intervals is None else intervals[rows],
        )

    def _labels(self, frame: pl.DataFrame) -> tuple[NDArray[Any], NDArray[np.bool_], pl.Series]:
        """Return the true answer of each row, whether it has a label, and the label as text, read once for a frame."""
        if self._of_frame is None or self._of_frame[0] is not frame:
            texts = to_texts(frame[self._label])
            self._of_frame = frame, self._kind.true_answers(texts), texts.is_not_null().to_numpy(), texts
        return self._of_frame[1:]
