"""`AdaptiveModel`: an `accous.AdaptiveClassifier` behind river's ``learn_one`` and ``predict_one``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base

from accous.model.estimators import AdaptiveClassifier
from accous.river.feature_rows import rows_of
from accous.river.one_by_one import OneByOne

__all__ = ["AdaptiveModel"]


class AdaptiveModel(OneByOne, base.Classifier):
    """A classifier for river's loops that follows drift without learning from labels after its reference.

    The first labelled rows become the reference: ``learn_one(x, y)`` collects them, and the classifier is fitted when
    there are ``n_reference`` rows with at least two classes. Until then the predictions are the shares of the labels
    seen so far. From then on,

    - ``learn_one(x)`` learns from a row without a label how the inputs drift;
    - ``learn_one(x, y)`` does the same, and counts the label: it measures the error of the prediction that the model
      would have made before the row. The predictor does not learn from the label;
    - ``observe_one(x, y)`` counts the label of a row that was learned from before.

    Rows without a label are ignored before there is a reference. ``predict_one`` changes nothing.

    Features are numbers. Those of the reference are used: a feature that a row does not have counts as 0, as in
    river's linear models, and a feature that the reference does not have is ignored. Encode text before, for example
    with ``river.preprocessing.OneHotEncoder``.

    Parameters
    ----------
    model
        An unfitted `accous.AdaptiveClassifier`, whose copy is fitted. None is ``AdaptiveClassifier()``.
    n_reference
        Number of labelled rows in the reference, at least 2.
    ordered
        Whether to replay the reference in order of time when it is complete, which takes seconds. The replay decides
        how far estimated errors are believed, and whether to adapt.

    Attributes
    ----------
    fitted : AdaptiveClassifier or None
        The classifier, with ``risk_``, ``trust_``, ``measured_``, ``history_``; None before there is a reference.

    Examples
    --------
    >>> from accous.river import AdaptiveModel
    >>> from accous.streams import GaussianStream, SquareShift
    >>> model = AdaptiveModel(n_reference=100)
    >>> for batch in GaussianStream(SquareShift(period=50), n_features=2, n_rounds=200):
    ...     x, y = {"a": batch.X[0, 0], "b": batch.X[0, 1]}, int(batch.y[0])
    ...     y_pred = model.predict_one(x)
    ...     model.learn_one(x, y)
    >>> model.fitted.n_rounds_
    100
    """

    def __init__(self, model: AdaptiveClassifier | None = None, n_reference: int = 500, ordered: bool = False) -> None:
        super().__init__(model, AdaptiveClassifier, n_reference, ordered)
        self._seen: Counter[Any] = Counter()

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of a row; None before the first label."""
        if self.fitted is not None:
            return self._predict_row(x)
        return self._seen.most_common(1)[0][0] if self._seen else None

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of each label; one that only came after the reference has probability 0."""
        if self.fitted is None:
            n_seen = sum(self._seen.values())
            return {label: count / n_seen for label, count in self._seen.items()}
        if not hasattr(self.fitted, "predict_proba"):
            raise NotImplementedError("The estimator of this model has no probabilities.")
        shares = self.fitted.predict_proba(rows_of([x], self._names))[0].tolist()
        found = dict(zip(self.fitted.classes_.tolist(), shares, strict=True))
        return dict.fromkeys(self._seen, 0.0) | found

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"n_reference": 50}

    def _note(self, y: Any) -> None:
        self._seen[y] += 1

    def _as_array(self, labels: list[Any]) -> Any:
        return np.array(labels, dtype=object)
