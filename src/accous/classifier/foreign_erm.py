"""Weighted empirical risk minimisation with a user's estimator, or a pipeline that ends in one."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from accous.arrays import FloatArray, IntArray
from accous.classifier.folds import N_FOLDS, N_QUICK_FOLDS, by_folds
from accous.classifier.task import Task
from accous.exceptions import ParameterError
from accous.threads import one_openmp_thread_if_few
from accous.validation import own_copy

__all__ = ["ForeignErm", "last_step", "require_sample_weight"]

_IS_OF_KIND: dict[str, Callable[[Any], bool]] = {"classifier": is_classifier, "regressor": is_regressor}
_SUCH_AS = {
    "classifier": ("LogisticRegression", "RandomForestClassifier"),
    "regressor": ("Ridge", "HistGradientBoostingRegressor"),
}


class _FoldAnswers(NamedTuple):
    """Answers for each row from a fit without it, and its probabilities if the estimator has some."""

    answers: NDArray[Any]
    probabilities: FloatArray | None


class ForeignErm:
    """Any classifier or regressor, or pipeline ending in one, that takes ``sample_weight``; cloned for every fit."""

    refit_distance: ClassVar[float] = 0.16
    limits_blas: ClassVar[bool] = False
    # Two fits on half of the rows for every five fits on all rows.
    refits_between_checks: ClassVar[int] = 5
    rounds_between_checks: ClassVar[int] = 1
    is_quick_to_cross_fit: bool = False

    n_coefs: ClassVar[int] = 0
    is_slow_to_cross_fit: ClassVar[bool] = True
    keeps_first_fit: ClassVar[bool] = False

    def __init__(self, estimator: Any, X: Any, task: Task) -> None:
        require_sample_weight(estimator, task.kind)
        self._estimator, self._X, self._y, self._task = estimator, X, task.truths, task
        self._kept: tuple[bool, FloatArray, _FoldAnswers | None] | None = None

    def fit(self, weights: FloatArray, previous: Any) -> Any:
        """Fit a fresh clone on the whole reference."""
        return self._fit_clone(self._X, self._y, weights)

    def cross_fitted(self, weights: FloatArray, fitted: Any, *, is_quick: bool = False) -> NDArray[Any] | None:
        """Return predictions from stratified folds: five, or two if ``is_quick``."""
        found = self._answers_of_folds(weights, is_quick=is_quick)
        return None if found is None else found.answers

    def cross_fitted_probabilities(
        self, weights: FloatArray, fitted: Any, *, is_quick: bool = False
    ) -> FloatArray | None:
        """Return probabilities from the same fits; None also if the estimator has none."""
        found = self._answers_of_folds(weights, is_quick=is_quick)
        return None if found is None else found.probabilities

    def _answers_of_folds(self, weights: FloatArray, *, is_quick: bool) -> _FoldAnswers | None:
        """Return what fits without each row answer, once for classes and probabilities under the same weights."""
        kept = self._kept
        if kept is None or kept[0] is not is_quick or not np.array_equal(kept[1], weights):
            kept = self._kept = is_quick, weights, self._fit_folds(weights, N_QUICK_FOLDS if is_quick else N_FOLDS)
        return kept[2]

    def _fit_folds(self, weights: FloatArray, n_folds: int) -> _FoldAnswers | None:
        shares: list[FloatArray] = []

        def predict_rest(rows: IntArray, rest: IntArray) -> NDArray[Any]:
            part = self._fit_clone(_safe_indexing(self._X, rows), self._y[rows], weights[rows])
            X = _safe_indexing(self._X, rest)
            with one_openmp_thread_if_few(len(rest)):
                if hasattr(part, "predict_proba"):
                    # Every fold holds all classes, so the columns are the classes.
                    shares.append(np.column_stack((rest, part.predict_proba(X))))
                return self._task.answers(part.predict(X))

        answers = by_folds(self._task.strata, n_folds, predict_rest)
        if answers is None:
            return None
        all_shares = np.concatenate(shares) if shares else None
        return _FoldAnswers(answers, None if all_shares is None else all_shares[all_shares[:, 0].argsort(), 1:])

    def _fit_clone(self, X: Any, y: NDArray[Any], weights: FloatArray | None) -> Any:
        estimator = clone(self._estimator)
        given = {} if weights is None else {_sample_weight_name(estimator): weights.copy()}
        # Fit on copies: some estimators write into their input. Passing the weights by the step's name sends them to
        # the last step only.
        with config_context(enable_metadata_routing=False), one_openmp_thread_if_few(len(y)):
            return estimator.fit(own_copy(X, X), y.copy(), **given)


def require_sample_weight(estimator: Any, kind: str = "classifier") -> None:
    """Raise a ParameterError if the estimator is of another kind or its ``fit`` takes no ``sample_weight``.

    Parameters
    ----------
    estimator : object
    kind : {"classifier", "regressor"}
    """
    last = last_step(estimator)
    if isinstance(estimator, type) or not hasattr(last, "fit") or not _IS_OF_KIND[kind](last):
        name = estimator.__name__ + " itself" if isinstance(estimator, type) else type(last).__name__
        raise ParameterError(f"estimator must be a {kind}, such as {_SUCH_AS[kind][0]}(), got {name}.")
    if not _takes_sample_weight(last, _IS_OF_KIND[kind]):
        raise ParameterError(
            f"estimator must take sample_weight in fit, and {type(last).__name__} does not, so it cannot use "
            f"importance weights. Use one that does, such as {' or '.join(_SUCH_AS[kind])}."
        )


def _takes_sample_weight(estimator: Any, is_of_kind: Callable[[Any], bool]) -> bool:
    """Whether ``fit`` names sample_weight, or forwards it to estimators that do, as ensembles and searches do."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    parameters = signature(estimator.fit).parameters.values()
    inner = [part for part in estimator.get_params(deep=True).values() if hasattr(part, "fit") and is_of_kind(part)]
    passes_on = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    return passes_on and bool(inner) and all(_takes_sample_weight(last_step(part), is_of_kind) for part in inner)


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, and of a pipeline that is that step; or the estimator itself."""
    return last_step(estimator.steps[-1][1]) if _is_pipeline(estimator) else estimator


def _sample_weight_name(estimator: Any) -> str:
    if _is_pipeline(estimator):
        name, step = estimator.steps[-1]
        return f"{name}__{_sample_weight_name(step)}"
    return "sample_weight"


def _is_pipeline(estimator: Any) -> bool:
    from sklearn.pipeline import Pipeline

    return isinstance(estimator, Pipeline)
