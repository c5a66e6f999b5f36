"""The alarm, and the state of a model in three words: codes here, texts in one table; one piece of advice.

`judge` compares an estimate with the value at fit. Labels, if there are enough of them, decide alone. Without them,
"healthy" needs windows of the user's own history, an expected value close to that at fit, and inputs and predictions
that have moved little.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.metrics import Metric, one_hot
from accous.diagnostics.performance import (
    Calibration,
    Estimate,
    NumberCalibration,
    PredictedRows,
    labels_needed,
    with_others,
)

# --- The alarm: a betting process


ALPHA = 0.05
_FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of 1 / m, the largest with which no stake becomes negative
_LARGEST = 1e100
_ERRORS_IN_ONE = 4.0  # a residual of so many mean absolute errors at fit, or more, is a loss of 1
_POINTS, _SHARE_OF_LOSS, _TINY = 0.05, 0.2, 1e-9


@dataclass(frozen=True)
class Alarm:
    r"""An alarm that is false with probability alpha at most, however often one looks: a betting process.

    It bets against "the mean loss is at most m", where losses lie in [0, 1] and m is the loss at fit plus the
    tolerance: each loss z multiplies a stake by :math:`1 + g (z - m)`, whose mean is at most 1 while the claim is true.
    By Ville's inequality the wealth ever reaches :math:`1 / \alpha` with probability alpha at most. A change may come
    late, so that half of the money is staked at the start and the rest bit by bit in later rounds, a share of
    :math:`1 / (k (k + 1))` in the k-th; the fractions g are fixed and share the money evenly. The sum of all stakes and
    of what is kept is the wealth.

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
        return _wealth(np.array(self.stakes), self.rounds)

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
        bets = (np.minimum(np.maximum(losses, 0.0), 1.0) - self.limit) / self.limit
        if weight is not None:
            bets = bets * np.clip(weight, 0.0, 1.0)
        growth = np.log1p(np.multiply.outer(_FRACTIONS, bets)).sum(axis=1)
        staked = np.array(self.stakes) + 0.5 / (rounds * (rounds + 1))
        stakes = np.minimum(_LARGEST, staked * np.exp(np.minimum(growth, np.log(_LARGEST))))
        since = rounds if _wealth(stakes, rounds) >= 1.0 / self.alpha else None
        return replace(self, rounds=rounds, stakes=tuple(stakes.tolist()), since=since)


def _wealth(stakes: FloatArray, rounds: int) -> float:
    return float(stakes.mean()) + 0.5 / (rounds + 1)


def start_alarm(limit: float, alpha: float = ALPHA) -> Alarm:
    """Return the process before the first round; the limit is kept away from 0 and 1."""
    return Alarm(float(np.clip(limit, 0.01, 0.99)), 0, tuple(0.5 for _ in _FRACTIONS), alpha=alpha)


# --- Losses in [0, 1]


def losses_of(
    metric: Metric, calibration: Calibration, made: PredictedRows, y: NDArray[Any] | None = None
) -> FloatArray:
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
    shares = with_others(made.probabilities)
    mass = with_others(calibration.calibrated(made.probabilities)) if y is None else one_hot(y, shares.shape[1])
    return (mass * _bounded(metric, made.predicted, shares)).sum(axis=1)


def limit_of(metric: Metric, calibration: Calibration) -> float:
    """Return the mean loss at fit and what is tolerated above it: 5 points of classes, and a fifth at least."""
    both = (losses_of(metric, calibration, calibration.held_out, y).mean() for y in (calibration.y, None))
    before = float(max(both))  # calibrated on few rows, losses are expected that did not occur
    least = 0.0 if isinstance(calibration, NumberCalibration) else _POINTS
    return before + max(least, _SHARE_OF_LOSS * before)


def _bounded(metric: Metric, predicted: NDArray[Any], probabilities: FloatArray) -> FloatArray:
    """Return the loss of each row for each class as the true one."""
    n_classes = probabilities.shape[1]
    if metric.kind in ("brier", "log_loss"):
        return 0.5 * (np.square(probabilities).sum(axis=1, keepdims=True) - 2.0 * probabilities + 1.0)
    if metric.costs is not None:
        span, costs = float(np.ptp(metric.costs)), np.pad(metric.costs, (0, 1), constant_values=metric.costs.max())
        return (costs.T[predicted] - metric.costs.min()) / (span if span > 0.0 else 1.0)
    return 1.0 - one_hot(predicted, n_classes)


# --- The state of a model in three words, with reasons and one piece of advice; codes here, texts in one table


HEALTHY, DEGRADED, UNCERTAIN = "healthy", "degraded", "uncertain"

