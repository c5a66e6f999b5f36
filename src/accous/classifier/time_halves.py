"""Predictors of the halves of a reference in order of time, and how often they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.erm import LogisticErm
from accous.classifier.foreign_erm import ForeignErm

__all__ = ["ReferenceParts", "TimeHalves"]


@dataclass(frozen=True)
class ReferenceParts:
    """A reference, and how a predictor is fitted on a part of its rows.

    Attributes
    ----------
    X : array or frame
        As the predictor reads it.
    labels : array of shape (n_rows,)
        Numbers of the classes.
    classes : array
    weights : array of shape (n_rows,)
        Base weights.
    estimator : classifier, optional
        The user's; None is the built-in regression, with ``C`` and ``scales``.
    C : float
    scales : array of shape (n_features,), optional
    """

    X: Any
    labels: IntArray
    classes: NDArray[Any]
    weights: FloatArray
    estimator: Any = None
    C: float = 1.0
    scales: FloatArray | None = None

    def fit(self, rows: IntArray) -> Any:
        """Fit on some rows, with the classes that they have; one class alone is predicted always."""
        numbers, part = np.unique(self.labels[rows], return_inverse=True)
        X = self.X[rows] if isinstance(self.X, np.ndarray) else _safe_indexing(self.X, rows)
        weights = self.weights[rows]
        weights = weights if weights.any() else np.ones(len(rows))
        labels = self.classes[self.labels[rows]]
        if len(numbers) == 1:
            return DummyClassifier().fit(np.zeros((len(rows), 1)), labels)
        if self.estimator is None:
            return LogisticErm(X, part, self.classes[numbers], self.C, self.scales).fit(weights, None)
        return ForeignErm(self.estimator, X, labels, part, self.classes[numbers]).fit(weights, None)


class TimeHalves:
    """Two predictors, fitted on the first and the second half of the reference in order of time, on first use.

    Where they disagree on recent rows, the relation between inputs and label that the model learned is not settled, or
    the rows lie outside what either half has seen.

    Parameters
    ----------
    parts : ReferenceParts
    order : array of shape (n_rows,)
        The rows in order of time.
    """

    def __init__(self, parts: ReferenceParts, order: IntArray) -> None:
        self._parts, self._order = parts, order

    @cached_property
    def _predictors(self) -> list[Any] | None:
        try:
            with one_blas_thread():
                return [self._parts.fit(rows) for rows in np.array_split(self._order, 2)]
        except ValueError:
            # The user's estimator could not be fitted on a half.
            return None

    @cached_property
    def _differ_on_reference(self) -> BoolArray | None:
        return self._differ(self._parts.X)

    @property
    def takes_numbers(self) -> bool:
        """Whether the predictors take rows as arrays of numbers, in the form in which recent rows are kept."""
        X = self._parts.X
        return self._parts.estimator is None or (isinstance(X, np.ndarray) and X.dtype == np.float64)

    def disagreement(self, rows: Any) -> float:
        """Share of the rows on which the two predictors disagree; NaN if one could not be fitted."""
        differ = self._differ(rows)
        return float("nan") if differ is None else float(np.mean(differ))

    def disagreement_on_reference(self, weights: FloatArray) -> float:
        """Share of the reference, weighted to match recent rows, on which the two predictors disagree.

        It stands for the recent rows where these are not kept in the form that the predictors take. One of the two
        knows each of these rows, so a predictor that learns its rows by heart disagrees a little more than on new ones.
        """
        differ = self._differ_on_reference
        return float("nan") if differ is None else float(np.average(differ, weights=weights))

    def _differ(self, rows: Any) -> BoolArray | None:
        if self._predictors is None:
            return None
        with one_blas_thread():
            first, second = (np.asarray(predictor.predict(rows)) for predictor in self._predictors)
        return np.asarray(first != second, dtype=bool)
