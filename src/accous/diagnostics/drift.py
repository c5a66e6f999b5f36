"""A log of changes: when the ratio moved, how far, with which columns, and how long that took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.weights import weight_distance

__all__ = ["MAX_EVENTS", "ROUNDS_BETWEEN_LOOKS", "DriftEvent", "DriftLog", "main_columns", "start_log"]

ROUNDS_BETWEEN_LOOKS = 16
MAX_EVENTS = 100
_SMOOTHING = 0.5
_SMALLEST_CHANGE = 0.2
# A change has come to rest when its size has varied by no more than this over so many looks.
_RESTING_LOOKS = 4
_RESTING_RANGE = 0.1
_MOST_LOOKS = 32
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class DriftEvent:
    """One change of the input distribution.

    Attributes
    ----------
    round : int
        Round in which it was noticed.
    size : float
        Total variation between the reference's weights before and after it, in [0, 1].
    features : tuple of str
        The columns that carry half of the change, the largest first, at most five.
    rounds_to_adapt : int or None
        Rounds from then on until the weights had made nine tenths of the way; None while they move.
    """

    round: int
    size: float
    features: tuple[str, ...]
    rounds_to_adapt: int | None


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The changes so far, and what the next one is told from.

    Attributes
    ----------
    coef : array of shape (d,)
        Smoothed, tempered theta.
    settled_coef : array of shape (d,)
        The same where the last change ended.
    events : tuple of DriftEvent
        The last ``MAX_EVENTS``; the last of them may be still going on.
    sizes : tuple of float
        Distances from where the last change ended, one for each look at a change that is still going on.
    settled_weights : array of shape (n_reference,) or None
        The reference's weights there, if they have been computed; no part of the state.
    """

    coef: FloatArray
    settled_coef: FloatArray
    events: tuple[DriftEvent, ...]
    sizes: tuple[float, ...] = ()
    settled_weights: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def is_moving(self) -> bool:
        """Whether the last change has not come to rest."""
        return bool(self.events) and self.events[-1].rounds_to_adapt is None

    def look(
        self,
        this_round: int,
        coef: FloatArray,
        weigh: Callable[[FloatArray], FloatArray],
        name: Callable[[FloatArray], tuple[str, ...]],
    ) -> DriftLog:
        """Look at the theta of a round.

        Parameters
        ----------
        this_round : int
        coef : array of shape (d,)
            Tempered theta.
        weigh : callable
            Gives the reference's weights by a theta.
        name : callable
            Gives the main columns of a difference of thetas.
        """
        smoothed = self.coef + _SMOOTHING * (coef - self.coef)
        if (smoothed == self.settled_coef).all():
            return DriftLog(smoothed, self.settled_coef, self.events, self.sizes, self.settled_weights)
        weights = weigh(smoothed)
        settled = weigh(self.settled_coef) if self.settled_weights is None else self.settled_weights
        size = weight_distance(weights, settled)
        change = smoothed - self.settled_coef
        if not self.is_moving:
            if size <= _SMALLEST_CHANGE:
                return DriftLog(smoothed, self.settled_coef, self.events, self.sizes, settled)
            event = DriftEvent(this_round, size, name(change), None)
            return DriftLog(smoothed, self.settled_coef, (*self.events, event)[-MAX_EVENTS:], (size,), settled)
        sizes = (*self.sizes, size)
        recent = sizes[-_RESTING_LOOKS:]
        is_resting = len(sizes) > _RESTING_LOOKS and max(recent) - min(recent) <= _RESTING_RANGE
        if not is_resting and len(sizes) < _MOST_LOOKS:
            return DriftLog(smoothed, self.settled_coef, self.events, sizes, settled)
        n_looks = next(number for number, one in enumerate(sizes) if one >= _NEARLY_ALL * size)
        event = DriftEvent(self.events[-1].round, size, name(change), n_looks * ROUNDS_BETWEEN_LOOKS)
        return DriftLog(smoothed, smoothed, (*self.events[:-1], event), (), weights)


def start_log(neutral: FloatArray) -> DriftLog:
    """No change yet, at the theta whose ratio is 1."""
    return DriftLog(neutral, neutral, ())


def main_columns(column_shares: FloatArray, names: list[str]) -> tuple[str, ...]:
    """Names of the columns that together carry half, the largest first, at most five.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.drift import main_columns
    >>> main_columns(np.array([0.1, 0.6, 0.3]), ["age", "income", "city"])
    ('income',)
    """
    order = np.argsort(-column_shares, kind="stable")[:5]
    n_main = 1 + int(np.searchsorted(np.cumsum(column_shares[order]), 0.5))
    return tuple(names[column] for column in order[:n_main].tolist() if column_shares[column] > 0.0)
