"""Checks of input rows: arrays and frames, columns by name, values that cannot be read, and what needs a ``fit``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from numbers import Number
from textwrap import shorten
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import NotFittedError as ScikitLearnNotFittedError
from sklearn.utils.validation import _num_samples, validate_data

from accous.arrays import FloatArray
from accous.exceptions import AccousError, DataError

# --- Frames are read by the names of their columns: other columns are left out, and any order is put right


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a data frame of pandas or polars."""
    return hasattr(X, "iloc") or (type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "to_numpy"))


def select_columns(estimator: Any, X: Any, *, any_order: bool = True) -> Any:
    """Return a frame with the columns of the reference alone, in the order of the reference.

    Arrays and frames that fit already are returned as they are.

    Parameters
    ----------
    estimator : object
        Its ``feature_names_in_`` are the columns of the reference; without them, columns have no names.
    X : array or frame
    any_order : bool, default=True
        Whether a frame with just these columns may have them in another order. scikit-learn's ``check_estimator``
        requires its own methods, such as ``predict``, to refuse that. It also requires its own text for a frame that
        lacks a column, so such a frame is then returned as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> fitted = SimpleNamespace(feature_names_in_=np.array(["age", "height"], dtype=object))
    >>> select_columns(fitted, pd.DataFrame({"height": [1.8], "name": ["Ada"], "age": [36]}))
       age  height
    0   36     1.8
    """
    names = vars(estimator).get("feature_names_in_")
    if names is None or not is_frame(X) or getattr(X, "ndim", 2) != 2:
        return X
    wanted, found = names.tolist(), list(X.columns)
    if found == wanted or (len(found) == len(wanted) and not any_order):
        return X
    there = set(found)
    missing = [name for name in wanted if name not in there]
    if missing and any_order:
        known = set(wanted)
        others = [name for name in found if name not in known]
        hint = f" X has {others[0]!r}, which the reference has not." if others else ""
        raise DataError(f"X has no column {missing[0]!r}, which the reference has: add it, or correct its name.{hint}")
    if missing:
        return X
    if len(there) < len(found):
        for name in (name for name in wanted if found.count(name) > 1):
            raise DataError(f"X has several columns called {name!r}: rename or drop all but one.")
    return X[wanted]


# --- Validates user input: converts arrays and frames to float rows, with errors that name the column


_LARGEST_REFERENCE_VALUE = 1e150
_MANY_VALUES = 8192
_ENDS = (0.001, 0.5, 0.999)
# What to do about columns that cannot be read, by whoever reads them.
_FEATURE_MAP = "pass the ratio estimator a transformer that {}: OnlineDensityRatio(feature_map=...)"
_PIPELINE = (
    "use a transformer that {{}} in both parts: {}(make_pipeline(transformer, {}), "
    "OnlineDensityRatio(feature_map=transformer))"
)


class WrongTypeError(DataError, TypeError):
    """A DataError where scikit-learn raises, and its ``check_estimator`` expects, a TypeError."""


def read_rows(
    estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1, takes_missing: bool = False
) -> FloatArray:
    """Return ``X`` as a finite float array of the right width; ``reset`` sets the width and column names from ``X``.

    Columns of a frame that the reference does not have are left out. ``takes_missing`` lets NaN pass.
    """
    if not reset and _is_ready(estimator, X, min_rows):
        rows: FloatArray = X
        if rows.size <= _MANY_VALUES and math.isfinite(np.vdot(rows, rows)):
            return rows
    else:
        _require_two_dimensions(X)
        _require_no_images(X)
        X = X if reset else select_columns(estimator, X, any_order=False)
        rows = _convert(estimator, X, reset=reset, min_rows=min_rows)
    require_finite(rows, X, reader=estimator, takes_missing=takes_missing)
    if reset:
        _require_moderate(rows, X)
    return rows


