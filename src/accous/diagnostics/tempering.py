r"""Tempering: how far a ratio estimate may be believed, judged by its own past.

The observed loss of the tempered ratio :math:`r^\tau` in a round, before anything is learned from its batch, is

.. math:: \ell_t(\tau) = \operatorname*{mean}_{S_0} \log(1 + r_t^\tau)
          + \operatorname*{mean}_{S_t} \log(1 + r_t^{-\tau}),

twice the paper's logistic loss. Neither term needs a label. The exponent in use is the one of 0, 1/2, 1 with the
smallest sum of past losses, discounted with a half-life of 64 rounds: where the stream stands still, every ratio but 1
does worse than 1, and the exponent is 0; where it has moved, the estimate does better than 1, and the exponent is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_tempering import EXPONENTS, discount_losses, reference_terms

__all__ = ["EXPONENTS", "HALF_LIFE", "Tempering", "start_tempering", "temper"]

HALF_LIFE = 64
_DECAY = 0.5 ** (1.0 / HALF_LIFE)


@dataclass(frozen=True, slots=True)
class Tempering:
    """What is known of every exponent.

    Attributes
    ----------
    losses : array of shape (3,)
        Discounted losses of the rounds so far.
    reference_terms : array of shape (3,)
        The reference's part of the loss of the round to come.
    exponent : float
        The one in use.
    """

    losses: FloatArray
    reference_terms: FloatArray
    exponent: float

    def after_round(self, batch_ratios: FloatArray, reference_ratios: FloatArray, max_ratio: float) -> Tempering:
        """Count the loss of a round and prepare for the next.

        Parameters
        ----------
        batch_ratios : array of shape (n_batch,)
            Ratios that the batch had before anything was learned from it.
        reference_ratios : array of shape (n_reference,)
            Ratios for the round to come.
        max_ratio : float
            What larger ones count as, and its inverse what lower ones of the batch do.
        """
        losses, terms = np.empty(len(EXPONENTS)), np.empty(len(EXPONENTS))
        best = discount_losses(self.losses, self.reference_terms, batch_ratios, 1.0 / max_ratio, _DECAY, losses)
        reference_terms(reference_ratios, max_ratio, terms)
        return Tempering(losses, terms, EXPONENTS[best])


def start_tempering() -> Tempering:
    """No loss yet and a ratio of 1, whose powers are all the same."""
    return Tempering(np.zeros(len(EXPONENTS)), np.full(len(EXPONENTS), np.log(2.0)), 0.0)


def temper(ratios: FloatArray, exponent: float) -> FloatArray:
    """Ratios to the power of one of the exponents."""
    if exponent == 1.0:
        return ratios
    if exponent == 0.0:
        return np.ones_like(ratios)
    return np.sqrt(ratios)
