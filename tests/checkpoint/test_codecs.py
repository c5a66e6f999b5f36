"""Arrays, numbers, texts and frames come back as they were; what would need pickle is refused."""

import datetime as dt
import io
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import accous
from accous.checkpoint import codecs as rows
from accous.checkpoint.codecs import (
    from_json,
    objects_from_plain,
    objects_to_plain,
    read_arrays,
    read_data,
    to_json,
    write_arrays,
    write_data,
)
from accous.exceptions import CheckpointError
from accous.validation import own_copy


def there_and_back(plain, folder):
    return read_data(folder, write_data(folder, "state-0", plain))


def frame_and_back(frame, folder):
    return rows.rows_from_plain(there_and_back(rows.rows_to_plain(frame), folder))


# --- files of arrays are those of numpy ---------------------------------------------------------------------


ARRAYS = {
    "floats": np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324]),
    "single": np.array([1.1], dtype=np.float32),
    "plain": np.arange(6.0).reshape(2, 3),
    "again": np.arange(6.0).reshape(2, 3) + 1,
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20.0).reshape(4, 5)[::2, 1:4],
    "transposed stack": np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1),
    "empty": np.empty((0, 3, 3)),
    "scalar": np.array(3.0),
    "big endian": np.array([1.5, 2.5], dtype=">f8"),
    "bools": np.array([True, False]),
    "texts": np.array(["a", "bcd", "é"]),
    "no texts": np.array(["", ""]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2024-02-29", "NaT"], dtype="datetime64[us]"),
    "spans": np.array([1, 2], dtype="timedelta64[ns]"),
    "complex": np.array([1 + 2j]),
    "large": np.arange(200_000.0).reshape(2, -1),
    "large fortran": np.asfortranarray(np.arange(200_000.0).reshape(2, -1)),
}


def assert_same_array(found, array):
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.f_contiguous or not array.flags.f_contiguous


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_keep_bits_types_and_order(array, tmp_path):
    assert_same_array(there_and_back({"some": {"where": array}}, tmp_path)["some"]["where"], array)


def written(arrays):
    stream = io.BytesIO()
    write_arrays(stream, arrays)
    return io.BytesIO(stream.getvalue())


def members(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_bytes_are_those_of_numpy():
    by_numpy = io.BytesIO()
    np.savez(by_numpy, **ARRAYS)
    assert members(written(ARRAYS)) == members(by_numpy)


def test_files_of_numpy_are_read_into_arrays_that_are_nobody_elses():
    file = io.BytesIO()
    np.savez(file, **ARRAYS)
    found, again = (read_arrays(io.BytesIO(file.getvalue())) for _ in range(2))
    assert list(found) == list(ARRAYS)
    again["plain"][:] = 0.0
    for name, array in ARRAYS.items():
        assert_same_array(found[name], array)


def test_objects_are_neither_written_nor_unpickled():
    file = io.BytesIO()
    np.savez(file, objects=np.array([{}, None]), allow_pickle=True)
    with pytest.raises(ValueError, match="Object arrays"):
        read_arrays(io.BytesIO(file.getvalue()))
    with pytest.raises(ValueError, match="Object arrays"):
        written({"objects": np.array([{}, None])})


@pytest.mark.parametrize("place", ["header of the member", "header of the array", "values"])
def test_a_changed_byte_is_an_error(place):
    content = bytearray(written({"a": np.arange(4.0)}).getvalue())
    place_of = {
        "header of the member": 0,
        "header of the array": content.index(b"fortran_order"),
        "values": content.index(np.arange(4.0).tobytes()),
    }
    content[place_of[place]] ^= 1
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        read_arrays(io.BytesIO(bytes(content)))


# --- nested dicts of numbers and texts ----------------------------------------------------------------------


SCALARS = [np.float64(0.1), np.float32(0.1), np.float16(0.1), np.float64("nan"), np.int8(-3), np.uint64(2**63)]


SCALARS += [np.bool_(True), np.str_("text")]


NUMBERS = [0.1, -0.0, 5e-324, 1e308, 2**80, -1, 0, True, False, None, "", "$"]
NUMBERS += [float(name) for name in ("inf", "-inf", "nan")]


@pytest.mark.parametrize("value", [*NUMBERS, *SCALARS], ids=repr)
def test_numbers_and_texts_keep_value_type_and_sign(value, tmp_path):
    found = there_and_back({"a": value, "b": [value, {"c": value}]}, tmp_path)
    for part in [found["a"], found["b"][0], found["b"][1]["c"]]:
        assert type(part) is type(value)
        assert repr(part) == repr(value)


@given(value=st.floats(width=64))
def test_every_float_comes_back(value):
    assert repr(from_json(to_json(value))) == repr(value)


@pytest.mark.parametrize(
    "value",
    [np.array([None]), {1}, {"$array": "a"}, (1, 2), b"bytes", 1j, np.longdouble(1), np.zeros(2, "i4,f8")],
    ids=repr,
)
def test_what_would_need_pickle_or_be_misread_is_refused(value, tmp_path):
    with pytest.raises(CheckpointError, match="pickle"):
        there_and_back({"some": {"where": value}}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_array_among_parameters_is_refused():
    with pytest.raises(CheckpointError, match="dtype float64"):
        to_json(np.zeros(2))


objects = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[]))


@given(values=st.lists(objects, max_size=20))
@example(["a\0", "\0", ""])
def test_objects_come_back_with_their_types(values):
    found = objects_from_plain(objects_to_plain(values, "Column 'a'"))
    assert found.dtype == object
    assert list(map(type, found)) == list(map(type, values))
    assert list(map(repr, found)) == list(map(repr, values))


