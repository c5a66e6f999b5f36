"""Class or number: what a model predicts, how labels are read, and what an error is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.diagnostics.coverage import (
    FEWEST_ROWS_PER_CLASS,
    columns_of_label,
    columns_of_number,
    follows_rows,
    rare_classes,
)
from accous.diagnostics.losses import ERRORS, LossScale, NumberLoss, scale_of_numbers, weighted_loss
from accous.exceptions import DataError, DataWarning
from accous.text import count

# --- What is predicted: classes or numbers. The code that adapts a predictor asks the task and knows neither


# --- Reads the labels and base weights that come with the rows of a reference


def read_labels(y: Any, n_rows: int, *, reader: str) -> tuple[NDArray[Any], IntArray]:
    """Return the sorted classes and the class number of each row; the error for a missing y names ``reader``."""
    if y is None:
        raise DataError(f"{reader} requires y to be passed, but the target y is None.")
    labels = read_plain_labels(y)
    _require_finite(labels)
    _require_classes(labels)
    require_as_many(labels, n_rows)
    classes, class_numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y holds the one class {classes.tolist()[0]!r}; a classifier needs at least two classes.")
    return classes, class_numbers


def _require_finite(labels: NDArray[Any]) -> None:
    is_infinite = np.isinf(labels) if labels.dtype.kind == "f" else np.zeros(1, dtype=bool)
    if is_infinite.any():
        row = int(np.flatnonzero(is_infinite)[0])
        shown = "infinity" if labels[row] > 0 else "-infinity"
        raise DataError(f"y holds {shown} in row {row}, which is not a class: correct it, or leave the row out.")


def _require_classes(labels: NDArray[Any]) -> None:
    try:
        check_classification_targets(labels)
    except ValueError as error:
        # The first words are those of scikit-learn, which its check_estimator looks for.
        kind = str(error).removeprefix("Unknown label type: ").partition(".")[0]
        raise DataError(
            f"Unknown label type: {kind}. y must hold classes: use AdaptiveRegressor to predict numbers."
        ) from error


def read_one_column(values: Any, name: str) -> NDArray[Any]:
    """Return one value for each row as an array, or raise a DataError for several columns."""
    try:
        return np.asarray(column_or_1d(values, warn=True))
    except ValueError as error:
        if _n_dimensions(values) == 1:
            raise DataError(f"{name} cannot be read: {str(error).splitlines()[0]}") from error
        shape = getattr(values, "shape", None)
        found = f"the shape {shape}" if shape else "rows with several"
        raise DataError(f"{name} must have one value for each row, got {found}: pass one column.") from error


def _n_dimensions(values: Any) -> int | None:
    try:
        return np.ndim(values)
    except ValueError:  # lists of different lengths
        return None


def require_as_many(labels: NDArray[Any], n_rows: int) -> None:
    """Raise a DataError if there is not one label for each row."""
    if len(labels) != n_rows:
        # The words in brackets are for scikit-learn's check_estimator.
        raise DataError(
            f"X has {count(n_rows, 'row')} but y has {count(len(labels), 'label')} (inconsistent numbers of samples): "
            "pass one label for each row, and leave rows out of both or of neither."
        )


def read_plain_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array; raise a DataError that names the row of a missing one, or two types that are mixed."""
    if isinstance(y, (list, tuple)):
        # numpy would turn all of them into text.
        _require_one_type(list(y))
    labels = read_one_column(y, "y")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        _require_labels(labels.tolist())
    elif labels.dtype.kind == "O":
        _require_labels(labels.tolist())
        _require_one_type(labels.tolist())
    return labels


def _require_labels(labels: list[Any]) -> None:
    for row, label in enumerate(labels):
        if _is_missing(label):
            value = "NaN" if isinstance(label, float) else str(label)
            raise DataError(f"y holds {value} in row {row}: give every row a label, or leave rows without one out.")


def _is_missing(label: Any) -> bool:
    # pandas has missing values of its own, which equal nothing and raise an error in a condition.
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)  # noqa: PLR0124


