"""The bad rows that were set aside, as a table."""

from __future__ import annotations

import polars as pl

from accous.tabular.formats.chunks import BadRow
from accous.tabular.formats.writing import RowsOutput

__all__ = ["rejects_frame", "write_rejects"]


def rejects_frame(bad_rows: list[BadRow]) -> pl.DataFrame:
    """Return the line of each row, what is wrong with it, and its text."""
    columns = {
        "line": [bad.line for bad in bad_rows],
        "column": [bad.column or None for bad in bad_rows],
        "reason": [bad.reason for bad in bad_rows],
        "row": [bad.text for bad in bad_rows],
    }
    return pl.DataFrame(columns, schema_overrides={"column": pl.String})


def write_rejects(bad_rows: list[BadRow], path: str) -> None:
    """Write the rows to a new CSV file."""
    file = RowsOutput(path, "csv", 0)
    file.write(rejects_frame(bad_rows))
    file.put_on_disk()
    file.close()
