"""The state of a model in three words, with reasons and one piece of advice; codes here, texts in one table.

`judge` compares an estimate with the value at fit. Labels, if there are enough of them, decide alone. Without them,
"healthy" needs windows of the user's own history in which the expected value held, and inputs that have moved no
further than they had then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.metrics import Metric
from accous.diagnostics.performance import Estimate, labels_needed

HEALTHY, DEGRADED, UNCERTAIN = "healthy", "degraded", "uncertain"
_POINTS, _SHARE_OF_LOSS = 0.05, 0.2
# Chosen with all streams of `benchmarks.performance` in view: none of them is a test of these numbers.
_SHARE_OF_BOUND = 0.78  # of the half of an interval of 90 %: a bound that holds in 90 % on one side
_MOST_LOSS, _MOST_LOSS_OF_NUMBERS = 2.0, 1.5  # tolerances within which the bound of a healthy model lies
_MOST_SCATTER, _MOST_SCATTER_OF_NUMBERS = 3.0, 2.0  # tolerances within which two deviations of the backtest's gaps lie
_LITTLE_DRIFT, _MUCH_DRIFT = 0.3, 0.8
_FEWEST_WINDOWS = 3


class Finding(StrEnum):
    """What a reason says; its number is named in the text."""

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
    LABELS_ARRIVED = "labels_arrived"
    NOT_DEFINED = "not_defined"
    FEW_INSIDE = "few_inside"
    NEW_CATEGORIES = "new_categories"
    NOT_ADAPTED = "not_adapted"
    SHORT_HISTORY = "short_history"


class Action(StrEnum):
    """What a user should do."""

    LABEL = "label"
    LEARN = "learn"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Reason:
    """One finding with its number."""

    code: Finding
    number: float


@dataclass(frozen=True)
class Advice:
    """What to do, and with how many rows."""

    code: Action
    n: int = 0

    @property
    def command(self) -> str:
        """What to type, with MODEL for the model's folder and capitals for your files; empty if there is nothing."""
        ask = f"accous ask MODEL STREAM -n {self.n} -o to_label.csv"
        return {Action.LABEL: ask, Action.LEARN: "accous labels MODEL LABELS"}.get(self.code, "")


@dataclass(frozen=True)
class Status:
    """How the model is.

    Attributes
    ----------
    state : {"healthy", "degraded", "uncertain"}
    alarm : bool
        Whether the betting process of `accous.diagnostics.alarm` has crossed its limit.
    reasons : tuple of Reason
        The first one decided.
    advice : Advice
    alarm_since : int or None
        Round in which the alarm went off.
    """

    state: str
    alarm: bool
    reasons: tuple[Reason, ...]
    advice: Advice
    alarm_since: int | None = None


@dataclass(frozen=True)
class History:
    """What the windows of the user's own history showed.

    Attributes
    ----------
    is_in_time : bool
        Whether they followed one another in time.
    gaps : array of shape (n_windows,)
        Truth minus expected value of each (`accous.diagnostics.performance.gaps`).
    drift : float
        How far inputs moved there at the mean, from those that each fit had.
    """

    is_in_time: bool
    gaps: FloatArray
    drift: float


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
    history: History,
    drift: float,
    *,
    tolerance: float,
    alarm: bool = False,
    also: tuple[Reason, ...] = (),
) -> Status:
    """Return the state of the model.

    Parameters
    ----------
    metric : Metric
    now : Estimate
        From `accous.diagnostics.performance.estimate`.
    history : History
    drift : float
        How far the recent rows are from the reference (`accous.diagnostics.drift.drift_strength`).
    tolerance : float
        Loss above that at fit that is still healthy (`tolerance_of`).
    alarm : bool
    also : tuple of Reason
        Further findings to name; they decide nothing.
    """
    if math.isnan(now.value) or math.isnan(now.at_fit):
        found = UNCERTAIN, [Reason(Finding.NOT_DEFINED, 0)]
    elif now.basis == "labels":
        found = _by_labels(metric, now, tolerance)
    else:
        found = _without_labels(metric, now, history, drift, tolerance)
    state, reasons = found
    return Status(state, alarm, (*reasons, *also), advise(state, metric, now, tolerance))


def _losses(metric: Metric, now: Estimate) -> tuple[float, float, float]:
    """Return value, lower and upper bound as losses above that at fit."""
    before = metric.loss(now.at_fit)
    low, high = sorted((metric.loss(now.low), metric.loss(now.high)))
    if metric.kind == "bias" and now.low <= 0.0 <= now.high:
        low = 0.0
    return metric.loss(now.value) - before, low - before, high - before


def _by_labels(metric: Metric, now: Estimate, tolerance: float) -> tuple[str, list[Reason]]:
    value, low, high = _losses(metric, now)
    if low > tolerance:
        return DEGRADED, [Reason(Finding.LABELS_BEYOND, now.n_labels)]
    most = tolerance * (_MOST_LOSS_OF_NUMBERS if metric.is_of_numbers else _MOST_LOSS)
    if value <= tolerance and value + _SHARE_OF_BOUND * (high - value) <= most:
        return HEALTHY, [Reason(Finding.LABELS_WITHIN, now.n_labels)]
    return UNCERTAIN, [Reason(Finding.LABELS_UNDECIDED, now.n_labels)]