# By how many halves of their interval labels have to lie within the tolerance, or beyond it. On the streams that
# `benchmarks.data` calls chosen, the smallest steps of 0.1 with 92 % right, and 90 % right by every metric of classes.
_WITHIN, _BEYOND = 0.2, 0.7
# Without labels; the last five were chosen with all streams of `benchmarks.performance` in view:
_CHANCE = 1.27  # standard deviations of the largest of six draws, which few rows alone explain
_LITTLE_DRIFT, _MORE_DRIFT, _MUCH_DRIFT = 0.3, 0.2, 0.85  # always little, more than in the windows, too much to degrade
_MOST_MOVED = 0.25
_FEWEST_WINDOWS = 3


class Finding(StrEnum):
    """What a reason says; its number is named in the text."""

    NO_ROWS = "no_rows"
    LABELS_WITHIN = "labels_within"
    LABELS_BEYOND = "labels_beyond"
    LABELS_TOO_FEW = "labels_too_few"
    LABELS_UNDECIDED = "labels_undecided"
    EXPECTED_BEYOND = "expected_beyond"
    BACKTEST_HELD = "backtest_held"
    BACKTEST_SCATTERED = "backtest_scattered"
    NO_BACKTEST = "no_backtest"
    INPUTS_AS_BEFORE = "inputs_as_before"
    INPUTS_MOVED = "inputs_moved"
    PREDICTIONS_MOVED = "predictions_moved"
    LABELS_ARRIVED = "labels_arrived"
    LABELS_OLD = "labels_old"
    NOT_DEFINED = "not_defined"
    FEW_INSIDE = "few_inside"
    NEW_CATEGORIES = "new_categories"
    NO_BETTER = "no_better"
    NOT_ADAPTED = "not_adapted"
    SHORT_HISTORY = "short_history"


class Action(StrEnum):
    """What a user should do."""

    FOLLOW = "follow"
    LABEL = "label"
    LEARN = "learn"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Reason:
    """One finding with its number, and its column if it is about one."""

    code: Finding
    number: float
    column: str | None = None

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True)
class Advice:
    """What to do, and with how many rows."""

    code: Action
    n: int = 0

    def __str__(self) -> str:
        return text_of(self)

    def command(self, model: str = "MODEL", stream: str = "STREAM") -> str:
        """Return what to type, with capitals for files that are not known; empty if there is nothing."""
        model, stream = shlex.quote(model), shlex.quote(stream)
        commands = {
            Action.FOLLOW: f"accous adapt {model} {stream}",
            Action.LABEL: f"accous ask {model} {stream} -n {self.n} -o to_label.csv",
            Action.LEARN: f"accous labels {model} LABELS",
        }
        return commands.get(self.code, "")


@dataclass(frozen=True)
class Status:
    """How the model is.

    Attributes
    ----------
    state : {"healthy", "degraded", "uncertain"} or None
        None before the first row or label.
    alarm : bool
        Whether the betting process of `accous.diagnostics.status` has crossed its limit.
    reasons : tuple of Reason
        The first one decided.
    advice : Advice
    alarm_since : int or None
        Round in which the alarm went off.
    """

    state: str | None
    alarm: bool
    reasons: tuple[Reason, ...]
    advice: Advice
    alarm_since: int | None = None


BEFORE_ROWS = Status(None, False, (Reason(Finding.NO_ROWS, 0),), Advice(Action.FOLLOW))
"""Nothing has come that could be judged."""


@dataclass(frozen=True)
class StateHistory:
    """What the windows of the user's own history showed.

    Attributes
    ----------
    is_in_time : bool
        Whether they followed one another in time.
    gaps : array of shape (n_windows,)
        True minus expected loss of each (`accous.diagnostics.performance.gaps`).
    drift : float
        How far inputs moved there at the mean, from those that each fit had.
    noise : float
        How much the gaps vary at the mean because windows have few rows, as a variance; 0 for numbers.
    constant : float
        The metric of the best constant prediction (`accous.diagnostics.performance.of_constant`).
    """

    is_in_time: bool
    gaps: FloatArray
    drift: float
    noise: float = 0.0
    constant: float = math.nan

    @property
    def n_windows(self) -> int:
        """Windows that followed one another, and in which the metric is defined."""
        return int(np.isfinite(self.gaps).sum()) if self.is_in_time else 0

    @property
    def worst(self) -> float:
        """By how much more the loss exceeded what was expected in the worst window than by chance; NaN without any."""
        return max(0.0, float(np.nanmax(self.gaps)) - _CHANCE * math.sqrt(self.noise)) if self.n_windows else math.nan


