"""Intervals of the history for the charts: their place on the axis, and means over them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.report.subject import Subject

__all__ = ["Intervals", "axis_of", "date_of_round", "divide", "place_of_rounds"]

FloatArray = NDArray[np.float64]
_MANY_DAYS = 30 * 86_400.0


@dataclass(frozen=True)
class Intervals:
    """Groups of neighbouring points of a history.

    Attributes
    ----------
    starts : array of shape (n_intervals,)
        First point of each interval.
    edges : array of shape (n_intervals + 1,)
        Where the intervals begin and end, in rounds or in seconds since 1970.
    """

    starts: NDArray[np.int64]
    edges: FloatArray

    @property
    def middles(self) -> FloatArray:
        """Middle of each interval, where its mean is drawn."""
        return 0.5 * (self.edges[:-1] + self.edges[1:])

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum over the points of each interval."""
        return np.add.reduceat(values, self.starts, axis=0)

    def means(self, values: FloatArray) -> FloatArray:
        """Mean over the points of each interval that have a value; NaN where there is none."""
        is_there = ~np.isnan(values)
        n_there = self.sums(is_there.astype(np.int64))
        return np.where(n_there > 0, self.sums(np.where(is_there, values, 0.0)) / np.maximum(n_there, 1), np.nan)


def divide(subject: Subject, n_most: int) -> Intervals:
    """Divide the history into at most so many intervals of equal numbers of points; the last may be shorter."""
    n_points = len(subject.history)
    size = -(-n_points // n_most)
    starts = np.arange(0, n_points, size, dtype=np.int64)
    ends = np.append(starts[1:], n_points)
    return Intervals(starts, _places(subject)[np.append(0, ends)])


def axis_of(subject: Subject) -> dict[str, Any]:
    """Return the chart's horizontal axis: dates if the history has them, else rounds."""
    places = _places(subject)
    has_dates = _has_dates(subject)
    title = "date of the rows" if has_dates else "round"
    return {"kind": "time" if has_dates else "round", "title": title, "range": [float(places[0]), float(places[-1])]}


def place_of_rounds(subject: Subject, rounds: list[int]) -> list[float]:
    """Return where rounds are on the axis."""
    ends = np.append(0, subject.history.rounds)
    return [round(float(place), 1) for place in np.interp(rounds, ends, _places(subject))]


def date_of_round(subject: Subject, number: int) -> str:
    """Return about when a round was; empty if the history has no dates."""
    if not _has_dates(subject):
        return ""
    places = _places(subject)
    form = "%Y-%m-%d" if places[-1] - places[0] > _MANY_DAYS else "%Y-%m-%d %H:%M"
    return datetime.fromtimestamp(place_of_rounds(subject, [number])[0], UTC).strftime(form)


def _has_dates(subject: Subject) -> bool:
    """Whether all points have a time, and time never runs backwards."""
    times = subject.history.column("time")
    return bool(len(times) > 1 and np.isfinite(times).all() and (np.diff(times) >= 0.0).all() and times[-1] > times[0])


def _places(subject: Subject) -> FloatArray:
    """Return where the history begins and where each point ends."""
    if not _has_dates(subject):
        return np.append(0, subject.history.rounds).astype(np.float64)
    times = subject.history.column("time")
    # The first point began about as long before its end as the second one lasted.
    return np.append(2.0 * times[0] - times[1], times)
