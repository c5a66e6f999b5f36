"""Opens a table by what its name ends in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from accous.exceptions import ParameterError
from accous.tabular.formats.chunks import TableReader
from accous.tabular.formats.delimited import DelimitedTable
from accous.tabular.formats.json_lines import JsonLinesTable
from accous.tabular.formats.npy import NpyTable
from accous.tabular.formats.parquet import ParquetTable
from accous.tabular.formats.sources import STDIN, TextSource
from accous.tabular.formats.vectors import EMBEDDING

__all__ = ["FORMATS", "format_of", "has_known_ending", "open_table"]

FORMATS = ("csv", "tsv", "jsonl", "parquet", "npy")
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
    ".npy": "npy",
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
    suffix = _ending(path)
    if suffix == ".npz":
        raise ParameterError(f"{path} is an archive of arrays: save the array you need with numpy.save, as .npy.")
    if suffix not in _FORMAT_OF_SUFFIX:
        raise ParameterError(
            f"The name {path!r} does not tell the file format: use a name that ends in .csv, .tsv, .jsonl, .parquet or "
            f".npy, or give {option}."
        )
    return _FORMAT_OF_SUFFIX[suffix]


def has_known_ending(path: str) -> bool:
    """Whether a name says what is in the file.

    Examples
    --------
    >>> has_known_ending("labels.npy"), has_known_ending("churned")
    (True, False)
    """
    return _ending(path) in _FORMAT_OF_SUFFIX


def _ending(path: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix != ".gz"), "")


def open_table(
    path: str,
    table_format: str | None = None,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    is_growing: bool = False,
    widths: Mapping[str, int] | None = None,
) -> TableReader:
    """Open a table for one reading from beginning to end.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard input.
    table_format : {"csv", "tsv", "jsonl", "parquet", "npy"}, optional
        None: by the name.
    encoding : str, optional
        Of a text. None: UTF-8, or UTF-16 with its mark.
    separator : str, optional
        Between the fields of a CSV. None: as the header has it.
    is_growing : bool, optional
        Whether to wait for more at the end.
    widths : dict of str to int, optional
        How long the embeddings are that a model was fitted with, by their names.
    """
    table_format = table_format or format_of(path, "--format")
    if table_format in ("parquet", "npy"):
        kind = "Parquet" if table_format == "parquet" else "An .npy array"
        if path == STDIN or is_growing:
            raise ParameterError(f"{kind} must be a finished file: neither standard input nor --follow.")
        if table_format == "parquet":
            return ParquetTable(path, widths)
        # An array has no names: it is what the model knows, where that is one thing only.
        return NpyTable(path, next(iter(widths)) if widths and len(widths) == 1 else EMBEDDING)
    source = TextSource(path, encoding, is_growing=is_growing)
    try:
        if table_format == "jsonl":
            return JsonLinesTable(source)
        return DelimitedTable(source, "\t" if table_format == "tsv" else separator)
    except BaseException:
        source.close()
        raise
