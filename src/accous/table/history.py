"""The history of a table model: what each round showed, thinned out as it grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.trust import VERDICTS
from accous.exceptions import CheckpointError
from accous.model.snapshot import Snapshot

# --- The points of a history, as rows of arrays: what they hold, and how neighbours are merged


LENGTH_BINS = 32
COUNTS = ("n_rows", "n_scored", "n_wrong_fixed", "n_wrong")
LATE = ("n_late", "late_loss")
_RISKS = ("risk", "risk_low", "risk_high", "risk_fixed", "risk_fixed_low", "risk_fixed_high")
MEANS = ("effective_sample_size", "largest_weight", *_RISKS)
LASTS = ("n_out_of_bound", "time", "risk_round")


@dataclass
class Points:
    """Points as rows of arrays.

    Attributes
    ----------
    counts : array of shape (n_points, 4)
    sums : array of shape (n_points, n_means)
        Sums of the readings that are shown as means.
    tallies : array of shape (n_points, n_means)
        How many readings each sum has.
    lengths : array of shape (n_points, LENGTH_BINS)
        Sums of the weights of the learners, over as many readings as the effective sample size has.
    worst : array of shape (n_points, 1)
        Largest number of a verdict; NaN if none was read.
    lasts : array of shape (n_points, 3)
        Latest value of what only grows; NaN if there is none.
    late : array of shape (n_points, 2)
        Labels that arrived late for rows of these rounds, and the sum of the losses on them.
    """

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    tallies: NDArray[np.int64]
    lengths: NDArray[np.float64]
    worst: NDArray[np.float64]
    lasts: NDArray[np.float64]
    late: NDArray[np.float64]

    @classmethod
    def blank(cls, n_points: int) -> Self:
        """Return points with nothing in them."""
        return cls(
            np.zeros((n_points, len(COUNTS))),
            np.zeros((n_points, len(MEANS))),
            np.zeros((n_points, len(MEANS)), dtype=np.int64),
            np.zeros((n_points, LENGTH_BINS)),
            np.full((n_points, 1), np.nan),
            np.full((n_points, len(LASTS)), np.nan),
            np.zeros((n_points, len(LATE))),
        )

    def followed_by(self, *others: Points) -> Points:
        """Return these points and the others as one series."""
        parts = (self, *others)
        return Points(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(self)))

    def halved(self) -> Points:
        """Merge neighbours: sums add up, the worst verdict and the latest value stay."""
        first = Points(*(getattr(self, each.name)[0::2] for each in fields(self)))
        second = Points(*(getattr(self, each.name)[1::2] for each in fields(self)))
        return Points(
            first.counts + second.counts,
            first.sums + second.sums,
            first.tallies + second.tallies,
            first.lengths + second.lengths,
            np.fmax(first.worst, second.worst),
            np.where(np.isnan(second.lasts), first.lasts, second.lasts),
            first.late + second.late,
        )


# --- Readings of the risk that a history owes: the round notes that one is pending, and somebody reads it later


@dataclass(eq=False)
class PendingReading:
    """The risk and the verdict after a round; the same whenever they are read, because a snapshot stays as it is.

    Attributes
    ----------
    round : int
    snapshot : Snapshot
    note : callable, optional
        Called with the round and the risk when the history takes it.
    """

    round: int
    snapshot: Snapshot
    note: Callable[[int, Any], None] | None = None

    @property
    def means(self) -> dict[str, float]:
        """The estimated errors, by the names of the history's columns."""
        risk = self.snapshot.risk
        return {
            "risk": risk.adapted,
            "risk_low": risk.adapted_low,
            "risk_high": risk.adapted_high,
            "risk_fixed": risk.fixed,
            "risk_fixed_low": risk.fixed_low,
            "risk_fixed_high": risk.fixed_high,
        }

    @property
    def verdict(self) -> float:
        """The place of the verdict among all."""
        return float(VERDICTS.index(self.snapshot.trust.verdict))

    def read(self) -> None:
        """Compute both, which costs as much as several rounds."""
        _ = self.means, self.verdict


