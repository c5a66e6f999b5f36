"""Rows of images or tensors: arrays, files and folders, piece by piece, and the cache of what was embedded."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from accous.arrays import IntArray
from accous.datasets.loaders import user_cache_folder
from accous.exceptions import DataError, ParameterError
from accous.text import import_extra

# --- What users pass as rows: arrays, tensors, image files, pictures. Files are read piece by piece to save
#     memory


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


# --- The shape and the columns of a reference, which all later rows must have


def require_values(rows: ArrayRows) -> None:
    """Raise an error for an array whose rows are empty."""
    if rows.array.size == 0:
        raise DataError(
            f"Rows without values: 0 feature(s) (shape={rows.array.shape}) while a minimum of 1 is required."
        )


def shape_and_columns(X: Any, rows: Rows, *, is_prepared: bool) -> tuple[tuple[int, ...] | None, dict[str, Any]]:
    """Return the shape that all rows must have, and what scikit-learn stores about a table's columns."""
    if not isinstance(rows, ArrayRows) or is_prepared:
        return None, {}
    seen = BaseEstimator()  # stands in for the estimator, which must not change if the table is refused
    if rows.array.ndim == 2:
        validate_data(seen, table_of(X, rows), reset=True, skip_check_array=True)
    return rows.array.shape[1:], dict(vars(seen))


def table_of(X: Any, rows: ArrayRows) -> Any:
    """Return what scikit-learn reads widths and names from."""
    return X if hasattr(X, "columns") else rows.array


# --- Embeddings on disk. The file names are digests of what the embeddings depend on: the rows and the backbone


_DIGEST_BYTES = 32


@dataclass(frozen=True)
class EmbeddingCache:
    """A folder of ``.npy`` files, each followed by a SHA-256 of its bytes, which numpy's reader ignores.

    Files are written to a temporary name and renamed, so that processes sharing the folder see a whole file or none.
    """

    folder: Path

    def read(self, key: str, n_rows: int, dtype: Any = np.float32) -> NDArray[Any] | None:
        """Return the embeddings under a key; None if there are none of this type or the file is damaged."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            return None
        try:
            array = np.load(io.BytesIO(body), allow_pickle=False)
        except (ValueError, EOFError, OSError):
            return None
        return array if array.dtype == dtype and array.ndim == 2 and len(array) == n_rows else None

    def write(self, key: str, embeddings: NDArray[Any]) -> None:
        """Store embeddings under a key. If that fails, for example on a full disk, warn and continue."""
        buffer = io.BytesIO()
        np.save(buffer, embeddings, allow_pickle=False)
        content = buffer.getvalue()
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, content + hashlib.sha256(content).digest())
        except OSError as error:
            warnings.warn(f"Embeddings cannot be stored in {self.folder} ({error}).", RuntimeWarning, stacklevel=2)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npy"


def open_cache(cache: Any) -> EmbeddingCache | None:
    """Return the cache for the parameter: None, True (the user's cache folder) or a folder.

    As for data sets, ``ACCOUS_CACHE`` overrides the user's cache folder.
    """
    if cache is None or cache is False:
        return None
    if cache is True:
        folder = user_cache_folder() / "embeddings"
    elif isinstance(cache, str | os.PathLike):
        folder = Path(os.fspath(cache)).expanduser()
    else:
        raise ParameterError(f"cache must be None, True or the path of a folder, got {cache!r}.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"cache names {str(folder)!r}, where no folder can be created ({error}).") from error
    return EmbeddingCache(folder)


def key_of(identity: str, piece: Piece) -> str:
    """Return the SHA-256 of a backbone's identity and of rows: their shapes, types and bytes."""
    digest = hashlib.sha256(identity.encode())
    arrays = [piece] if isinstance(piece, np.ndarray) else piece
    form = "one array" if isinstance(piece, np.ndarray) else "pictures" if isinstance(piece, Pictures) else "row by row"
    digest.update(f"\n{form}".encode())
    for array in arrays:
        digest.update(f"\n{array.shape} {array.dtype.str}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _replace(path: Path, content: bytes) -> None:
    # Uses open instead of tempfile, because nobody else may read tempfile's files, and folders are shared.
    part = path.with_name(f"{path.stem}.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
