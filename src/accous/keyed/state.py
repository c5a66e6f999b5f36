"""The bytes of one key's state: versioned, self-checking, and without loss.

::

    header     4s magic  H version  6B sizes  I waiting rows  I checksum  4x  16s fingerprint
    float64    numbers, theta, potentials and squared margins of the learners, adapted predictor
    float32    singles, thetas and triangles of the learners, slots in use, sizes of a change in progress
    int32      visits of the slots
    float32    what the weights of the last fit and of the last comparison were made of; 0 up to eight bytes
    float64    waiting rows

All numbers are little-endian. The six sizes are learners, slots, visits and sizes of a change, and whether the
predictor has moved and was compared. The checksum is a CRC-32 of everything else.

Anybody can compute a checksum, so a state is believed only if every count fits the model and every number lies within
its limits: compiled code relies on both.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import EnsembleSettings
from accous.core.kernels_keys import Number
from accous.core.kernels_states import N_HEADER_WORDS, N_SIZES, read_states, write_states
from accous.core.many_keys import N_NUMBERS, KeyShape, KeyStack
from accous.core.pool import LONGEST_LOOK
from accous.exceptions import CheckpointError

VERSION = 4
_MAGIC = b"ACKS"
_HEADER = struct.Struct("<4sH6BII4x16s")
_HEADER_AND_ROUND = struct.Struct("<4sH6BII4x16sd")
_CHECKSUM_AT = 16
_CHECKSUM = struct.Struct("<I")
_NO_CHECKSUM = bytes(4)
_MOST_ROUNDS = 2.0**53
_MOST_KNOWN_SIZES = 1024
_N_MARKS = 3  # of a waiting row: time, number, whether it was predicted
_NO_ROWS = np.empty((0, _N_MARKS))


# --- What the numbers of a state can be


_MOST = _LARGEST, _LARGEST_SINGLE = 1e100, 1e30  # sums and squares of them are still numbers
_ROUNDING = 1e-3  # of sums of shares in single precision
_COUNTS = np.array(
    [
        *(Number.N_ROUNDS, Number.N_ROWS, Number.N_SEEN, Number.N_LATE, Number.N_REFITS, Number.LAST_REFIT),
        *(
            Number.IS_HELD,
            Number.VETO_ROUND,
            Number.VETO_REFITS,
            Number.EVENT_ROUND,
            Number.SEEN_FIRST,
            Number.SEEN_LAST,
        ),
        *(Number.N_EVENTS, Number.LABELS_ROW, *range(Number.LOOK_ROUNDS, N_NUMBERS)),
    ]
)
_NOT_NEGATIVE = [Number.LARGEST_MARGIN, Number.EFFECTIVE_ROWS, Number.VETO_ERROR, Number.STRENGTH]
_NOT_NEGATIVE += [Number.N_RECENT, Number.N_RECENT_OUT, Number.EVENT_SIZE, Number.EVENT_ROUNDS]
_NOT_NEGATIVE += [Number.N_LABELS, Number.N_WRONG]
_MAY_BE_NAN = np.array(
    [
        *(Number.EFFECTIVE_ROWS, Number.VETO_EXCESS, Number.VETO_ERROR, Number.EVENT_ROUNDS, Number.EVENT_TIME),
        *(Number.NEWEST_TIME, Number.CLOSED_TIME, Number.ROUND_TIME),
    ]
)
# The first is at most so many times the second: a look with rows has rounds.
_ORDERS = np.array(
    [
        (Number.LOOK_ROWS, Number.LOOK_ROUNDS, _MOST_ROUNDS),
        (Number.N_WRONG, Number.N_LABELS, 1.0),
        (Number.LABELS_ROW, Number.N_ROWS, 1.0),
    ]
)
# Parts in single precision whose last axis are shares of 1, and parts that are no thetas and not negative.
_SHARES = (
    *("filter_weights", "posteriors", "proportions", "before_proportions"),
    *("cautious_weights", "cautious_posteriors", "cautious_proportions"),
)
_POSITIVE = ("counts", "cautious_counts", "means", "look_proportions", "column_parts")


class _Limits:
    """The lowest and the highest value of the numbers of a state.

    Parameters
    ----------
    shape : KeyShape
    radius : float
        Of the ball that all thetas lie in.
    """

    def __init__(self, shape: KeyShape, radius: float) -> None:
        self.radius = radius * (1.0 + _ROUNDING)
        sums = LONGEST_LOOK * self.radius
        self.numbers, self.parts = self._of_numbers(shape), np.empty((2, shape.layout.length), dtype=np.float32)
        ranges = []
        for name, (start, of_part) in shape.layout.parts.items():
            end = start + math.prod(of_part)
            if name in _SHARES:
                ranges += [(each, each + of_part[-1]) for each in range(start, end, of_part[-1])]
            low, high = (0.0, 1.0 + _ROUNDING) if name in _SHARES else (-sums, sums)
            self.parts[:, start:end] = [[0.0], [_LARGEST_SINGLE]] if name in _POSITIVE else [[low], [high]]
        self.ranges = np.array(ranges)

    def _of_numbers(self, shape: KeyShape) -> FloatArray:
        low, high = np.full(N_NUMBERS, -_LARGEST), np.full(N_NUMBERS, _LARGEST)
        low[_COUNTS] = low[_NOT_NEGATIVE] = 0.0
        high[_COUNTS] = _MOST_ROUNDS
        high[Number.EVENT_COLUMNS :] = shape.n_features
        high[Number.IS_HELD], high[Number.LOOK_ROUNDS] = 1.0, LONGEST_LOOK - 1
        low[Number.SHARE], high[Number.SHARE] = -_ROUNDING, 1.0 + _ROUNDING
        may_be_nan, is_count = np.zeros((2, N_NUMBERS))
        may_be_nan[_MAY_BE_NAN] = is_count[_COUNTS] = 1.0
        return np.stack((low, high, may_be_nan, is_count))


# --- Writing and reading


class Header(NamedTuple):
    """What is known of a state before its numbers are read.

    Attributes
    ----------
    sizes : tuple of int
        Learners, slots, visits and sizes of a change, and whether the predictor has moved and was compared.
    n_waiting, n_rounds : int
        Waiting rows, and rounds.
    """

    sizes: tuple[int, ...]
    n_waiting: int
    n_rounds: int


class StateFormat:
    """Writes and reads the states of the keys of one model.

    Parameters
    ----------
    shape : KeyShape
    settings : EnsembleSettings
    fingerprint : bytes
        Of the model and the settings that the states belong to.
    """

    def __init__(self, shape: KeyShape, settings: EnsembleSettings, fingerprint: bytes) -> None:
        self._shape, self._fingerprint, self._min_interval = shape, fingerprint, settings.min_interval
        self._limits = _Limits(shape, settings.radius)
        self._row_width = shape.n_features + _N_MARKS
        # States of a few sizes come again and again.
        self._known_lengths: dict[tuple[int, ...], int] = {}

    def length(self, sizes: tuple[int, ...]) -> int:
        """Return the bytes of a state of these sizes, but for its waiting rows."""
        known = self._known_lengths.get(sizes)
        if known is not None:
            return known
        shape, (n_learners, n_slots, n_visits, n_changes, is_moved, is_checked) = self._shape, sizes
        doubles = N_HEADER_WORDS + N_NUMBERS + shape.n_coefs + 2 * n_learners
        doubles += is_moved * shape.n_scores * (shape.n_features + 1)
        singles = shape.layout.length + n_learners * (shape.n_coefs + shape.n_triangle)
        singles += n_slots * shape.slot_width + n_changes + 3 * n_visits
        singles += (is_moved + is_checked) * shape.n_weighing
        if len(self._known_lengths) >= _MOST_KNOWN_SIZES:
            self._known_lengths.clear()
        self._known_lengths[sizes] = 8 * (doubles + (singles + 1) // 2)
        return self._known_lengths[sizes]

    def pack(self, stack: KeyStack, waiting: list[bytes]) -> list[bytes]:
        """Return the bytes of all keys of a stack, given those of the rows that wait for their round."""
        most = stack.coefs.shape[1], stack.slots.shape[1], stack.visits.shape[1], stack.changes.shape[1], 1, 1
        room = np.empty((len(stack), self.length(most) // 8))
        sizes = np.empty((len(stack), N_SIZES + 1), dtype=np.int64)
        views = room.view(np.float32), room.view(np.int32)
        write_states(room, *views, sizes, *stack.stored)
        content, width, found = room.reshape(-1).view(np.uint8).data, 8 * room.shape[1], []
        for key, (rows, (*counts, n_words)) in enumerate(zip(waiting, sizes.tolist(), strict=True)):
            start, n_rows = key * width, len(rows) // (8 * self._row_width)
            _HEADER.pack_into(content, start, _MAGIC, VERSION, *counts, n_rows, 0, self._fingerprint)
            of_key = content[start : start + 8 * n_words]
            _CHECKSUM.pack_into(of_key, _CHECKSUM_AT, zlib.crc32(rows, zlib.crc32(of_key)))
            found.append(bytes(of_key) + rows if rows else bytes(of_key))
        return found

    @staticmethod
    def age(state: bytes, name: object = None) -> tuple[int, int]:
        """Return how many rows a state has seen and how many rounds it has run: a later one has more of either."""
        if len(state) < _HEADER.size + 8 * N_NUMBERS or state[:4] != _MAGIC:
            raise _foreign(state, _of_key(name))
        ages = (
            struct.unpack_from("<d", state, _HEADER.size + 8 * each)[0] for each in (Number.N_SEEN, Number.N_ROUNDS)
        )
        n_seen, n_rounds = (_count(age) for age in ages)
        return n_seen, n_rounds

    def unpack(
        self, states: list[bytes], headers: list[Header], stack: KeyStack, keys: IntArray, names: list[Any]
    ) -> list[FloatArray]:
        """Write states into the rows of some keys of a stack, and return the waiting rows of each.

        Parameters
        ----------
        states : list of bytes
        headers : list of Header
            What ``header`` returns for each.
        stack : KeyStack
        keys : array of shape (n_states,)
        names : list
            What errors call the keys.

        Raises
        ------
        CheckpointError
            If a count or a number is one that no rounds lead to.
        """
        sizes = np.array([header.sizes for header in headers], dtype=np.int64)
        lengths = np.array([len(state) for state in states])
        content = b"".join(states)  # compiled code reads numbers at the places where their type may lie
        types, limits = (np.float64, np.float32, np.int32), self._limits
        views = (np.frombuffer(content, dtype=each) for each in types)
        of_limits = limits.numbers, _ORDERS, limits.parts, limits.ranges, limits.radius, *_MOST, _ROUNDING
        begins = (np.cumsum(lengths) - lengths) // 8
        bad = read_states(keys, sizes, begins, *views, *of_limits, self._min_interval, *stack.stored)
        if bad >= 0:
            raise impossible_state(names[bad])
        return [
            self._rows(*each) if each[1].n_waiting else _NO_ROWS for each in zip(states, headers, names, strict=True)
        ]

    def _rows(self, state: bytes, header: Header, name: object) -> FloatArray:
        """Return the waiting rows of a state."""
        rows = np.frombuffer(state, dtype=np.float64, offset=self.length(header.sizes)).reshape(-1, self._row_width)
        if not _are_rows(rows):
            raise impossible_state(name)
        return rows

    def header(self, state: bytes, name: object) -> Header:
        """Return what the header of a state says.

        Raises
        ------
        CheckpointError
            If these are not the bytes of a state, or belong to another model, or were written by a newer accous.
        """
        if len(state) < _HEADER_AND_ROUND.size or state[:4] != _MAGIC:
            raise _foreign(state, _of_key(name))
        _, version, *counts, n_waiting, checksum, fingerprint, n_rounds = _HEADER_AND_ROUND.unpack_from(state)
        if version != VERSION:
            raise CheckpointError(
                f"The state{_of_key(name)} has format {version}, and this accous reads format {VERSION}: use the accous"
                " that wrote it, or pass None to start again."
            )
        sizes, is_this_model = tuple(counts), fingerprint == self._fingerprint
        is_whole = not is_this_model or len(state) == self.length(sizes) + 8 * n_waiting * self._row_width
        start = zlib.crc32(_NO_CHECKSUM, zlib.crc32(state[:_CHECKSUM_AT]))
        if not is_whole or zlib.crc32(memoryview(state)[_CHECKSUM_AT + 4 :], start) != checksum:
            raise CheckpointError(
                f"The state{_of_key(name)} is torn or was changed: its checksum does not fit its {len(state)} bytes. "
                "Go back to an earlier state, or pass None to start again."
            )
        if not is_this_model:
            raise CheckpointError(
                f"The state{_of_key(name)} belongs to another model or to other settings of KeyedAdapter (fingerprint "
                f"{fingerprint.hex()[:12]}, not {self._fingerprint.hex()[:12]}): load the model that it was made with, "
                "or pass None to start again with this one."
            )
        return Header(sizes, n_waiting, _count(n_rounds))


def _count(number: float) -> int:
    return int(number) if 0.0 <= number < _MOST_ROUNDS else 0


def _are_rows(waiting: FloatArray) -> bool:
    """Whether the values of waiting rows are numbers, and their times, if they have some."""
    return bool(np.isfinite(waiting[:, :-_N_MARKS]).all()) and not (np.abs(waiting[:, -_N_MARKS]) > _LARGEST).any()


def impossible_state(name: object) -> CheckpointError:
    """Return the error for the state of a key that is whole, and that no rounds lead to."""
    return CheckpointError(
        f"The state{_of_key(name)} holds counts or numbers that accous never writes: somebody else did. Go back to an "
        "earlier state, or pass None to start again."
    )


def _of_key(name: object) -> str:
    return "" if name is None else f" of key {name!r}"


def _foreign(state: bytes, of_key: str) -> CheckpointError:
    return CheckpointError(
        f"The state{of_key} is not one that accous wrote ({len(state)} bytes): pass the bytes that step returned, or "
        "None to start again."
    )
