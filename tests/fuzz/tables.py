"""Small tables that work, odd values and types, and every format and dialect that a table is written in."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import polars as pl

LABEL = "y"
EMBEDDING_WIDTH = 3
_HEADER = ["age", "income", "plan", "day", LABEL]


@dataclass
class Grid:
    """A table of texts; rows may have more or fewer fields than the header once they are mutated."""

    header: list[str]
    rows: list[list[str]]

    def copy(self) -> Grid:
        return Grid(list(self.header), [list(row) for row in self.rows])

    def column(self, number: int) -> list[str]:
        """The values of a column; empty where a row is too short."""
        return [row[number] if number < len(row) else "" for row in self.rows]


def make_grid(random: Random, n_rows: int, *, n_classes: int | None = 2) -> Grid:
    """Rows with a number, a number that is missing now and then, a category, a date and a label.

    The label is a class, or a number where ``n_classes`` is None.
    """
    rows = []
    for number in range(n_rows):
        age, income = random.gauss(40.0, 10.0), random.gauss(1000.0, 200.0)
        score = age + income / 50.0 + random.gauss(0.0, 5.0)
        missing = random.random() < 0.1
        day = f"2024-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"
        plan = random.choice("abc")
        rows.append([f"{age:.2f}", "" if missing else f"{income:.1f}", plan, day, _label(number, score, n_classes)])
    return Grid(list(_HEADER), rows)


def _label(number: int, score: float, n_classes: int | None) -> str:
    if n_classes is None:
        return f"{score:.2f}"
    # The first rows have every class, so that a base table always has all of them.
    place = number if number < n_classes else min(n_classes - 1, max(0, int((score - 35.0) / (50.0 / n_classes))))
    return f"class {place}"


def make_vectors(random: Random, n_rows: int, *, has_classes: bool = True) -> tuple[list[list[float]], list[float]]:
    """Embeddings and their labels: classes 0 and 1, or numbers."""
    classes = [number % 2 for number in range(n_rows)]
    rows = [[random.gauss(label, 1.0) for _ in range(EMBEDDING_WIDTH)] for label in classes]
    return rows, list(classes) if has_classes else [round(sum(row) + random.gauss(0.0, 0.5), 3) for row in rows]


_NUMBERS = [
    *("NaN", "nan", "-nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e308", "-1.7e308", "1e150", "1e151"),
    *("1e-320", "-0", "-0.0", "+5", "0x1F", "0b1", "1_000", "1,5", "1.5.5", "1e", "٣", "½", "9" * 400),
    *("99999999999999999999", "0", "1", "-1", "1e9", "1e15", "1e16", "1e100", "4.9e-324", "2147483648"),
    "-9223372036854775809",
]  # fmt: skip
_DATES = [
    *("2024-02-30", "2024-13-01", "9999-12-31", "0000-00-00", "0001-01-01", "12:30", "2024-01-01T25:00", "31.12.2024")
]
_WORDS = ["", " ", "true", "False", "None", "null", "NA", "?", "#N/A", "a", "b", "yes", "no", "-", "."]
_TEXTS = [
    *('"', '""', '"""', '"a', 'a"b', "'", ",", ";", "\t", "|", "\\", "\\n", "a\nb", "a\r\nb", "a\rb", "\r", "\n"),
    *("\x00", "a\x00", "\x1b[31m", "\u202eabc", "é", "e\u0301", "\U0001f600", "\ufeff", "\u00a0", "\u2028", "\x85"),
    *("\ud800", "<script>alert(1)</script>", "</script>", "&amp;", "[[title]]", "[[figures]]", "[[script]]", "{x}"),
    *("%s", "$array", "=1+1", "[bold]x[/bold]", "[1, 2]", '{"a": 1}', "x" * 2000, "é" * 700),
]  # fmt: skip
ODD_VALUES = [*_NUMBERS, *_DATES, *_WORDS, *_TEXTS]
ODD_NAMES = [
    *("", " ", "round", "prediction", "ratio", "p_class 0", "label", "y", "age", "AGE", "column_1", "column_2"),
    *("literal", "embedding_0", "plan is missing", "day", "name with, comma", "a/b", "../x", ":", "labels.csv:y", "-o"),
    *("--force", *_TEXTS),
    *("1", "1.5", "nan", "None", "len", "index", "__index__", "*", "^.*$", "^age$"),
]  # fmt: skip
ODD_LABELS = ["", "class 0", "class 1", "new class", "0", "1", "1.0", "01", "-1", "٣", "²", "true", *_TEXTS]


FORMATS = ("csv", "tsv", "jsonl", "parquet", "npy")


@dataclass(frozen=True)
class Dialect:
    """How a table is written."""

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
    records = [dict(zip(grid.header, map(_json_value, row), strict=False)) for row in grid.rows]
    return dialect.line_end.join(json.dumps(record, ensure_ascii=dialect.is_quoted) for record in records)


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
        chosen = random.choice([pl.Float64, pl.Float64, pl.Float32])
        # Ids have more digits than the short type holds.
        return numbers.cast(chosen if (numbers.abs() < 1e9).all() else pl.Float64)
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


