"""The error without labels: estimates, their intervals, prediction sets and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from accous.arrays import FloatArray
from accous.diagnostics.evidence import _SMALLEST_SPREAD, Residuals
from accous.diagnostics.losses import LEVEL
from accous.diagnostics.messages import ERROR, ERRORS, NOT_COVERED, LossScale, unknown_in_words
from accous.text import count

# --- Label-free estimates of current risks: the losses on the reference, weighted to match the current inputs


# An interval of an error with a larger half-width says nothing; for other risks the same in shares of the estimate.
WIDEST = 0.25
_WIDEST_SHARE = 0.5
_NO_ROWS = "no batch has come yet, and the reference has too few rows for an estimate without one"


@dataclass(frozen=True, kw_only=True)
class RiskEstimate:
    """Estimated current errors, or other risks, each with an interval.

    Attributes
    ----------
    adapted, adapted_low, adapted_high : float
        Error of the predictor in use, which is the fixed one while the adaptation is held back; NaN if a class has too
        few rows to leave any out.
    fixed, fixed_low, fixed_high : float
        Error of the fixed predictor, which ``fit`` made and which never adapts.
    level : float
        Nominal coverage of both intervals.
    loss : str
        Which loss the numbers are the mean of: "error" for classes, or a loss of numbers such as "squared".
    age : int
        How many rounds ago the predictor was fitted that the estimate is about; 0 if it is the one in use. With a
        built-in predictor it always is. The weights are those of the last round in any case.
    is_covered : bool
        Whether the reference covers the recent rows, as the answer about the inputs says. Where it does not, nothing
        shows how the predictors do on them.
    has_rows : bool
        Whether a batch has come since ``fit``. Before that, only a reference of few rows, or of few with a weight, can
        be the reason that ``is_covered`` is False.
    """

    adapted: float
    adapted_low: float
    adapted_high: float
    fixed: float
    fixed_low: float
    fixed_high: float
    level: float = LEVEL
    loss: str = ERROR
    age: int = 0
    is_covered: bool = True
    has_rows: bool = True

    @property
    def is_known(self) -> bool:
        """Whether the estimate of the predictor in use says something.

        On average its interval reaches at most 25 points either side of an error, or half of the estimate of another
        risk. The reference has to cover the inputs as well.
        """
        return self.is_covered and is_telling(self.adapted, self.adapted_low, self.adapted_high, self.loss)

    @property
    def is_fixed_known(self) -> bool:
        """Whether the estimate of the fixed predictor says something, by the same rule."""
        return self.is_covered and is_telling(self.fixed, self.fixed_low, self.fixed_high, self.loss)

    @property
    def why_not_covered(self) -> str:
        """What to say where ``is_covered`` is False."""
        return NOT_COVERED if self.has_rows else _NO_ROWS

    def __str__(self) -> str:
        """Return both estimates in sentences."""
        name = ERROR if self.loss == ERROR else f"{self.loss} loss"
        if not self.is_covered:
            # The error of rows that the reference does not have may be any.
            return f"The {name} of the predictor in use is not known: {self.why_not_covered}."
        in_use = _in_words(self.adapted, self.adapted_low, self.adapted_high, self.loss)
        fixed = _in_words(self.fixed, self.fixed_low, self.fixed_high, self.loss)
        found = f"The estimated {name} of the predictor in use is {in_use}. That of the fixed model is {fixed}."
        if not math.isnan(self.adapted_low):
            found += f" Nominal coverage of the intervals: {self.level:.0%}."
        if self.age:
            found += f" The predictor in use has changed since: the estimate is {count(self.age, 'round')} old."
        return found


def is_telling(estimate: float, low: float, high: float, loss: str) -> bool:
    """Whether the interval of an estimate is narrow enough to say something; False if any of them is NaN.

    Examples
    --------
    >>> from accous.diagnostics.risk import is_telling
    >>> is_telling(0.3, 0.1, 0.5, "error"), is_telling(278.0, 198.0, 517.0, "absolute")
    (True, False)
    """
    return (high - low) / 2.0 <= (WIDEST if loss == ERROR else _WIDEST_SHARE * estimate)


def _in_words(risk: float, low: float, high: float, loss: str) -> str:
    style = ".1%" if loss == ERROR else ".3g"
    if math.isnan(risk):
        return "not known"
    if math.isnan(low):
        return format(risk, style)
    if is_telling(risk, low, high, loss):
        return f"{risk:{style}} (between {low:{style}} and {high:{style}})"
    # Whole points: more digits of such ends say nothing.
    ends = ".0%" if loss == ERROR else style
    return unknown_in_words(f"{low:{ends}}", f"{high:{ends}}" if math.isfinite(high) else None)


# --- The interval of a share that was counted


def wilson_interval(share: ArrayLike, n_rows: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of Wilson's 90 % interval of shares, as if the rows were independent.

    Parameters
    ----------
    share : float or array
    n_rows : float or array
        How many rows were counted.

    Examples
    --------
    >>> low, high = wilson_interval([0.0, 0.2], [10, 100])
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.0, 0.14], [0.21, 0.27])
    """
    shares, totals = np.asarray(share, dtype=np.float64), np.asarray(n_rows, dtype=np.float64)
    z = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL)
    scale = 1.0 + z * z / totals
    middle = (shares + 0.5 * z * z / totals) / scale
    half = z * np.sqrt(shares * (1.0 - shares) / totals + 0.25 * (z / totals) ** 2) / scale
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


