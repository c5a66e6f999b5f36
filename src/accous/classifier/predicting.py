"""The predictions of an adaptive model, in scikit-learn's methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.classifier.fallback import FixedModel
from accous.classifier.task import Task
from accous.classifier.unreadable_values import naming_values
from accous.threads import one_openmp_thread_if_few
from accous.validation import count_rows

__all__ = ["Predicting"]


class Predicting:
    """The methods of an adaptive model that predict; none of them learns anything."""

    state_: Any
    fixed_: FixedModel
    task_: Task
    estimator: Any
    reference_: Any

    if TYPE_CHECKING:

        @property
        def estimator_(self) -> Any:  # noqa: D102
            ...

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict each row with the current predictor; an empty input gives an empty output."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        return self._predicted("predict", rows) if count_rows(rows) else self.task_.none

    def predict_fixed(self, X: Any) -> NDArray[Any]:
        """Predict with the model that never adapts."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
            return np.asarray(self.fixed_.estimator.predict(rows)) if count_rows(rows) else self.task_.none

    def _predicted(self, method: str, rows: Any) -> NDArray[Any]:
        """Call a method of the predictor in use; errors about a value in a frame name its column."""
        if self.estimator is None:
            return np.asarray(getattr(self.estimator_, method)(rows))
        with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
            return np.asarray(getattr(self.estimator_, method)(rows))
