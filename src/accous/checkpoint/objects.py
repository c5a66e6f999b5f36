"""Convert columns of Python objects (strings, missing values, sometimes numbers) to arrays of bytes and back.

Each value becomes a text and a kind that says how to read it. Unlike numpy's strings of fixed width, this takes no more
space than the texts, and it keeps trailing NULs and lone surrogates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import CheckpointError

__all__ = ["objects_from_plain", "objects_to_plain"]

_STRING, _NONE, _NAN, _PANDAS_NA, _BOOL, _INT, _FLOAT = range(7)
_KIND_OF_TYPE = {str: _STRING, type(None): _NONE, bool: _BOOL, int: _INT, float: _FLOAT}
_READERS: dict[int, Callable[[str], Any]] = {_STRING: str, _BOOL: "True".__eq__, _INT: int, _FLOAT: float}


def objects_to_plain(values: Iterable[Any], label: str) -> dict[str, Any]:
    """Convert strings, None, NaN, pandas.NA, bools, ints and floats; ``label`` names the column in an error."""
    kinds, texts = bytearray(), []
    for value in values:
        kind = _kind(value)
        if kind is None:
            raise CheckpointError(
                f"{label} holds a {type(value).__name__}, which cannot be saved: convert it to a column of numbers, "
                "strings, categories or dates before fit."
            )
        kinds.append(kind)
        text = value if kind == _STRING else repr(value) if kind in (_BOOL, _INT, _FLOAT) else ""
        texts.append(text.encode("utf-8", "surrogatepass"))
    return {
        "kinds": np.frombuffer(bytes(kinds), dtype=np.uint8),
        "ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
        "texts": np.frombuffer(b"".join(texts), dtype=np.uint8),
    }


def objects_from_plain(plain: dict[str, Any]) -> NDArray[np.object_]:
    """Return the values as an array of objects."""
    content = plain["texts"].tobytes()
    values = np.empty(len(plain["kinds"]), dtype=object)
    bounds = pairwise((0, *plain["ends"].tolist()))
    for row, (kind, (start, end)) in enumerate(zip(plain["kinds"].tolist(), bounds, strict=True)):
        if kind in _READERS:
            values[row] = _READERS[kind](content[start:end].decode("utf-8", "surrogatepass"))
        elif kind != _NONE:
            values[row] = _pandas_na() if kind == _PANDAS_NA else np.nan
    return values


def _kind(value: Any) -> int | None:
    kind = _KIND_OF_TYPE.get(type(value))
    if kind == _FLOAT and value != value:  # noqa: PLR0124
        return _NAN
    if kind is None and "pandas" in sys.modules and value is _pandas_na():
        return _PANDAS_NA
    return kind


def _pandas_na() -> Any:
    import pandas as pd

    return pd.NA
