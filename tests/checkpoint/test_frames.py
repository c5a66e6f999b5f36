"""Frames come back with the same values, dtypes, names and index."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest

import accous
from accous.checkpoint import codecs as rows
from accous.checkpoint.codecs import read_data, write_data
from accous.exceptions import CheckpointError
from accous.validation import own_copy

NUMPY_DTYPES = [
    *("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    *("bool", "complex128"),
]
MASKED_DTYPES = ["Int64", "Int32", "Int16", "Int8", "UInt64", "UInt32", "UInt16", "UInt8", "Float64", "Float32"]
DATES = pd.to_datetime(["2024-02-29 12:34:56.789", None, "1900-01-01"], format="ISO8601")

PANDAS_COLUMNS: dict[str, Any] = {
    **{dtype: pd.Series([0, 1, 1], dtype=dtype) for dtype in NUMPY_DTYPES},
    **{dtype: pd.Series([0, None, 1], dtype=dtype) for dtype in MASKED_DTYPES},
    "special floats": pd.Series([-0.0, np.inf, np.nan]),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "boolean without missing": pd.Series([True, True, False], dtype="boolean"),
    "texts": pd.Series(["a", "", "é\0"], dtype=object),
    "texts and None": pd.Series(["a", None, "b"], dtype=object),
    "texts and NaN": pd.Series(["a", np.nan, "b"], dtype=object),
    "texts and NA": pd.Series(["a", pd.NA, "b"], dtype=object),
    "objects": pd.Series([True, 2, 2.5], dtype=object),
    "str": pd.Series(["a", None, "b"], dtype="str"),
    "string python": pd.Series(["a", None, "b"], dtype=pd.StringDtype("python")),
    "string pyarrow": pd.Series(["a", None, "b"], dtype=pd.StringDtype("pyarrow")),
    "string nan": pd.Series(["a", None, "b"], dtype=pd.StringDtype("python", na_value=np.nan)),
    "category": pd.Series(["b", None, "a"], dtype="category"),
    "ordered category": pd.Series(pd.Categorical(["b", None, "a"], ["c", "b", "a"], ordered=True)),
    "category of objects": pd.Series(pd.Categorical(["b", "b", "a"], pd.Index(["b", "a"], dtype=object))),
    "category of ints": pd.Series([3, 1, 3], dtype="category"),
    "category of dates": pd.Series(DATES[[0, 2, 0]], dtype="category"),
    "many categories": pd.Series(pd.Categorical.from_codes([0, 299, 7], [str(n) for n in range(300)])),
    **{f"dates {unit}": pd.Series(DATES.astype(f"datetime64[{unit}]")) for unit in ["s", "ms", "us", "ns"]},
    "zone": pd.Series(DATES.tz_localize("Europe/Paris")),
    "UTC": pd.Series(DATES.tz_localize("UTC")),
    "spans": pd.Series(DATES - DATES[0]),
}
PANDAS_INDICES = {
    "range": pd.RangeIndex(5, 2, -1),
    "named": pd.RangeIndex(3, name="row"),
    "shuffled": pd.Index([7, 3, 3], name=0),
    "texts": pd.Index(["a", "b", None]),
    "objects": pd.Index(["a", 2, None], dtype=object),
    "floats": pd.Index([0.5, 1.5, np.nan]),
    "dates": pd.date_range("2024-01-01", periods=3, freq="h", name="time"),
    "zoned dates": pd.date_range("2024-01-01", periods=3, freq="D", tz="Asia/Tokyo"),
    "irregular dates": DATES,
    "categories": pd.CategoricalIndex(["b", "a", "b"]),
    "two levels": pd.MultiIndex.from_arrays([["a", "a", "b"], [1, 2, 1]], names=["group", None]),
    "level of objects": pd.MultiIndex.from_arrays([pd.Index(["a", "a", "b"], dtype=object), [0.5, 1.5, 2.5]]),
}
REFUSED_BY_PANDAS: dict[str, Any] = {
    "period": pd.Series(pd.period_range("2024", periods=3, freq="D")),
    "intervals": pd.Series(pd.interval_range(0, 3)),
    "binned": pd.cut(pd.Series([1, 2, 3]), 2),
    "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    "arrow": pd.Series([1, 2, 3], dtype="int64[pyarrow]"),
    "lists": pd.Series([[1], [2], [3]]),
    "decimals": pd.Series([dt.date(2024, 1, 1)] * 3),
    "fixed offset": pd.Series(DATES.tz_localize(dt.timezone(dt.timedelta(hours=1), "mine"))),
}

POLARS_NUMBERS = [
    pl.Int8,
    pl.Int16,
    pl.Int32,
    pl.Int64,
    pl.UInt8,
    pl.UInt16,
    pl.UInt32,
    pl.UInt64,
    pl.Float32,
    pl.Float64,
]
MOMENT = dt.datetime(2024, 2, 29, 12, 34, 56, 789)
POLARS_COLUMNS = {
    **{dtype.__name__: pl.Series([0, None, 1], dtype=dtype) for dtype in POLARS_NUMBERS},
    "special floats": pl.Series([-0.0, float("nan"), None]),
    "large": pl.Series([2**63 - 1, -(2**63), None]),
    "Boolean": pl.Series([True, None, False]),
    "without null": pl.Series([1, 2, 3]),
    "all null": pl.Series([None, None, None], dtype=pl.Float64),
    "String": pl.Series(["a", None, "é\0"]),
    "Categorical": pl.Series(["b", None, "a"], dtype=pl.Categorical),
    "Enum": pl.Series(["b", None, "a"], dtype=pl.Enum(["c", "b", "a"])),
    "Date": pl.Series([MOMENT.date(), None, MOMENT.date()]),
    "Time": pl.Series([MOMENT.time(), None, MOMENT.time()]),
    "Duration": pl.Series([dt.timedelta(1, 2, 3), None, dt.timedelta()], dtype=pl.Duration("us")),
    **{unit: pl.Series([MOMENT, None, MOMENT], dtype=pl.Datetime(unit)) for unit in ["ms", "us", "ns"]},
    "zone": pl.Series([MOMENT, None, MOMENT]).dt.replace_time_zone("Europe/Paris"),
}
REFUSED_BY_POLARS = {
    "lists": pl.Series([[1], [2]]),
    "structs": pl.Series([{"a": 1}]),
    "decimals": pl.Series(["1.5"]).cast(pl.Decimal(10, 2)),
    "binary": pl.Series([b"a"]),
    "null": pl.Series([None]),
    "own categories": pl.Series(["a"], dtype=pl.Categorical(pl.Categories("mine"))),
}


def there_and_back(frame: Any, folder: Path) -> Any:
    return rows.rows_from_plain(read_data(folder, write_data(folder, "reference", rows.rows_to_plain(frame))))


# --- pandas ---------------------------------------------------------------------------------------------------


def assert_same_pandas(found: pd.DataFrame, frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, frame, check_exact=True, check_index_type="exact", check_column_type="exact")
    for position in range(frame.shape[1]):
        assert repr(found.iloc[:, position].tolist()) == repr(frame.iloc[:, position].tolist())


@pytest.mark.parametrize("column", PANDAS_COLUMNS.values(), ids=PANDAS_COLUMNS)
def test_a_pandas_column_comes_back(column: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"before": [1.0, 2.0, 3.0], "column": column, "after": [4.0, 5.0, 6.0]})
    assert frame["column"].dtype == column.dtype
    assert_same_pandas(there_and_back(frame, tmp_path), frame)


def test_all_pandas_columns_come_back_together(tmp_path: Path) -> None:
    frame = pd.DataFrame(PANDAS_COLUMNS)
    assert_same_pandas(there_and_back(frame, tmp_path), frame)


@pytest.mark.parametrize("index", PANDAS_INDICES.values(), ids=PANDAS_INDICES)
def test_a_pandas_index_comes_back(index: Any, tmp_path: Path) -> None:
    as_index = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=index)
    assert_same_pandas(there_and_back(as_index, tmp_path), as_index)
    as_columns = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=index)
    assert_same_pandas(there_and_back(as_columns, tmp_path), as_columns)


@pytest.mark.parametrize("names", [["a", "a"], [0, "a"], [1, 2], ["a/b", "$array"], ["", "\0"]])
def test_any_column_names_come_back(names: list[Any], tmp_path: Path) -> None:
    frame = pd.DataFrame([[1.0, "x"]], columns=names)
    assert_same_pandas(there_and_back(frame, tmp_path), frame)


@pytest.mark.parametrize("frame", [pd.DataFrame(index=range(3)), pd.DataFrame({"a": []})], ids=["columns", "rows"])
def test_empty_frames_come_back(frame: Any, tmp_path: Path) -> None:
    assert_same_pandas(there_and_back(frame, tmp_path), frame)


@pytest.mark.parametrize("column", REFUSED_BY_PANDAS.values(), ids=REFUSED_BY_PANDAS)
def test_other_pandas_columns_are_refused_by_name(column: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"[Cc]olumn 'odd' .*cannot be saved: convert it"):
        there_and_back(pd.DataFrame({"fine": [1.0, 2.0, 3.0], "odd": column}), tmp_path)


@pytest.mark.parametrize("layout", ["by row", "by column", "grown"])
def test_a_frame_lies_in_memory_as_the_copy_does_that_fit_makes(layout: str, tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(values, columns=list("abc"), copy=layout != "by row")
    if layout == "grown":
        frame.insert(1, "word", ["x"] * 4)
        frame["d"], frame["e"] = 1.0, [1, 2, 3, 4]
    found, copy = there_and_back(frame, tmp_path), own_copy(frame, frame)
    assert_same_pandas(copy, frame)
    for names in [["a", "b"], ["a", "c"], ["b", "c", frame.columns[-1]]]:
        assert found[names].to_numpy().strides == copy[names].to_numpy().strides


# --- polars ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", POLARS_COLUMNS.values(), ids=POLARS_COLUMNS)
def test_a_polars_column_comes_back(column: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"before": [1.0, 2.0, 3.0], "column": column})
    found = there_and_back(frame, tmp_path)
    assert found.schema == frame.schema
    polars.testing.assert_frame_equal(found, frame, check_exact=True)
    assert repr(found["column"].to_list()) == repr(frame["column"].to_list())


def test_all_polars_columns_come_back_together(tmp_path: Path) -> None:
    frame = pl.DataFrame(POLARS_COLUMNS)
    polars.testing.assert_frame_equal(there_and_back(frame, tmp_path), frame, check_exact=True)


def test_a_polars_frame_of_several_chunks_comes_back(tmp_path: Path) -> None:
    frame = pl.concat([pl.DataFrame({"a": [1.0, None], "b": ["x", "y"]})] * 2, rechunk=False)
    polars.testing.assert_frame_equal(there_and_back(frame, tmp_path), frame)


@pytest.mark.parametrize("column", REFUSED_BY_POLARS.values(), ids=REFUSED_BY_POLARS)
def test_other_polars_columns_are_refused_by_name(column: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Column 'odd' has dtype .*, which cannot be saved: convert it"):
        there_and_back(pl.DataFrame({"odd": column}), tmp_path)


# --- without the library --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("library", "make"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_a_missing_library_is_named(library: str, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accous.save(accous.NoShift().fit(make({"a": [1.0, 2.0]})), tmp_path)

    def fail(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(rows, "import_module", fail)
    with pytest.raises(CheckpointError, match=f"install {library} to load it"):
        accous.load(tmp_path)
