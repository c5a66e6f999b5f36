"""Text and typed columns as numbers, categories or times; values that cannot be read are marked."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

__all__ = [
    "MISSING_TEXTS",
    "NO_DECIMAL_COMMAS",
    "count_times",
    "exactly",
    "is_usable",
    "texts_to_times",
    "to_numbers",
    "to_texts",
    "to_times",
]

MISSING_TEXTS = ("", "?", "na", "n/a", "#n/a", "nan", "null", "none", "<na>")
NO_DECIMAL_COMMAS = "decimal commas are not read"
_MISSING = list(MISSING_TEXTS)

# Methods of a series look up its name in a frame, where some names would be taken as patterns.
_ANY_NAME = "values"

_TEXT = pl.col(_ANY_NAME).str.strip_chars()
# Every method of a series is a query of its own, and in a small table the queries take most of the time. It takes a
# third of the time of this one to make it.
_TEXT_OR_NULL = pl.when(~_TEXT.str.to_lowercase().is_in(_MISSING)).then(_TEXT)

# Three numbers with something between them: what every form of a date has.
_LIKE_A_DATE = r"\d\D+\d+\D+\d"


def exactly(names: list[str]) -> Any:
    """Select columns by their exact names; elsewhere polars reads ``*`` or ``^a.*$`` as a pattern.

    Examples
    --------
    >>> pl.DataFrame({"a": [1], "*": [2]}).select(exactly(["*"])).columns
    ['*']
    """
    return cs.by_name(*names)


def is_usable(dtype: Any) -> bool:
    """Whether values of this polars type can be read as numbers, categories or times, and written as text.

    Examples
    --------
    >>> is_usable(pl.Float32()), is_usable(pl.Binary()), is_usable(pl.List(pl.String))
    (True, False, False)
    """
    return not dtype.is_nested() and dtype not in (pl.Binary, pl.Duration, pl.Object)


def to_numbers(column: pl.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers, NaN where they are missing, and which values are not finite numbers."""
    column = column.alias(_ANY_NAME)
    if column.dtype == pl.String:
        numbers = column.cast(pl.Float64, strict=False)
        if numbers.null_count() > column.null_count():
            numbers = _retry(column, numbers)
        values = _as_array(numbers)
        is_bad = np.isinf(values) | (np.isnan(values) & ~_is_missing(column) if np.isnan(values).any() else False)
        return values, is_bad
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        values = _as_array(column.cast(pl.Float64))
        return values, np.isinf(values)
    return to_numbers(column.cast(pl.String))


def to_texts(column: pl.Series) -> pl.Series:
    """Return text without surrounding blanks; null where it is missing."""
    column = column.alias(_ANY_NAME)
    texts = column if column.dtype == pl.String else column.cast(pl.String)
    return texts.to_frame().select(_TEXT_OR_NULL).to_series()


def to_times(column: pl.Series, form: str) -> tuple[pl.Series, NDArray[np.bool_]]:
    """Return times (null where they are missing), and which values do not have this form."""
    column = column.alias(_ANY_NAME)
    if column.dtype in (pl.Date, pl.Datetime):
        times = column.cast(pl.Datetime("us"))
        return times, np.zeros(len(column), dtype=bool)
    return texts_to_times(to_texts(column), form)


def count_times(texts: pl.Series, forms: tuple[str, ...]) -> dict[str, int]:
    """Return how many of the texts that `to_texts` has returned have each form.

    Examples
    --------
    >>> count_times(to_texts(pl.Series(["2024-05-31", "31.5.2024", "2024-06-01", "?"])), ("%Y-%m-%d", "%d.%m.%Y"))
    {'%Y-%m-%d': 2, '%d.%m.%Y': 1}
    """
    text = pl.col(_ANY_NAME)
    frame = texts.alias(_ANY_NAME).to_frame().filter(text.str.contains(_LIKE_A_DATE))
    if frame.is_empty():
        return dict.fromkeys(forms, 0)
    counts = [text.str.to_datetime(form, strict=False, time_unit="us").count().alias(form) for form in forms]
    return frame.select(counts).row(0, named=True)


def texts_to_times(texts: pl.Series, form: str) -> tuple[pl.Series, NDArray[np.bool_]]:
    """Do as `to_times` for texts that `to_texts` has returned."""
    times = texts.str.to_datetime(form, strict=False, time_unit="us")
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is not None:
        times = times.dt.replace_time_zone(None)
    return times, (times.is_null() & texts.is_not_null()).to_numpy()


def _retry(column: pl.Series, numbers: pl.Series) -> pl.Series:
    """Read the texts again, without surrounding blanks."""
    return numbers.fill_null(column.str.strip_chars().cast(pl.Float64, strict=False))


def _is_missing(column: pl.Series) -> NDArray[np.bool_]:
    return to_texts(column).is_null().to_numpy()


def _as_array(numbers: pl.Series) -> NDArray[np.float64]:
    return np.asarray(numbers.to_numpy(), dtype=np.float64)  # what is missing becomes NaN
