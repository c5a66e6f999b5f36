"""What is wrong with rows, in the user's words: values that cannot be read, columns that mislead."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from accous.diagnostics.coverage import follows_rows
from accous.exceptions import AccousError, DataError, TrapWarning
from accous.model.tasks import Task
from accous.validation import is_frame

# --- Warnings at fit of what misleads a model: counters, columns that give the label away, tiny classes


_FEWEST_ROWS = 200  # with fewer, every class is small, and a column determines the label by chance


def warn_of_traps(rows: Any, task: Task, names: Callable[[], list[str]], *, is_ordered: bool = False) -> None:
    """Issue a `TrapWarning` for each trap in the reference.

    Parameters
    ----------
    rows : array or frame of shape (n_reference, n_features)
        Columns of a frame are not looked at.
    task : Task
        Knows the traps in the labels.
    names : callable
        Returns the names of the columns.
    is_ordered : bool, default=False
        Whether the rows are in order of time; only then is a column that follows their order a counter.
    """
    if len(task) < _FEWEST_ROWS:
        return
    for sentence in task.traps():
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
    warnings.warn(sentence, TrapWarning, stacklevel=4)  # at the caller of `fit`


# --- Rows that a user's pipeline cannot read: the error names the column and the row, which scikit-learn's does
#     not


_NOT_A_NUMBER = re.compile(r"could not convert string to float: (?:np\.str_\()?(['\"])(?P<text>.*?)\1", re.DOTALL)
_UNKNOWN = re.compile(r"Found unknown categories \[(?P<values>.*)\] in column \d+ during transform", re.DOTALL)
# The second is ours, about the columns that a transformer returns, which have numbers instead of names.
_MISSING = re.compile(r"Input (?:X )?contains NaN|The feature_map's output is not finite: .* holds NaN")


def naming_values(X: Any, reference: Any = None) -> AbstractContextManager[None]:
    """Turn scikit-learn's errors about values into a DataError that says in one line where they are and what to do.

    These are a text that is no number, a missing value where none is taken, and a category that an encoder does not
    know. The error about an array for a pipeline that finds columns by name becomes one that asks for a frame.

    Parameters
    ----------
    X : array or frame
        The rows that are read meanwhile.
    reference : array or frame, optional
        Rows with the same columns that have been read before: what they hold in a column is not the cause.
    """
    return _NamingValues(X, reference)


class _NamingValues(AbstractContextManager[None]):
    def __init__(self, X: Any, reference: Any) -> None:
        self._X, self._reference = X, reference

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if not isinstance(error, ValueError) or (isinstance(error, AccousError) and not _MISSING.search(str(error))):
            return
        message = self._explained(str(error))
        if message is not None:
            raise DataError(message) from error

    def _explained(self, words: str) -> str | None:
        """Return what to say instead of scikit-learn's words; None if they are about something else."""
        if "only supported for dataframes" in words and not is_frame(self._X):
            return (
                "X is an array, but your pipeline finds columns by their names: pass a frame with the columns of the "
                "reference."
            )
        if found := _NOT_A_NUMBER.search(words):
            return self._not_a_number(found["text"])
        if found := _UNKNOWN.search(words):
            return self._unknown(found["values"])
        return self._missing() if _MISSING.search(words) else None

    def _not_a_number(self, text: str) -> str | None:
        place = _find_text(self._X, text) if is_frame(self._X) else None
        if place is None:
            return None
        column, row = place
        return (
            f"Column {column!r} holds the text {text!r} in row {row}, where your estimator or transformer needs a "
            "number: correct or drop the row, or let the pipeline encode the column."
        )

    def _unknown(self, values: str) -> str | None:
        place = self._find(lambda value: _is_first_of(values, value))
        if place is None:
            return None
        column, row, value = place
        shown = "a missing value (NaN)" if _is_missing(value) else repr(value)
        return (
            f"Column {column!r} holds {shown} in row {row}, a category that your encoder does not know from the "
            'reference: correct or drop the row, or let the encoder take it, as OneHotEncoder(handle_unknown="ignore") '
            "does."
        )

    def _missing(self) -> str | None:
        place = self._find(_is_missing)
        if place is None:
            return None
        column, row, _ = place
        return (
            f"Column {column!r} holds a missing value (NaN) in row {row}, which your estimator or transformer does not "
            "take: fill it or drop the row, or put an imputer such as SimpleImputer() into the pipeline."
        )

    def _find(self, is_meant: Callable[[Any], bool]) -> tuple[Any, int, Any] | None:
        """Return column, row and value of the first that is meant, if possible one that its reference column has not.

        A missing number comes before a missing text: encoders take missing values, and most estimators do not.
        """
        known = {name for name, values in _columns(self._reference) if any(map(is_meant, values))}
        places: list[tuple[bool, bool, int, Any, int, Any]] = []
        for number, (name, values) in enumerate(_columns(self._X)):
            row = next((row for row, value in enumerate(values) if is_meant(value)), None)
            if row is not None:
                has_text = any(isinstance(value, str) for value in values)
                places.append((name in known, has_text, number, name, row, values[row]))
        return min(places, key=lambda place: place[:3])[3:] if places else None


def _columns(X: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Give the columns of a frame by name, those of an array by number, and nothing of anything else."""
    if is_frame(X):
        for number, name in enumerate(X.columns):
            yield name, (X.iloc[:, number] if hasattr(X, "iloc") else X.to_series(number)).to_list()
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        yield from enumerate(X.T.tolist())


def _find_text(X: Any, text: str) -> tuple[Any, int] | None:
    """Return the column and the row of a text in a frame; of several, the column with the fewest other texts."""
    places: list[tuple[int, Any, int]] = []
    for name, values in _columns(X):
        if text in values:
            places.append((sum(isinstance(value, str) for value in values), name, values.index(text)))
    return min(places, key=lambda place: place[0])[1:] if places else None


def _is_missing(value: Any) -> bool:
    # pandas has missing values of its own, which cannot be compared.
    is_nan = isinstance(value, float) and value != value  # noqa: PLR0124
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _is_first_of(values: str, value: Any) -> bool:
    """Whether a value is the first of a printed list of values."""
    if _is_missing(value):
        return re.match(r"(np\.)?(float64\()?(nan|None|<NA>|NaT)\b", values) is not None
    shown = [repr(value)]
    if isinstance(value, int) and not isinstance(value, bool):
        shown.append(repr(float(value)))
    return any(re.match(rf"(np\.\w+\()?{re.escape(each)}\)?(,|$)", values) is not None for each in shown)
