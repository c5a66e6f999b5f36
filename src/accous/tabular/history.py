"""The history of the rounds in a bounded number of points: neighbours are merged when there are too many."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray

__all__ = ["LENGTH_BINS", "MOST_POINTS", "VERDICTS", "History"]

MOST_POINTS = 512
LENGTH_BINS = 32
# The risk costs as much as several rounds: it is read at every sixteenth point, and in each of the first rounds.
_RISK_EVERY, _EARLY_ROUNDS = 16, 32
_COUNTS = ("n_rows", "n_scored", "n_wrong_fixed", "n_wrong")
_READINGS = (
    "effective_sample_size",
    "risk",
    "risk_low",
    "risk_high",
    "risk_fixed",
    "risk_fixed_low",
    "risk_fixed_high",
    "verdict",
    "n_out_of_bound",
    "largest_weight",
)
VERDICTS = ("good", "thin", "no overlap")


@dataclass(eq=False)
class History:
    """What happened in the rounds, in points that cover the same number of rounds each.

    Counts are sums over a point's rounds. Readings of the model are taken after the last round of a point, so that
    which rounds are read depends on their number alone: a run that was interrupted has the same history as one that
    was not.

    Attributes
    ----------
    stride : int
        Rounds in a point, a power of two.
    n_rounds : int
    counts : array of shape (n_points, n_counts)
    readings : array of shape (n_points, n_readings)
    lengths : array of shape (n_points, LENGTH_BINS)
        Weight of the learners whose interval is 2^k rounds long.
    open : array of shape (n_counts,)
        Counts of the rounds since the last point.
    """

    stride: int = 1
    n_rounds: int = 0
    counts: IntArray = field(default_factory=lambda: np.zeros((0, len(_COUNTS)), dtype=np.int64))
    readings: FloatArray = field(default_factory=lambda: np.zeros((0, len(_READINGS))))
    lengths: FloatArray = field(default_factory=lambda: np.zeros((0, LENGTH_BINS)))
    open: IntArray = field(default_factory=lambda: np.zeros(len(_COUNTS), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    def add(self, model: Any, n_rows: int, n_scored: int = 0, n_wrong_fixed: int = 0, n_wrong: int = 0) -> None:
        """Record a round that the model has just played."""
        self.open = self.open + ((n_rows, n_scored, n_wrong_fixed, n_wrong) if n_scored else (n_rows, 0, 0, 0))
        self.n_rounds += 1
        if self.n_rounds % self.stride == 0:
            self._close_point(model)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a count or a reading of every point."""
        if name in _COUNTS:
            return self.counts[:, _COUNTS.index(name)].astype(np.float64)
        return self.readings[:, _READINGS.index(name)]

    @property
    def rounds(self) -> NDArray[np.int64]:
        """Last round of every point."""
        return np.arange(1, len(self) + 1, dtype=np.int64) * self.stride

    @property
    def length_weights(self) -> NDArray[np.float64]:
        """Weight of the learners whose interval is 2^k rounds long, for every point."""
        return self.lengths

    def totals(self) -> dict[str, int]:
        """Sums of the counts over all rounds."""
        sums = self.counts.sum(axis=0) + self.open
        return dict(zip(_COUNTS, map(int, sums), strict=True))

    def _close_point(self, model: Any) -> None:
        self.counts = np.vstack((self.counts, self.open))
        reads_risk = self.n_rounds <= _EARLY_ROUNDS or self.n_rounds % (_RISK_EVERY * self.stride) == 0
        self.readings = np.vstack((self.readings, _read(model, reads_risk=reads_risk)))
        self.lengths = np.vstack((self.lengths, _length_weights(model)))
        self.open = np.zeros(len(_COUNTS), dtype=np.int64)
        if len(self) == MOST_POINTS:
            self._halve()

    def _halve(self) -> None:
        """Merge neighbours: counts add up, the later reading stays, weights of lengths are averaged."""
        self.counts = self.counts[0::2] + self.counts[1::2]
        self.readings = self.readings[1::2].copy()
        self.lengths = 0.5 * (self.lengths[0::2] + self.lengths[1::2])
        self.stride *= 2


def _read(model: Any, *, reads_risk: bool) -> NDArray[np.float64]:
    readings = dict.fromkeys(_READINGS, float("nan"))
    readings["effective_sample_size"] = model.effective_sample_size_
    readings["largest_weight"] = float(model.reference_weight_.max())
    readings["n_out_of_bound"] = float(getattr(model.ratio_, "n_out_of_bound_", 0))
    if reads_risk:
        risk = model.risk_
        readings["risk"], readings["risk_low"], readings["risk_high"] = (
            risk.adapted,
            risk.adapted_low,
            risk.adapted_high,
        )
        readings["risk_fixed"] = risk.fixed
        readings["risk_fixed_low"], readings["risk_fixed_high"] = risk.fixed_low, risk.fixed_high
        readings["verdict"] = float(VERDICTS.index(model.trust_.verdict))
    return np.array(list(readings.values()))


def _length_weights(model: Any) -> NDArray[np.float64]:
    weights = np.zeros(LENGTH_BINS)
    lengths = getattr(model.ratio_, "learner_lengths_", None)
    if lengths is not None and len(lengths):
        bins = np.minimum(np.log2(lengths).astype(int), LENGTH_BINS - 1)
        np.add.at(weights, bins, model.ratio_.learner_weights_)
    return weights
