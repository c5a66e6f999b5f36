"""The interval of a share that was counted."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from accous.arrays import FloatArray
from accous.diagnostics.risk import LEVEL

__all__ = ["wilson_interval"]


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
