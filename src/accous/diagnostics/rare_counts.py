r"""How many of the recent rows must show something before it is not chance any more.

If the rows of the reference and the recent rows are exchangeable, the recent ones among all the rows that show it are a
random draw: with m of n_0 reference rows and k of n recent rows, k is hypergeometric,

.. math:: P(K \ge k) = \sum_{j \ge k} \binom{m + k}{j} \binom{n_0 + n - m - k}{n - j} \Big/ \binom{n_0 + n}{n} .
"""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["LEVEL", "SMALLEST_CHANGE", "largest_rare_count", "smallest_rare_count"]

LEVEL = 1e-3
"""Chance of any false finding in one look at all columns of rows that do not drift."""

SMALLEST_CHANGE = 0.02
"""A share that differs by less from the reference's is not reported, however certain the difference is."""


@lru_cache(maxsize=4096)
def smallest_rare_count(n_recent: int, n_reference: int, n_reference_hits: int, n_tests: int) -> int:
    """Return the smallest count among the recent rows that is too large for chance; ``n_recent + 1`` if none is.

    Parameters
    ----------
    n_recent, n_reference : int
        Numbers of rows.
    n_reference_hits : int
        Number of reference rows that show it.
    n_tests : int
        Number of tests in one look, which share the level.
    """
    expected = n_reference_hits / n_reference
    high = n_recent + 1
    low = min(high, max(1, int((expected + SMALLEST_CHANGE) * n_recent) + 1))
    while low < high:
        middle = (low + high) // 2
        if _chance(middle, n_recent, n_reference + n_recent, n_reference_hits + middle) <= LEVEL / n_tests:
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=4096)
def largest_rare_count(n_recent: int, n_reference: int, n_reference_hits: int, n_tests: int) -> int:
    """Return the largest count among the recent rows that is too small for chance; -1 if none is."""
    others = smallest_rare_count(n_recent, n_reference, n_reference - n_reference_hits, n_tests)
    return n_recent - others


def _chance(count: int, n_recent: int, n_rows: int, n_hits: int) -> float:
    """Return the probability of this count or a larger one among the recent rows, if ``n_hits`` of all rows show it.

    The first term of the sum comes from factorials and each other one from that before it; they fall, because the
    count is above the share of all rows. ``scipy.stats.hypergeom.sf`` takes several times as long.
    """
    log_first = _log_choose(n_hits, count) + _log_choose(n_rows - n_hits, n_recent - count)
    term = total = 1.0
    for number in range(count, min(n_hits, n_recent)):
        term *= (n_hits - number) * (n_recent - number) / ((number + 1) * (n_rows - n_hits - n_recent + number + 1))
        total += term
        if term < 1e-17 * total:
            break
    return total * math.exp(log_first - _log_choose(n_rows, n_recent))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
