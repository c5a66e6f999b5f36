r"""Shrinkage of the weights: the fewer effective rows the weights leave, the more the fit also counts the others.

The predictor is fitted with

.. math:: w' = \frac{n_\text{eff}\, w + n_0\, b}{n_\text{eff} + n_0}

where w are the importance weights, b the base weights and :math:`n_\text{eff}` the effective sample size of w. The
strength :math:`n_0` is 12, 48 or 192. It is chosen by the mean of 1 - p(y), or the loss of a predicted number, on the
weighted, cross-fitted reference. A
larger one has to be better by one standard error. With fewer than 60 effective rows it is the other way round: the
largest is taken that is not worse than the best by more than one standard error. Estimates of the error keep w.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.classifier.erm import WeightedErm
from accous.classifier.task import Task
from accous.core.kernels_rows import effective_rows
from accous.diagnostics.losses import effective_sample_size
from accous.diagnostics.risk import mean_and_error

__all__ = ["FIRST_STRENGTH", "Fit", "choose_strength", "is_choice_due", "shrink"]

STRENGTHS = (12.0, 48.0, 192.0)
FIRST_STRENGTH = STRENGTHS[0]
# With more effective rows the strength hardly matters.
_MOST_EFFECTIVE_ROWS = 400.0
# With fewer, weighting harms more often than it helps, and no comparison can tell.
_FEW_EFFECTIVE_ROWS = 60.0


class Fit(NamedTuple):
    """A predictor, the weights it was fitted with, and the round of that fit."""

    estimator: Any
    weights: FloatArray
    n_refits: int
    last_refit: int


def shrink(weights: FloatArray, base: FloatArray, strength: float) -> FloatArray:
    """Return the weights moved towards the base weights.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.classifier.shrinkage import shrink
    >>> shrink(np.array([2.0, 0.0, 2.0, 0.0]), np.ones(4), 2.0).tolist()
    [1.5, 0.5, 1.5, 0.5]
    """
    n_effective = effective_rows(weights)
    share = n_effective / (n_effective + strength)
    return share * weights + (1.0 - share) * base


def is_choice_due(erm: WeightedErm, weights: FloatArray) -> bool:
    """Whether the strength matters and can be chosen at the price of a few rounds."""
    return erm.is_quick_to_cross_fit and effective_sample_size(weights) < _MOST_EFFECTIVE_ROWS


def choose_strength(
    erm: WeightedErm,
    task: Task,
    weights: FloatArray,
    base: FloatArray,
    fitted: tuple[float, Fit],
    this_round: int,
) -> tuple[float, Fit]:
    """Return the strength to use, and the fit with it.

    Parameters
    ----------
    erm : WeightedErm
    task : Task
    weights, base : arrays of shape (n_reference,)
        Current importance weights, and base weights.
    fitted : tuple
        The strength in use, and the latest fit.
    this_round : int
    """
    current, latest = fitted
    fits, losses = [], []
    for strength in STRENGTHS:
        is_fresh = strength == current and latest.last_refit == this_round
        fit = latest if is_fresh else _refit(erm, shrink(weights, base, strength), latest, this_round)
        found = task.losses_of_fit(erm, fit.weights, fit.estimator)
        if found is None:
            return fitted
        fits.append((strength, fit))
        losses.append(found)
    return fits[_choose(losses, weights)]


def _choose(losses: list[FloatArray], weights: FloatArray) -> int:
    """Return the number of the strength to use, given the losses of the rows with each."""
    if effective_sample_size(weights) >= _FEW_EFFECTIVE_ROWS:
        chosen = 0
        for number in range(1, len(losses)):
            gain, standard_error = mean_and_error(losses[chosen] - losses[number], weights)
            chosen = number if gain > standard_error else chosen
        return chosen
    best = chosen = int(np.argmin([mean_and_error(each, weights)[0] for each in losses]))
    for number in range(best + 1, len(losses)):
        excess, standard_error = mean_and_error(losses[number] - losses[best], weights)
        chosen = number if excess <= standard_error else chosen
    return chosen


def _refit(erm: WeightedErm, weights: FloatArray, latest: Fit, this_round: int) -> Fit:
    # A round counts as one refit, however often it fits.
    n_refits = latest.n_refits + (latest.last_refit != this_round)
    return Fit(erm.fit(weights, latest.estimator), weights, n_refits, this_round)
