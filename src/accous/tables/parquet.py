"""Parquet: typed columns, rows by their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import DataError
from accous.tables.chunks import Chunk, Position

__all__ = ["ParquetTable"]

_ROWS_AT_ONCE = 1 << 16


class ParquetTable:
    """A Parquet file.

    Parameters
    ----------
    path : str
    """

    unit = "row"

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            self._schema = pl.read_parquet_schema(path)
            self._n_rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error}.") from None
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path} is no Parquet file that can be read ({error}).") from None
        self.columns = list(self._schema)
        self._n_read = 0

    def close(self) -> None:
        """Do nothing: the file is opened for every read."""

    def share_read(self) -> float | None:
        """Share of the rows read so far."""
        return self._n_read / self._n_rows if self._n_rows else None

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars types of these columns."""
        return {name: self._schema[name] for name in wanted}

    def read_as_numbers(self, names: list[str]) -> None:
        """Do nothing: columns have their types."""

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rows from a position on."""
        if start.end > self._n_rows:
            raise DataError(
                f"{self.name} is not the table that was read before: it has {self._n_rows} rows, and {start.end} were "
                "read; restore it, or begin a new run with --new."
            )
        for first in range(start.end, self._n_rows, _ROWS_AT_ONCE):
            try:
                frame = pl.scan_parquet(self.name).slice(first, _ROWS_AT_ONCE).select(wanted).collect()
            except pl.exceptions.PolarsError as error:
                raise DataError(f"{self.name}, about row {first + 1}: the file is damaged ({error}).") from None
            n_rows = min(_ROWS_AT_ONCE, self._n_rows - first)
            self._n_read = first + n_rows
            ends = np.arange(first + 1, first + n_rows + 1, dtype=np.int64)
            yield Chunk(frame, ends, ends, ends)
