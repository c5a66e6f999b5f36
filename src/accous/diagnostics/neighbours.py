"""A score for rows outside the joint distribution of the reference: the distance to its nearest rows.

Half of the reference is searched for neighbours, and the other half shows which distances are usual. The halves are
drawn at random: calibrated forward in time, the score would take the drift inside the reference for usual.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import BoolArray, FloatArray

__all__ = ["ReferenceNeighbours", "distance_scales", "standardized"]

_MAX_REFERENCE = 2000
_NEIGHBOUR = 5
_USUAL_SHARE = 0.95
_LARGEST = 1e6  # in deviations of the reference: far away, and its square is a number
_ROUNDING = 1e-9
_ROWS_AT_A_TIME = 16


class ReferenceNeighbours:
    """Decides whether rows lie outside the reference.

    Parameters
    ----------
    reference : array of shape (n_reference, n_columns)
        At most 2,000 of the rows are used.
    """

    def __init__(self, reference: FloatArray) -> None:
        rng = np.random.default_rng(0)
        order = rng.permutation(len(reference))[:_MAX_REFERENCE]
        self._constant = reference[0]
        self._is_constant = (reference == reference[0]).all(axis=0)
        self._mean, self._scale = reference.mean(axis=0), distance_scales(reference)
        rows = self._prepare(reference[order])
        n_searched = (len(rows) + 1) // 2
        self._searched = rows[:n_searched]
        self._squared_norms = np.einsum("nd,nd->n", self._searched, self._searched)
        held_out = rows[n_searched:]
        usual = self._squared_distances(held_out if len(held_out) else self._searched)
        self._limit = float(np.quantile(usual, _USUAL_SHARE))

    def is_outside(self, rows: FloatArray) -> BoolArray:
        """Which rows are farther away than 95 % of the reference, or change a column that is constant there."""
        with np.errstate(over="ignore"):
            squared = self._squared_distances(self._prepare(rows))
        moves = (rows[:, self._is_constant] != self._constant[self._is_constant]).any(axis=1)
        return np.asarray((squared > self._limit) | moves)

    def _prepare(self, rows: FloatArray) -> FloatArray:
        return standardized(
            rows[:, ~self._is_constant], self._mean[~self._is_constant], self._scale[~self._is_constant]
        )

    def _squared_distances(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row to its fifth neighbour; what rounding leaves of a distance of zero is zero."""
        norms = np.einsum("nd,nd->n", rows, rows)
        neighbour = min(_NEIGHBOUR, len(self._searched)) - 1
        nearest = np.empty(len(rows))
        # A few rows at a time: a matrix of all distances would not fit into the processor's cache.
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            products = rows[part] @ self._searched.T
            products *= 2.0
            squared = norms[part, None] + self._squared_norms
            squared -= products
            squared.partition(neighbour, axis=1)
            nearest[part] = squared[:, neighbour]
        return np.where(nearest > _ROUNDING * (1.0 + norms), nearest, 0.0)


def distance_scales(reference: FloatArray) -> FloatArray:
    """Return the deviation of each column; for a column of two values their difference, for a constant one 0.

    A mark such as ``colour = red`` has a tiny deviation if it is rare. Divided by it, one such mark would outweigh all
    other columns.
    """
    low, high = reference.min(axis=0), reference.max(axis=0)
    is_mark = ((reference == low) | (reference == high)).all(axis=0)
    return np.where(is_mark, high - low, reference.std(axis=0))


def standardized(rows: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Centre and scale columns; values beyond a million deviations are cut."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.clip((rows - mean) / np.where(scale > 0.0, scale, 1.0), -_LARGEST, _LARGEST)
