"""Prediction sets of an adaptive classifier: for every row the classes that hold the true one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.classifier.class_task import ClassTask
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import FixedModel
from accous.classifier.unreadable_values import naming_values
from accous.diagnostics.risk import conformal_sets
from accous.exceptions import DataError, ParameterError
from accous.parameters import require_share
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows, select_columns

__all__ = ["PredictingSets"]


class PredictingSets:
    """The part of `accous.AdaptiveClassifier` that predicts sets of classes."""

    state_: Any
    reference_: Any
    erm_: WeightedErm
    task_: ClassTask
    classes_: NDArray[Any]
    fixed_: FixedModel

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _is_fixed(self, state: Any) -> bool: ...

        def _row_weights(self, state: Any, X: Any) -> FloatArray: ...

    def predict_set(self, X: Any, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Predict a set of classes for each row that contains the true class with probability 1 - alpha.

        The probability holds over all rows of the current inputs, as long as the estimated ratio is right and
        P(y | x) stays: on real streams sets may hold fewer true classes than that. A set always has the class that
        ``predict`` returns, so none is empty.

        The sets are conformal sets, weighted by the current ratios. They use leave-one-out scores of the reference, or
        cross-fitted scores if you passed an ``estimator``, which must have ``predict_proba``.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
        alpha : float, default=0.1
            Share of rows whose true class may be missing from the set, above 0 and below 1.

        Returns
        -------
        array of bool of shape (n_rows, n_classes)
            Columns are in the order of ``classes_``.
        """
        self._require_fitted("state_")
        require_share("alpha", alpha)
        state = self.state_
        predictor = self._predictor(state)
        if not hasattr(predictor, "predict_proba"):
            raise ParameterError("predict_set needs an estimator with predict_proba.")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, len(self.classes_)), dtype=bool)
        with one_blas_thread():
            scores = self._reference_scores(state)
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                row_scores = 1.0 - np.asarray(predictor.predict_proba(rows), dtype=np.float64)
                predicted = self.task_.answers(predictor.predict(rows))
            sets = conformal_sets(scores, state.weights, row_scores, self._row_weights(state, X), float(alpha))
        # Where the model is right more often than asked for, the limit may exclude every class. A set without any
        # answers nothing, and one class more can only raise the coverage.
        sets[np.arange(len(sets)), predicted] = True
        return sets

    def _reference_scores(self, state: Any) -> FloatArray:
        """One minus the probability of each reference row's own label, from a fit without the row.

        Where such fits are slow, they are those of the last comparison with the fixed predictor.
        """
        if "scores" not in state.cache:
            found = self._find_scores(state)
            if found is None:
                raise DataError(
                    f"predict_set needs more {self.task_.too_few} in the reference, because it fits without some rows."
                )
            state.cache["scores"] = found
        scores: FloatArray = state.cache["scores"]
        return scores

    def _find_scores(self, state: Any) -> FloatArray | None:
        if self._is_fixed(state):
            return self.fixed_.scores()
        compared: FloatArray | None = state.fallback.check.scores
        if compared is not None:
            return compared
        return self.task_.set_scores(self.erm_, state.fitted_weights, self._predictor(state), is_quick=False)
