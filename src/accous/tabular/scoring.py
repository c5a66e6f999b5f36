"""Scores against the labels of a stream: how often the adapted model and the fixed one are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.tabular.formats.values import to_texts
from accous.tabular.predictions import class_numbers

__all__ = ["Scoring"]


class Scoring:
    """Counts errors; labels are never learned from.

    Parameters
    ----------
    model : AdaptiveClassifier
    label : str
        The column.
    """

    def __init__(self, model: Any, label: str) -> None:
        self._model, self._label = model, label
        self._classes_by_name = {str(value): value for value in model.classes_.tolist()}
        self._numbers = {str(label): number for number, label in enumerate(model.classes_.tolist())}
        self._fixed = model.fixed_.estimator
        self._of_frame: tuple[pl.DataFrame, NDArray[np.int64], pl.Series] | None = None

    def count(
        self, frame: pl.DataFrame, batch: NDArray[np.float64], predicted: NDArray[np.int64], start: int, stop: int
    ) -> tuple[int, int, int]:
        """Count the rows of a batch with a label, and the errors of the fixed and the adapted model on them.

        A label that the reference does not have counts as an error of both.
        """
        labels = self._labels(frame)[0][start:stop]
        is_scored = labels != _NO_LABEL
        found_fixed = class_numbers(self._fixed.decision_function(batch))
        is_wrong_fixed, is_wrong = found_fixed != labels, predicted != labels
        self._last = predicted, found_fixed
        return int(is_scored.sum()), int((is_wrong_fixed & is_scored).sum()), int((is_wrong & is_scored).sum())

    def observe(
        self, frame: pl.DataFrame, batch: NDArray[np.float64], start: int, stop: int, estimated: NDArray[np.float64]
    ) -> None:
        """Add the labels that were just counted to what the model's late labels measure.

        Parameters
        ----------
        frame, batch, start, stop
            As for the last call of `count`.
        estimated : array of shape (1, 3)
            The estimated error at the time, with its interval.
        """
        numbers, texts = self._labels(frame)
        rows = np.flatnonzero(numbers[start:stop] != _NO_LABEL)
        if not len(rows):
            return
        labels = texts[(start + rows).tolist()].to_list()
        values = [self._classes_by_name.get(label, label) for label in labels]
        predicted, predicted_fixed = (self._model.classes_[found[rows]] for found in self._last)
        self._model.observe(
            batch[rows],
            np.array(values, dtype=object),
            predicted=predicted,
            predicted_fixed=predicted_fixed,
            estimated=np.repeat(estimated, len(rows), axis=0),
        )

    def _labels(self, frame: pl.DataFrame) -> tuple[NDArray[np.int64], pl.Series]:
        """Return the number of each row's class and its name, read once for a frame."""
        if self._of_frame is None or self._of_frame[0] is not frame:
            texts = to_texts(frame[self._label])
            numbers = texts.replace_strict(
                list(self._numbers), list(self._numbers.values()), default=_UNKNOWN_LABEL, return_dtype=pl.Int64
            )
            values = np.where(texts.is_null().to_numpy(), _NO_LABEL, numbers.fill_null(_NO_LABEL).to_numpy())
            self._of_frame = frame, values, texts
        return self._of_frame[1:]


_UNKNOWN_LABEL, _NO_LABEL = -1, -2
