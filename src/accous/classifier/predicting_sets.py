"""Prediction sets of an adaptive classifier: for every row the classes that hold the true one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.blas import one_blas_thread
from accous.classifier.class_task import ClassTask
from accous.classifier.erm import WeightedErm
from accous.diagnostics.sets import conformal_sets
from accous.exceptions import DataError, ParameterError
from accous.named_columns import select_columns
from accous.parameters import require_share
from accous.validation import count_rows

__all__ = ["PredictingSets"]


class PredictingSets:
    """The part of `accous.AdaptiveClassifier` that predicts sets of classes."""

    state_: Any
    erm_: WeightedErm
    task_: ClassTask
    classes_: NDArray[Any]
    base_weight_: FloatArray

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _row_weights(self, state: Any, X: Any) -> FloatArray: ...

    def predict_set(self, X: Any, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Predict a set of classes for each row that contains the true class with probability 1 - alpha.

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
            row_scores = 1.0 - np.asarray(predictor.predict_proba(rows), dtype=np.float64)
            return conformal_sets(scores, state.weights, row_scores, self._row_weights(state, X), float(alpha))

    def _reference_scores(self, state: Any) -> FloatArray:
        """One minus the probability of each reference row's own label, from a fit without the row."""
        is_fixed = state.fallback.veto.is_held
        weights = self.base_weight_ if is_fixed else state.fitted_weights
        if "scores" not in state.cache:
            found = self.task_.losses_of_fit(self.erm_, weights, self._predictor(state))
            if found is None:
                raise DataError(
                    f"predict_set needs more {self.task_.too_few} in the reference, because it fits without some rows."
                )
            state.cache["scores"] = found
        scores: FloatArray = state.cache["scores"]
        return scores
