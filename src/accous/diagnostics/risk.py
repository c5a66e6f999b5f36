"""The error without labels: estimates, their intervals, prediction sets and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accous.arrays import FloatArray
from accous.diagnostics.losses import ERROR, ERRORS, NOT_COVERED, LossScale, effective_sample_size, unknown_in_words
from accous.text import count

# --- Label-free estimates of current risks: the losses on the reference, weighted to match the current inputs


LEVEL = 0.9
# An interval of an error with a larger half-width says nothing; for other risks the same in shares of the estimate.
WIDEST = 0.25
_WIDEST_SHARE = 0.5
_SPREADS = 2.25
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


def weighted_loss(losses: FloatArray, weights: FloatArray) -> float:
    r"""Self-normalised importance-weighted risk, :math:`\sum_i w_i \ell_i / \sum_i w_i`.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.risk import weighted_loss
    >>> weighted_loss(np.array([4.0, 1.0]), np.array([1.0, 2.0]))
    2.0
    """
    # Not by BLAS, whose bits may depend on the number of threads.
    return float((weights * losses).sum() / weights.sum())


def loss_difference(losses: FloatArray, other_losses: FloatArray, weights: FloatArray) -> tuple[float, float]:
    r"""Weighted risk of one predictor minus that of another, and its standard error by the delta method.

    Let :math:`d_i` be the difference between the two losses of row i, and q the weights divided by their sum:

    .. math:: D = \sum_i q_i d_i, \qquad \mathrm{se}^2 = \sum_i q_i^2 (d_i - D)^2 .
    """
    return mean_and_error(losses - other_losses, weights)


def loss_interval(
    losses: FloatArray,
    weights: FloatArray,
    learner_weights: FloatArray,
    learner_shares: FloatArray,
    n_coefs: int = 0,
) -> tuple[float, float, float]:
    r"""Weighted risk with an interval of nominal coverage 90 %, for losses that are not negative.

    The half-width is the sum of the uncertainty of the reference and the uncertainty of the ratio:

    .. math:: z_{0.95} \, \frac{n_e}{n_e - k} \, \mathrm{se} + 2.25 \, \mathrm{sd}_p(R_1, \dots, R_K) .

    The first term comes from the delta method. Its factor, with the effective sample size :math:`n_e` and the number of
    coefficients k, is for fits without a row, which share all other rows. The second term is the spread, under the meta
    weights p, of the estimates :math:`R_k` that each active learner's ratio gives on its own. Learners of different
    intervals disagree just after the stream has moved.

    Parameters
    ----------
    losses : array of shape (n_reference,)
        Of models that were fitted without the row they are scored on.
    weights : array of shape (n_reference,)
    learner_weights : array of shape (n_learners, n_reference)
        Importance weights from each learner's ratio; has no rows if there are no learners.
    learner_shares : array of shape (n_learners,)
        The meta weights p.
    n_coefs : int, default=0
        How many coefficients the models have; 0 leaves the factor out.

    Returns
    -------
    tuple of float
        Estimate, lower and upper end; the upper end is infinite if the effective sample size is at most ``n_coefs``.
    """
    estimate, standard_error = mean_and_error(losses, weights)
    half_width = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL) * standard_error
    if n_coefs:
        n_rows = effective_sample_size(weights)
        half_width = half_width * n_rows / (n_rows - n_coefs) if n_rows > n_coefs else math.inf
    if len(learner_shares):
        by_learner = (learner_weights @ losses) / learner_weights.sum(axis=1)
        centre = learner_shares @ by_learner
        half_width += _SPREADS * math.sqrt(max(0.0, float(learner_shares @ (by_learner - centre) ** 2)))
    return estimate, max(0.0, estimate - half_width), estimate + half_width


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


def mean_and_error(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the weighted mean of some values, and its standard error by the delta method."""
    shares = weights / weights.sum()
    mean = float(shares @ values)
    deviations = shares * (values - mean)
    return mean, math.sqrt(float(deviations @ deviations))


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


# Smallest deviation that is assumed: no backtest is long enough to exclude three points.
_SMALLEST_SPREAD = 0.03
_SPREADS_UP, _SPREADS_DOWN = 1.5, 1.645
_DRIFT_UP, _DRIFT_DOWN = 0.2, 0.05
_NEW_DRIFT, _DISAGREEMENT = 0.6, 0.5
LARGEST_UNEXPLAINED = 0.04
FEWEST_LOOKS, LARGEST_MEAN, LARGEST_SPREAD = 5, 0.05, 0.08
_COMPARED = ("error_fixed", "error_adapted", "estimate_fixed", "estimate_adapted")
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)


