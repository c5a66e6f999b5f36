"""The history of the rounds in a bounded number of points: neighbours are merged when there are too many."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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
    """

    def __init__(self) -> None:
        self.stride = 1
        self.n_rounds = 0
        self._counts = np.zeros((0, len(_COUNTS)), dtype=np.int64)
        self._readings = np.zeros((0, len(_READINGS)))
        self._lengths = np.zeros((0, LENGTH_BINS))
        self._open = [0] * len(_COUNTS)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, model: Any, n_rows: int, n_scored: int = 0, n_wrong_fixed: int = 0, n_wrong: int = 0) -> None:
        """Record a round that the model has just played."""
        counts = self._open
        counts[0] += n_rows
        if n_scored:
            counts[1] += n_scored
            counts[2] += n_wrong_fixed
            counts[3] += n_wrong
        self.n_rounds += 1
        if self.n_rounds % self.stride == 0:
            self._close_point(model)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a count or a reading of every point."""
        if name in _COUNTS:
            return self._counts[:, _COUNTS.index(name)].astype(np.float64)
        return self._readings[:, _READINGS.index(name)]

    @property
    def rounds(self) -> NDArray[np.int64]:
        """Last round of every point."""
        return np.arange(1, len(self) + 1, dtype=np.int64) * self.stride

    @property
    def length_weights(self) -> NDArray[np.float64]:
        """Weight of the learners whose interval is 2^k rounds long, for every point."""
        return self._lengths

    def risk_at(self, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the estimated error and the ends of its interval as they were last read up to each of these rounds.

        Rounds before the first reading get that one. NaN if there is no reading.
        """
        read = np.flatnonzero(~np.isnan(self.column("risk")))
        if not len(read):
            return np.full((len(rounds), 3), np.nan)
        places = np.maximum(np.searchsorted(self.rounds[read], rounds, side="right") - 1, 0)
        columns = [_READINGS.index(name) for name in ("risk", "risk_low", "risk_high")]
        return self._readings[read[places]][:, columns]

    def totals(self) -> dict[str, int]:
        """Sums of the counts over all rounds."""
        sums = self._counts.sum(axis=0) + np.array(self._open, dtype=np.int64)
        return dict(zip(_COUNTS, map(int, sums), strict=True))

    def to_plain(self) -> dict[str, Any]:
        """Return everything as arrays and numbers."""
        return {
            "stride": self.stride,
            "n_rounds": self.n_rounds,
            "counts": self._counts,
            "readings": self._readings,
            "lengths": self._lengths,
            "open": np.array(self._open, dtype=np.int64),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Undo ``to_plain``."""
        history = cls()
        history.stride, history.n_rounds = plain["stride"], plain["n_rounds"]
        history._counts, history._readings, history._lengths = plain["counts"], plain["readings"], plain["lengths"]
        history._open = plain["open"].tolist()
        return history

    def _close_point(self, model: Any) -> None:
        self._counts = np.vstack((self._counts, np.array(self._open, dtype=np.int64)))
        reads_risk = self.n_rounds <= _EARLY_ROUNDS or self.n_rounds % (_RISK_EVERY * self.stride) == 0
        self._readings = np.vstack((self._readings, _read(model, reads_risk=reads_risk)))
        self._lengths = np.vstack((self._lengths, _length_weights(model)))
        self._open = [0] * len(_COUNTS)
        if len(self) == MOST_POINTS:
            self._halve()

    def _halve(self) -> None:
        """Merge neighbours: counts add up, the later reading stays, weights of lengths are averaged."""
        self._counts = self._counts[0::2] + self._counts[1::2]
        self._readings = self._readings[1::2].copy()
        self._lengths = 0.5 * (self._lengths[0::2] + self._lengths[1::2])
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
