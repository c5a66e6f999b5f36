"""The points of a history, as rows of arrays: what they hold, and how neighbours are merged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.trust import VERDICTS

__all__ = ["COUNTS", "LASTS", "LATE", "LENGTH_BINS", "MEANS", "Points", "points_from_first_format"]

LENGTH_BINS = 32
COUNTS = ("n_rows", "n_scored", "n_wrong_fixed", "n_wrong")
LATE = ("n_late", "late_loss")
_RISKS = ("risk", "risk_low", "risk_high", "risk_fixed", "risk_fixed_low", "risk_fixed_high")
MEANS = ("effective_sample_size", "largest_weight", *_RISKS)
LASTS = ("n_out_of_bound", "time", "risk_round")
# Verdicts of the first format, by their numbers in it.
_VERDICTS_1 = ("good", "thin", "no overlap")
# Readings in the order of the first format, which kept those of the last round of a point only.
_READINGS_1 = ("effective_sample_size", *_RISKS, "verdict", "n_out_of_bound", "largest_weight")


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


def points_from_first_format(plain: dict[str, Any]) -> tuple[Points, Points]:
    """Return the points and the open one of a history that kept one reading per point."""
    readings = dict(zip(_READINGS_1, plain["readings"].T, strict=True))
    points, open_point = Points.blank(len(plain["counts"])), Points.blank(1)
    means = np.column_stack([readings[name] for name in MEANS])
    points.counts, points.lengths = plain["counts"].copy(), plain["lengths"].copy()
    points.sums, points.tallies = np.nan_to_num(means), (~np.isnan(means)).astype(np.int64)
    numbers = np.array([VERDICTS.index(name) for name in _VERDICTS_1], dtype=np.float64)
    is_read = ~np.isnan(readings["verdict"])
    points.worst[is_read, 0] = numbers[readings["verdict"][is_read].astype(np.int64)]
    points.lasts[:, 0] = readings["n_out_of_bound"]
    open_point.counts[0] = plain["open"]
    return points, open_point
