"""Files of typed values with odd types, shapes and values: Parquet columns and numpy arrays."""

from __future__ import annotations

import io
from datetime import date, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import polars as pl

from tests.fuzz.formats import encode_array

__all__ = ["odd_array", "odd_labels", "with_odd_column"]

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
        array = random.choice(
            [
                array[:, :0],
                array[0],
                array[:, 0],
                array[0, 0],
                array[:, :, None],
                array[:, :-1],
                np.hstack((array, array)),
            ]
        )
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
