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
from scipy.linalg.lapack import dposv

from accous.arrays import FloatArray
from accous.exceptions import ParameterError

_Decomposition = tuple[FloatArray, FloatArray]  # eigenvalues and eigenvectors

__all__ = ["fit_least_squares", "leave_one_out_losses"]


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


def leave_one_out_losses(reference: FloatArray, batch: FloatArray, ridges: FloatArray, alpha: float) -> FloatArray:
    r"""Return, for every ridge, the loss of every row under the coefficients fitted without it.

    .. math::
        \tfrac{1 - \alpha}{2} \operatorname*{mean}_{i \in S_0} (\psi_i^\top a^{(-i)})^2
        + \operatorname*{mean}_{j \in S_t} \Big[ \tfrac{\alpha}{2} (\psi_j^\top a^{(-j)})^2
        - \psi_j^\top a^{(-j)} \Big]

    Leaving out a row changes H by a matrix of rank one, and a ridge changes only its eigenvalues: one decomposition is
    enough for all rows and ridges. The batch must have two rows or more.

    Parameters
    ----------
    reference, batch, alpha
        As in :func:`fit_least_squares`.
    ridges : array of shape (n_ridges,)

    Returns
    -------
    array of shape (n_ridges,)
    """
    (n_reference, n_batch), total = (len(reference), len(batch)), batch.mean(axis=0)
    share = (1.0 - alpha) / (n_reference - 1)
    system: _Decomposition = np.linalg.eigh(_system(reference, batch, share * n_reference, alpha, 0.0))
    at_reference = _at_each_left_out(system, reference, total[None], share, ridges)
    share = alpha / (n_batch - 1)
    if alpha > 0.0:
        system = np.linalg.eigh(_system(reference, batch, 1.0 - alpha, share * n_batch, 0.0))
    else:  # the two differ by a factor
        system = (system[0] * (1.0 - 1.0 / n_reference), system[1])
    at_batch = _at_each_left_out(system, batch, (n_batch * total - batch) / (n_batch - 1), share, ridges)
    with np.errstate(over="ignore", invalid="ignore"):  # a ridge that is next to nothing: the caller says so
        quadratic = (1.0 - alpha) * np.square(at_reference).mean(axis=1) + alpha * np.square(at_batch).mean(axis=1)
        return np.asarray(0.5 * quadratic - at_batch.mean(axis=1))


def _system(
    reference: FloatArray, batch: FloatArray, reference_share: float, batch_share: float, ridge: float
) -> FloatArray:
    system = (reference_share / len(reference)) * (reference.T @ reference)
    if batch_share > 0.0:
        system += (batch_share / len(batch)) * (batch.T @ batch)
    # The diagonal, every (n + 1)-th entry.
    system.flat[:: len(system) + 1] += ridge
    return system


def _at_each_left_out(
    system: _Decomposition, rows: FloatArray, targets: FloatArray, share: float, ridges: FloatArray
) -> FloatArray:
    r"""Return :math:`\psi_i^\top \max(0, a_i)` with :math:`(M + \lambda I - s \psi_i \psi_i^\top) a_i = h_i`.

    M is given by its eigenvalues and eigenvectors, and s is the share. There is one target h for every row, or one for
    all. The result has shape (n_ridges, n_rows).
    """
    eigenvalues, axes = system
    inverses = 1.0 / (np.maximum(eigenvalues, 0.0) + ridges[:, None])
    # Arrays have shape (n_ridges, n_basis, n_rows or 1) from here on: there are many rows and few functions.
    columns = np.ascontiguousarray(rows.T)
    turned = axes.T @ columns
    weighted_axes = axes * inverses[:, None]
    solved_targets = weighted_axes @ (axes.T @ targets.T)
    if len(targets) == 1:
        overlap = solved_targets[:, :, 0] @ columns
    else:
        overlap = np.einsum("bn,rbn->rn", columns, solved_targets)
    leverage = inverses @ np.square(turned)
    coefs = weighted_axes @ turned
    coefs *= (share * overlap / (1.0 - share * leverage))[:, None]
    coefs += solved_targets
    return np.asarray(np.einsum("bn,rbn->rn", columns, np.maximum(coefs, 0.0, out=coefs)))
