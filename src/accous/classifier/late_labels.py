"""Labels that arrive late: what an adaptive model measures with them, without learning from them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray
from accous.classifier.fallback import FixedModel
from accous.classifier.task import LateTruths, Task
from accous.classifier.unreadable_values import naming_values
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.labels import Audit, JudgedRows, LabelledRounds, LateLabels, MeasuredError, inside_of, measure
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import RECENT_ROWS
from accous.exceptions import DataError, ParameterError
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows, select_columns

__all__ = ["LateLabelling"]

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
