"""Weighted empirical risk minimisation with boosted trees: fitted once, then only their leaves follow the weights."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils import _safe_indexing

from accous.arrays import FloatArray, IntArray
from accous.classifier.folds import N_FOLDS, by_folds
from accous.classifier.foreign_erm import ForeignErm, last_step
from accous.classifier.revalued_trees import RevaluedTrees, can_be_revalued
from accous.classifier.task import Task

__all__ = ["BoostedErm", "EstimatorRecipe"]


@dataclass(frozen=True, eq=False)
class EstimatorRecipe:
    """The user's estimator.

    Attributes
    ----------
    estimator : object
        Unfitted.
    keeps_splits : bool
        Whether boosted trees keep their splits, and only their leaves follow the weights. All others are fitted anew.
    """

    estimator: Any
    keeps_splits: bool

    def on(self, X: Any, task: Task) -> ForeignErm:
        """Return how to fit it on these rows."""
        kind = BoostedErm if self.keeps_splits and _is_boosted(self.estimator) else ForeignErm
        return kind(self.estimator, X, task)


def _is_boosted(estimator: Any) -> bool:
    """Whether the estimator is, or ends in, boosted trees whose leaves can get new values."""
    steps = getattr(estimator, "steps", None)
    return can_be_revalued(steps[-1][1] if steps else estimator)


class _Fold(NamedTuple):
    """Trees fitted without the rows of a fold."""

    trees: RevaluedTrees
    rows: IntArray
    leaves_of_rest: NDArray[np.uint8]


class BoostedErm(ForeignErm):
    """scikit-learn's histogram gradient boosting, or a pipeline that ends in it.

    The splits of the trees are found once, with the base weights. A refit finds new values for the leaves under the
    current weights: one pass over the reference instead of a search. Predictions of rows from fits without them are
    made in the same way, from trees that were fitted without the rows.

    Parameters
    ----------
    estimator, X, task : as for `ForeignErm`
    """

    refit_distance: ClassVar[float] = 0.08
    refits_between_checks: ClassVar[int] = 1
    rounds_between_checks: ClassVar[int] = 32

    keeps_first_fit: ClassVar[bool] = True

    def __init__(self, estimator: Any, X: Any, task: Task) -> None:
        super().__init__(estimator, X, task)
        self._targets = task.strata if task.kind == "classifier" else task.truths
        self._base_weight: FloatArray | None = None

    def fit(self, weights: FloatArray, previous: Any) -> Any:
        """Search the trees with the first weights; with others, find new values for their leaves."""
        if self._base_weight is None:
            self._base_weight = weights
        # Departs from the paper: it minimises the weighted risk over the whole model, here only over the leaves.
        fitted = self._whole[0]
        if np.array_equal(weights, self._base_weight):
            return fitted
        return _with_last_step(fitted, self._whole[1].revalued(weights))

    def cross_fitted(self, weights: FloatArray, fitted: Any, *, is_quick: bool = False) -> NDArray[Any] | None:
        """Return predictions from five stratified folds."""
        scores = self._cross_fitted_scores(weights)
        if scores is None or self._task.kind == "regressor":
            return None if scores is None else scores[:, 0]
        return (scores[:, 0] > 0.0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)

    def cross_fitted_probabilities(
        self, weights: FloatArray, fitted: Any, *, is_quick: bool = False
    ) -> FloatArray | None:
        """Return the probabilities from the same fits."""
        scores = self._cross_fitted_scores(weights)
        if scores is None:
            return None
        if scores.shape[1] == 1:
            scores = np.concatenate((np.zeros_like(scores), scores), axis=1)
        return np.asarray(softmax(scores, axis=1))

    @cached_property
    def _whole(self) -> tuple[Any, RevaluedTrees]:
        """The model fitted on the whole reference with the base weights, and its trees."""
        return self._fit_trees(np.arange(len(self._y)))

    @cached_property
    def _folds(self) -> list[_Fold] | None:
        found: list[_Fold] = []

        def fit_fold(rows: IntArray, rest: IntArray) -> IntArray:
            fitted, trees = self._fit_trees(rows)
            found.append(_Fold(trees, rows, trees.leaves_of(_before_last(fitted, _safe_indexing(self._X, rest)))))
            return rest

        order = by_folds(self._task.strata, N_FOLDS, fit_fold)
        return None if order is None else found

    def _cross_fitted_scores(self, weights: FloatArray) -> FloatArray | None:
        folds = self._folds
        if folds is None:
            return None
        scores = np.empty((len(weights), folds[0].leaves_of_rest.shape[1]))
        for trees, rows, leaves in folds:
            rest = np.ones(len(weights), dtype=bool)
            rest[rows] = False
            scores[rest] = trees.scores(trees.values(weights[rows]), leaves)
        return scores

    def _fit_trees(self, rows: IntArray) -> tuple[Any, RevaluedTrees]:
        X = _safe_indexing(self._X, rows)
        assert self._base_weight is not None, "the first fit comes first"
        weights: FloatArray | None = self._base_weight[rows]
        if weights is not None and np.all(weights == weights[0]):
            # The same trees but for rounding, and ten times quicker: scikit-learn bins weighted columns slowly.
            weights = None
        fitted = self._fit_clone(X, self._y[rows], weights)
        return fitted, RevaluedTrees(last_step(fitted), _before_last(fitted, X), self._targets[rows])


def _before_last(fitted: Any, X: Any) -> Any:
    """Return rows as the last step of a pipeline reads them."""
    return X if fitted is last_step(fitted) else fitted[:-1].transform(X)


def _with_last_step(fitted: Any, trees: Any) -> Any:
    """Return a fitted pipeline, or the trees alone, with other trees."""
    if fitted is last_step(fitted):
        return trees
    twin = copy(fitted)
    twin.steps = [*fitted.steps[:-1], (fitted.steps[-1][0], trees)]
    return twin
