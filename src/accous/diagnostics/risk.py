"""Label-free estimates of current risks: the losses on the reference, weighted to match the current inputs.

The loss of a class is 0 or 1, so its risk is the error. Losses of numbers are in `accous.diagnostics.losses`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from accous.arrays import FloatArray
from accous.diagnostics.loss_scale import ERROR
from accous.diagnostics.measured_words import NOT_COVERED, unknown_in_words
from accous.diagnostics.weights import effective_sample_size
from accous.text import count

__all__ = [
    "LEVEL",
    "WIDEST",
    "RiskEstimate",
    "is_telling",
    "loss_difference",
    "loss_interval",
    "mean_and_error",
    "weighted_loss",
]

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
