"""JSON lines: one object per line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.formats.chunks import BadRow
from accous.tabular.formats.records import Records
from accous.tabular.formats.text_tables import TextTable

__all__ = ["JsonLinesTable"]


class JsonLinesTable(TextTable):
    """A table of objects; the first one defines the columns, and fields that a later one lacks are missing values."""

    _simple: frozenset[str] = frozenset()

    def read_if_simple(self, names: list[str]) -> None:
        """Read lists and objects in these columns as missing values."""
        self._simple = frozenset(names)

    def _is_first_data(self) -> bool:
        return True

    def _take_first_record(self, record: str) -> None:
        try:
            first = _parse_json(record)
        except ValueError as error:
            raise DataError(f"{self.name}, line 1: not valid JSON ({error}).") from None
        if not isinstance(first, dict):
            raise DataError(f'{self.name}, line 1: every line must be a JSON object, such as {{"age": 42}}.')
        self.columns = list(first)

    def _parse(self, records: Records, rows: NDArray[np.int64], wanted: list[str]) -> tuple[pl.DataFrame, list[BadRow]]:
        columns: dict[str, list[str | None]] = {name: [] for name in wanted}
        bad_rows = []
        for row in rows.tolist():
            try:
                record = _parse_json(records.raw(row).decode())
            except ValueError as error:
                bad_rows.append(self._bad(records, row, "", f"not valid JSON ({error})"))
                continue
            if not isinstance(record, dict):
                bad_rows.append(self._bad(records, row, "", "not a JSON object"))
                continue
            for name in self._simple:
                if isinstance(record.get(name), (dict, list)):
                    del record[name]
            nested = next((name for name in wanted if isinstance(record.get(name), (dict, list))), None)
            if nested is not None:
                bad_rows.append(self._bad(records, row, nested, "a list or an object where a single value is expected"))
                continue
            for name, values in columns.items():
                values.append(_as_text(record.get(name)))
        return pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String)), bad_rows


def _parse_json(text: str) -> Any:
    """Parse JSON with numbers as text; raise a ValueError with the reason if it cannot be used."""
    try:
        record = json.loads(text, parse_float=str, parse_int=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\u" in text and not _is_unicode(record):
        raise ValueError("it has half of a surrogate pair, such as \\ud800")
    return record


def _is_unicode(record: Any) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)  # true, false, NaN, Infinity
