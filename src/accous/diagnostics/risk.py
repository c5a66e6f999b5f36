"""A label-free estimate of the current error: the reference's own errors, weighted like the current inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accous.core.arrays import FloatArray

__all__ = ["weighted_error"]


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
