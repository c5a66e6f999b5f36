"""The error on the latest labels alone, which tells whether the measured error still holds.

The measured error is a mean in which a label counts half after 500 more, and its interval takes all labels for labels
of one constant error. Where the error moves, the mean lags behind. So the last 200 losses are kept, and if their mean
is more than two standard errors away from it, the latest labels count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.loss_scale import LossScale
from accous.diagnostics.risk import LEVEL
from accous.diagnostics.shares import wilson_interval

__all__ = ["UNKNOWN", "LatestError", "keep_latest", "measure_latest"]

_N_LATEST = 200
_FEWEST_LABELS = 2 * _N_LATEST  # of fewer, the latest are the larger part
_STANDARD_ERRORS = 2.0
_ROUNDING = 1e-6
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)


@dataclass(frozen=True)
class LatestError:
    """The mean loss of the latest labels.

    Attributes
    ----------
    n_rows : int
        How many labels these are; 0 if there are too few to tell them from the others.
    error, error_low, error_high : float
        Their mean and its 90 % interval, as if the rows were independent.
    is_apart : bool
        Whether the mean is more than two standard errors away from the measured error.
    """

    n_rows: int = 0
    error: float = math.nan
    error_low: float = math.nan
    error_high: float = math.nan
    is_apart: bool = False


UNKNOWN = LatestError()


def keep_latest(losses: FloatArray, new: FloatArray) -> FloatArray:
    """Return the last 200 losses."""
    # A copy: a view would keep all the losses in memory.
    return np.concatenate((losses, new[-_N_LATEST:]))[-_N_LATEST:].copy()


def measure_latest(losses: FloatArray, n_labelled: int, error: float, scale: LossScale) -> LatestError:
    """Compare the latest losses with the measured error.

    Parameters
    ----------
    losses : array of shape (n_rows,)
        As `keep_latest` returns them.
    n_labelled : int
        Labels in the measured error.
    error : float
        The measured error.
    scale : LossScale

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.loss_scale import ERRORS
    >>> found = measure_latest(np.repeat([0.0, 1.0], [160, 40]), 870, 0.301, ERRORS)
    >>> found.n_rows, found.error, found.is_apart
    (200, 0.2, True)
    """
    if n_labelled < _FEWEST_LABELS or len(losses) < _N_LATEST:
        return UNKNOWN
    n_rows, mean = len(losses), float(losses.mean())
    if scale.is_of_classes:
        # One more error and one more right answer: no errors at all do not show that there are none.
        share = (float(losses.sum()) + 1.0) / (n_rows + 2.0)
        standard_error = math.sqrt(share * (1.0 - share) / n_rows)
        low, high = (float(end) for end in wilson_interval(mean, n_rows))
    else:
        # Of losses that are all the same, rounding would count as a difference.
        standard_error = max(float(losses.std()), _ROUNDING * scale.one) / math.sqrt(n_rows)
        low, high = max(0.0, mean - _Z * standard_error), mean + _Z * standard_error
    return LatestError(n_rows, mean, low, high, abs(mean - error) > _STANDARD_ERRORS * standard_error)
