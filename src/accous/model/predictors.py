"""How predictors are fitted with weights: our own regressions, boosted trees, and any estimator of scikit-learn."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from inspect import Parameter, signature
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils.validation import has_fit_parameter

from accous.arrays import FloatArray, IntArray
from accous.core.kernels_fits import BINOMIAL, MULTINOMIAL, SQUARED, add_leaves, revalue_leaves
from accous.core.kernels_rows import share_classes
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
from accous.core.ridge import (
    RidgeProblem,
    leave_one_out_predictions,
    make_ridge_problem,
    solve_ridge,
    solve_ridge_compiled,
)
from accous.exceptions import DataError, ParameterError
from accous.model.tasks import ClassTask, NumberTask, Task
from accous.text import LOGGER
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import Bounds, own_copy

# --- Predictions for every reference row from fits on folds without it


N_FOLDS = 5
N_QUICK_FOLDS = 2


def by_folds(strata: IntArray, n_folds: int, answer_rest: Any) -> Any:
    """Return predictions for each fold's rows by fits on the other folds, in the order of the rows.

    Parameters
    ----------
    strata : array of shape (n_rows,)
        Groups that every fold holds in the same shares; with fewer than five rows in one, the result is None.
    n_folds : int
    answer_rest : callable
        Takes the rows to fit on and those to predict; returns the predictions.
    """
    if np.bincount(strata).min() < N_FOLDS:
        return None
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(np.zeros(len(strata)), strata))
    answers = np.concatenate([answer_rest(rows, rest) for rows, rest in folds])
    return answers[np.argsort(np.concatenate([rest for _, rest in folds]))]


# --- Importance-weighted empirical risk minimisation on the reference: how the predictor of a round is fitted


class WeightedErm(ABC):
    """A way to fit a predictor on the reference with given weights.

    Attributes
    ----------
    refit_distance : float
        How far weights may move, in total variation at full effective sample size, before a refit is worth its cost.
    limits_blas : bool
        Whether ``fit`` limits BLAS to one thread itself, or does not use BLAS.
    refits_between_checks, rounds_between_checks : int
        After how many of both it is worth comparing the predictor with the fixed predictor again.
    is_quick_to_cross_fit : bool
        Whether leaving out every row once takes no longer than a few rounds.
    is_slow_to_cross_fit : bool
        Whether it takes so long that the risk is read from the last comparison with the fixed predictor.
    keeps_first_fit : bool
        Whether later fits depend on the first one, which is then the one with the base weights.
    has_trees : bool
        Whether it fits boosted trees.
    """

    refit_distance: float
    rounds_between_checks: int
    refits_between_checks: int = 1
    limits_blas: bool = False
    is_quick_to_cross_fit: bool = False
    is_slow_to_cross_fit: bool = False
    keeps_first_fit: bool = False
    has_trees: bool = False

    @abstractmethod
    def fit(self, weights: FloatArray, previous: Any) -> Any:
        """Return a predictor fitted with these weights, starting from the ``previous`` one."""

    @abstractmethod
    def cross_fitted(self, weights: FloatArray, fitted: Any, *, is_quick: bool = False) -> NDArray[Any] | None:
        """Class number, or number, of each row from a fit without that row; None if there are too few rows.

        ``is_quick`` allows less accurate fits if accurate ones are expensive.
        """


# --- Weighted empirical risk minimisation with a user's estimator, or a pipeline that ends in one


_IS_OF_KIND: dict[str, Callable[[Any], bool]] = {"classifier": is_classifier, "regressor": is_regressor}
_SUCH_AS = {
    "classifier": ("LogisticRegression", "RandomForestClassifier"),
    "regressor": ("Ridge", "HistGradientBoostingRegressor"),
}


class _FoldAnswers(NamedTuple):
    """Answers for each row from a fit without it, and its probabilities if the estimator has some."""

    answers: NDArray[Any]
    probabilities: FloatArray | None


class ForeignErm(WeightedErm):
    """Any classifier or regressor, or pipeline ending in one, that takes ``sample_weight``; cloned for every fit."""

    refit_distance = 0.16
    # Two fits on half of the rows for every five fits on all rows.
    refits_between_checks = 5
    rounds_between_checks = 1
    is_slow_to_cross_fit = True

    def __init__(self, estimator: Any, X: Any, task: Task) -> None:
        require_sample_weight(estimator, task.kind)
        self._estimator, self._X, self._y, self._task = estimator, X, task.truths, task
        self.has_trees = _is_boosted(last_step(estimator))
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
        # Fit on copies: some estimators write into their input.
        estimator, X, y = clone(self._estimator), own_copy(X, X), y.copy()
        with config_context(enable_metadata_routing=False), one_openmp_thread_if_few(len(y)):
            return _fit_weighted(estimator, X, y, None if weights is None else weights.copy())


def _fit_weighted(estimator: Any, X: Any, y: NDArray[Any], weights: FloatArray | None) -> Any:
    """Fit an estimator, of a pipeline the last step with the weights, and return it; boosted trees may change X."""
    from sklearn.pipeline import Pipeline

    if type(estimator) is Pipeline and _is_boosted(last_step(estimator)):
        before = estimator[:-1]
        _fit_weighted(estimator.steps[-1][1], before.fit_transform(X, y) if len(before) else X, y, weights)
        estimator.steps[:-1] = before.steps  # with a memory they are copies
        return estimator
    if _is_boosted(estimator):
        X = _fill_empty_columns(X, weights, estimator.min_samples_leaf)
        if weights is not None and isinstance(X, np.ndarray) and X.dtype.kind == "f":
            _thin_values(X, weights, estimator.max_bins)
    given = {} if weights is None else {_sample_weight_name(estimator): weights}
    return estimator.fit(X, y, **given)


def _fill_empty_columns(X: Any, weights: FloatArray | None, fewest: int) -> Any:
    """Fill columns that have too few numbers for a leaf: no tree splits them, but scikit-learn needs one to bin."""

    def is_empty(column: Any) -> bool:
        is_known = ~np.isnan(np.asarray(column, dtype=np.float64))
        return bool((is_known if weights is None else is_known & (weights > 0.0)).sum() < fewest)

    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        for column in X.T:
            if is_empty(column):
                column[np.isnan(column)] = 0.0
    elif hasattr(X, "iloc"):
        for place, kind in enumerate(X.dtypes):
            if kind.kind == "f" and is_empty(X.iloc[:, place].to_numpy(dtype=np.float64, na_value=np.nan)):
                X.isetitem(place, X.iloc[:, place].fillna(0.0))
    elif hasattr(X, "with_columns"):
        floats = [each for each in X if each.dtype.is_float() and is_empty(each.to_numpy())]
        X = X.with_columns([each.fill_nan(0.0).fill_null(0.0) for each in floats])
    return X


def _thin_values(X: FloatArray, weights: FloatArray, most: int) -> None:
    """Leave at most so many values in each column, of groups with the same weight.

    These are the bins of the trees. With weights, scikit-learn takes longer to find them than to fit small trees.
    """
    for column in X.T:
        known = np.flatnonzero(~np.isnan(column))
        values, places = np.unique(column[known], return_inverse=True)
        if len(values) <= most:
            continue
        mass = np.bincount(places, weights[known])
        total = np.cumsum(mass)
        group = np.minimum(most * (total - 0.5 * mass) / total[-1], most - 1).astype(np.int64)
        first, last = np.searchsorted(group, group), np.searchsorted(group, group, side="right")
        column[known] = values[(first + last - 1) // 2][places]


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


# --- Boosted trees whose leaves get new values under other weights, while their structure stays


# Numbers up to this are exact in floating point.
_EXACT_BITS = 53
_MOST_NODES = 256


def _is_boosted(estimator: Any) -> bool:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return type(estimator) in (HistGradientBoostingClassifier, HistGradientBoostingRegressor)


def can_be_revalued(estimator: Any) -> bool:
    """Whether the values of an estimator's leaves are those of the pass: its loss has a plain form, and no bounds.

    Parameters
    ----------
    estimator : object
        Unfitted; only scikit-learn's histogram gradient boosting itself will do.
    """
    if not _is_boosted(estimator):
        return False
    is_plain = estimator.loss in ("log_loss", "squared_error") and estimator.monotonic_cst is None
    has_few_leaves = estimator.max_leaf_nodes is not None and 2 * estimator.max_leaf_nodes - 1 <= _MOST_NODES
    return is_plain and has_few_leaves and getattr(estimator, "class_weight", None) is None


class RevaluedTrees:
    """A fitted boosted model, and the leaf of every reference row in every tree.

    Parameters
    ----------
    fitted : HistGradientBoostingClassifier or HistGradientBoostingRegressor
        Fitted on the rows, one that `can_be_revalued`.
    X : array of shape (n_rows, n_columns)
        The rows that values are found on.
    targets : array of shape (n_rows,)
        Numbers to predict, or numbers of classes.
    """

    def __init__(self, fitted: Any, X: Any, targets: NDArray[Any]) -> None:
        self.fitted = fitted
        self._targets = targets.astype(np.float64)
        self._n_scores = int(fitted.n_trees_per_iteration_)
        self._n_nodes = max(len(tree.nodes) for step in fitted._predictors for tree in step)
        self._leaves = self.leaves_of(X)
        self._is_held = _rows_held_for_stopping(fitted, targets)
        if hasattr(fitted, "classes_"):
            self._loss = BINOMIAL if self._n_scores == 1 else MULTINOMIAL
        else:
            self._loss = SQUARED

    def leaves_of(self, X: Any) -> NDArray[np.uint8]:
        """Return the leaf of each row in each tree, of shape (n_steps, n_scores, n_rows)."""
        steps = self.fitted._predictors
        # Several trees at once: each has digits of its own in the sum of the trees' values.
        n_together = int(_EXACT_BITS / np.log2(max(2, self._n_nodes)))
        parts = []
        with one_openmp_thread_if_few(len(X)):
            n_threads = _openmp_effective_n_threads()
            rows = self.fitted._preprocess_X(X, reset=False)  # once: it takes longer than the trees
            for start in range(0, len(steps), n_together):
                numbered = self._with_values(
                    np.zeros(self._n_scores),
                    [
                        [np.arange(len(tree.nodes)) * float(self._n_nodes) ** place for tree in step]
                        for place, step in enumerate(steps[start : start + n_together])
                    ],
                    start,
                )
                found = np.zeros((len(rows), self._n_scores), order="F")
                numbered._predict_iterations(rows, numbered._predictors, found, False, n_threads)
                sums = found.T.astype(np.int64)
                for _ in range(len(numbered._predictors)):
                    parts.append((sums % self._n_nodes).astype(np.uint8))
                    sums //= self._n_nodes
        return np.ascontiguousarray(np.stack(parts))

    def values(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the score before the first tree and the values of all leaves, under these weights of the rows.

        Rows that early stopping held back count for no leaf, as in the fit.
        """
        if self._is_held is not None:
            weights = np.where(self._is_held, 0.0, weights)
        start = self._start(weights)
        scores = np.tile(start, (len(weights), 1))
        values = np.empty((*self._leaves.shape[:2], self._n_nodes))
        rate, penalty = float(self.fitted.learning_rate), float(self.fitted.l2_regularization)
        revalue_leaves(self._loss, self._leaves, self._targets, weights, rate, penalty, scores, values)
        return start, values

    def revalued(self, weights: FloatArray) -> Any:
        """Return the fitted model with the values that these weights of the rows give its leaves."""
        start, values = self.values(weights)
        return self._with_values(start, values)

    def scores(self, found: tuple[FloatArray, FloatArray], leaves: NDArray[np.uint8]) -> FloatArray:
        """Return the scores of rows whose leaves are known, given what `values` returned."""
        scores = np.tile(found[0], (leaves.shape[2], 1))
        add_leaves(leaves, found[1], scores)
        return scores

    def _start(self, weights: FloatArray) -> FloatArray:
        """Return the best constant scores."""
        if self._loss == SQUARED:
            return np.array([np.average(self._targets, weights=weights)])
        n_classes = max(2, self._n_scores)
        shares = np.bincount(self._targets.astype(np.int64), weights=weights, minlength=n_classes) / weights.sum()
        logs = np.log(np.clip(shares, 1e-15, 1.0))
        return logs[1:] - logs[0] if self._n_scores == 1 else logs - logs.mean()

    def _with_values(self, start: FloatArray, values: Any, first: int = 0) -> Any:
        """Return a copy of the model that has other values at its nodes, of the steps that there are values for."""
        twin = copy(self.fitted)
        twin._baseline_prediction = np.reshape(start, np.shape(self.fitted._baseline_prediction))
        twin._predictors = [
            [_revalue(tree, values[number][k]) for k, tree in enumerate(step)]
            for number, step in enumerate(self.fitted._predictors[first : first + len(values)])
        ]
        return twin


