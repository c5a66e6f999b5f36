"""Losses of predictions, their scale in words, and effective sample sizes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accous.arrays import FloatArray
from accous.core.kernels_rows import effective_rows, total_variation
from accous.exceptions import ParameterError

if TYPE_CHECKING:
    from accous.diagnostics.labels import MeasuredError


# --- Losses of predicted numbers, one value per row


_LARGEST_RESIDUAL = 1e150  # its square is a number


@dataclass(frozen=True)
class NumberLoss:
    """A loss of predicted numbers.

    Attributes
    ----------
    name : {"squared", "absolute", "pinball"}
    quantile : float
        q of the pinball loss; the other two do not use it.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.losses import ABSOLUTE, SQUARED, pinball
    >>> y, predicted = np.array([1.0, 4.0]), np.array([2.0, 2.0])
    >>> SQUARED(y, predicted), ABSOLUTE(y, predicted), pinball(0.9)(y, predicted).round(3)
    (array([1., 4.]), array([1., 2.]), array([0.1, 1.8]))
    """

    name: str
    quantile: float = 0.5

    def __call__(self, y: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return the loss of each row."""
        residuals = np.clip(y - predicted, -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)
        if self.name == "squared":
            return np.square(residuals)
        if self.name == "absolute":
            return np.abs(residuals)
        return np.maximum(self.quantile * residuals, (self.quantile - 1.0) * residuals)

    def __str__(self) -> str:
        """Return the loss as `read_loss` reads it."""
        return f"pinball({self.quantile:g})" if self.name == "pinball" else self.name


SQUARED, ABSOLUTE = NumberLoss("squared"), NumberLoss("absolute")


def pinball(quantile: float) -> NumberLoss:
    """Return the pinball loss of a quantile above 0 and below 1."""
    if not 0.0 < quantile < 1.0:
        raise ParameterError(f"The quantile of the pinball loss must be above 0 and below 1, got {quantile!r}.")
    return NumberLoss("pinball", float(quantile))


def read_loss(loss: str | NumberLoss) -> NumberLoss:
    """Return the loss of a name: "squared", "absolute", or "pinball(q)" with a quantile q.

    Examples
    --------
    >>> from accous.diagnostics.losses import read_loss
    >>> read_loss("pinball(0.9)")
    NumberLoss(name='pinball', quantile=0.9)
    """
    if isinstance(loss, NumberLoss):
        return loss
    if loss in ("squared", "absolute"):
        return NumberLoss(loss)
    found = re.fullmatch(r"pinball\((0?\.\d+)\)", loss) if isinstance(loss, str) else None
    if found is None:
        raise ParameterError(f"loss must be 'squared', 'absolute' or 'pinball(q)' with q below 1, got {loss!r}.")
    return pinball(float(found.group(1)))


# --- The scale of a loss: what counts as a point, and how a mean loss is written


ERROR = "error"
_LOSSES_IN_ONE = 4.0
# Of the target's spread. A model may be perfect on the reference.
_SMALLEST_SHARE = 1e-6
# Of a constant target, whose spread is 0: shares of it can still be computed.
_SMALLEST = 1e-300
_HUGE = 1e7


