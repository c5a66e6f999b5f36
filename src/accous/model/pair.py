"""The predictor "auto": a linear regression on clipped numbers and boosted trees, which predict and adapt together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from accous.arrays import FloatArray, IntArray
from accous.model.backtest import ReferenceParts
from accous.model.heldout import Combination, Split, answers_of, hold_out
from accous.model.predictors import ErmRecipe, EstimatorRecipe, WeightedErm
from accous.model.round import linear_from_plain
from accous.model.tasks import Task

AUTO = "auto"
LINEAR = "linear"
"""The built-in regression on clipped numbers alone."""


def make_trees(kind: str, seed: int, categories: list[int] | None = None) -> Any:
    """Make unfitted boosted trees.

    Parameters
    ----------
    kind : {"classifier", "regressor"}
    seed : int
    categories : list of int, optional
        The columns that hold codes of categories.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make = HistGradientBoostingClassifier if kind == "classifier" else HistGradientBoostingRegressor
    return make(categorical_features=categories, random_state=seed)


class LinearAndTrees(BaseEstimator):
    """What ``estimator="auto"`` stands for, with trees of your own choice: for `accous.AdaptiveClassifier`.

    Parameters
    ----------
    trees : classifier or regressor
        Unfitted; it reads numbers, some of which may be missing.
    """

    def __init__(self, trees: Any = None) -> None:
        self.trees = trees


# --- the fitted predictor ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairOfRegressors:
    """Both predictors, fitted.

    Attributes
    ----------
    linear : LinearPredictor or RidgePredictor, optional
        None if it has no weight.
    trees : regressor or classifier, optional
        None if it has no weight.
    combination : Combination
    """

    linear: Any
    trees: Any
    combination: Combination

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Return the number of each row."""
        return self._answers(X, None)

    def _answers(self, X: FloatArray, classes: NDArray[Any] | None) -> FloatArray:
        linear = None if self.linear is None else answers_of(self.linear, X, classes)
        trees = None if self.trees is None else answers_of(self.trees, X, classes)
        return self.combination.mixed(*_both(linear, trees))


@dataclass(frozen=True, eq=False)
class PairOfClassifiers(PairOfRegressors):
    """Both predictors of classes.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    """

    classes_: NDArray[Any]

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return calibrated class probabilities of each row."""
        return self._answers(X, self.classes_)

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def _both(linear: FloatArray | None, trees: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the answers of both; those of a predictor without weight are of no matter."""
    found = linear if trees is None else trees
    assert found is not None
    return found if linear is None else linear, found if trees is None else trees


# --- how it is fitted with weights ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairRecipe:
    """Both predictors with their parameters.

    Attributes
    ----------
    linear : ErmRecipe
        The built-in regression, on clipped numbers.
    trees : EstimatorRecipe
    combination : Combination
    """

    linear: ErmRecipe
    trees: EstimatorRecipe
    combination: Combination

    def on(self, X: FloatArray, task: Any) -> PairErm:
        """Return how to fit both on these rows."""
        return PairErm(self, X, task)

    def alone(self) -> tuple[ErmRecipe, ErmRecipe]:
        """Return each of the two as a predictor of its own."""
        first, second = (replace(self, combination=Combination(share)) for share in (0.0, 1.0))
        return first, second


class PairErm(WeightedErm):
    """Weighted fits of a linear predictor on clipped numbers and of boosted trees, each by its own means.

    Parameters
    ----------
    recipe : PairRecipe
    X : array of shape (n_rows, n_features)
        Some numbers may be missing.
    task : Task
    """

    def __init__(self, recipe: PairRecipe, X: FloatArray, task: Task) -> None:
        share = recipe.combination.share
        self._combination, self._task = recipe.combination, task
        self._linear: Any = recipe.linear.on(X, task) if share < 1.0 else None
        self._trees: Any = recipe.trees.on(X, task) if share > 0.0 else None
        # What is slower or coarser decides.
        parts: list[WeightedErm] = [part for part in (self._linear, self._trees) if part is not None]
        self.refit_distance = max(part.refit_distance for part in parts)
        self.refits_between_checks = max(part.refits_between_checks for part in parts)
        self.rounds_between_checks = max(part.rounds_between_checks for part in parts)
        self.is_quick_to_cross_fit = all(part.is_quick_to_cross_fit for part in parts)
        self.is_slow_to_cross_fit = any(part.is_slow_to_cross_fit for part in parts)
        self.keeps_first_fit = any(part.keeps_first_fit for part in parts)
        self.has_trees = any(part.has_trees for part in parts)

    def fit(self, weights: FloatArray, previous: PairOfRegressors | None) -> PairOfRegressors:
        """Fit both with these weights, the linear predictor from the previous one."""
        start = None if previous is None else previous.linear
        linear = None if self._linear is None else self._linear.fit(weights, start)
        trees = None if self._trees is None else self._trees.fit(weights, None)
        return self._pair(linear, trees)

    def _pair(self, linear: Any, trees: Any) -> PairOfRegressors:
        parts = linear, trees, self._combination
        return PairOfClassifiers(*parts, self._task.classes) if self._task.has_classes else PairOfRegressors(*parts)

    def with_linear(self, pair: PairOfRegressors, stored: dict[str, Any] | None) -> PairOfRegressors:
        """Return the pair with the linear predictor that was stored: it depends on those before it."""
        return pair if stored is None else replace(pair, linear=linear_from_plain(stored, self._linear))

    def cross_fitted(
        self, weights: FloatArray, fitted: PairOfRegressors, *, is_quick: bool = False
    ) -> NDArray[Any] | None:
        """Return the answers of both together for each row, from fits without it."""
        if self._task.has_classes:
            shares = self.cross_fitted_probabilities(weights, fitted, is_quick=is_quick)
            return None if shares is None else shares.argmax(axis=1)
        return self._cross_fitted("cross_fitted", weights, fitted)

    def cross_fitted_probabilities(
        self, weights: FloatArray, fitted: PairOfRegressors, *, is_quick: bool = False
    ) -> FloatArray | None:
        """Return the probabilities of both together from the same fits."""
        return self._cross_fitted("cross_fitted_probabilities", weights, fitted)

    def _cross_fitted(self, method: str, weights: FloatArray, fitted: PairOfRegressors) -> FloatArray | None:
        found = []
        for part, predictor in ((self._linear, fitted.linear), (self._trees, fitted.trees)):
            answers = None if part is None else getattr(part, method)(weights, predictor)
            if part is not None and answers is None:
                return None
            found.append(answers)
        return self._combination.mixed(*_both(*found))


def hold_out_both(
    recipe: PairRecipe,
    X: FloatArray,
    task: Task,
    weights: FloatArray,
    split: Split,
    on_progress: Callable[[float], None],
) -> tuple[FloatArray, ...]:
    """Return what each of the two answers for held-out rows."""
    classes = task.classes if task.has_classes else None
    parts = [ReferenceParts(X, task, weights, each, has_numbers=True) for each in recipe.alone()]
    n_done = count(1)

    def answer(rows: IntArray, rest: IntArray) -> tuple[FloatArray, ...]:
        found = tuple(answers_of(part.fit(rows), X[rest], classes) for part in parts)
        on_progress(next(n_done) / len(split))
        return found

    return hold_out(split, answer)
