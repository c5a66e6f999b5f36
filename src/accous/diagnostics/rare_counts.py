r"""How many of the recent rows must show something before it is not chance any more.

If the rows of the reference and the recent rows are exchangeable, the recent ones among all the rows that show it are a
random draw: with m of n_0 reference rows and k of n recent rows, k is hypergeometric,

.. math:: P(K \ge k) = \sum_{j \ge k} \binom{m + k}{j} \binom{n_0 + n - m - k}{n - j} \Big/ \binom{n_0 + n}{n} .
"""

from __future__ import annotations

from functools import lru_cache

from scipy.stats import hypergeom

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
    low = max(1, int((expected + SMALLEST_CHANGE) * n_recent) + 1)
    high = n_recent + 1
    while low < high:
        middle = (low + high) // 2
        n_hits = n_reference_hits + middle
        if hypergeom.sf(middle - 1, n_reference + n_recent, n_hits, n_recent) <= LEVEL / n_tests:
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=4096)
def largest_rare_count(n_recent: int, n_reference: int, n_reference_hits: int, n_tests: int) -> int:
    """Return the largest count among the recent rows that is too small for chance; -1 if none is."""
    others = smallest_rare_count(n_recent, n_reference, n_reference - n_reference_hits, n_tests)
    return n_recent - others
