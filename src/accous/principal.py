"""The principal directions of rows, for the features of backbones and of ratios."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA

from accous.blas import one_blas_thread
from accous.core.arrays import FloatArray

__all__ = ["principal_directions"]


def principal_directions(rows: FloatArray, n_directions: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the variances along the strongest directions and, as rows, the directions; all that there are for None.

    There are never more than rows or columns. Directions without variance are whatever rounding made them: they and
    their variances are zero.

    Examples
    --------
    >>> import numpy as np
    >>> variances, directions = principal_directions(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    >>> np.round(variances, 2).tolist(), np.abs(directions).tolist()
    ([6.0, 0.67], [[1.0, 0.0], [0.0, 1.0]])
    """
    n_rows, width = rows.shape
    n_kept = min(n_rows, width, n_directions or width)
    # The eigenvectors of a covariance are far quicker for many rows; of few the rows themselves are decomposed.
    solver = "covariance_eigh" if n_rows > width else "full"
    with one_blas_thread(), np.errstate(invalid="ignore"):  # rows that are all the same have no variance to divide by
        pca = PCA(n_kept, svd_solver=solver).fit(rows)
    variances = pca.explained_variance_
    is_null = variances <= np.finfo(np.float64).eps * max(n_rows, width) * variances.max()
    return np.where(is_null, 0.0, variances), np.where(is_null[:, None], 0.0, pca.components_)
