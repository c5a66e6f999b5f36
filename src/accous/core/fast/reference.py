"""The reference of few columns as a round reads it: one compiled pass over the rows for all thetas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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

__all__ = ["NarrowReference"]

_MANY_ROWS = 32
_THREADED_COLUMNS = 64


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

    shares_passes: ClassVar[bool] = False

    @property
    def is_free_of_blas(self) -> bool:
        """Whether there are so few columns that LAPACK, which badly conditioned matrices need, uses no threads."""
        return self.features.shape[1] < _THREADED_COLUMNS

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See ``Reference``."""
        n_reference, n_batch = self.features.shape[0], batch.shape[0]
        # With a small reference, sum the batch in the same way: if both are equal, so are their terms.
        has_few = n_batch < _MANY_ROWS <= n_reference
        rows = np.ascontiguousarray(batch if has_few else batch[:0])
        gradients, sums = np.empty((2, coefs.shape[0] + 1, coefs.shape[1]))
        room = np.empty((max(2, self.blocks.shape[0]), BLOCK))
        sum_gradients(self.blocks, rows, coefs, coef, -0.5 / n_reference, 0.5 / n_batch, sums, room, gradients)
        return gradients if has_few else gradients + self._batch_gradients(coefs, coef, batch)

    @staticmethod
    def _batch_gradients(coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Sum over a large batch, block by block: a batch row x has the term of a reference row -x."""
        blocks, gradients = to_blocks(-batch), np.empty((coefs.shape[0] + 1, coefs.shape[1]))
        room = np.empty(gradients.shape), np.empty((max(2, blocks.shape[0]), BLOCK))
        sum_gradients(blocks, batch[:0], coefs, coef, -0.5 / batch.shape[0], 0.0, *room, gradients)
        return gradients

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        ratios = np.empty((self.blocks.shape[0], BLOCK))
        evaluate_ratios(self.blocks, coef, max_ratio, ratios)
        return ratios.reshape(-1)[: self.features.shape[0]]

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        ratios = np.empty(batch.shape[0])
        evaluate_row_ratios(np.ascontiguousarray(batch), coef, max_ratio, ratios)
        return ratios

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See ``Reference``."""
        covariances = np.empty(self.features.shape[1])
        room = np.empty((self.blocks.shape[0], BLOCK))
        covary_scores(self.blocks, coef, self.features.shape[0], room, covariances)
        return covariances
