"""The interval of a share that was counted."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.risk import LEVEL

__all__ = ["share_interval"]


def share_interval(
    counts: NDArray[np.float64], totals: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of Wilson's 90 % interval of shares, as if the rows were independent.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = share_interval(np.array([0.0, 20.0]), np.array([10.0, 100.0]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.142], [0.213, 0.274])
    """
    z = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL)
    shares = counts / totals
    scale = 1.0 + z * z / totals
    middle = (shares + 0.5 * z * z / totals) / scale
    half = z * np.sqrt(shares * (1.0 - shares) / totals + 0.25 * (z / totals) ** 2) / scale
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