def _require_one_type(labels: list[Any]) -> None:
    """Raise a DataError if some labels are text and others are not: they have no order, and 1 is not "1"."""
    texts = [isinstance(label, str) for label in labels if not _is_missing(label)]
    if any(texts) and not all(texts):
        row, other = (
            next(row for row, each in enumerate(labels) if isinstance(each, str) is is_text)
            for is_text in (True, False)
        )
        raise DataError(
            f"y mixes types: {labels[row]!r} in row {row} is text, {labels[other]!r} in row {other} is of type "
            f"{type(labels[other]).__name__}. Convert all labels to one type."
        )


def read_late_labels(y: Any, n_rows: int) -> list[Any]:
    """Return labels of any classes as plain values; raise a DataError for missing ones."""
    if isinstance(y, (list, tuple)):
        _require_one_type(list(y))
    labels = read_predictions(y, n_rows, "y")
    _require_labels(labels)
    return labels


def require_kind_of_classes(labels: list[Any], classes: NDArray[Any]) -> None:
    """Raise a DataError if labels are no classes, but would be if they were text instead of numbers or the reverse."""
    known = classes.tolist()
    names = {str(each) for each in known}
    if not any(label in known for label in labels) and any(str(label) in names for label in labels):
        raise DataError(
            f"y has labels such as {labels[0]!r}, but the classes are {', '.join(map(repr, known[:3]))}: "
            f"pass {'numbers' if isinstance(labels[0], str) else 'text'}."
        )


def wrong_length(name: str, n_values: int, n_rows: int) -> DataError:
    """Return the error about an argument that does not have one value for each row."""
    return DataError(
        f"{name} has {count(n_values, 'value')} for {count(n_rows, 'row')} (inconsistent numbers of samples): pass one "
        "value for each row."
    )


def read_predictions(predicted: Any, n_rows: int, name: str) -> list[Any]:
    """Return one value for each row, as plain values; ``name`` is the argument's, for the error."""
    # scikit-learn's check costs more than counting a few rows.
    is_plain = type(predicted) is np.ndarray and predicted.ndim == 1
    values = predicted if is_plain else read_one_column(predicted, name)
    if len(values) != n_rows:
        raise wrong_length(name, len(values), n_rows)
    found: list[Any] = values.tolist()
    return found


def read_base_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """Return a copy of the base weights, or ones for None."""
    try:
        base = _check_sample_weight(sample_weight, np.empty((n_rows, 1)), dtype=np.float64)
    except (ValueError, TypeError) as error:
        shape = np.shape(sample_weight) if _n_dimensions(sample_weight) is not None else "of a list of lists"
        raise DataError(
            f"sample_weight must have one number for each of the {n_rows} rows, got the shape {shape} ({error})."
            if shape != (n_rows,)
            else f"sample_weight must be finite numbers ({error})."
        ) from error
    if not np.isfinite(base).all() or base.min() < 0.0 or base.sum() <= 0.0:
        raise DataError("sample_weight must be finite, non-negative and not all zero.")
    return np.array(base)


# --- The task of a classifier: every label is one of a few classes, and a prediction is right or wrong


