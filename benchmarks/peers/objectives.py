"""What the methods minimise, in plain code, and how far a solution violates the constraints.

Our solutions and the peers' are evaluated by the same code. Smaller is always better. Kernels are
k(x, c) = exp(-||x - c||^2 / (2 width^2)); the centres of a ratio sum_l coef_l k(x, c_l) are the batch rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def gaussian_kernel(rows: Array, centers: Array, width: float) -> Array:
    """Return the matrix of k(x_i, c_l), computed column by column."""
    columns = [np.exp(-0.5 * np.sum((rows - center) ** 2, axis=1) / width**2) for center in centers]
    return np.stack(columns, axis=1)


def least_squares_objective(
    reference: Array, batch: Array, coefs: Array, *, width: float, ridge: float, alpha: float = 0.0
) -> float:
    """(1 - alpha)/2 mean_ref r^2 + alpha/2 mean_batch r^2 - mean_batch r + ridge/2 |coefs|^2; alpha = 0 is uLSIF."""
    r_reference = gaussian_kernel(reference, batch, width) @ coefs
    r_batch = gaussian_kernel(batch, batch, width) @ coefs
    squares = (1.0 - alpha) * np.mean(r_reference**2) + alpha * np.mean(r_batch**2)
    return float(0.5 * squares - np.mean(r_batch) + 0.5 * ridge * np.sum(coefs**2))


def least_squares_solution(reference: Array, batch: Array, *, width: float, ridge: float, alpha: float = 0.0) -> Array:
    """Return the coefficients that minimise the objective, before negative ones are cut: (H + ridge I) coefs = h."""
    k_reference = gaussian_kernel(reference, batch, width)
    k_batch = gaussian_kernel(batch, batch, width)
    hessian = (1.0 - alpha) * k_reference.T @ k_reference / len(reference) + alpha * k_batch.T @ k_batch / len(batch)
    return np.linalg.solve(hessian + ridge * np.eye(len(batch)), k_batch.mean(axis=0))


def kliep_objective(r_reference: Array, r_batch: Array) -> float:
    """-mean_batch log r, with r divided by its mean over the reference, as the constraint mean_ref r = 1 requires."""
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(r_batch / np.mean(r_reference))))


def kliep_violation(r_reference: Array, r_batch: Array) -> float:
    """Return how far mean_ref r is from 1, or how far r is below 0."""
    lowest = min(r_reference.min(), r_batch.min())
    return float(max(0.0, -lowest, abs(np.mean(r_reference) - 1.0)))


def kmm_objective(reference: Array, batch: Array, weights: Array, *, width: float) -> float:
    """1/2 w'K w - kappa'w with kappa_i = n_reference / n_batch sum_j k(x_i, x_j), divided by n_reference^2."""
    kernel = gaussian_kernel(reference, reference, width)
    kappa = len(reference) * gaussian_kernel(reference, batch, width).mean(axis=1)
    return float((0.5 * weights @ kernel @ weights - kappa @ weights) / len(reference) ** 2)


def kmm_violation(weights: Array, *, max_ratio: float, mass_tolerance: float) -> float:
    """Return the largest excess over 0 <= w <= max_ratio and |mean w - 1| <= mass_tolerance."""
    excess = abs(np.mean(weights) - 1.0) - mass_tolerance
    return float(max(0.0, -weights.min(), weights.max() - max_ratio, excess))
