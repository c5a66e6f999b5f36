"""Weighted logistic regression for two classes and few columns, in compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_rows import BLOCK, fit_logistic, leave_rows_out, to_blocks

__all__ = ["NarrowDesign", "make_narrow_design"]

_MAX_STEPS = 20
_TOLERANCE = 1e-14


@dataclass(frozen=True)
class NarrowDesign:
    """The data that does not change between refits, in the form that the compiled loops read.

    Attributes
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        The design: columns minus their centre; the last column is the constant 1.
    centre : array of shape (d - 1,)
    targets : array of shape (n_blocks, BLOCK)
        1 for class 1, else 0.
    penalty : array of shape (d,)
        Diagonal of the penalty.
    """

    blocks: FloatArray
    centre: FloatArray
    targets: FloatArray
    penalty: FloatArray

    def fit(self, coefs: FloatArray, weights: FloatArray, C: float) -> bool:
        """Minimise the objective over ``coefs``, (1, d), in place, to within 1e-14 of the summed C s.

        Returns False, and leaves ``coefs`` unchanged, if this takes too many steps or a Hessian is nearly singular.
        """
        n_blocks, n_columns, _ = self.blocks.shape
        return bool(
            fit_logistic(
                self.blocks,
                self.centre,
                self.targets,
                np.ascontiguousarray(weights),
                C,
                self.penalty,
                _TOLERANCE,
                _MAX_STEPS,
                np.empty((6, n_blocks, BLOCK)),
                np.empty((2, BLOCK)),
                np.empty((n_columns + 5, n_columns)),
                coefs,
            )
        )

    def leave_one_out(self, coefs: FloatArray, weights: FloatArray, C: float) -> FloatArray | None:
        """Return each row's score from a fit without it, given the fit on all rows; None if H is nearly singular."""
        n_blocks, n_columns, _ = self.blocks.shape
        scores = np.empty((n_blocks, BLOCK))
        is_done = leave_rows_out(
            self.blocks,
            self.centre,
            self.targets,
            np.ascontiguousarray(weights),
            C,
            self.penalty,
            np.ascontiguousarray(coefs),
            np.empty((5, n_blocks, BLOCK)),
            np.empty((n_columns + 2, BLOCK)),
            np.empty((n_columns + 3, n_columns)),
            scores,
        )
        return scores.reshape(-1)[: len(weights)] if is_done else None


def make_narrow_design(
    design: FloatArray, centre: FloatArray, targets: FloatArray, penalty: FloatArray
) -> NarrowDesign:
    """Arrange a centred design and its targets, (n_rows, 1), in blocks."""
    return NarrowDesign(to_blocks(design), centre, np.ascontiguousarray(to_blocks(targets)[:, 0]), penalty)
