"""Opens the rows that a table model is to predict."""

from __future__ import annotations

from accous.tabular.adapt_request import AdaptRequest
from accous.tabular.formats.chunks import TableReader
from accous.tabular.formats.opening import open_table
from accous.tabular.formats.vectors import require_widths
from accous.tabular.table_model import TableModel

__all__ = ["open_stream"]


def open_stream(request: AdaptRequest, table_model: TableModel) -> TableReader:
    """Open the stream of a request; its embeddings must be as wide as those of the reference."""
    fitted_widths = table_model.settings.get("widths", {})
    table = open_table(
        request.stream,
        request.table_format,
        encoding=request.encoding,
        separator=request.separator,
        is_growing=request.follows,
        widths=fitted_widths,
    )
    require_widths(table.name, table.widths, fitted_widths)
    return table
