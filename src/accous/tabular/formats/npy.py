"""Arrays that numpy has saved: the file is mapped into memory and read piece by piece, and nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.formats.chunks import Chunk, Position, digest_of
from accous.tabular.formats.numbered import chunk_of, require_same_table, rows_at_once
from accous.tabular.formats.values import exactly
from accous.tabular.formats.vectors import EMBEDDING, faults_of, spread_names

__all__ = ["NpyTable", "open_array"]


class NpyTable:
    """A 2-D array of numbers, one embedding a row.

    Parameters
    ----------
    path : str
    vector : str, optional
        What the embedding is called; its columns are ``embedding_0``, ``embedding_1`` and so on.
    """

    unit = "row"

    def __init__(self, path: str, vector: str = EMBEDDING) -> None:
        self.name = path
        self._array = open_array(path)
        _require_rows_of_numbers(self._array, path)
        self.n_rows: int | None = len(self._array)
        self._vector = vector
        self.widths = {vector: self._array.shape[1]}
        self.columns = spread_names(vector, self._array.shape[1])
        self._n_read = 0

    def close(self) -> None:
        """Do nothing: the file is closed when the array is freed."""

    def share_read(self) -> float | None:
        """Share of the rows read so far."""
        return self._n_read / len(self._array) if len(self._array) else None

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars type of all columns."""
        return dict.fromkeys(wanted, pl.Float64())

    def read_as_numbers(self, names: list[str]) -> None:
        """Do nothing: all columns are numbers."""

    def read_if_simple(self, names: list[str]) -> None:
        """Do nothing: all columns are numbers."""

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rows from a position on; rows with NaN or infinity are bad."""
        self._require_same(start)
        size = rows_at_once(len(self.columns))
        for first in range(start.end, len(self._array), size):
            values = np.array(self._array[first : first + size], dtype=np.float64, order="C")
            self._n_read = first + len(values)
            yield self._chunk(values, first, wanted)

    def _chunk(self, values: NDArray[np.float64], first: int, wanted: list[str]) -> Chunk:
        faults = faults_of(values, self._vector)
        good = np.setdiff1d(np.arange(len(values)), list(faults))
        kept = values[good] if faults else values
        frame = pl.DataFrame(kept, schema=self.columns, orient="row").select(exactly(wanted))
        chunk = chunk_of(frame, first, good, faults, {row: _text(values[row]) for row in faults})
        return replace(chunk, frame=frame, row_bytes=lambda row: _text(kept[row]).encode())

    def _require_same(self, start: Position) -> None:
        require_same_table(self.name, len(self._array), start)
        if start.tail_digest and start.tail_digest != digest_of(_text(self._array[start.end - 1]).encode()):
            raise DataError(
                f"{self.name} is not the table that was read before: its row {start.end} has changed; restore it, or "
                "start a new run with --new."
            )


def open_array(path: str) -> NDArray[Any]:
    """Map an .npy file into memory, for reading."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # numpy's reader of headers raises whatever it stumbles over
        if "Python objects" in str(error):
            raise DataError(
                f"{path} holds Python objects, which can only be unpickled and may run any code: save plain numbers or "
                "texts, for example numpy.save(path, array.astype('float32')) or array.astype(str)."
            ) from None
        raise DataError(f"{path} is not a readable .npy file ({error}).") from None


def _require_rows_of_numbers(array: NDArray[Any], path: str) -> None:
    if array.dtype.kind not in "fiub":
        raise DataError(f"{path} holds values of type {array.dtype}: embeddings are floats or whole numbers.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"{path} holds an array of shape {array.shape}: a 2-D array is needed, one row for each embedding; reshape "
            "it with array.reshape(len(array), -1)."
        )


def _text(row: NDArray[Any]) -> str:
    return " ".join(map(repr, np.asarray(row, dtype=np.float64).tolist()))
