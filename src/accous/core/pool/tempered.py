r"""A pool without memory over three shapes of any ratio: 1, its square root, and itself.

It holds a ratio back as far as past batches are evidence against it: while the stream does not move, every estimate
explains the batches worse than ratio 1, and 1 gets nearly all of the mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.pool.filters import Filters, cautious_prior, start_filters
from accous.core.pool.shapes import N_SHAPES, mixed_shapes, shape_cuts, shape_values

__all__ = ["Tempered", "start_tempered"]

_PRIOR = cautious_prior(0)
_NO_SLOTS = np.zeros((0, N_SHAPES))


@dataclass(frozen=True, slots=True)
class Tempered:
    """The state after a round.

    Attributes
    ----------
    filters : Filters
    means : array of shape (n_shapes,)
        Means of the shapes over the reference.
    """

    filters: Filters
    means: FloatArray

    @property
    def share(self) -> float:
        """Share of the mass on other shapes than 1."""
        return 1.0 - float(self.filters.proportions[0])

    def after_round(
        self, batch_ratios: FloatArray, reference_ratios: FloatArray, max_ratio: float
    ) -> tuple[Tempered, FloatArray]:
        """Return the state after a round, and the ratio of the reference in use.

        Parameters
        ----------
        batch_ratios : array of shape (n_batch,)
            Ratios of the batch before the estimator learned from it.
        reference_ratios : array of shape (n_reference,)
            Ratios of the reference for the next round.
        max_ratio : float
            Larger ratios count as this value.
        """
        cuts, no_ratios = shape_cuts(max_ratio), np.zeros((0, len(batch_ratios)))
        batch_ratios = np.ascontiguousarray(batch_ratios, dtype=np.float64)
        filters, _ = self.filters.after_batch(
            _PRIOR, batch_ratios, (cuts, self.means), (no_ratios, _NO_SLOTS), no_ratios
        )
        return Tempered(filters, self.means).on_reference(reference_ratios, max_ratio)

    def on_reference(self, reference_ratios: FloatArray, max_ratio: float) -> tuple[Tempered, FloatArray]:
        """Return the state with the means of the shapes over a reference, and the ratio of this reference in use.

        Parameters
        ----------
        reference_ratios : array of shape (n_reference,)
        max_ratio : float
            Larger ratios count as this value.
        """
        mixed, means = mixed_shapes(reference_ratios, shape_cuts(max_ratio), self.filters.proportions)
        return Tempered(self.filters, means), mixed

    def ratios(self, ratios: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio in use of any rows, given the estimator's."""
        shapes = shape_values(ratios, shape_cuts(max_ratio)) / self.means
        return np.asarray(1.0 + (shapes - 1.0) @ self.filters.proportions)


def start_tempered() -> Tempered:
    """Return the state before the first round, in which all shapes of the ratio are 1."""
    return Tempered(start_filters(_PRIOR), np.ones(N_SHAPES))
