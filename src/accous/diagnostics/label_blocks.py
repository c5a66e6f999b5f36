"""What late labels measured block by block, in the order in which they were given.

A block has 50 labelled rows. From 64 blocks on, two neighbours become one, so long streams have longer blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.stretches import LabelledRounds

__all__ = ["NO_BLOCKS", "LabelBlocks"]

_SHORTEST = 50
_MOST_BLOCKS = 64
_N_SUMS = 5


@dataclass(frozen=True, kw_only=True)
class LabelBlocks:
    """Sums over blocks of labelled rows whose error was estimated; more rows make a new object.

    Attributes
    ----------
    sums : array of shape (n_blocks, 5)
        Rows, losses, estimated errors and the ends of their intervals.
    n_rows : int
        Rows of a block; the last one may have fewer.
    """

    sums: FloatArray = field(default_factory=lambda: np.zeros((0, _N_SUMS)))
    n_rows: int = _SHORTEST

    def after(self, losses: FloatArray, estimates: FloatArray) -> LabelBlocks:
        """Return the blocks after some more rows; those without an estimate are left out.

        Parameters
        ----------
        losses : array of shape (n_rows,)
        estimates : array of shape (n_rows, 3)

        Examples
        --------
        >>> import numpy as np
        >>> blocks = NO_BLOCKS.after(np.ones(120), np.full((120, 3), 0.5))
        >>> blocks.sums[:, :3].tolist()
        [[50.0, 50.0, 25.0], [50.0, 50.0, 25.0], [20.0, 20.0, 10.0]]
        """
        is_known = ~np.isnan(estimates).any(axis=1)
        n_new = int(is_known.sum())
        if not n_new:
            return self
        rows = np.column_stack((np.ones(n_new), losses[is_known], estimates[is_known]))
        n_open = int(self.sums[-1, 0]) % self.n_rows if len(self.sums) else 0
        starts = np.arange(0, n_open + n_new, self.n_rows) - n_open
        added = np.add.reduceat(rows, np.maximum(starts, 0), axis=0)
        complete = self.sums
        if n_open:
            complete, added[0] = self.sums[:-1], self.sums[-1] + added[0]
        return _shorten(np.concatenate((complete, added)), self.n_rows)

    def as_rounds(self) -> LabelledRounds:
        """Return what the labels measured in each block."""
        n_rows = self.sums[:, 0]
        return LabelledRounds(n_rows, self.sums[:, 1], self.sums[:, 2:] / n_rows[:, None])


NO_BLOCKS = LabelBlocks()


def _shorten(sums: FloatArray, n_rows: int) -> LabelBlocks:
    while len(sums) > _MOST_BLOCKS:
        sums = np.add.reduceat(sums, np.arange(0, len(sums), 2), axis=0)
        n_rows *= 2
    return LabelBlocks(sums=sums, n_rows=n_rows)
