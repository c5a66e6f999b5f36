r"""An alarm that is false with probability alpha at most, however often one looks: a betting process.

It bets against "the mean loss is at most m", where losses lie in [0, 1] and m is the loss at fit plus the tolerance:
each loss z multiplies a stake by :math:`1 + g (z - m)`, whose mean is at most 1 while the claim is true. By Ville's
inequality the wealth ever reaches :math:`1 / \alpha` with probability alpha at most. A change may come late, so that
half of the money is staked at the start and the rest bit by bit in later rounds, a share of :math:`1 / (k (k + 1))` in
the k-th; the fractions g are fixed and share the money evenly. The sum of all stakes and of what is kept is the wealth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.metrics import Metric, one_hot
from accous.diagnostics.performance import Calibration, NumberCalibration, Predictions

ALPHA = 0.05
_FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of 1 / m, the largest with which no stake becomes negative
_LARGEST = 1e100
_ERRORS_IN_ONE = 4.0  # a residual of so many mean absolute errors at fit, or more, is a loss of 1
_POINTS, _SHARE_OF_LOSS = 0.05, 0.2

# --- The process


@dataclass(frozen=True)
class Alarm:
    """The state of the betting process.

    Attributes
    ----------
    limit : float
        m, the largest mean loss that is healthy; above 0 and below 1.
    rounds : int
        Rounds so far.
    stakes : tuple of float
        For each fraction, what the money staked so far has become.
    since : int or None
        Round in which the alarm went off; it stays on until a new process is started.
    alpha : float

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> alarm = start_alarm(0.15)
    >>> for _ in range(100):
    ...     alarm = alarm.watch((rng.random(10) < 0.1).astype(float))
    >>> alarm.is_on
    False
    >>> for _ in range(100):
    ...     alarm = alarm.watch((rng.random(10) < 0.3).astype(float))
    >>> alarm.is_on, alarm.since < 130
    (True, True)
    """

    limit: float
    rounds: int
    stakes: tuple[float, ...]
    since: int | None = None
    alpha: float = ALPHA

    @property
    def is_on(self) -> bool:
        """Whether the wealth has ever reached 1 / alpha."""
        return self.since is not None

    @property
    def wealth(self) -> float:
        """What the stakes have become, and what is not staked yet."""
        return float(np.mean(self.stakes)) + 0.5 / (self.rounds + 1)

    def watch(self, losses: FloatArray, weight: FloatArray | None = None) -> Alarm:
        """Return the process after the losses of one round.

        Parameters
        ----------
        losses : array of shape (n,)
            In [0, 1]: of labelled rows what they lost; where there are no labels, what calibrated probabilities expect.
        weight : array of shape (n,) or None
            Of labelled rows that were not chosen evenly: the smallest probability with which a row is chosen over
            that of the row. Rows that were more likely to be chosen are bet on with less.
        """
        if self.is_on or not len(losses):
            return self
        rounds = self.rounds + 1
        bets = (np.clip(losses, 0.0, 1.0) - self.limit) / self.limit
        if weight is not None:
            bets = bets * np.clip(weight, 0.0, 1.0)
        growth = np.log1p(np.multiply.outer(np.array(_FRACTIONS), bets)).sum(axis=1)
        staked = np.array(self.stakes) + 0.5 / (rounds * (rounds + 1))
        stakes = np.minimum(_LARGEST, staked * np.exp(np.minimum(growth, np.log(_LARGEST))))
        now = replace(self, rounds=rounds, stakes=tuple(stakes.tolist()))
        return replace(now, since=rounds) if now.wealth >= 1.0 / self.alpha else now


def start_alarm(limit: float, alpha: float = ALPHA) -> Alarm:
    """Return the process before the first round; the limit is kept away from 0 and 1."""
    return Alarm(float(np.clip(limit, 0.01, 0.99)), 0, tuple(0.5 for _ in _FRACTIONS), alpha=alpha)


# --- Losses in [0, 1]


def losses_of(metric: Metric, calibration: Calibration, made: Predictions, y: NDArray[Any] | None = None) -> FloatArray:
    """Return the loss of each row in [0, 1]; without labels, what held-out rows make expect.

    Of classes it is the metric's own where that is a mean over rows with bounded losses (error, Brier score, cost), the
    Brier score in place of log loss, and the error for metrics that count or rank. Of numbers it is the absolute
    residual as a share of four mean absolute errors at fit.
    """
    if isinstance(calibration, NumberCalibration):
        largest = max(_ERRORS_IN_ONE * float(np.abs(calibration.residuals).mean()), np.finfo(np.float64).tiny)
        if y is not None:
            return np.minimum(1.0, np.abs(made.predicted - y) / largest)
        return calibration.mean_by_bin(np.minimum(1.0, np.abs(calibration.residuals) / largest), made)
    assert made.probabilities is not None
    mass = calibration.calibrated(made.probabilities) if y is None else one_hot(y, made.probabilities.shape[1])
    return (mass * _bounded(metric, made.predicted, made.probabilities)).sum(axis=1)


def limit_of(metric: Metric, calibration: Calibration) -> float:
    """Return the mean loss at fit and what is tolerated above it: 5 points of classes, and a fifth at least."""
    before = float(losses_of(metric, calibration, calibration.held_out, calibration.y).mean())
    least = 0.0 if isinstance(calibration, NumberCalibration) else _POINTS
    return before + max(least, _SHARE_OF_LOSS * before)


def _bounded(metric: Metric, predicted: NDArray[Any], probabilities: FloatArray) -> FloatArray:
    """Return the loss of each row for each class as the true one."""
    n_classes = probabilities.shape[1]
    if metric.kind in ("brier", "log_loss"):
        return 0.5 * (np.square(probabilities).sum(axis=1, keepdims=True) - 2.0 * probabilities + 1.0)
    if metric.costs is not None:
        span = float(np.ptp(metric.costs))
        return (metric.costs.T[predicted] - metric.costs.min()) / (span if span > 0.0 else 1.0)
    return 1.0 - one_hot(predicted, n_classes)
