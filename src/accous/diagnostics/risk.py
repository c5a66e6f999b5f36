"""Label-free estimates of current errors: the reference's own errors, weighted like the current inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray

__all__ = ["LEVEL", "RiskEstimate", "error_difference", "error_interval", "weighted_error"]

LEVEL = 0.9
_SPREADS = 2.25


@dataclass(frozen=True, kw_only=True)
class RiskEstimate:
    """Estimated current errors, each with an interval.

    Attributes
    ----------
    adapted, adapted_low, adapted_high : float
        Error of the predictor in use; NaN where no fit without a row can be had.
    fixed, fixed_low, fixed_high : float
        Error of the predictor that never adapts, as ``fit`` made it.
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


def weighted_error(is_wrong: NDArray[np.bool_], weights: FloatArray) -> float:
    r"""Self-normalised importance-weighted error, :math:`\sum_i w_i 1[\hat y_i \ne y_i] / \sum_i w_i`.

    ``is_wrong`` should come from predictions that did not see the row they are scored on.

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

    With :math:`d_i` in {-1, 0, 1}, the difference of the two on row i, and q the weights over their sum,

    .. math:: D = \sum_i q_i d_i, \qquad \mathrm{se}^2 = \sum_i q_i^2 (d_i - D)^2 .

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.risk import error_difference
    >>> difference, error = error_difference(np.array([True, False]), np.array([False, False]), np.ones(2))
    >>> difference, round(error, 4)
    (0.5, 0.3536)
    """
    return _mean_and_error(is_wrong.astype(np.float64) - is_wrong_otherwise, weights)


def error_interval(
    is_wrong: NDArray[np.bool_], weights: FloatArray, learner_weights: FloatArray, learner_shares: FloatArray
) -> tuple[float, float, float]:
    r"""Weighted error with an interval of nominal coverage 90 %.

    The half-width adds what the reference leaves open to what the ratio leaves open:

    .. math:: z_{0.95} \, \mathrm{se} + 2.25 \, \mathrm{sd}_p(R_1, \dots, R_K),

    the first by the delta method, the second from the estimates :math:`R_k` that each active learner's ratio gives on
    its own, under the meta weights p. Learners of different intervals disagree where the stream has just moved.

    Parameters
    ----------
    is_wrong : array of shape (n_reference,)
    weights : array of shape (n_reference,)
    learner_weights : array of shape (n_learners, n_reference)
        Importance weights by each learner's ratio; no rows where there are no learners.
    learner_shares : array of shape (n_learners,)
        p.

    Returns
    -------
    tuple of float
        Estimate, lower and upper end.
    """
    estimate, standard_error = _mean_and_error(is_wrong.astype(np.float64), weights)
    half_width = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL) * standard_error
    if len(learner_shares):
        by_learner = (learner_weights @ is_wrong) / learner_weights.sum(axis=1)
        centre = learner_shares @ by_learner
        half_width += _SPREADS * math.sqrt(max(0.0, float(learner_shares @ (by_learner - centre) ** 2)))
    return estimate, max(0.0, estimate - half_width), min(1.0, estimate + half_width)


def _mean_and_error(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    shares = weights / weights.sum()
    mean = float(shares @ values)
    deviations = shares * (values - mean)
    return mean, math.sqrt(float(deviations @ deviations))
