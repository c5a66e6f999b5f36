"""Importance weights: how far they moved, and how many effective rows they leave."""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray
from accous.core.kernels_rows import effective_rows, total_variation

__all__ = ["effective_sample_size", "weight_distance"]


def effective_sample_size(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2` (Kish).

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.weights import effective_sample_size
    >>> effective_sample_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    return float(effective_rows(np.ascontiguousarray(weights, dtype=np.float64)))


def weight_distance(weights: FloatArray, others: FloatArray) -> float:
    r"""Total variation between two weightings of the same rows, :math:`\tfrac12 \sum |p_i - q_i|`, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.weights import weight_distance
    >>> weight_distance(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    0.5
    """
    first, second = np.ascontiguousarray(weights, dtype=np.float64), np.ascontiguousarray(others, dtype=np.float64)
    return float(total_variation(first, second))