@dataclass(frozen=True)
class LossScale:
    """What mean losses are compared with.

    Attributes
    ----------
    loss : str
        "error" for classes, or the name of a loss of numbers, such as "absolute".
    one : float
        The loss that counts as 1, that is, as 100 points.

    Examples
    --------
    >>> from accous.diagnostics.losses import ERRORS, LossScale
    >>> ERRORS.shown(0.125), ERRORS.difference(0.02)
    ('12.5%', '2.0 points')
    >>> minutes = LossScale("absolute", one=20.0)
    >>> minutes.name, minutes.shown(6.04), minutes.difference(1.0)
    ('mean absolute error', '6.04', '1')
    >>> minutes.shown(1087.4)
    '1,087'
    """

    loss: str = ERROR
    one: float = 1.0

    @property
    def is_of_classes(self) -> bool:
        """Whether the loss is the error of classes."""
        return self.loss == ERROR

    @property
    def is_of_constant(self) -> bool:
        """Whether the target is constant on the reference: then nothing says how large a loss is."""
        return self.one <= _LOSSES_IN_ONE * _SMALLEST

    @property
    def largest(self) -> float:
        """The largest loss there is."""
        return 1.0 if self.is_of_classes else math.inf

    @property
    def name(self) -> str:
        """What the mean loss is called where it is shown."""
        names = {ERROR: ERROR, "absolute": "mean absolute error", "squared": "root mean squared error"}
        return names.get(self.loss, f"mean {self.loss} loss")

    def in_unit(self, loss: float) -> float:
        """Return a mean loss as it is shown: that of squares as its root, in the unit of the target."""
        return math.sqrt(max(0.0, loss)) if self.loss == "squared" else loss

    def shown(self, loss: float) -> str:
        """Return a mean loss in words."""
        return f"{loss:.1%}" if self.is_of_classes else _three_digits(self.in_unit(loss))

    def difference(self, losses: float, digits: int = 1) -> str:
        """Return the size of a difference of mean losses in words; of squared losses, as a share of the reference's."""
        if self.is_of_classes:
            return f"{100.0 * losses:.{digits}f} points"
        if self.loss == "squared":
            return f"{losses * _LOSSES_IN_ONE / self.one:.0%} of the mean squared error on the reference"
        return _three_digits(losses)

    def variance(self, loss: float, squared_losses: float) -> float:
        """Return the variance of the loss of one row, given the means of the losses and of their squares."""
        if self.is_of_classes:
            return loss * (1.0 - loss)
        return max(0.0, squared_losses - loss**2)


def _three_digits(number: float) -> str:
    """Return a number with three digits at least, and without an exponent if it is neither tiny nor huge."""
    return f"{number:,.0f}" if 999.5 <= abs(number) < _HUGE else f"{number:.3g}"


ERRORS = LossScale()


def scale_of_numbers(loss: str, of_reference: float, of_constant: float) -> LossScale:
    """Return the scale of a loss of numbers.

    Parameters
    ----------
    loss : str
    of_reference : float
        Mean loss of the fixed model on the reference, from fits without the row; NaN if it is not known.
    of_constant : float
        Mean loss of the best constant there, which is the spread of the target.
    """
    smallest = max(_SMALLEST_SHARE * of_constant, _SMALLEST)
    known = of_constant if math.isnan(of_reference) else of_reference
    return LossScale(loss, _LOSSES_IN_ONE * max(known, smallest))


# --- Importance weights: how far they moved, and how many effective rows they leave


