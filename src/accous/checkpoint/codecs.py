"""Values as bytes and back, without pickle: arrays, texts, rows and nested dicts."""

from __future__ import annotations

import io
import json
import math
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from accous.checkpoint.files import StoredFile, expecting_own_content, open_checked, write_atomically
from accous.exceptions import CheckpointError

# --- Write nested dicts of arrays, numbers and strings to one .npz file, and read them back, without pickle


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
    with expecting_own_content(Path(file.name)):
        arrays = read_arrays(file)
        plain: dict[str, Any] = from_json(json.loads(arrays[_SKELETON].tobytes()), arrays)
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


# --- The data files of a saved model: nested dicts of arrays, written and read whole


def write_data(folder: Path, prefix: str, plain: dict[str, Any]) -> StoredFile:
    """Write nested dicts of arrays to a file named by its prefix and its digest."""
    return write_atomically(folder, lambda stream: write_plain(stream, plain), name=f"{prefix}-{{digest}}.npz")


def read_data(folder: Path, stored: StoredFile) -> dict[str, Any]:
    """Read what ``write_data`` wrote, after checking its size and checksum.

    Raises
    ------
    FileNotFoundError
        If the file is gone, for example because another process has just saved.
    """
    with open_checked(folder, stored) as file:
        return read_plain(file)


# --- Convert columns of Python objects (strings, missing values, sometimes numbers) to arrays of bytes and back


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


# --- Convert reference rows, labels and names (arrays and frames) to nested dicts of arrays and back


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


# --- Write arrays to an .npz file and read them back, without pickle


_FIRST_VERSION = np.lib.format.magic(1, 0)


_HEADER_START = len(_FIRST_VERSION) + 2  # two bytes with its length


# Larger arrays are written and read in pieces, so that they are not twice in memory.
_MOST_BYTES_AT_ONCE = 1 << 20


# Of the ZIP format: bytes before the name of a member, and the bit that says that it has a password.
_LOCAL_HEADER, _ENCRYPTED = 30, 1


def write_arrays(stream: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a stream, which does not have to support seeking; the same arrays give the same bytes."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            # Our own ZipInfo contains no time.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                # numpy refuses objects; their bytes would be addresses in memory.
                if array.nbytes > _MOST_BYTES_AT_ONCE or array.dtype.hasobject:
                    np.lib.format.write_array(member, array, allow_pickle=False)
                    continue
                is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
                header = _make_header(array.dtype, array.shape, is_fortran=is_fortran)
                member.write(header + array.tobytes("F" if is_fortran else "C"))


def read_arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Return the arrays by their names, with the bits, the types and the memory order that they were written with.

    What a file says of its arrays is compared with its length before memory is taken for them.

    Raises
    ------
    ValueError, EOFError, zipfile.BadZipFile
        If the file holds anything else.
    """
    size = file.seek(0, io.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise ValueError("an array is compressed")
        if sum(info.file_size for info in infos) > size:
            raise ValueError("its arrays are longer than the file")
        return {info.filename.removesuffix(".npy"): _read_member(archive, info, file, size) for info in infos}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: BinaryIO, size: int) -> NDArray[Any]:
    if info.file_size > _MOST_BYTES_AT_ONCE:
        with archive.open(info) as member:
            _require_length(member, info.file_size, size)
        with archive.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    content = _read_stored(info, file) or archive.read(info)
    start = _HEADER_START + int.from_bytes(content[len(_FIRST_VERSION) : _HEADER_START], "little")
    if content.startswith(_FIRST_VERSION):
        shape, is_fortran, dtype = _parse_header(content[len(_FIRST_VERSION) : start])
        n_bytes = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and 0 < n_bytes == len(content) - start:
            array = np.frombuffer(content, dtype, offset=start).copy()
            return array.reshape(shape, order="F" if is_fortran else "C")
    # Anything unusual, and whatever must be refused.
    _require_length(io.BytesIO(content), len(content), size)
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def _require_length(member: IO[bytes], n_member: int, n_file: int) -> None:
    """Raise a ValueError unless an array fills its member, or is empty without a side that is longer than the file."""
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    n_bytes, n_left = math.prod(shape) * dtype.itemsize, n_member - member.tell()
    # numpy refuses objects itself.
    if not dtype.hasobject and (n_bytes != n_left or not all(0 <= side <= n_file for side in shape)):
        raise ValueError(f"an array of shape {shape} does not fit its {n_left} bytes")


def _read_stored(info: zipfile.ZipInfo, file: BinaryIO) -> bytes | None:
    """Return the bytes of a member; None if anything is not as it should be.

    `zipfile` makes several objects for every member, which for small ones takes most of the time.
    """
    if info.flag_bits & _ENCRYPTED:
        return None
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if not header.startswith(b"PK\x03\x04") or len(header) < _LOCAL_HEADER:
        return None
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
    content = file.read(info.file_size)
    return content if zlib.crc32(content) == info.CRC else None


@lru_cache(maxsize=1000)
def _make_header(dtype: np.dtype[Any], shape: tuple[int, ...], *, is_fortran: bool) -> bytes:
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": is_fortran, "shape": shape})
    return header.getvalue()


@lru_cache(maxsize=1000)
def _parse_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return np.lib.format.read_array_header_1_0(io.BytesIO(header))
