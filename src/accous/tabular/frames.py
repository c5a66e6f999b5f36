"""Frames of polars and of pandas; pyarrow, which polars itself would use for pandas, is not needed."""

from __future__ import annotations

import sys
from typing import Any, TypeVar, cast

import polars as pl

from accous.exceptions import DataError

__all__ = ["like", "to_polars"]

Frame = TypeVar("Frame")
_NUMPY_KINDS = "biufM"


def to_polars(frame: Any) -> pl.DataFrame:
    """Return a polars frame as it is, and a pandas frame converted."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if not _is_pandas(frame):
        raise DataError(f"A polars or pandas DataFrame is needed, got {type(frame).__name__}{_advice(frame)}.")
    names = [str(name) for name in frame.columns]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataError(f"The frame has two columns called {name!r}; rename one.")
    return pl.DataFrame([_to_series(name, frame.iloc[:, number]) for number, name in enumerate(names)])


def _advice(frame: Any) -> str:
    if isinstance(frame, pl.LazyFrame):
        return ": pass frame.collect()"
    if isinstance(frame, dict):
        return ": pass polars.DataFrame([row]) for a dict that is one row"
    return ""


def like(original: Frame, result: pl.DataFrame) -> Frame:
    """Return a polars frame in the library of another frame, with its index where it has one."""
    if not _is_pandas(original):
        return cast(Frame, result)
    import pandas as pd

    columns = {column.name: column.to_list() if column.dtype == pl.String else column.to_numpy() for column in result}
    frame = pd.DataFrame(columns, index=cast(Any, original).index)
    return cast(Frame, frame)


def _is_pandas(frame: Any) -> bool:
    # A pandas frame cannot be at hand before pandas is imported.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _to_series(name: str, column: Any) -> pl.Series:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    values = column.to_numpy()
    if values.dtype.kind in _NUMPY_KINDS:
        return pl.Series(name, values)
    missing = column.isna().tolist()
    try:
        return pl.Series(
            name,
            [None if is_missing else value for value, is_missing in zip(values, missing, strict=True)],
            strict=False,
        )
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"Column {name!r} of the frame cannot be used ({error}).") from None
