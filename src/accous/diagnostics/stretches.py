"""Whether late labels agree with the estimated error stretch by stretch, and not only on average.

An estimate that was too high for months and too low afterwards is right on average. So the labelled rounds are divided
into stretches of at least 200 labelled rows, then of 400, 800 and so on, as long as there are at least three: short
stretches show what changes soon, and long ones are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import BoolArray, FloatArray
from accous.diagnostics.loss_scale import LossScale
from accous.diagnostics.risk import is_telling

__all__ = ["NO_STRETCHES", "LabelledRounds", "Stretches", "compare_stretches"]

_SHORTEST = 200
_FEWEST = 3
_LARGEST_SHARE = 0.25
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class LabelledRounds:
    """What labels measured in rounds, or in groups of neighbouring rounds, in order of time.

    Attributes
    ----------
    n_rows : array of shape (n_rounds,)
        Labelled rows.
    losses : array of shape (n_rounds,)
        Sums of their losses.
    estimates : array of shape (n_rounds, 3)
        The error that was estimated there and the ends of its interval; NaN where it is not known.
    """

    n_rows: FloatArray
    losses: FloatArray
    estimates: FloatArray


@dataclass(frozen=True)
class Stretches:
    """How many stretches of labelled rounds there are, and in how many of them labels and estimate are apart.

    Attributes
    ----------
    n_stretches, n_apart : int
    shortest : int
        Labelled rows that each of them has at least.
    """

    n_stretches: int = 0
    n_apart: int = 0
    shortest: int = _SHORTEST

    @property
    def share(self) -> float:
        """The share of stretches in which labels and estimate are apart."""
        return self.n_apart / self.n_stretches if self.n_stretches else 0.0

    @property
    def disagree(self) -> bool:
        """Whether that is the case in more than a quarter of them."""
        return self.share > _LARGEST_SHARE


NO_STRETCHES = Stretches()


def compare_stretches(rounds: LabelledRounds, scale: LossScale, *, variance: float, close: float) -> Stretches:
    """Return the stretches in which labels and estimate are apart most often, of those of all lengths.

    They are apart in a stretch if the mean loss of its labels lies outside the mean interval of the estimate, or
    further than ``close`` from a mean estimate that is shown, by more than two standard errors of that mean.

    Parameters
    ----------
    rounds : LabelledRounds
    scale : LossScale
    variance : float
        Of the loss of one row, where numbers are predicted.
    close : float
        What still counts as close to an estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.loss_scale import ERRORS
    >>> rounds = LabelledRounds(
    ...     np.full(4, 500.0), np.array([50.0, 50.0, 50.0, 250.0]), np.tile((0.2, 0.17, 0.23), (4, 1))
    ... )
    >>> found = compare_stretches(rounds, ERRORS, variance=0.0, close=0.05)
    >>> found.n_apart, found.n_stretches, found.disagree
    (4, 4, True)
    """
    is_known = (rounds.n_rows > 0) & ~np.isnan(rounds.estimates).any(axis=1)
    n_rows = rounds.n_rows[is_known]
    values = np.column_stack((n_rows, rounds.losses[is_known], n_rows[:, None] * rounds.estimates[is_known]))
    found, shortest = NO_STRETCHES, _SHORTEST
    while len(sums := _divide(values, shortest)) >= _FEWEST:
        is_apart = _are_apart(sums, scale, variance, close)
        one = Stretches(len(sums), int(is_apart.sum()), shortest)
        found = one if not found.n_stretches or one.share > found.share else found
        shortest *= 2
    return found


def _divide(values: FloatArray, shortest: int) -> FloatArray:
    """Return the sums over stretches of at least so many labelled rows; the rest belongs to the last one."""
    ends, n_rows = [], 0.0
    for place, more in enumerate(values[:, 0].tolist(), start=1):
        n_rows += more
        if n_rows >= shortest:
            ends.append(place)
            n_rows = 0.0
    if not ends:
        return values[:0]
    sums: FloatArray = np.add.reduceat(values, [0, *ends[:-1]], axis=0)
    return sums


def _are_apart(sums: FloatArray, scale: LossScale, variance: float, close: float) -> BoolArray:
    n_rows, losses = sums[:, 0], sums[:, 1]
    means, (estimates, lows, highs) = losses / n_rows, sums[:, 2:].T / n_rows
    variances = np.full(len(sums), variance)
    if scale.is_of_classes:
        # One more error and one more right answer: no errors at all do not show that there are none.
        shares = (losses + 1.0) / (n_rows + 2.0)
        variances = shares * (1.0 - shares)
    slack = _STANDARD_ERRORS * np.sqrt(variances / n_rows)
    is_outside = np.maximum(means - highs, lows - means) > slack
    # An estimate whose interval is too wide is not shown, so nothing can be far from it.
    is_shown = [is_telling(*each, scale.loss) for each in zip(estimates, lows, highs, strict=True)]
    is_apart: BoolArray = is_outside | (np.abs(means - estimates) - close > slack) & is_shown
    return is_apart