@dataclass(frozen=True, kw_only=True)
class Look:
    """One comparison of estimates with the truth, after a block of replayed rows.

    Attributes
    ----------
    n_reference : int
        Rows that served as the reference.
    start, stop : int
        The block of rows, counted in order of time.
    error_fixed, error_adapted : float
        Measured errors on the block; mean losses if numbers are predicted.
    estimate_fixed, estimate_adapted : float
        Label-free estimates after the block.
    half_width_fixed, half_width_adapted : float
        Half-widths of their intervals, which account for sampling alone.
    drift : float
        Strength of the drift, from 0 to 1: ``max(0, 2 AUC - 1)`` of a classifier that tells recent rows from the
        reference. NaN after fewer than 50 rows.
    n_effective : float
        Rows of the block that the measured errors rest on: fewer than it has if its rows have different base weights.
        0 in looks that were saved before base weights counted.
    square_fixed, square_adapted : float
        Means of the squared losses on the block. NaN in looks that were saved without them.
    """

    n_reference: int
    start: int
    stop: int
    error_fixed: float
    error_adapted: float
    estimate_fixed: float
    estimate_adapted: float
    half_width_fixed: float
    half_width_adapted: float
    drift: float
    n_effective: float = 0.0
    square_fixed: float = float("nan")
    square_adapted: float = float("nan")


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """How far the truth was from the estimates of one predictor, in shares of the loss that counts as 1.

    Attributes
    ----------
    mean : float
        Mean of truth minus estimate.
    shift : float
        By how much the truth exceeded the estimate on average, beyond what sampling explains.
    spread : float
        Root mean square of truth minus estimate around that shift, without the noise of the blocks.
    spread_down : float
        The same of negative residuals, where the estimate was too high.
    unexplained : float
        Root mean square of truth minus estimate beyond what sampling explains, of the blocks and of the estimate, by
        the lower end of one standard error: a few looks of a short reference are no proof.
    """

    mean: float
    shift: float
    spread: float
    spread_down: float
    unexplained: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a backtest showed.

    Attributes
    ----------
    n_looks : int
    fixed, adapted : Residuals
    drift : float
        Mean strength of the drift inside the reference, over the looks that have enough rows to measure it; 0 if none
        has.
    gain : float
        Mean error of the adapted minus that of the fixed predictor, in shares of the loss that counts as 1; below 0,
        adaptation helped.
    one : float, optional
        The loss that counts as 1. That of a model may differ: it is about another fit. None if it was not saved.
    """

    n_looks: int
    fixed: Residuals
    adapted: Residuals
    drift: float
    gain: float
    one: float | None = None

    @property
    def held(self) -> bool:
        """Whether the estimates were close to the truth, in enough looks to say so."""
        return (
            self.n_looks >= FEWEST_LOOKS
            and self.fixed.unexplained < LARGEST_UNEXPLAINED
            and abs(self.fixed.mean) <= LARGEST_MEAN
            and math.hypot(self.fixed.spread, self.fixed.shift) <= LARGEST_SPREAD
        )


_NOTHING = Residuals(mean=0.0, shift=0.0, spread=0.0, spread_down=0.0, unexplained=0.0)
# Without a backtest nothing is known about drift of any strength: an interval grows with all the drift there is.
NO_EVIDENCE = Evidence(n_looks=0, fixed=_NOTHING, adapted=_NOTHING, drift=0.0, gain=0.0)


def measure_evidence(looks: Sequence[Look], n_reference: int, scale: LossScale = ERRORS) -> Evidence | None:
    """Summarise the looks of a backtest; None if no look has an estimate.

    Parameters
    ----------
    looks : sequence of Look
    n_reference : int
        Rows of the whole reference.
    scale : LossScale
    """
    known = [look for look in looks if all(math.isfinite(getattr(look, name)) for name in _COMPARED)]
    if not known:
        return None

    def column(name: str) -> FloatArray:
        return np.array([getattr(look, name) for look in known], dtype=np.float64)

    n_effective = column("n_effective")
    n_rows = np.where(n_effective > 0.0, n_effective, column("stop") - column("start"))
    fixed, adapted = (
        _residuals(
            truth=column(f"error_{name}") / scale.one,
            estimate=column(f"estimate_{name}") / scale.one,
            half_width=column(f"half_width_{name}") / scale.one,
            variance=_variances(column(f"error_{name}"), column(f"square_{name}"), scale),
            n_rows=n_rows,
            n_reference=n_reference,
            largest=scale.largest,
        )
        for name in ("fixed", "adapted")
    )
    drifts = [look.drift for look in known if math.isfinite(look.drift)]
    return Evidence(
        n_looks=len(known),
        fixed=fixed,
        adapted=adapted,
        drift=float(np.mean(drifts)) if drifts else 0.0,
        gain=float((column("error_adapted") - column("error_fixed")).mean()) / scale.one,
        one=scale.one,
    )


def _variances(truth: FloatArray, squares: FloatArray, scale: LossScale) -> FloatArray:
    """Return the variance of the loss of one row in each look, in shares."""
    if scale.is_of_classes:
        return np.asarray(truth * (1.0 - truth))
    # Divided twice: the square of a small unit would be 0.
    return np.maximum(squares - truth**2, 0.0) / scale.one / scale.one


def _residuals(
    *,
    truth: FloatArray,
    estimate: FloatArray,
    half_width: FloatArray,
    variance: FloatArray,
    n_rows: FloatArray,
    n_reference: int,
    largest: float,
) -> Residuals:
    residual = truth - estimate
    noise = np.maximum(variance, 0.001) / n_rows
    mean_square = max(0.0, float(np.mean(residual**2 - noise)))
    # The looks of a backtest rest on at most 60 % of the rows as a stream, and on at least 40 % as a reference.
    error, expected = float(truth.mean()), float(np.clip(estimate.mean(), 0.0, largest))
    both = error * (1.0 - error) + expected * (1.0 - expected) if largest == 1.0 else 2.0 * float(variance.mean())
    sampling = math.sqrt(both / (0.6 * n_reference))
    shift = max(0.0, float(residual.mean()) - sampling)
    beyond = residual**2 - noise - (half_width / _Z) ** 2
    return Residuals(
        mean=float(residual.mean()),
        shift=shift,
        spread=math.sqrt(max(0.0, mean_square - shift**2)),
        spread_down=_root_of_positive(float(np.mean(np.minimum(residual, 0.0) ** 2 - noise / 2.0))),
        unexplained=_root_of_positive(float(beyond.mean() - beyond.std() / math.sqrt(len(beyond)))),
    )


def _root_of_positive(value: float) -> float:
    return math.sqrt(max(0.0, value))


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
    >>> from accous.diagnostics.risk import NO_EVIDENCE, widen
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


# --- Prediction sets: all classes that conform to the reference, weighted to match the current inputs


def conformal_sets(
    scores: FloatArray, weights: FloatArray, row_scores: FloatArray, row_weights: FloatArray, alpha: float
) -> NDArray[np.bool_]:
    """Weighted conformal prediction sets: every class whose score is at most the row's limit, see `conformal_limits`.

    Parameters
    ----------
    scores : array of shape (n_reference,)
        Nonconformity of each reference row to its label, from a fit without that row.
    weights : array of shape (n_reference,)
    row_scores : array of shape (n_rows, n_classes)
        Nonconformity of each row to each class.
    row_weights : array of shape (n_rows,)
        Weights on the same scale as those of the reference.
    alpha : float
        Share of rows whose true class may be missing from the set.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.risk import conformal_sets
    >>> scores = np.linspace(0.0, 0.9, 10)
    >>> conformal_sets(scores, np.ones(10), np.array([[0.3, 0.8]]), np.ones(1), alpha=0.5)
    array([[ True, False]])
    """
    limits = conformal_limits(scores, weights, row_weights, alpha)
    return np.asarray(row_scores <= limits[:, None])


def conformal_limits(scores: FloatArray, weights: FloatArray, row_weights: FloatArray, alpha: float) -> FloatArray:
    r"""Largest score that conforms, for each row (Tibshirani, Foygel Barber, Candes and Ramdas, 2019).

    The limit of row x is the smallest s with

    .. math:: \sum_{i: s_i \le s} w_i \;\ge\; (1 - \alpha) \Big( \sum_i w_i + w(x) \Big) .

    If there is no such s, the limit is infinite: the row weighs too much for the reference to exclude anything.

    Parameters
    ----------
    scores, weights : arrays of shape (n_reference,)
    row_weights : array of shape (n_rows,)
    alpha : float
        As for `conformal_sets`.

    Returns
    -------
    array of shape (n_rows,)
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    # Slightly less: a sum in another order may differ in the last bit.
    wanted = (1.0 - alpha) * (reached[-1] + row_weights) * (1.0 - 1e-12)
    places = np.searchsorted(reached, wanted)
    return np.asarray(np.append(scores[order], np.inf)[places])


