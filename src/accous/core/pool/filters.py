r"""Filters over the candidates of a pool: Bayes' rule for candidates that switch, and for mixtures of them.

A density ratio with mean 1 over the reference is the likelihood of a row, relative to the reference's density. Each
filter predicts proportions Q of the candidates before it sees a batch. The filters are mixed by the likelihoods of
their predictions, with a share of 0.005 for all of them in every round.

- A *switching* filter assumes that one candidate holds at a time and changes with probability s per round (fixed share,
  Herbster and Warmuth 1998): the posterior is multiplied by the likelihoods, then mixed with a share s of the prior.
- A *decayed* filter counts the responsibilities of the candidates for past rows, with a half-life in rounds. It follows
  mixtures of candidates.

Likelihoods are :math:`0.99\, r(x) + 0.01`, so that no single row can rule a candidate out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from accous.arrays import BoolArray, FloatArray
from accous.core.fast.kernels_pool import filter_batch
from accous.core.pool.shapes import N_SHAPES

__all__ = ["Filters", "cautious_prior", "prior_of", "start_filters"]

SWITCHING = 1.0 / np.array((32.0, 128.0, 512.0))
DECAYS = 0.5 ** (1.0 / np.array((16.0, 64.0)))
FLOOR = 0.01
FILTER_SHARE = 0.005
PRIOR_COUNT = 1.0
_PRIOR_OF_ONE = 0.5
_N_CAUTIOUS = 3


@dataclass(frozen=True, slots=True)
class Filters:
    """The state of all filters.

    Attributes
    ----------
    weights : array of shape (5,)
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

    def after_batch(
        self,
        prior: FloatArray,
        ratios: FloatArray,
        shapes: tuple[FloatArray, FloatArray],
        slots: tuple[FloatArray, FloatArray],
        given: FloatArray,
    ) -> tuple[Self, float]:
        """Return the filters after a batch, and its mean log likelihood under their prediction before it.

        Parameters
        ----------
        prior : array of shape (n_candidates,)
        ratios : array of shape (n_batch,)
            The ratio whose shapes are candidates.
        shapes : tuple of arrays of shape (n_shapes,)
            Where each shape is cut, and its mean over the reference.
        slots : tuple of arrays
            Ratios at the theta of each slot, (n_slots, n_batch), and what the slot multiplies the shapes by.
        given : array of shape (n_given, n_batch)
            Ratios of the given candidates.
        """
        weights, posteriors = np.empty(len(self.weights)), np.empty(self.posteriors.shape)
        counts, proportions, room = np.empty(self.counts.shape), np.empty(len(prior)), np.empty(len(prior))
        log_likelihood: float = filter_batch(
            ratios,
            slots[0],
            given,
            *shapes,
            slots[1],
            prior,
            self.weights,
            self.posteriors,
            self.counts,
            self.proportions,
            SWITCHING,
            DECAYS,
            FLOOR,
            FILTER_SHARE,
            PRIOR_COUNT,
            np.empty((len(ratios), len(prior))),
            room,
            weights,
            posteriors,
            counts,
            proportions,
        )
        return type(self)(weights, posteriors, counts, proportions), log_likelihood

    def without(self, candidate: int, prior: FloatArray) -> Self:
        """Return the filters with no mass on one candidate: the others take it, in proportion."""
        posteriors, counts = self.posteriors.copy(), self.counts.copy()
        posteriors[:, candidate] = counts[:, candidate] = 0.0
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        return type(self)(self.weights, posteriors, counts, _mix(self.weights, posteriors, counts, prior))


def start_filters(prior: FloatArray) -> Filters:
    """Return filters that have seen nothing and predict the prior."""
    n_filters = len(SWITCHING) + len(DECAYS)
    weights = np.full(n_filters, 1.0 / n_filters)
    posteriors = np.tile(prior, (len(SWITCHING), 1))
    counts = np.zeros((len(DECAYS), len(prior)))
    return Filters(weights, posteriors, counts, _mix(weights, posteriors, counts, prior))


def prior_of(is_used: BoolArray, n_given: int = 0) -> FloatArray:
    """Return the prior: half on ratio 1, the rest equally on the shapes, the slots in use and the given candidates.

    Parameters
    ----------
    is_used : array of shape (n_slots,)
        Which slots hold a ratio.
    n_given : int
        Number of given candidates. A group that is empty takes no part.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.pool.filters import prior_of
    >>> prior = prior_of(np.array([True, False]))
    >>> float(prior[0]), round(float(prior[1:-2].sum()), 12), prior[-2:].tolist()
    (0.5, 0.25, [0.25, 0.0])
    """
    n_used = int(is_used.sum())
    rest = 1.0 - _PRIOR_OF_ONE
    of_group = rest / (1 + (n_used > 0) + (n_given > 0))
    n_others = N_SHAPES + len(is_used)
    prior = np.zeros(n_others + n_given)
    prior[0] = _PRIOR_OF_ONE
    prior[1:N_SHAPES] = of_group / (N_SHAPES - 1)
    prior[N_SHAPES:n_others][is_used] = of_group / max(n_used, 1)
    prior[n_others:] = of_group / max(n_given, 1)
    return prior


def cautious_prior(n_others: int) -> FloatArray:
    r"""Return a prior on 1, :math:`\sqrt r` and r alone: filters that start from it never leave these."""
    prior = np.zeros(N_SHAPES + n_others)
    prior[0] = _PRIOR_OF_ONE
    prior[1:_N_CAUTIOUS] = (1.0 - _PRIOR_OF_ONE) / (_N_CAUTIOUS - 1)
    return prior


def _mix(weights: FloatArray, posteriors: FloatArray, counts: FloatArray, prior: FloatArray) -> FloatArray:
    """Return what all filters together predict."""
    decayed = counts + PRIOR_COUNT * prior
    decayed /= decayed.sum(axis=1, keepdims=True)
    return np.asarray(weights @ np.concatenate((posteriors, decayed)))
