"""The oracle, a lower bound on the error: weighted ERM with the true ratio, which is unknown in practice."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.losses import effective_sample_size
from accous.model.predictors import LinearPredictor, LogisticErm

__all__ = ["Oracle"]


class Oracle:
    """The built-in regression on the reference, weighted with the ratios that ``adapt_to`` receives.

    It is fitted when somebody asks for it: rounds that are not scored cost no fit.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, as in `AdaptiveClassifier`.

    Examples
    --------
    >>> from accous_bench.oracle import Oracle
    >>> from accous.streams import GaussianStream, LinearShift
    >>> stream = GaussianStream(LinearShift(), n_rounds=10)
    >>> oracle = Oracle().fit(*stream.reference())
    >>> before = stream.risk(oracle.estimator_, alpha=0.1)
    >>> oracle.adapt_to(stream.reference_ratio(alpha=0.1))
    >>> stream.risk(oracle.estimator_, alpha=0.1) < before
    True
    """

    erm_: LogisticErm
    weights_: NDArray[np.float64]
    _fitted: LinearPredictor | None
    _is_fitted_to_weights: bool

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def __repr__(self) -> str:
        return f"Oracle(C={self.C!r})"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on the unweighted reference."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.erm_ = LogisticErm(np.ascontiguousarray(X, dtype=np.float64), labels, self.classes_, self.C)
        self.weights_ = np.ones(len(labels))
        self._fitted, self._is_fitted_to_weights = None, False
        return self

    def adapt_to(self, ratio: NDArray[np.float64]) -> None:
        """Take these ratios of the reference rows as weights; all are equal if none of the rows can occur."""
        mean = ratio.mean()
        weights = ratio / mean if mean > 0.0 else np.ones(len(ratio))
        if not np.array_equal(weights, self.weights_):
            self.weights_, self._is_fitted_to_weights = weights, False

    @property
    def estimator_(self) -> LinearPredictor:
        """The regression with the current weights."""
        if self._fitted is None or not self._is_fitted_to_weights:
            self._fitted = self.erm_.fit(self.weights_, self._fitted)
            self._is_fitted_to_weights = True
        return self._fitted

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row."""
        return np.asarray(self.estimator_.predict(X))

    @property
    def effective_sample_size_(self) -> float:
        """Effective number of rows under the true ratio."""
        return effective_sample_size(self.weights_)