# --- The reading that is closest to a round, on the same side of every change


def nearest_readings(
    rounds: NDArray[np.int64],
    read_at: NDArray[np.int64],
    readings: NDArray[np.float64],
    changes: Sequence[int] = (),
    *,
    farthest: int,
) -> NDArray[np.float64]:
    """Return the closest reading to each of some rounds; of two that are equally close, the earlier one.

    Parameters
    ----------
    rounds : array of shape (n_rounds,)
    read_at : array of shape (n_readings,)
        Rounds of the readings, in order.
    readings : array of shape (n_readings, n_values)
    changes : sequence of int
        Rounds from which on the inputs were different, in order.
    farthest : int
        Rounds beyond which a reading does not count.

    Returns
    -------
    array of shape (n_rounds, n_values)
        NaN where no reading counts.

    Examples
    --------
    >>> import numpy as np
    >>> read_at, readings = np.array([10, 90]), np.array([[0.1], [0.4]])
    >>> nearest_readings(np.array([9, 60, 70, 200]), read_at, readings, [65], farthest=64)[:, 0].tolist()
    [0.1, 0.1, 0.4, nan]
    """
    found = np.full((len(rounds), readings.shape[1]), np.nan)
    distances = np.full(len(rounds), farthest + 1)
    after = np.searchsorted(read_at, rounds, side="right")
    for places in (after - 1, after):
        rows = np.flatnonzero((places >= 0) & (places < len(read_at)))
        near = read_at[places[rows]]
        distance = np.abs(near - rounds[rows])
        is_same_side = _side(changes, near) == _side(changes, rounds[rows])
        is_closer = is_same_side & (distance < distances[rows])
        rows = rows[is_closer]
        distances[rows] = distance[is_closer]
        found[rows] = readings[places[rows]]
    return found


