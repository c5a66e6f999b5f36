"""Write nested dicts of arrays, numbers and strings to one ``.npz`` file, and read them back, without pickle.

The file contains the arrays, each under its path in the dicts, and a skeleton in JSON that says where they belong. What
JSON cannot express is a dict with a ``$`` key: ``{"$array": name}``, ``{"$float": "nan"}``, ``{"$numpy": type, ...}``.
"""

from __future__ import annotations

import json
import math
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from accous.checkpoint.array_files import read_arrays, write_arrays
from accous.exceptions import CheckpointError

__all__ = ["from_json", "read_plain", "to_json", "write_plain"]

_SKELETON = "skeleton"
_STORABLE_KINDS = "biufcmMSU"
_NUMPY_SCALARS: dict[str, type[np.generic]] = {
    scalar.__name__: scalar
    for scalar in (
        *(np.bool_, np.str_, np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64),
    )
}


def write_plain(stream: Any, plain: dict[str, Any]) -> None:
    """Write to a stream, which does not have to support seeking."""
    arrays: dict[str, NDArray[Any]] = {}
    skeleton = json.dumps(to_json(plain, arrays), allow_nan=False).encode()
    arrays[_SKELETON] = np.frombuffer(skeleton, dtype=np.uint8)
    write_arrays(stream, arrays)


def read_plain(file: BinaryIO) -> dict[str, Any]:
    """Read what ``write_plain`` wrote."""
    try:
        arrays = read_arrays(file)
        plain: dict[str, Any] = from_json(json.loads(arrays[_SKELETON].tobytes()), arrays)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{file.name} does not hold what accous writes ({error}): restore the folder from a copy."
        ) from error
    return plain


def to_json(value: Any, arrays: dict[str, NDArray[Any]] | None = None, path: str = "") -> Any:
    """Convert a value to JSON types; arrays are added to ``arrays`` under their path.

    ``from_json`` gives numbers back with the same bits and the same type.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.generic) and _NUMPY_SCALARS.get(type(value).__name__) is type(value):
        return {"$numpy": type(value).__name__, "value": to_json(value.item())}
    if type(value) is list:
        return [to_json(part, arrays, f"{path}/{number}") for number, part in enumerate(value)]
    if type(value) is dict and not any(key.startswith("$") for key in value):
        return {key: to_json(part, arrays, f"{path}/{key}") for key, part in value.items()}
    if isinstance(value, np.ndarray) and arrays is not None and value.dtype.kind in _STORABLE_KINDS:
        name = path.lstrip("/")
        arrays[name] = value
        return {"$array": name}
    what = f"an array of dtype {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    raise CheckpointError(f"{path.lstrip('/') or 'A value'} is {what}, which cannot be saved without pickle.")


def from_json(value: Any, arrays: dict[str, NDArray[Any]] | None = None) -> Any:
    """Undo ``to_json``."""
    if isinstance(value, list):
        return [from_json(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$numpy" in value:
        return _NUMPY_SCALARS[value["$numpy"]](from_json(value["value"]))
    if "$array" in value:
        return (arrays or {})[value["$array"]]
    return {key: from_json(part, arrays) for key, part in value.items()}
