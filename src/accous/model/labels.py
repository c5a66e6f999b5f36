"""Labels that come late: they measure the error, and may join the reference."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.labels import Audit, JudgedRows, LabelledRounds, LateLabels, MeasuredError, inside_of, measure
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import RECENT_ROWS
from accous.exceptions import DataError, ParameterError
from accous.model.input_errors import naming_values
from accous.model.predictors import WeightedErm
from accous.model.round import Joining, RoundRules, check_fit, share_in_use, weigh
from accous.model.safeguards import Check, Fallback, Fit, FixedModel, next_veto, shrink
from accous.model.tasks import LateTruths, Task, read_base_weights
from accous.parameters import require_choice, require_integer
from accous.ratio.base import RatioEstimator, ratios_of_reference, unchanged_on_failure
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import append_rows, count_rows, own_copy, select_columns

# --- Labels that arrive late: what an adaptive model measures with them, without learning from them


# What is cached of a state and does not depend on labels.
_FREE_OF_LABELS = ("errors", "scores", "coverage", "risk", "wide_risk")


class LateLabelling:
    """What an adaptive model measures with labels that arrive late."""

    state_: Any
    fixed_: FixedModel
    task_: Task
    base_weight_: FloatArray
    reference_: Any

    if TYPE_CHECKING:

        def _risk(self, state: Any) -> RiskEstimate: ...

        def _coverage(self, state: Any) -> Coverage: ...

        def _is_covered(self, state: Any, coverage: Coverage) -> bool: ...

        def turn(self) -> AbstractContextManager[Any]:  # noqa: D102
            ...

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        @property
        def _scale(self) -> LossScale: ...

    def observe(
        self,
        X: Any,
        y: Any,
        predicted: Any = None,
        predicted_fixed: Any = None,
        estimated: Any = None,
        intervals: Any = None,
        rounds: Any = None,
    ) -> Self:
        """Count labels that arrived late, for any rows of the stream in any order; read the result in ``measured_``.

        The predictor does not learn from them. A class that the reference does not have counts as an error of both
        models and is counted by name.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features), or None
            The rows. None if you only have predictions: then ``predicted`` is needed, and the rows are not tested for
            a changed P(y | x).
        y : array of shape (n_rows,)
            Their labels, oldest first: each row counts a little less than the next.
        predicted : array of shape (n_rows,), optional
            What ``predict`` returned for these rows at the time. None predicts them now.
        predicted_fixed : array of shape (n_rows,), optional
            The same for the fixed model, ``fixed_.estimator``.
        estimated : array of shape (n_rows, 3), optional
            The estimated error at the time of each row and the ends of its interval, to compare with; NaN where it is
            not known. None takes ``risk_`` at the time of this call.
        intervals : array of shape (n_rows, 2), optional
            Of a regressor, what ``predict_interval`` returned at the time with ``alpha=0.1``; NaN where there was none.
            ``measured_.intervals`` then counts how many true numbers lay inside.
        rounds : array of shape (n_rows,), optional
            ``n_rounds_`` when each row was predicted; NaN where it is not known. Rows that were predicted before others
            joined the reference (`extend`) are left out: they say nothing about the present predictors. Needs
            ``predicted``. None says that all were predicted since.
        """
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = None if X is None else self._read(X, reset=False, min_rows=0)
        if rows is None and predicted is None:
            raise DataError("observe needs the rows X, or what was predicted for them: pass X or predicted.")
        n_rows = count_rows(y) if rows is None else count_rows(rows)
        late = self.task_.read_late(y, n_rows)
        if rounds is not None:
            self._require_rounds(rounds, n_rows, predicted)
        if n_rows == 0:
            return self
        given = {"predicted": predicted, "predicted_fixed": predicted_fixed, "estimated": estimated}
        # The whole comparison: rows that join meanwhile would change the reference in the middle of it.
        with self.turn():
            judged = self._judge(X, rows, late, **given)
            if intervals is not None:
                judged = replace(judged, is_inside=self._inside(intervals, late, n_rows))
            self.add_judged_rows(judged, rounds)
        return self

    def _judge(
        self, X: Any, rows: Any, late: LateTruths, *, predicted: Any, predicted_fixed: Any, estimated: Any
    ) -> JudgedRows:
        """Compare the labels with the predictions of the time, or with those of now."""
        state = self.state_
        with one_blas_thread():
            errors = self._late_errors(self._predictor(state), rows, late, predicted, "predicted")
            fixed = None
            if rows is not None or predicted_fixed is not None:
                fixed = self._late_errors(self.fixed_.estimator, rows, late, predicted_fixed, "predicted_fixed")
            features = None if rows is None else self._kept_features(state, rows, X)
        return JudgedRows(
            losses=self.task_.losses(errors),
            losses_fixed=None if fixed is None else self.task_.losses(fixed),
            errors_fixed=fixed,
            is_unseen=late.is_unseen,
            unseen_names=late.unseen_names,
            estimates=self._estimates(state, estimated, len(late.is_unseen)),
            features=features,
            one=self._scale.one,
        )

    def is_before_joining(self, rounds: Any) -> BoolArray:
        """Return which rows were predicted before rows last joined the reference; none if none joined.

        Parameters
        ----------
        rounds : array of shape (n_rows,)
            ``n_rounds_`` when each row was predicted; NaN where it is not known.
        """
        joined = self.state_.joined
        last = 0 if joined is None else joined.n_rounds
        # In the very round in which rows joined, a row may have been predicted before or since: it counts.
        is_before: BoolArray = np.asarray(rounds, dtype=np.float64) < last
        return is_before

    @property
    def measured_(self) -> MeasuredError | None:
        """The error that late labels have measured, and whether it contradicts the estimate; None without labels."""
        state = self.state_
        return self._measured(state, self._coverage(state))

    def measured_given(self, coverage: Coverage, rounds: LabelledRounds | None = None) -> MeasuredError | None:
        """Return ``measured_`` with other findings about the recent rows, such as those about the columns of a table.

        Parameters
        ----------
        coverage : Coverage
        rounds : LabelledRounds, optional
            What labels measured round by round, if that is known.
        """
        return self._measured(self.state_, coverage, rounds)

    def _measured(self, state: Any, coverage: Coverage, rounds: LabelledRounds | None = None) -> MeasuredError | None:
        if state.late_labels is None:
            return None
        if "audit" not in state.cache:
            with one_blas_thread():
                state.cache["audit"] = self._audit_kept(state)
        # Coverage is about the latest rows: older labels are about rows that it says nothing of.
        is_older = state.n_rows - state.late_labels.last_row > RECENT_ROWS
        return measure(
            state.late_labels,
            n_stream=state.n_rows,
            audit=state.cache["audit"],
            scale=self._scale,
            is_covered=is_older or self._is_covered(state, coverage),
            rounds=rounds,
        )

    def add_judged_rows(self, rows: JudgedRows, rounds: Any = None) -> None:
        """Count labelled rows that were already compared with their predictions.

        Parameters
        ----------
        rows : JudgedRows
        rounds : array of shape (n_rows,), optional
            As for `observe`.
        """
        with self.turn():
            rows = rows if rounds is None else rows.part(~self.is_before_joining(rounds))
            if not len(rows):
                return
            labels = (self.state_.late_labels or LateLabels()).after(rows)
            labels = replace(labels, last_row=self.state_.n_rows)
            # Not over the items of the cache: threads that read add to it meanwhile.
            cache = self.state_.cache
            kept = {name: cache[name] for name in _FREE_OF_LABELS if name in cache}
            self.state_ = replace(self.state_, late_labels=labels, cache=kept)

    def _late_errors(self, predictor: Any, rows: Any, late: LateTruths, predicted: Any, name: str) -> NDArray[Any]:
        if predicted is None:
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                predicted = np.asarray(predictor.predict(rows))
        return self.task_.late_errors(late, predicted, name)

    def _inside(self, intervals: Any, late: LateTruths, n_rows: int) -> FloatArray:
        if self.task_.kind != "regressor":
            raise ParameterError("intervals are for numbers: a classifier predicts sets.")
        ends = np.asarray(intervals, dtype=np.float64)
        if ends.shape != (n_rows, 2):
            raise DataError(f"intervals must have the shape ({n_rows}, 2), got {ends.shape}.")
        return inside_of(ends, late.values)

    def _require_rounds(self, rounds: Any, n_rows: int, predicted: Any) -> None:
        if predicted is None:
            raise ParameterError("rounds says when rows were predicted: pass predicted too, or leave rounds out.")
        if np.shape(rounds) != (n_rows,):
            raise DataError(f"rounds must have the shape ({n_rows},), got {np.shape(rounds)}.")

    def _estimates(self, state: Any, estimated: Any, n_rows: int) -> FloatArray:
        if estimated is None:
            risk = self._risk(state)
            return np.tile((risk.adapted, risk.adapted_low, risk.adapted_high), (n_rows, 1))
        estimates = np.asarray(estimated, dtype=np.float64)
        if estimates.shape != (n_rows, 3):
            raise DataError(f"estimated must have the shape ({n_rows}, 3), got {estimates.shape}.")
        return estimates

    def _audit_kept(self, state: Any) -> Audit | None:
        """Test the kept rows for a changed P(y | x) by the errors of the fixed predictor, which are those of then."""
        rows = state.late_labels.audit_rows
        reference_errors = None if rows is None else self.fixed_.errors()
        if rows is None or reference_errors is None:
            return None
        reference = reference_errors, self._reference_features(state)
        return self.task_.audit((rows.errors_fixed, rows.features), reference, self.base_weight_)

    def _kept_features(self, state: Any, rows: Any, X: Any) -> FloatArray | None:
        """Return the features to keep of labelled rows: those of the ratio, or the rows themselves if it has none."""
        if getattr(state.ratio, "reference_features_", None) is not None:
            features: FloatArray = state.ratio.comparison_features(X)[0]
            return features
        return np.array(rows) if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" else None

    def _reference_features(self, state: Any) -> FloatArray:
        """Return the same features of the reference."""
        features = getattr(state.ratio, "reference_features_", None)
        return np.asarray(self.reference_ if features is None else features, dtype=np.float64)


# --- Labelled rows that join the reference later, so that a model recovers when P(y | x) has changed


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