def tolerance_of(metric: Metric, at_fit: float, scale: float = math.nan) -> float:
    """Return how much more loss than at fit is still healthy.

    ``scale`` is what a bias is compared with: the mean absolute error at fit.

    Examples
    --------
    >>> from accous.diagnostics.metrics import read_metric
    >>> error, auc = (read_metric(name, ["no", "yes"]) for name in ("error", "roc_auc"))
    >>> round(tolerance_of(error, 0.1), 3), round(tolerance_of(error, 0.4), 3), round(tolerance_of(auc, 0.6), 3)
    (0.05, 0.08, 0.08)
    """
    share = _SHARE_OF_LOSS * (scale if metric.kind == "bias" else metric.loss(at_fit))
    return max(_POINTS, share) if metric.is_share else share


# --- The rule


def judge(
    metric: Metric,
    now: Estimate,
    history: StateHistory,
    drift: float,
    *,
    tolerance: float,
    moved: float = 0.0,
    alarm: bool = False,
    has_learned: bool = False,
    learned_predicts: bool = False,
    spread: float = math.nan,
    also: tuple[Reason, ...] = (),
) -> Status:
    """Return the state of the model.

    Parameters
    ----------
    metric : Metric
    now : Estimate
        From `accous.diagnostics.performance.estimate`.
    history : StateHistory
    drift : float
        How far the recent rows are from the reference (`accous.diagnostics.drift.drift_strength`).
    tolerance : float
        Loss above that at fit that is still healthy (`tolerance_of`).
    moved : float
        How far predictions have moved (`accous.diagnostics.performance.moved`).
    alarm, has_learned : bool
        Whether the alarm is on, and whether the model has learned from all labels.
    learned_predicts : bool
        Whether what labels taught predicts: the expected value describes the predictor from before and decides nothing.
    spread : float
        Variance of the metric by one label (`accous.diagnostics.performance.spread_of`): it says how many are needed.
    also : tuple of Reason
        Further findings to name; they decide nothing.
    """
    if math.isnan(now.value) or math.isnan(now.at_fit):
        found = UNCERTAIN, [Reason(Finding.NOT_DEFINED, 0)]
    elif now.basis == "labels":
        found = _by_labels(metric, now, tolerance)
    elif learned_predicts:
        found = UNCERTAIN, [Reason(Finding.LABELS_TOO_FEW, now.n_labels)]
    else:
        found = _without_labels(metric, now, history, drift, moved, tolerance)
    state, reasons = found
    # NaN compares as false.
    if metric.loss(now.at_fit) >= metric.loss(history.constant) - _TINY:
        reasons.append(Reason(Finding.NO_BETTER, history.constant))
    advice = advise(state, now, tolerance, spread, alarm=alarm, has_learned=has_learned)
    return Status(state, alarm, (*reasons, *also), advice)


def _losses(metric: Metric, now: Estimate) -> tuple[float, float, float]:
    """Return value, lower and upper bound as losses above that at fit."""
    before = metric.loss(now.at_fit)
    low, high = sorted((metric.loss(now.low), metric.loss(now.high)))
    if metric.kind == "bias" and now.low <= 0.0 <= now.high:
        low = 0.0
    return metric.loss(now.value) - before, low - before, high - before


def _by_labels(metric: Metric, now: Estimate, tolerance: float) -> tuple[str, list[Reason]]:
    value, low, high = _losses(metric, now)
    if value - _BEYOND * (value - low) > tolerance:
        return DEGRADED, [Reason(Finding.LABELS_BEYOND, now.n_labels)]
    if value + _WITHIN * (high - value) <= tolerance:
        return HEALTHY, [Reason(Finding.LABELS_WITHIN, now.n_labels)]
    return UNCERTAIN, [Reason(Finding.LABELS_UNDECIDED, now.n_labels)]


def _without_labels(
    metric: Metric, now: Estimate, history: StateHistory, drift: float, moved: float, tolerance: float
) -> tuple[str, list[Reason]]:
    value, low, _ = _losses(metric, now)
    gaps, n_windows, worse = history.gaps[np.isfinite(history.gaps)], history.n_windows, history.worst
    beyond = Reason(Finding.EXPECTED_BEYOND, metric.loss(now.value))
    few = [Reason(Finding.LABELS_TOO_FEW, now.n_labels)] if now.n_labels else []
    # Where a window of the reference turned out better than expected, recent rows may as well.
    if drift <= _MUCH_DRIFT and low + min(0.0, gaps.min(initial=0.0)) > tolerance:
        return DEGRADED, [beyond, *few]
    if n_windows < _FEWEST_WINDOWS:
        return UNCERTAIN, [Reason(Finding.NO_BACKTEST, n_windows), *few]
    doubts = (
        (drift > max(_LITTLE_DRIFT, history.drift + _MORE_DRIFT), Reason(Finding.INPUTS_MOVED, drift)),
        (moved > _MOST_MOVED, Reason(Finding.PREDICTIONS_MOVED, moved)),
        (value > tolerance, beyond),
        (value + worse > tolerance, Reason(Finding.BACKTEST_SCATTERED, worse)),
    )
    found = next((reason for is_so, reason in doubts if is_so), None)
    if found is not None:
        return UNCERTAIN, [found, *few]
    return HEALTHY, [Reason(Finding.INPUTS_AS_BEFORE, drift), Reason(Finding.BACKTEST_HELD, n_windows), *few]


