"""The last rows of the stream, in an immutable structure that costs about a microsecond per round.

Rows are collected as small arrays until there are enough of them to close a block. Blocks are shared by all later
states and never written into, so a state that is read in another thread stays as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "MAX_BYTES", "MAX_ROWS", "NO_ROWS", "RecentRows", "recent_from_plain"]

MAX_ROWS = 500
BLOCK_ROWS = 64
MAX_BYTES = 4_000_000


class RecentRows(NamedTuple):
    """The last rows of the stream; every method returns new objects.

    Attributes
    ----------
    max_rows : int
        How many rows ``last`` returns at most; 0 before the first row, whose width decides.
    block_rows : int
        Number of rows in a closed block.
    blocks : tuple of arrays of shape (block_rows, n_columns)
        Closed blocks, oldest first: as many as are needed for ``max_rows``.
    waiting : tuple of arrays
        The rows since the last block, as they came.
    n_waiting : int
        Number of those rows, less than ``block_rows``.
    n_closed : int
        Number of blocks closed so far, those that were dropped included.

    Examples
    --------
    >>> import numpy as np
    >>> recent = NO_ROWS
    >>> for number in range(600):
    ...     recent = recent.add(np.full((1, 2), float(number)))
    >>> recent.last()[[0, -1], 0]
    array([100., 599.])
    """

    max_rows: int = 0
    block_rows: int = 0
    blocks: tuple[NDArray[Any], ...] = ()
    waiting: tuple[NDArray[Any], ...] = ()
    n_waiting: int = 0
    n_closed: int = 0

    def add(self, rows: NDArray[Any]) -> RecentRows:
        """Return the structure after some more rows, which are copied."""
        n_waiting = self.n_waiting + len(rows)
        if n_waiting < self.block_rows:
            # The rows may be the user's own array, which the user may overwrite.
            waiting = (*self.waiting, rows.copy())
            return RecentRows(self.max_rows, self.block_rows, self.blocks, waiting, n_waiting, self.n_closed)
        return self._close(rows, n_waiting) if self.max_rows else _empty_for(rows).add(rows)

    def _close(self, rows: NDArray[Any], n_waiting: int) -> RecentRows:
        size = self.block_rows
        n_new, n_left = divmod(n_waiting, size)
        n_kept = -(-self.max_rows // size)
        # Of a large batch, the first rows would be dropped again: they are not copied.
        n_skipped = max(0, n_new - n_kept) * size
        if n_skipped > self.n_waiting:
            together = np.array(rows[n_skipped - self.n_waiting :])
        else:
            together = np.concatenate((*self.waiting, rows))[n_skipped:]
        end = len(together) - n_left
        new = tuple(together[start : start + size] for start in range(0, end, size))
        blocks = (*self.blocks, *new)[-n_kept:]
        waiting = (together[end:].copy(),) if n_left else ()
        return RecentRows(self.max_rows, size, blocks, waiting, n_left, self.n_closed + n_new)

    def last(self) -> NDArray[Any] | None:
        """Return the last ``max_rows`` rows, oldest first; None if there is none yet."""
        parts = (*self.blocks, *self.waiting)
        return np.concatenate(parts)[-self.max_rows :] if parts else None

    def cleared(self, columns: list[int]) -> RecentRows:
        """Return the same rows with zeros in some columns."""

        def clear(rows: NDArray[Any]) -> NDArray[Any]:
            cleared = rows.copy()
            cleared[:, columns] = 0
            return cleared

        return self._replace(blocks=tuple(map(clear, self.blocks)), waiting=tuple(map(clear, self.waiting)))

    def to_plain(self) -> dict[str, Any]:
        """Return everything as one array and numbers."""
        parts = (*self.blocks, *self.waiting)
        return {
            "max_rows": self.max_rows,
            "block_rows": self.block_rows,
            "n_waiting": self.n_waiting,
            "n_closed": self.n_closed,
            "rows": np.concatenate(parts) if parts else None,
        }


NO_ROWS = RecentRows()


def recent_from_plain(plain: dict[str, Any] | None) -> RecentRows:
    """Undo ``to_plain``; states that were saved before recent rows were kept have none."""
    if plain is None or plain["rows"] is None:
        return NO_ROWS
    rows, n_waiting, size = plain["rows"], plain["n_waiting"], plain["block_rows"]
    end = len(rows) - n_waiting
    blocks = tuple(rows[start : start + size] for start in range(0, end, size))
    return RecentRows(plain["max_rows"], size, blocks, (rows[end:],) if n_waiting else (), n_waiting, plain["n_closed"])


def _empty_for(rows: NDArray[Any]) -> RecentRows:
    """Return the structure before the first row; of wide rows it keeps fewer, at most about ``MAX_BYTES``."""
    max_rows = max(1, min(MAX_ROWS, MAX_BYTES // max(1, rows.itemsize * rows.shape[1])))
    return RecentRows(max_rows, min(BLOCK_ROWS, max_rows))
