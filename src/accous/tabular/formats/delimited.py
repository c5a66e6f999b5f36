"""CSV and similar formats: a header, then one record per line."""

from __future__ import annotations

import csv
import io
from collections import Counter

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.formats.chunks import BadRow
from accous.tabular.formats.records import Records
from accous.tabular.formats.sources import TextSource
from accous.tabular.formats.text_tables import TextTable
from accous.tabular.formats.values import exactly
from accous.text import count

__all__ = ["DelimitedTable"]

_SEPARATORS = (",", ";", "\t", "|")


class DelimitedTable(TextTable):
    """A table with a header and separators between fields.

    Parameters
    ----------
    source : TextSource
    separator : str, optional
        None: the one of comma, semicolon, tab and bar that is most frequent in the header.
    """

    def __init__(self, source: TextSource, separator: str | None = None) -> None:
        self._separator = separator
        self._numbers: frozenset[str] = frozenset()
        super().__init__(source)

    def _is_first_data(self) -> bool:
        return False

    def _take_first_record(self, record: str) -> None:
        if self._separator is None:
            self._separator = max(_SEPARATORS, key=record.count)
        names = [name.strip() for name in self._header_fields(record)]
        self.columns = [name or f"column_{number}" for number, name in enumerate(names, 1)]
        repeated = [name for name, count in Counter(self.columns).items() if count > 1]
        if repeated:
            raise DataError(f"{self.name}, line 1: two columns are called {repeated[0]!r}; rename one.")

    def _header_fields(self, record: str) -> list[str]:
        try:
            return next(csv.reader([record], delimiter=self._separator or ","))
        except csv.Error:
            what = (
                "has a carriage return in it; save the file with the line ends of Unix or Windows"
                if "\r" in record
                else "cannot be read as a list of column names; repair it"
            )
            raise DataError(f"{self.name}, line 1: the header {what}.") from None

    def _parse(self, records: Records, rows: NDArray[np.int64], wanted: list[str]) -> tuple[pl.DataFrame, list[BadRow]]:
        n_columns = len(self.columns)
        is_whole = records.widths[rows] == n_columns
        bad_rows = [self._wrong_width(records, int(row), int(records.widths[row])) for row in rows[~is_whole]]
        good = rows[is_whole]
        if not len(good) or not wanted:
            return _texts({name: [None] * len(good) for name in wanted}), bad_rows
        content = records.content if len(good) == len(records) else b"\n".join(records.raw(row) for row in good)
        frame = self._read_at_once(content, wanted)
        if frame is not None and frame.height == len(good):
            return frame, bad_rows
        frame, unread = self._read_one_by_one(records, good, wanted)
        return frame, bad_rows + unread

    def read_as_numbers(self, names: list[str]) -> None:
        """Read these columns as numbers in every piece where all values are numbers."""
        self._numbers = frozenset(names)

    def _read_at_once(self, content: bytes, wanted: list[str]) -> pl.DataFrame | None:
        # Both ways of reading a number round it in the same way, so it does not matter which one a piece takes.
        for numbers in dict.fromkeys((self._numbers, frozenset[str]())):
            schema = {name: pl.Float64 if name in numbers else pl.String for name in self.columns}
            table = pl.scan_csv(
                content, has_header=False, schema=schema, separator=self._separator or ",", raise_if_empty=False
            )
            try:
                # The streaming engine is made for many cores and large files; it takes four times as long for a piece.
                return table.select(exactly(wanted)).collect(engine="in-memory")
            except pl.exceptions.PolarsError:
                continue
        return None

    def _read_one_by_one(
        self, records: Records, rows: NDArray[np.int64], wanted: list[str]
    ) -> tuple[pl.DataFrame, list[BadRow]]:
        """Read records with misplaced quotes."""
        fields, bad_rows = [], []
        for row in rows.tolist():
            record = self._fields(records.text(row))
            if record is None:
                bad_rows.append(self._bad(records, row, "", "misplaced quotes"))
            elif len(record) == len(self.columns):
                fields.append(record)
            else:
                bad_rows.append(self._wrong_width(records, row, len(record)))
        columns = zip(*fields, strict=True) if fields else [()] * len(self.columns)
        by_name = dict(zip(self.columns, map(list, columns), strict=True))
        return _texts({name: by_name[name] for name in wanted}), bad_rows

    def _fields(self, text: str) -> list[str] | None:
        try:
            return next(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator or ","), [])
        except csv.Error:
            return None

    def _wrong_width(self, records: Records, row: int, width: int) -> BadRow:
        fields = count(width, "field")
        return self._bad(records, row, "", f"the row has {fields}, but the header has {len(self.columns)}")


def _texts(columns: dict[str, list[str | None]]) -> pl.DataFrame:
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
