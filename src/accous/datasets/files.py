"""Find the file of a data set: in ``ACCOUS_DATA``, then in the cache, then at the public source."""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

from accous.datasets.cache import user_cache_folder
from accous.datasets.dataset import Source, hash_arrays
from accous.datasets.public import Arrays, fetch
from accous.exceptions import DataError

__all__ = ["cache_folder", "data_folders", "find_arrays", "keep_npz", "read_npz"]

_NOT_COLUMNS = ("X", "y", "names")


def cache_folder() -> Path:
    """Return the folder of downloaded data sets; the variable ``ACCOUS_CACHE`` overrides it."""
    return user_cache_folder()


def data_folders() -> list[Path]:
    """Return the folders to search, in this order: that of ``ACCOUS_DATA``, if set, then the cache."""
    given = os.environ.get("ACCOUS_DATA")
    if given and not Path(given).is_dir():
        raise DataError(f"ACCOUS_DATA names {given!r}, which is not a folder.")
    return ([Path(given)] if given else []) + [cache_folder()]


def find_arrays(source: Source) -> Arrays:
    """Return a data set's arrays, checked against the source's hash.

    Raises
    ------
    DataError
        If it cannot be found or downloaded, or is not what it should be.
    """
    assert source.file_name is not None
    for folder in data_folders():
        path = folder / source.file_name
        if path.is_file():
            return _check(source, read_npz(path), str(path))
    arrays = _check(source, fetch(source, cache_folder()), source.url)
    keep_npz(cache_folder() / source.file_name, arrays)
    return arrays


def read_npz(path: Path, names: tuple[str, ...] | None = None) -> Arrays:
    """Read the named arrays of a file, or all of them. Nothing is unpickled."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in (file.files if names is None else names)}
    except KeyError as error:
        raise DataError(f"{path} does not hold the arrays {', '.join(names or ())}: download it again.") from error
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read ({error}): delete it, and accous downloads it again.") from error


def keep_npz(path: Path, arrays: Arrays) -> None:
    """Write arrays to the cache. If that fails, warn and continue: the arrays are loaded, but not cached."""
    try:
        _write_npz(path, arrays)
    except OSError as error:
        warnings.warn(
            f"{path} cannot be written ({error}): the data will be read from their source again next time; set "
            "ACCOUS_CACHE to a folder that can be written to.",
            RuntimeWarning,
            stacklevel=2,
        )


def _write_npz(path: Path, arrays: Arrays) -> None:
    """Write to a temporary file beside it and rename, so that a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".npz")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _check(source: Source, arrays: Arrays, place: str) -> Arrays:
    columns = {name: array for name, array in arrays.items() if name not in _NOT_COLUMNS}
    if "X" not in arrays or "y" not in arrays:
        raise DataError(f"{place} does not hold {source.title}: it has no arrays X and y.")
    found = hash_arrays(arrays["X"], arrays["y"], columns)
    if found != source.arrays_sha256:
        raise DataError(
            f"{place} does not hold {source.title} as it was when accous was written: the hash of its arrays is "
            f"{found}, not {source.arrays_sha256}. Download the file again."
        )
    return arrays