@dataclass(frozen=True, eq=False)
class ClassTask:
    """The classes of a reference; see `accous.model.tasks.Task`.

    Attributes
    ----------
    classes : array of shape (n_classes,)
    labels : array of shape (n_reference,)
        Class numbers.
    """

    kind: ClassVar[str] = "classifier"
    has_classes: ClassVar[Literal[True]] = True

    classes: NDArray[Any]
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def truths(self) -> NDArray[Any]:
        """Class of each reference row."""
        return np.asarray(self.classes[self.labels])

    @property
    def strata(self) -> IntArray:
        """Class number of each reference row."""
        return self.labels

    @property
    def none(self) -> NDArray[Any]:
        """No classes."""
        return self.classes[:0]

    @property
    def loss_name(self) -> str:
        """The loss is the error."""
        return ERRORS.loss

    @property
    def stored(self) -> dict[str, NDArray[Any]]:
        """Classes and class numbers."""
        return {"classes": self.classes, "labels": self.labels}

    @property
    def too_few(self) -> str:
        """What the reference needs more of."""
        return "rows of every class"

    @property
    def is_constant(self) -> bool:
        """Whether there is one class only."""
        return len(self.classes) == 1

    def part(self, rows: IntArray) -> ClassTask:
        """Return the task of some rows, with the classes that they have."""
        numbers, labels = np.unique(self.labels[rows], return_inverse=True)
        return ClassTask(self.classes[numbers], labels)

    def findings(self) -> list[str]:
        """Name classes with too few rows."""
        return [
            f"Class {str(self.classes[number])!r} has only {count(int((self.labels == number).sum()), 'row')}: with "
            f"fewer than {FEWEST_ROWS_PER_CLASS}, its predictions and the estimated error cannot be relied on."
            for number in rare_classes(self.labels).tolist()
        ]

    def columns_of_label(self, rows: FloatArray) -> list[tuple[int, str]]:
        """Return the columns that determine the class of nearly all rows."""
        found = columns_of_label(rows, self.labels)
        return [(column, f"the label of {accuracy:.1%} of the rows") for column, accuracy in found]

    def answers(self, predicted: Any) -> IntArray:
        """Return class numbers."""
        return np.searchsorted(self.classes, predicted)

    def errors(self, answers: NDArray[Any]) -> BoolArray:
        """Which reference rows have another class."""
        return np.asarray(answers != self.labels, dtype=bool)

    def errors_on(self, truths: Any, predicted: Any) -> BoolArray:
        """Which rows have another class than the predicted one."""
        return np.asarray(predicted != truths, dtype=bool)

    def losses(self, errors: NDArray[Any]) -> FloatArray:
        """Return 1 for wrong rows and 0 for others."""
        return errors.astype(np.float64)

    def scale(self, losses: FloatArray | None, weights: FloatArray) -> LossScale:
        """Return the scale of errors, which are between 0 and 1."""
        return ERRORS

    def held_out(self, erm: Any, weights: FloatArray, fitted: Any) -> tuple[IntArray, FloatArray] | None:
        """Return the class number of each row by a fit without it, and one minus the probability of its own class."""
        shares = erm.cross_fitted_probabilities(weights, fitted)
        if shares is None or shares.shape[1] > 2:
            return None if shares is None else (shares.argmax(axis=1), self._score(shares))
        # The same for two classes, in a quarter of the time.
        of_second = shares[:, 1]
        return (of_second > shares[:, 0]).astype(np.int64), np.abs(self.labels - of_second)

    def set_scores(self, erm: Any, weights: FloatArray, fitted: Any, *, is_quick: bool) -> FloatArray | None:
        """Return the same losses, from quick fits if they are slow."""
        quickly = {"is_quick": is_quick} if erm.is_slow_to_cross_fit else {}
        shares = erm.cross_fitted_probabilities(weights, fitted, **quickly)
        return None if shares is None else self._score(shares)

    def _score(self, probabilities: FloatArray) -> FloatArray:
        return 1.0 - probabilities[np.arange(len(self)), self.labels]

    def read_late(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return labels of any classes."""
        labels = read_late_labels(y, n_rows)
        require_kind_of_classes(labels, self.classes)
        found = np.empty(n_rows, dtype=object)
        found[:] = labels
        return found

    def can_be_classes(self, labels: NDArray[Any]) -> BoolArray:
        """Return which labels are of the type of the classes: text, or numbers."""
        is_text = _is_text(self.classes)
        return np.array([isinstance(label, str) is is_text for label in labels], dtype=bool)

    def joined_by(self, y: Any, n_rows: int, reader: str) -> ClassTask:
        """Return the task with some more labels, which may be new classes of the same type."""
        labels = self._joined_labels(y, n_rows)
        return read_class_task(labels, len(labels), reader=reader)

    def _joined_labels(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return the labels of the reference and the new ones, of one type."""
        new, old = read_plain_labels(y), self.truths
        require_as_many(new, n_rows)
        is_same_kind = all(each.dtype.kind in "biuf" for each in (old, new)) or old.dtype.kind == new.dtype.kind
        if old.dtype != new.dtype and _is_text(old) and _is_text(new):
            # Text as numpy has it, or as objects: pandas, lists and polars differ.
            new = new.astype(object if old.dtype.kind == "O" else np.str_)
        elif not is_same_kind:
            raise DataError(
                f"y holds values of type {new.dtype}, but the classes are of type {old.dtype}: convert y to that type."
            )
        if old.dtype.kind in "biu" and new.dtype.kind in "biuf" and np.array_equal(new, new.astype(old.dtype)):
            new = new.astype(old.dtype)
        return np.concatenate((old, new))


def read_class_task(y: Any, n_rows: int, *, reader: str) -> ClassTask:
    """Read the labels of a reference; at least two classes."""
    return ClassTask(*read_labels(y, n_rows, reader=reader))


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and all(isinstance(each, str) for each in labels))


