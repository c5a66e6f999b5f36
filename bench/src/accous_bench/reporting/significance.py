"""Paired tests over seeds, Holm's correction for multiple tests, and the smallest effect that few seeds can show.

All contenders run with the same seeds and on the same streams, so their errors are compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

__all__ = ["PairedTest", "detectable_effect", "holm", "paired_test"]

_LEAST_PAIRS = 3


class PairedTest(NamedTuple):
    """A paired t-test: the mean difference, its spread, and its p-value.

    Attributes
    ----------
    n : int
        Number of pairs, one per seed.
    difference : float
        Mean error of the other contender minus that of Accous: positive if the other contender errs more.
    std : float or None
        Standard deviation of the differences; None for a single pair.
    p : float or None
        Two-sided p-value; None for a single pair.
    """

    n: int
    difference: float
    std: float | None
    p: float | None


def paired_test(others: Sequence[float], ours: Sequence[float]) -> PairedTest | None:
    """Test two-sidedly whether paired errors have the same mean.

    The statistic is ``t = mean(d) / (std(d) / sqrt(n))``, where d are the differences of the pairs, against Student's
    distribution with n - 1 degrees of freedom. Two pairs are not enough for a test. Neither are differences that are
    all equal, which is likely with few rows; if they are all zero, p = 1.

    Parameters
    ----------
    others, ours : sequence of float
        Errors in the same order of seeds.

    Returns
    -------
    PairedTest or None
        None if there are no pairs.
    """
    differences = np.asarray(others, dtype=float) - np.asarray(ours, dtype=float)
    n = len(differences)
    if n == 0:
        return None
    mean = float(differences.mean())
    if n == 1:
        return PairedTest(1, mean, None, None)
    std = float(differences.std(ddof=1))
    # Relative to the differences: errors that differ by the same amount leave only rounding errors.
    if std <= 1e-12 * max(1.0, abs(mean)):
        return PairedTest(n, mean, std, 1.0 if abs(mean) <= 1e-12 else None)
    if n < _LEAST_PAIRS:
        return PairedTest(n, mean, std, None)
    t = mean / (std / np.sqrt(n))
    return PairedTest(n, mean, std, float(2.0 * stats.t.sf(abs(t), n - 1)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number, by Holm's step-down procedure.

    With the m values in ascending order, ``p~_(j) = max_{i <= j} min(1, (m - i + 1) p_(i))``. If adjusted values below
    5 % count as significant, the probability of any false claim in the family is at most 5 %.

    Parameters
    ----------
    p_values : sequence of float

    Returns
    -------
    list of float
        Adjusted values, in the order of ``p_values``.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(1.0, p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled)
    return [float(value) for value in adjusted]


def detectable_effect(n: int, level: float = 0.05, power: float = 0.8) -> float | None:
    """Return the mean difference, in standard deviations of the differences, that a test finds with this power.

    Parameters
    ----------
    n : int
        Number of pairs.
    level : float, default=0.05
        Level of the two-sided test; divide it by the number of comparisons for the first step of Holm's procedure.
    power : float, default=0.8
        Probability to find the difference.

    Returns
    -------
    float or None
        None for fewer than two pairs.

    Examples
    --------
    >>> round(detectable_effect(5), 2)
    1.68
    """
    if n < 2:
        return None
    # |T| > c with T = (Z + effect sqrt(n)) / s, averaged over the quantiles of s: scipy's noncentral t is NaN in the
    # far tail.
    quantiles = (np.arange(4000) + 0.5) / 4000
    bounds = stats.t.isf(level / 2.0, n - 1) * np.sqrt(stats.chi2.ppf(quantiles, n - 1) / (n - 1))

    def missing_power(effect: float) -> float:
        centre = effect * np.sqrt(n)
        return float(np.mean(stats.norm.sf(bounds - centre) + stats.norm.cdf(-bounds - centre))) - power

    highest = 1.0
    while missing_power(highest) < 0.0:
        highest *= 2.0
    return float(optimize.brentq(missing_power, 0.0, highest))
