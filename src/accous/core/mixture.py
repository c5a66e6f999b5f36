r"""Weights of a mixture by maximum likelihood, to a certified accuracy: the problem inside KLIEP.

.. math::
    \max_\beta \; \operatorname*{mean}_j \log \sum_l A_{jl} \beta_l
    \quad\text{subject to}\quad \beta \ge 0, \; \sum_l \beta_l = 1

The constraint on the sum can be traded for the penalty :math:`-\sum_l \beta_l`, whose optimum has sum 1 of itself; what
is left is smooth and convex with bounds only, for Newton's method on the weights that are not held at 0.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from accous.core.arrays import FloatArray

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
    n_rows, n_components = likelihoods.shape
    weights = np.full(n_components, 1.0 / n_components)
    for _ in range(_MAX_STEPS):
        mixture = likelihoods @ weights
        slopes = (likelihoods.T @ (1.0 / mixture)) / n_rows
        if slopes.max() - 1.0 <= tolerance:
            break
        stepped = _newton_step(likelihoods, weights, mixture, slopes)
        # The multiplicative step of the EM algorithm always rises, if slowly.
        weights = weights * slopes if stepped is None else stepped
        weights = weights / weights.sum()
    return weights


def _newton_step(
    likelihoods: FloatArray, weights: FloatArray, mixture: FloatArray, slopes: FloatArray
) -> FloatArray | None:
    """Newton's step on the weights that are positive or want to be, cut at 0; None if it does not rise."""
    is_free = (weights > 0.0) | (slopes > 1.0)
    scaled = likelihoods[:, is_free] / mixture[:, None]
    hessian = (scaled.T @ scaled) / len(likelihoods)
    diagonal = np.diag_indices_from(hessian)
    hessian[diagonal] += 1e-12 * hessian[diagonal].max()
    try:
        direction = cho_solve(cho_factor(hessian, check_finite=False), slopes[is_free] - 1.0, check_finite=False)
    except LinAlgError:
        return None
    value = _penalised(mixture, weights)
    size = 1.0
    for _ in range(_MAX_HALVINGS):
        trial = weights.copy()
        trial[is_free] = np.maximum(weights[is_free] + size * direction, 0.0)
        rise = (slopes - 1.0) @ (trial - weights)
        trial_mixture = likelihoods @ trial
        if rise > 0.0 and trial_mixture.min() > 0.0 and _penalised(trial_mixture, trial) >= value + 1e-4 * rise:
            return trial
        size *= 0.5
    return None


def _penalised(mixture: FloatArray, weights: FloatArray) -> float:
    return float(np.log(mixture).mean() - weights.sum())
