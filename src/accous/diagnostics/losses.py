"""Losses of predictions, their scale in words, effective sample sizes, and which labels conform to the reference."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.kernels_weights import average, effective_rows, total_variation
from accous.exceptions import ParameterError

# --- Losses of predictions, and effective sample sizes of weights


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


# --- Importance weights: how far they moved, and how many effective rows they leave


def effective_sample_size(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2` (Kish).

    Examples
    --------
    >>> import numpy as np
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


# --- Mean losses on the reference, weighted to match the current inputs


def weighted_loss(losses: FloatArray, weights: FloatArray) -> float:
    r"""Self-normalised importance-weighted risk, :math:`\sum_i w_i \ell_i / \sum_i w_i`.

    Examples
    --------
    >>> import numpy as np
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


def mean_and_error(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the weighted mean of some values, and its standard error by the delta method."""
    found = np.empty(2)
    average(*(np.ascontiguousarray(each, dtype=np.float64) for each in (values, weights)), found)
    mean, squared_error = found.tolist()
    return mean, math.sqrt(squared_error)


# --- What mean losses are compared with: points of errors, or shares of a loss of numbers


ERROR = "error"
_LOSSES_IN_ONE = 4.0
# Of the target's spread. A model may be perfect on the reference.
_SMALLEST_SHARE = 1e-6
# Of a constant target, whose spread is 0: shares of it can still be computed.
_SMALLEST = 1e-300
_HUGE = 1e7


@dataclass(frozen=True)
class LossScale:
    """The unit in which mean losses are compared, and how they are written: it follows from a task and its losses.

    Attributes
    ----------
    loss : str
        "error" for classes, or the name of a loss of numbers, such as "absolute".
    one : float
        The loss that counts as 1, that is, as 100 points.

    Examples
    --------
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
    def is_share(self) -> bool:
        """Whether the loss is the share of wrong rows, which is written in per cent and points."""
        return self.loss == ERROR

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
        return f"{loss:.1%}" if self.is_share else _three_digits(self.in_unit(loss))

    def difference(self, losses: float, digits: int = 1) -> str:
        """Return the size of a difference of mean losses in words; of squared losses, as a share of the reference's."""
        if self.is_share:
            return f"{100.0 * losses:.{digits}f} points"
        if self.loss == "squared":
            return f"{losses * _LOSSES_IN_ONE / self.one:.0%} of the mean squared error on the reference"
        return _three_digits(losses)


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


# --- Prediction sets and intervals: what conforms to the reference, weighted to match the current inputs


def conformal_limits(
    scores: FloatArray, weights: FloatArray, row_weights: FloatArray, alpha: float, order: IntArray | None = None
) -> FloatArray:
    r"""Largest score that conforms, for each row (Tibshirani, Foygel Barber, Candes and Ramdas, 2019).

    The limit of row x is the smallest s with

    .. math:: \sum_{i: s_i \le s} w_i \;\ge\; (1 - \alpha) \Big( \sum_i w_i + w(x) \Big) .

    If there is no such s, the limit is infinite: the row weighs too much for the reference to exclude anything.

    Parameters
    ----------
    scores : array of shape (n_reference,)
        Nonconformity of each reference row to its label, from a fit without that row: one minus a probability, or the
        size of a residual.
    weights : array of shape (n_reference,)
    row_weights : array of shape (n_rows,)
        Weights on the same scale as those of the reference.
    alpha : float
        Share of rows whose true label may be outside.
    order : array of shape (n_reference,), optional
        That of the scores from the smallest on, equal ones as they stand, if it is known.

    Returns
    -------
    array of shape (n_rows,)
    """
    order = np.argsort(scores, kind="stable") if order is None else order
    reached = np.cumsum(weights[order])
    # Slightly less: a sum in another order may differ in the last bit.
    wanted = (1.0 - alpha) * (reached[-1] + row_weights) * (1.0 - 1e-12)
    places = np.searchsorted(reached, wanted)
    return np.asarray(np.append(scores[order], np.inf)[places])


# In labels, what the reference counts beside them; in rows of the stream, after how many a label counts half; and how
# far labels that came together move the level, by the share of them that was outside.
_REFERENCE_COUNTS, _HALF_LIFE, _RATE = 50.0, 2_000.0, 0.4
FEWEST_LATE, _MOST_LATE = 25, 2_000


def with_feedback(
    scores: FloatArray, weights: FloatArray, late: FloatArray, made_at: IntArray, came: IntArray, now: int, alpha: float
) -> tuple[FloatArray, FloatArray, float]:
    r"""Return scores, weights and level for `conformal_limits`, corrected by labels that came (Gibbs and Candes, 2021).

    Scores of labelled rows join those of the reference, which counts as 50 labels; they fade. The level starts at
    alpha, and labels that came together, at least 25, move it once by

    .. math:: \alpha_{t+1} = \alpha_s + 0.4 \, (\alpha - \text{share of their rows outside}) .

    :math:`\alpha_s` is the level that was in force when the rows were predicted, and a row is outside if the limit of
    then excludes it. That limit knew no label that came later; to judge late labels by it is what makes up for their
    delay, and to start from its level corrects an error once, however many labels were on their way (Weinberger and
    Ordentlich, 2002). So the share of labelled rows outside tends to alpha, unless the stream keeps going beyond all
    that was ever seen.

    Parameters
    ----------
    scores, weights : arrays of shape (n_reference,)
    late : array of shape (n_labels,)
        Scores of labelled rows, as they were predicted, in the order in which their labels came.
    made_at, came : array of shape (n_labels,)
        Rows of the stream when the row was predicted, and when its label came.
    now : int
        Rows of the stream.
    alpha : float

    Examples
    --------
    >>> import numpy as np
    >>> reference, late = np.linspace(0.0, 1.0, 100), np.random.default_rng(0).uniform(0.0, 3.0, 500)
    >>> times = 10 * np.arange(500)
    >>> found = with_feedback(reference, np.ones(100), late, times, times, 5_000, alpha=0.1)
    >>> print(conformal_limits(*found[:2], np.zeros(1), found[2]).round(1))
    [2.5]
    """
    late, made_at, came = late[-_MOST_LATE:], made_at[-_MOST_LATE:], came[-_MOST_LATE:]
    given = weights * (_REFERENCE_COUNTS / max(float(weights.sum()), 1e-300))
    ends, levels = _ends_of_batches(came), [alpha]
    for first, last in pairwise((0, *ends)):
        then = int(np.median(made_at[first:last]))
        # Of the batches before this one, those whose labels had come then.
        n_known = sum(int(came[end - 1]) <= then for end in ends[: len(levels) - 1])
        n_scores = ends[n_known - 1] if n_known else 0
        known = np.concatenate((scores, late[:n_scores]))
        order = np.argsort(known, kind="stable")
        counts = np.concatenate((given, _fading(then - came[:n_scores])))[order]
        shares = np.concatenate(([0.0], np.cumsum(counts) / counts.sum()))
        is_outside = shares[np.searchsorted(known[order], late[first:last])] >= 1.0 - levels[n_known]
        # Above 0: the largest score is the last limit, as an interval without ends would say nothing.
        levels.append(min(1.0, max(1e-9, levels[n_known] + _RATE * (alpha - float(is_outside.mean())))))
    return np.concatenate((scores, late)), np.concatenate((given, _fading(now - came))), levels[-1]


def _fading(ages: IntArray) -> FloatArray:
    return np.power(0.5, np.maximum(ages, 0) / _HALF_LIFE)


def _ends_of_batches(came: IntArray) -> list[int]:
    """Return where batches of labels end: those that came together, and at least 25."""
    ends: list[int] = []
    for end in [*(np.flatnonzero(np.diff(came)) + 1).tolist(), len(came)]:
        if end - sum(ends[-1:]) >= FEWEST_LATE or 0 < end == len(came):
            ends.append(end)
    return ends
