"""Where a round ends: after a number of rows, or when a column changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

__all__ = ["LARGEST_ROUND", "RoundRule"]

LARGEST_ROUND = 10_000  # a column that never changes must not fill the memory


@dataclass(frozen=True)
class RoundRule:
    """How rows are divided into rounds.

    Attributes
    ----------
    batch_size : int
        Rows in a round, if ``by`` is None.
    by : str, optional
        A column; a new round starts when its value changes, and after `LARGEST_ROUND` rows.
    """

    batch_size: int = 1
    by: str | None = None

    def stops(self, frame: pl.DataFrame, n_rows: int, *, is_end: bool) -> list[int]:
        """Return where the complete rounds end; at the end of the stream, the last round is complete too.

        The first row must begin a round. A frame without columns has no height, hence ``n_rows``. The result does not
        depend on the pieces in which a stream arrives.

        Examples
        --------
        >>> import polars as pl
        >>> days = pl.DataFrame({"day": ["mon", "mon", "tue", "wed", "wed"]})
        >>> RoundRule(by="day").stops(days, 5, is_end=False)
        [2, 3]
        >>> RoundRule(batch_size=2).stops(days, 5, is_end=True)
        [2, 4, 5]
        """
        if self.by is None:
            stops = list(range(self.batch_size, n_rows + 1, self.batch_size))
            if is_end and n_rows % self.batch_size:
                stops.append(n_rows)
            return stops
        # By another name: polars takes some names of columns for patterns.
        return self._stops_by_value(frame[self.by].alias("values"), is_end=is_end)

    def _stops_by_value(self, values: pl.Series, *, is_end: bool) -> list[int]:
        is_new = values.ne_missing(values.shift()).to_numpy()
        changes = [int(row) for row in np.flatnonzero(is_new) if row]
        stops: list[int] = []
        start = 0
        for change in [*changes, len(values)]:
            stops += range(start + LARGEST_ROUND, change, LARGEST_ROUND)
            stops.append(change)
            start = change
        last_start = stops[-2] if len(stops) > 1 else 0
        is_last_complete = is_end or len(values) - last_start >= LARGEST_ROUND
        return stops if is_last_complete and len(values) else stops[:-1]
