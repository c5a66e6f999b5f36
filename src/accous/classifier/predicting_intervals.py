"""Prediction intervals of an adaptive regressor: for every row the numbers between which the true one lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import FixedModel
from accous.classifier.number_task import NumberTask
from accous.classifier.unreadable_values import naming_values
from accous.diagnostics.risk import conformal_intervals
from accous.exceptions import DataError
from accous.parameters import require_share
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows, select_columns

__all__ = ["PredictingIntervals"]


class PredictingIntervals:
    """The part of `accous.AdaptiveRegressor` that predicts intervals."""

    state_: Any
    reference_: Any
    task_: NumberTask
    erm_: WeightedErm
    fixed_: FixedModel

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _is_fixed(self, state: Any) -> bool: ...

        def _errors(self, state: Any) -> NDArray[Any] | None: ...

        def _row_weights(self, state: Any, X: Any) -> FloatArray: ...

    def predict_interval(self, X: Any, alpha: float = 0.1) -> FloatArray:
        """Predict an interval for each row that holds the true number with probability 1 - alpha.

        The probability holds as long as the estimated ratio is right and P(y | x) stays. On real streams it often does
        not: intervals at 90 % held 60 to 91 % of the true numbers (docs/trust.md). ``observe`` with ``intervals``
        counts how many lay inside.

        The intervals are conformal, weighted by the current ratios: prediction plus and minus the weighted quantile of
        the residuals of the reference, from fits without the row. They are as wide where the noise is small as where it
        is large, so they hold their probability over all rows of the current inputs, not for every single row.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
        alpha : float, default=0.1
            Share of rows whose true number may lie outside, above 0 and below 1. It is not the penalty of the model.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper ends; infinite where a row weighs too much for the reference to exclude any number.
        """
        self._require_fitted("state_")
        require_share("alpha", alpha)
        state = self.state_
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, 2))
        with one_blas_thread():
            residuals = self._residuals(state)
            if residuals is None:
                raise DataError(
                    f"predict_interval needs more {self.task_.too_few} in the reference, because it fits without some "
                    "rows."
                )
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                predicted = self.task_.answers(self._predictor(state).predict(rows))
            ends = conformal_intervals(residuals, state.weights, predicted, self._row_weights(state, X), float(alpha))
        return np.stack(ends, axis=1)

    def _residuals(self, state: Any) -> NDArray[Any] | None:
        """Residuals of the reference by fits without the row; where such fits are slow, those of the last comparison.

        Before the first comparison, the residuals of the fixed predictor stand for those of the adapted one.
        """
        if not self.erm_.is_slow_to_cross_fit or self._is_fixed(state):
            return self._errors(state)
        answers = state.fallback.check.answers
        return self.fixed_.errors() if answers is None else self.task_.errors(answers)
