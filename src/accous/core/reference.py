"""The reference as a round reads it: gradients and ratios, by whichever code is fastest for its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accous.core.arrays import FloatArray
from accous.core.kernels_rows import BLOCK, evaluate_ratios, sum_gradients, to_blocks
from accous.core.losses import Logistic, Loss
from accous.core.width import is_narrow

__all__ = ["MatrixReference", "NarrowReference", "Reference", "prepare_reference"]

_MANY_ROWS = 32


class Reference(Protocol):
    """Features of the reference rows and what a round asks of them."""

    @property
    def features(self) -> FloatArray:
        """The rows, (n_reference, d)."""

    def gradients(self, coefs: FloatArray, batch: FloatArray) -> FloatArray:
        """Gradient of the loss at each row of ``coefs``, (n_coefs, d)."""

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """Ratio of each reference row, cut at ``max_ratio``."""


def prepare_reference(features: FloatArray, loss: Loss, *, is_single: bool = False) -> Reference:
    """Choose the code for this reference; single precision is for products of matrices only."""
    if is_narrow(features.shape[1]) and isinstance(loss, Logistic):
        return NarrowReference(features, to_blocks(features))
    return MatrixReference(features.astype(np.float32) if is_single else features, loss)


@dataclass(frozen=True)
class MatrixReference:
    """Any loss, any width: products of matrices, in the precision of the features.

    Attributes
    ----------
    features : array of shape (n_reference, d)
        In double or in single precision; sums over rows are double in both.
    loss : Loss
    """

    features: FloatArray
    loss: Loss

    def gradients(self, coefs: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        return self.loss.gradient(coefs, self.features, batch)

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef.astype(self.features.dtype, copy=False)
        return self.loss.ratio(scores.astype(np.float64, copy=False), max_ratio)


@dataclass(frozen=True)
class NarrowReference:
    """The logistic loss on few columns: one compiled pass over the rows for all thetas.

    Attributes
    ----------
    features : array of shape (n_reference, d)
    blocks : array of shape (n_blocks, d, BLOCK)
        The same, as the kernels read them.
    """

    features: FloatArray
    blocks: FloatArray

    def gradients(self, coefs: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        n_coefs, n_columns = coefs.shape
        points = np.zeros((n_coefs + n_coefs % 2, n_columns))
        points[:n_coefs] = coefs
        gradients, room = np.empty(points.shape), np.empty((2, BLOCK))
        n_reference, n_batch = self.features.shape[0], batch.shape[0]
        # Beside a small reference the batch is summed as that is: where the two are equal, so are their terms.
        has_few = n_batch < _MANY_ROWS <= n_reference
        rows = np.ascontiguousarray(batch if has_few else batch[:0])
        sum_gradients(self.blocks, rows, points, -0.5 / n_reference, 0.5 / n_batch, room, gradients)
        if not has_few:
            # A batch row x has the term of a reference row -x.
            of_batch = np.empty(points.shape)
            sum_gradients(to_blocks(-batch), rows, points, -0.5 / n_batch, 0.0, room, of_batch)
            gradients += of_batch
        return gradients[:n_coefs]

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        ratios = np.empty((self.blocks.shape[0], BLOCK))
        evaluate_ratios(self.blocks, coef, max_ratio, ratios)
        return ratios.reshape(-1)[: self.features.shape[0]]
