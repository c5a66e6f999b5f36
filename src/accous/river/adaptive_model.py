"""`AdaptiveModel`: an `accous.AdaptiveClassifier` behind river's ``learn_one`` and ``predict_one``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base
from sklearn.base import clone

from accous.classifier.adaptation import AdaptiveClassifier
from accous.parameters import require_integer
from accous.river.feature_rows import feature_names, rows_of

__all__ = ["AdaptiveModel"]

# Labels are compared with an estimate that is at most so many rounds old: reading one costs as much as several rounds.
_ROUNDS_BETWEEN_ESTIMATES = 64


class AdaptiveModel(base.Classifier):
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
        require_integer("n_reference", n_reference, at_least=2)
        self.model = model
        self.n_reference = n_reference
        self.ordered = ordered
        self.fitted: AdaptiveClassifier | None = None
        self._names: list[Any] = []
        self._rows: list[dict[Any, float]] = []
        self._labels: list[Any] = []
        self._seen: Counter[Any] = Counter()
        self._estimate = np.full(3, np.nan)

    def learn_one(self, x: dict[Any, Any], y: Any = None) -> None:
        """Learn from a row, with its label if it is known.

        Parameters
        ----------
        x
            The features, by name.
        y
            The label. None: not known, or not known yet.
        """
        if self.fitted is None:
            if y is not None:
                self._collect(x, y)
            return
        row = rows_of([x], self._names)
        if y is None:
            self.fitted.adapt(row)
            return
        # The error that the model had at the time, before it learned from the row.
        fixed = self.fitted.predict_fixed(row)
        predicted = self.fitted.step(row)
        self._count(row, y, predicted=predicted, predicted_fixed=fixed)

    def observe_one(self, x: dict[Any, Any], y: Any) -> None:
        """Count the label of a row that was learned from before; the row is predicted again for it.

        Parameters
        ----------
        x
            The features, by name.
        y
            The label.
        """
        if self.fitted is None:
            self._collect(x, y)
        else:
            self._count(rows_of([x], self._names), y)

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of a row; None before the first label."""
        if self.fitted is not None:
            return self.fitted.predict(rows_of([x], self._names)).tolist()[0]
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

    def _collect(self, x: dict[Any, Any], y: Any) -> None:
        """Add a row to the reference; if it is complete, fit."""
        self._rows.append(dict(zip(x, rows_of([x], list(x))[0].tolist(), strict=True)))
        self._labels.append(y)
        self._seen[y] += 1
        if len(self._rows) < self.n_reference:
            return
        if len(set(self._labels)) > 1:
            self._fit()
        else:
            # One class is not enough: wait for another, without more memory.
            del self._rows[0], self._labels[0]

    def _fit(self) -> None:
        names = feature_names(self._rows)
        model = AdaptiveClassifier() if self.model is None else clone(self.model)
        fitted = model.fit(rows_of(self._rows, names), np.array(self._labels), order=self.ordered)
        self._names, self.fitted = names, fitted
        self._rows, self._labels = [], []

    def _count(self, row: Any, y: Any, **predictions: Any) -> None:
        assert self.fitted is not None
        self._seen[y] += 1
        if self.fitted.n_rounds_ % _ROUNDS_BETWEEN_ESTIMATES == 1 or np.isnan(self._estimate[0]):
            risk = self.fitted.risk_
            self._estimate = np.array([risk.adapted, risk.adapted_low, risk.adapted_high])
        self.fitted.observe(row, np.array([y], dtype=object), **predictions, estimated=self._estimate[None])
