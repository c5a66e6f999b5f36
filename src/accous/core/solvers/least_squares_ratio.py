r"""Least-squares ratio fitting in closed form: uLSIF and its relative version RuLSIF.

With basis functions :math:`\psi` and :math:`r(x) = \psi(x)^\top a`,

.. math::
    \min_a \; \tfrac12 a^\top H a - h^\top a + \tfrac{\lambda}{2} \|a\|^2, \qquad
    H = (1 - \alpha) \operatorname*{mean}_{S_0} \psi \psi^\top + \alpha \operatorname*{mean}_{S_t} \psi \psi^\top,
    \qquad h = \operatorname*{mean}_{S_t} \psi ,

and negative coefficients are then set to 0 (Kanamori, Hido and Sugiyama, JMLR 2009; Yamada and others, Neural
Computation 2013). For alpha > 0 the denominator of the ratio is the mixture of both densities, and the ratio is bounded
by 1 / alpha.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dposv

from accous.arrays import FloatArray
from accous.exceptions import ParameterError

__all__ = ["fit_least_squares", "leave_one_out_loss"]


def fit_least_squares(reference: FloatArray, batch: FloatArray, ridge: float, alpha: float) -> FloatArray:
    """Return the coefficients a of the ratio.

    Parameters
    ----------
    reference, batch : arrays of shape (n_reference, n_basis) and (n_batch, n_basis)
        Basis functions at the rows of both.
    ridge : float
        lambda.
    alpha : float
        Share of the batch in the denominator, in [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.solvers.least_squares_ratio import fit_least_squares
    >>> fit_least_squares(np.array([[1.0], [0.5]]), np.array([[1.0]]), ridge=0.375, alpha=0.0)
    array([1.])
    """
    system = _system(reference, batch, 1.0 - alpha, alpha, ridge)
    # Call LAPACK directly: the usual checks cost many times more than such a small system.
    _, coefs, info = dposv(system, batch.mean(axis=0))
    if info:
        raise ParameterError(f"ridge is too small for these rows, got {ridge!r}: raise it.")
    return np.maximum(coefs, 0.0)


def leave_one_out_loss(reference: FloatArray, batch: FloatArray, ridge: float, alpha: float) -> float:
    r"""Return the loss of every row under the coefficients fitted without it.

    .. math::
        \tfrac{1 - \alpha}{2} \operatorname*{mean}_{i \in S_0} (\psi_i^\top a^{(-i)})^2
        + \operatorname*{mean}_{j \in S_t} \Big[ \tfrac{\alpha}{2} (\psi_j^\top a^{(-j)})^2
        - \psi_j^\top a^{(-j)} \Big]

    Leaving out a row changes H by a matrix of rank one, so one factorisation is enough for all rows. The batch must
    have two rows or more.
    """
    (n_reference, n_batch), total = (len(reference), len(batch)), batch.mean(axis=0)
    share = (1.0 - alpha) / (n_reference - 1)
    factor = cho_factor(_system(reference, batch, share * n_reference, alpha, ridge))
    without = _without_each(factor, reference, np.broadcast_to(total, reference.shape), share)
    at_reference = np.einsum("nb,nb->n", reference, without)
    share = alpha / (n_batch - 1)
    factor = cho_factor(_system(reference, batch, 1.0 - alpha, share * n_batch, ridge))
    without = _without_each(factor, batch, (n_batch * total - batch) / (n_batch - 1), share)
    at_batch = np.einsum("nb,nb->n", batch, without)
    quadratic = (1.0 - alpha) * np.mean(at_reference**2) + alpha * np.mean(at_batch**2)
    return float(0.5 * quadratic - at_batch.mean())


def _system(
    reference: FloatArray, batch: FloatArray, reference_share: float, batch_share: float, ridge: float
) -> FloatArray:
    system = (reference_share / len(reference)) * (reference.T @ reference)
    if batch_share > 0.0:
        system += (batch_share / len(batch)) * (batch.T @ batch)
    # The diagonal, every (n + 1)-th entry.
    system.flat[:: len(system) + 1] += ridge
    return system


def _without_each(factor: tuple[FloatArray, bool], rows: FloatArray, targets: FloatArray, share: float) -> FloatArray:
    """Solve (M - share psi_i psi_i^T) a_i = target_i for every row, given M factored; negative entries become 0."""
    solved_rows = cho_solve(factor, rows.T).T
    solved_targets = cho_solve(factor, targets.T).T
    overlap = np.einsum("nb,nb->n", rows, solved_targets)
    leverage = np.einsum("nb,nb->n", rows, solved_rows)
    return np.maximum(solved_targets + (share * overlap / (1.0 - share * leverage))[:, None] * solved_rows, 0.0)
