"""Labelled rows that join the reference later, so that a model recovers when P(y | x) has changed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import _safe_indexing

from accous.arrays import FloatArray, IntArray
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import Check, Fallback, FixedModel, next_veto
from accous.classifier.labels import read_base_weights
from accous.classifier.round import RoundRules, check_fit, share_in_use, weigh
from accous.classifier.shrinkage import Fit, shrink
from accous.classifier.state import Joining
from accous.classifier.task import Task
from accous.parameters import require_choice, require_integer
from accous.ratio.base.base import RatioEstimator, ratios_of_reference, unchanged_on_failure
from accous.threads import one_blas_thread
from accous.validation import append_rows, count_rows, own_copy, select_columns

__all__ = ["Extending", "rows_to_keep"]

FEWEST_PER_CLASS = 5
"""Rows of each class that never leave the reference: leaving rows out of a fit needs that many."""


class Extending:
    """What lets the reference of an adaptive model grow."""

    state_: Any
    erm_: WeightedErm
    fixed_: FixedModel
    rules_: RoundRules
    task_: Task
    base_weight_: FloatArray
    reference_: Any

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _make_erm(self) -> WeightedErm: ...

        def _make_rules(self, ratio: RatioEstimator) -> RoundRules: ...

        def _extend_order(self, n_rows: int, kept: IntArray, order_of_new: Any) -> None: ...

        def _verify_again(self) -> None: ...

        def _prepare_readings(self) -> None: ...

        def _split_in_halves(self) -> None: ...

        def turn(self) -> AbstractContextManager[Any]:  # noqa: D102
            ...

    def extend(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        order: Any = True,
        max_reference: int | None = None,
        drop: str = "oldest",
    ) -> Self:
        """Add labelled rows to the reference and fit again; what the rounds have learned goes on.

        Use it when late labels show that P(y | x) has changed, which no weighting of the old reference can correct.
        Call ``observe`` first if the same labels are to be measured: afterwards the model has seen them.

        The ratio keeps its theta, its learners and the scaling of the first fit, and counts the new rows as reference
        from now on. One-step ratios, and your own unless it implements ``on_reference``, start again with the next
        batch. The adapted predictor is fitted at once. The fixed predictor becomes the fit on the new reference without
        importance weights, so it is still what the adaptation is compared with. What ``measured_`` counted before
        counts for 50 rows at most, because it is about earlier predictors. Labels of a classifier may be new classes;
        predictions then have these classes too.

        It is not possible with `OnlineDensityRatio` or `SingleLearnerRatio` and a transformer as ``feature_map``: a
        loaded model fits the transformer on the whole reference, and theta belongs to the features of the first one.
        Fit a new model on the old rows and the new ones together, or transform the columns before they reach the model.

        A reference with an order in time is replayed again, once and from the middle, and the outcome takes the place
        of ``backtest_``. It decides anew how far estimates are believed and whether to adapt. If anything fails, the
        model stays as it was. Threads that learn wait meanwhile; do not predict with the model from another thread.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
            An empty one changes nothing.
        y : array of shape (n_rows,)
            Of the type of the reference's.
        sample_weight : array of shape (n_rows,), optional
            Base weights of the new rows. None gives each the mean base weight of the reference.
        order : bool or array of shape (n_rows,), default=True
            The new rows count as later than all others. True says that they are in order of time, and an array gives
            their times, as for ``fit``. False says that they have no order: then the reference has none any more, the
            backtest is dropped, and ``trust_`` says why nothing is verified. Ignored if the reference has no order.
        max_reference : int, optional
            Most rows of the reference. None is twice the number of rows that ``fit`` was given. A smaller number lets
            the old rows leave sooner after an abrupt change.
        drop : {"oldest", "least weight"}, default="oldest"
            Which rows leave if there are more: those that joined first, or those with the smallest importance weights
            now. Five rows of each class always stay.
        """
        self._require_fitted("state_")
        require_choice("drop", drop, ("oldest", "least weight"))
        if max_reference is not None:
            require_integer("max_reference", max_reference, at_least=2, or_else=" or None")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return self
        limit = 2 * self.state_.n_fitted if max_reference is None else int(max_reference)
        with self.turn(), unchanged_on_failure(self), one_blas_thread():
            task = self.task_.joined_by(y, count_rows(rows), type(self).__name__)
            base = self._join_weights(sample_weight, count_rows(rows))
            ratio = self.state_.ratio
            of_ratio = append_rows(ratio.reference_, ratio.read(X))
            ages = np.arange(len(task), dtype=np.float64)
            if drop == "least weight":
                ages = base * ratios_of_reference(ratio.on_reference(of_ratio))
            kept = rows_to_keep(task.strata, ages, limit)
            self._extend_order(len(task), kept, order)
            self.reference_ = _take(append_rows(self.reference_, rows), kept)
            self.task_, self.base_weight_ = task.part(kept), base[kept]
            self._split_in_halves()
            self._verify_again()
            self._fit_again(ratio.on_reference(_take(of_ratio, kept)))
            self._prepare_readings()
        return self

    def _fit_again(self, ratio: RatioEstimator) -> None:
        """Fit both predictors on the new reference; the ratio and the rounds go on."""
        before = self.state_
        self.erm_ = self._make_erm()
        fixed = self.erm_.fit(self.base_weight_, None)
        self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.task_, fixed)
        self.rules_ = rules = self._make_rules(ratio)
        tempered = before.fallback.tempered
        ratios = ratios_of_reference(ratio)
        if rules.has_fallback and ratio.keeps_record and not ratio.is_pooled:
            tempered, ratios = tempered.on_reference(ratios, float(ratio.max_ratio))
        weights = weigh(rules, ratios, self.base_weight_)
        fit, check = self._fit_on(rules, fixed, weights)
        self.state_ = replace(
            before,
            ratio=ratio,
            weights=weights,
            estimator=fit.estimator,
            fitted_weights=fit.weights,
            n_refits=fit.n_refits,
            last_refit=before.n_rounds,
            fallback=Fallback(tempered, share_in_use(rules, ratio, tempered, weights), check),
            watch=before.watch.on_other_reference(),
            rounds=before.rounds._replace(is_moved=fit.estimator is not fixed),
            joined=Joining(before.n_rounds, before.n_rows),
            late_labels=None if before.late_labels is None else before.late_labels.after_refit(self.task_.names),
            cache={},
        )

    def _fit_on(self, rules: RoundRules, fixed: Any, weights: FloatArray) -> tuple[Fit, Check]:
        """Fit the adapted predictor with the weights of the new reference, and compare it with the fixed one."""
        before = self.state_
        n_refits, strength = before.n_refits + 1, before.fallback.check.strength
        fit = Fit(fixed, self.base_weight_, n_refits, before.n_rounds)
        check = Check(next_veto(rules.guard, 0.0, 0.0, before.n_rounds, n_refits), strength, None)
        if share_in_use(rules, before.ratio, before.fallback.tempered, weights) == 0.0:
            return fit, check
        has_safeguards = rules.has_fallback and before.ratio.keeps_record
        shrunk = shrink(weights, self.base_weight_, strength) if has_safeguards else weights
        fit = fit._replace(estimator=self.erm_.fit(shrunk, None), weights=shrunk)
        return check_fit(rules, fit, strength, weights, before.n_rounds) if has_safeguards else (fit, check)

    def _join_weights(self, sample_weight: Any, n_rows: int) -> FloatArray:
        if sample_weight is None:
            return np.concatenate((self.base_weight_, np.full(n_rows, self.base_weight_.mean())))
        return np.concatenate((self.base_weight_, read_base_weights(sample_weight, n_rows)))


def _take(rows: Any, kept: IntArray) -> Any:
    return own_copy(_safe_indexing(rows, kept), None)


def rows_to_keep(strata: IntArray, values: FloatArray, limit: int) -> IntArray:
    """Return the rows with the largest values, at most ``limit``, in their order; five of each group always stay.

    Examples
    --------
    >>> rows_to_keep(np.array([0, 1, 0, 1, 0, 1]), np.arange(6.0), 4)
    array([0, 1, 2, 3, 4, 5])
    >>> rows_to_keep(np.zeros(8, dtype=int), np.arange(8.0), 6)
    array([2, 3, 4, 5, 6, 7])
    """
    if len(strata) <= limit:
        return np.arange(len(strata), dtype=np.int64)
    best_first = np.argsort(-values, kind="stable")
    is_kept = np.zeros(len(strata), dtype=bool)
    for number in np.unique(strata):
        is_kept[best_first[strata[best_first] == number][:FEWEST_PER_CLASS]] = True
    others = best_first[~is_kept[best_first]]
    is_kept[others[: max(0, limit - int(is_kept.sum()))]] = True
    return np.flatnonzero(is_kept)
