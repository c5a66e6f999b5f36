r"""The meta-learner, Adapt-ML-Prod, in log space (Algorithm 2).

With margins :math:`m_{t,i}` (how much better learner i did than the ensemble, scaled),

.. math::
    \epsilon_{t,i} = \min\Big\{\tfrac12, \sqrt{\ln K \big/ \big(1 + \textstyle\sum_\tau m_{\tau,i}^2\big)}\Big\}, \qquad
    v_{t,i} = \big(v_{t-1,i} (1 + \epsilon_{t-1,i} m_{t,i})\big)^{\epsilon_{t,i} / \epsilon_{t-1,i}}, \qquad
    p_{t+1,i} \propto \epsilon_{t,i} v_{t,i} .
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accous.core.arrays import FloatArray
from accous.core.kernels_learners import combine_learners, update_meta

__all__ = ["MetaState", "combine", "meta_step", "meta_weights", "start_meta"]


@dataclass(frozen=True, slots=True)
class MetaState:
    """What Adapt-ML-Prod knows of each learner.

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
    """Update potentials and rates by one round's margins, which must lie in [-2, 2]."""
    # Departs from the paper: it keeps v itself, which under- and overflows on long streams. A margin of -2 at rate 1/2
    # makes v's factor 0; a floor under it keeps log v finite, and the learner can still recover.
    updated = MetaState(np.empty(len(margins)), np.empty(len(margins)), np.empty(len(margins)))
    update_meta(
        meta.log_potentials,
        meta.rates,
        meta.squares,
        np.ascontiguousarray(margins),
        math.log(n_intervals),
        updated.log_potentials,
        updated.rates,
        updated.squares,
    )
    return updated


def combine(meta: MetaState, coefs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights p of the learners, summing to 1, and the mean of their thetas under p."""
    weights, coef = np.empty(coefs.shape[0]), np.empty(coefs.shape[1])
    combine_learners(meta.log_potentials, meta.rates, coefs, weights, coef)
    return weights, coef


def meta_weights(meta: MetaState) -> FloatArray:
    """Weights p of the learners, summing to 1."""
    return combine(meta, np.empty((len(meta.rates), 0)))[0]
