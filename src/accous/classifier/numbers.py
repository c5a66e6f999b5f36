"""Reads numbers to predict."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.classifier.labels import read_one_column, read_plain_labels, require_as_many, wrong_length
from accous.exceptions import DataError

__all__ = ["read_numbers", "read_targets"]

_LARGEST_TARGET = 1e100  # the sums of squares of such numbers are numbers


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
    is_bad = ~(np.abs(numbers) <= _LARGEST_TARGET)
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        named = {"inf": "infinity", "-inf": "-infinity", "nan": "NaN"}
        shown = named.get(str(numbers[row]), repr(values.tolist()[row]))
        raise DataError(f"{name} holds {shown} in row {row}: use finite numbers of at most {_LARGEST_TARGET:g}.")
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
