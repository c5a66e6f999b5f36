"""Losses of predictions, and effective sample sizes of weights."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.kernels_rows import effective_rows, total_variation
from accous.exceptions import ParameterError

# --- Losses of predicted numbers, one value per row


_LARGEST_RESIDUAL = 1e150  # its square is a number


@dataclass(frozen=True)
class NumberLoss:
    """A loss of predicted numbers.

    Attributes
    ----------
    name : {"squared", "absolute", "pinball"}
    quantile : float
        q of the pinball loss; the other two do not use it.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.losses import ABSOLUTE, SQUARED, pinball
    >>> y, predicted = np.array([1.0, 4.0]), np.array([2.0, 2.0])
    >>> SQUARED(y, predicted), ABSOLUTE(y, predicted), pinball(0.9)(y, predicted).round(3)
    (array([1., 4.]), array([1., 2.]), array([0.1, 1.8]))
    """

    name: str
    quantile: float = 0.5

    def __call__(self, y: FloatArray, predicted: FloatArray) -> FloatArray:
        """Return the loss of each row."""
        residuals = np.clip(y - predicted, -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)
        if self.name == "squared":
            return np.square(residuals)
        if self.name == "absolute":
            return np.abs(residuals)
        return np.maximum(self.quantile * residuals, (self.quantile - 1.0) * residuals)

    def __str__(self) -> str:
        """Return the loss as `read_loss` reads it."""
        return f"pinball({self.quantile:g})" if self.name == "pinball" else self.name


SQUARED, ABSOLUTE = NumberLoss("squared"), NumberLoss("absolute")


def pinball(quantile: float) -> NumberLoss:
    """Return the pinball loss of a quantile above 0 and below 1."""
    if not 0.0 < quantile < 1.0:
        raise ParameterError(f"The quantile of the pinball loss must be above 0 and below 1, got {quantile!r}.")
    return NumberLoss("pinball", float(quantile))


def read_loss(loss: str | NumberLoss) -> NumberLoss:
    """Return the loss of a name: "squared", "absolute", or "pinball(q)" with a quantile q.

    Examples
    --------
    >>> from accous.diagnostics.losses import read_loss
    >>> read_loss("pinball(0.9)")
    NumberLoss(name='pinball', quantile=0.9)
    """
    if isinstance(loss, NumberLoss):
        return loss
    if loss in ("squared", "absolute"):
        return NumberLoss(loss)
    found = re.fullmatch(r"pinball\((0?\.\d+)\)", loss) if isinstance(loss, str) else None
    if found is None:
        raise ParameterError(f"loss must be 'squared', 'absolute' or 'pinball(q)' with q below 1, got {loss!r}.")
    return pinball(float(found.group(1)))


# --- Importance weights: how far they moved, and how many effective rows they leave


def effective_sample_size(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2` (Kish).

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.losses import effective_sample_size
    >>> effective_sample_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    return float(effective_rows(np.ascontiguousarray(weights, dtype=np.float64)))


def weight_distance(weights: FloatArray, others: FloatArray) -> float:
    r"""Total variation between two weightings of the same rows, :math:`\tfrac12 \sum |p_i - q_i|`, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.losses import weight_distance
    >>> weight_distance(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    0.5
    """
    first, second = np.ascontiguousarray(weights, dtype=np.float64), np.ascontiguousarray(others, dtype=np.float64)
    return float(total_variation(first, second))
