"""`AdaptiveRegressionModel`: an `accous.AdaptiveRegressor` behind river's ``learn_one`` and ``predict_one``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base

from accous.model.estimators import AdaptiveRegressor
from accous.river.one_by_one import OneByOne

__all__ = ["AdaptiveRegressionModel"]


class AdaptiveRegressionModel(OneByOne, base.Regressor):
    """A regressor for river's loops that follows drift without learning from labels after its reference.

    It is `accous.river.AdaptiveModel` for numbers: the first labelled rows become the reference, later rows are adapted
    to, and later labels are counted. Until there is a reference, the mean of the numbers so far is predicted. Numbers
    that are all the same are no reference.

    Parameters
    ----------
    model
        An unfitted `accous.AdaptiveRegressor`, whose copy is fitted. None is ``AdaptiveRegressor()``.
    n_reference
        Number of labelled rows in the reference, at least 2.
    ordered
        Whether to replay the reference in order of time when it is complete, which takes seconds.

    Attributes
    ----------
    fitted : AdaptiveRegressor or None
        The regressor, with ``risk_``, ``trust_``, ``measured_``, ``history_``; None before there is a reference.

    Examples
    --------
    >>> from accous.river import AdaptiveRegressionModel
    >>> from accous.streams import GaussianRegressionStream, SquareShift
    >>> model = AdaptiveRegressionModel(n_reference=100)
    >>> for batch in GaussianRegressionStream(SquareShift(period=50), n_features=2, n_rounds=200):
    ...     x, y = {"a": batch.X[0, 0], "b": batch.X[0, 1]}, float(batch.y[0])
    ...     y_pred = model.predict_one(x)
    ...     model.learn_one(x, y)
    >>> model.fitted.n_rounds_
    100
    """

    def __init__(self, model: AdaptiveRegressor | None = None, n_reference: int = 500, ordered: bool = False) -> None:
        super().__init__(model, AdaptiveRegressor, n_reference, ordered)
        self._n_seen, self._mean = 0, 0.0

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> float:
        """Predict the number of a row; 0 before the first label."""
        return self._mean if self.fitted is None else float(self._predict_row(x))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"n_reference": 50}

    def _note(self, y: Any) -> None:
        self._n_seen += 1
        self._mean += (float(y) - self._mean) / self._n_seen

    def _as_array(self, labels: list[Any]) -> Any:
        return np.array(labels, dtype=np.float64)
