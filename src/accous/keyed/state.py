"""The bytes of one key's state: versioned, self-checking, and without loss.

::

    header     4s magic  H version  6B sizes  I waiting rows  I checksum  4x  16s fingerprint
    float64    numbers, theta, potentials and squared margins of the learners, adapted predictor, waiting rows
    float32    singles, thetas and triangles of the learners, slots in use, sizes of a change in progress
    int32      visits of the slots
    uint16     shares of the last fit and of the last comparison

All numbers are little-endian. The six sizes are learners, slots, visits and sizes of a change, and whether the
predictor has moved and was compared. The checksum is a CRC-32 of everything else.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.kernels_keys import read_state
from accous.core.many_keys import N_NUMBERS, KeyShape, KeyStack, Number
from accous.exceptions import CheckpointError

VERSION = 1
_MAGIC = b"ACKS"
_HEADER = struct.Struct("<4sH6BII4x16s")
_CHECKSUM_AT = 16
_CHECKSUM = struct.Struct("<I")
_MOST_ROUNDS = 2.0**53
_MOST_KNOWN_SIZES = 1024
_NO_SHARES: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)
_N_MARKS = 3  # of a waiting row: time, number, whether it was predicted


class _Sizes(NamedTuple):
    """What the header of a state says about its length."""

    n_learners: int
    n_slots: int
    n_visits: int
    n_sizes: int
    is_moved: int
    is_checked: int
    n_waiting: int


class StateFormat:
    """Writes and reads the states of the keys of one model.

    Parameters
    ----------
    shape : KeyShape
    fingerprint : bytes
        Of the model and the settings that the states belong to.
    """

    def __init__(self, shape: KeyShape, fingerprint: bytes) -> None:
        self._shape, self._fingerprint = shape, fingerprint
        self._row_width = shape.n_features + _N_MARKS
        self._n_fixed = N_NUMBERS + shape.n_coefs
        # States of a few sizes come again and again.
        self._known_counts: dict[_Sizes, tuple[int, int, int, int]] = {}

    def _counts(self, sizes: _Sizes) -> tuple[int, int, int, int]:
        """Return how many numbers of each type there are."""
        known = self._known_counts.get(sizes)
        if known is not None:
            return known
        shape = self._shape
        doubles = self._n_fixed + 2 * sizes.n_learners + sizes.n_waiting * self._row_width
        doubles += sizes.is_moved * shape.n_scores * (shape.n_features + 1)
        singles = shape.n_singles + sizes.n_learners * (shape.n_coefs + shape.n_triangle)
        singles += sizes.n_slots * shape.slot_width + sizes.n_sizes
        counts = doubles, singles, 3 * sizes.n_visits, (sizes.is_moved + sizes.is_checked) * shape.n_sample
        if len(self._known_counts) >= _MOST_KNOWN_SIZES:
            self._known_counts.clear()
        self._known_counts[sizes] = counts
        return counts

    def pack(self, stack: KeyStack, key: int, waiting: FloatArray) -> bytes:
        """Return the bytes of a key.

        Parameters
        ----------
        stack : KeyStack
        key : int
        waiting : array of shape (n_waiting, n_features + 3)
            Rows that wait for their round.
        """
        n_learners = int(stack.n_learners[key])
        n_merged = stack.n_merged[key].tolist()
        n_slots = len(n_merged)
        while n_slots and not n_merged[n_slots - 1]:
            n_slots -= 1
        is_moved, is_checked = bool(stack.is_moved[key]), bool(stack.is_checked[key])
        visits, sizes = stack.visits[key], stack.sizes[key]
        header = _HEADER.pack(
            _MAGIC,
            VERSION,
            n_learners,
            n_slots,
            len(visits),
            len(sizes),
            is_moved,
            is_checked,
            len(waiting),
            0,
            self._fingerprint,
        )
        parts = [
            header,
            stack.numbers[:, key].tobytes(),
            stack.coef[key].tobytes(),
            stack.log_potentials[key, :n_learners].tobytes(),
            stack.squares[key, :n_learners].tobytes(),
            stack.predictors[key].tobytes() if is_moved else b"",
            waiting.tobytes(),
            stack.singles[key].tobytes(),
            stack.coefs[key, :n_learners].tobytes(),
            stack.triangles[key, :n_learners].tobytes(),
            stack.slots[key, :n_slots].tobytes(),
            np.array(sizes, dtype="<f4").tobytes() if sizes else b"",
            visits.astype("<i4").tobytes() if len(visits) else b"",
            stack.fitted[key].tobytes() if is_moved else b"",
            stack.checked[key].tobytes() if is_checked else b"",
        ]
        body = b"".join(parts)
        return body[:_CHECKSUM_AT] + _CHECKSUM.pack(zlib.crc32(body)) + body[_CHECKSUM_AT + _CHECKSUM.size :]

    @staticmethod
    def peek(state: bytes) -> tuple[int, int]:
        """Return the number of rounds and of waiting rows of a state; any numbers if it is damaged."""
        if len(state) < _HEADER.size + 8:
            return 0, 0
        n_rounds: float = struct.unpack_from("<d", state, _HEADER.size + 8 * Number.N_ROUNDS)[0]
        return int(n_rounds) if 0.0 <= n_rounds < _MOST_ROUNDS else 0, _HEADER.unpack_from(state)[8]

    @staticmethod
    def age(state: bytes, name: object = None) -> tuple[int, int]:
        """Return how many rows a state has seen and how many rounds it has played: a later one has more of either."""
        if len(state) < _HEADER.size + 8 * N_NUMBERS or state[:4] != _MAGIC:
            raise _foreign(state, "" if name is None else f" of key {name!r}")
        ages = (
            struct.unpack_from("<d", state, _HEADER.size + 8 * each)[0] for each in (Number.N_SEEN, Number.N_ROUNDS)
        )
        n_seen, n_rounds = (int(age) if 0.0 <= age < _MOST_ROUNDS else 0 for age in ages)
        return n_seen, n_rounds

    def unpack(self, state: bytes, stack: KeyStack, key: int, name: object = None) -> FloatArray:
        """Write a state into the row of a key of a stack of zeros, and return the waiting rows.

        Parameters
        ----------
        state : bytes
        stack : KeyStack
        key : int
        name : object, optional
            What errors call the key.

        Raises
        ------
        CheckpointError
            If these are not the bytes of a state, or belong to another model, or were written by a newer accous.
        """
        state = bytes(state)  # compiled code reads numbers at the places where their type may lie
        sizes = self._check(state, "" if name is None else f" of key {name!r}")
        doubles, singles, integers, shares = self._counts(sizes)
        at = _HEADER.size
        eight = np.frombuffer(state, dtype=np.float64, count=doubles, offset=at)
        at += 8 * doubles
        four = np.frombuffer(state, dtype=np.float32, count=singles, offset=at)
        at += 4 * singles
        if integers:
            visits = np.frombuffer(state, dtype=np.int32, count=integers, offset=at)
            stack.visits[key] = visits.reshape(-1, 3).astype(np.int64)
        at += 4 * integers
        if sizes.n_sizes:
            stack.sizes[key] = tuple(four[-sizes.n_sizes :].tolist())
        stack.n_learners[key] = sizes.n_learners
        stack.is_moved[key], stack.is_checked[key] = sizes.is_moved, sizes.is_checked
        read_state(
            key,
            sizes.n_learners,
            sizes.n_slots,
            sizes.is_moved,
            sizes.is_checked,
            eight,
            four,
            np.frombuffer(state, dtype=np.uint16, count=shares, offset=at) if shares else _NO_SHARES,
            stack.numbers,
            stack.coef,
            stack.log_potentials,
            stack.squares,
            stack.predictors,
            stack.singles,
            stack.coefs,
            stack.triangles,
            stack.slots,
            stack.fitted,
            stack.checked,
        )
        return eight[doubles - sizes.n_waiting * self._row_width :].reshape(-1, self._row_width)

    def _check(self, state: bytes, of_key: str) -> _Sizes:
        if len(state) < _HEADER.size or state[:4] != _MAGIC:
            raise _foreign(state, of_key)
        _, version, *counts, checksum, fingerprint = _HEADER.unpack_from(state)
        if version > VERSION:
            raise CheckpointError(
                f"The state{of_key} has format {version}, and this accous reads formats up to {VERSION}: update accous."
            )
        sizes = _Sizes(*counts)
        doubles, singles, integers, shares = self._counts(sizes)
        is_this_model = fingerprint == self._fingerprint
        is_whole = not is_this_model or (
            len(state) == _HEADER.size + 8 * doubles + 4 * singles + 4 * integers + 2 * shares
        )
        start = zlib.crc32(bytes(4), zlib.crc32(state[:_CHECKSUM_AT]))
        if not is_whole or zlib.crc32(memoryview(state)[_CHECKSUM_AT + 4 :], start) != checksum:
            raise CheckpointError(
                f"The state{of_key} is torn or was changed: its checksum does not fit its {len(state)} bytes. Go back "
                "to an earlier state, or pass None to start again."
            )
        if not is_this_model:
            raise CheckpointError(
                f"The state{of_key} belongs to another model or to other settings of KeyedAdapter (fingerprint "
                f"{fingerprint.hex()[:12]}, not {self._fingerprint.hex()[:12]}): load the model that it was made with, "
                "or pass None to start again with this one."
            )
        return sizes


def _foreign(state: bytes, of_key: str) -> CheckpointError:
    return CheckpointError(
        f"The state{of_key} is not one that accous wrote ({len(state)} bytes): pass the bytes that step returned, or "
        "None to start again."
    )
