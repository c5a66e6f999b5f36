"""Whether the reference covers the recent rows of the stream: jointly, and column by column."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["MIN_ROWS", "Coverage", "Finding"]

MIN_ROWS = 50
"""With fewer recent rows, ``share_outside`` and ``drift_strength`` are NaN: they would mostly be noise."""

_VISIBLE_DRIFT = 0.1
# Of a normal distribution: one look in a hundred shows so many standard errors by chance.
_RARE = 2.33


@dataclass(frozen=True)
class Finding:
    """Something about one column that the reference does not show.

    Attributes
    ----------
    column : str
    kind : {"outside", "new values", "missing", "categories"}
        Values outside the reference's range; a column that was constant in the reference and is not any more; another
        share of missing values; categories that the reference does not have.
    share : float
        Share of the recent rows.
    expected : float
        The share that the reference makes likely.
    sentence : str
        The same in words.
    """

    column: str
    kind: str
    share: float
    expected: float
    sentence: str


@dataclass(frozen=True)
class Coverage:
    """How well the reference covers the recent rows.

    Attributes
    ----------
    n_rows : int
        Number of recent rows, at most 500.
    share_outside : float
        Share of the recent rows that lie farther from the reference than 95 % of its own rows, or in which a column
        that is constant in the reference has another value; about 0.05 without a shift. NaN with fewer than 50 rows.
    drift_strength : float
        2 AUC - 1, at least 0, of a held-out logistic regression that tells recent rows from the reference: 0 if they
        look alike, 1 if they can be told apart without error. NaN with fewer than 50 rows.
    columns : tuple of Finding
        What single columns show, in the order of the columns.
    n_compared : int
        Rows of the reference that ``drift_strength`` compares with.
    """

    n_rows: int
    share_outside: float
    drift_strength: float
    columns: tuple[Finding, ...] = ()
    n_compared: int = 1000

    @property
    def has_moved(self) -> bool | None:
        """Whether the recent rows differ from the reference visibly, and by more than chance; None if not known.

        A strength of the drift above 0.1, and above what one look in a hundred shows where nothing has moved.

        Examples
        --------
        >>> Coverage(500, 0.05, 0.15).has_moved, Coverage(50, 0.05, 0.15).has_moved
        (True, False)
        """
        if math.isnan(self.drift_strength):
            return None
        n, m = self.n_rows, self.n_compared
        standard_error = math.sqrt((n + m + 1) / (3.0 * n * m))
        return self.drift_strength > max(_VISIBLE_DRIFT, _RARE * standard_error)

    @property
    def sentences(self) -> list[str]:
        """The findings in words."""
        return [finding.sentence for finding in self.columns]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the findings as rows of a table: column, kind, share of recent rows, share expected."""
        return [(each.column, each.kind, f"{each.share:.1%}", f"{each.expected:.1%}") for each in self.columns]
