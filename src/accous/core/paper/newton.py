r"""Online Newton Steps for a whole stack of learners at once (Algorithm 1).

.. math::
    A_t = A_{t-1} + g_t g_t^\top, \qquad
    \theta_{t+1} = \Pi^{A_t}_S\big[\theta_t - \gamma A_t^{-1} g_t\big], \qquad A_{s-1} = \lambda I .
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.learners import Arrays, step_narrow
from accous.core.paper.projection import project_onto_ball
from accous.core.fast.width import is_narrow

__all__ = ["NewtonStack", "newton_step", "start_learners"]


@dataclass(frozen=True, slots=True)
class NewtonStack:
    """The learners' state; arrays are replaced by each step, never written into.

    Attributes
    ----------
    coefs : array of shape (n_learners, d)
        theta.
    matrices : array of shape (n_learners, d, d)
        A.
    inverse_roots : array of shape (n_learners, d, d)
        W with W W^T = A^{-1}.
    """

    coefs: FloatArray
    matrices: FloatArray
    inverse_roots: FloatArray

    def __len__(self) -> int:
        """Return the number of learners."""
        return self.coefs.shape[0]

    @property
    def arrays(self) -> Arrays:
        """The three arrays, in the order of the constructor."""
        return self.coefs, self.matrices, self.inverse_roots

    def since(self, first: int) -> NewtonStack:
        """Return the learners from position ``first`` on."""
        return NewtonStack(self.coefs[first:], self.matrices[first:], self.inverse_roots[first:])

    def after(self, younger: NewtonStack) -> NewtonStack:
        """Return a stack of ``younger`` followed by these learners."""
        return NewtonStack(
            np.concatenate((younger.coefs, self.coefs)),
            np.concatenate((younger.matrices, self.matrices)),
            np.concatenate((younger.inverse_roots, self.inverse_roots)),
        )


def start_learners(n_learners: int, coef: FloatArray, ridge: float) -> NewtonStack:
    """Return ``n_learners`` fresh learners at theta = ``coef`` with A = ``ridge`` I."""
    n_columns = coef.shape[0]
    stack = NewtonStack(
        coefs=np.empty((n_learners, n_columns)),
        matrices=np.zeros((n_learners, n_columns, n_columns)),
        inverse_roots=np.zeros((n_learners, n_columns, n_columns)),
    )
    stack.coefs[:] = coef
    diagonal = np.arange(n_columns)
    stack.matrices[:, diagonal, diagonal] = ridge
    stack.inverse_roots[:, diagonal, diagonal] = 1.0 / math.sqrt(ridge)
    return stack


def newton_step(stack: NewtonStack, gradients: FloatArray, step_size: float, radius: float) -> NewtonStack:
    r"""Give every learner its gradient and make one step.

    The inverse is kept as a square root W and updated in Potter's form, with :math:`v = W^\top g`:

    .. math:: W_t = W_{t-1} - \frac{W_{t-1} v \, v^\top}{1 + v^\top v + \sqrt{1 + v^\top v}} .

    It costs what a Sherman-Morrison update costs, but :math:`W W^\top` is positive definite by construction and
    stays accurate when :math:`\|g\|^2 / \lambda` is large, where Sherman-Morrison loses all digits.

    Parameters
    ----------
    stack : NewtonStack
    gradients : array of shape (n_learners, d)
        The gradient of each learner at its own theta.
    step_size : float
        gamma.
    radius : float
        S.
    """
    if is_narrow(stack.coefs.shape[1]):
        return NewtonStack(*step_narrow(stack.arrays, np.ascontiguousarray(gradients), step_size, radius))
    return _matrix_step(stack, gradients, step_size, radius)


def _matrix_step(stack: NewtonStack, gradients: FloatArray, step_size: float, radius: float) -> NewtonStack:
    v = (gradients[:, None, :] @ stack.inverse_roots)[:, 0]
    root_times_v = (stack.inverse_roots @ v[..., None])[..., 0]
    growth = 1.0 + np.einsum("nd,nd->n", v, v)
    shrinkage = 1.0 / (growth + np.sqrt(growth))
    matrices = stack.matrices + gradients[:, :, None] * gradients[:, None, :]
    inverse_roots = stack.inverse_roots - (shrinkage[:, None] * root_times_v)[:, :, None] * v[:, None, :]
    # A_t^{-1} g = W_{t-1} v / (1 + v^T v), so the direction needs no second product.
    targets = stack.coefs - step_size * root_times_v / growth[:, None]
    coefs, _ = project_onto_ball(targets, matrices, radius)
    return NewtonStack(coefs, matrices, inverse_roots)
