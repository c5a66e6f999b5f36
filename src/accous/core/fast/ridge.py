"""Weighted ridge regression on few columns, in compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_ridge import fit_ridge
from accous.core.fast.kernels_rows import to_blocks

__all__ = ["NarrowFit", "NarrowRidge", "make_narrow_ridge"]

_N_REFINEMENTS = 2
_TILE = 4


class NarrowFit(NamedTuple):
    r"""The minimum, and the factor of the matrix that gave it.

    Attributes
    ----------
    coefs : array of shape (d + 1,)
        Of the centred rows and targets, with the intercept first.
    lower : array of shape (d + 1, d + 1)
        L in :math:`D^{-1} L L^\top D^{-1} = Z^\top S Z + \alpha P`, where the rows of Z are a 1 and the centred row,
        and P is the penalty; what is above the diagonal means nothing.
    scale : array of shape (d + 1,)
        The diagonal of D.
    """

    coefs: FloatArray
    lower: FloatArray
    scale: FloatArray


@dataclass(frozen=True)
class NarrowRidge:
    """The data that does not change between refits, in the form that the compiled loops read.

    Attributes
    ----------
    blocks : array of shape (n_blocks, m, n_together)
        The constant 1, the centred columns, the centred targets, and zeros up to a multiple of four columns.
    n_coefs : int
        Number of coefficients with the intercept, d + 1.
    """

    blocks: FloatArray
    n_coefs: int

    def fit(self, weights: FloatArray, alpha: float) -> NarrowFit | None:
        """Minimise the objective; None if the columns are nearly dependent, even with the penalty."""
        _, n_columns, n_together = self.blocks.shape
        factor, room = np.empty((n_columns, n_columns)), np.empty((3, n_together))
        coefs, scale, slopes = np.empty((3, self.n_coefs))
        weights = np.ascontiguousarray(weights)
        if not fit_ridge(self.blocks, weights, alpha, _N_REFINEMENTS, room, factor, scale, slopes, coefs):
            return None
        return NarrowFit(coefs, factor[: self.n_coefs, : self.n_coefs], scale)


def make_narrow_ridge(rows: FloatArray, targets: FloatArray) -> NarrowRidge:
    """Arrange centred rows and targets in blocks."""
    n_rows, n_features = rows.shape
    n_columns = -(-(n_features + 2) // _TILE) * _TILE
    together = np.zeros((n_rows, n_columns))
    together[:, 0] = 1.0
    together[:, 1 : n_features + 1] = rows
    together[:, n_features + 1] = targets
    return NarrowRidge(to_blocks(together), n_features + 1)