_ODD_NUMBERS = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0, -0.0, 1e9]
_DTYPES = ["f2", "f4", ">f8", "i1", "u1", "i8", "u8", "?", "c16", "U5", "S5", "M8[s]", "m8[s]", "V3", "O", "f4,i4", "g"]


def odd_array(rows: Any, random: Random) -> bytes:
    """Embeddings with other values, another shape or another type."""
    array = np.array(rows, dtype=np.float64)
    kind = random.choice(["values", "column", "shape", "dtype", "order", "rows"])
    if kind == "values":
        for _ in range(random.choice([1, 3, len(array)])):
            array[random.randrange(len(array)), random.randrange(array.shape[1])] = random.choice(_ODD_NUMBERS)
    elif kind == "column":
        array[:, random.randrange(array.shape[1])] = random.choice(_ODD_NUMBERS)
    elif kind == "shape":
        others = [array[:, :0], array[0], array[:, 0], array[0, 0], array[:, :, None], array[:, :-1]]
        array = random.choice([*others, np.hstack((array, array))])
    elif kind == "dtype":
        with np.errstate(all="ignore"):
            array = _cast(array, random.choice(_DTYPES))
    elif kind == "order":
        array = np.asfortranarray(array)
    else:
        array = array[: random.choice([0, 1, 2, 3, 7])]
    return encode_array(array)


def _cast(array: Any, dtype: str) -> Any:
    if dtype in ("O", "V3", "f4,i4"):
        return np.array(array.tolist(), dtype=object) if dtype == "O" else np.zeros(array.shape, dtype=dtype)
    return array.astype("i8").astype(dtype) if dtype.startswith(("M8", "m8")) else array.astype(dtype)


def odd_labels(labels: list[float], random: Random) -> bytes:
    """A file of labels with other values, another shape or another type."""
    array: Any = np.array(labels)
    kind = random.choice(["dtype", "texts", "shape", "length", "values", "fractions"])
    if kind == "dtype":
        array = _cast(array, random.choice(_DTYPES))
    elif kind == "texts":
        names = random.choice([["a", "b"], ["", "a"], ["é", "a\n"], ["x" * 300, "\x00"], ["nan", "1"], ["1", "01"]])
        array = np.array([names[int(label) % 2] for label in labels])
        array = np.char.encode(array, random.choice(["utf-8", "latin-1"])) if random.random() < 0.3 else array
    elif kind == "shape":
        array = random.choice([array[:, None], array[None], array[0], np.stack((array, array))])
    elif kind == "length":
        array = random.choice([array[:-1], array[:0], np.append(array, 0)])
    elif kind == "values":
        array = array * random.choice([0, -1, 2**40, 2**62]) + random.choice([0, 5])
    else:
        array = array + random.choice([0.5, 0.0, np.nan, np.inf, 1e300])
    return encode_array(array)


def with_odd_column(content: bytes, random: Random) -> bytes:
    """Replace a column of a Parquet file by one of an odd type, or add one."""
    frame = pl.read_parquet(io.BytesIO(content))
    odd = _odd_column(random.choice([*frame.columns, "odd"]), frame.height, random)
    written = io.BytesIO()
    try:
        frame.with_columns(odd).write_parquet(written)
    except pl.exceptions.PolarsError:  # a type that Parquet has no place for
        return content
    return written.getvalue()


def _odd_column(name: str, n_rows: int, random: Random) -> pl.Series:
    values, dtype = random.choice(_ODD_COLUMNS)
    return pl.Series(name, [values[row % len(values)] for row in range(n_rows)], dtype=dtype)


_ODD_COLUMNS: list[tuple[list[Any], Any]] = [
    ([None], pl.Null),
    ([True, False, None], pl.Boolean),
    ([1, 2, -3], pl.Int8),
    ([2**63, 2**64 - 1, 0], pl.UInt64),
    ([Decimal("1.50"), Decimal("-2.25")], pl.Decimal(10, 2)),
    ([time(1, 2, 3), time(23, 59)], pl.Time),
    ([timedelta(days=1), timedelta(seconds=-5)], pl.Duration("us")),
    ([date(1, 1, 1), date(9999, 12, 31)], pl.Date),
    ([b"\x00\xff", b"abc"], pl.Binary),
    ([b"1", b"2"], pl.Binary),
    ([[1.0, 2.0], [3.0, 4.0]], pl.List(pl.Float64)),
    ([[1.0, None], [float("nan"), 4.0], None], pl.List(pl.Float64)),
    ([[1.0], [1.0, 2.0], []], pl.List(pl.Float64)),
    ([[], []], pl.List(pl.Float64)),
    ([["a"], ["b", "c"]], pl.List(pl.String)),
    ([[1, 2], [3, 4]], pl.Array(pl.Int32, 2)),
    ([[[1], [2]], [[3]]], pl.List(pl.List(pl.Int64))),
    ([{"a": 1}, {"a": 2}], pl.Struct({"a": pl.Int64})),
    (["a", "b", None], pl.Enum(["a", "b"])),
    ([float("inf"), 1.0, 2.0], pl.Float64),
    ([float("nan"), 1.0, 2.0], pl.Float32),
    ([1e300, -1e300, 0.0], pl.Float64),
]
