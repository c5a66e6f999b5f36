"""The table of what is done with each column, as ``fit`` and ``inspect`` print it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

__all__ = ["columns_table"]


def columns_table(lines: Sequence[Sequence[str]]) -> Table:
    """Return the table of what is done with each column, from the lines of ``shown_lines``."""
    table = Table(title="What is done with each column")
    for heading in ("column", "read as", "features", "what is done"):
        table.add_column(heading, justify="right" if heading == "features" else "left")
    for column, kind, n_features, what in lines:
        table.add_row(Text(column), kind, n_features, Text(what))
    return table
