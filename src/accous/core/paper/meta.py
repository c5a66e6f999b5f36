r"""The meta-learner, Adapt-ML-Prod, in log space (Algorithm 2).

The margin :math:`m_{t,i}` says how much better learner i did than the ensemble, scaled:

.. math::
    \epsilon_{t,i} = \min\Big\{\tfrac12, \sqrt{\ln K \big/ \big(1 + \textstyle\sum_\tau m_{\tau,i}^2\big)}\Big\}, \qquad
    v_{t,i} = \big(v_{t-1,i} (1 + \epsilon_{t-1,i} m_{t,i})\big)^{\epsilon_{t,i} / \epsilon_{t-1,i}}, \qquad
    p_{t+1,i} \propto \epsilon_{t,i} v_{t,i} .
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray

__all__ = ["MetaState", "meta_step", "meta_weights", "start_meta"]

_SMALLEST_FACTOR = 1e-300


@dataclass(frozen=True, slots=True)
class MetaState:
    """The state of Adapt-ML-Prod for each learner.

    Attributes
    ----------
    log_potentials : array of shape (n_learners,)
        log v.
    rates : array of shape (n_learners,)
        epsilon.
    squares : array of shape (n_learners,)
        Sum of the squared margins since the learner started.
    """

    log_potentials: FloatArray
    rates: FloatArray
    squares: FloatArray

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three arrays, in the order of the constructor."""
        return self.log_potentials, self.rates, self.squares

    def since(self, first: int) -> MetaState:
        """Return the learners from position ``first`` on."""
        return MetaState(self.log_potentials[first:], self.rates[first:], self.squares[first:])

    def after(self, younger: MetaState) -> MetaState:
        """Return ``younger`` followed by these learners."""
        return MetaState(
            np.concatenate((younger.log_potentials, self.log_potentials)),
            np.concatenate((younger.rates, self.rates)),
            np.concatenate((younger.squares, self.squares)),
        )


def start_meta(n_learners: int, n_intervals: int) -> MetaState:
    """Return new learners with v = 1/K, epsilon = min(1/2, sqrt(ln K))."""
    log_count = math.log(n_intervals)
    return MetaState(
        log_potentials=np.full(n_learners, -log_count),
        rates=np.full(n_learners, min(0.5, math.sqrt(log_count))),
        squares=np.zeros(n_learners),
    )


def meta_step(meta: MetaState, margins: FloatArray, n_intervals: int) -> MetaState:
    """Update potentials and rates with one round's margins, which must lie in [-2, 2]."""
    squares = meta.squares + margins * margins
    rates = np.minimum(0.5, np.sqrt(math.log(n_intervals) / (1.0 + squares)))
    # A margin of -2 at rate 1/2 makes the factor 0. The floor keeps log v finite, so the learner can recover.
    # Departs from the paper: it keeps v itself, which underflows or overflows on long streams.
    gains = np.log(np.maximum(1.0 + meta.rates * margins, _SMALLEST_FACTOR))
    log_potentials = (rates / meta.rates) * (meta.log_potentials + gains)
    return MetaState(log_potentials, rates, squares)


def meta_weights(meta: MetaState) -> FloatArray:
    """Return the weights p of the learners; they sum to 1."""
    logits = np.log(meta.rates) + meta.log_potentials
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())
