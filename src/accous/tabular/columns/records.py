"""What is remembered about each column of the reference, so that something new in the stream is seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.tabular.columns.plans import ALL_MISSING, ALWAYS_THE_SAME, CategoryColumn, LeftOutColumn, NumberColumn
from accous.tabular.formats.values import is_usable, to_numbers, to_texts

__all__ = ["ColumnRecord", "record_column"]

_ROUNDING = 1e-9
_MOST_JOINED = 1_000


@dataclass(frozen=True)
class ColumnRecord:
    """One column of the reference.

    Attributes
    ----------
    n_rows, n_missing : int
        Rows of the reference, and how many have no value.
    low, high : float, optional
        Smallest and largest number.
    constant : str, optional
        The only value, of a column that is left out because it has only one and that is no number.
    n_once : int, optional
        How many categories occur once; None if the categories are not all known.
    n_new : int
        Rows that joined the reference later with another value of a constant column.
    joined : tuple of str
        Categories that have joined the reference later; the last thousand of them.
    """

    n_rows: int
    n_missing: int
    low: float | None = None
    high: float | None = None
    constant: str | None = None
    n_once: int | None = None
    n_new: int = 0
    joined: tuple[str, ...] = ()

    def joined_by(
        self, n_rows: int, counts: dict[str, int], limit: int, categories: Iterable[str] = ()
    ) -> ColumnRecord:
        """Return the record after rows have joined the reference and others have left.

        Parameters
        ----------
        n_rows : int
            Rows that joined.
        counts : dict of str to int
            How many of them are missing, or hold another value than the constant one, by the names ``n_missing`` and
            ``n_new``.
        limit : int
            Rows that the reference has now. What the rows that left looked like is not known: all counts shrink.
        categories : iterable of str
            Categories of rows that joined and that ``fit`` did not see.
        """
        is_empty, total = self.n_missing == self.n_rows, self.n_rows + n_rows
        share = min(1.0, limit / total)
        kept = round(share * total)
        n_missing = round(share * (self.n_missing + counts.get("n_missing", 0)))
        return replace(
            self,
            n_rows=kept,
            # A column that was empty stays one, and others stay others: what rows are marked with does not change.
            n_missing=kept if is_empty else min(n_missing, kept - 1),
            n_once=None if self.n_once is None else round(share * self.n_once),
            n_new=round(share * (self.n_new + counts.get("n_new", 0))),
            joined=tuple(dict.fromkeys((*self.joined, *categories)))[-_MOST_JOINED:],
        )

    @property
    def only_value(self) -> str:
        """The value of a constant column, for a sentence."""
        if self.n_missing == self.n_rows:
            return "missing"
        return f"{self.low:.6g}" if self.constant is None else repr(self.constant)

    def is_new(self, column: pl.Series) -> NDArray[np.bool_]:
        """Which values differ from the only value of a constant column; missing values do not."""
        texts = to_texts(column)
        is_there = texts.is_not_null().to_numpy()
        if self.low is None or self.high is None:
            is_same = False if self.constant is None else (texts == self.constant).fill_null(True).to_numpy()
            return np.asarray(is_there & ~np.asarray(is_same, dtype=bool))
        values, is_bad = to_numbers(column)
        margin = _ROUNDING * max(1.0, abs(self.low))
        return np.asarray(is_there & (is_bad | (values < self.low - margin) | (values > self.high + margin)))


def record_column(column: pl.Series, plan: Any) -> ColumnRecord | None:
    """Return what to remember about a column of the reference; None if it is left out and not constant."""
    is_left_out = isinstance(plan, LeftOutColumn)
    if (is_left_out and plan.reason not in (ALWAYS_THE_SAME, ALL_MISSING)) or not is_usable(column.dtype):
        return None
    if is_left_out:
        return _record_constant(column, plan)
    if isinstance(plan, NumberColumn):
        return _record_number(column)
    texts = to_texts(column)
    n_once = None
    if isinstance(plan, CategoryColumn) and plan.n_rare == len(plan.rare):
        n_once = int((texts.drop_nulls().value_counts()["count"] == 1).sum())
    return ColumnRecord(len(column), texts.null_count(), n_once=n_once)


def _record_number(column: pl.Series) -> ColumnRecord:
    values, is_bad = to_numbers(column)
    there = values[~np.isnan(values) & ~is_bad]
    return ColumnRecord(len(column), int(np.isnan(values).sum()), float(there.min()), float(there.max()))


def _record_constant(column: pl.Series, plan: LeftOutColumn) -> ColumnRecord:
    if plan.reason == ALL_MISSING:
        return ColumnRecord(len(column), len(column))
    values, is_bad = to_numbers(column)
    if not is_bad.any() and not np.isnan(values).all():
        return _record_number(column)
    texts = to_texts(column)
    return ColumnRecord(len(column), texts.null_count(), constant=str(texts.drop_nulls()[0]))