# --- Reads numbers to predict


LARGEST_TARGET = 1e100  # the sums of squares of such numbers are numbers


def read_targets(y: Any, n_rows: int, *, reader: str) -> FloatArray:
    """Return the numbers of a reference; the error for a missing y names ``reader``."""
    if y is None:
        raise DataError(f"{reader} requires y to be passed, but the target y is None.")
    return read_numbers(y, n_rows)


def read_numbers(y: Any, n_rows: int, *, name: str = "y") -> FloatArray:
    """Return a copy of one number for each row; raise a DataError that names the row of what is none.

    Parameters
    ----------
    y : array of shape (n_rows,)
    n_rows : int
    name : str
        What the argument is called.
    """
    values = read_plain_labels(y) if name == "y" else read_one_column(y, name)
    if name == "y":
        require_as_many(values, n_rows)
    elif len(values) != n_rows:
        raise wrong_length(name, len(values), n_rows)
    try:
        if values.dtype.kind == "c":
            raise TypeError
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(_no_number(values, name)) from None
    is_bad = ~(np.abs(numbers) <= LARGEST_TARGET)
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        named = {"inf": "infinity", "-inf": "-infinity", "nan": "NaN"}
        shown = named.get(str(numbers[row]), repr(values.tolist()[row]))
        raise DataError(f"{name} holds {shown} in row {row}: use finite numbers of at most {LARGEST_TARGET:g}.")
    return numbers