def _rows_held_for_stopping(fitted: Any, targets: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which rows the fit held back to decide when to stop; None if it held none back.

    scikit-learn does not say, so this repeats its split: from 10,000 rows on it stops early by default.
    """
    if not fitted.do_early_stopping_ or fitted.validation_fraction is None:
        return None
    from sklearn.model_selection import train_test_split

    _, held = train_test_split(
        np.arange(len(targets)),
        test_size=fitted.validation_fraction,
        stratify=targets if hasattr(fitted, "classes_") else None,
        random_state=fitted._random_seed,
    )
    is_held = np.zeros(len(targets), dtype=bool)
    is_held[held] = True
    return is_held


def _revalue(tree: Any, values: FloatArray) -> Any:
    twin = copy(tree)
    twin.nodes = tree.nodes.copy()
    twin.nodes["value"] = values[: len(tree.nodes)]
    return twin


# --- Trees on the same rows are searched once while a model is being made: held-out rows and replays share them


_SECONDS_BETWEEN_LOGS = 2.0
_shared_fits: ContextVar[dict[bytes, Any] | None] = ContextVar("shared_fits", default=None)


@contextmanager
def sharing_fits() -> Iterator[None]:
    """Search the same trees on the same rows once until the end of the block, in this thread."""
    token = _shared_fits.set({} if _shared_fits.get() is None else _shared_fits.get())
    try:
        yield
    finally:
        _shared_fits.reset(token)


def is_sharing_fits() -> bool:
    """Whether fits are shared now, because one is under way."""
    return _shared_fits.get() is not None


class FitLog:
    """Logs what a fit does once it has taken two seconds, at most every two seconds; fits inside a fit log nothing."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._is_inside = is_sharing_fits()

    def __call__(self, what: str) -> None:
        """Log what is done now."""
        now = time.monotonic()
        if not self._is_inside and (now - self._last >= _SECONDS_BETWEEN_LOGS or (what == "done" and self._is_long)):
            self._last = now
            LOGGER.info("Fit, after %.0f s: %s.", now - self._start, what)

    @property
    def _is_long(self) -> bool:
        return self._last > self._start


def _once(key: Callable[[], Iterator[bytes]], make: Callable[[], Any]) -> Any:
    """Return what ``make`` returns, from an earlier call with the same key if fits are shared."""
    known = _shared_fits.get()
    if known is None:
        return make()
    digest = blake2b(digest_size=16)
    for part in key():
        digest.update(part)
    name = digest.digest()
    if name not in known:
        known[name] = make()
    return known[name]


# --- Weighted empirical risk minimisation with boosted trees: fitted once, then only their leaves follow the
#     weights


@dataclass(frozen=True, eq=False)
class EstimatorRecipe:
    """The user's estimator.

    Attributes
    ----------
    estimator : object
        Unfitted.
    keeps_splits : bool
        Whether boosted trees keep their splits, and only their leaves follow the weights. All others are fitted anew.
    n_folds : int
        Folds by which boosted trees predict rows from fits without them.
    """

    estimator: Any
    keeps_splits: bool
    n_folds: int = N_FOLDS

    def on(self, X: Any, task: Task) -> ForeignErm:
        """Return how to fit it on these rows."""
        trees = self.estimator.steps[-1][1] if _is_pipeline(self.estimator) else self.estimator
        if self.keeps_splits and can_be_revalued(trees):
            return BoostedErm(self.estimator, X, task, self.n_folds)
        return ForeignErm(self.estimator, X, task)


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
    n_folds : int
    """

    refit_distance = 0.08
    refits_between_checks = 1
    rounds_between_checks = 32
    keeps_first_fit = True

    def __init__(self, estimator: Any, X: Any, task: Task, n_folds: int = N_FOLDS) -> None:
        super().__init__(estimator, X, task)
        self._n_folds = n_folds
        self._targets = task.strata if task.has_classes else task.truths
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
        """Return predictions from stratified folds."""
        scores = self._cross_fitted_scores(weights)
        if scores is None or not self._task.has_classes:
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

        order = by_folds(self._task.strata, self._n_folds, fit_fold)
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
        y = self._y[rows]

        def make() -> tuple[Any, RevaluedTrees]:
            fitted = self._fit_clone(X, y, weights)
            return fitted, RevaluedTrees(last_step(fitted), _before_last(fitted, X), self._targets[rows])

        def key() -> Iterator[bytes]:
            yield repr(sorted(self._estimator.get_params().items(), key=str)).encode()
            yield repr((np.shape(X), y.dtype)).encode()
            yield np.ascontiguousarray(X).tobytes()
            yield y.tobytes()
            yield b"" if weights is None else weights.tobytes()

        return _once(key, make) if isinstance(X, np.ndarray) and y.dtype.kind != "O" else make()


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


# --- The built-in predictors: logistic and softmax regression here, ridge regression below


_FEW_COEFS = 128
_LARGEST_SCALE = 1e100  # of a column; its inverse is the smallest


class ErmRecipe(Protocol):
    """What kind of predictor is fitted, on any rows."""

    def on(self, X: Any, task: Any) -> WeightedErm:
        """Return how to fit it on these rows and their task."""


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted logistic or softmax regression, with scikit-learn's attribute names.

    Attributes
    ----------
    coefs : array of shape (1 or n_classes, n_features + 1)
        The intercept is the last column.
    classes_ : array of shape (n_classes,)
    point : Point or None
        Where the fit ended, so that the next one can start there; None if there are few coefficients.
    bounds : Bounds or None
        How far out numbers are read. A coefficient that the reference hardly determines would be multiplied by whatever
        lies beyond its range.
    """

    coefs: FloatArray
    classes_: NDArray[Any]
    point: Point | None = field(default=None, compare=False, repr=False)
    bounds: Bounds | None = field(default=None, compare=False, repr=False)

    # Copies, not views: their products then have the same bits after the model was saved and loaded.
    @cached_property
    def coef_(self) -> FloatArray:
        """Coefficients of the columns, (1 or n_classes, n_features)."""
        return self.coefs[:, :-1].copy()

    @cached_property
    def intercept_(self) -> FloatArray:
        """The last coefficients, (1 or n_classes,)."""
        return self.coefs[:, -1].copy()

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return scores: one per row for two classes, otherwise one per row and class."""
        # The limit is large enough to change no answer and small enough that sums do not overflow.
        limited = np.maximum(X if self.bounds is None else self.bounds.clipped(X), -1e100)
        scores = by_row(np.minimum(limited, 1e100, out=limited), self.coef_) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Class probabilities of each row."""
        scores = self.decision_function(X)
        return _to_probabilities(scores if scores.ndim == 2 else scores[:, None])

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Most probable class of each row."""
        return np.asarray(self.classes_[_class_numbers(self.decision_function(X))])


class LinearErm(WeightedErm):
    """What the built-in regressions share: numbers clipped to bounds, and a penalty on standardised columns."""

    refit_distance = 0.04
    limits_blas = True

    def _read(self, X: FloatArray, scales: FloatArray | None, bounds: Bounds | None) -> FloatArray:
        """Keep the scales and bounds; return the rows as they are fitted."""
        self._bounds = bounds
        self._scales = None if scales is None else np.append(scales, 1.0)  # and that of the intercept
        rows = X if bounds is None else bounds.clipped(X)
        return rows if self._scales is None else rows / self._scales[:-1]

    def _to_scaled(self, coefs: FloatArray) -> FloatArray:
        return coefs if self._scales is None else coefs * self._scales

    def _to_raw(self, coefs: FloatArray) -> FloatArray:
        return coefs if self._scales is None else coefs / self._scales


class LogisticErm(LinearErm):
    """Built-in, warm-started logistic or softmax regression; a refit costs no more than the ratio's round.

    With ``scales``, the penalty acts on the coefficients of standardised columns. Predictors always have the
    coefficients of the raw columns. Only the scales matter: centring changes the intercept, which has no penalty.

    Attributes
    ----------
    rounds_between_checks : int
        32 for few coefficients, up to 256 for many.
    """

    def __init__(
        self,
        X: FloatArray,
        labels: IntArray,
        classes: NDArray[Any],
        C: float,
        scales: FloatArray | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        rows = self._read(X, scales, bounds)
        self._problem: LogisticProblem = make_problem(rows, labels, len(classes), C)
        self._classes = classes
        # Leaving out every row once takes time quadratic in the number of coefficients; a round takes linear time.
        n_coefs = self._problem.n_scores * self._problem.design.shape[1]
        self.rounds_between_checks = min(256, 32 * (1 + n_coefs // 64))
        self.is_quick_to_cross_fit = self._problem.has_small_hessian and n_coefs <= _FEW_COEFS
        self._has_rare_class = np.bincount(labels, minlength=len(classes)).min() < 2

    def fit(self, weights: FloatArray, previous: LinearPredictor | None) -> LinearPredictor:
        """Minimise the weighted objective, starting from the previous predictor."""
        start = None if previous is None else self._to_scaled(previous.coefs)
        coefs = solve_compiled(self._problem, weights, start, FULL if previous is None else ONE_ROUND)
        if coefs is not None:
            return LinearPredictor(self._to_raw(coefs), self._classes, bounds=self._bounds)
        with one_blas_thread():
            if self._problem.axes is None:
                coefs = solve(self._problem, weights, start)
                return LinearPredictor(self._to_raw(coefs), self._classes, bounds=self._bounds)
            return self._descend(weights, previous)

    def fit_each(self, weights: list[FloatArray], coefs: FloatArray) -> FloatArray:
        """Return what ``fit`` finds for each of some weights, given the coefficients to start from."""
        start = self._to_scaled(coefs)
        found = [solve_compiled(self._problem, *each, ONE_ROUND) for each in zip(weights, start, strict=True)]
        return np.array(
            [
                self.fit(weights[k], LinearPredictor(coefs[k], self._classes)).coefs
                if each is None
                else self._to_raw(each)
                for k, each in enumerate(found)
            ]
        )

    def restored(self, coef: FloatArray, intercept: FloatArray, point: Point | None) -> LinearPredictor:
        """Return a predictor that was fitted before, from its parts."""
        coefs = np.concatenate((coef, intercept[:, None]), axis=1)
        return LinearPredictor(coefs, self._classes, point, self._bounds)

    def _descend(self, weights: FloatArray, previous: LinearPredictor | None) -> LinearPredictor:
        # Departs from the paper: with many coefficients a round takes steps towards the optimum but does not reach it.
        effort = FULL if previous is None else ONE_ROUND
        point = descend_from(self._problem, weights, self._start(previous), effort)
        coefs = self._to_raw(self._problem.from_design(point.coefs))
        return LinearPredictor(coefs, self._classes, point, self._bounds)

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
        if self._has_rare_class:
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
    clips: bool = False

    def on(self, X: FloatArray, task: ClassTask) -> LogisticErm:
        """Return how to fit it on these rows."""
        bounds = Bounds.of(X) if self.clips else None
        return LogisticErm(X, task.labels, task.classes, self.C, self.scales, bounds)


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


def by_row(X: FloatArray, coef: FloatArray) -> FloatArray:
    """Return ``X @ coef.T``, where no row's bits depend on how many others there are; those of BLAS do."""
    return np.asarray(np.einsum("ij,kj->ik", np.ascontiguousarray(X), np.ascontiguousarray(coef)))


def _to_probabilities(scores: FloatArray) -> FloatArray:
    """Return the probabilities of all classes from one score per row, or from one score per row and class."""
    if scores.shape[1] == 1:
        probabilities = np.empty((2, len(scores)))
        share_classes(np.ascontiguousarray(scores[:, 0]), probabilities)
        return probabilities.T
    return np.asarray(softmax(scores, axis=1))


def _class_numbers(scores: FloatArray) -> IntArray:
    """Return the class by the sign of one score per row, or by the largest of several scores."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1) > 0.0).astype(np.int64)
    return scores.argmax(axis=1)


# --- The built-in predictor of numbers: importance-weighted ridge regression on the reference, in closed form


@dataclass(frozen=True)
class RidgePredictor:
    """A fitted ridge regression, with scikit-learn's attribute names.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    """

    coef_: FloatArray
    intercept_: float
    bounds: Bounds | None = field(default=None, compare=False, repr=False)
    point: ClassVar[None] = None

    @property
    def coefs(self) -> FloatArray:
        """Coefficients with the intercept in the last entry."""
        return np.append(self.coef_, self.intercept_)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the prediction for each row."""
        # The limit is large enough to change no answer and small enough that sums do not overflow.
        rows = X if self.bounds is None else self.bounds.clipped(X)
        return np.asarray(by_row(np.clip(rows, -1e100, 1e100), self.coef_[None])[:, 0] + self.intercept_)


class RidgeErm(LinearErm):
    """Built-in ridge regression; a refit costs less than the ratio's round. See `accous.core.ridge`.

    With ``scales``, the penalty acts on the coefficients of standardised columns. Predictors always have the
    coefficients of the raw columns.

    Attributes
    ----------
    rounds_between_checks : int
        32 for few coefficients, up to 256 for many.
    """

    def __init__(
        self,
        X: FloatArray,
        targets: FloatArray,
        alpha: float,
        scales: FloatArray | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        rows = self._read(X, scales, bounds)
        self._problem: RidgeProblem = make_ridge_problem(rows, targets, alpha)
        n_coefs = X.shape[1] + 1
        self.rounds_between_checks = min(256, 32 * (1 + n_coefs // 64))
        self.is_quick_to_cross_fit = n_coefs <= _FEW_COEFS

    def fit(self, weights: FloatArray, previous: RidgePredictor | None) -> RidgePredictor:
        """Minimise the weighted objective; with many columns, from the previous predictor."""
        found = solve_ridge_compiled(self._problem, weights)
        coefs = self._to_raw(self._solve(weights, previous) if found is None else found)
        # A copy, not a view: its products then have the same bits after the model was saved and loaded.
        return RidgePredictor(coefs[:-1].copy(), float(coefs[-1]), self._bounds)

    def _solve(self, weights: FloatArray, previous: RidgePredictor | None) -> FloatArray:
        # Departs from the paper: with many columns a round starts from the last solution and stops at nine digits.
        start = None if previous is None else self._to_scaled(previous.coefs)
        try:
            with one_blas_thread():
                return solve_ridge(self._problem, weights, start)
        except LinAlgError as error:
            raise DataError(f"The reference has numbers that are too large for a regression: {error}") from None

    def cross_fitted(self, weights: FloatArray, fitted: RidgePredictor, *, is_quick: bool = False) -> FloatArray | None:
        """Return exact leave-one-out predictions; None for fewer than two rows with a weight."""
        if np.count_nonzero(weights) < 2:
            return None
        return leave_one_out_predictions(self._problem, weights)

    def restored(self, coef: FloatArray, intercept: float, point: Point | None) -> RidgePredictor:
        """Return a predictor that was fitted before, from its parts."""
        return RidgePredictor(coef, float(intercept), self._bounds)


@dataclass(frozen=True, eq=False)
class RidgeRecipe:
    """The built-in ridge regression with its parameters."""

    alpha: float
    scales: FloatArray | None
    clips: bool = False

    def on(self, X: FloatArray, task: NumberTask) -> RidgeErm:
        """Return how to fit it on these rows."""
        return RidgeErm(X, task.targets, self.alpha, self.scales, Bounds.of(X) if self.clips else None)
