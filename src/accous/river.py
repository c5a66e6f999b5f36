"""Adaptive models with river's interface, one dict at a time (extra ``river``).

Without river, the import says what to install.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from accous.arrays import FloatArray
from accous.exceptions import DataError, ParameterError
from accous.model.estimators import AdaptiveClassifier, AdaptiveRegressor
from accous.text import importing, require_integer

with importing("accous.river"):
    from river import base

__all__ = ["AdaptiveModel", "AdaptiveRegressionModel"]


# --- Dicts of features as rows of numbers


def feature_names(rows: list[dict[Any, float]]) -> list[Any]:
    """Return the features of all rows, sorted by what they are called, so that their order in a dict has no effect."""
    return sorted({name for row in rows for name in row}, key=str)


def rows_of(rows: list[dict[Any, Any]], names: list[Any]) -> FloatArray:
    """Return the values of these features; one that a row does not have is 0.

    Examples
    --------
    >>> rows_of([{"b": 2, "a": 1}, {"b": 3.5, "c": 4}], ["a", "b"])
    array([[1. , 2. ],
           [0. , 3.5]])
    """
    try:
        values = np.array([[row.get(name, 0.0) for name in names] for row in rows], dtype=np.float64)
    except (TypeError, ValueError):
        raise _not_a_number(rows, names) from None
    if not np.isfinite(values).all():
        raise _not_a_number(rows, names)
    return values.reshape(len(rows), len(names))


def _not_a_number(rows: list[dict[Any, Any]], names: list[Any]) -> DataError:
    """Return an error that names the first feature that is not a finite number."""
    name, value = next((name, row[name]) for row in rows for name in names if name in row and not _is_finite(row[name]))
    advice = "encode it, for example with river.preprocessing.OneHotEncoder"
    if value is None or isinstance(value, float):
        advice = "impute it, for example with river.preprocessing.StatImputer, or leave the feature out of x"
    return DataError(f"Feature {name!r} is {value!r}, not a number: {advice}.")


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


# --- What the models in river's loops share: rows one by one, the first labelled ones as the reference


class OneByOne:
    """Collects a reference, fits a model on it, then adapts the model row by row; see `accous.river.AdaptiveModel`.

    Parameters
    ----------
    model
        An unfitted adaptive model, whose copy is fitted, or None.
    default
        The class of the model; None stands for one with its default parameters.
    n_reference
        Number of labelled rows in the reference, at least 2.
    ordered
        Whether the reference is replayed in order of time.
    """

    def __init__(self, model: Any, default: type[Any], n_reference: int, ordered: bool) -> None:
        require_integer("n_reference", n_reference, at_least=2)
        if model is not None and not isinstance(model, default):
            raise ParameterError(
                f"model must be an {default.__name__}, got {type(model).__name__}: AdaptiveModel is for classes, "
                "AdaptiveRegressionModel for numbers."
            )
        self.model = model
        self.n_reference = n_reference
        self.ordered = ordered
        self.fitted: Any = None
        self._default = default
        self._names: list[Any] = []
        self._rows: list[dict[Any, float]] = []
        self._labels: list[Any] = []

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
        # What the model said at the time, before it learned from the row.
        self._count(row, y, predicted=self.fitted.step(row))

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

    def _note(self, y: Any) -> None:
        """Note a label, whether it joins the reference or is counted."""
        raise NotImplementedError

    def _as_array(self, labels: list[Any]) -> Any:
        """Return labels as the model reads them."""
        raise NotImplementedError

    def _predict_row(self, x: dict[Any, Any]) -> Any:
        return self.fitted.predict(rows_of([x], self._names)).tolist()[0]

    def _collect(self, x: dict[Any, Any], y: Any) -> None:
        """Add a row to the reference; if it is complete, fit."""
        self._rows.append(dict(zip(x, rows_of([x], list(x))[0].tolist(), strict=True)))
        self._labels.append(y)
        self._note(y)
        if len(self._rows) < self.n_reference:
            return
        if len(set(self._labels)) > 1:
            self._fit()
        else:
            # One label is not enough: wait for another, without more memory.
            del self._rows[0], self._labels[0]

    def _fit(self) -> None:
        names = feature_names(self._rows)
        model: Any = self._default() if self.model is None else clone(self.model)
        fitted = model.fit(rows_of(self._rows, names), np.array(self._labels), order=self.ordered)
        self._names, self.fitted = names, fitted
        self._rows, self._labels = [], []

    def _count(self, row: Any, y: Any, predicted: Any = None) -> None:
        self._note(y)
        self.fitted.observe(row, self._as_array([y]), predicted=predicted)


# --- AdaptiveModel: an accous.AdaptiveClassifier behind river's learn_one and predict_one


class AdaptiveModel(OneByOne, base.Classifier):
    """A classifier for river's loops that follows drift, and learns from labels.

    The first labelled rows become the reference: ``learn_one(x, y)`` collects them, and the classifier is fitted when
    there are ``n_reference`` rows with at least two classes. Until then the predictions are the shares of the labels
    seen so far. From then on,

    - ``learn_one(x)`` learns from a row without a label how the inputs drift;
    - ``learn_one(x, y)`` does the same, compares the label with what the model would have predicted before the row, and
      learns from the label (`accous.AdaptiveClassifier.observe`);
    - ``observe_one(x, y)`` does so with the label of a row that was learned from before.

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
        The classifier, with ``performance``, ``status_``, ``history_``; None before there is a reference.

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


# --- AdaptiveRegressionModel: an accous.AdaptiveRegressor behind river's learn_one and predict_one


class AdaptiveRegressionModel(OneByOne, base.Regressor):
    """A regressor for river's loops that follows drift, and learns from labels.

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
        The regressor, with ``performance``, ``status_``, ``history_``; None before there is a reference.

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