@dataclass(frozen=True, eq=False)
class Bounds:
    """How far out numbers are passed on, and what stands for missing ones.

    Attributes
    ----------
    low, high, middle : array of shape (n_columns,)
        0.1 and 99.9 % quantiles of a reference and its median; of columns with two values at most, both values.
    """

    low: FloatArray
    high: FloatArray
    middle: FloatArray

    @classmethod
    def of(cls, reference: FloatArray) -> Bounds:
        """Learn them from rows, of which some values may be missing."""
        low, middle, high = np.zeros((3, reference.shape[1]))
        low[:], high[:] = -np.inf, np.inf
        for number, column in enumerate(reference.T):
            known = column[~np.isnan(column)]
            if len(known):
                least, most = known.min(), known.max()
                low[number], middle[number], high[number] = np.quantile(known, _ENDS)
                # A rare flag would be constant within its quantiles.
                if not ((known > least) & (known < most)).any():
                    low[number], high[number] = least, most
        return cls(low, high, middle)

    @property
    def without_ends(self) -> Bounds:
        """Bounds that only fill in what is missing."""
        return Bounds(np.full_like(self.low, -np.inf), np.full_like(self.high, np.inf), self.middle)

    def filled(self, rows: FloatArray) -> FloatArray:
        """Return the rows with medians in place of missing values."""
        is_missing = np.isnan(rows)
        return np.where(is_missing, self.middle, rows) if is_missing.any() else rows

    def clipped(self, rows: FloatArray) -> FloatArray:
        """Return the rows without missing values and no further out than the bounds."""
        return np.clip(self.filled(rows), self.low, self.high)


def read_frame(estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
    """Return ``X`` unconverted, for a user's transformer, after checking its width and column names."""
    _require_two_dimensions(X)
    if count_rows(X) < min_rows:
        raise DataError(f"X must have at least {min_rows} rows, got {count_rows(X)} sample(s).")
    X = X if reset else select_columns(estimator, X, any_order=False)
    _require_unique_names(X)
    try:
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise _check_names(error, estimator, X) from None


def count_rows(X: Any) -> int:
    """Return the number of rows of an array, frame or sparse matrix."""
    return X.shape[0] if type(X) is np.ndarray and X.ndim else int(_num_samples(X))


def append_rows(rows: Any, more: Any) -> Any:
    """Return both as one, of the kind of the first: arrays, sparse matrices, or frames of pandas or polars."""
    if isinstance(rows, np.ndarray):
        return np.concatenate((rows, np.asarray(more)))
    if hasattr(rows, "tocsr"):
        from scipy.sparse import vstack

        return vstack((rows, more), format=rows.format)
    if type(rows) is not type(more):
        raise DataError(f"The reference is a {type(rows).__name__}, so X must be one too, got a {type(more).__name__}.")
    library = import_module(type(rows).__module__.partition(".")[0])
    return own_copy(library.concat([rows, more], **({"ignore_index": True} if hasattr(rows, "iloc") else {})), None)


def own_copy(rows: Any, X: Any) -> Any:
    """Return ``rows``, copied if later changes to the user's ``X`` could change them."""
    if isinstance(rows, np.ndarray):
        # An array without a base owns its memory; a view may share memory with the user's array or frame.
        return np.array(rows, order="K") if rows is X or rows.base is not None else rows
    if hasattr(rows, "iloc"):
        return _copy_by_column(rows)
    if not hasattr(rows, "__getitem__"):
        return np.array(rows)  # something that only converts to an array: folds need to take rows from it
    return deepcopy(rows) if rows is X else rows


def _copy_by_column(frame: Any) -> Any:
    """Copy a pandas frame into column-by-column memory order, so that equal values always give the same bits."""
    rows = frame.reset_index(drop=True)
    by_column = type(frame)({position: rows.iloc[:, position] for position in range(rows.shape[1])}, index=rows.index)
    by_column.index, by_column.columns = frame.index, frame.columns
    return by_column


def require_finite(
    rows: FloatArray, X: Any, *, what: str = "", reader: BaseEstimator | None = None, takes_missing: bool = False
) -> None:
    """Raise a DataError that names the first row and column with NaN or infinity, with advice for who reads them."""
    # A sum is nearly always finite and costs a fraction of the elementwise test. It may overflow, so the elementwise
    # test follows. The sum of squares never warns; with many values BLAS would use threads for it.
    if rows.size <= _MANY_VALUES:
        if math.isfinite(np.vdot(rows, rows)):
            return
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(rows.sum()):
                return
    is_bad = np.isinf(rows) if takes_missing else ~np.isfinite(rows)
    if not is_bad.any():
        return
    row, column = (int(index) for index in np.argwhere(is_bad)[0])
    value = "NaN" if np.isnan(rows[row, column]) else f"{rows[row, column]} (infinity)"
    takes_others = np.isnan(rows[row, column]) and getattr(reader, "estimator", "") is None
    advice = 'pass estimator="auto" or "linear", which take them' if takes_others else _advice(reader, "imputes")
    raise DataError(
        f"{what}{column_label(X, column)} holds {value} in row {row}. Impute or drop such rows, or {advice}."
    )


def _advice(estimator: BaseEstimator | None, verb: str) -> str:
    """Say what to pass so that such columns can be read: a predictor needs more than a transformer of its ratio."""
    if estimator is None or hasattr(estimator, "partial_fit"):
        return _FEATURE_MAP.format(verb)
    if isinstance(getattr(estimator, "estimator", None), str):
        return f"let `accous fit` make the model, which {verb}; accous.load reads its folder"
    kind = "regressor" if is_regressor(estimator) else "classifier"
    return _PIPELINE.format(f"Adaptive{kind.capitalize()}", kind).format(verb)


def column_label(X: Any, column: int) -> str:
    """Return the name of a column of ``X`` for an error message."""
    names = getattr(X, "columns", None)
    return f"Column {column}" if names is None else f"Column {list(names)[column]!r}"


def _require_two_dimensions(X: Any) -> None:
    _require_rows(X)
    is_flat = isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], Number)
    if is_flat or len(getattr(X, "shape", (0, 0))) == 1:
        raise DataError(
            "X must have rows and columns, got one dimension. Reshape your data: a single row is X.reshape(1, -1) or "
            "frame.iloc[[0]], and [row] of a list."
        )