def advise(
    state: str,
    now: Estimate,
    tolerance: float,
    spread: float = math.nan,
    *,
    alarm: bool = False,
    has_learned: bool = False,
) -> Advice:
    """Return what to do: label so many recent rows, refit, or nothing."""
    if state == DEGRADED and now.basis == "labels" and not has_learned:
        return Advice(Action.LEARN, now.n_labels)
    if state == HEALTHY and now.basis == "labels" and not alarm:
        return Advice(Action.NOTHING)
    return Advice(Action.LABEL, _rows_to_label(now, max(tolerance, _TINY), spread))


def _rows_to_label(now: Estimate, tolerance: float, spread: float) -> int:
    """Return how many more labels tell the metric to within the tolerance, in tens, from 50 to 1,000."""
    needed = 100.0 if math.isnan(spread) else labels_needed(spread, tolerance)
    if now.basis == "labels" and not math.isnan(now.high):
        half_width = 0.5 * (now.high - now.low)
        needed = now.n_labels * max(0.0, (half_width / tolerance) ** 2 - 1.0)
    return int(min(1000, max(50, 10 * math.ceil(needed / 10))))


# --- Texts


TEXTS: dict[Finding | Action, str] = {
    Finding.NO_ROWS: "No rows yet.",
    Finding.LABELS_WITHIN: "{n:,} recent labels show that the model is within the tolerance of its value at fit.",
    Finding.LABELS_BEYOND: "{n:,} recent labels show that the model is worse than at fit.",
    Finding.LABELS_UNDECIDED: "{n:,} recent labels do not decide yet whether the model is worse than at fit.",
    Finding.LABELS_TOO_FEW: "Recent labels: {n:,}, too few to confirm the expected value.",
    Finding.LABELS_ARRIVED: "{n:,} more labels were not drawn at random, so they do not count here.",
    Finding.LABELS_OLD: "The newest label is of a row from {n:,} rows ago: it tells how the model was then.",
    Finding.EXPECTED_BEYOND: "Inputs have moved to where the model is worse: expected loss {x:.3g}.",
    Finding.BACKTEST_HELD: "The expected value held in all {n:,} windows of the reference.",
    Finding.BACKTEST_SCATTERED: "In the worst window of the reference, the loss was {x:.3g} higher than expected.",
    Finding.NO_BACKTEST: "The reference has {n:,} windows in order of time: too few to trust the expected value.",
    Finding.INPUTS_AS_BEFORE: "Inputs move as they did between windows of the reference (drift {x:.2f} of 1).",
    Finding.INPUTS_MOVED: "Inputs have moved further than windows of the reference (drift {x:.2f} of 1).",
    Finding.PREDICTIONS_MOVED: "Predictions have moved away from those on the reference ({x:.2f} of 1).",
    Finding.NOT_DEFINED: "The metric is undefined on recent rows, for example because all are of one class.",
    Finding.FEW_INSIDE: "{x:.0%} of recent rows are unlike any row of the reference.",
    Finding.NEW_CATEGORIES: "In {x:.0%} of recent rows, {column!r} has values that never occur in the reference.",
    Finding.NO_BETTER: "At fit the model was no better than a constant prediction ({x:.3g}).",
    Finding.NOT_ADAPTED: "The fixed model predicts: on held-out rows, adapting would have cost {x:.3g}.",
    Finding.SHORT_HISTORY: "The reference has only {n:,} rows.",
    Action.FOLLOW: "Let the model follow a stream.",
    Action.LABEL: "Label {n:,} recent rows to measure the model to within the tolerance.",
    Action.LEARN: "Let the model learn from the {n:,} labels, or refit it.",
    Action.NOTHING: "Nothing to do.",
}
"""One sentence for each code: n stands for a count, x for any other number, column for its name."""


def text_of(one: Reason | Advice) -> str:
    """Return the sentence of a reason or of advice."""
    number, column = (one.n, None) if isinstance(one, Advice) else (one.number, one.column)
    return TEXTS[one.code].format(n=int(number), x=number, column=column)
