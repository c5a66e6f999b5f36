"""What a table's label is, classes or a number: how it is read, what the predictions show, and how they are scored.

The jobs and `TableModel` ask the kind of their model and know neither classes nor numbers.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.labels import ALPHA
from accous.exceptions import DataError
from accous.model.predictors import LinearPredictor
from accous.model.tasks import NumberTask
from accous.parameters import listed
from accous.tabular.formats.values import to_texts
from accous.tabular.label_tables import place_texts
from accous.threads import one_openmp_thread_if_few

__all__ = ["ClassKind", "LabelKind", "NumberKind", "kind_of"]

_DECIMALS, _DIGITS = 6, 9
_FEWEST_ROWS = 5  # fits without some rows need that many
_SMALLEST_PROBABILITY = 1e-12
_MOST_CLASSES = 200


class LabelKind(Protocol):
    """What depends on whether classes or numbers are predicted.

    Scores are what a round computes for each row: enough for all columns of the predictions. Answers are the
    predictions in a form that is quick to compare: class numbers, or the numbers themselves.
    """

    @property
    def names(self) -> list[str]:
        """The classes as text; empty if numbers are predicted."""

    @property
    def columns(self) -> dict[str, Any]:
        """Name and type of the columns that hold predictions."""

    def scores(self, model: Any, X: FloatArray) -> FloatArray:
        """Compute the scores of rows."""

    def no_scores(self, n_rows: int) -> FloatArray:
        """Return room for the scores of rows."""

    def shown(self, scores: FloatArray) -> dict[str, Any]:
        """Return the columns of the predictions."""

    def answers(self, scores: FloatArray) -> NDArray[Any]:
        """Return the answers of rows, given their scores."""

    def intervals(self, scores: FloatArray) -> FloatArray | None:
        """Return the ends of the prediction intervals as they are written; None if there are none."""

    def fixed_answers(self, model: Any, X: FloatArray) -> NDArray[Any]:
        """Return the answers of the fixed model."""

    def predictions(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Return answers as ``predict`` would."""

    def true_answers(self, texts: pl.Series) -> NDArray[Any]:
        """Return labels as answers; a label that has none differs from all answers."""

    def losses(self, model: Any, truths: NDArray[Any], answers: NDArray[Any]) -> NDArray[Any]:
        """Return the losses of answers."""

    def texts(self, column: pl.Series) -> pl.Series:
        """Return labels as text."""

    def values(self, texts: pl.Series) -> NDArray[Any]:
        """Return labels as ``observe`` takes them; classes that the reference does not have stay text."""

    def new_values(self, texts: pl.Series) -> NDArray[Any]:
        """Return labels as ``extend`` takes them."""

    def is_possible(self, texts: pl.Series) -> pl.Series:
        """Return which labels can be one of the model."""

    def stranger(self, texts: pl.Series) -> str | None:
        """Say what none of these labels is, if no one can be one of the model; there is at least one."""


@dataclass(frozen=True, eq=False)
class ClassKind:
    """The label is one of some classes."""

    classes: NDArray[Any]

    @cached_property
    def names(self) -> list[str]:
        """The classes as text."""
        return [str(each) for each in self.classes.tolist()]

    @property
    def columns(self) -> dict[str, Any]:
        """The class, and the probability of each class."""
        kind = pl.Int64() if self.classes.dtype.kind == "i" else pl.String()
        return {"prediction": kind} | {f"p_{name}": pl.Float64() for name in self.names}

    def scores(self, model: Any, X: FloatArray) -> FloatArray:
        """Compute scores whose softmax is the probabilities: log odds for two classes, else one for each class."""
        predictor = getattr(model, "estimator_", model)
        if isinstance(predictor, LinearPredictor):
            return np.asarray(predictor.decision_function(X))
        # Trees may be certain: the smallest probability has a finite logarithm.
        with one_openmp_thread_if_few(len(X)):
            logs = np.log(np.maximum(model.predict_proba(X), _SMALLEST_PROBABILITY))
        return np.asarray(logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs)

    def no_scores(self, n_rows: int) -> FloatArray:
        """Return one score per row for two classes, and one per row and class for more."""
        n_classes = len(self.classes)
        return np.zeros(n_rows if n_classes == 2 else (n_rows, n_classes))

    def shown(self, scores: FloatArray) -> dict[str, Any]:
        """Return the class and the rounded probabilities."""
        shares = np.round(self.probabilities(scores), _DECIMALS)
        columns: dict[str, Any] = {"prediction": pl.Series(self.classes.tolist()).gather(self.answers(scores))}
        return columns | {f"p_{name}": shares[:, number] for number, name in enumerate(self.names)}

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Class probabilities of each row: the softmax of its scores."""
        if scores.ndim == 1:
            scores = np.stack((np.zeros_like(scores), scores), axis=1)
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))

    def answers(self, scores: FloatArray) -> NDArray[Any]:
        """Most probable class of each row, by its number."""
        return (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)

    def intervals(self, scores: FloatArray) -> FloatArray | None:
        """Classes have no intervals."""
        return None

    def fixed_answers(self, model: Any, X: FloatArray) -> NDArray[Any]:
        """Return the class numbers of the fixed model."""
        return self.answers(self.scores(model.fixed_.estimator, X))

    def predictions(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Return classes."""
        return np.asarray(self.classes[answers])

    def true_answers(self, texts: pl.Series) -> NDArray[Any]:
        """Return the class numbers of labels, and -1 for other labels."""
        found = texts.replace_strict(self.names, list(range(len(self.names))), default=-1, return_dtype=pl.Int64)
        return found.fill_null(-1).to_numpy()

    def losses(self, model: Any, truths: NDArray[Any], answers: NDArray[Any]) -> NDArray[Any]:
        """Return where answers are wrong."""
        return np.asarray(answers != truths, dtype=np.int64)

    def texts(self, column: pl.Series) -> pl.Series:
        """Return labels as text; 7 and 7.0 are the same, unless one of them is the name of a class."""
        texts, as_they_are = place_texts(column), to_texts(column.alias("values"))
        return pl.select(pl.when(as_they_are.is_in(self.names)).then(as_they_are).otherwise(texts)).to_series()

    def values(self, texts: pl.Series) -> NDArray[Any]:
        """Return classes by their names; other names stay text."""
        by_name = dict(zip(self.names, self.classes.tolist(), strict=True))
        return np.array([by_name.get(name, name) for name in texts.to_list()], dtype=object)

    def new_values(self, texts: pl.Series) -> NDArray[Any]:
        """Return labels in the type of the classes, new ones included."""
        names = texts.to_list()
        n_classes = len({*names, *self.names})
        if n_classes > _MOST_CLASSES:
            raise DataError(
                f"With these rows there would be {n_classes} classes, more than {_MOST_CLASSES}: is this the label?"
            )
        if self.classes.dtype.kind not in "iu":
            return np.array(names, dtype=str)
        try:
            return np.array([int(name) for name in names], dtype=self.classes.dtype)
        except ValueError:
            odd = next(name for name in names if not name.removeprefix("-").isdecimal())
            raise DataError(f"The classes of the model are whole numbers, and the label {odd!r} is none.") from None

    def is_possible(self, texts: pl.Series) -> pl.Series:
        """Return which labels are classes."""
        return texts.is_in(self.names)

    def stranger(self, texts: pl.Series) -> str | None:
        """Say if no label is a class."""
        if self.is_possible(texts).any():
            return None
        return f"is a class of the reference ({listed(self.names)})"