def _require_rows(X: Any) -> None:
    """Raise a DataError for what has no rows, only promises them or holds them by name."""
    if X is None or isinstance(X, (str, bytes, Number)):
        raise DataError(f"X must be a 2D array or a frame, got {shorten(repr(X), 40)}: pass rows and columns.")
    if type(X).__name__ == "LazyFrame":
        raise DataError("X is a polars LazyFrame, which has no rows yet: pass X.collect().")
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a kind of sparse matrix is a mapping too
        raise DataError("X is a dict: pass a frame, for one row pandas.DataFrame([row]) or polars.DataFrame([row]).")
    if isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], Mapping):
        raise DataError("X is a list of dicts: pass a frame, pandas.DataFrame(rows) or polars.DataFrame(rows).")


def _require_dense_and_real(X: Any) -> None:
    # The first words are those of scikit-learn, which its check_estimator looks for.
    if hasattr(X, "tocsr"):
        raise WrongTypeError("Sparse data was passed for X, but its rows are read as a dense array: pass X.toarray().")
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise DataError(
            "Complex data not supported: pass the real and the imaginary parts of X as columns of their own."
        )


def _require_unique_names(X: Any) -> None:
    names = list(getattr(X, "columns", ()))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"X has several columns called {twice!r}: rename or drop all but one.")


def _require_no_images(X: Any) -> None:
    n_dimensions = len(getattr(X, "shape", ()))
    if n_dimensions > 2:
        raise DataError(
            f"Found array with dim {n_dimensions}, but X must have rows and columns. If these are images, "
            "accous.deep.BackboneFeatures converts them to rows."
        )


def _require_moderate(rows: FloatArray, X: Any) -> None:
    """Raise a DataError that names a column of the reference whose squares would overflow."""
    largest = np.fmax.reduce(np.abs(rows), axis=0)
    if np.fmax.reduce(largest) > _LARGEST_REFERENCE_VALUE:
        column = int(np.nanargmax(largest))
        value = rows[np.nanargmax(np.abs(rows[:, column])), column]
        raise DataError(
            f"{column_label(X, column)} of the reference holds {value:.3g}, too large to compute with; rescale it."
        )


def _is_ready(estimator: BaseEstimator, X: Any, min_rows: int) -> bool:
    """Whether X can be used without conversion: scikit-learn's checks cost more than a round."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.flags.c_contiguous
        and X.shape[1] == estimator.n_features_in_
        and X.shape[0] >= min_rows
        and "feature_names_in_" not in vars(estimator)
    )


def _check_names(error: ValueError, estimator: BaseEstimator, X: Any) -> ValueError:
    """Turn scikit-learn's error into a DataError; if the order of columns is wrong, name the first one."""
    names = list(getattr(X, "columns", ()))
    expected = list(getattr(estimator, "feature_names_in_", ()))
    if "features as input" in str(error):
        # scikit-learn's words, which its check_estimator looks for, and what to do.
        return DataError(f"{str(error).removesuffix('.')}: pass the columns of the reference, in the same order.")
    if "must be in the same order" not in str(error) or len(names) != len(expected):
        return DataError(str(error))
    found, wanted = next((a, b) for a, b in zip(names, expected, strict=True) if a != b)
    return DataError(
        f"{error}\nFound column {found!r} in the position where the reference has {wanted!r}. Put them in order with "
        "X[list(model.feature_names_in_)]."
    )


