"""Labels that arrive late: what an adaptive classifier measures with them, without learning from them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.fallback import FixedModel
from accous.classifier.labels import read_late_labels, read_predictions, require_kind_of_classes
from accous.diagnostics.audits import Audit, audit_errors
from accous.diagnostics.late_labels import JudgedRows, LateLabels
from accous.diagnostics.measured import MeasuredError, measure
from accous.diagnostics.risk import RiskEstimate
from accous.exceptions import DataError
from accous.named_columns import select_columns
from accous.validation import count_rows

__all__ = ["LateLabelling"]

# What is cached of a state and does not depend on labels.
_FREE_OF_LABELS = ("is_wrong", "scores", "coverage", "risk", "wide_risk")


class LateLabelling:
    """What an `accous.AdaptiveClassifier` measures with labels that arrive late."""

    state_: Any
    fixed_: FixedModel
    classes_: NDArray[Any]
    labels_: IntArray
    base_weight_: FloatArray
    reference_: Any

    if TYPE_CHECKING:

        def _risk(self, state: Any) -> RiskEstimate: ...

        def turn(self) -> AbstractContextManager[Any]:  # noqa: D102
            ...

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

    def observe(
        self, X: Any, y: Any, predicted: Any = None, predicted_fixed: Any = None, estimated: Any = None
    ) -> Self:
        """Count labels that arrived late, for any rows of the stream in any order; read the result in ``measured_``.

        The predictor does not learn from them. A label that the reference does not have counts as an error of both
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
        """
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = None if X is None else self._read(X, reset=False, min_rows=0)
        if rows is None and predicted is None:
            raise DataError("observe needs the rows X, or what was predicted for them: pass X or predicted.")
        n_rows = count_rows(y) if rows is None else count_rows(rows)
        labels = read_late_labels(y, n_rows)
        if n_rows == 0:
            return self
        state = self.state_
        with one_blas_thread():
            is_wrong = self._errors(self._predictor(state), rows, labels, predicted, "predicted")
            is_wrong_fixed = None
            if rows is not None or predicted_fixed is not None:
                is_wrong_fixed = self._errors(self.fixed_.estimator, rows, labels, predicted_fixed, "predicted_fixed")
            features = None if rows is None else self._kept_features(state, rows, X)
        known = frozenset(self.classes_.tolist())
        require_kind_of_classes(labels, self.classes_)
        self.add_judged_rows(
            JudgedRows(
                is_wrong=is_wrong,
                is_wrong_fixed=is_wrong_fixed,
                is_unseen=np.array([label not in known for label in labels], dtype=bool),
                unseen_names=tuple(str(label) for label in labels if label not in known),
                estimates=self._estimates(state, estimated, n_rows),
                features=features,
            )
        )
        return self

    @property
    def measured_(self) -> MeasuredError | None:
        """The error that late labels have measured, and whether it contradicts the estimate; None without labels."""
        return self._measured(self.state_)

    def _measured(self, state: Any) -> MeasuredError | None:
        if state.late_labels is None:
            return None
        if "measured" not in state.cache:
            with one_blas_thread():
                audit = self._audit_kept(state)
            state.cache["measured"] = measure(state.late_labels, n_stream=state.n_rows, audit=audit)
        measured: MeasuredError = state.cache["measured"]
        return measured

    def add_judged_rows(self, rows: JudgedRows) -> None:
        """Count labelled rows that were already compared with their predictions."""
        with self.turn():
            labels = (self.state_.late_labels or LateLabels()).after(rows)
            labels = replace(labels, last_row=self.state_.n_rows)
            # Not over the items of the cache: threads that read add to it meanwhile.
            cache = self.state_.cache
            kept = {name: cache[name] for name in _FREE_OF_LABELS if name in cache}
            self.state_ = replace(self.state_, late_labels=labels, cache=kept)

    def _errors(self, predictor: Any, rows: Any, labels: list[Any], predicted: Any, name: str) -> BoolArray:
        found = (
            np.asarray(predictor.predict(rows)).tolist()
            if predicted is None
            else read_predictions(predicted, len(labels), name)
        )
        return np.array([one != other for one, other in zip(found, labels, strict=True)], dtype=bool)

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
        is_reference_wrong = None if rows is None else self.fixed_.is_wrong()
        if rows is None or is_reference_wrong is None:
            return None
        of_reference = self._reference_features(state)
        return audit_errors(rows.is_wrong_fixed, rows.features, is_reference_wrong, of_reference, self.base_weight_)

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
