"""Opens a table in the format that its file name suggests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from accous.exceptions import ParameterError
from accous.parameters import require_choice
from accous.tabular.formats.chunks import TableReader
from accous.tabular.formats.delimited import DelimitedTable
from accous.tabular.formats.json_lines import JsonLinesTable
from accous.tabular.formats.npy import NpyTable
from accous.tabular.formats.parquet import ParquetTable
from accous.tabular.formats.sources import STDIN, TextSource
from accous.tabular.formats.vectors import EMBEDDING

__all__ = ["FORMATS", "Asked", "Format", "format_of", "has_known_ending", "open_table", "written_format_of"]

_SPREADSHEETS = (".xlsx", ".xls", ".ods")


@dataclass(frozen=True)
class Asked:
    """What a caller of `open_table` asked for; the attributes are its parameters."""

    path: str
    encoding: str | None = None
    separator: str | None = None
    is_growing: bool = False
    widths: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Format:
    """How a format is recognised and opened.

    Attributes
    ----------
    endings : tuple of str
        What the names of its files end in.
    open : callable
        Takes an `Asked` and returns a `TableReader`.
    whole_files : str
        What sentences call it, if it can only be read from a finished file; empty if it is text that may be piped.
    """

    endings: tuple[str, ...]
    open: Callable[[Asked], TableReader]
    whole_files: str = ""


def _open_npy(asked: Asked) -> NpyTable:
    # An array has no column names: if the model knows exactly one embedding, the array is that one.
    return NpyTable(asked.path, next(iter(asked.widths)) if asked.widths and len(asked.widths) == 1 else EMBEDDING)


def _open_text(asked: Asked, make: Callable[[TextSource], TableReader]) -> TableReader:
    source = TextSource(asked.path, asked.encoding, is_growing=asked.is_growing)
    try:
        return make(source)
    except BaseException:
        source.close()
        raise


FORMATS: dict[str, Format] = {
    "csv": Format(
        (".csv", ".txt"),
        lambda asked: _open_text(asked, lambda source: DelimitedTable(source, asked.separator)),
    ),
    "tsv": Format((".tsv", ".tab"), lambda asked: _open_text(asked, lambda source: DelimitedTable(source, "\t"))),
    "jsonl": Format((".jsonl", ".ndjson", ".json"), lambda asked: _open_text(asked, JsonLinesTable)),
    "parquet": Format((".parquet", ".pq"), lambda asked: ParquetTable(asked.path, asked.widths), "Parquet"),
    "npy": Format((".npy",), _open_npy, "An .npy array"),
}
"""The formats by the names that ``--format`` takes."""


def format_of(path: str, option: str) -> str:
    """Return the format that a file's name suggests; the error for an unclear name mentions ``option``.

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
    if suffix in _SPREADSHEETS:
        raise ParameterError(f"{path} is a spreadsheet, which accous does not read: save it as CSV.")
    known = _format_of_ending()
    if suffix not in known:
        *first, last = (each.endings[0] for each in FORMATS.values())
        raise ParameterError(
            f"The name {path!r} does not tell the file format: use a name that ends in {', '.join(first)} or {last}, "
            f"or give {option}."
        )
    return known[suffix]


def written_format_of(path: str) -> str:
    """Return the format in which to write a table, by the name of its file.

    Examples
    --------
    >>> written_format_of("predictions.parquet")
    'parquet'
    """
    suffix = _ending(path)
    found = _format_of_ending().get(suffix)
    if found is None or found == "npy":
        what = f"as {suffix}" if suffix else "to a name without an ending"
        raise ParameterError(
            f"Predictions cannot be written {what} ({path}): use a name that ends in .csv, .tsv, .jsonl or .parquet."
        )
    return found


def has_known_ending(path: str) -> bool:
    """Whether a name says what is in the file.

    Examples
    --------
    >>> has_known_ending("labels.npy"), has_known_ending("churned")
    (True, False)
    """
    return _ending(path) in _format_of_ending()


def _format_of_ending() -> dict[str, str]:
    return {ending: name for name, each in FORMATS.items() for ending in each.endings}


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
    table_format : str, optional
        A name in `FORMATS`. None: by the file's name.
    encoding : str, optional
        Of a text. None: UTF-8, or UTF-16 with its mark.
    separator : str, optional
        Between the fields of a CSV. None: as the header has it.
    is_growing : bool, optional
        Whether to wait for more at the end.
    widths : dict of str to int, optional
        How long the embeddings are that a model was fitted with, by their names.
    """
    name = format_of(path, "--format") if table_format is None else table_format
    chosen = FORMATS[require_choice("--format", name, tuple(FORMATS))]
    if chosen.whole_files and (path == STDIN or is_growing):
        raise ParameterError(f"{chosen.whole_files} must be a finished file: neither standard input nor --follow.")
    return chosen.open(Asked(path, encoding, separator, is_growing, widths))