def _convert(estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int) -> FloatArray:
    _require_dense_and_real(X)
    _require_unique_names(X)
    _require_no_times(estimator, X)
    try:
        rows = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            order="C",  # the memory order affects rounding, and frames and arrays must give the same bits
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
    except (ValueError, TypeError) as error:
        X = _as_array(X) if isinstance(X, (list, tuple)) else X
        column = _first_unreadable_column(X)
        if column is None:
            if isinstance(error, TypeError):
                raise WrongTypeError(str(error)) from None
            raise _check_names(error, estimator, X) from None
        kind = WrongTypeError if isinstance(error, TypeError) else DataError
        raise kind(_unreadable(estimator, X, column, error)) from error
    return np.asarray(rows)


def _unreadable(estimator: BaseEstimator, X: Any, column: int, error: Exception) -> str:
    label = column_label(X, column)
    values = np.asarray(X.iloc[:, column] if hasattr(X, "iloc") else X[:, column])
    if values.ndim > 1 or any(np.ndim(value) for value in values[:1]):
        return (
            f"{label} holds a list of numbers in each row, like stored embeddings. Pass them as an array instead: "
            "numpy.array(frame[column].to_list())."
        )
    place = _first_unreadable_row(values)
    where = "" if place is None else f" in row {place}"
    return (
        f"{label} cannot be read as numbers{where} ({error}). Encode or drop it, or {_advice(estimator, 'encodes it')}."
    )


def _as_array(rows: Any) -> Any:
    """Return a list of rows as an array of whatever is in them; rows of different lengths stay a list."""
    try:
        return np.array(rows, dtype=object)
    except ValueError:
        return rows


def _first_unreadable_row(values: Any) -> int | None:
    for row, value in enumerate(values.tolist()):
        if value is None:  # read as NaN
            continue
        try:
            float(value)
        except (ValueError, TypeError):
            return row
    return None


def _require_no_times(estimator: BaseEstimator, X: Any) -> None:
    """Raise a DataError that names the first column of dates or durations, which numpy would convert silently."""
    dtypes = getattr(X, "dtypes", None)
    for column, dtype in enumerate([getattr(X, "dtype", None)] if dtypes is None else dtypes):
        is_polars = hasattr(dtype, "is_temporal")
        if dtype.is_temporal() if is_polars else getattr(dtype, "kind", None) in ("m", "M"):
            raise DataError(
                f"{column_label(X, column)} holds dates or durations ({dtype}), not numbers. Drop it (times of the "
                f"rows can be passed as `order`), convert it to numbers, or {_advice(estimator, 'converts it')}."
            )


def _first_unreadable_column(X: Any) -> int | None:
    """Return the position of the first column that does not convert to float, or None if no column is the cause."""
    if getattr(X, "ndim", 2) != 2 or not hasattr(X, "shape") or hasattr(X, "tocsr"):
        return None
    for position in range(X.shape[1]):
        column = X.iloc[:, position] if hasattr(X, "iloc") else X[:, position]
        try:
            if np.asarray(column).dtype.kind == "c":
                return None
            if np.asarray(column).ndim > 1:
                return position
            np.asarray(column, dtype=np.float64)
        except (ValueError, TypeError):
            return position
    return None


# --- What an estimator has only after fit, and the error of who reads it before


class NotFittedError(AccousError, ScikitLearnNotFittedError):
    """The model has not been fitted: scikit-learn's error of this name, which is also a ValueError."""


def require_learned(estimator: Any, attribute: str) -> None:
    """Raise a NotFittedError if ``fit`` has not set the attribute."""
    if attribute not in vars(estimator):
        name = type(estimator).__name__
        raise NotFittedError(f"This {name} is not fitted yet: call fit first.")


class LearnedAttributes:
    """Raises an error that asks for ``fit`` if a learned attribute is read too early."""

    # What to use in place of methods that only other classes have, by their names.
    _instead: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        """Handle a missing attribute; NotFittedError is an AttributeError, so ``hasattr`` returns False."""
        is_learned = name.endswith("_") and not name.endswith("__")
        if is_learned and "reference_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} has no {name} yet: call fit with a reference first.")
        advice = f": use {self._instead[name]}" if name in self._instead else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    def _require_fitted(self, attribute: str) -> None:
        require_learned(self, attribute)


# --- Rows that a user's pipeline cannot read: the error names the column and the row, which scikit-learn's does not


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
