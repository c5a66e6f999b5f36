r"""Shapes of a ratio: powers of it, cut at several heights.

A log-linear ratio grows without bound, but the ratio of a mixture saturates: where the reference holds a share
:math:`1 - \alpha_0` of a part, the ratio of that part is at most :math:`1 / (1 - \alpha_0)`. The shapes are

.. math:: \min(r^\tau, c), \qquad (\tau, c) \in \{(0, 1), (\tfrac12, M), (1, M)\} \cup \{1, 2, 4\} \times \{3, 10, 30\}

with M the largest ratio allowed. The first one is the ratio 1.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray

__all__ = ["EXPONENTS", "N_SHAPES", "shape_cuts"]

EXPONENTS = (0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0)
N_SHAPES = len(EXPONENTS)
_CUTS = (3.0, 10.0, 30.0)


def shape_cuts(max_ratio: float) -> FloatArray:
    """Return where each shape is cut, given the largest ratio allowed.

    Examples
    --------
    >>> from accous.core.pool.shapes import shape_cuts
    >>> shape_cuts(100.0).tolist()
    [1.0, 100.0, 100.0, 3.0, 10.0, 30.0, 3.0, 10.0, 30.0, 3.0, 10.0, 30.0]
    """
    cuts = np.array((1.0, max_ratio, max_ratio, *_CUTS * 3))
    return np.minimum(cuts, max_ratio)
