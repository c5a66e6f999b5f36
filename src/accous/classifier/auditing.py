"""Audits of an adaptive classifier: whether P(y | x) has changed, from rows whose labels arrived late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.labels import read_known_labels
from accous.diagnostics.audits import Audit, audit_errors
from accous.exceptions import DataError
from accous.named_columns import select_columns
from accous.validation import count_rows

__all__ = ["Auditing"]


class Auditing:
    """The part of `accous.AdaptiveClassifier` that audits labelled rows; it learns nothing from them."""

    state_: Any
    classes_: NDArray[Any]
    labels_: IntArray
    base_weight_: FloatArray
    reference_: Any

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _is_wrong(self, state: Any) -> NDArray[np.bool_] | None: ...

    def audit(self, X: Any, y: Any) -> Audit:
        """Compare the error on labelled rows with the error to expect from the reference.

        The rows may come from any round: they are compared with the reference weighted to match them. The model does
        not learn from them.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
            At least one row.
        y : array of shape (n_rows,)
            Labels among ``classes_``.
        """
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            raise DataError("audit needs at least one labelled row, got none.")
        labels = read_known_labels(y, count_rows(rows), self.classes_)
        state = self.state_
        with one_blas_thread():
            is_reference_wrong = self._is_wrong(state)
            if is_reference_wrong is None:
                raise DataError(
                    "audit needs more rows of every class in the reference, because it fits without some rows."
                )
            is_wrong = np.asarray(self._predictor(state).predict(rows)) != self.classes_[labels]
            of_rows, of_reference = self._audit_features(state, rows, X)
            return audit_errors(is_wrong, of_rows, is_reference_wrong, of_reference, self.base_weight_)

    def _audit_features(self, state: Any, rows: Any, X: Any) -> tuple[FloatArray, FloatArray]:
        """Features in which the densities and errors of audited and reference rows are compared."""
        features: tuple[FloatArray, FloatArray] | None = state.ratio.comparison_features(X)
        if features is not None:
            return features
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            return rows, np.asarray(self.reference_)
        return np.zeros((count_rows(rows), 1)), np.zeros((len(self.labels_), 1))
