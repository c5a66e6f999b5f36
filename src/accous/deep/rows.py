"""What users pass as rows: arrays, tensors, image files, pictures. Files are read piece by piece to save memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import IntArray
from accous.exceptions import DataError
from accous.extras import import_extra

__all__ = ["ArrayRows", "ItemRows", "Pictures", "Piece", "Rows", "read_rows"]

Piece = NDArray[Any] | list[NDArray[Any]]
"""Some rows: one array, or one array per row if their shapes may differ."""


class Pictures(list[NDArray[Any]]):
    """Rows that were files or pictures; only these are known to be (h, w, 3)."""


@dataclass(frozen=True)
class ArrayRows:
    """Rows along the first axis of an array."""

    array: NDArray[Any]

    def __len__(self) -> int:
        return len(self.array)

    def take(self, indices: IntArray) -> NDArray[Any]:
        """Return the rows at these places."""
        return self.array[indices]

    def float_range(self) -> tuple[float, float] | None:
        """Return the smallest and largest value of floats; None for integers."""
        return _range_of([self.array])


@dataclass(frozen=True)
class ItemRows:
    """Rows one by one: files, pictures, arrays of different shapes."""

    items: Sequence[Any]

    def __len__(self) -> int:
        return len(self.items)

    def take(self, indices: IntArray) -> list[NDArray[Any]]:
        """Return the rows at these places, and read their files."""
        found = [_read_item(self.items[index], int(index)) for index in indices]
        return Pictures(found) if _is_file_or_picture(self.items[0]) else found

    def float_range(self) -> tuple[float, float] | None:
        """Return the smallest and largest value of the rows that are floats; None if there are none."""
        return _range_of([item for item in self.items if isinstance(item, np.ndarray)])


Rows = ArrayRows | ItemRows


def read_rows(X: Any) -> Rows:
    """Return what was passed as rows.

    Raises
    ------
    DataError
        If there are no rows, or they are neither numbers nor images.
    """
    if isinstance(X, str | bytes | os.PathLike):
        raise DataError(f"Several images are needed, got the single path {os.fspath(X)!r}: pass a list of paths.")
    rows = _from_sequence(X) if isinstance(X, list | tuple) else _from_array(_to_array(X))
    if len(rows) == 0:
        raise DataError("At least one row is needed, got an empty input.")
    return rows


def _from_sequence(items: Sequence[Any]) -> Rows:
    if not items or _is_file_or_picture(items[0]):
        return ItemRows(items)
    arrays = [_to_array(item) for item in items]
    if len({(array.shape, array.dtype) for array in arrays}) == 1:
        return _from_array(np.stack(arrays))
    for row, array in enumerate(arrays):
        _require_numbers(array, f"Row {row}")
    return ItemRows(arrays)


def _from_array(array: NDArray[Any]) -> Rows:
    if array.dtype.kind == "O" and array.ndim > 1:
        array = _to_floats(array)
    if array.ndim == 0:
        raise DataError("Rows are needed, got a single value: pass an array whose first axis counts rows.")
    if array.ndim == 1 and array.dtype.kind in "OUT" and len(array):
        return _from_sequence(array.tolist())
    _require_numbers(array, "The input")
    return ArrayRows(array)


def _to_array(X: Any) -> NDArray[Any]:
    if hasattr(X, "tocsr"):
        raise DataError("Sparse data is not supported: pass X.toarray().")
    if hasattr(X, "detach"):  # a tensor; recognised without importing torch
        tensor = X.detach().cpu()
        return np.asarray(tensor.float() if "bfloat16" in str(tensor.dtype) else tensor)
    return np.asarray(X)


def _to_floats(array: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return array.astype(np.float64)
    except ValueError as error:
        raise DataError(f"The input cannot be read as numbers ({error}).") from error


def _require_numbers(array: NDArray[Any], what: str) -> None:
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: pass real numbers, such as the absolute values.")
    if array.dtype.kind not in "buif":
        raise DataError(f"{what} holds {array.dtype}, not numbers; pass images, paths of image files, or numbers.")


def _range_of(arrays: list[NDArray[Any]]) -> tuple[float, float] | None:
    floats = [array for array in arrays if array.dtype.kind == "f" and array.size]
    if not floats:
        return None
    return float(np.min([array.min() for array in floats])), float(np.max([array.max() for array in floats]))


def _is_file_or_picture(item: Any) -> bool:
    return isinstance(item, str | os.PathLike) or _is_picture(item)


def _is_picture(item: Any) -> bool:
    """Whether this is a Pillow image; recognised without importing Pillow."""
    return hasattr(item, "convert") and hasattr(item, "getbands")


def _read_item(item: Any, row: int) -> NDArray[Any]:
    if isinstance(item, np.ndarray):
        return item
    if not _is_file_or_picture(item):
        raise DataError(f"Row {row} is a {type(item).__name__}, neither a path nor a Pillow image like row 0.")
    pillow = import_extra("PIL.Image", "Reading images")
    name = f"The image in row {row}" if _is_picture(item) else os.fspath(item)
    try:
        if _is_picture(item):
            return _to_colours(item, name)
        with pillow.open(item) as picture:
            return _to_colours(picture, name)
    except DataError:
        raise
    except Exception as error:  # a damaged file raises any error of its decoder
        raise DataError(f"{name} cannot be read as an image ({error}): replace it or leave it out.") from error


def _to_colours(picture: Any, name: str) -> NDArray[Any]:
    if picture.mode[0] in "IF":  # Pillow would cut values at 255, and images of 16 bits would become white
        raise DataError(
            f"{name} has Pillow's mode {picture.mode!r}, whose values may exceed 255: convert it to 8 bits."
        )
    return np.asarray(picture.convert("RGB"))
