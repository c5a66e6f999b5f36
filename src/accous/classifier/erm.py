"""Importance-weighted empirical risk minimisation on the reference: how the predictor of a round is fitted.

There are three implementations of one interface: the built-in, warm-started logistic regression here, the built-in
ridge regression (`accous.classifier.ridge_erm`), and any scikit-learn estimator whose ``fit`` takes ``sample_weight``
(`accous.classifier.foreign_erm`). Besides the fitted predictor, they return predictions for every reference row from a
fit without that row. The current error is estimated from these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from accous.arrays import FloatArray, IntArray
from accous.classifier.class_task import ClassTask
from accous.classifier.folds import N_FOLDS, N_QUICK_FOLDS, by_folds
from accous.core.regression import (
    FULL,
    ONE_FOLD,
    ONE_ROUND,
    LogisticProblem,
    Point,
    descend_from,
    leave_one_out_scores,
    make_problem,
    solve,
    solve_compiled,
)
from accous.threads import one_blas_thread

__all__ = [
    "ErmRecipe",
    "LinearPredictor",
    "LogisticErm",
    "LogisticRecipe",
    "WeightedErm",
    "deviations_of_columns",
]

_FEW_COEFS = 128
_LARGEST_SCALE = 1e100  # of a column; its inverse is the smallest


class WeightedErm(Protocol):
    """A way to fit a predictor on the reference with given weights.

    Attributes
    ----------
    refit_distance : float
        How far weights may move, in total variation at full effective sample size, before a refit is worth its cost.
    limits_blas : bool
        Whether ``fit`` limits BLAS to one thread itself, or does not use BLAS.
    refits_between_checks : int
        Number of refits after which it is worth comparing the predictor with the fixed predictor again.
    is_quick_to_cross_fit : bool
        Whether leaving out every row once takes no longer than a few rounds.
    is_slow_to_cross_fit : bool
        Whether it takes so long that the risk is read from the last comparison with the fixed predictor.
    keeps_first_fit : bool
        Whether later fits depend on the first one, which is then the one with the base weights.
    """

    refit_distance: ClassVar[float]
    limits_blas: ClassVar[bool]
    refits_between_checks: ClassVar[int]
    is_quick_to_cross_fit: bool
    is_slow_to_cross_fit: ClassVar[bool]
    keeps_first_fit: ClassVar[bool]

    @property
    def n_coefs(self) -> int:
        """Coefficients that widen the interval of an estimated loss."""

    @property
    def rounds_between_checks(self) -> int:
        """Number of rounds after which it is worth comparing with the fixed predictor again."""

    def fit(self, weights: FloatArray, previous: Any) -> Any:
        """Return a predictor fitted with these weights, starting from the ``previous`` one."""

    def cross_fitted(self, weights: FloatArray, fitted: Any, *, is_quick: bool = False) -> NDArray[Any] | None:
        """Class number, or number, of each row from a fit without that row; None if there are too few rows.

        ``is_quick`` allows less accurate fits if accurate ones are expensive.
        """


class ErmRecipe(Protocol):
    """What kind of predictor is fitted, on any rows."""

    def on(self, X: Any, task: Any) -> WeightedErm:
        """Return how to fit it on these rows and their task."""


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted logistic or softmax regression, with scikit-learn's attribute names.

    Attributes
    ----------
    coef_ : array of shape (1 or n_classes, n_features)
    intercept_ : array of shape (1 or n_classes,)
    classes_ : array of shape (n_classes,)
    point : Point or None
        Where the fit ended, so that the next one can start there; None if there are few coefficients.
    """

    coef_: FloatArray
    intercept_: FloatArray
    classes_: NDArray[Any]
    point: Point | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_coefs(cls, coefs: FloatArray, classes: NDArray[Any]) -> LinearPredictor:
        """Make a predictor from coefficients whose last column is the intercept."""
        # Copies, not views: their products then have the same bits after the model was saved and loaded.
        predictor = cls(coefs[:, :-1].copy(), coefs[:, -1].copy(), classes)
        predictor.__dict__["coefs"] = coefs
        return predictor

    @cached_property
    def coefs(self) -> FloatArray:
        """Coefficients with the intercept as the last column."""
        return np.concatenate((self.coef_, self.intercept_[:, None]), axis=1)

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return scores: one per row for two classes, otherwise one per row and class."""
        # The limit is large enough to change no answer and small enough that sums do not overflow.
        limited = np.maximum(X, -1e100)
        scores = np.minimum(limited, 1e100, out=limited) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Class probabilities of each row."""
        scores = self.decision_function(X)
        return _to_probabilities(scores if scores.ndim == 2 else scores[:, None])

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Most probable class of each row."""
        return np.asarray(self.classes_[_class_numbers(self.decision_function(X))])


class LogisticErm:
    """Built-in, warm-started logistic or softmax regression; a refit costs no more than the ratio's round.

    With ``scales``, the penalty acts on the coefficients of standardised columns. Predictors always have the
    coefficients of the raw columns. Only the scales matter: centring changes the intercept, which has no penalty.

    Attributes
    ----------
    rounds_between_checks : int
        32 for few coefficients, up to 256 for many.
    """

    refit_distance: ClassVar[float] = 0.04
    limits_blas: ClassVar[bool] = True
    refits_between_checks: ClassVar[int] = 1
    n_coefs: ClassVar[int] = 0
    is_slow_to_cross_fit: ClassVar[bool] = False
    keeps_first_fit: ClassVar[bool] = False

    def __init__(
        self,
        X: FloatArray,
        labels: IntArray,
        classes: NDArray[Any],
        C: float,
        scales: FloatArray | None = None,
    ) -> None:
        self._scales = None if scales is None else np.append(scales, 1.0)  # and that of the intercept
        rows = X if self._scales is None else X / self._scales[:-1]
        self._problem: LogisticProblem = make_problem(rows, labels, len(classes), C)
        self._classes = classes
        # Leaving out every row once takes time quadratic in the number of coefficients; a round takes linear time.
        n_coefs = self._problem.n_scores * self._problem.design.shape[1]
        self.rounds_between_checks = min(256, 32 * (1 + n_coefs // 64))
        self.is_quick_to_cross_fit = self._problem.has_small_hessian and n_coefs <= _FEW_COEFS

    def fit(self, weights: FloatArray, previous: LinearPredictor | None) -> LinearPredictor:
        """Minimise the weighted objective, starting from the previous predictor."""
        start = None if previous is None else self._to_scaled(previous.coefs)
        coefs = solve_compiled(self._problem, weights, start)
        if coefs is not None:
            return LinearPredictor.of_coefs(self._to_raw(coefs), self._classes)
        with one_blas_thread():
            if self._problem.axes is None:
                coefs = solve(self._problem, weights, start)
                return LinearPredictor.of_coefs(self._to_raw(coefs), self._classes)
            return self._descend(weights, previous)

    def restored(self, coef: FloatArray, intercept: FloatArray, point: Point | None) -> LinearPredictor:
        """Return a predictor that was fitted before, from its parts."""
        return LinearPredictor(coef, intercept, self._classes, point)

    def _to_scaled(self, coefs: FloatArray) -> FloatArray:
        return coefs if self._scales is None else coefs * self._scales

    def _to_raw(self, coefs: FloatArray) -> FloatArray:
        return coefs if self._scales is None else coefs / self._scales

    def _descend(self, weights: FloatArray, previous: LinearPredictor | None) -> LinearPredictor:
        # Departs from the paper: with many coefficients a round takes steps towards the optimum but does not reach it.
        effort = FULL if previous is None else ONE_ROUND
        point = descend_from(self._problem, weights, self._start(previous), effort)
        coefs = self._to_raw(self._problem.from_design(point.coefs))
        return LinearPredictor(coefs[:, :-1], coefs[:, -1], self._classes, point)

    def cross_fitted(self, weights: FloatArray, fitted: LinearPredictor, *, is_quick: bool = False) -> IntArray | None:
        """Return approximate leave-one-out predictions, or predictions from folds if the Hessian would be too large."""
        scores = self._cross_fitted_scores(weights, fitted, N_QUICK_FOLDS if is_quick else N_FOLDS)
        return None if scores is None else _class_numbers(scores)

    def cross_fitted_probabilities(self, weights: FloatArray, fitted: LinearPredictor) -> FloatArray | None:
        """Return the probabilities from the same fits."""
        scores = self._cross_fitted_scores(weights, fitted, N_FOLDS)
        return None if scores is None else _to_probabilities(scores)

    def _cross_fitted_scores(self, weights: FloatArray, fitted: LinearPredictor, n_folds: int) -> FloatArray | None:
        problem = self._problem
        if not problem.has_small_hessian:
            return by_folds(problem.labels, n_folds, lambda rows, rest: self._fit_part(weights, fitted, rows, rest))
        if np.bincount(problem.labels, minlength=problem.n_classes).min() < 2:
            return None
        return leave_one_out_scores(problem, weights, self._to_scaled(fitted.coefs))

    def _start(self, previous: LinearPredictor | None) -> Point:
        if previous is not None and previous.point is not None:
            return previous.point
        design = self._problem.design
        n_scores, (n_rows, n_columns) = self._problem.n_scores, design.shape
        if previous is None:
            return Point(np.zeros((n_scores, n_columns)), np.zeros((n_scores, n_rows)))
        coefs = self._problem.to_design(self._to_scaled(previous.coefs))
        return Point(coefs, coefs @ design.T)

    def _fit_part(self, weights: FloatArray, fitted: LinearPredictor, rows: IntArray, rest: IntArray) -> FloatArray:
        start = self._to_scaled(fitted.coefs)
        coefs = solve(self._problem.part(rows), weights[rows], start, effort=ONE_FOLD)
        return self._problem.part(rest).scores(coefs)


@dataclass(frozen=True, eq=False)
class LogisticRecipe:
    """The built-in logistic regression with its parameters; see `LogisticErm`."""

    C: float
    scales: FloatArray | None

    def on(self, X: FloatArray, task: ClassTask) -> LogisticErm:
        """Return how to fit it on these rows."""
        return LogisticErm(X, task.labels, task.classes, self.C, self.scales)


def deviations_of_columns(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted deviations of the columns, and 1 for a constant column, as ``StandardScaler`` has them."""
    largest = np.abs(X).max(axis=0)
    largest[largest == 0.0] = 1.0
    rows, shares = X / largest, weights / weights.sum()  # so that no square overflows
    means = shares @ rows
    variances = shares @ np.square(rows - means)
    rounding = len(X) * np.finfo(np.float64).eps
    is_constant = variances <= rounding * variances + (rounding * means) ** 2
    scales = np.minimum(largest * np.sqrt(variances), _LARGEST_SCALE)
    return np.where(is_constant | (scales < 1.0 / _LARGEST_SCALE), 1.0, scales)


def _to_probabilities(scores: FloatArray) -> FloatArray:
    """Return the probabilities of all classes from one score per row, or from one score per row and class."""
    if scores.shape[1] == 1:
        scores = np.concatenate((np.zeros_like(scores), scores), axis=1)
    return np.asarray(softmax(scores, axis=1))


def _class_numbers(scores: FloatArray) -> IntArray:
    """Return the class by the sign of one score per row, or by the largest of several scores."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1) > 0.0).astype(np.int64)
    return scores.argmax(axis=1)