def effective_sample_size(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2` (Kish).

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.losses import effective_sample_size
    >>> effective_sample_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    return float(effective_rows(np.ascontiguousarray(weights, dtype=np.float64)))


def weight_distance(weights: FloatArray, others: FloatArray) -> float:
    r"""Total variation between two weightings of the same rows, :math:`\tfrac12 \sum |p_i - q_i|`, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.losses import weight_distance
    >>> weight_distance(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    0.5
    """
    first, second = np.ascontiguousarray(weights, dtype=np.float64), np.ascontiguousarray(others, dtype=np.float64)
    return float(total_variation(first, second))


# --- What labels that arrived late say about the estimated error, in words


LABEL_HALF_LIFE = 500
"""Labelled rows after which a label counts half."""

CLOSE = 0.05
"""How far from the estimate a measured error may be to count as close."""

CONCEPT_CHANGED = (
    "By the latest labels, P(y | x) seems to have changed: only new labels in the reference can correct that."
)
NOT_COVERED = "the reference does not cover the inputs"
_MOST_CLASSES = 5
_BESIDE = "and the measured error lies outside of its interval, though the two intervals overlap"
_LIKELY = "that the reference makes likely"
_OUTDATED = "this is about predictions from before the last rows joined the reference"


def labels_in_words(n_labelled: int) -> str:
    """Return what a measured error rests on: labels that count the less, the more were given after them."""
    return "1 label" if n_labelled == 1 else f"{n_labelled:,} labels (those given last count most)"


def counted_in_words(n_labelled: int, n_plain: int, error_plain: float | None, scale: LossScale) -> str:
    """Return how labels count in a measured error, and the plain mean beside it, if it is known.

    Parameters
    ----------
    n_labelled, n_plain : int
        Labelled rows so far, and those since rows last joined the reference.
    error_plain : float, optional
        The plain mean over the latter.
    scale : LossScale

    Examples
    --------
    >>> from accous.diagnostics.losses import ERRORS
    >>> counted_in_words(3_000, 3_000, 0.352, ERRORS)
    'by 3,000 labels (a label counts half after 500 more); 35.2% over all of them'
    >>> print(counted_in_words(3_000, 1_000, float("nan"), ERRORS))
    by 3,000 labels (a label counts half after 500 more, and those from before rows joined the reference hardly count)
    """
    if n_labelled == 1:
        return "by 1 label"
    earlier = "" if n_plain == n_labelled else ", and those from before rows joined the reference hardly count"
    text = f"by {n_labelled:,} labels (a label counts half after {LABEL_HALF_LIFE} more{earlier})"
    if error_plain is None or math.isnan(error_plain):
        return text
    which = "all of them" if n_plain == n_labelled else f"the {n_plain:,} since rows joined the reference"
    return f"{text}; {scale.shown(error_plain)} over {which}"


def interval_in_words(low: float, high: float, scale: LossScale) -> str:
    """Return the ends of an interval; a loss of numbers may have no upper end.

    Examples
    --------
    >>> from accous.diagnostics.losses import ERRORS, LossScale
    >>> interval_in_words(0.1, 0.25, ERRORS), interval_in_words(2.0, float("inf"), LossScale("absolute"))
    ('10.0% to 25.0%', 'at least 2')
    """
    return f"{scale.shown(low)} to {scale.shown(high)}" if math.isfinite(high) else f"at least {scale.shown(low)}"


def estimate_in_words(found: MeasuredError) -> str:
    """Return the estimate for the labelled rows, with its interval."""
    if not found.is_covered:
        return f"not known: {NOT_COVERED}"
    if math.isnan(found.estimated):
        return "unknown"
    interval = interval_in_words(found.estimated_low, found.estimated_high, found.scale)
    shown = found.scale.shown(found.estimated) if found.is_estimate_known else "not known"
    return f"{shown} ({interval}), without labels"


def comparison_in_words(found: MeasuredError) -> str:
    """Say how the measured error lies beside the estimate."""
    if math.isnan(found.estimated) or found.is_outdated:
        later = f"{_OUTDATED}: at least 20 labels for later ones are needed to judge the estimate of now."
        return later if found.is_outdated else f"there is nothing to compare with{_moves(found)}."
    if found.is_few:
        return "these are too few labels to compare them."
    if found.contradicts and not found.is_inside:
        return f"{_on_average(found)}{_apart(found)}: {_reliable(found)}."
    if found.is_exact and found.is_off:
        return f"{_far_inside(found)}: {_reliable(found)}."
    if found.is_alarmed:
        likely = "estimated" if found.is_estimate_known else f"the {found.scale.shown(found.estimated)} {_LIKELY}"
        return f"the predictions with the labels given last were far worse than {likely}: {_reliable(found)}."
    return _agreement(found) if found.is_covered else f"{_reliable(found)}."


def _agreement(found: MeasuredError) -> str:
    agree = "they do not contradict each other"
    if not found.is_estimate_known:
        agree = "the labels do not contradict this interval"
    if found.stretches.disagree:
        latest = f" Besides, {latest_in_words(found)}." if found.latest.is_apart else ""
        return f"on average {agree}, but {stretches_in_words(found)}{latest}"
    return f"on average {agree}, but {latest_in_words(found)}." if found.latest.is_apart else f"{agree}."


def latest_in_words(found: MeasuredError) -> str:
    """Say what the latest labels say, where the measured error lags behind them."""
    return f"the {found.scale.name} moves: the latest {found.latest.n_rows} labels say {_latest(found)}"


def _on_average(found: MeasuredError) -> str:
    """Say that it is the mean over the labels that contradicts, where the printed interval is wider than its own."""
    return "on average " if found.latest.is_apart else ""


def _moves(found: MeasuredError) -> str:
    return f"; {latest_in_words(found)}" if found.latest.is_apart else ""


def _reliable(found: MeasuredError) -> str:
    """Say which of the labels to rely on."""
    if not found.latest.is_apart:
        return "rely on the measured error"
    which = f"the latest {found.latest.n_rows} labels, which say {_latest(found)}"
    return f"rely on {which}, because the {found.scale.name} moves"


def _latest(found: MeasuredError) -> str:
    latest, scale = found.latest, found.scale
    return f"{scale.shown(latest.error)} ({interval_in_words(latest.error_low, latest.error_high, scale)})"


def stretches_in_words(found: MeasuredError) -> str:
    """Say in how many stretches labels and estimate are apart."""
    which, close = found.stretches, found.scale.difference(CLOSE * found.scale.one, digits=0)
    return (
        f"in {which.n_apart} of {which.n_stretches} stretches of at least {which.shortest:,} labels they are apart: "
        f"the labels lie outside of the estimate's interval, or more than {close} from it."
    )


def _apart(found: MeasuredError) -> str:
    """Say that labels contradict the estimate; where it is too wide to be shown, that its interval fails."""
    if found.is_estimate_known:
        return "they contradict each other"
    if not found.is_covered:
        interval = interval_in_words(found.estimated_low, found.estimated_high, found.scale)
        return f"labels contradict the {interval} {_LIKELY}"
    return "labels contradict even the interval of the estimate, wide as it is"


def _far_inside(found: MeasuredError) -> str:
    """Say how far the measured error is from the estimate, and how it lies beside the interval of that."""
    size, is_above = found.scale.difference(abs(found.excess)), found.excess > 0.0
    if found.is_estimate_known:
        beside = "but its interval holds" if found.is_within else _BESIDE
        return f"the estimate is {size} too {'low' if is_above else 'high'}, {beside}"
    side, likely = "above" if is_above else "below", found.scale.shown(found.estimated)
    wide = ""
    if found.is_covered:
        wide = ", though not the interval" if found.is_within else ", and lie just outside of the interval"
        wide += ", which is too wide to show an estimate"
    return f"labels contradict the {likely} {_LIKELY} ({size} {side} it){wide}"


def sentence_of(found: MeasuredError) -> str:
    """Return the whole result."""
    scale = found.scale
    interval = interval_in_words(found.error_low, found.error_high, scale)
    parts = [f"By {labels_in_words(found.n_labelled)}, the {scale.name} is {scale.shown(found.error)} ({interval})"]
    if math.isnan(found.estimated):
        why = "" if found.is_covered else f"{NOT_COVERED}, so "
        parts.append(f"{why}there is no estimate without labels to compare it with{_moves(found)}.")
    else:
        parts += [f"the estimate for these rows is {estimate_in_words(found)}", comparison_in_words(found)]
    text = "; ".join(parts)
    if found.is_outdated and math.isnan(found.estimated):
        text += f" {_OUTDATED.capitalize()}."
    return " ".join(filter(None, (text, _unseen_classes(found), found.concept_sentence)))


def _unseen_classes(found: MeasuredError) -> str:
    if not found.unseen_classes:
        return ""
    names = sorted(found.unseen_classes.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name!r} ({count:,})" for name, count in names[:_MOST_CLASSES])
    more = f" and {len(names) - _MOST_CLASSES} more" if len(names) > _MOST_CLASSES else ""
    return f"Some labels are classes that the reference does not have: {listed}{more}."


def unknown_in_words(low: str, high: str | None) -> str:
    """Return what can be said of an estimate whose interval is too wide: its ends, given in words.

    Parameters
    ----------
    low : str
    high : str, optional
        None if there is no upper end.

    Examples
    --------
    >>> from accous.diagnostics.losses import unknown_in_words
    >>> unknown_in_words("0%", "64%"), unknown_in_words("12.1", None)
    ('not known: anywhere between 0% and 64%', 'not known: at least 12.1')
    """
    return f"not known: at least {low}" if high is None else f"not known: anywhere between {low} and {high}"
