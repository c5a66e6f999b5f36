"""The bytes of one key's state: versioned, self-checking, and without loss.

::

    header     4s magic  H version  6B sizes  I waiting rows  Q checksum  16s fingerprint
    float64    numbers, theta, potentials and squared margins of the learners, adapted predictor
    float32    singles, thetas and triangles of the learners, slots in use, sizes of a change in progress
    int32      visits of the slots
    float32    what the weights of the last fit and of the last comparison were made of; 0 up to eight bytes
    float64    waiting rows

All numbers are little-endian. The six sizes are learners, slots, visits and sizes of a change, and whether the
predictor has moved and was compared. The checksum is the XXH64 of everything, with 0 in its own place.

Anybody can compute a checksum, so a state is believed only if every count fits the model and every number lies within
its limits: compiled code relies on both.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import EnsembleSettings
from accous.core.kernels_keys import Number
from accous.core.kernels_states import N_HEADER_WORDS, N_MARKS, checksum, read_states, write_states
from accous.core.many_keys import N_NUMBERS, KeyShape, KeyStack, make_stack
from accous.core.pool import LONGEST_LOOK
from accous.exceptions import CheckpointError

VERSION = 5
_MAGIC = b"ACKS"
_HEADER = struct.Struct("<4sH6BIQ16s")
_MOST_ROUNDS = 2.0**53


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
        self._shape, self._fingerprint = shape, fingerprint
        self._header = np.frombuffer(_HEADER.pack(_MAGIC, VERSION, *(0,) * 8, fingerprint), dtype=np.uint8)
        limits = _Limits(shape, settings.radius)
        of_limits = limits.numbers, _ORDERS, limits.parts, limits.ranges, limits.radius, *_MOST, _ROUNDING
        self._of_limits = (*of_limits, settings.min_interval)

    def length(self, sizes: tuple[int, ...], n_waiting: int = 0) -> int:
        """Return the bytes of a state of these sizes, with so many waiting rows."""
        return 8 * (self._shape.count_words(sizes) + n_waiting * (self._shape.n_features + N_MARKS))

    def pack(self, stack: KeyStack, rows: FloatArray, firsts: IntArray, lasts: IntArray) -> list[bytes]:
        """Return the bytes of all keys of a stack.

        Parameters
        ----------
        stack : KeyStack
        rows : array of shape (n_rows, n_features + N_MARKS)
        firsts, lasts : arrays of shape (n_keys,)
            Which rows of each key wait for their round.
        """
        room, ends = stack.room, np.empty(len(stack), dtype=np.int64)
        if len(rows):
            room = np.empty(room.size + rows.nbytes, dtype=np.uint8)
        write_states(room, self._header, rows, firsts, lasts, ends, *stack.stored)
        content, places = room.data, ends.tolist()
        return [bytes(content[begin:end]) for begin, end in zip([0, *places], places, strict=False)]

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
        self,
        states: list[bytes],
        names: list[Any],
        most_rows: int,
        stack: KeyStack,
        keys: IntArray,
    ) -> tuple[KeyStack, dict[int, FloatArray]]:
        """Write states into the places of some keys of a stack; return it, and the waiting rows of keys that have some.

        If the stack has too little room for learners, another one takes its place.

        Parameters
        ----------
        states : list of bytes
        names : list
            What errors call the keys.
        most_rows : int
            New rows of a key, for whose rounds there is to be room.
        stack : KeyStack
        keys : array of shape (n_states,)

        Raises
        ------
        CheckpointError
            If these are not the bytes of a state, belong to another model, were written by a newer accous, are damaged,
            or hold a count or a number that no rounds lead to.
        """
        # Compiled code reads numbers at the places where their type may lie, and as many as there are at least.
        least = 8 * (N_HEADER_WORDS + N_NUMBERS)
        lengths = [len(state) for state in states]
        for state, name, length in zip(states, names, lengths, strict=True):
            if length % 8 or length < least:
                raise self._problem(state, name)
        n_waiting = np.empty(len(states), dtype=np.int64)
        content = np.frombuffer(b"".join(states), dtype=np.uint8)
        of_states = keys, np.array(lengths), content, self._header, n_waiting, *self._of_limits, most_rows
        bad = read_states(*of_states, *stack.stored)
        if bad >= len(states):
            stack = make_stack(self._shape, len(stack), bad - len(states))
            bad = read_states(*of_states, *stack.stored)
        if bad >= 0:
            raise self._problem(states[bad], names[bad])
        places = n_waiting.nonzero()[0].tolist()
        return stack, {
            int(keys[place]): self._rows(int(n_waiting[place]), states[place], names[place]) for place in places
        }

    def _rows(self, n_waiting: int, state: bytes, name: object) -> FloatArray:
        """Return the waiting rows of a state."""
        width = self._shape.n_features + N_MARKS
        rows = np.frombuffer(state, dtype=np.float64)[-n_waiting * width :].reshape(n_waiting, width)
        if not _are_rows(rows):
            raise impossible_state(name)
        return rows

    def _problem(self, state: bytes, name: object) -> CheckpointError:
        """Return why a state is refused."""
        if len(state) < _HEADER.size or state[:4] != _MAGIC:
            return _foreign(state, _of_key(name))
        _, version, *sizes, n_waiting, found, fingerprint = _HEADER.unpack_from(state)
        if version != VERSION:
            return CheckpointError(
                f"The state{_of_key(name)} has format {version}, and this accous reads format {VERSION}: use the accous"
                " that wrote it, or pass None to start again."
            )
        is_this_model = fingerprint == self._fingerprint
        is_whole = len(state) % 8 == 0 and checksum(np.frombuffer(state, dtype=np.uint64)) == found
        if not is_whole or (is_this_model and len(state) != self.length(tuple(sizes), n_waiting)):
            return CheckpointError(
                f"The state{_of_key(name)} is torn or was changed: its checksum does not fit its {len(state)} bytes. "
                "Go back to an earlier state, or pass None to start again."
            )
        if not is_this_model:
            return CheckpointError(
                f"The state{_of_key(name)} belongs to another model or to other settings of KeyedAdapter (fingerprint "
                f"{fingerprint.hex()[:12]}, not {self._fingerprint.hex()[:12]}): load the model that it was made with, "
                "or pass None to start again with this one."
            )
        return impossible_state(name)


def _count(number: float) -> int:
    return int(number) if 0.0 <= number < _MOST_ROUNDS else 0


def _are_rows(waiting: FloatArray) -> bool:
    """Whether the values of waiting rows are numbers, and their times, if they have some."""
    return bool(np.isfinite(waiting[:, :-N_MARKS]).all()) and not (np.abs(waiting[:, -N_MARKS]) > _LARGEST).any()


def impossible_state(name: object) -> CheckpointError:
    """Return the error for the state of a key that is whole, and that no rounds lead to."""
    return CheckpointError(
        f"The state{_of_key(name)} holds counts or numbers that accous never writes: somebody else did. Go back to an "
        "earlier state, or pass None to start again."
    )


def bytes_of(state: Any) -> bytes:
    """Return the bytes of a state as an engine stored them."""
    if not isinstance(state, (bytes, bytearray, memoryview)):
        kind = type(state).__name__
        raise CheckpointError(
            f"A state is the bytes that step returned, or None to start again, got a value of type {kind}."
        )
    return bytes(state)


def _of_key(name: object) -> str:
    return "" if name is None else f" of key {name!r}"


def _foreign(state: bytes, of_key: str) -> CheckpointError:
    return CheckpointError(
        f"The state{of_key} is not one that accous wrote ({len(state)} bytes): pass the bytes that step returned, or "
        "None to start again."
    )
