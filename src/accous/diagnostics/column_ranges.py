"""Values of single columns that the reference does not have: outside its range, or in a column that was constant."""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.coverage import Finding
from accous.diagnostics.rare_counts import smallest_rare_count

__all__ = ["ColumnRanges", "constant_sentence", "shown_number"]

_MARGIN = 0.05
_OUTSIDE, _NEW_VALUES = "outside", "new values"


class ColumnRanges:
    """The range of each column in the reference.

    Parameters
    ----------
    low, high : array of shape (n_columns,)
        Smallest and largest value in the reference.
    n_reference : int
        Number of its rows.
    names : list of str
    """

    def __init__(self, low: FloatArray, high: FloatArray, n_reference: int, names: list[str]) -> None:
        self.low, self.high, self.names = low, high, names
        self._n_reference = n_reference
        self._is_constant = low == high
        # A value just beyond the range is nothing new; one that differs from a constant is.
        with np.errstate(over="ignore"):
            margin = np.where(self._is_constant, 0.0, _MARGIN * (high - low))
            self._lowest, self._highest = low - margin, high + margin

    @classmethod
    def of(cls, reference: FloatArray, names: list[str]) -> ColumnRanges:
        """Return the ranges of a reference."""
        return cls(reference.min(axis=0), reference.max(axis=0), len(reference), names)

    def count(self, rows: FloatArray) -> IntArray:
        """Return how many values of each column are below its range, and above it, in an array of shape (2, d)."""
        return np.array(((rows < self._lowest).sum(axis=0), (rows > self._highest).sum(axis=0)), dtype=np.int64)

    def rare(self, counts: IntArray, n_rows: int) -> list[tuple[str, str, float]]:
        """Return kind, column and share of what is too frequent for chance."""
        n_tests = 2 * len(self.names)
        # Of the reference's own rows, one is the largest and one the smallest; none differs from a constant.
        least = smallest_rare_count(n_rows, self._n_reference, 1, n_tests)
        least_new = smallest_rare_count(n_rows, self._n_reference, 0, n_tests)
        # A constant is left on both sides; half the limit on each of them is enough.
        if 2 * int(counts.max()) < min(least, least_new):
            return []
        totals = counts.sum(axis=0)
        is_rare = np.where(self._is_constant, totals >= least_new, (counts >= least).any(axis=0))
        found = []
        for column in np.flatnonzero(is_rare).tolist():
            kind = _NEW_VALUES if self._is_constant[column] else _OUTSIDE
            found.append((kind, self.names[column], float(totals[column]) / n_rows))
        return found

    def findings(self, rows: FloatArray) -> tuple[Finding, ...]:
        """Return what recent rows show, in words."""
        counts = self.count(rows)
        column_of = {name: column for column, name in enumerate(self.names)}
        found = []
        for kind, name, share in self.rare(counts, len(rows)):
            column = column_of[name]
            if kind == _NEW_VALUES:
                values = rows[:, column]
                new = values[values != self.low[column]]
                sentence = constant_sentence(
                    name,
                    shown_number(self.low[column]),
                    shown_number(new[-1]),
                    share,
                    is_one=bool((new == new[-1]).all()),
                )
                found.append(Finding(name, kind, share, 0.0, sentence))
            else:
                expected = 2.0 / (self._n_reference + 1)
                found.append(Finding(name, kind, share, expected, self._outside_sentence(column, counts, len(rows))))
        return tuple(found)

    def _outside_sentence(self, column: int, counts: IntArray, n_rows: int) -> str:
        low, high = shown_number(self.low[column]), shown_number(self.high[column])
        n_below, n_above = counts[:, column].tolist()
        parts = [f"above it in {n_above / n_rows:.1%}"] if n_above else []
        parts += [f"below it in {n_below / n_rows:.1%}"] if n_below else []
        return (
            f"Column {self.names[column]!r} ranged from {low} to {high} in the reference and is clearly "
            f"{' and '.join(parts)} of the recent rows."
        )


def constant_sentence(name: str, constant: str, value: str, share: float, *, is_one: bool) -> str:
    """Say that a column which was constant in the reference has new values.

    Examples
    --------
    >>> constant_sentence("c", "1", "2", 1.0, is_one=True)
    "Column 'c' was always 1 in the reference and is 2 in all recent rows."
    """
    where = "all recent rows" if share == 1.0 else f"{share:.1%} of the recent rows"
    what = f"is {value}" if is_one else f"has other values, such as {value},"
    return f"Column {name!r} was always {constant} in the reference and {what} in {where}."


def shown_number(value: float) -> str:
    """Return a number as a reader would write it."""
    return f"{float(value):.6g}"
