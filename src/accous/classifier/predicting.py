"""The predictions of an adaptive classifier, in scikit-learn's methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from accous.arrays import FloatArray
from accous.classifier.fallback import FixedModel
from accous.classifier.text_values import naming_text
from accous.validation import count_rows

__all__ = ["Predicting"]


def _estimator_has(method: str) -> Any:
    def check(self: Any) -> bool:
        owner = self.state_.estimator if hasattr(self, "state_") else self.estimator
        if owner is not None:
            getattr(owner, method)
        return True

    return check


class Predicting:
    """The methods of `accous.AdaptiveClassifier` that predict; none of them learns anything."""

    state_: Any
    fixed_: FixedModel
    classes_: NDArray[Any]
    estimator: Any

    if TYPE_CHECKING:

        @property
        def estimator_(self) -> Any:  # noqa: D102
            ...

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row with the current predictor; an empty input gives an empty output."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        return self._predicted("predict", rows) if count_rows(rows) else self.classes_[:0]

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

    def predict_fixed(self, X: Any) -> NDArray[Any]:
        """Predict with the model that never adapts."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        with naming_text(rows):
            return np.asarray(self.fixed_.estimator.predict(rows)) if count_rows(rows) else self.classes_[:0]

    def _predicted(self, method: str, rows: Any) -> NDArray[Any]:
        """Call a method of the predictor in use; errors about a text in a frame name its column."""
        if self.estimator is None:
            return np.asarray(getattr(self.estimator_, method)(rows))
        with naming_text(rows):
            return np.asarray(getattr(self.estimator_, method)(rows))
