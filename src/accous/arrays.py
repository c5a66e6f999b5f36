"""Array types for signatures, and conversion between dataclasses of arrays and nested dicts for files.

`to_plain` converts the states of this package into dicts, lists, arrays and numbers. `from_plain` converts them back.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
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
    """Undo ``to_plain`` for a dataclass, by the types of its fields.

    Of a union of dataclasses, the one that has all the fields is made. Where a type says nothing, as `Any` or a
    protocol, the value is returned as it is.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Circle:
    ...     radius: float
    >>> @dataclass
    ... class Square:
    ...     side: float
    >>> from_plain(Circle | Square | None, {"side": 2.0})
    Square(side=2.0)
    """
    if get_origin(kind) in (Union, UnionType):
        if plain is None:
            return None
        kind = _choose([each for each in get_args(kind) if each is not NoneType], plain)
    if get_origin(kind) is tuple:
        return tuple(from_plain(get_args(kind)[0], part) for part in plain)
    if isinstance(kind, type) and is_dataclass(kind):
        types = _field_types(kind)
        return kind(**{name: from_plain(types[name], part) for name, part in plain.items()})
    return plain


@cache
def _field_types(kind: type) -> dict[str, Any]:
    """Types of the fields of a dataclass; evaluating the annotations takes longer than all the rest."""
    return get_type_hints(kind)


def _choose(kinds: list[Any], plain: Any) -> Any:
    if len(kinds) == 1:
        return kinds[0]
    for kind in kinds:
        if plain.keys() <= {field.name for field in fields(kind)}:
            return kind
    raise TypeError(f"None of {', '.join(kind.__name__ for kind in kinds)} has the fields {', '.join(plain)}.")
