"""Writes a table in every format that accous reads, in the dialects that files come in."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import polars as pl

from tests.fuzz.grids import Grid

__all__ = ["FORMATS", "Dialect", "draw_dialect", "encode_array", "encode_grid"]

FORMATS = ("csv", "tsv", "jsonl", "parquet", "npy")


@dataclass(frozen=True)
class Dialect:
    """How a table is written.

    Attributes
    ----------
    table_format : one of `FORMATS`
    separator, line_end, encoding : str
        Of a text.
    is_quoted, is_zipped, is_named : bool
        Whether every field has quotes, whether gzip is used, and whether the file's name ends in its format.
    """

    table_format: str
    separator: str = ","
    line_end: str = "\n"
    encoding: str = "utf-8"
    is_quoted: bool = False
    is_zipped: bool = False
    options: list[str] = field(default_factory=list)

    @property
    def is_text(self) -> bool:
        return self.table_format in ("csv", "tsv", "jsonl")

    @property
    def suffix(self) -> str:
        return f".{self.table_format}" + (".gz" if self.is_zipped else "")


def draw_dialect(random: Random, table_format: str) -> Dialect:
    """Draw how a table is written; most are plain."""
    if table_format in ("parquet", "npy"):
        return Dialect(table_format)
    separator = "\t" if table_format == "tsv" else random.choice([",", ",", ",", ";", "\t", "|"])
    encoding = random.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1", "utf-16-le", "cp1252"])
    options = ["--encoding", encoding] if encoding in ("latin-1", "utf-16-le", "cp1252") else []
    if table_format == "csv" and random.random() < 0.1:
        options += ["--separator", "\\t" if separator == "\t" else separator]
    line_end = random.choice(["\n", "\n", "\r\n"])
    return Dialect(table_format, separator, line_end, encoding, random.random() < 0.2, random.random() < 0.15, options)


def encode_grid(grid: Grid, dialect: Dialect, random: Random) -> bytes:
    """Return the bytes of a file with this table."""
    if dialect.table_format == "parquet":
        return _parquet(grid, random)
    if dialect.table_format == "npy":
        return encode_array(np.array([[_number(value) for value in row[:2]] for row in grid.rows] or [[0.0, 0.0]]))
    text = _json_lines(grid, dialect) if dialect.table_format == "jsonl" else _delimited(grid, dialect)
    content = text.encode(dialect.encoding, "replace" if "8" not in dialect.encoding else "surrogatepass")
    return gzip.compress(content, mtime=0) if dialect.is_zipped else content


def encode_array(array: Any) -> bytes:
    """Return the bytes of an .npy file."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def _delimited(grid: Grid, dialect: Dialect) -> str:
    text = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if dialect.is_quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=dialect.separator, lineterminator=dialect.line_end, quoting=quoting)
    writer.writerows([grid.header, *grid.rows])
    return text.getvalue()


def _json_lines(grid: Grid, dialect: Dialect) -> str:
    lines = []
    for row in grid.rows:
        record = {name: _json_value(value) for name, value in zip(grid.header, row, strict=False)}
        lines.append(json.dumps(record, ensure_ascii=dialect.is_quoted))
    return dialect.line_end.join(lines)


def _json_value(text: str) -> Any:
    """Numbers, booleans and even lists, where a text reads as such: JSON has types."""
    try:
        return json.loads(text) if len(text) < 1000 else text
    except ValueError:
        return text or None


def _parquet(grid: Grid, random: Random) -> bytes:
    """Columns of the types that their values allow, now and then of an odd one."""
    names = [_text(name) for name in grid.header]
    counts = Counter(names)
    columns = []
    for number, name in enumerate(names):
        unique = name if counts[name] == 1 else f"{name} {number}"
        values = [_text(value) for value in grid.column(number)]
        # Methods of a series would take a name such as ^a$ for a pattern: it gets its name at the end.
        columns.append(_typed(pl.Series("values", values, dtype=pl.String), random).alias(unique))
    content = io.BytesIO()
    pl.DataFrame(columns).write_parquet(content)
    return content.getvalue()


def _typed(texts: pl.Series, random: Random) -> pl.Series:
    numbers = texts.replace("", None).cast(pl.Float64, strict=False)
    if texts.len() and numbers.null_count() <= texts.len() // 4:
        return numbers.cast(random.choice([pl.Float64, pl.Float64, pl.Float32]))
    dates = texts.str.to_date("%Y-%m-%d", strict=False)
    if texts.len() and dates.null_count() == 0 and random.random() < 0.7:
        return dates.cast(random.choice([pl.Date, pl.Datetime("us"), pl.Datetime("ns"), pl.Datetime("ms", "UTC")]))
    return texts if random.random() < 0.8 else texts.cast(pl.Categorical)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
