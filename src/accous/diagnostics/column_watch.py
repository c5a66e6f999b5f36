"""Which columns show something new, as the rows come in: one event for each column and onset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accous.arrays import IntArray
from accous.diagnostics.drift import MAX_EVENTS, DriftEvent

__all__ = ["NOTHING_FOUND", "ColumnWatch"]

# A finding is over when as many looks in a row do not show it as there are blocks in the recent rows.
_QUIET_LOOKS = 8


@dataclass(frozen=True, slots=True)
class ColumnWatch:
    """What was found so far.

    Attributes
    ----------
    counts : tuple of arrays
        Counts of each block of recent rows, oldest first.
    n_rows : int
        Number of rows in those blocks.
    found : tuple of str
        The findings in progress, as kind and column.
    quiet : tuple of int
        For each of them, the number of looks since it was last seen.
    events : tuple of DriftEvent
        The last ``MAX_EVENTS`` onsets.
    """

    counts: tuple[IntArray, ...] = ()
    n_rows: int = 0
    found: tuple[str, ...] = ()
    quiet: tuple[int, ...] = ()
    events: tuple[DriftEvent, ...] = ()

    def after(
        self,
        this_round: int,
        new_counts: Sequence[IntArray],
        n_kept: int,
        block_rows: int,
        rare: Callable[[IntArray, int], list[tuple[str, str, float]]],
    ) -> ColumnWatch:
        """Return the watch after one or more blocks were closed.

        Parameters
        ----------
        this_round : int
        new_counts : sequence of arrays
            Counts of each of these blocks.
        n_kept : int
            Number of blocks in the recent rows.
        block_rows : int
            Number of rows in a block.
        rare : callable
            Takes counts and the number of rows; returns kind, column and share of what is too frequent for chance.
        """
        counts = (*self.counts, *new_counts)[-n_kept:]
        n_rows = len(counts) * block_rows
        now = {
            f"{kind}: {column}": (kind, column, share) for kind, column, share in rare(np.sum(counts, axis=0), n_rows)
        }
        if not now and not self.found:
            return ColumnWatch(counts, n_rows, (), (), self.events)
        quiet = {key: 0 if key in now else n_looks + 1 for key, n_looks in zip(self.found, self.quiet, strict=True)}
        events = [
            DriftEvent(this_round, share, (column,), None, kind)
            for key, (kind, column, share) in now.items()
            if key not in quiet
        ]
        lasting = {key: n_looks for key, n_looks in quiet.items() if n_looks < _QUIET_LOOKS} | dict.fromkeys(now, 0)
        return ColumnWatch(
            counts, n_rows, tuple(lasting), tuple(lasting.values()), (*self.events, *events)[-MAX_EVENTS:]
        )


NOTHING_FOUND = ColumnWatch()
