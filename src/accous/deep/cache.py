"""Embeddings on disk. The file names are digests of what the embeddings depend on: the rows and the backbone."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.datasets.cache import user_cache_folder
from accous.deep.rows import Pictures, Piece
from accous.exceptions import ParameterError

__all__ = ["EmbeddingCache", "key_of", "open_cache"]

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
