r"""From ratios to importance weights: how much of a ratio to use, how far weights moved, how many rows they leave.

Tempering decides how much of a ratio estimate to use, by its past losses. The observed loss of the tempered ratio
:math:`r^\tau` in a round, before the estimator learns from the batch, is

.. math:: \ell_t(\tau) = \operatorname*{mean}_{S_0} \log(1 + r_t^\tau)
          + \operatorname*{mean}_{S_t} \log(1 + r_t^{-\tau}),

twice the paper's logistic loss. Neither term needs a label. The exponent in use is the one of 0, 1/2, 1 with the
smallest sum of past losses, discounted with a half-life of 64 rounds. While the stream does not move, every ratio does
worse than ratio 1, and the exponent is 0. When it has moved, the estimate does better than ratio 1, and the exponent
is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_weights import EXPONENTS, discount_losses, reference_terms

__all__ = [
    "EXPONENTS",
    "HALF_LIFE",
    "Tempering",
    "effective_sample_size",
    "start_tempering",
    "temper",
    "weight_distance",
]

HALF_LIFE = 64
_DECAY = 0.5 ** (1.0 / HALF_LIFE)


@dataclass(frozen=True, slots=True)
class Tempering:
    """The past losses of every exponent.

    Attributes
    ----------
    losses : array of shape (3,)
        Discounted losses of the rounds so far.
    reference_terms : array of shape (3,)
        The reference's part of the loss of the next round.
    exponent : float
        The exponent in use.
    """

    losses: FloatArray
    reference_terms: FloatArray
    exponent: float

    def after_round(self, batch_ratios: FloatArray, reference_ratios: FloatArray, max_ratio: float) -> Tempering:
        """Return the state after adding the loss of a round and preparing the next.

        Parameters
        ----------
        batch_ratios : array of shape (n_batch,)
            Ratios of the batch before the estimator learned from it.
        reference_ratios : array of shape (n_reference,)
            Ratios of the reference for the next round.
        max_ratio : float
            Larger ratios count as this value. Batch ratios below its inverse count as its inverse.
        """
        losses, terms = np.empty(len(EXPONENTS)), np.empty(len(EXPONENTS))
        best = discount_losses(self.losses, self.reference_terms, batch_ratios, 1.0 / max_ratio, _DECAY, losses)
        reference_terms(reference_ratios, max_ratio, terms)
        return Tempering(losses, terms, EXPONENTS[best])


def start_tempering() -> Tempering:
    """Return a state with no losses and a ratio of 1, whose powers are all equal."""
    return Tempering(np.zeros(len(EXPONENTS)), np.full(len(EXPONENTS), np.log(2.0)), 0.0)


def temper(ratios: FloatArray, exponent: float) -> FloatArray:
    """Raise ratios to the power of one of the exponents."""
    if exponent == 1.0:
        return ratios
    if exponent == 0.0:
        return np.ones_like(ratios)
    return np.sqrt(ratios)


def effective_sample_size(weights: FloatArray) -> float:
    r"""Number of equally weighted rows with the same variance, :math:`(\sum w)^2 / \sum w^2` (Kish).

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.weights import effective_sample_size
    >>> effective_sample_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    shares = weights / weights.max()  # squares and sums of these neither overflow nor underflow
    return float(shares.sum() ** 2 / (shares @ shares))


def weight_distance(weights: FloatArray, others: FloatArray) -> float:
    r"""Total variation between two weightings of the same rows, :math:`\tfrac12 \sum |p_i - q_i|`, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.weights import weight_distance
    >>> weight_distance(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    0.5
    """
    return float(0.5 * np.abs(weights / weights.sum() - others / others.sum()).sum())
