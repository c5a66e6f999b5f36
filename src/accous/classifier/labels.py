"""Reads the labels and base weights that come with the rows of a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, assert_all_finite, column_or_1d

from accous.arrays import FloatArray, IntArray
from accous.exceptions import DataError
from accous.text import count

__all__ = [
    "read_base_weights",
    "read_known_labels",
    "read_labels",
    "read_late_labels",
    "read_plain_labels",
    "read_predictions",
    "require_as_many",
    "require_kind_of_classes",
    "wrong_length",
]


def read_labels(y: Any, n_rows: int, *, reader: str) -> tuple[NDArray[Any], IntArray]:
    """Return the sorted classes and the class number of each row; the error for a missing y names ``reader``."""
    if y is None:
        raise DataError(f"{reader} requires y to be passed, but the target y is None.")
    labels = read_plain_labels(y)
    assert_all_finite(labels, input_name="y")
    _require_classes(labels)
    require_as_many(labels, n_rows)
    classes, class_numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y holds the one class {classes.tolist()[0]!r}; a classifier needs at least two classes.")
    return classes, class_numbers


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


def read_known_labels(y: Any, n_rows: int, classes: NDArray[Any]) -> IntArray:
    """Return the class number of each row; raise a DataError for a label that is not among the classes."""
    labels = read_plain_labels(y)
    require_as_many(labels, n_rows)
    is_known = np.isin(labels, classes)
    if not is_known.all():
        unknown = labels[~is_known].tolist()[0]
        raise DataError(f"y holds the label {unknown!r}, which the reference does not: use {classes.tolist()}.")
    return np.searchsorted(classes, labels)


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
