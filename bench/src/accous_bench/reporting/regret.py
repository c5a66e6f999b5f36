"""The growth of the regret with the length of the stream: a fit of T^p, compared with the theory's exponent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from accous.arrays import FloatArray
from accous_bench.reporting.outcomes import CellKey, Outcome

__all__ = ["RegretSeries", "exponent_with_logs", "fitted_exponent", "regret_series", "theory_exponent"]


@dataclass(frozen=True)
class RegretSeries:
    """Cumulative dynamic regret of one contender for streams of several lengths.

    Attributes
    ----------
    key : CellKey
    contender : str
    regrets : dict of int to (dict of int to float)
        By the number of rounds, then by seed.
    exponent, standard_error : float or None
        Result of the fit T^exponent; None if there are too few positive regrets.
    n_slopes : int
        Number of seeds that the exponent is averaged over; 0 for one fit through all points.
    """

    key: CellKey
    contender: str
    regrets: dict[int, dict[int, float]]
    exponent: float | None
    standard_error: float | None
    n_slopes: int

    @property
    def lengths(self) -> list[int]:
        """Numbers of rounds, ascending."""
        return sorted(self.regrets)

    @property
    def means(self) -> list[float]:
        """Mean regret over the seeds, for each length."""
        return [fmean(self.regrets[length].values()) for length in self.lengths]

    @property
    def stds(self) -> list[float | None]:
        """Standard deviation over the seeds, for each length."""
        groups = [list(self.regrets[length].values()) for length in self.lengths]
        return [stdev(group) if len(group) > 1 else None for group in groups]


def theory_exponent(shift: str) -> float | None:
    """Return the exponent of T in T^(1/3) V_T^(2/3): 1/3 for a fixed V_T, 2/3 if V_T grows like sqrt(T)."""
    return {"fixed path": 1 / 3, "growing path": 2 / 3}.get(shift)


def exponent_with_logs(shift: str, lengths: Sequence[int]) -> float:
    """Return the slope that a fit of T^p finds over these lengths if the regret is T^theory log^2 T.

    The bound hides logarithms: one from the Newton steps of an interval, one from the number of intervals of the cover.
    """
    logs = np.log(np.array(lengths, dtype=float))
    bound = (theory_exponent(shift) or 0.0) * logs + 2.0 * np.log(logs)
    return _slope(np.column_stack((logs, bound)))[0]


def regret_series(outcomes: Iterable[Outcome]) -> list[RegretSeries]:
    """Collect the regrets by cell and contender, and fit their growth."""
    found: dict[tuple[CellKey, str], dict[int, dict[int, float]]] = {}
    for outcome in outcomes:
        if outcome.is_done and outcome.ratio_regret is not None:
            lengths = found.setdefault((outcome.key, outcome.contender), {})
            lengths.setdefault(outcome.n_rounds, {})[outcome.seed] = outcome.ratio_regret
    return [
        RegretSeries(key, contender, regrets, *fitted_exponent(regrets)) for (key, contender), regrets in found.items()
    ]


def fitted_exponent(regrets: dict[int, dict[int, float]]) -> tuple[float | None, float | None, int]:
    """Fit ``log regret = a + p log T`` by least squares.

    The regrets of one seed may share random numbers, so each seed gets its own fit, and the standard error comes from
    the spread of the slopes. With fewer than three such seeds, it comes from the residuals of one fit through all
    points.

    Parameters
    ----------
    regrets : dict of int to (dict of int to float)
        By the number of rounds, then by seed.

    Returns
    -------
    exponent, standard_error : float or None
    n_slopes : int
        Number of seeds with their own fit; 0 for one fit through all points.
    """
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for length, values in regrets.items():
        for seed, regret in values.items():
            if regret > 0.0 and length > 0:
                by_seed.setdefault(seed, []).append((np.log(length), np.log(regret)))
    slopes = [_slope(np.array(points))[0] for points in by_seed.values() if len({x for x, _ in points}) > 1]
    if len(slopes) >= 3:
        return fmean(slopes), stdev(slopes) / len(slopes) ** 0.5, len(slopes)
    points = np.array([point for group in by_seed.values() for point in group]).reshape(-1, 2)
    if len(np.unique(points[:, 0])) < 2:
        return None, None, 0
    return (*_slope(points), 0)


def _slope(points: FloatArray) -> tuple[float, float | None]:
    """Return the slope of the least-squares line and its standard error, which needs three points."""
    x, y = points[:, 0] - points[:, 0].mean(), points[:, 1]
    spread = float(x @ x)
    slope = float(x @ y) / spread
    if len(points) < 3:
        return slope, None
    residuals = y - y.mean() - slope * x
    return slope, float(np.sqrt(residuals @ residuals / (len(points) - 2) / spread))
