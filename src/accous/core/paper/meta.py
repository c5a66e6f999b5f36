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
from typing import Any, Protocol, Self

import numpy as np

from accous.arrays import FloatArray

__all__ = ["ADAPT_ML_PROD", "AdaptMLProd", "MetaLearner", "MetaRecord", "MetaState"]

_SMALLEST_FACTOR = 1e-300


class MetaRecord(Protocol):
    """What a meta-learner knows of each learner, in the order of the learners, the youngest first."""

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""

    def after(self, younger: Any) -> Self:
        """Return ``younger`` followed by these learners."""


class MetaLearner(Protocol):
    """How the learners of a round are weighted by how well they did.

    A meta-learner of your own has these three methods and a record of its own; `accous.core.rounds.choose_rounds` takes
    it.
    """

    def start(self, n_learners: int, n_intervals: int) -> MetaRecord:
        """Return the record of new learners; ``n_intervals`` is K."""

    def step(self, meta: Any, margins: FloatArray, n_intervals: int) -> MetaRecord:
        """Return the record after one round's margins, which lie in [-2, 2]."""

    def weights(self, meta: Any) -> FloatArray:
        """Return the weights of the learners, summing to 1."""


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


@dataclass(frozen=True, slots=True)
class AdaptMLProd:
    """The paper's meta-learner."""

    def start(self, n_learners: int, n_intervals: int) -> MetaState:
        """Return new learners with v = 1/K, epsilon = min(1/2, sqrt(ln K))."""
        log_count = math.log(n_intervals)
        return MetaState(
            log_potentials=np.full(n_learners, -log_count),
            rates=np.full(n_learners, min(0.5, math.sqrt(log_count))),
            squares=np.zeros(n_learners),
        )

    def step(self, meta: MetaState, margins: FloatArray, n_intervals: int) -> MetaState:
        """Update potentials and rates by one round's margins, which must lie in [-2, 2]."""
        squares = meta.squares + margins * margins
        rates = np.minimum(0.5, np.sqrt(math.log(n_intervals) / (1.0 + squares)))
        # A margin of -2 at rate 1/2 makes the factor 0: the floor keeps log v finite, the learner can still recover.
        # Departs from the paper: it keeps v itself, which under- and overflows on long streams.
        gains = np.log(np.maximum(1.0 + meta.rates * margins, _SMALLEST_FACTOR))
        log_potentials = (rates / meta.rates) * (meta.log_potentials + gains)
        return MetaState(log_potentials, rates, squares)

    def weights(self, meta: MetaState) -> FloatArray:
        """Weights p of the learners, summing to 1."""
        logits = np.log(meta.rates) + meta.log_potentials
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())


ADAPT_ML_PROD = AdaptMLProd()
