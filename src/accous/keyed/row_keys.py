"""Reads what comes with the rows: keys, times and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.exceptions import DataError
from accous.text import count

__all__ = ["read_keys", "read_numbers", "read_times"]


def read_keys(keys: Any, n_rows: int, known: list[Any]) -> tuple[list[Any], IntArray]:
    """Return the different keys, ``known`` ones first, and for each row the place of its key among them."""
    listed = keys.tolist() if hasattr(keys, "tolist") else list(keys)
    _require_length("keys", len(listed), n_rows)
    places = {key: place for place, key in enumerate(known)}
    try:
        codes = [places.setdefault(key, len(places)) for key in listed]
    except TypeError as error:
        raise DataError(f"A key is of a type that cannot name a state ({error}): use numbers or texts.") from error
    for key, place in places.items():
        if _is_null(key):
            raise DataError(
                f"keys holds {key} in row {codes.index(place)}: give every row a key, or leave rows without one out."
            )
    return list(places), np.array(codes, dtype=np.int64)


def read_times(times: Any, n_rows: int) -> FloatArray:
    """Return times as numbers: those of datetimes are seconds since 1970."""
    array = np.asarray(times)
    if array.dtype.kind == "O":
        array = np.asarray(array.tolist())
        if array.dtype.kind == "O":
            array = np.array(times, dtype="datetime64[us]")
    _require_length("times", len(array), n_rows)
    if array.dtype.kind == "M":
        numbers = array.astype("datetime64[us]").astype(np.int64) / 1e6
        numbers[np.isnat(array)] = np.nan
    elif array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
    else:
        raise DataError(f"times holds values of type {array.dtype}: use numbers or datetimes.")
    is_bad = ~np.isfinite(numbers)
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise DataError(f"times holds {array[row]} in row {row}: give every row a time, or leave such rows out.")
    return numbers


def read_numbers(numbers: Any, n_rows: int) -> IntArray:
    """Return what the caller calls the rows."""
    array = np.asarray(numbers)
    _require_length("numbers", len(array), n_rows)
    if array.dtype.kind not in "iu":
        raise DataError(f"numbers must be integers, got {array.dtype}.")
    return array.astype(np.int64)


def _is_null(key: Any) -> bool:
    # pandas has missing values of its own, which raise an error in a condition.
    return key is None or type(key).__name__ in ("NAType", "NaTType") or bool(key != key)  # noqa: PLR0124


def _require_length(name: str, found: int, n_rows: int) -> None:
    if found != n_rows:
        raise DataError(f"X has {count(n_rows, 'row')} but {name} has {count(found, 'value')}: pass one per row.")
