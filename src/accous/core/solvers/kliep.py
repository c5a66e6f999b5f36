r"""Weights of a mixture by maximum likelihood, to a certified accuracy: the problem inside KLIEP.

.. math::
    \max_\beta \; \operatorname*{mean}_j \log \sum_l A_{jl} \beta_l
    \quad\text{subject to}\quad \beta \ge 0, \; \sum_l \beta_l = 1

Compiled loops fit up to 100 components, many problems at once. With more, the solver uses Newton's method with weights
clipped at 0, as long as each step halves the distance to the maximum. If either does not succeed, the solver starts
again with steps that maximise the quadratic model of the objective over all allowed weights.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv

from accous.arrays import FloatArray
from accous.core.solvers.box_qp import BoxProblem, DenseMatrix, solve_box_qp

__all__ = ["fit_mixture_weights", "likelihood_gap"]

_MAX_COMPILED = 100
_MAX_STEPS = 200
_MAX_HALVINGS = 30


def likelihood_gap(likelihoods: FloatArray, weights: FloatArray) -> float:
    r"""Return a bound on how far the mean log likelihood is below its maximum.

    By concavity it is :math:`\max_l \mathrm{mean}_j A_{jl} / p_j - 1`, where p is the mixture.
    """
    return float((likelihoods.T @ (1.0 / (likelihoods @ weights))).max() / len(likelihoods) - 1.0)


def fit_mixture_weights(likelihoods: FloatArray, tolerance: float) -> FloatArray:
    """Maximise until the gap to the maximum is below the tolerance.

    Parameters
    ----------
    likelihoods : array of shape (..., n_rows, n_components)
        A, non-negative; every row has a positive entry. The scale of a row does not matter. The dimensions in front
        count problems.
    tolerance : float
        In units of the mean log likelihood.

    Returns
    -------
    array of shape (..., n_components)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.solvers.kliep import fit_mixture_weights
    >>> fit_mixture_weights(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 1e-12).round(6)
    array([0.333333, 0.666667])
    """
    problems = likelihoods.reshape(-1, *likelihoods.shape[-2:])
    fit = _fit_compiled if problems.shape[2] <= _MAX_COMPILED else _fit_plain
    return fit(problems, tolerance).reshape(likelihoods.shape[:-2] + likelihoods.shape[-1:])


def _fit_compiled(problems: FloatArray, tolerance: float) -> FloatArray:
    # Imported on first use: commands compile at their start what is imported by then, and few of them need this.
    from accous.core.fast.kernels_mixture import fit_mixtures

    n_problems, n_rows, n_components = problems.shape
    weights, gaps = np.empty((n_problems, n_components)), np.empty(n_problems)
    hessian, factor = np.empty((2, n_components, n_components))
    scaled, room = np.empty((n_rows, n_components)), np.empty((6, n_components))
    fit_mixtures(np.ascontiguousarray(problems), tolerance, scaled, hessian, factor, room, weights, gaps)
    # Written so that a gap that is not a number counts as too large.
    for i in np.flatnonzero(~(gaps <= tolerance)):
        weights[i] = _fit_surely(problems[i], np.full(n_components, 1.0 / n_components), tolerance)
    return weights


def _fit_plain(problems: FloatArray, tolerance: float) -> FloatArray:
    uniform = np.full(problems.shape[2], 1.0 / problems.shape[2])
    weights = np.empty((len(problems), len(uniform)))
    for i, likelihoods in enumerate(problems):
        quick = _fit_quickly(likelihoods, uniform, tolerance)
        weights[i] = _fit_surely(likelihoods, uniform, tolerance) if quick is None else quick
    return weights


def _fit_quickly(likelihoods: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray | None:
    """Fit by steps clipped at 0; return None as soon as a step does not halve the distance to the maximum."""
    gap = np.inf
    while True:
        scaled = likelihoods / (likelihoods @ weights)[:, None]
        slopes = scaled.mean(axis=0)
        last, gap = gap, slopes.max() - 1.0
        if gap <= tolerance:
            return weights
        stepped = _clipped_step(scaled, slopes, weights) if gap <= 0.5 * last else None
        if stepped is None:
            return None
        weights = stepped


def _fit_surely(likelihoods: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray:
    """Fit by steps that maximise the quadratic model of the objective over all allowed weights."""
    for _ in range(_MAX_STEPS):
        mixture = likelihoods @ weights
        scaled = likelihoods / mixture[:, None]
        slopes = scaled.mean(axis=0)
        if slopes.max() - 1.0 <= tolerance:
            break
        direction = _newton_goal(scaled, slopes, weights, tolerance) - weights
        stepped = _search(likelihoods, weights, mixture, direction, float(slopes @ direction))
        # The multiplicative step of the EM algorithm always increases the objective, though slowly.
        weights = weights * slopes if stepped is None else np.maximum(stepped, 0.0)
        weights = weights / weights.sum()
    return weights


def _clipped_step(scaled: FloatArray, slopes: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Make a Newton step on weights that are positive or should grow, clipped at 0: cheap and usually good enough."""
    is_free = (weights > 0.0) | (slopes > 1.0)
    free = scaled[:, is_free]
    hessian = (free.T @ free) / len(scaled)
    hessian.flat[:: len(hessian) + 1] += 1e-12 * hessian.max()
    _, direction, info = dposv(hessian, slopes[is_free] - 1.0)
    if info:
        return None
    stepped = np.zeros(len(weights))
    stepped[is_free] = np.maximum(weights[is_free] + direction, 0.0)
    total = stepped.sum()
    # Every row must keep some likelihood.
    return stepped / total if total > 0.0 and (scaled @ stepped).min() > 0.0 else None


def _newton_goal(scaled: FloatArray, slopes: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray:
    """Maximise the quadratic model of the likelihood at the weights, over all allowed weights."""
    hessian = (scaled.T @ scaled) / len(scaled)
    ridge = 1e-10 * float(hessian.diagonal().max())
    # The Hessian times the weights equals the slopes, so the linear term is twice the slopes.
    problem = BoxProblem(DenseMatrix(hessian), 2.0 * slopes + ridge * weights, ridge, 1.0, 1.0)
    return solve_box_qp(problem, weights, 0.1 * tolerance)[0]


def _search(
    likelihoods: FloatArray, weights: FloatArray, mixture: FloatArray, direction: FloatArray, rise: float
) -> FloatArray | None:
    """Move along the direction until the likelihood rises enough; return None if it does not."""
    value, size = np.log(mixture).mean(), 1.0
    for _ in range(_MAX_HALVINGS):
        trial = weights + size * direction
        trial_mixture = likelihoods @ trial
        if trial_mixture.min() > 0.0 and np.log(trial_mixture).mean() >= value + 1e-4 * size * rise:
            return trial
        size *= 0.5
    return None