def _without_labels(
    metric: Metric, now: Estimate, history: History, drift: float, tolerance: float
) -> tuple[str, list[Reason]]:
    value, low, _ = _losses(metric, now)
    few = Reason(Finding.LABELS_TOO_FEW, now.n_labels)
    gaps = history.gaps[np.isfinite(history.gaps)] * (-1.0 if metric.higher_is_better else 1.0)
    # Where a window of the reference turned out better than expected, recent rows may as well.
    if low + min(0.0, gaps.min(initial=0.0)) > tolerance:
        return DEGRADED, [Reason(Finding.EXPECTED_BEYOND, metric.loss(now.value)), few]
    if not history.is_in_time or len(gaps) < _FEWEST_WINDOWS:
        return UNCERTAIN, [Reason(Finding.NO_BACKTEST, len(gaps) if history.is_in_time else 0), few]
    scatter = 2.0 * float(gaps.std(ddof=1))
    if scatter > tolerance * (_MOST_SCATTER_OF_NUMBERS if metric.is_of_numbers else _MOST_SCATTER):
        return UNCERTAIN, [Reason(Finding.BACKTEST_SCATTERED, scatter), few]
    if drift > min(_MUCH_DRIFT, max(_LITTLE_DRIFT, history.drift)):
        return UNCERTAIN, [Reason(Finding.INPUTS_MOVED, drift), few]
    if value + max(0.0, float(gaps.mean())) > tolerance:
        return UNCERTAIN, [Reason(Finding.EXPECTED_BEYOND, metric.loss(now.value)), few]
    return HEALTHY, [Reason(Finding.INPUTS_AS_BEFORE, drift), Reason(Finding.BACKTEST_HELD, len(gaps)), few]


def advise(state: str, metric: Metric, now: Estimate, tolerance: float) -> Advice:
    """Return what to do: label so many recent rows, refit, or nothing."""
    if state == DEGRADED and now.basis == "labels":
        return Advice(Action.LEARN, now.n_labels)
    if state == HEALTHY and now.basis == "labels":
        return Advice(Action.NOTHING)
    return Advice(Action.LABEL, rows_to_label(metric, now, tolerance))


def rows_to_label(metric: Metric, now: Estimate, tolerance: float) -> int:
    """Return how many more labels tell the metric to within the tolerance, in tens and 50 at least."""
    if metric.is_share and not math.isnan(now.value):
        needed = labels_needed(min(0.5, max(0.05, metric.loss(now.value))), tolerance)
    else:
        needed = 100
    if now.basis == "labels" and not math.isnan(now.high):
        half_width = 0.5 * (now.high - now.low)
        needed = math.ceil(now.n_labels * max(0.0, (half_width / tolerance) ** 2 - 1.0))
    return int(min(1000, max(50, 10 * math.ceil(needed / 10))))


# --- Texts


TEXTS: dict[Finding | Action, str] = {
    Finding.LABELS_WITHIN: "{n:,} recent labels show it within the tolerance of the value at fit.",
    Finding.LABELS_BEYOND: "{n:,} recent labels show that the model is worse than at fit.",
    Finding.LABELS_UNDECIDED: "{n:,} recent labels do not decide yet whether the model is worse than at fit.",
    Finding.LABELS_TOO_FEW: "{n:,} recent labels are too few to confirm it.",
    Finding.LABELS_ARRIVED: "{n:,} more labels merely arrived: they decide nothing, because their rows were not drawn.",
    Finding.EXPECTED_BEYOND: "Inputs have moved to where the model is worse: expected loss {x:.3g}.",
    Finding.BACKTEST_HELD: "In {n:,} windows of the reference the expected value held.",
    Finding.BACKTEST_SCATTERED: "In windows of the reference the truth was up to {x:.3g} away from the expected value.",
    Finding.NO_BACKTEST: "The reference has {n:,} windows in order of time: too few to believe the expected value.",
    Finding.INPUTS_AS_BEFORE: "Inputs have moved no further than in the reference (drift {x:.2f} of 1).",
    Finding.INPUTS_MOVED: "Inputs have moved further than in the reference (drift {x:.2f} of 1).",
    Finding.NOT_DEFINED: "The metric is not defined on recent rows, as when all are of one class.",
    Finding.FEW_INSIDE: "{x:.0%} of recent rows are unlike any of the reference.",
    Finding.NEW_CATEGORIES: "{x:.0%} of recent rows have values that the reference never had.",
    Finding.NOT_ADAPTED: "Adaptation is off: on held-out rows it would have cost {x:.3g}.",
    Finding.SHORT_HISTORY: "The reference has {n:,} rows only.",
    Action.LABEL: "Label {n:,} recent rows to know it within the tolerance.",
    Action.LEARN: "Let the model learn from the {n:,} labels, or fit it anew.",
    Action.NOTHING: "Nothing to do.",
}
"""One sentence for each code: n stands for a count, x for any other number."""


def text_of(one: Reason | Advice) -> str:
    """Return the sentence of a reason or of advice."""
    number = one.n if isinstance(one, Advice) else one.number
    return TEXTS[one.code].format(n=int(number), x=number)
