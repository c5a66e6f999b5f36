"""A log of changes: when the ratio moved, how far, in which columns, and how long the change took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.weights import weight_distance

__all__ = [
    "LONGEST_SHIFT",
    "MAX_EVENTS",
    "ROUNDS_BETWEEN_LOOKS",
    "SMALLEST_CHANGE",
    "DriftEvent",
    "DriftLog",
    "main_columns",
    "start_log",
]

ROUNDS_BETWEEN_LOOKS = 16
MAX_EVENTS = 100
_SMOOTHING = 0.5
SMALLEST_CHANGE = 0.2
"""Share of the weight that has to move before a change is noticed."""
# A change is over when its size has varied by at most _RESTING_RANGE over _RESTING_LOOKS looks.
_RESTING_LOOKS = 4
_RESTING_RANGE = 0.1
_MOST_LOOKS = 32
_LOOKS_TO_RECALL = 3
_NEARLY_ALL = 0.9
LONGEST_SHIFT = _MOST_LOOKS * ROUNDS_BETWEEN_LOOKS
"""Rounds after which a change is over even if the weights still move."""


@dataclass(frozen=True)
class DriftEvent:
    """One change of the input distribution, or the onset of something new in one column.

    Attributes
    ----------
    round : int
        Round in which the change was detected.
    size : float
        Total variation between the reference's weights before and after the change, in [0, 1]. For other kinds than
        ``"shift"``: the share of the recent rows when it was detected.
    features : tuple of str
        The columns that carry half of the change, largest first, at most five.
    rounds_to_adapt : int or None
        Rounds from detection until the weights had covered nine tenths of the change; None while they still move, and
        for other kinds than ``"shift"``.
    kind : {"shift", "outside", "new values", "missing", "categories"}
        ``"shift"`` is a change of the weights. The others name one column: values outside the reference's range, new
        values in a column that was constant there, another share of missing values, new categories.
    seen : tuple of int or None
        First and last round of the last time in which the inputs were as they are after the change; None if they have
        not been seen before.
    """

    round: int
    size: float
    features: tuple[str, ...]
    rounds_to_adapt: int | None
    kind: str = "shift"
    seen: tuple[int, int] | None = None

    @property
    def return_in_words(self) -> str:
        """Say which earlier rounds the inputs have come back to; empty if they have not been seen before."""
        return "" if self.seen is None else f"back to what was seen in rounds {self.seen[0]:,} to {self.seen[1]:,}"


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The changes so far, and the state needed to detect the next one.

    Attributes
    ----------
    coef : array of shape (d,)
        Smoothed theta, scaled by the share of the ratio that is in use.
    settled_coef : array of shape (d,)
        The value of ``coef`` when the last change ended.
    events : tuple of DriftEvent
        The last ``MAX_EVENTS`` events; the latest may still be in progress.
    sizes : tuple of float
        Distances from ``settled_coef``, one for each look at the change in progress.
    settled_weights : array of shape (n_reference,) or None
        The reference's weights at ``settled_coef`` if they have been computed; a cache, not part of the state.
    """

    coef: FloatArray
    settled_coef: FloatArray
    events: tuple[DriftEvent, ...]
    sizes: tuple[float, ...] = ()
    settled_weights: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def is_moving(self) -> bool:
        """Whether the last change is still in progress."""
        return bool(self.events) and self.events[-1].rounds_to_adapt is None

    def look(
        self,
        this_round: int,
        coef: FloatArray,
        weigh: Callable[[FloatArray], FloatArray],
        name: Callable[[FloatArray], tuple[str, ...]],
        recall: Callable[[int], tuple[int, int] | None] = lambda _: None,
    ) -> DriftLog:
        """Return the log after a look at the theta of a round.

        Parameters
        ----------
        this_round : int
        coef : array of shape (d,)
            Theta, scaled by the share of the ratio that is in use.
        weigh : callable
            Returns the reference's weights for a theta.
        name : callable
            Returns the main columns of a difference between two thetas.
        recall : callable
            Returns the rounds before a given one in which the inputs were as they are now, if they were.
        """
        smoothed = self.coef + _SMOOTHING * (coef - self.coef)
        if (smoothed == self.settled_coef).all():
            return DriftLog(smoothed, self.settled_coef, self.events, self.sizes, self.settled_weights)
        weights = weigh(smoothed)
        settled = weigh(self.settled_coef) if self.settled_weights is None else self.settled_weights
        size = weight_distance(weights, settled)
        change = smoothed - self.settled_coef
        if not self.is_moving:
            if size <= SMALLEST_CHANGE:
                return DriftLog(smoothed, self.settled_coef, self.events, self.sizes, settled)
            event = DriftEvent(this_round, size, name(change), None, seen=recall(this_round))
            return DriftLog(smoothed, self.settled_coef, (*self.events, event)[-MAX_EVENTS:], (size,), settled)
        sizes, now = (*self.sizes, size), self.events[-1]
        if len(sizes) <= _LOOKS_TO_RECALL:
            # The pool may recognise a regime after the change was noticed, or find that it is another one.
            now = replace(now, seen=recall(now.round))
        recent = sizes[-_RESTING_LOOKS:]
        is_resting = len(sizes) > _RESTING_LOOKS and max(recent) - min(recent) <= _RESTING_RANGE
        if not is_resting and len(sizes) < _MOST_LOOKS:
            return DriftLog(smoothed, self.settled_coef, (*self.events[:-1], now), sizes, settled)
        n_looks = next(number for number, one in enumerate(sizes) if one >= _NEARLY_ALL * size)
        event = replace(now, size=size, features=name(change), rounds_to_adapt=n_looks * ROUNDS_BETWEEN_LOOKS)
        return DriftLog(smoothed, smoothed, (*self.events[:-1], event), (), weights)


def start_log(neutral: FloatArray) -> DriftLog:
    """Return an empty log that starts at the theta whose ratio is 1."""
    return DriftLog(neutral, neutral, ())


def main_columns(column_shares: FloatArray, names: list[str]) -> tuple[str, ...]:
    """Return the names of the columns that together carry half of the change, largest first, at most five.

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
