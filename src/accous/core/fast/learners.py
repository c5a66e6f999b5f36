"""Learners of few columns in one compiled loop: from the arrays of one state to those of the next."""

from __future__ import annotations

from typing import Self

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_learners import play_learners
from accous.core.paper.newton import Arrays, NewtonStack
from accous.core.paper.projection import project_onto_ball

__all__ = ["CompiledStack", "play_narrow"]


class CompiledStack(NewtonStack):
    """The same learners as `NewtonStack`, with a compiled step."""

    __slots__ = ()

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> Self:
        """Make one Newton step of learners without a meta-learner; see ``NewtonStack.step``."""
        n_learners, n_columns = self.coefs.shape
        ones, nothing = np.ones(n_learners), np.zeros((1, n_columns))
        new_arrays, *_ = play_narrow(
            nothing[0],
            np.concatenate((gradients, nothing)),
            (self.coefs, self.matrices, self.inverse_roots),
            (ones, ones, ones),
            step_size=step_size,
            radius=radius,
            margin_bound=np.inf,
            has_running_range=False,
            smallest_range=0.0,
            largest_margin=0.0,
            log_count=1.0,
        )
        return type(self)(*new_arrays)


def play_narrow(
    coef: FloatArray,
    gradients: FloatArray,
    stack: Arrays,
    meta: Arrays,
    *,
    step_size: float,
    radius: float,
    margin_bound: float,
    has_running_range: bool,
    smallest_range: float,
    largest_margin: float,
    log_count: float,
) -> tuple[Arrays, Arrays, FloatArray, FloatArray, float]:
    """Run one round of all learners.

    Parameters
    ----------
    coef : array of shape (d,)
        The ensemble's theta.
    gradients : array of shape (n_learners + 1, d)
        The gradient of each learner and, last, of the ensemble.
    stack : tuple of arrays
        As in ``NewtonStack``.
    meta : tuple of arrays
        As in ``MetaState``.
    step_size, radius, margin_bound, has_running_range : numbers
        As in ``EnsembleSettings``.
    smallest_range : float
        A running range below this value is only rounding error: margins then count as zero.
    largest_margin : float
        Largest margin so far.
    log_count : float
        ln K.

    Returns
    -------
    stack, meta : tuples of arrays
    weights : array of shape (n_learners,)
    coef : array of shape (d,)
        The ensemble's theta after the step.
    largest_margin : float
    """
    n_learners, n_columns = stack[0].shape
    shape = stack[1].shape
    new_stack = np.empty((n_learners, n_columns)), np.empty(shape), np.empty(shape)
    new_meta = np.empty(n_learners), np.empty(n_learners), np.empty(n_learners)
    weights, new_coef = np.empty(n_learners), np.empty(n_columns)
    marks, largest_margin = play_learners(
        coef,
        gradients,
        *stack,
        *meta,
        step_size,
        radius,
        margin_bound,
        has_running_range,
        smallest_range,
        largest_margin,
        log_count,
        np.empty((n_columns + 3, n_columns)),
        *new_stack,
        *new_meta,
        weights,
        new_coef,
    )
    if marks == 0:
        return new_stack, new_meta, weights, new_coef, largest_margin
    # Badly conditioned matrices need the eigendecomposition.
    indices = [i for i in range(n_learners) if marks >> i & 1]
    coefs, matrices, _ = new_stack
    coefs[indices], _ = project_onto_ball(coefs[indices], matrices[indices], radius)
    return new_stack, new_meta, weights, weights @ coefs, largest_margin
