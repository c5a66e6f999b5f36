"""Weighted logistic regression for two classes and few columns, by compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.core.arrays import FloatArray
from accous.core.kernels_rows import BLOCK, fit_logistic, to_blocks

__all__ = ["NarrowDesign", "make_narrow_design"]

_MAX_STEPS = 20


@dataclass(frozen=True)
class NarrowDesign:
    """What does not change between refits, as the compiled loops read it.

    Attributes
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        The design.
    targets : array of shape (n_blocks, BLOCK)
        1 for class 1, else 0.
    penalty : array of shape (d,)
        Diagonal of the penalty.
    """

    blocks: FloatArray
    targets: FloatArray
    penalty: FloatArray

    def improve(self, coef: FloatArray, weights: FloatArray, C: float, tolerance: float) -> bool:
        """Bring ``coef``, in place, to within ``tolerance`` times the summed C s of the minimal objective.

        False where that takes too many steps or a singular Hessian stands in the way; ``coef`` is then only nearer.
        """
        n_blocks, n_columns, _ = self.blocks.shape
        return bool(
            fit_logistic(
                self.blocks,
                self.targets,
                np.ascontiguousarray(weights),
                C,
                self.penalty,
                tolerance * C * np.add.reduce(weights),
                _MAX_STEPS,
                np.empty((6, n_blocks, BLOCK)),
                np.empty((2, BLOCK)),
                np.empty((4, n_columns)),
                np.empty((n_columns + 1, n_columns)),
                coef,
            )
        )


def make_narrow_design(design: FloatArray, targets: FloatArray, penalty: FloatArray) -> NarrowDesign:
    """Bring a design and its targets, (n_rows, 1), into blocks."""
    return NarrowDesign(to_blocks(design), np.ascontiguousarray(to_blocks(targets)[:, 0]), penalty)
