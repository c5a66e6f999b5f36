"""Nested dicts of arrays, numbers and strings come back as they were."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.checkpoint.codecs import from_json, objects_from_plain, objects_to_plain, read_data, to_json, write_data
from accous.exceptions import CheckpointError

ARRAYS = {
    "floats": np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324]),
    "single": np.array([1.1], dtype=np.float32),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20.0).reshape(4, 5)[::2, 1:4],
    "transposed stack": np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1),
    "empty": np.empty((0, 3, 3)),
    "scalar": np.array(3.0),
    "big endian": np.array([1.5, 2.5], dtype=">f8"),
    "bools": np.array([True, False]),
    "texts": np.array(["a", "bcd", "é"]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2024-02-29", "NaT"], dtype="datetime64[us]"),
    "spans": np.array([1, 2], dtype="timedelta64[ns]"),
    "complex": np.array([1 + 2j]),
}
NUMBERS = [
    0.1,
    -0.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    5e-324,
    1e308,
    2**80,
    -1,
    0,
    True,
    False,
    None,
    "",
    "$",
]
SCALARS = [np.float64(0.1), np.float32(0.1), np.float16(0.1), np.float64("nan"), np.int8(-3), np.uint64(2**63)]
SCALARS += [np.bool_(True), np.str_("text")]


def there_and_back(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    return read_data(folder, write_data(folder, "state-0", plain))


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_arrays_keep_bits_types_and_order(array: Any, tmp_path: Path) -> None:
    found = there_and_back({"some": {"where": array}}, tmp_path)["some"]["where"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    if array.flags.f_contiguous:
        assert found.flags.f_contiguous


@pytest.mark.parametrize("value", [*NUMBERS, *SCALARS], ids=repr)
def test_numbers_and_texts_keep_value_type_and_sign(value: Any, tmp_path: Path) -> None:
    found = there_and_back({"a": value, "b": [value, {"c": value}]}, tmp_path)
    for part in [found["a"], found["b"][0], found["b"][1]["c"]]:
        assert type(part) is type(value)
        assert repr(part) == repr(value)


@given(value=st.floats(width=64))
def test_every_float_comes_back(value: float) -> None:
    assert repr(from_json(to_json(value))) == repr(value)


@pytest.mark.parametrize(
    "value",
    [np.array([None]), {1}, {"$array": "a"}, (1, 2), b"bytes", 1j, np.longdouble(1), np.zeros(2, "i4,f8")],
    ids=repr,
)
def test_what_would_need_pickle_or_be_misread_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be saved without pickle"):
        there_and_back({"some": {"where": value}}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_array_among_parameters_is_refused() -> None:
    with pytest.raises(CheckpointError, match="an array of dtype float64"):
        to_json(np.zeros(2))


objects = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[]))


@given(values=st.lists(objects, max_size=20))
def test_objects_come_back_with_their_types(values: list[Any]) -> None:
    found = objects_from_plain(objects_to_plain(values, "Column 'a'"))
    assert found.dtype == object
    assert list(map(type, found)) == list(map(type, values))
    assert list(map(repr, found)) == list(map(repr, values))


def test_texts_keep_trailing_nulls() -> None:
    assert objects_from_plain(objects_to_plain(["a\0", "\0", ""], "y")).tolist() == ["a\0", "\0", ""]


@pytest.mark.parametrize("value", [b"bytes", (1,), np.float64(1.0), 1j])
def test_other_objects_are_refused_by_column(value: Any) -> None:
    with pytest.raises(CheckpointError, match=f"Column 'a' holds a {type(value).__name__}"):
        objects_to_plain(["text", value], "Column 'a'")
