"""Dicts of features as rows of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.exceptions import DataError

__all__ = ["feature_names", "rows_of"]


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
