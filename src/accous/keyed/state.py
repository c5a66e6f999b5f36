"""The bytes of one key's state: versioned, self-checking, and without loss.

::

    header     4s magic  H version  6B sizes  I waiting rows  I checksum  4x  16s fingerprint
    float64    numbers, theta, potentials and squared margins of the learners, adapted predictor, waiting rows
    float32    singles, thetas and triangles of the learners, slots in use, sizes of a change in progress
    int32      visits of the slots
    uint16     shares of the last fit and of the last comparison

All numbers are little-endian. The six sizes are learners, slots, visits and sizes of a change, and whether the
predictor has moved and was compared. The checksum is a CRC-32 of everything else.

Anybody can compute a checksum, so a state is believed only if every count fits the model and every number lies within
its limits: compiled code relies on both.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import EnsembleSettings
from accous.core.kernels_keys import are_within, read_state
from accous.core.many_keys import MOST_VISITS, N_NUMBERS, KeyShape, KeyStack, Number
from accous.core.pool import LONGEST_LOOK, N_SHAPES
from accous.core.round import count_learners
from accous.diagnostics.drift import MOST_LOOKS
from accous.exceptions import CheckpointError

VERSION = 3
_MAGIC = b"ACKS"
_HEADER = struct.Struct("<4sH6BII4x16s")
_CHECKSUM_AT = 16
_CHECKSUM = struct.Struct("<I")
_MOST_ROUNDS = 2.0**53
_MOST_KNOWN_SIZES, _MOST_KNOWN_LIMITS = 1024, 128
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


# --- What the numbers of a state can be


_LARGEST, _LARGEST_SINGLE = 1e100, 1e30  # sums and squares of them are still numbers
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
# Parts in single precision whose last axis are shares of 1, and parts that are no thetas and not negative.
_SHARES = (
    *("filter_weights", "posteriors", "proportions", "before_proportions"),
    *("cautious_weights", "cautious_posteriors", "cautious_proportions"),
)
_POSITIVE = ("counts", "cautious_counts", "means", "look_proportions", "column_parts")


class _Between(NamedTuple):
    """What `are_within` checks the numbers of a state against."""

    doubles: FloatArray
    singles: NDArray[np.float32]
    shares: IntArray


class _Limits:
    """The lowest and the highest value of each number of a state, but for its waiting rows.

    Parameters
    ----------
    shape : KeyShape
    radius : float
        Of the ball that all thetas lie in.
    """

    def __init__(self, shape: KeyShape, radius: float) -> None:
        self._shape, self._radius = shape, radius * (1.0 + _ROUNDING)
        self._known: dict[tuple[int, ...], _Between] = {}

    def are_kept(self, sizes: _Sizes, doubles: FloatArray, singles: NDArray[np.float32]) -> bool:
        """Whether all numbers of a state lie within their limits, and shares sum to 1."""
        places = sizes.n_learners, sizes.n_slots, sizes.n_sizes, sizes.is_moved
        limits = self._known.get(places)
        if limits is None:
            if len(self._known) >= _MOST_KNOWN_LIMITS:
                self._known.clear()
            limits = self._known[places] = self._between(*places)
        return bool(are_within(doubles, singles, *limits, _ROUNDING))

    def _between(self, n_learners: int, n_slots: int, n_sizes: int, is_moved: int) -> _Between:
        shape, radius, a_share = self._shape, self._radius, (0.0, 1.0 + _ROUNDING)
        theta = -radius, radius
        doubles = [
            (*theta, shape.n_coefs),
            (-_LARGEST, _LARGEST, n_learners),  # logarithms of potentials
            (0.0, _LARGEST, n_learners),  # squared margins
            (-_LARGEST, _LARGEST, is_moved * shape.n_scores * (shape.n_features + 1)),
        ]
        singles, shares = [], []
        for name, (start, of_part) in shape.layout.parts.items():
            length = math.prod(of_part)
            if name in _SHARES:
                shares += [(each, each + of_part[-1]) for each in range(start, start + length, of_part[-1])]
            sums = -LONGEST_LOOK * radius, LONGEST_LOOK * radius
            limits = a_share if name in _SHARES else (0.0, _LARGEST_SINGLE) if name in _POSITIVE else sums
            singles.append((*limits, length))
        singles.append((*theta, n_learners * shape.n_coefs))
        singles.append((-_LARGEST_SINGLE, _LARGEST_SINGLE, n_learners * shape.n_triangle))
        at = shape.layout.length + n_learners * (shape.n_coefs + shape.n_triangle)
        for slot in range(at, at + n_slots * shape.slot_width, shape.slot_width):
            shares.append((slot + shape.n_coefs, slot + shape.slot_width - 2))
            # A slot that is kept is in use: at least one look was merged into it.
            merged, use = (1.0, _LARGEST_SINGLE, 1), (0.0, _LARGEST_SINGLE, 1)
            singles += [(*theta, shape.n_coefs), (*a_share, N_SHAPES), merged, use]
        singles.append((*a_share, n_sizes))
        of_numbers, of_others = self._of_numbers(), _repeat(doubles)
        others = np.concatenate((of_others, np.zeros_like(of_others)))
        return _Between(
            np.concatenate((of_numbers, others), axis=1),
            np.ascontiguousarray(_repeat(singles), dtype=np.float32),
            np.array(shares),
        )

    def _of_numbers(self) -> FloatArray:
        low, high = np.full(N_NUMBERS, -_LARGEST), np.full(N_NUMBERS, _LARGEST)
        low[_COUNTS] = low[_NOT_NEGATIVE] = 0.0
        high[_COUNTS] = _MOST_ROUNDS
        high[Number.EVENT_COLUMNS :] = self._shape.n_features
        high[Number.IS_HELD], high[Number.LOOK_ROUNDS] = 1.0, LONGEST_LOOK - 1
        low[Number.SHARE], high[Number.SHARE] = -_ROUNDING, 1.0 + _ROUNDING
        may_be_nan, is_count = np.zeros((2, N_NUMBERS))
        may_be_nan[_MAY_BE_NAN] = is_count[_COUNTS] = 1.0
        return np.stack((low, high, may_be_nan, is_count))


def _repeat(limits: list[tuple[float, float, int]]) -> FloatArray:
    """Return the lowest and the highest values of numbers, of which so many in a row have the same."""
    return np.repeat([each[:2] for each in limits], [each[2] for each in limits], axis=0).T


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
        self._shape, self._fingerprint, self._min_interval = shape, fingerprint, settings.min_interval
        self._limits = _Limits(shape, settings.radius)
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
        singles = shape.layout.length + sizes.n_learners * (shape.n_coefs + shape.n_triangle)
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
        """Return how many rows a state has seen and how many rounds it has run: a later one has more of either."""
        if len(state) < _HEADER.size + 8 * N_NUMBERS or state[:4] != _MAGIC:
            raise _foreign(state, _of_key(name))
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
            If these are not the bytes of a state, or belong to another model, or were written by a newer accous, or
            if a count or a number is one that no rounds lead to.
        """
        state = bytes(state)  # compiled code reads numbers at the places where their type may lie
        sizes = self._check(state, _of_key(name))
        doubles, singles, integers, shares = self._counts(sizes)
        at = _HEADER.size
        eight = np.frombuffer(state, dtype=np.float64, count=doubles, offset=at)
        at += 8 * doubles
        four = np.frombuffer(state, dtype=np.float32, count=singles, offset=at)
        at += 4 * singles
        n_before_rows = doubles - sizes.n_waiting * self._row_width
        waiting = eight[n_before_rows:].reshape(-1, self._row_width)
        visits = np.frombuffer(state, dtype=np.int32, count=integers, offset=at).reshape(-1, 3)
        if not (
            self._are_possible(sizes, self.peek(state)[0], visits)
            and self._limits.are_kept(sizes, eight[:n_before_rows], four)
            and (eight[Number.LOOK_ROUNDS] or not eight[Number.LOOK_ROWS])  # a look with rows has rounds
            and eight[Number.N_WRONG] <= eight[Number.N_LABELS]
            and eight[Number.LABELS_ROW] <= eight[Number.N_ROWS]
            and (not sizes.n_waiting or _are_rows(waiting))
        ):
            raise impossible_state(name)
        if integers:
            stack.visits[key] = visits.astype(np.int64)
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
        return waiting

    def _are_possible(self, sizes: _Sizes, n_rounds: int, visits: NDArray[np.int32]) -> bool:
        """Whether the counts are such that everything has its place in a stack."""
        n_slots = self._shape.n_slots
        return (
            sizes.n_learners == count_learners(n_rounds + 1, self._min_interval)
            and max(sizes.is_moved, sizes.is_checked) <= 1
            and sizes.n_slots <= n_slots
            and sizes.n_visits <= MOST_VISITS * n_slots
            and sizes.n_sizes <= MOST_LOOKS
            and (not sizes.n_visits or bool(visits.min() >= 0 and visits[:, 0].max() < n_slots))
        )

    def _check(self, state: bytes, of_key: str) -> _Sizes:
        if len(state) < _HEADER.size or state[:4] != _MAGIC:
            raise _foreign(state, of_key)
        _, version, *counts, checksum, fingerprint = _HEADER.unpack_from(state)
        if version != VERSION:
            raise CheckpointError(
                f"The state{of_key} has format {version}, and this accous reads format {VERSION}: use the accous that "
                "wrote it, or pass None to start again."
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
