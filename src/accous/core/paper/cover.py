r"""The geometric cover: which intervals are active, which start, how many there are (Appendix, eq. for C).

.. math:: \mathcal{C}_k = \{[i 2^k, (i+1) 2^k - 1] : i \ge 1\}

In round t one interval of each length :math:`2^k \le t` is active. The paper ignores lengths 1 and 2 in its
experiments; ``min_interval`` is the shortest length in use.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from accous.arrays import IntArray

__all__ = ["active_lengths", "count_intervals", "count_starting", "intervals_for_round", "log_intervals"]


def active_lengths(round_number: int, min_interval: int) -> IntArray:
    """Return the lengths of the intervals active in a round, ascending; the array is shared and read-only.

    Examples
    --------
    >>> from accous.core.paper.cover import active_lengths
    >>> active_lengths(20, min_interval=4)
    array([ 4,  8, 16])
    """
    return _doubling(min_interval, max(0, round_number.bit_length() - min_interval.bit_length() + 1))


@cache
def _doubling(first: int, n_lengths: int) -> IntArray:
    lengths = first << np.arange(n_lengths, dtype=np.int64)
    lengths.setflags(write=False)
    return lengths


def count_starting(round_number: int, min_interval: int) -> int:
    """Count the intervals that start in a round.

    These are the shortest ones: a length starts when it divides the round number.
    """
    largest_dividing_power = round_number & -round_number
    return max(0, largest_dividing_power.bit_length() - min_interval.bit_length() + 1)


@cache
def count_intervals(horizon: int, min_interval: int) -> int:
    """Return K: the number of intervals of the cover that start up to the horizon, but at least 2."""
    total = 0
    length = min_interval
    while length <= horizon:
        total += horizon // length
        length *= 2
    return max(2, total)


def intervals_for_round(round_number: int, horizon: int | None, min_interval: int) -> int:
    """Return K for the learners of a round.

    With a horizon, K is constant. Without one, K counts up to the last round of the current power of two. Every learner
    restarts at a power of two, so K never changes during the life of a learner.
    """
    return _intervals_of(round_number.bit_length(), horizon, min_interval)


@cache
def log_intervals(n_bits: int, horizon: int | None, min_interval: int) -> float:
    """Return ln K for the rounds whose number has ``n_bits`` binary digits; K is the same for all of them."""
    return math.log(_intervals_of(n_bits, horizon, min_interval))


def _intervals_of(n_bits: int, horizon: int | None, min_interval: int) -> int:
    # Departs from the paper: its K needs the horizon, which a production stream does not have.
    last_round = (1 << n_bits) - 1 if horizon is None else horizon
    return count_intervals(last_round, min_interval)
