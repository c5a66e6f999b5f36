"""NoShift: the ratio that is 1 everywhere, the paper's FIX."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.ratio.base import RatioEstimator
from accous.validation import count_rows, read_frame, read_rows

__all__ = ["NoShift"]


class NoShift(RatioEstimator):
    """Ratio 1 for every row: the baseline that never adapts ("FIX" in the paper's experiments).

    It checks width and column names like the other estimators. It does not read the values of a frame, so you can use
    it with any estimator, whatever the columns contain.

    Attributes
    ----------
    reference_ratio_ : array of ones of shape (n_reference,)
    n_rounds_ : int
        Number of rounds so far.
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import NoShift
    >>> NoShift().fit(np.zeros((5, 2))).predict_ratio(np.ones((3, 2)))
    array([1., 1., 1.])
    """

    n_reference_: int
    n_rounds_: int

    @property
    def reference_ratio_(self) -> FloatArray:
        """Ones."""
        return np.ones(self.n_reference_)

    def _read(self, X: Any, *, reset: bool, min_rows: int) -> Any:
        read = read_frame if hasattr(X, "columns") else read_rows
        return read(self, X, reset=reset, min_rows=min_rows)

    def _start(self, X: Any) -> None:
        self.n_reference_ = count_rows(X)
        self.n_rounds_ = 0

    def _play(self, X: Any) -> None:
        self.n_rounds_ += 1

    def history_in_use(self, n_rounds: int) -> float:
        """Return 0: nothing is learned."""
        return 0.0

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        return {"n_rounds": self.n_rounds_}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        self._start(X)
        self.n_rounds_ = plain["n_rounds"]

    def _ratio(self, X: Any) -> FloatArray:
        return np.ones(count_rows(X))
