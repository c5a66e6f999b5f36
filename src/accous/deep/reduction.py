r"""From embeddings to features: principal components, rotated to equal variances, and bounded.

With mu the mean of the reference's embeddings, V their first k principal directions, Q an orthogonal matrix and b the
bound,

.. math::

    z(e) = s \, (e - \mu)^\top V Q, \qquad \phi(e) = z(e) \min(1, b / |z(e)|),

where s makes the 99 % quantile of the reference's norms |z| equal to b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from accous.arrays import FloatArray
from accous.exceptions import DataError
from accous.threads import one_blas_thread

__all__ = ["Reduction", "equal_variance_rotation", "fit_reduction"]

_QUANTILE_AT_BOUND = 0.99
_SAME = 1e-6


@dataclass(frozen=True)
class Reduction:
    """The map from embeddings to features, learned from the reference.

    Attributes
    ----------
    mean : array of shape (d,)
    directions : array of shape (d, k) or None
        V Q; None if the embeddings' own columns are kept.
    scale : float
    max_norm : float
    """

    mean: FloatArray
    directions: FloatArray | None
    scale: float
    max_norm: float

    @property
    def width(self) -> int:
        """Number of columns of the features."""
        return len(self.mean) if self.directions is None else self.directions.shape[1]

    def transform(self, embeddings: NDArray[np.float32]) -> FloatArray:
        """Return the features of embeddings."""
        if embeddings.shape[1] != len(self.mean):
            raise DataError(
                f"The backbone gives {embeddings.shape[1]} features a row, but gave {len(self.mean)} for the reference."
            )
        turned = _project(embeddings.astype(np.float64) - self.mean, self.directions) * self.scale
        norms = np.linalg.norm(turned, axis=1)
        is_long = norms > self.max_norm
        turned[is_long] *= (self.max_norm / norms[is_long])[:, None]
        return turned


def fit_reduction(embeddings: NDArray[np.float32], n_components: int | None, max_norm: float, seed: int) -> Reduction:
    """Learn the map from the reference's embeddings.

    Raises
    ------
    DataError
        If the reference has one row, or its embeddings are all the same.
    """
    if len(embeddings) < 2:
        raise DataError("At least two rows are needed to learn features from, got 1 sample.")
    rows = embeddings.astype(np.float64)
    mean = rows.mean(axis=0)
    centred = rows - mean
    # A row's features differ in the last bits of single precision between mini-batches of different sizes.
    if np.abs(centred).max() <= _SAME * np.abs(mean).max():
        raise DataError("The backbone gives all rows of the reference the same features, so they cannot be told apart.")
    directions = None if n_components is None else _turned_components(centred, n_components, seed)
    norms = np.linalg.norm(_project(centred, directions), axis=1)
    typical = float(np.quantile(norms, _QUANTILE_AT_BOUND)) or float(norms.max())
    return Reduction(mean, directions, max_norm / typical, max_norm)


def equal_variance_rotation(variances: FloatArray, generator: np.random.Generator) -> FloatArray:
    r"""Return an orthogonal matrix Q for which all diagonal entries of Q^T diag(variances) Q are the same.

    A random rotation brings them close to each other if many variances matter. Givens rotations, each of which brings
    one entry to the mean, do the rest (after Chan and Li, 1983, on matrices with a prescribed diagonal).
    """
    width = len(variances)
    variances = variances / (variances.max() or 1.0)
    Q, R = np.linalg.qr(generator.standard_normal((width, width)))
    Q *= np.where(np.diag(R) < 0, -1.0, 1.0)  # uniformly distributed, and the same whatever signs QR chose
    root = np.sqrt(variances)[:, None] * Q  # its columns' squared norms are the entries to make equal
    mean = variances.mean()
    for _ in range(width - 1):
        diagonal = np.einsum("ij,ij->j", root, root)
        high, low = int(diagonal.argmax()), int(diagonal.argmin())
        if diagonal[high] - diagonal[low] <= 1e-9 * mean:
            break
        turn = _turn_to_mean(diagonal[high], diagonal[low], float(root[:, high] @ root[:, low]), float(mean))
        for matrix in (root, Q):
            matrix[:, [high, low]] = matrix[:, [high, low]] @ turn
    return Q


def _turn_to_mean(high: float, low: float, product: float, mean: float) -> FloatArray:
    """Return the 2 x 2 rotation after which the first of two columns has the squared norm ``mean``.

    With t the tangent of the angle, (low - mean) t^2 + 2 product t + (high - mean) = 0. There is a root, because high
    is above the mean and low is below it. The smaller root is used, in the form without cancellation.
    """
    root = np.sqrt(product**2 + max((high - mean) * (mean - low), 0.0))
    t = (high - mean) / (-product - root if product > 0 else root - product)
    cosine = 1.0 / np.sqrt(1.0 + t**2)
    return np.array([[cosine, -t * cosine], [t * cosine, cosine]])


def _turned_components(centred: FloatArray, n_components: int, seed: int) -> FloatArray:
    n_rows, width = centred.shape
    # Eigenvectors of the covariance are far quicker for many rows; for few rows the embeddings are decomposed.
    solver = "covariance_eigh" if n_rows > width else "full"
    with one_blas_thread():
        pca = PCA(min(n_components, n_rows, width), svd_solver=solver).fit(centred)
        variances = pca.explained_variance_
        # Directions without variance are rounding noise and carry no information.
        is_null = variances <= np.finfo(np.float64).eps * max(n_rows, width) * variances.max()
        components = np.where(is_null[:, None], 0.0, pca.components_)
        rotation = equal_variance_rotation(np.where(is_null, 0.0, variances), np.random.default_rng(seed))
        return np.ascontiguousarray(components.T @ rotation)


def _project(centred: FloatArray, directions: FloatArray | None) -> FloatArray:
    if directions is None:
        return centred
    with one_blas_thread():
        return centred @ directions
