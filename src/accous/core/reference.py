"""The reference as a round reads it: gradients and ratios, by whichever code is fastest for its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accous.core.arrays import FloatArray
from accous.core.kernels_rows import add_gradients, evaluate_ratios, to_blocks
from accous.core.losses import Logistic, Loss
from accous.core.width import is_narrow

__all__ = ["MatrixReference", "NarrowReference", "Reference", "prepare_reference"]

_MANY_ROWS = 32


class Reference(Protocol):
    """Features of the reference rows and what a round asks of them."""

    @property
    def features(self) -> FloatArray:
        """The rows, (n_reference, d)."""

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Gradients of the loss at each row of ``coefs`` and, last, at ``coef``: (n_coefs + 1, d)."""

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """Ratio of each reference row, cut at ``max_ratio``."""


def prepare_reference(features: FloatArray, loss: Loss) -> Reference:
    """Choose the code for this reference."""
    if is_narrow(features.shape[1]) and isinstance(loss, Logistic):
        return NarrowReference(features, to_blocks(features))
    return MatrixReference(features, loss)


@dataclass(frozen=True)
class MatrixReference:
    """Any loss, any width: products of matrices."""

    features: FloatArray
    loss: Loss

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        return self.loss.gradient(np.concatenate((coefs, coef[None])), self.features, batch)

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        return self.loss.ratio(self.features @ coef, max_ratio)


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

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        n_reference, n_batch = self.features.shape[0], batch.shape[0]
        gradients = np.zeros((coefs.shape[0] + 1, coefs.shape[1]))
        has_few = n_batch < _MANY_ROWS
        rows = np.ascontiguousarray(batch if has_few else batch[:0])
        add_gradients(self.blocks, rows, coefs, coef, -0.5 / n_reference, 0.5 / n_batch, gradients)
        if not has_few:
            # A batch row x has the term of a reference row -x.
            add_gradients(to_blocks(-batch), rows, coefs, coef, -0.5 / n_batch, 0.0, gradients)
        return gradients

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        ratios = np.empty(self.features.shape[0])
        evaluate_ratios(self.blocks, coef, max_ratio, ratios)
        return ratios
