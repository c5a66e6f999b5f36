"""Write arrays to an ``.npz`` file and read them back, without pickle.

A saved model has dozens of small arrays. numpy writes and parses the header of each anew, as Python code, which takes
longer than all the rest. The headers repeat, so here each is made and parsed once. The files are numpy's own.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_arrays", "write_arrays"]

_FIRST_VERSION = np.lib.format.magic(1, 0)
_HEADER_START = len(_FIRST_VERSION) + 2  # two bytes with its length
# Larger arrays are written and read in pieces, so that they are not twice in memory.
_MOST_BYTES_AT_ONCE = 1 << 20
# Of the ZIP format: bytes before the name of a member, and the bit that says that it has a password.
_LOCAL_HEADER, _ENCRYPTED = 30, 1


def write_arrays(stream: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a stream, which does not have to support seeking; the same arrays give the same bytes."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            # Our own ZipInfo contains no time.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                # numpy refuses objects; their bytes would be addresses in memory.
                if array.nbytes > _MOST_BYTES_AT_ONCE or array.dtype.hasobject:
                    np.lib.format.write_array(member, array, allow_pickle=False)
                    continue
                is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
                header = _make_header(array.dtype, array.shape, is_fortran=is_fortran)
                member.write(header + array.tobytes("F" if is_fortran else "C"))


def read_arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Return the arrays by their names, with the bits, the types and the memory order that they were written with.

    Raises
    ------
    ValueError, EOFError, zipfile.BadZipFile
        If the file holds anything else.
    """
    with zipfile.ZipFile(file) as archive:
        return {info.filename.removesuffix(".npy"): _read_member(archive, info, file) for info in archive.infolist()}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: BinaryIO) -> NDArray[Any]:
    if info.file_size > _MOST_BYTES_AT_ONCE:
        with archive.open(info) as member:
            return np.lib.format.read_array(member, allow_pickle=False)
    content = _read_stored(info, file) or archive.read(info)
    start = _HEADER_START + int.from_bytes(content[len(_FIRST_VERSION) : _HEADER_START], "little")
    if content.startswith(_FIRST_VERSION):
        shape, is_fortran, dtype = _parse_header(content[len(_FIRST_VERSION) : start])
        n_bytes = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and 0 < n_bytes == len(content) - start:
            array = np.frombuffer(content, dtype, offset=start).copy()
            return array.reshape(shape, order="F" if is_fortran else "C")
    # Anything unusual, and whatever must be refused.
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def _read_stored(info: zipfile.ZipInfo, file: BinaryIO) -> bytes | None:
    """Return the bytes of a member that is not compressed; None if it is, or if anything is not as it should be.

    `zipfile` makes several objects for every member, which for small ones takes most of the time.
    """
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
        return None
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if not header.startswith(b"PK\x03\x04") or len(header) < _LOCAL_HEADER:
        return None
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), io.SEEK_CUR)
    content = file.read(info.file_size)
    return content if zlib.crc32(content) == info.CRC else None


@lru_cache(maxsize=1000)
def _make_header(dtype: np.dtype[Any], shape: tuple[int, ...], *, is_fortran: bool) -> bytes:
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": is_fortran, "shape": shape})
    return header.getvalue()


@lru_cache(maxsize=1000)
def _parse_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return np.lib.format.read_array_header_1_0(io.BytesIO(header))
