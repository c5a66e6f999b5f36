r"""Shapes of a ratio: powers of it, cut at several heights.

A log-linear ratio grows without bound, but the ratio of a mixture saturates: where the reference holds a share
:math:`1 - \alpha_0` of a part, the ratio of that part is at most :math:`1 / (1 - \alpha_0)`. The shapes are

.. math:: \min(r^\tau, c), \qquad (\tau, c) \in \{(0, 1), (\tfrac12, M), (1, M)\} \cup \{1, 2, 4\} \times \{3, 10, 30\}

with M the largest ratio allowed, each divided by its mean over the reference. The first one is the ratio 1.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_pool import mix_shapes

__all__ = ["EXPONENTS", "N_SHAPES", "UNCUT", "mixed_shapes", "shape_cuts", "shape_values"]

EXPONENTS = (0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0)
N_SHAPES = len(EXPONENTS)
UNCUT = 1e30
"""Shapes cut a ratio themselves; they take it up to this value."""
_CUTS = (3.0, 10.0, 30.0)


def shape_cuts(max_ratio: float) -> FloatArray:
    """Return where each shape is cut, given the largest ratio allowed.

    Examples
    --------
    >>> from accous.core.pool.shapes import shape_cuts
    >>> shape_cuts(20.0).tolist()
    [1.0, 20.0, 20.0, 3.0, 10.0, 20.0, 3.0, 10.0, 20.0, 3.0, 10.0, 20.0]
    """
    return np.minimum((1.0, max_ratio, max_ratio, *_CUTS * 3), max_ratio)


def shape_values(ratios: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return all shapes of some ratios, (n_rows, n_shapes), not divided by their means."""
    with np.errstate(over="ignore"):
        return np.minimum(ratios[:, None] ** np.array(EXPONENTS), cuts)


def mixed_shapes(ratios: FloatArray, cuts: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a mixture of the shapes of the reference's ratios, and the mean of each shape.

    Parameters
    ----------
    ratios : array of shape (n_reference,)
    cuts, shares : arrays of shape (n_shapes,)
    """
    means, mixed = np.empty(N_SHAPES), np.empty(len(ratios))
    mix_shapes(ratios, cuts, shares, means, mixed)
    return mixed, means