# --- What a replay of labelled history says about label-free estimates: how far off they were, and under how
#     much drift


_SPREADS_UP, _SPREADS_DOWN = 1.5, 1.645
_DRIFT_UP, _DRIFT_DOWN = 0.2, 0.05
_NEW_DRIFT, _DISAGREEMENT = 0.6, 0.5


def widen(
    interval: tuple[float, float, float],
    residuals: Residuals,
    *,
    drift: float,
    seen_drift: float,
    disagreement: float,
    scale: LossScale = ERRORS,
) -> tuple[float, float, float]:
    r"""Widen and shift the interval of a label-free estimate by what the backtest showed.

    With h the half-width that accounts for sampling, D the drift now and D_0 the drift inside the reference,

    .. math::
        \text{high} &= e + \text{shift}
            + \sqrt{h^2 + (1.5\,s)^2 + (0.2\,D)^2 + (0.6\,(D - D_0)_+)^2 + (0.5\,\delta)^2}, \\
        \text{low} &= e - \sqrt{h^2 + (1.645\,s_-)^2 + (0.05\,D)^2},

    where s and s_- are the spreads, at least three points, and delta is the share of recent rows on which predictors
    fitted on the first and the second half of the reference disagree. Drift beyond what the reference has seen widens
    most: nothing is known about it. All but e and h are in shares of the loss that counts as 1.

    Parameters
    ----------
    interval : tuple of float
        Estimate, low and high.
    residuals : Residuals
    drift, seen_drift : float
        Strength of the drift now, and inside the reference.
    disagreement : float
    scale : LossScale

    A drift or a disagreement that is NaN counts as 0, and an estimate that is NaN stays unknown. Where the target is
    constant, no share of a loss is one that can be shown, and the interval stays as it is.

    Examples
    --------
    >>> from accous.diagnostics.evidence import NO_EVIDENCE
    >>> from accous.diagnostics.risk import widen
    >>> interval = widen((0.1, 0.08, 0.12), NO_EVIDENCE.fixed, drift=0.5, seen_drift=0.0, disagreement=0.0)
    >>> [round(float(each), 3) for each in interval]
    [0.1, 0.041, 0.42]
    """
    estimate, low, high = interval
    if math.isnan(estimate) or scale.is_of_constant:
        return interval
    half_width = max(high - estimate, estimate - low) / scale.one
    drift, disagreement = (0.0 if math.isnan(each) else each for each in (drift, disagreement))
    upward = (
        half_width,
        _SPREADS_UP * max(_SMALLEST_SPREAD, residuals.spread),
        _DRIFT_UP * drift,
        _NEW_DRIFT * max(0.0, drift - seen_drift),
        _DISAGREEMENT * disagreement,
    )
    downward = (half_width, _SPREADS_DOWN * max(_SMALLEST_SPREAD, residuals.spread_down), _DRIFT_DOWN * drift)
    return (
        estimate,
        max(0.0, estimate - scale.one * math.hypot(*downward)),
        min(scale.largest, estimate + scale.one * residuals.shift + scale.one * math.hypot(*upward)),
    )
