r"""Filters over the candidates of a pool: Bayes' rule for candidates that switch, and for mixtures of them.

A density ratio with mean 1 over the reference is the likelihood of a row relative to the reference's density. Each
filter predicts proportions Q of the candidates before it sees a batch, and the filters are themselves mixed by the
likelihoods of their predictions.

- A *switching* filter assumes that one candidate holds at a time and changes with probability s per round (fixed share,
  Herbster and Warmuth 1998): the posterior is multiplied by the likelihoods, then mixed with a share s of the prior.
- A *decayed* filter estimates proportions by counting the responsibilities of the candidates for past rows, with a
  half-life in rounds: it follows mixtures.

Likelihoods are :math:`0.99\, r(x) + 0.01`, so that no single row can rule a candidate out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.core.pool.shapes import N_SHAPES

__all__ = ["DECAYS", "FILTER_SHARE", "FLOOR", "PRIOR_COUNT", "SWITCHING", "Filters", "prior_of", "start_filters"]

import os
SWITCHING = 1.0 / np.array(eval(os.environ.get("ACC_SW", "(32.0, 128.0, 512.0)")))
DECAYS = 0.5 ** (1.0 / np.array(eval(os.environ.get("ACC_HL", "(16.0, 64.0)"))))
FLOOR = 0.01
FILTER_SHARE = 0.005
PRIOR_COUNT = 1.0
_PRIOR_OF_ONE = 0.5


@dataclass(frozen=True, slots=True)
class Filters:
    """The state of all filters.

    Attributes
    ----------
    weights : array of shape (n_filters,)
        Share of each filter, switching ones first.
    posteriors : array of shape (3, n_candidates)
        What each switching filter predicts.
    counts : array of shape (2, n_candidates)
        Responsibilities that each decayed filter has counted.
    proportions : array of shape (n_candidates,)
        What all of them together predict for the next round.
    """

    weights: FloatArray
    posteriors: FloatArray
    counts: FloatArray
    proportions: FloatArray

    def without(self, candidate: int, prior: FloatArray) -> Self:
        """Return the filters with no mass on one candidate; it goes to the others in proportion."""
        posteriors, counts = self.posteriors.copy(), self.counts.copy()
        posteriors[:, candidate] = counts[:, candidate] = 0.0
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        return type(self)(self.weights, posteriors, counts, mixed_proportions(self.weights, posteriors, counts, prior))


def prior_of(is_used: NDArray[np.bool_]) -> FloatArray:
    """Return the prior: half on ratio 1, the rest on the shapes, or half on them and half on the slots in use.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.pool.filters import prior_of
    >>> prior = prior_of(np.array([True, False]))
    >>> prior[0], prior[1:-2].sum(), prior[-2:].tolist()
    (0.5, 0.25, [0.25, 0.0])
    """
    n_used = int(is_used.sum())
    rest = 1.0 - _PRIOR_OF_ONE
    of_shapes = rest / 2.0 if n_used else rest
    prior = np.zeros(N_SHAPES + len(is_used))
    prior[0] = _PRIOR_OF_ONE
    prior[1:N_SHAPES] = of_shapes / (N_SHAPES - 1)
    prior[N_SHAPES:][is_used] = (rest - of_shapes) / max(n_used, 1)
    return prior


def start_filters(prior: FloatArray) -> Filters:
    """Return filters that have seen nothing: all of them predict the ratio 1."""
    n_filters = len(SWITCHING) + len(DECAYS)
    certain = np.zeros((len(SWITCHING), len(prior)))
    certain[:] = prior
    counts = np.zeros((len(DECAYS), len(prior)))
    weights = np.full(n_filters, 1.0 / n_filters)
    return Filters(weights, certain, counts, mixed_proportions(weights, certain, counts, prior))


def mixed_proportions(
    weights: FloatArray, posteriors: FloatArray, counts: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return what all filters together predict."""
    decayed = counts + PRIOR_COUNT * prior
    decayed /= decayed.sum(axis=1, keepdims=True)
    return np.asarray(weights @ np.concatenate((posteriors, decayed)))
