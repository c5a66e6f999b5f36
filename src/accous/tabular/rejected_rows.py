"""The bad rows that were set aside, as a table."""

from __future__ import annotations

import polars as pl

from accous.tabular.formats.chunks import BadRow

__all__ = ["rejects_frame"]


def rejects_frame(bad_rows: list[BadRow]) -> pl.DataFrame:
    """Return the line of each row, what is wrong with it, and its text."""
    columns = {
        "line": [bad.line for bad in bad_rows],
        "column": [bad.column or None for bad in bad_rows],
        "reason": [bad.reason for bad in bad_rows],
        "row": [bad.text for bad in bad_rows],
    }
    return pl.DataFrame(columns, schema_overrides={"column": pl.String})
