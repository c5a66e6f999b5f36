"""Label-free estimates of current errors: the errors on the reference, weighted to match the current inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray

__all__ = ["LEVEL", "WIDEST", "RiskEstimate", "error_difference", "error_interval", "mean_and_error", "weighted_error"]

LEVEL = 0.9
# An interval with a larger half-width says nothing.
WIDEST = 0.25
_SPREADS = 2.25


@dataclass(frozen=True, kw_only=True)
class RiskEstimate:
    """Estimated current errors, each with an interval.

    Attributes
    ----------
    adapted, adapted_low, adapted_high : float
        Error of the predictor in use, which is the fixed one while the adaptation is held back; NaN if a class has too
        few rows to leave any out.
    fixed, fixed_low, fixed_high : float
        Error of the fixed predictor, which ``fit`` made and which never adapts.
    level : float
        Nominal coverage of both intervals.
    """

    adapted: float
    adapted_low: float
    adapted_high: float
    fixed: float
    fixed_low: float
    fixed_high: float
    level: float = LEVEL

    @property
    def is_known(self) -> bool:
        """Whether the interval of the predictor in use reaches at most 25 points either side on average."""
        return (self.adapted_high - self.adapted_low) / 2.0 <= WIDEST

    def __str__(self) -> str:
        """Return both estimates in sentences."""
        in_use = _in_words(self.adapted, self.adapted_low, self.adapted_high)
        fixed = _in_words(self.fixed, self.fixed_low, self.fixed_high)
        return (
            f"The estimated error of the predictor in use is {in_use}. That of the fixed model is {fixed}. "
            f"Nominal coverage of the intervals: {self.level:.0%}."
        )


def weighted_error(is_wrong: NDArray[np.bool_], weights: FloatArray) -> float:
    r"""Self-normalised importance-weighted error, :math:`\sum_i w_i 1[\hat y_i \ne y_i] / \sum_i w_i`.

    ``is_wrong`` should come from models that were fitted without the row they are scored on.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.risk import weighted_error
    >>> weighted_error(np.array([True, False, False]), np.array([2.0, 1.0, 1.0]))
    0.5
    """
    return float(weights[is_wrong].sum() / weights.sum())


def error_difference(
    is_wrong: NDArray[np.bool_], is_wrong_otherwise: NDArray[np.bool_], weights: FloatArray
) -> tuple[float, float]:
    r"""Weighted error of one predictor minus that of another, and its standard error by the delta method.

    Let :math:`d_i` in {-1, 0, 1} be the difference between the two on row i, and q the weights divided by their sum:

    .. math:: D = \sum_i q_i d_i, \qquad \mathrm{se}^2 = \sum_i q_i^2 (d_i - D)^2 .

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.risk import error_difference
    >>> difference, error = error_difference(np.array([True, False]), np.array([False, False]), np.ones(2))
    >>> difference, round(error, 4)
    (0.5, 0.3536)
    """
    return mean_and_error(is_wrong.astype(np.float64) - is_wrong_otherwise, weights)


def error_interval(
    is_wrong: NDArray[np.bool_], weights: FloatArray, learner_weights: FloatArray, learner_shares: FloatArray
) -> tuple[float, float, float]:
    r"""Weighted error with an interval of nominal coverage 90 %.

    The half-width is the sum of the uncertainty of the reference and the uncertainty of the ratio:

    .. math:: z_{0.95} \, \mathrm{se} + 2.25 \, \mathrm{sd}_p(R_1, \dots, R_K) .

    The first term comes from the delta method. The second is the spread, under the meta weights p, of the estimates
    :math:`R_k` that each active learner's ratio gives on its own. Learners of different intervals disagree just after
    the stream has moved.

    Parameters
    ----------
    is_wrong : array of shape (n_reference,)
    weights : array of shape (n_reference,)
    learner_weights : array of shape (n_learners, n_reference)
        Importance weights from each learner's ratio; has no rows if there are no learners.
    learner_shares : array of shape (n_learners,)
        The meta weights p.

    Returns
    -------
    tuple of float
        Estimate, lower and upper end.
    """
    estimate, standard_error = mean_and_error(is_wrong.astype(np.float64), weights)
    half_width = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL) * standard_error
    if len(learner_shares):
        by_learner = (learner_weights @ is_wrong) / learner_weights.sum(axis=1)
        centre = learner_shares @ by_learner
        half_width += _SPREADS * math.sqrt(max(0.0, float(learner_shares @ (by_learner - centre) ** 2)))
    return estimate, max(0.0, estimate - half_width), min(1.0, estimate + half_width)


def _in_words(error: float, low: float, high: float) -> str:
    if math.isnan(error):
        return "not known"
    return f"{error:.1%}" + ("" if math.isnan(low) else f" (between {low:.1%} and {high:.1%})")


def mean_and_error(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the weighted mean of some values, and its standard error by the delta method."""
    shares = weights / weights.sum()
    mean = float(shares @ values)
    deviations = shares * (values - mean)
    return mean, math.sqrt(float(deviations @ deviations))
