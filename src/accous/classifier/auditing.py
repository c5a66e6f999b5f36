"""Audits of an adaptive model: whether P(y | x) has changed, from rows whose labels arrived late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.classifier.task import Task
from accous.classifier.unreadable_values import naming_values
from accous.diagnostics.labels import Audit
from accous.exceptions import DataError
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows, select_columns

__all__ = ["Auditing"]


class Auditing:
    """The part of an adaptive model that audits labelled rows; it learns nothing from them."""

    state_: Any
    task_: Task
    base_weight_: FloatArray
    reference_: Any

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _errors(self, state: Any) -> NDArray[Any] | None: ...

    def audit(self, X: Any, y: Any) -> Audit:
        """Compare the error on labelled rows with the error to expect from the reference.

        The rows may come from any round: they are compared with the reference weighted to match them. The model does
        not learn from them.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
            At least one row.
        y : array of shape (n_rows,)
            Their labels; those of a classifier are among ``classes_``.
        """
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            raise DataError("audit needs at least one labelled row, got none.")
        truths = self.task_.read_known(y, count_rows(rows))
        state = self.state_
        with one_blas_thread():
            reference_errors = self._errors(state)
            if reference_errors is None:
                raise DataError(
                    f"audit needs more {self.task_.too_few} in the reference, because it fits without some rows."
                )
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                predicted = np.asarray(self._predictor(state).predict(rows))
            errors = self.task_.errors_on(truths, predicted)
            of_rows, of_reference = self._audit_features(state, rows, X)
            return self.task_.audit((errors, of_rows), (reference_errors, of_reference), self.base_weight_)

    def _audit_features(self, state: Any, rows: Any, X: Any) -> tuple[FloatArray, FloatArray]:
        """Features in which the densities and errors of audited and reference rows are compared."""
        features: tuple[FloatArray, FloatArray] | None = state.ratio.comparison_features(X)
        if features is not None:
            return features
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            return rows, np.asarray(self.reference_)
        return np.zeros((count_rows(rows), 1)), np.zeros((len(self.task_), 1))