@pytest.mark.parametrize("value", [b"bytes", (1,), np.float64(1.0), 1j])
def test_other_objects_are_refused_by_column(value):
    with pytest.raises(CheckpointError, match=f"Column 'a' holds a {type(value).__name__}"):
        objects_to_plain(["text", value], "Column 'a'")


# --- frames -------------------------------------------------------------------------------------------------


NUMPY_DTYPES = [
    *("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    *("bool", "complex128"),
]


MASKED_DTYPES = ["Int64", "Int32", "Int16", "Int8", "UInt64", "UInt32", "UInt16", "UInt8", "Float64", "Float32"]
DATES = pd.to_datetime(["2024-02-29 12:34:56.789", None, "1900-01-01"], format="ISO8601")


PANDAS_COLUMNS = {
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


REFUSED_BY_PANDAS = {
    "period": pd.Series(pd.period_range("2024", periods=3, freq="D")),
    "intervals": pd.Series(pd.interval_range(0, 3)),
    "binned": pd.cut(pd.Series([1, 2, 3]), 2),
    "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    "arrow": pd.Series([1, 2, 3], dtype="int64[pyarrow]"),
    "lists": pd.Series([[1], [2], [3]]),
    "decimals": pd.Series([dt.date(2024, 1, 1)] * 3),
    "fixed offset": pd.Series(DATES.tz_localize(dt.timezone(dt.timedelta(hours=1), "mine"))),
}


POLARS_NUMBERS = [f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)] + ["Float32", "Float64"]
MOMENT = dt.datetime(2024, 2, 29, 12, 34, 56, 789)


POLARS_COLUMNS = {
    **{name: pl.Series([0, None, 1], dtype=getattr(pl, name)) for name in POLARS_NUMBERS},
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


def assert_same_pandas(found, frame):
    pd.testing.assert_frame_equal(found, frame, check_exact=True, check_index_type="exact", check_column_type="exact")
    for position in range(frame.shape[1]):
        assert repr(found.iloc[:, position].tolist()) == repr(frame.iloc[:, position].tolist())


@pytest.mark.parametrize("names", [*([name] for name in PANDAS_COLUMNS), [*PANDAS_COLUMNS]], ids=len)
def test_pandas_columns_come_back(names, tmp_path):
    frame = pd.DataFrame({"before": [1.0, 2.0, 3.0], **{name: PANDAS_COLUMNS[name] for name in names}})
    assert all(frame[name].dtype == PANDAS_COLUMNS[name].dtype for name in names)
    assert_same_pandas(frame_and_back(frame, tmp_path), frame)


@pytest.mark.parametrize("index", PANDAS_INDICES.values(), ids=PANDAS_INDICES)
def test_a_pandas_index_comes_back(index, tmp_path):
    for frame in (
        pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=index),
        pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=index),
    ):
        assert_same_pandas(frame_and_back(frame, tmp_path), frame)


NAMES = [["a", "a"], [0, "a"], [1, 2], ["a/b", "$array"], ["", "\0"]]
FRAMES = [*(pd.DataFrame([[1.0, "x"]], columns=names) for names in NAMES)]
FRAMES += [pd.DataFrame(index=range(3)), pd.DataFrame({"a": []})]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: str(list(frame)))
def test_any_column_names_and_empty_frames_come_back(frame, tmp_path):
    assert_same_pandas(frame_and_back(frame, tmp_path), frame)


REFUSED = {
    **{
        f"pandas {name}": pd.DataFrame({"fine": [1.0, 2.0, 3.0], "odd": odd}) for name, odd in REFUSED_BY_PANDAS.items()
    },
    **{f"polars {name}": pl.DataFrame({"odd": odd}) for name, odd in REFUSED_BY_POLARS.items()},
}


@pytest.mark.parametrize("frame", REFUSED.values(), ids=REFUSED)
def test_other_columns_are_refused_by_name(frame, tmp_path):
    with pytest.raises(CheckpointError, match=r"[Cc]olumn 'odd'"):
        frame_and_back(frame, tmp_path)


@pytest.mark.parametrize("layout", ["by row", "by column", "grown"])
def test_a_frame_lies_in_memory_as_the_copy_does_that_fit_makes(layout, tmp_path):
    values = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(values, columns=list("abc"), copy=layout != "by row")
    if layout == "grown":
        frame.insert(1, "word", ["x"] * 4)
        frame["d"], frame["e"] = 1.0, [1, 2, 3, 4]
    found, copy = frame_and_back(frame, tmp_path), own_copy(frame, frame)
    assert_same_pandas(copy, frame)
    for names in [["a", "b"], ["a", "c"], ["b", "c", frame.columns[-1]]]:
        assert found[names].to_numpy().strides == copy[names].to_numpy().strides


@pytest.mark.parametrize("names", [*([name] for name in POLARS_COLUMNS), [*POLARS_COLUMNS]], ids=len)
def test_polars_columns_come_back(names, tmp_path):
    frame = pl.DataFrame({"before": [1.0, 2.0, 3.0], **{name: POLARS_COLUMNS[name] for name in names}})
    for each in (frame, pl.concat([frame, frame], rechunk=False)):
        found = frame_and_back(each, tmp_path)
        assert found.schema == each.schema
        polars.testing.assert_frame_equal(found, each, check_exact=True)
        assert repr(found.to_dict(as_series=False)) == repr(each.to_dict(as_series=False))


@pytest.mark.parametrize(("library", "make"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_a_missing_library_is_named(library, make, tmp_path, monkeypatch):
    accous.save(accous.NoShift().fit(make({"a": [1.0, 2.0]})), tmp_path)

    def fail(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(rows, "import_module", fail)
    with pytest.raises(CheckpointError, match=f"install {library} to load it"):
        accous.load(tmp_path)
