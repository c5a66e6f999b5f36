"""Convert pandas frames to nested dicts of arrays and back, each column by its dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from accous.checkpoint.codecs import objects_from_plain, objects_to_plain
from accous.exceptions import CheckpointError
from accous.validation import own_copy

_NUMPY_KINDS = "biufcmM"
_MASKED_ARRAYS = {
    "b": pd.arrays.BooleanArray,
    "i": pd.arrays.IntegerArray,
    "u": pd.arrays.IntegerArray,
    "f": pd.arrays.FloatingArray,
}
_MASKED_DTYPES = (
    *(pd.BooleanDtype, pd.Float32Dtype, pd.Float64Dtype, pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype),
    *(pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype),
)


def frame_to_plain(frame: pd.DataFrame) -> dict[str, Any]:
    """Convert index, column names and values; the error for a dtype that cannot be saved names the column."""
    names = list(frame.columns)
    return {
        "index": _index_to_plain(frame.index, "The index"),
        "columns": _index_to_plain(frame.columns, "The list of column names"),
        "values": [
            _series_to_plain(frame.iloc[:, position], f"Column {names[position]!r}")
            for position in range(frame.shape[1])
        ],
    }


def frame_from_plain(plain: dict[str, Any]) -> pd.DataFrame:
    """Return the frame, with the same layout in memory as the copy that ``fit`` makes."""
    index = _index_from_plain(plain["index"])
    columns = dict(enumerate(map(_series_from_plain, plain["values"])))
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(index)))
    frame.index, frame.columns = index, _index_from_plain(plain["columns"])
    return own_copy(frame, frame)


def _series_to_plain(series: pd.Series, label: str) -> dict[str, Any]:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in _NUMPY_KINDS:
        return {"kind": "numpy", "values": series.to_numpy()}
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        return {"kind": "object", "objects": objects_to_plain(series, label)}
    if isinstance(dtype, _MASKED_DTYPES):
        values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        return {"kind": "masked", "values": values, "is_missing": series.isna().to_numpy()}
    if isinstance(dtype, pd.StringDtype):
        has_nan = getattr(dtype, "na_value", pd.NA) is not pd.NA
        objects = objects_to_plain(series.astype(object), label)
        return {"kind": "string", "storage": dtype.storage, "has_nan": has_nan, "objects": objects}
    if isinstance(dtype, pd.CategoricalDtype):
        categories = _series_to_plain(_as_series(dtype.categories), f"The list of categories of {label}")
        codes = series.cat.codes.to_numpy()
        return {"kind": "category", "codes": codes, "is_ordered": bool(dtype.ordered), "categories": categories}
    if isinstance(dtype, pd.DatetimeTZDtype) and _is_named_zone(dtype):
        utc = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return {"kind": "zoned", "values": utc, "zone": str(dtype.tz)}
    raise CheckpointError(
        f"{label} has dtype {dtype}, which cannot be saved: convert it to numbers, strings, categories or dates "
        "before fit."
    )


def _series_from_plain(plain: dict[str, Any]) -> pd.Series:
    match plain["kind"]:
        case "numpy":
            return pd.Series(plain["values"])
        case "object":
            return pd.Series(objects_from_plain(plain["objects"]), dtype=object)
        case "masked":
            make = _MASKED_ARRAYS[plain["values"].dtype.kind]
            return pd.Series(make(plain["values"], plain["is_missing"]))
        case "string":
            options = {"na_value": np.nan} if plain["has_nan"] else {}
            dtype = pd.StringDtype(plain["storage"], **options)
            return pd.Series(objects_from_plain(plain["objects"]), dtype=dtype)
        case "category":
            categories = _series_from_plain(plain["categories"])
            dtype = pd.CategoricalDtype(pd.Index(categories, dtype=categories.dtype), ordered=plain["is_ordered"])
            return pd.Series(pd.Categorical.from_codes(plain["codes"], dtype=dtype))
        case "zoned":
            return pd.Series(plain["values"]).dt.tz_localize("UTC").dt.tz_convert(plain["zone"])
        case kind:
            raise CheckpointError(f"This version of accous does not know columns of the kind {kind!r}: upgrade accous.")


def _is_named_zone(dtype: pd.DatetimeTZDtype) -> bool:
    try:
        return bool(pd.DatetimeTZDtype(dtype.unit, str(dtype.tz)) == dtype)
    except (KeyError, TypeError, ValueError):
        return False


def _as_series(index: pd.Index) -> pd.Series:
    # With the dtype given, none is guessed from the values.
    return pd.Series(index, dtype=index.dtype)


def _index_to_plain(index: pd.Index, label: str) -> dict[str, Any]:
    if isinstance(index, pd.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "names": [index.name]}
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    return {
        "names": list(index.names),
        "levels": [_series_to_plain(_as_series(level), label) for level in levels],
        "is_multiple": isinstance(index, pd.MultiIndex),
        "frequency": getattr(index, "freqstr", None),
    }


def _index_from_plain(plain: dict[str, Any]) -> pd.Index:
    if "range" in plain:
        return pd.RangeIndex(*plain["range"], name=plain["names"][0])
    levels = [pd.Index(level, dtype=level.dtype) for level in map(_series_from_plain, plain["levels"])]
    if plain["is_multiple"]:
        return pd.MultiIndex.from_arrays(levels, names=plain["names"])
    if plain["frequency"] is not None:
        return pd.DatetimeIndex(levels[0], name=plain["names"][0], freq=plain["frequency"])
    return levels[0].rename(plain["names"][0])
