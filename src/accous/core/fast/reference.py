"""The reference as a round reads it: gradients and ratios, by whichever code is fastest for its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_rows import (
    BLOCK,
    covary_scores,
    evaluate_ratios,
    evaluate_row_ratios,
    sum_gradients,
    to_blocks,
)
from accous.core.paper.losses import Logistic, Loss
from accous.core.fast.width import is_narrow

__all__ = ["MatrixReference", "NarrowReference", "Reference", "prepare_reference"]

_MANY_ROWS = 32
_THREADED_COLUMNS = 64


class Reference(Protocol):
    """Features of the reference rows and what a round asks of them."""

    @property
    def is_free_of_blas(self) -> bool:
        """Whether a round's bits cannot depend on the number of BLAS threads."""

    @property
    def features(self) -> FloatArray:
        """The rows, (n_reference, d)."""

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Gradients of the loss at each row of ``coefs`` and, after them, at ``coef``."""

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """Ratio of each reference row, cut at ``max_ratio``."""

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """Ratio of each row of a batch, cut at ``max_ratio``."""

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """Covariance over the reference rows of each feature with the score."""


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

    is_free_of_blas: ClassVar[bool] = False

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        return self.loss.gradient(np.concatenate((coefs, coef[None])), self.features, batch)

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef.astype(self.features.dtype, copy=False)
        return self.loss.ratio(scores.astype(np.float64, copy=False), max_ratio)

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        # By einsum: small products without BLAS, whose bits do not depend on the number of cores.
        return self.loss.ratio(np.einsum("nd,d->n", batch, coef), max_ratio)

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        scores = self.features @ coef
        return np.asarray((scores - scores.mean()) @ self.features / len(scores))


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

    @property
    def is_free_of_blas(self) -> bool:
        """Of fewer columns than make LAPACK use threads, should a badly conditioned matrix need it."""
        return self.features.shape[1] < _THREADED_COLUMNS

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        n_reference, n_batch = self.features.shape[0], batch.shape[0]
        # Beside a small reference the batch is summed as that is: where the two are equal, so are their terms.
        has_few = n_batch < _MANY_ROWS <= n_reference
        rows = batch if has_few else batch[:0]
        gradients = _gradients(self.blocks, rows, coefs, coef, -0.5 / n_reference, 0.5 / n_batch)
        if not has_few:
            # A batch row x has the term of a reference row -x.
            gradients += _gradients(to_blocks(-batch), rows, coefs, coef, -0.5 / n_batch, 0.0)
        return gradients

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        ratios = np.empty((self.blocks.shape[0], BLOCK))
        evaluate_ratios(self.blocks, coef, max_ratio, ratios)
        return ratios.reshape(-1)[: self.features.shape[0]]

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See :class:`Reference`."""
        ratios = np.empty(batch.shape[0])
        evaluate_row_ratios(np.ascontiguousarray(batch), coef, max_ratio, ratios)
        return ratios

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See :class:`Reference`."""
        covariances = np.empty(self.features.shape[1])
        room = np.empty((self.blocks.shape[0], BLOCK))
        covary_scores(self.blocks, coef, self.features.shape[0], room, covariances)
        return covariances


def _gradients(
    blocks: FloatArray, rows: FloatArray, coefs: FloatArray, coef: FloatArray, block_factor: float, row_factor: float
) -> FloatArray:
    gradients = np.empty((coefs.shape[0] + 1, coefs.shape[1]))
    room = np.empty(gradients.shape), np.empty((max(2, blocks.shape[0]), BLOCK))
    sum_gradients(blocks, np.ascontiguousarray(rows), coefs, coef, block_factor, row_factor, *room, gradients)
    return gradients
