r"""Weights of a mixture by maximum likelihood, to a certified accuracy: the problem inside KLIEP.

.. math::
    \max_\beta \; \operatorname*{mean}_j \log \sum_l A_{jl} \beta_l
    \quad\text{subject to}\quad \beta \ge 0, \; \sum_l \beta_l = 1

By Newton's method: each step maximises the quadratic model of the objective over all weights there can be, which is
exact about weights that are held at 0.
"""

from __future__ import annotations

import numpy as np

from accous.core.arrays import FloatArray
from accous.core.box_qp import BoxProblem, DenseMatrix, solve_box_qp

__all__ = ["fit_mixture_weights", "likelihood_gap"]

_MAX_STEPS = 200
_MAX_HALVINGS = 30


def likelihood_gap(likelihoods: FloatArray, weights: FloatArray) -> float:
    r"""How far the mean log likelihood can at most be below its maximum.

    By concavity it is :math:`\max_l \mathrm{mean}_j A_{jl} / p_j - 1` with p the mixture.
    """
    return float((likelihoods.T @ (1.0 / (likelihoods @ weights))).max() / len(likelihoods) - 1.0)


def fit_mixture_weights(likelihoods: FloatArray, tolerance: float) -> FloatArray:
    """Maximise until the gap to the maximum is below the tolerance.

    Parameters
    ----------
    likelihoods : array of shape (n_rows, n_components)
        A, non-negative; every row has a positive entry. A row may be scaled at will.
    tolerance : float
        In units of the mean log likelihood.

    Returns
    -------
    array of shape (n_components,)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.mixture import fit_mixture_weights
    >>> fit_mixture_weights(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 1e-12).round(6)
    array([0.333333, 0.666667])
    """
    n_components = likelihoods.shape[1]
    weights = np.full(n_components, 1.0 / n_components)
    for _ in range(_MAX_STEPS):
        mixture = likelihoods @ weights
        scaled = likelihoods / mixture[:, None]
        slopes = scaled.mean(axis=0)
        if slopes.max() - 1.0 <= tolerance:
            break
        direction = _newton_goal(scaled, slopes, weights, tolerance) - weights
        stepped = _search(likelihoods, weights, mixture, direction, float(slopes @ direction))
        # The multiplicative step of the EM algorithm always rises, if slowly.
        weights = weights * slopes if stepped is None else np.maximum(stepped, 0.0)
        weights = weights / weights.sum()
    return weights


def _newton_goal(scaled: FloatArray, slopes: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray:
    """Maximise the quadratic model of the likelihood at the weights, over all weights there can be."""
    hessian = (scaled.T @ scaled) / len(scaled)
    ridge = 1e-10 * float(hessian.diagonal().max())
    # The model's slope at the weights is the slopes themselves, since the Hessian times the weights gives them too.
    problem = BoxProblem(DenseMatrix(hessian), 2.0 * slopes + ridge * weights, ridge, 1.0, 1.0)
    return solve_box_qp(problem, weights, 0.1 * tolerance)[0]


def _search(
    likelihoods: FloatArray, weights: FloatArray, mixture: FloatArray, direction: FloatArray, rise: float
) -> FloatArray | None:
    """Go along the direction as far as the likelihood rises enough; None if it does not."""
    value, size = np.log(mixture).mean(), 1.0
    for _ in range(_MAX_HALVINGS):
        trial = weights + size * direction
        trial_mixture = likelihoods @ trial
        if trial_mixture.min() > 0.0 and np.log(trial_mixture).mean() >= value + 1e-4 * size * rise:
            return trial
        size *= 0.5
    return None
