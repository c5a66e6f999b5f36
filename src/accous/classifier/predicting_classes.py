"""Probabilities and scores of an adaptive classifier, where its estimator has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from accous.arrays import FloatArray
from accous.validation import count_rows

__all__ = ["PredictingClasses"]


def _estimator_has(method: str) -> Any:
    def check(self: Any) -> bool:
        owner = self.state_.estimator if hasattr(self, "state_") else self.estimator
        if owner is not None:
            getattr(owner, method)
        return True

    return check


class PredictingClasses:
    """The methods of `accous.AdaptiveClassifier` that say how likely each class is."""

    classes_: NDArray[Any]

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predicted(self, method: str, rows: Any) -> NDArray[Any]: ...

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the class probabilities of each row with the current predictor."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, len(self.classes_)))
        return self._predicted("predict_proba", rows)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of each row under the current predictor."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty(0 if len(self.classes_) == 2 else (0, len(self.classes_)))
        return self._predicted("decision_function", rows)
