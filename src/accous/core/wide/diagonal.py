r"""Online Newton Steps with only the diagonal of each learner's matrix, for a stack of learners at once.

.. math::
    a_t = a_{t-1} + g_t \odot g_t, \qquad
    \theta_{t+1} = \Pi^{\mathrm{diag}(a_t)}_S\big[\theta_t - \gamma\, g_t / a_t\big], \qquad a_{s-1} = \lambda .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.paper.projection import find_multipliers, shrink_far_points

__all__ = ["DiagonalStack", "project_by_diagonal"]


@dataclass(frozen=True, slots=True)
class DiagonalStack:
    """The state of the learners; each step replaces the arrays and never modifies them.

    Attributes
    ----------
    coefs : array of shape (n_learners, d)
        theta.
    diagonals : array of shape (n_learners, d)
        a.
    """

    coefs: FloatArray
    diagonals: FloatArray

    def __len__(self) -> int:
        """Return the number of learners."""
        return self.coefs.shape[0]

    @classmethod
    def start(cls, n_learners: int, coef: FloatArray, ridge: float) -> DiagonalStack:
        """Return ``n_learners`` new learners at theta = ``coef`` with a = ``ridge``."""
        return cls(np.tile(coef, (n_learners, 1)), np.full((n_learners, len(coef)), ridge))

    def since(self, first: int) -> DiagonalStack:
        """Return the learners from position ``first`` on."""
        return DiagonalStack(self.coefs[first:], self.diagonals[first:])

    def after(self, younger: DiagonalStack) -> DiagonalStack:
        """Return a stack of ``younger`` followed by these learners."""
        return DiagonalStack(
            np.concatenate((younger.coefs, self.coefs)), np.concatenate((younger.diagonals, self.diagonals))
        )

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> DiagonalStack:
        """Make one Newton step for every learner; the arguments are those of ``NewtonStack.step``."""
        diagonals = self.diagonals + np.square(gradients)
        targets = self.coefs - step_size * gradients / diagonals
        return DiagonalStack(project_by_diagonal(targets, diagonals, radius), diagonals)


def project_by_diagonal(points: FloatArray, diagonals: FloatArray, radius: float) -> FloatArray:
    r"""Project a stack of points onto the ball, each in the norm of its own diagonal matrix.

    .. math:: \theta_j = \frac{a_j}{a_j + \mu}\, \nu_j, \qquad \|\theta\| = S .

    Parameters
    ----------
    points : array of shape (n, d)
        nu; a point inside the ball is returned unchanged.
    diagonals : array of shape (n, d)
        a, positive.
    radius : float
        S.
    """
    with np.errstate(over="ignore"):
        is_outside = np.einsum("nd,nd->n", points, points) > radius * radius
    if not is_outside.any():
        return points
    outside_points, _ = shrink_far_points(points[is_outside], radius)
    outside_diagonals = diagonals[is_outside]
    mu = find_multipliers(outside_diagonals * outside_points, outside_diagonals, radius)
    theta = outside_diagonals / (outside_diagonals + mu[:, None]) * outside_points
    projected = points.copy()
    projected[is_outside] = theta * (radius / np.linalg.norm(theta, axis=1, keepdims=True))
    return projected