def _side(changes: Sequence[int], rounds: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.searchsorted(np.asarray(changes, dtype=np.int64), rounds, side="right")


# --- Which rounds to read: one of every so many, at an irregular place that depends on the round's number alone


_64_BITS = (1 << 64) - 1


def is_chosen(number: int, every: int) -> bool:
    """Whether a round is the chosen one of its block of ``every`` rounds.

    Rounds at equal distances beat against a stream with a period, and show slow waves that the stream does not have.
    A place in each block that looks random turns such waves into a little noise, which means over several readings
    remove.

    Parameters
    ----------
    number : int
        Number of the round, from 1 on.
    every : int
        Rounds in a block.

    Examples
    --------
    >>> [number for number in range(1, 33) if is_chosen(number, 8)]
    [8, 13, 24, 29]
    """
    if every == 1:
        return True
    block, place = divmod(number - 1, every)
    return place == _scrambled(block) % every


@lru_cache(maxsize=64)  # every round of a block asks for the same number
def _scrambled(number: int) -> int:
    """Mix the bits of a number (the finalizer of the generator SplitMix64)."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & _64_BITS
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _64_BITS
    return mixed ^ (mixed >> 31)


# --- The history of the rounds in a bounded number of points: neighbours are merged when there are too many


MOST_POINTS = 512
# The second format did not know in which round the risk was read last.
_FORMAT = 3
# A point has at least this many readings, or one for each round.
_READINGS_OF_POINT = 2
# The risk costs as much as several rounds: it is read in each of the first rounds, then in one of 8, and at last in one
# of 64. So a short stream has a curve, and a long one costs little.
_EARLY_ROUNDS, _RISK_EVERY, _LEAST_RISK_EVERY, _RISK_STRIDES = 16, 8, 64, 4
# Labels in the stream are compared with a risk that is at most this old, and not from before a change of the inputs.
_OLDEST_FOR_LABELS = 8
# Each holds the model of its round in memory.
_MOST_PENDING = 64
# An estimate further away from a round than this says nothing about it.
_FARTHEST_RISK = 64


class History:
    """What happened in the rounds, in points that cover the same number of rounds each.

    Counts are sums over a point's rounds. Readings of the model are means over several rounds of the point, spread
    irregularly so that a periodic stream shows no waves that are not there. The verdict is the worst one that was
    read. Which rounds are read depends on their numbers, on the labels in them and on the drift events: a run that was
    interrupted has the same history as one that was not.

    Attributes
    ----------
    stride : int
        Rounds in a point, a power of two.
    n_rounds : int
    reads_later : bool
        Whether the risk need not be read in the round itself. It is then read when somebody looks at the history or
        calls `PendingReading.read` on what is pending, with the same values.
    """

    def __init__(self) -> None:
        self.stride = 1
        self.n_rounds = 0
        self._joined = Points.blank(0)
        self._closed: list[Points] = []  # what follows, one by one: to join a point costs as much as all points
        self._open = Points.blank(1)
        self._pending: deque[PendingReading] = deque()
        self.reads_later = False

    def __len__(self) -> int:
        return len(self._joined.counts) + len(self._closed)

    @property
    def _points(self) -> Points:
        """All points but the open one."""
        if self._closed:
            self._joined, self._closed = self._joined.followed_by(*self._closed), []
        return self._joined

    @_points.setter
    def _points(self, points: Points) -> None:
        self._joined, self._closed = points, []

    def add(
        self,
        model: Any,
        n_rows: int,
        n_scored: int = 0,
        n_wrong_fixed: float = 0,
        n_wrong: float = 0,
        *,
        time: float | None = None,
        snapshot: Callable[[], Snapshot] | None = None,
        note: Callable[[int, Any], None] | None = None,
    ) -> None:
        """Record a round that the model has just played.

        Parameters
        ----------
        model : AdaptiveClassifier
        n_rows, n_scored : int
        n_wrong_fixed, n_wrong : float
            Sums of losses: for classes, wrong rows.
        time : float, optional
            When the last row of the round happened, in seconds since 1970.
        snapshot : callable, optional
            Returns the snapshot of this round, whose risk and verdict are read; a table's verdict has findings about
            its own columns. None takes that of the model, and reads it at once.
        note : callable, optional
            Called with the round and its risk when that has been read.
        """
        self.n_rounds += 1
        counts = self._open.counts
        counts[0, 0] += n_rows
        if n_scored:
            counts[0, 1:] += (n_scored, n_wrong_fixed, n_wrong)
        if time is not None and time == time:  # noqa: PLR0124 (NaN)
            self._open.lasts[0, LASTS.index("time")] = time
        if is_chosen(self.n_rounds, max(1, self.stride // _READINGS_OF_POINT)):
            self._read(model)
        if self._reads_risk() or (n_scored and self._is_risk_old(model)):
            self._open.lasts[0, LASTS.index("risk_round")] = self.n_rounds
            self._pending.append(PendingReading(self.n_rounds, (snapshot or model.snapshot)(), note))
            if snapshot is None or not self.reads_later or len(self._pending) > _MOST_PENDING:
                self._settle()
        if self.n_rounds % self.stride == 0:
            self._closed.append(self._open)
            self._open = Points.blank(1)
            if len(self) == MOST_POINTS:
                # Sums of floats depend on their order: every reading is added before its point is merged.
                self._settle()
                self._points = self._points.halved()
                self.stride *= 2

    def add_labels(self, rounds: NDArray[np.float64], losses: NDArray[np.float64]) -> None:
        """Count labels that arrived late in the rounds that predicted their rows.

        Parameters
        ----------
        rounds : array of shape (n_rows,)
            NaN where it is not known; such rows are left out.
        losses : array of shape (n_rows,)
        """
        is_known = (rounds >= 1) & (rounds <= self.n_rounds)
        places = (rounds[is_known].astype(np.int64) - 1) // self.stride
        added = np.column_stack((np.ones(len(places)), losses[is_known]))
        is_open = places >= len(self)
        np.add.at(self._points.late, places[~is_open], added[~is_open])
        self._open.late[0] += added[is_open].sum(axis=0)

    def forget_labels(self) -> None:
        """Forget the labels that arrived late."""
        self._points.late[:] = 0.0
        self._open.late[:] = 0.0

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a count or a reading of every point; NaN where there was no reading."""
        self._settle()
        points = self._points
        if name in COUNTS:
            return points.counts[:, COUNTS.index(name)].astype(np.float64)
        if name in LATE:
            return points.late[:, LATE.index(name)]
        if name == "verdict":
            return points.worst[:, 0]
        if name in LASTS:
            return points.lasts[:, LASTS.index(name)]
        number = MEANS.index(name)
        tallies = points.tallies[:, number]
        return np.where(tallies > 0, points.sums[:, number] / np.maximum(tallies, 1), np.nan)

    @property
    def rounds(self) -> NDArray[np.int64]:
        """Last round of every point."""
        return np.arange(1, len(self) + 1, dtype=np.int64) * self.stride

    @property
    def length_weights(self) -> NDArray[np.float64]:
        """Mean weight of the learners whose interval is 2^k rounds long, for every point."""
        return self._points.lengths / np.maximum(self._points.tallies[:, :1], 1)

    def risk_at(
        self,
        rounds: NDArray[np.int64],
        *,
        changes: Sequence[int] = (),
        latest: tuple[int, Sequence[float]] | None = None,
    ) -> NDArray[np.float64]:
        """Return the estimated error and the ends of its interval, as they were read closest to each of these rounds.

        Parameters
        ----------
        rounds : array of int
        changes : sequence of int
            Rounds of drift events, in order: what was read on the other side of one does not count.
        latest : tuple of (int, (float, float, float)), optional
            One more reading: its round, the estimate and the ends of its interval.

        Returns
        -------
        array of shape (n_rounds, 3)
            NaN where no reading is within 64 rounds.
        """
        read_at, readings = self._risk_readings()
        if latest is not None and latest[1][0] == latest[1][0]:
            read_at, readings = np.append(read_at, latest[0]), np.vstack((readings, latest[1]))
        return nearest_readings(rounds, read_at, readings, changes, farthest=_FARTHEST_RISK)

    def labelled_since(self, n_rounds: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return what labels have measured in points that lie after so many rounds.

        Parameters
        ----------
        n_rounds : int

        Returns
        -------
        arrays of shape (n_points,)
            Last round of each point that has labels, how many labels, and the sum of the losses on them. Labels in the
            stream count as those that came late do.
        """
        points = self._points.followed_by(self._open)
        ends = np.minimum(np.arange(1, len(points.counts) + 1) * self.stride, self.n_rounds)
        n_labels = points.counts[:, COUNTS.index("n_scored")] + points.late[:, LATE.index("n_late")]
        losses = points.counts[:, COUNTS.index("n_wrong")] + points.late[:, LATE.index("late_loss")]
        is_in = (n_labels > 0) & (np.arange(len(ends)) * self.stride >= n_rounds)
        return ends[is_in], n_labels[is_in], losses[is_in]

    def totals(self) -> dict[str, Any]:
        """Sums of the counts over all rounds; whole numbers, except for sums of losses of numbers."""
        sums = (self._points.counts.sum(axis=0) + self._open.counts[0]).tolist()
        return {name: int(each) if each % 1.0 == 0.0 else each for name, each in zip(COUNTS, sums, strict=True)}

    @property
    def pending(self) -> list[PendingReading]:
        """What is still to be read, oldest first."""
        return list(self._pending)

    def copy(self) -> Self:
        """Return a history that stays as it is while this one goes on."""
        return type(self).from_plain(self.to_plain())

    def to_plain(self) -> dict[str, Any]:
        """Return everything as arrays and numbers."""
        self._settle()
        arrays = {
            f"{prefix}{each.name}": getattr(points, each.name).copy()
            for prefix, points in (("", self._points), ("open_", self._open))
            for each in fields(Points)
        }
        return {"format": _FORMAT, "stride": self.stride, "n_rounds": self.n_rounds, **arrays}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Undo ``to_plain``."""
        if plain["format"] > _FORMAT:
            raise CheckpointError("The history of this model was written by a newer accous: upgrade accous.")
        history = cls()
        history.stride, history.n_rounds = plain["stride"], plain["n_rounds"]
        history._points, history._open = (
            Points(*(plain[f"{prefix}{each.name}"].copy() for each in fields(Points))) for prefix in ("", "open_")
        )
        return history

    def _reads_risk(self) -> bool:
        if self.n_rounds <= _EARLY_ROUNDS:
            return True
        # One of 8 up to round 256, then half as often whenever the number of rounds has doubled.
        doubled = 1 << ((self.n_rounds - 1) // (4 * _RISK_EVERY)).bit_length()
        every = min(_LEAST_RISK_EVERY, max(_RISK_EVERY, doubled))
        return is_chosen(self.n_rounds, max(every, _RISK_STRIDES * self.stride))

    def _is_risk_old(self, model: Any) -> bool:
        """Whether labels need a new reading of the risk."""
        read_at = self._points.followed_by(self._open).lasts[:, LASTS.index("risk_round")]
        last_read = np.nanmax(read_at, initial=0.0)
        last_change = max((event.round for event in model.drift_events_), default=0)
        return bool(last_read < last_change or self.n_rounds - last_read > _OLDEST_FOR_LABELS)

    def _risk_readings(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rounds in which the risk was read last in each point, and what was read there on average."""
        self._settle()
        points = self._points.followed_by(self._open)
        numbers = [MEANS.index(name) for name in ("risk", "risk_low", "risk_high")]
        tallies = points.tallies[:, numbers]
        is_read = tallies[:, 0] > 0
        ends = np.minimum(np.arange(1, len(tallies) + 1) * self.stride, self.n_rounds)
        read_at = points.lasts[:, LASTS.index("risk_round")]
        rounds = np.where(np.isnan(read_at), ends, read_at).astype(np.int64)
        means = np.where(tallies > 0, points.sums[:, numbers] / np.maximum(tallies, 1), np.nan)
        return rounds[is_read], means[is_read]

    def _read(self, model: Any) -> None:
        largest = model.reference_weight_.max()
        _take(self._open, 0, effective_sample_size=model.effective_sample_size_, largest_weight=largest)
        self._open.lasts[0, LASTS.index("n_out_of_bound")] = getattr(model.ratio_, "n_out_of_bound_", 0)
        self._open.lengths[0] += _length_weights(model)

    def _settle(self) -> None:
        """Read what is pending, in order, and add it to the points of its rounds."""
        while self._pending:
            first = self._pending[0]
            first.read()
            place = (first.round - 1) // self.stride
            points, row = (self._points, place) if place < len(self) else (self._open, 0)
            _take(points, row, **first.means)
            points.worst[row, 0] = np.fmax(points.worst[row, 0], first.verdict)
            if first.note is not None:
                first.note(first.round, first.snapshot.risk)
            self._pending.popleft()


def _take(points: Points, row: int, **readings: float) -> None:
    """Add readings to the sums of a point; one that is NaN does not count."""
    for name, value in readings.items():
        if value == value:  # noqa: PLR0124 (NaN)
            number = MEANS.index(name)
            points.sums[row, number] += value
            points.tallies[row, number] += 1


def _length_weights(model: Any) -> NDArray[np.float64]:
    weights = np.zeros(LENGTH_BINS)
    lengths = getattr(model.ratio_, "learner_lengths_", None)
    if lengths is not None and len(lengths):
        bins = np.minimum(np.log2(lengths).astype(int), LENGTH_BINS - 1)
        weights += np.bincount(bins, model.ratio_.learner_weights_, minlength=LENGTH_BINS)
    return weights
