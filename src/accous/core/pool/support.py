r"""Whether the reference supports the pooled ratio: where it does not, the pool is held back.

If a ratio r describes the stream, its rows are distributed as r times the reference. So the mean of log r over the rows
of the stream equals

.. math:: \operatorname{KL}_0(r) = \operatorname*{mean}_{S_0} r \log r .

A stream that leaves the reference has rows where the reference has none. Every ratio that grows in that direction
explains them, and the few reference rows on that side get all the weight: the mean of log r over the stream is then
far above its value over the reference. A stream inside the reference can be above it by half a unit or so, while the
pool hedges. `hold_for` turns the excess, smoothed with a half-life of 16 rounds, into a share between 0 and 1.
"""

from __future__ import annotations

import numpy as np

from accous.core.pool.memory import LONGEST_LOOK, Look

__all__ = ["excess_after", "hold_for"]

_NO_HOLD, _FULL_HOLD = 0.6, 0.8
_SMALLEST_RATIO = 1e-12


def excess_after(excess: float, look: Look) -> float:
    """Return the smoothed excess after a look, given its means."""
    divergence = float((look.ratios * np.log(np.maximum(look.ratios, _SMALLEST_RATIO))).mean())
    smoothing = 1.0 - 0.5 ** (look.n_rounds / LONGEST_LOOK)
    return excess + smoothing * (look.log_likelihood - divergence - excess)


def hold_for(excess: float) -> float:
    """Return how far to hold the pool back: 0 up to an excess of 0.6, and 1 from 0.8 on.

    Examples
    --------
    >>> from accous.core.pool.support import hold_for
    >>> hold_for(0.3), round(hold_for(0.7), 12), hold_for(2.0)
    (0.0, 0.5, 1.0)
    """
    return min(max((excess - _NO_HOLD) / (_FULL_HOLD - _NO_HOLD), 0.0), 1.0)
