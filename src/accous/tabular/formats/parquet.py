"""Parquet: typed columns, rows by their number, lists of numbers spread into columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import DataError
from accous.tabular.formats.chunks import Chunk, Position
from accous.tabular.formats.numbered import chunk_of, require_same_table, rows_at_once
from accous.tabular.formats.panics import panics_as_errors
from accous.tabular.formats.values import exactly
from accous.tabular.formats.vectors import Fault, is_vector, read_vectors, spread_names

__all__ = ["ParquetTable"]

_ROWS_LOOKED_AT, _SHARE_OF_WIDTH = 1000, 0.9


class ParquetTable:
    """A Parquet file.

    Parameters
    ----------
    path : str
    expected : dict of str to int, optional
        How long the lists of some columns are; others are as long as nine in ten of their first thousand rows, or are
        no embeddings.
    """

    unit = "row"

    def __init__(self, path: str, expected: Mapping[str, int] | None = None) -> None:
        self.name = path
        try:
            with panics_as_errors():
                self._schema = pl.read_parquet_schema(path)
                self._n_rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
                self.widths = self._find_widths(expected or {})
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error}.") from None
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{path} is not a readable Parquet file ({error}).") from None
        self.n_rows: int | None = self._n_rows
        self._source_of = self._find_sources()
        self.columns = list(self._source_of)
        self._n_read = 0

    def close(self) -> None:
        """Do nothing: the file is opened for every read."""

    def share_read(self) -> float | None:
        """Share of the rows read so far."""
        return self._n_read / self._n_rows if self._n_rows else None

    def column_types(self, wanted: list[str]) -> dict[str, Any]:
        """Return the polars types of these columns."""
        sources = {name: self._source_of[name] for name in wanted}
        return {
            name: pl.Float64() if source in self.widths else self._schema[source] for name, source in sources.items()
        }

    def read_as_numbers(self, names: list[str]) -> None:
        """Do nothing: columns have their types."""

    def read_if_simple(self, names: list[str]) -> None:
        """Do nothing: columns have their types."""

    def chunks(self, wanted: list[str], start: Position) -> Iterator[Chunk | None]:
        """Yield the rows from a position on."""
        require_same_table(self.name, self._n_rows, start)
        sources = list(dict.fromkeys(self._source_of[name] for name in wanted))
        size = rows_at_once(sum(self.widths.get(name, 1) for name in sources))
        for first in range(start.end, self._n_rows, size):
            try:
                with panics_as_errors():
                    frame = pl.scan_parquet(self.name).slice(first, size).select(exactly(sources)).collect()
            except pl.exceptions.PolarsError as error:
                raise DataError(f"{self.name}, about row {first + 1}: the file is damaged ({error}).") from None
            self._n_read = first + min(size, self._n_rows - first)
            yield self._chunk(frame, first, wanted)

    def _chunk(self, frame: pl.DataFrame, first: int, wanted: list[str]) -> Chunk:
        parts, faults = [], dict[int, Fault]()
        for name in frame.columns:
            if name not in self.widths:
                parts.append(frame[name].to_frame())
                continue
            values, found = read_vectors(frame[name], self.widths[name])
            faults = found | faults  # of two in a row the first column's stays
            parts.append(pl.DataFrame(values, schema=spread_names(name, self.widths[name]), orient="row"))
        good = np.setdiff1d(np.arange(frame.height), list(faults))
        spread = pl.concat(parts, how="horizontal").select(exactly(wanted))
        return chunk_of(spread[good] if faults else spread, first, good, faults, {})

    def _find_sources(self) -> dict[str, str]:
        """Map each column of the table to the column of the file that it comes from."""
        spread = {column: name for name, width in self.widths.items() for column in spread_names(name, width)}
        for name in self._schema:
            if name not in self.widths and name in spread:
                raise DataError(
                    f"{self.name}: the lists in {spread[name]!r} need the column name {name!r}; rename one."
                )
        return {
            column: name
            for name in self._schema
            for column in (spread_names(name, self.widths[name]) if name in self.widths else [name])
        }

    def _find_widths(self, expected: Mapping[str, int]) -> dict[str, int]:
        vectors = [name for name, dtype in self._schema.items() if is_vector(dtype)]
        widths = {name: self._find_width(name) or expected.get(name, 0) for name in vectors}
        return {name: width for name, width in widths.items() if width}

    def _find_width(self, name: str) -> int:
        """Return the length of the lists in a column; 0 if they have several lengths."""
        dtype = self._schema[name]
        if isinstance(dtype, pl.Array):
            return dtype.size
        head = pl.scan_parquet(self.name).select(exactly([name])).head(_ROWS_LOOKED_AT).collect()[name].alias("values")
        lengths = Counter(head.drop_nulls().list.len().to_list())
        width, count = lengths.most_common(1)[0] if lengths else (0, 0)
        return width if count >= _SHARE_OF_WIDTH * lengths.total() else 0
