"""Predictors of the halves of a reference in order of time, and how far they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.utils import _safe_indexing

from accous.arrays import FloatArray, IntArray
from accous.classifier.erm import ErmRecipe
from accous.classifier.task import Task
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows

__all__ = ["ReferenceParts", "TimeHalves"]


@dataclass(frozen=True)
class ReferenceParts:
    """A reference, and how a predictor is fitted on a part of its rows.

    Attributes
    ----------
    X : array or frame
        As the predictor reads it.
    task : Task
    weights : array of shape (n_rows,)
        Base weights.
    recipe : ErmRecipe
        How predictors are fitted.
    has_numbers : bool
        Whether the predictor reads rows as numbers, because it is the built-in one.
    """

    X: Any
    task: Task
    weights: FloatArray
    recipe: ErmRecipe
    has_numbers: bool

    def fit(self, rows: IntArray) -> Any:
        """Fit on some rows, with the classes that they have; one class alone is predicted always."""
        task = self.task.part(rows)
        X = self.X[rows] if isinstance(self.X, np.ndarray) else _safe_indexing(self.X, rows)
        weights = self.weights[rows]
        weights = weights if weights.any() else np.ones(len(rows))
        if task.is_constant:
            return DummyClassifier().fit(np.zeros((len(rows), 1)), task.truths)
        return self.recipe.on(X, task).fit(weights, None)


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
    def _differences_on_reference(self) -> FloatArray | None:
        return self._differences(self._parts.X)

    def prepare(self) -> bool:
        """Fit the predictors now, and return whether that was possible."""
        return self._predictors is not None

    @property
    def takes_numbers(self) -> bool:
        """Whether the predictors take rows as arrays of numbers, in the form in which recent rows are kept."""
        X = self._parts.X
        return self._parts.has_numbers or (isinstance(X, np.ndarray) and X.dtype == np.float64)

    def disagreement(self, rows: Any) -> float:
        """Mean loss of one predictor where the other is right; NaN if one could not be fitted.

        Of classes, this is the share of the rows on which they disagree.
        """
        losses = self._differences(rows)
        return float("nan") if losses is None else float(np.mean(losses))

    def disagreement_on_reference(self, weights: FloatArray) -> float:
        """Return the same mean over the reference, weighted to match recent rows.

        It stands for the recent rows where these are not kept in the form that the predictors take. One of the two
        knows each of these rows, so a predictor that learns its rows by heart disagrees a little more than on new ones.
        """
        losses = self._differences_on_reference
        return float("nan") if losses is None else float(np.average(losses, weights=weights))

    def _differences(self, rows: Any) -> FloatArray | None:
        if self._predictors is None:
            return None
        with one_blas_thread(), one_openmp_thread_if_few(count_rows(rows)):
            first, second = (np.asarray(predictor.predict(rows)) for predictor in self._predictors)
        return self._parts.task.losses(self._parts.task.errors_on(first, second))
