r"""Online Newton Steps for a whole stack of learners at once (Algorithm 1).

.. math::
    A_t = A_{t-1} + g_t g_t^\top, \qquad
    \theta_{t+1} = \Pi^{A_t}_S\big[\theta_t - \gamma A_t^{-1} g_t\big], \qquad A_{s-1} = \lambda I .
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from accous.arrays import FloatArray
from accous.core.paper.projection import project_onto_ball

__all__ = ["Arrays", "NewtonStack"]

Arrays = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class NewtonStack:
    """The state of the learners; each step replaces the arrays and never modifies them.

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

    @classmethod
    def start(cls, n_learners: int, coef: FloatArray, ridge: float) -> Self:
        """Return ``n_learners`` new learners at theta = ``coef`` with A = ``ridge`` I."""
        n_columns = coef.shape[0]
        coefs = np.empty((n_learners, n_columns))
        coefs[:] = coef
        matrices, inverse_roots = np.zeros((2, n_learners, n_columns, n_columns))
        diagonal = np.arange(n_columns)
        matrices[:, diagonal, diagonal] = ridge
        inverse_roots[:, diagonal, diagonal] = 1.0 / math.sqrt(ridge)
        return cls(coefs, matrices, inverse_roots)

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""
        return type(self)(self.coefs[first:], self.matrices[first:], self.inverse_roots[first:])

    def after(self, younger: Self) -> Self:
        """Return a stack of ``younger`` followed by these learners."""
        return type(self)(
            np.concatenate((younger.coefs, self.coefs)),
            np.concatenate((younger.matrices, self.matrices)),
            np.concatenate((younger.inverse_roots, self.inverse_roots)),
        )

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> Self:
        r"""Make one Newton step for every learner.

        The inverse is kept as a square root W and updated in Potter's form, with :math:`v = W^\top g`:

        .. math:: W_t = W_{t-1} - \frac{W_{t-1} v \, v^\top}{1 + v^\top v + \sqrt{1 + v^\top v}} .

        This costs as much as a Sherman-Morrison update. But :math:`W W^\top` is positive definite by construction, and
        it stays accurate when :math:`\|g\|^2 / \lambda` is large, where Sherman-Morrison loses all digits.

        Parameters
        ----------
        gradients : array of shape (n_learners, d)
            The gradient of each learner at its own theta.
        step_size : float
            gamma.
        radius : float
            S.
        """
        v = (gradients[:, None, :] @ self.inverse_roots)[:, 0]
        root_times_v = (self.inverse_roots @ v[..., None])[..., 0]
        growth = 1.0 + np.einsum("nd,nd->n", v, v)
        shrinkage = 1.0 / (growth + np.sqrt(growth))
        matrices = self.matrices + gradients[:, :, None] * gradients[:, None, :]
        inverse_roots = self.inverse_roots - (shrinkage[:, None] * root_times_v)[:, :, None] * v[:, None, :]
        # A_t^{-1} g = W_{t-1} v / (1 + v^T v), so the direction needs no second product.
        targets = self.coefs - step_size * root_times_v / growth[:, None]
        coefs, _ = project_onto_ball(targets, matrices, radius)
        return type(self)(coefs, matrices, inverse_roots)
