"""Array types for signatures, and conversion between dataclasses of arrays and nested dicts for files.

`to_plain` converts the states of this package into dicts, lists, arrays and numbers. `from_plain` converts them back.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "FloatArray", "IntArray", "from_plain", "to_plain"]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def to_plain(value: Any) -> Any:
    """Convert dataclasses to dicts and tuples to lists, recursively; other values are returned unchanged.

    Fields that are excluded from comparisons, such as caches, are left out.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     names: tuple[str, ...]
    >>> to_plain(Point(1.0, ("a", "b")))
    {'x': 1.0, 'names': ['a', 'b']}
    """
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value) if field.compare}
    if isinstance(value, (list, tuple)):
        return [to_plain(part) for part in value]
    return value


def from_plain(kind: Any, plain: Any) -> Any:
    """Undo ``to_plain`` for a dataclass, according to the types of its fields."""
    if get_origin(kind) in (Union, UnionType):
        if plain is None:
            return None
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is tuple:
        return tuple(from_plain(get_args(kind)[0], part) for part in plain)
    if isinstance(kind, type) and is_dataclass(kind):
        types = get_type_hints(kind)
        return kind(**{name: from_plain(types[name], part) for name, part in plain.items()})
    return plain