def _no_number(values: Any, name: str) -> str:
    for row, value in enumerate(values.tolist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return (
                f"{name} holds {value!r} in row {row}, which is not a number: AdaptiveRegressor predicts numbers, "
                "AdaptiveClassifier classes."
            )
    return f"{name} must hold real numbers."


# --- The task of a regressor: every label is a number, and a prediction is off by their difference


_LARGEST_LOSS = 1e150  # its square is a number


@dataclass(frozen=True, eq=False)
class NumberTask:
    """The numbers of a reference; see `accous.model.tasks.Task`.

    Attributes
    ----------
    targets : array of shape (n_reference,)
    loss : NumberLoss
        By which predictions are judged.
    """

    kind: ClassVar[str] = "regressor"
    has_classes: ClassVar[Literal[False]] = False

    targets: FloatArray
    loss: NumberLoss

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def truths(self) -> FloatArray:
        """The number of each reference row."""
        return self.targets

    @property
    def strata(self) -> IntArray:
        """One group of all rows."""
        return np.zeros(len(self.targets), dtype=np.int64)

    @property
    def none(self) -> FloatArray:
        """No numbers."""
        return np.empty(0)

    @property
    def loss_name(self) -> str:
        """Name of the loss, such as "absolute"."""
        return str(self.loss)

    @property
    def stored(self) -> dict[str, NDArray[Any]]:
        """The numbers."""
        return {"targets": self.targets}

    @property
    def too_few(self) -> str:
        """What the reference needs more of."""
        return "rows"

    @property
    def is_constant(self) -> bool:
        """Never: a regression of equal numbers is a constant."""
        return False

    def part(self, rows: IntArray) -> NumberTask:
        """Return the task of some rows."""
        return NumberTask(self.targets[rows], self.loss)

    def findings(self) -> list[str]:
        """Say if all numbers are equal."""
        is_constant = float(np.ptp(self.targets)) == 0.0
        return [f"All rows have the label {self.targets[0]:g}: there is nothing to learn."] if is_constant else []

    def columns_of_label(self, rows: FloatArray) -> list[tuple[int, str]]:
        """Return the columns that determine the number."""
        found = columns_of_number(rows, self.targets)
        return [(column, f"{share:.1%} of the variance of the label") for column, share in found]

    def answers(self, predicted: Any) -> FloatArray:
        """Return the predictions as they are."""
        return np.asarray(predicted, dtype=np.float64).reshape(-1)

    def errors(self, answers: NDArray[Any]) -> FloatArray:
        """Return the residuals of the reference rows."""
        return np.asarray(self.targets - answers)

    def errors_on(self, truths: Any, predicted: Any) -> FloatArray:
        """Return the residuals of other rows."""
        return np.asarray(np.asarray(truths, dtype=np.float64) - self.answers(predicted))

    def losses(self, errors: NDArray[Any]) -> FloatArray:
        """Return the losses of residuals."""
        return np.minimum(self.loss(errors, np.zeros(1)), _LARGEST_LOSS)

    def scale(self, losses: FloatArray | None, weights: FloatArray) -> LossScale:
        """Return the scale that the losses of the fixed predictor give."""
        spread = weighted_loss(self.losses(self.targets - np.median(self.targets)), weights)
        of_reference = float("nan") if losses is None else weighted_loss(losses, weights)
        return scale_of_numbers(self.loss_name, of_reference, spread)

    def held_out(self, erm: Any, weights: FloatArray, fitted: Any) -> tuple[FloatArray, FloatArray] | None:
        """Return the prediction of each row by a fit without it, and its loss."""
        answers = erm.cross_fitted(weights, fitted)
        return None if answers is None else (answers, self.losses(self.errors(answers)))

    def set_scores(self, erm: Any, weights: FloatArray, fitted: Any, *, is_quick: bool) -> None:
        """Return nothing: intervals are made of residuals."""

    def read_late(self, y: Any, n_rows: int) -> FloatArray:
        """Return numbers that arrived late."""
        return read_numbers(y, n_rows)

    def can_be_classes(self, labels: FloatArray) -> BoolArray:
        """Return all of them: every number is a label."""
        return np.ones(len(labels), dtype=bool)

    def joined_by(self, y: Any, n_rows: int, reader: str) -> NumberTask:
        """Return the task with some more numbers."""
        return NumberTask(np.concatenate((self.targets, read_numbers(y, n_rows))), self.loss)


# --- Warnings at fit of what misleads a model: counters, columns that give the label away, tiny classes


_FEWEST_ROWS = 200  # with fewer, every class is small, and a column determines the label by chance


def warn_of_findings(rows: Any, task: Task, names: Callable[[], list[str]], *, is_ordered: bool = False) -> None:
    """Issue a `DataWarning` for each thing in the reference that misleads.

    Parameters
    ----------
    rows : array or frame of shape (n_reference, n_features)
        Columns of a frame are not looked at.
    task : Task
        Knows what misleads in the labels.
    names : callable
        Returns the names of the columns.
    is_ordered : bool, default=False
        Whether the rows are in order of time; only then is a column that follows their order a counter.
    """
    if len(task) < _FEWEST_ROWS:
        return
    for sentence in task.findings():
        _warn(sentence)
    if not isinstance(rows, np.ndarray) or rows.dtype.kind != "f":
        return
    for column, what in task.columns_of_label(rows):
        _warn(f"Column {names()[column]!r} alone predicts {what}: leave it out if it is not known before the label is.")
    if is_ordered:
        for column in range(rows.shape[1]):
            if follows_rows(rows[:, column]):
                _warn(
                    f"Column {names()[column]!r} counts the rows: leave it out, or all later rows are new to the model."
                )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=4)  # at the caller of `fit`


Task = ClassTask | NumberTask
"""The labels of a reference, and what follows from their kind: classes or numbers.

The error of a class is whether it is wrong, that of a number is y minus the prediction. Losses follow from errors.
"""