# --- Prediction intervals: all numbers that conform to the reference, weighted to match the current inputs


def conformal_intervals(
    residuals: FloatArray, weights: FloatArray, predicted: FloatArray, row_weights: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    r"""Weighted conformal prediction intervals, :math:`\hat y(x) \pm s(x)`.

    The half-width s(x) is the limit of `accous.diagnostics.risk.conformal_limits` for the sizes of the residuals. It is
    the weighted quantile of level 1 - alpha, with the row's own weight added where residuals are infinite. With
    residuals of fits without the row this is the jackknife, weighted: it has the coverage where leaving one row out
    hardly changes the fit, that is, where the effective sample size is much larger than the number of coefficients.

    Parameters
    ----------
    residuals : array of shape (n_reference,)
        y minus prediction of each reference row, from a fit without that row.
    weights : array of shape (n_reference,)
    predicted : array of shape (n_rows,)
        Predictions of the rows.
    row_weights : array of shape (n_rows,)
        Weights on the same scale as those of the reference.
    alpha : float
        Share of rows whose true value may lie outside, above 0 and below 1.

    Returns
    -------
    low, high : arrays of shape (n_rows,)
        Infinite where a row weighs too much for the reference to exclude any value.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.risk import conformal_intervals
    >>> residuals = np.array([-2.0, 1.0, 0.5, -0.5])
    >>> conformal_intervals(residuals, np.ones(4), np.array([10.0]), np.ones(1), alpha=0.4)
    (array([9.]), array([11.]))
    """
    half_widths = conformal_limits(np.abs(residuals), weights, row_weights, alpha)
    return predicted - half_widths, predicted + half_widths
