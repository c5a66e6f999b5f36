"""Arrays are written as numpy writes them and read as numpy reads them, whatever their header says."""

import io
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accous.checkpoint.files import read_arrays, write_arrays

ARRAYS = {
    "plain": np.arange(6.0).reshape(2, 3),
    "again": np.arange(6.0).reshape(2, 3) + 1,
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20.0).reshape(4, 5)[::2, 1:4],
    "empty": np.empty((0, 3)),
    "scalar": np.array(3.0),
    "big endian": np.array([1.5, 2.5], dtype=">f8"),
    "texts": np.array(["a", "bcd", "é"]),
    "no texts": np.array(["", ""]),
    "dates": np.array(["2024-02-29", "NaT"], dtype="datetime64[us]"),
    "large": np.arange(200_000.0).reshape(2, -1),
    "large fortran": np.asfortranarray(np.arange(200_000.0).reshape(2, -1)),
}


def written(arrays: dict[str, Any]) -> io.BytesIO:
    stream = io.BytesIO()
    write_arrays(stream, arrays)
    return io.BytesIO(stream.getvalue())


def members(file: io.BytesIO) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_bytes_are_those_of_numpy() -> None:
    by_numpy = io.BytesIO()
    np.savez(by_numpy, **ARRAYS)
    assert members(written(ARRAYS)) == members(by_numpy)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_files_of_numpy_are_read(write: Callable[..., None]) -> None:
    file = io.BytesIO()
    write(file, **ARRAYS)
    found = read_arrays(io.BytesIO(file.getvalue()))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), name
        assert found[name].flags.f_contiguous or not array.flags.f_contiguous, name


def test_what_is_read_can_be_written_to_and_is_nobody_elses() -> None:
    file = written(ARRAYS)
    first, second = read_arrays(file), read_arrays(file)
    first["plain"][:] = 0.0
    np.testing.assert_array_equal(second["plain"], ARRAYS["plain"])


def test_objects_are_refused_and_not_unpickled() -> None:
    file = io.BytesIO()
    np.savez(file, objects=np.array([{}, None]), allow_pickle=True)
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        read_arrays(io.BytesIO(file.getvalue()))


def test_objects_are_not_written() -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        written({"objects": np.array([{}, None])})


@pytest.mark.parametrize("place", ["header of the member", "header of the array", "values"])
def test_a_changed_byte_is_an_error(place: str) -> None:
    content = bytearray(written({"a": np.arange(4.0)}).getvalue())
    place_of = {
        "header of the member": 0,
        "header of the array": content.index(b"fortran_order"),
        "values": content.index(np.arange(4.0).tobytes()),
    }
    content[place_of[place]] ^= 1
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        read_arrays(io.BytesIO(bytes(content)))
