"""Convert reference rows, labels and names (arrays and frames) to nested dicts of arrays and back.

pandas and polars are imported only if the rows are one of their frames.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.checkpoint.objects import objects_from_plain, objects_to_plain
from accous.exceptions import CheckpointError

__all__ = ["array_from_plain", "array_to_plain", "is_same_plain", "rows_from_plain", "rows_to_plain"]

_FRAME_MODULES = {"pandas": "accous.checkpoint.pandas_frames", "polars": "accous.checkpoint.polars_frames"}


def rows_to_plain(rows: Any) -> dict[str, Any]:
    """Convert an array, a pandas frame or a polars frame."""
    for library in _FRAME_MODULES:
        if library in sys.modules and type(rows) is sys.modules[library].DataFrame:
            return {"kind": library, "frame": _frames_of(library).frame_to_plain(rows)}
    if isinstance(rows, np.ndarray):
        return {"kind": "array", "array": array_to_plain(rows, "The reference")}
    raise CheckpointError(
        f"The reference is a {type(rows).__name__}, which cannot be saved: fit on an array, a pandas or a polars frame."
    )


def rows_from_plain(plain: dict[str, Any]) -> Any:
    """Undo ``rows_to_plain``."""
    kind = plain["kind"]
    if kind == "array":
        return array_from_plain(plain["array"])
    if kind not in _FRAME_MODULES:
        raise CheckpointError(f"This version of accous does not know rows of the kind {kind!r}: upgrade accous.")
    return _frames_of(kind).frame_from_plain(plain["frame"])


def array_to_plain(array: NDArray[Any], label: str) -> dict[str, Any]:
    """Convert an array; an array of objects is stored value by value."""
    if array.dtype.kind == "O":
        return {"shape": list(array.shape), "objects": objects_to_plain(array.ravel(), label)}
    return {"values": np.asarray(array)}


def array_from_plain(plain: dict[str, Any]) -> NDArray[Any]:
    """Undo ``array_to_plain``."""
    if "objects" in plain:
        return objects_from_plain(plain["objects"]).reshape(plain["shape"])
    return np.asarray(plain["values"])


def is_same_plain(first: Any, second: Any) -> bool:
    """Whether two nested structures are equal: same values, same dtypes, same order in memory."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(is_same_plain(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(is_same_plain, first, second))
    if isinstance(first, np.ndarray):
        is_same_kind = first.dtype == second.dtype and first.flags.c_contiguous == second.flags.c_contiguous
        return is_same_kind and np.array_equal(first, second, equal_nan=first.dtype.kind in "fcmM")
    return bool(first == second)


def _frames_of(library: str) -> ModuleType:
    try:
        return import_module(_FRAME_MODULES[library])
    except ImportError as error:
        raise CheckpointError(f"The reference is a {library} frame: install {library} to load it.") from error
