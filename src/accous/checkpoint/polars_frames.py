"""Convert polars frames to nested dicts of arrays and back.

Strings and categories are stored as texts, all other columns as numbers. Arrow IPC would be shorter, but its compiled
reader would trust what a folder says.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from accous.checkpoint.codecs import objects_from_plain, objects_to_plain
from accous.exceptions import CheckpointError

_TEXTS = ("String", "Categorical", "Enum")
_DTYPES: dict[str, Any] = {
    dtype.__name__: dtype
    for dtype in (
        *(pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Datetime, pl.Duration, pl.Time, pl.Boolean),
        *(pl.Float32, pl.Float64, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    )
}


def frame_to_plain(frame: pl.DataFrame) -> dict[str, Any]:
    """Convert names and values; the error for a dtype that cannot be saved names the column."""
    return {"names": frame.columns, "values": [_series_to_plain(column) for column in frame.get_columns()]}


def frame_from_plain(plain: dict[str, Any]) -> pl.DataFrame:
    """Return the frame."""
    columns = map(_series_from_plain, plain["values"])
    return pl.DataFrame([column.alias(name) for name, column in zip(plain["names"], columns, strict=True)])


def _series_to_plain(series: pl.Series) -> dict[str, Any]:
    name = series.dtype.base_type().__name__
    if name not in _DTYPES or not _has_global_categories(series.dtype):
        raise CheckpointError(
            f"Column {series.name!r} has dtype {series.dtype!r}, which cannot be saved: convert it to numbers, "
            "strings, categories or dates before fit."
        )
    plain = {"dtype": name, "options": _options_to_plain(series.dtype)}
    if name in _TEXTS:
        return {**plain, "texts": _texts_to_plain(series.cast(pl.String))}
    return {**plain, **_numbers_to_plain(series.to_physical())}


def _series_from_plain(plain: dict[str, Any]) -> pl.Series:
    name = plain["dtype"]
    if name not in _DTYPES:
        raise CheckpointError(f"This version of accous does not know columns of the dtype {name}: upgrade accous.")
    values = _texts_from_plain(plain["texts"]) if name in _TEXTS else _numbers_from_plain(plain)
    return values.cast(_DTYPES[name](**_options_from_plain(plain["options"])))


def _options_to_plain(dtype: pl.DataType) -> dict[str, Any]:
    match dtype:
        case pl.Enum():
            return {"categories": _texts_to_plain(dtype.categories)}
        case pl.Datetime():
            return {"time_unit": dtype.time_unit, "time_zone": dtype.time_zone}
        case pl.Duration():
            return {"time_unit": dtype.time_unit}
        case _:
            return {}


def _options_from_plain(plain: dict[str, Any]) -> dict[str, Any]:
    return plain | ({"categories": _texts_from_plain(plain["categories"])} if "categories" in plain else {})


def _texts_to_plain(series: pl.Series) -> dict[str, Any]:
    return objects_to_plain(series.to_list(), f"Column {series.name!r}")


def _texts_from_plain(plain: dict[str, Any]) -> pl.Series:
    return pl.Series(objects_from_plain(plain).tolist(), dtype=pl.String)


def _numbers_to_plain(series: pl.Series) -> dict[str, Any]:
    is_null = series.is_null().to_numpy() if series.null_count() else None
    filled = series.fill_null(False if series.dtype == pl.Boolean else 0)
    return {"values": filled.to_numpy(), "is_null": is_null}


def _numbers_from_plain(plain: dict[str, Any]) -> pl.Series:
    numbers = pl.Series(plain["values"])
    if plain["is_null"] is None:
        return numbers
    return numbers.zip_with(~pl.Series(plain["is_null"]), pl.Series([None], dtype=numbers.dtype))


def _has_global_categories(dtype: pl.DataType) -> bool:
    # Older versions of polars have only global categories.
    return not isinstance(dtype, pl.Categorical) or not hasattr(dtype, "categories") or dtype.categories.is_global()
