"""Marks on the rows of a stream: values that are missing, new categories, new values of constant columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.tabular.columns.plans import LeftOutColumn
from accous.tabular.columns.records import ColumnRecord
from accous.tabular.formats.values import to_texts

__all__ = ["CATEGORIES", "MISSING", "NEW_VALUES", "Mark", "Marks", "list_marks", "mark_rows"]

MISSING, CATEGORIES, NEW_VALUES = "missing", "categories", "new values"
_LONGEST = 40


@dataclass(frozen=True)
class Mark:
    """Something that a row may show in one column.

    Attributes
    ----------
    column : str
    kind : {"missing", "categories", "new values"}
    n_reference : int
        Rows of the reference.
    n_hits : int
        How many of them show it. A category that occurs once would be new without its row.
    """

    column: str
    kind: str
    n_reference: int
    n_hits: int


@dataclass(frozen=True)
class Marks:
    """The marks of rows.

    Attributes
    ----------
    hits : array of uint8 of shape (n_rows, n_marks)
    values : polars.DataFrame
        The new values, for each column that has one anywhere; null in the other rows.
    """

    hits: NDArray[np.uint8]
    values: pl.DataFrame

    def __getitem__(self, rows: Any) -> Marks:
        return Marks(self.hits[rows], self.values[rows] if self.values.width else self.values)

    def followed_by(self, others: Marks) -> Marks:
        """Return these rows and the others as one."""
        parts = [
            frame if frame.width else pl.DataFrame({"": [None] * len(hits)}, schema={"": pl.String})
            for frame, hits in ((self.values, self.hits), (others.values, others.hits))
        ]
        values = pl.concat(parts, how="diagonal") if self.values.width or others.values.width else self.values
        return Marks(np.concatenate((self.hits, others.hits)), values)

    def without(self, marks: list[Mark], known: Mapping[str, Collection[str]]) -> Marks:
        """Return the same without categories that the reference has come to know.

        Parameters
        ----------
        marks : list of Mark
        known : mapping of str to collection of str
            Such categories, for each column that has some.
        """
        hits, values = self.hits, self.values
        for number, mark in enumerate(marks):
            if mark.kind != CATEGORIES or mark.column not in known or mark.column not in values.columns:
                continue
            is_known = values[mark.column].is_in(list(known[mark.column])).fill_null(value=False)
            if is_known.any():
                hits = hits.copy()
                hits[is_known.to_numpy(), number] = 0
                values = values.with_columns(values[mark.column].set(is_known, None))
        return Marks(hits, values)

    def latest(self) -> dict[str, tuple[str, bool]]:
        """Return the last new value of each column that has one, and whether it is the only one."""
        found = {}
        for column in self.values:
            there = column.drop_nulls()
            if len(there):
                text = str(there[-1])
                shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
                found[column.name] = shown, there.n_unique() == 1
        return found


def list_marks(plans: tuple[Any, ...], records: tuple[ColumnRecord | None, ...]) -> list[Mark]:
    """Return the marks that rows may have, in the order of the columns."""
    marks = []
    for plan, record in zip(plans, records, strict=False):
        if record is None:
            continue
        is_empty = record.n_missing == record.n_rows
        if not is_empty:
            marks.append(Mark(plan.name, MISSING, record.n_rows, record.n_missing))
        if isinstance(plan, LeftOutColumn):
            marks.append(Mark(plan.name, NEW_VALUES, record.n_rows, record.n_new))
        elif record.n_once is not None:
            marks.append(Mark(plan.name, CATEGORIES, record.n_rows, record.n_once))
    return marks


def mark_rows(marks: list[Mark], shown: Mapping[tuple[str, str], Any], frame: pl.DataFrame) -> Marks:
    """Return the marks of the rows of a frame.

    Parameters
    ----------
    marks : list of Mark
    shown : mapping
        By column and kind: which rows show it.
    frame : polars.DataFrame
    """
    hits = np.zeros((frame.height, len(marks)), dtype=np.uint8)
    values = {}
    for number, mark in enumerate(marks):
        is_shown = shown.get((mark.column, mark.kind))
        if is_shown is None:
            continue
        hits[:, number] = is_shown
        if mark.kind != MISSING and is_shown.any():
            texts = to_texts(frame[mark.column])
            values[mark.column] = texts.set(pl.Series(~np.asarray(is_shown, dtype=bool)), None)
    return Marks(hits, pl.DataFrame(values))
