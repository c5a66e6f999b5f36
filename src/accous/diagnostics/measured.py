r"""The error measured by labels that arrive late, and whether it contradicts the error estimated without labels.

The measured error is a mean that is discounted with a half-life of 500 labelled rows,

.. math:: \hat e = \frac{\sum_i \rho^{n - i} e_i}{\sum_i \rho^{n - i}}, \qquad \rho = 2^{-1/500},

with e = 1 where the predicted class was wrong. Its interval is Wilson's, for the effective number of rows. Where
numbers are predicted, e is the loss, and the interval is that of a mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from accous.diagnostics.audits import Audit
from accous.diagnostics.interval_counts import NO_INTERVALS, IntervalCounts
from accous.diagnostics.late_labels import LateLabels, Sum
from accous.diagnostics.latest_labels import UNKNOWN, LatestError, measure_latest
from accous.diagnostics.loss_scale import ERRORS, LossScale
from accous.diagnostics.measured_words import CLOSE, CONCEPT_CHANGED, sentence_of
from accous.diagnostics.risk import LEVEL, is_telling
from accous.diagnostics.shares import wilson_interval
from accous.diagnostics.stretches import NO_STRETCHES, LabelledRounds, Stretches, compare_stretches

__all__ = ["FEWEST_TO_CONTRADICT", "MeasuredError", "alarm_height", "measure"]

FEWEST_TO_CONTRADICT = 20
"""Labelled rows below which measured and estimated error are not said to contradict each other."""
EXACT_LABELS, EXACT_WIDTH = 100, 0.1

# Heights of the alarm where 1 % and where 5 % of the stream's rows are labelled.
_LOW_SHARE, _HIGH_SHARE, _LOW_HEIGHT, _HIGH_HEIGHT = 0.01, 0.05, 8.0, 10.0
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)


@dataclass(frozen=True, kw_only=True)
class MeasuredError:
    """The error that late labels have measured, beside the error that was estimated without labels.

    Attributes
    ----------
    n_labelled : int
        Labelled rows so far.
    error, error_low, error_high : float
        Measured error of the predictor in use with a 90 % interval; a label counts half after 500 others. From 400
        labels on, the interval is wide enough for the latest 200 alone. Where numbers are predicted, it is the mean
        loss.
    error_plain : float
        The plain mean over all labels since rows last joined the reference (``n_plain`` rows), in which an old label
        counts as much as a new one; NaN if there are none, or if an earlier version counted some of them.
    n_plain : int
    error_fixed : float
        As ``error``, for the fixed predictor; NaN if its predictions are not known.
    estimated, estimated_low, estimated_high : float
        Label-free estimates for these rows and the ends of their intervals, averaged with the same weights; NaN if
        there are none, or if numbers are predicted and the reference does not cover the inputs.
    excess : float
        Measured minus estimated error, of the rows that have an estimate.
    gap, gap_standard_error : float
        Error of the predictor in use minus that of the fixed one on the same rows, and its standard error; NaN if the
        predictions of the fixed one are not known.
    age : int
        Rows of the stream since the last label.
    contradicts : bool
        Whether labels contradict the estimate: the intervals of the two means do not overlap, or the CUSUM alarm is
        on, or labels are exact and their whole interval is more than 5 points away from the estimate, though perhaps
        inside its interval.
    is_outdated : bool
        Whether rows have joined the reference and fewer than 20 labels came since: the errors are those of the
        predictors before.
    is_exact : bool
        Whether there are at least 100 labels and the interval of their mean is at most 10 points wide. See
        `accous.diagnostics.loss_scale` for points of numbers.
    is_inside : bool
        Whether the interval of the estimate and that of the mean over the labels overlap.
    is_estimate_outside : bool
        Whether the estimate itself lies outside of the interval of the mean over the labels.
    is_covered : bool
        Whether the reference covers the inputs now. Where it does not, nobody can tell whether P(y | x) has changed.
    is_alarmed : bool
        Whether the CUSUM alarm is on: recent predictions were wrong far more often than estimated.
    unseen_classes : dict of str to int
        Labelled rows of each class that the reference does not have.
    concept_changed : {"yes", "no", "not known"}
        Whether P(y | x) has changed: by a class that the reference does not have among the last 500 labelled rows, or
        by the test of ``audit`` on them, if the errors have grown. "not known" with fewer than 20 rows, where the
        reference does not cover the inputs, and where the test finds a change that does no harm.
    intervals : IntervalCounts
        How many true numbers lay inside their prediction intervals, if they were given with the labels.
    latest : LatestError
        The error on the latest 200 labels, and whether it is apart from the measured one, which then lags behind.
    stretches : Stretches
        In how many stretches of the labelled rounds labels and estimate are apart.
    sentence : str
        The result in plain words.
    scale : LossScale
        What the losses are compared with.
    """

    n_labelled: int
    error: float
    error_low: float
    error_high: float
    error_plain: float = math.nan
    n_plain: int = 0
    error_fixed: float
    estimated: float
    estimated_low: float = math.nan
    estimated_high: float = math.nan
    excess: float
    gap: float
    gap_standard_error: float
    age: int
    contradicts: bool
    is_outdated: bool = False
    is_exact: bool
    is_inside: bool = True
    is_estimate_outside: bool = False
    is_covered: bool = True
    is_alarmed: bool
    unseen_classes: dict[str, int]
    concept_changed: str
    sentence: str
    intervals: IntervalCounts = NO_INTERVALS
    stretches: Stretches = NO_STRETCHES
    latest: LatestError = UNKNOWN
    scale: LossScale = field(default=ERRORS, repr=False)

    @property
    def contradicts_now(self) -> bool:
        """Whether labels contradict the estimate of the present predictors."""
        return self.contradicts and not self.is_outdated

    @property
    def is_off(self) -> bool:
        """Whether the measured error is more than 5 points away from the estimate."""
        return abs(self.excess) > CLOSE * self.scale.one

    @property
    def is_within(self) -> bool:
        """Whether the measured error itself lies inside the interval of the estimate."""
        return self.estimated_low <= self.error <= self.estimated_high

    @property
    def error_now(self) -> float:
        """The error on the latest labels where it is apart from the measured one; otherwise the measured one."""
        return self.latest.error if self.latest.is_apart else self.error

    @property
    def is_few(self) -> bool:
        """Whether there are too few labels to compare them with the estimate."""
        return self.n_labelled < FEWEST_TO_CONTRADICT and not self.contradicts

    @property
    def is_estimate_known(self) -> bool:
        """Whether the estimate says something: the reference covers the inputs, and the interval is not too wide."""
        return self.is_covered and is_telling(self.estimated, self.estimated_low, self.estimated_high, self.scale.loss)

    @property
    def concept_sentence(self) -> str:
        """Say that P(y | x) has changed; empty if nothing says so."""
        return CONCEPT_CHANGED if self.concept_changed == "yes" else ""

    def __str__(self) -> str:
        """Return the result in plain words."""
        return self.sentence


def measure(
    labels: LateLabels,
    *,
    n_stream: int,
    audit: Audit | None,
    scale: LossScale = ERRORS,
    is_covered: bool = True,
    rounds: LabelledRounds | None = None,
) -> MeasuredError:
    """Return what the labels show.

    Parameters
    ----------
    labels : LateLabels
        With at least one labelled row.
    n_stream : int
        Rows of the stream so far, with or without labels.
    audit : Audit, optional
        Of the kept rows; None if it cannot be computed.
    scale : LossScale
    is_covered : bool
        Whether the reference covers the inputs.
    rounds : LabelledRounds, optional
        What the labels measured round by round. None takes blocks of labels in the order in which they were given.
    """
    sums = labels.sums
    error = float(sums[Sum.LOSS] / sums[Sum.WEIGHT])
    low, high = _interval(labels, error, scale)
    latest = measure_latest(labels.latest, labels.n_plain, error, scale)
    estimated, estimated_low, estimated_high, excess = _estimated(labels, scale, is_covered=is_covered)
    is_alarmed = labels.cusum >= alarm_height(labels.n_labelled / max(1, n_stream, labels.n_labelled))
    is_apart = labels.n_labelled >= FEWEST_TO_CONTRADICT and (low > estimated_high or high < estimated_low)
    is_exact = labels.n_labelled >= EXACT_LABELS and high - low <= EXACT_WIDTH * scale.one
    # With enough labels an estimate is contradicted also inside an interval that is too wide to say anything. How far
    # the labels themselves may be off counts first: else chance alone would contradict.
    is_far = is_exact and max(low - error + excess, error - high - excess) > CLOSE * scale.one
    rows = labels.audit_rows
    has_unseen = rows is not None and bool(rows.is_unseen.any())
    measured = MeasuredError(
        n_labelled=labels.n_labelled,
        error=error,
        # Where the error moves, its mean says little about now: the interval holds what the latest labels say, too.
        error_low=min(low, latest.error_low) if latest.n_rows else low,
        error_high=max(high, latest.error_high) if latest.n_rows else high,
        error_plain=labels.plain_loss / labels.n_plain if labels.n_plain else math.nan,
        n_plain=labels.n_plain,
        error_fixed=_mean(sums[Sum.LOSS_FIXED], sums[Sum.WEIGHT_FIXED]),
        estimated=estimated,
        estimated_low=estimated_low,
        estimated_high=estimated_high,
        excess=excess,
        gap=_mean(sums[Sum.LOSS_COMPARED] - sums[Sum.LOSS_FIXED], sums[Sum.WEIGHT_FIXED]),
        gap_standard_error=_gap_standard_error(labels, scale),
        age=max(0, n_stream - labels.last_row),
        contradicts=not math.isnan(estimated) and (is_apart or is_alarmed or is_far),
        is_outdated=labels.n_before is not None and labels.n_labelled - labels.n_before < FEWEST_TO_CONTRADICT,
        is_exact=is_exact,
        is_inside=not is_apart,
        is_estimate_outside=not math.isnan(excess) and not low <= error - excess <= high,
        is_covered=is_covered,
        is_alarmed=is_alarmed,
        unseen_classes=dict(labels.n_unseen),
        concept_changed=_concept_changed(has_unseen=has_unseen, audit=audit, is_covered=is_covered),
        sentence="",
        intervals=labels.intervals,
        latest=latest,
        stretches=_stretches(labels, error, labels.blocks.as_rounds() if rounds is None else rounds, scale),
        scale=scale,
    )
    return replace(measured, sentence=sentence_of(measured))


def _estimated(labels: LateLabels, scale: LossScale, *, is_covered: bool) -> tuple[float, float, float, float]:
    """Return the estimate, the ends of its interval, and measured minus estimated error of the rows that have one."""
    sums = labels.sums
    # Losses of numbers have no upper limit, so there is no estimate where the reference has no rows.
    if not (is_covered or scale.is_of_classes):
        return (math.nan,) * 4
    totals = (
        *sums[[Sum.ESTIMATED, Sum.ESTIMATED_LOW, Sum.ESTIMATED_HIGH]],
        sums[Sum.LOSS_ESTIMATED] - sums[Sum.ESTIMATED],
    )
    estimated, low, high, excess = (_mean(each, sums[Sum.WEIGHT_ESTIMATED]) for each in totals)
    return estimated, low, high, excess


def _interval(labels: LateLabels, error: float, scale: LossScale) -> tuple[float, float]:
    """Return the ends of the interval of the measured error."""
    weight = float(labels.sums[Sum.WEIGHT])
    n_rows = weight**2 / labels.squares
    if scale.is_of_classes:
        low, high = wilson_interval(error, n_rows)
        return float(low), float(high)
    # Of few rows, the spread may still be hidden: it is assumed to be as large as the mean where there is only one.
    variance = scale.variance(error, labels.squared_losses / weight) + error**2 / n_rows
    half_width = _Z * math.sqrt(variance / n_rows)
    return max(0.0, error - half_width), error + half_width


def _stretches(labels: LateLabels, error: float, rounds: LabelledRounds, scale: LossScale) -> Stretches:
    """Compare labels and estimate in stretches; the losses of numbers are taken to spread as those of all labels."""
    variance = scale.variance(error, labels.squared_losses / float(labels.sums[Sum.WEIGHT]))
    return compare_stretches(rounds, scale, variance=variance, close=CLOSE * scale.one)


def alarm_height(share: float) -> float:
    """Return h of the CUSUM alarm: 8 if 1 % of the rows are labelled or fewer, 10 from 5 % on.

    Examples
    --------
    >>> alarm_height(0.001), alarm_height(0.5)
    (8.0, 10.0)
    """
    place = math.log(max(share, _LOW_SHARE) / _LOW_SHARE) / math.log(_HIGH_SHARE / _LOW_SHARE)
    return _LOW_HEIGHT + (_HIGH_HEIGHT - _LOW_HEIGHT) * min(1.0, place)


def _mean(total: float, weight: float) -> float:
    return float(total / weight) if weight else float("nan")


def _gap_standard_error(labels: LateLabels, scale: LossScale) -> float:
    """Return the standard error of the mean difference of losses on the rows that both were compared on."""
    weight = float(labels.sums[Sum.WEIGHT_FIXED])
    if not weight:
        return float("nan")
    n_rows = weight**2 / labels.squares_fixed
    gap = float(labels.sums[Sum.LOSS_COMPARED] - labels.sums[Sum.LOSS_FIXED]) / weight
    # Where the predictors agree on all rows, one more row could be the first on which they do not.
    smallest = 1.0 / n_rows if scale.is_of_classes else 0.0
    variance = max(float(labels.sums[Sum.SQUARED_DIFFERENCE]) / weight - gap**2, smallest)
    return math.sqrt(variance / n_rows)


def _concept_changed(*, has_unseen: bool, audit: Audit | None, is_covered: bool) -> str:
    if has_unseen:
        return "yes"
    # Of inputs that the reference does not have, it says nothing about P(y | x): errors there may be those of a model
    # that has never seen such rows.
    if audit is None or audit.n_rows < FEWEST_TO_CONTRADICT or not is_covered:
        return "not known"
    if not audit.concept_changed:
        return "no"
    return "yes" if audit.observed > audit.estimate_high else "not known"
