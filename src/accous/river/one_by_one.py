"""What the models in river's loops share: rows one by one, the first labelled ones as the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from accous.exceptions import ParameterError
from accous.parameters import require_integer
from accous.river.feature_rows import feature_names, rows_of

__all__ = ["OneByOne"]

# Labels are compared with an estimate that is at most so many rounds old: reading one costs as much as several rounds.
_ROUNDS_BETWEEN_ESTIMATES = 64


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

    def _count(self, row: Any, y: Any, **predictions: Any) -> None:
        self._note(y)
        if self.fitted.n_rounds_ % _ROUNDS_BETWEEN_ESTIMATES == 1 or np.isnan(self._estimate[0]):
            risk = self.fitted.risk_
            self._estimate = np.array([risk.adapted, risk.adapted_low, risk.adapted_high])
        self.fitted.observe(row, self._as_array([y]), **predictions, estimated=self._estimate[None])