@dataclass(frozen=True, eq=False)
class NumberKind:
    """The label is a number; predictions have an interval that holds nine of ten true numbers."""

    task: NumberTask

    @property
    def names(self) -> list[str]:
        """No names."""
        return []

    @property
    def columns(self) -> dict[str, Any]:
        """The number and the ends of its interval."""
        return dict.fromkeys(("prediction", "low", "high"), pl.Float64())

    def scores(self, model: Any, X: FloatArray) -> FloatArray:
        """Compute the predictions and their intervals; the ends are NaN if there are too few rows for an interval."""
        found = np.full((len(X), 3), np.nan)
        found[:, 0] = model.predict(X)
        if len(self.task) >= _FEWEST_ROWS:
            # Too few also where the ratio leaves all weight to one row, as for a batch far from the reference.
            with suppress(DataError):
                found[:, 1:] = model.predict_interval(X, ALPHA)
        return found

    def no_scores(self, n_rows: int) -> FloatArray:
        """Return three numbers per row."""
        return np.zeros((n_rows, 3))

    def shown(self, scores: FloatArray) -> dict[str, Any]:
        """Return the numbers, rounded to nine digits; no interval is a missing one."""
        rounded = _to_digits(scores)
        return {
            name: pl.Series(rounded[:, place], nan_to_null=True)
            for place, name in enumerate(("prediction", "low", "high"))
        }

    def answers(self, scores: FloatArray) -> NDArray[Any]:
        """Return the numbers as they are written."""
        return _to_digits(scores[:, 0])

    def intervals(self, scores: FloatArray) -> FloatArray | None:
        """Return low and high; NaN where there is no interval."""
        return _to_digits(scores[:, 1:])

    def fixed_answers(self, model: Any, X: FloatArray) -> NDArray[Any]:
        """Return the numbers of the fixed model."""
        with one_openmp_thread_if_few(len(X)):
            return _to_digits(np.asarray(model.fixed_.estimator.predict(X)))

    def predictions(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers."""
        return answers

    def true_answers(self, texts: pl.Series) -> NDArray[Any]:
        """Return numbers, and NaN for rows without one."""
        return np.asarray(texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(), dtype=np.float64)

    def losses(self, model: Any, truths: NDArray[Any], answers: NDArray[Any]) -> NDArray[Any]:
        """Return the losses that the model judges by."""
        return np.asarray(model.losses_on(truths, answers))

    def texts(self, column: pl.Series) -> pl.Series:
        """Return labels as text."""
        return place_texts(column)

    def values(self, texts: pl.Series) -> NDArray[Any]:
        """Return numbers; raise a DataError for a text that is none."""
        numbers = self.true_answers(texts)
        is_bad = ~np.isfinite(numbers)
        if is_bad.any():
            row = int(np.flatnonzero(is_bad)[0])
            raise DataError(f"The model predicts numbers, and the label {texts[row]!r} is none.")
        return numbers

    def new_values(self, texts: pl.Series) -> NDArray[Any]:
        """Return numbers."""
        return self.values(texts)

    def is_possible(self, texts: pl.Series) -> pl.Series:
        """Return which labels are numbers."""
        return pl.Series(np.isfinite(self.true_answers(texts)))

    def stranger(self, texts: pl.Series) -> str | None:
        """Say if no label is a number."""
        return None if self.is_possible(texts).any() else "is a number, which the model predicts"


def kind_of(model: Any) -> LabelKind:
    """Return the kind of the label of a fitted model."""
    return NumberKind(model.task_) if isinstance(model.task_, NumberTask) else ClassKind(model.classes_)


def _to_digits(values: FloatArray) -> FloatArray:
    """Round to nine significant digits, which keeps files small and readable."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = _DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    scale = np.where(np.isfinite(places), 10.0 ** np.clip(np.where(np.isfinite(places), places, 0.0), -300, 300), 1.0)
    rounded = np.round(values * scale) / scale
    return np.where(np.isfinite(places), rounded, values)
