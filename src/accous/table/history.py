"""The history of a table model: what each round showed, thinned out as it grows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.model.snapshot import Snapshot

# --- The points of a history, as rows of arrays: what they hold, and how neighbours are merged


COUNTS = ("n_rows", "n_scored", "n_wrong_fixed", "n_wrong")
LATE = ("n_late", "late_loss")
MEANS = ("value", "low", "high")
LASTS = ("time", "basis")
BASES = ("expected", "labels")
"""The bases as the column ``basis`` numbers them."""


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
    lasts : array of shape (n_points, 2)
        Latest value of what is no mean; NaN if there is none.
    late : array of shape (n_points, 2)
        Labels that arrived late for rows of these rounds, and the sum of the losses on them.
    """

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    tallies: NDArray[np.int64]
    lasts: NDArray[np.float64]
    late: NDArray[np.float64]

    @classmethod
    def blank(cls, n_points: int) -> Self:
        """Return points with nothing in them."""
        return cls(
            np.zeros((n_points, len(COUNTS))),
            np.zeros((n_points, len(MEANS))),
            np.zeros((n_points, len(MEANS)), dtype=np.int64),
            np.full((n_points, len(LASTS)), np.nan),
            np.zeros((n_points, len(LATE))),
        )

    def __getitem__(self, which: slice) -> Points:
        """Return some points, whose arrays are parts of these."""
        return Points(*(getattr(self, each.name)[which] for each in fields(self)))

    def followed_by(self, other: Points) -> Points:
        """Return these points and the others as one series."""
        return Points(*(np.concatenate([getattr(part, each.name) for part in (self, other)]) for each in fields(self)))

    def halved(self) -> Points:
        """Merge neighbours: sums add up, the latest value stays."""
        first, second = self[0::2], self[1::2]
        return Points(
            first.counts + second.counts,
            first.sums + second.sums,
            first.tallies + second.tallies,
            np.where(np.isnan(second.lasts), first.lasts, second.lasts),
            first.late + second.late,
        )


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
# To read metric and state costs as much as 20 rounds: they are read in each of the first 8 rounds, then twice whenever
# the number of rounds has doubled, and at least in one of 512. So a short stream has a curve, and a long one costs
# little.
_EARLY_ROUNDS, _LEAST_EVERY, _STRIDES = 8, 512, 4


class History:
    """What happened in the rounds, in points that cover the same number of rounds each.

    Counts are sums over a point's rounds. The metric is read in few of them, spread irregularly so that a short period
    of the stream shows as a little noise, not as slow waves. Which ones are read depends on their numbers alone: a run
    that was interrupted has the same history as one that was not.
    """

    def __init__(self) -> None:
        self.stride = 1
        self.n_rounds = 0
        self._room, self._n_closed = Points.blank(MOST_POINTS), 0  # the open point is behind the closed ones

    def __len__(self) -> int:
        return self._n_closed

    @property
    def _points(self) -> Points:
        """All points but the open one."""
        return self._room[: self._n_closed]

    @property
    def _open(self) -> Points:
        """The point of the present rounds, as a series of one."""
        return self._room[self._n_closed : self._n_closed + 1]

    def add(
        self,
        model: Any,
        n_rows: int,
        n_scored: int = 0,
        n_wrong_fixed: float = 0,
        n_wrong: float = 0,
        *,
        time: float | None = None,
    ) -> None:
        """Record a round that the model has just run.

        Parameters
        ----------
        model : AdaptiveClassifier
        n_rows, n_scored : int
        n_wrong_fixed, n_wrong : float
            Sums of losses: for classes, wrong rows.
        time : float, optional
            When the last row of the round happened, in seconds since 1970.
        """
        self.n_rounds += 1
        room, place = self._room, self._n_closed
        room.counts[place, 0] += n_rows
        if n_scored:
            room.counts[place, 1:] += (n_scored, n_wrong_fixed, n_wrong)
        if time is not None and time == time:  # noqa: PLR0124 (NaN)
            room.lasts[place, LASTS.index("time")] = time
        if self._is_read(self.n_rounds):
            self._note(model.current())
        if self.n_rounds % self.stride == 0:
            self._n_closed += 1
            if self._n_closed == MOST_POINTS:
                self._fill(self._points.halved())
                self.stride *= 2

    def _fill(self, points: Points) -> None:
        """Take these points as the closed ones, and an open one without anything."""
        self._n_closed = len(points.counts)
        self._room = points.followed_by(Points.blank(MOST_POINTS - self._n_closed))

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
        points = self._points
        if name in COUNTS:
            return points.counts[:, COUNTS.index(name)].astype(np.float64)
        if name in LATE:
            return points.late[:, LATE.index(name)]
        if name in LASTS:
            return points.lasts[:, LASTS.index(name)]
        number = MEANS.index(name)
        tallies = points.tallies[:, number]
        return np.where(tallies > 0, points.sums[:, number] / np.maximum(tallies, 1), np.nan)

    @property
    def rounds(self) -> NDArray[np.int64]:
        """Last round of every point."""
        return np.arange(1, len(self) + 1, dtype=np.int64) * self.stride

    def totals(self) -> dict[str, Any]:
        """Sums of the counts over all rounds; whole numbers, except for sums of losses of numbers."""
        sums = (self._points.counts.sum(axis=0) + self._open.counts[0]).tolist()
        return {name: int(each) if each % 1.0 == 0.0 else each for name, each in zip(COUNTS, sums, strict=True)}

    def copy(self) -> Self:
        """Return a history that stays as it is while this one goes on."""
        return type(self).from_plain(self.to_plain())

    def to_plain(self) -> dict[str, Any]:
        """Return everything as arrays and numbers."""
        arrays = {
            f"{prefix}{each.name}": getattr(points, each.name).copy()
            for prefix, points in (("", self._points), ("open_", self._open))
            for each in fields(Points)
        }
        return {"stride": self.stride, "n_rounds": self.n_rounds, **arrays}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Undo ``to_plain``."""
        history = cls()
        history.stride, history.n_rounds = plain["stride"], plain["n_rounds"]
        closed, now = (Points(*(plain[f"{prefix}{each.name}"] for each in fields(Points))) for prefix in ("", "open_"))
        history._fill(closed)
        for each in fields(Points):
            getattr(history._open, each.name)[:] = getattr(now, each.name)
        return history

    def _is_read(self, number: int) -> bool:
        """Whether metric and state are read in this round."""
        if number <= _EARLY_ROUNDS:
            return True
        every = min(_LEAST_EVERY, 1 << ((number - 1).bit_length() - 2))
        return is_chosen(number, max(every, _STRIDES * self.stride))

    def _note(self, snapshot: Snapshot) -> None:
        """Add the metric to the open point; the state is read with it, so that the model's own history has both."""
        now, point, _ = snapshot.performance(), self._open, snapshot.status
        point.lasts[0, LASTS.index("basis")] = BASES.index(now.basis)
        for number, name in enumerate(MEANS):
            value = getattr(now, name)
            if value == value:  # noqa: PLR0124 (NaN)
                point.sums[0, number] += value
                point.tallies[0, number] += 1
