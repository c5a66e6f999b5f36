"""Boosted trees whose leaves get new values under other weights, while their structure stays.

A fit of scikit-learn's histogram gradient boosting searches the splits of every tree. With the splits kept, the values
of all leaves follow from one pass over the rows, in milliseconds instead of seconds
(`accous.core.kernels_fits`).
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.kernels_fits import BINOMIAL, MULTINOMIAL, SQUARED, add_leaves, revalue_leaves
from accous.threads import one_openmp_thread_if_few

__all__ = ["RevaluedTrees", "can_be_revalued"]

# Numbers up to this are exact in floating point.
_EXACT_BITS = 53
_MOST_NODES = 256


def can_be_revalued(estimator: Any) -> bool:
    """Whether the values of an estimator's leaves are those of the pass: its loss has a plain form, and no bounds.

    Parameters
    ----------
    estimator : object
        Unfitted; only scikit-learn's histogram gradient boosting itself will do.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if type(estimator) not in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
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
        for start in range(0, len(steps), n_together):
            numbered = self._with_values(
                np.zeros(self._n_scores),
                [
                    [np.arange(len(tree.nodes)) * float(self._n_nodes) ** place for tree in step]
                    for place, step in enumerate(steps[start : start + n_together])
                ],
                start,
            )
            with one_openmp_thread_if_few(len(X)):
                sums = np.asarray(numbered._raw_predict(X)).reshape(len(X), self._n_scores).T.astype(np.int64)
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
