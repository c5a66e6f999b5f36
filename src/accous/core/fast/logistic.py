"""Weighted logistic regression for two classes and few columns, by compiled loops."""

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
    """What does not change between refits, as the compiled loops read it.

    Attributes
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        The design, its columns less their centre, the last one constantly 1.
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
        """Bring ``coefs``, (1, d), in place to the minimal objective, within 1e-14 of the summed C s.

        False, and ``coefs`` as they were, where that takes too many steps or a Hessian is nearly singular.
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
        """Score of every row by a fit without it, given the fit on all of them; None where H is nearly singular."""
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
    """Bring a centred design and its targets, (n_rows, 1), into blocks."""
    return NarrowDesign(to_blocks(design), centre, np.ascontiguousarray(to_blocks(targets)[:, 0]), penalty)
