"""Prediction sets of an adaptive classifier: for every row the classes that hold the true one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.erm import WeightedErm
from accous.diagnostics.sets import conformal_sets
from accous.exceptions import DataError, ParameterError
from accous.named_columns import select_columns
from accous.parameters import require_number_in
from accous.validation import count_rows

__all__ = ["PredictingSets"]


class PredictingSets:
    """The part of `accous.AdaptiveClassifier` that predicts sets of classes."""

    state_: Any
    erm_: WeightedErm
    classes_: NDArray[Any]
    labels_: IntArray
    base_weight_: FloatArray

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _held_back(self, state: Any, ratios: FloatArray) -> FloatArray: ...

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
        require_number_in("alpha", alpha, 0.0, 1.0)
        if alpha in (0.0, 1.0):
            raise ParameterError(f"alpha must be above 0 and below 1, got {alpha!r}.")
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
            probabilities = self.erm_.cross_fitted_probabilities(weights, self._predictor(state))
            if probabilities is None:
                raise DataError(
                    "predict_set needs more rows of every class in the reference, because it fits without some rows."
                )
            state.cache["scores"] = 1.0 - probabilities[np.arange(len(self.labels_)), self.labels_]
        scores: FloatArray = state.cache["scores"]
        return scores

    def _row_weights(self, state: Any, X: Any) -> FloatArray:
        """Weights of new rows, on the scale of the reference weights."""
        of_reference = self._held_back(state, np.asarray(state.ratio.reference_ratio_, dtype=np.float64))
        total = float(self.base_weight_ @ of_reference)
        ratios = self._held_back(state, np.asarray(state.ratio.predict_ratio(X), dtype=np.float64))
        scale = self.base_weight_.mean() * self.base_weight_.sum()
        return ratios * (scale / total) if total > 0.0 else np.zeros_like(ratios)
