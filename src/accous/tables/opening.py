"""Opens a table by what its name ends in."""

from __future__ import annotations

from pathlib import PurePath

from accous.exceptions import ParameterError
from accous.tables.chunks import TableReader
from accous.tables.delimited import DelimitedTable
from accous.tables.json_lines import JsonLinesTable
from accous.tables.parquet import ParquetTable
from accous.tables.sources import STDIN, TextSource

__all__ = ["FORMATS", "format_of", "open_table"]

FORMATS = ("csv", "tsv", "jsonl", "parquet")
_FORMAT_OF_SUFFIX = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(path: str, option: str) -> str:
    """Format by a file's name; ``option`` is what to give where the name does not say.

    Examples
    --------
    >>> format_of("rows.tsv.gz", "--format")
    'tsv'
    """
    if path == STDIN:
        return "csv"
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    suffix = next((suffix for suffix in reversed(suffixes) if suffix != ".gz"), "")
    if suffix not in _FORMAT_OF_SUFFIX:
        raise ParameterError(
            f"The name {path!r} does not say what is in the file: let it end in .csv, .tsv, .jsonl or .parquet, or "
            f"give {option}."
        )
    return _FORMAT_OF_SUFFIX[suffix]


def open_table(
    path: str,
    table_format: str | None = None,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    is_growing: bool = False,
) -> TableReader:
    """Open a table for one reading from beginning to end.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard input.
    table_format : {"csv", "tsv", "jsonl", "parquet"}, optional
        None: by the name.
    encoding : str, optional
        Of a text. None: UTF-8, or UTF-16 with its mark.
    separator : str, optional
        Between the fields of a CSV. None: as the header has it.
    is_growing : bool, optional
        Whether to wait for more at the end.
    """
    table_format = table_format or format_of(path, "--format")
    if table_format == "parquet":
        if path == STDIN or is_growing:
            raise ParameterError("Parquet is read from a finished file: neither from standard input nor with --follow.")
        return ParquetTable(path)
    source = TextSource(path, encoding, is_growing=is_growing)
    try:
        if table_format == "jsonl":
            return JsonLinesTable(source)
        return DelimitedTable(source, "\t" if table_format == "tsv" else separator)
    except BaseException:
        source.close()
        raise
