"""The reference as a round reads it: gradients and ratios of all its rows, computed by matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from accous.arrays import FloatArray
from accous.core.paper.losses import Loss

__all__ = ["MatrixReference", "Reference"]


class Reference(Protocol):
    """Features of the reference rows, and what a round computes from them."""

    @property
    def is_free_of_blas(self) -> bool:
        """Whether the bits of a round are independent of the number of BLAS threads."""

    @property
    def shares_passes(self) -> bool:
        """Whether one pass over the rows gives both the ratios of a round and the gradients of the next."""

    @property
    def features(self) -> FloatArray:
        """The rows, (n_reference, d)."""

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Return the gradients of the loss at each row of ``coefs`` and, after them, at ``coef``."""

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio of each reference row, clipped at ``max_ratio``."""

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio of each row of a batch, clipped at ``max_ratio``."""

    def batch_ratios_at_each(self, coefs: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """Return the same at several thetas, (n_coefs, n_batch)."""

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """Return the covariance over the reference rows of each feature with the score."""


@dataclass(frozen=True)
class MatrixReference:
    """Any loss and any width: matrix products in the precision of the features.

    Attributes
    ----------
    features : array of shape (n_reference, d)
        In double or single precision; sums over rows always use double precision.
    loss : Loss
    """

    features: FloatArray
    loss: Loss

    is_free_of_blas: ClassVar[bool] = False
    shares_passes: ClassVar[bool] = True

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        return self.loss.gradient(np.concatenate((coefs, coef[None])), self.features, batch)

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef.astype(self.features.dtype, copy=False)
        return self.loss.ratio(scores.astype(np.float64, copy=False), max_ratio)

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        # einsum computes small products without BLAS, so the bits do not depend on the number of cores.
        return self.loss.ratio(np.einsum("nd,d->n", batch, coef), max_ratio)

    def batch_ratios_at_each(self, coefs: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        return np.ascontiguousarray(self.loss.ratio(np.einsum("kd,nd->kn", coefs, batch), max_ratio))

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef
        return np.asarray((scores - scores.mean()) @ self.features / len(scores))
