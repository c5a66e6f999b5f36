"""Categories that a model does not know, by column: ``accous fit`` decides which it knows, rows that join do not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.marks import CATEGORIES, Marks
from accous.text import count

__all__ = ["UnknownCounts", "add_unknown", "unknown_in_words"]

_MOST_NAMED = 5

UnknownCounts = list[tuple[str, int]]
"""Columns and how many of their values were unknown; as pairs, because a column may have any name."""


def add_unknown(before: Iterable[tuple[str, int]], marks: Marks, encoder: ColumnEncoder) -> UnknownCounts:
    """Return the counts after more rows."""
    counts = dict(before)
    for mark, n_hits in zip(encoder.marks, marks.hits.sum(axis=0, dtype=np.int64).tolist(), strict=True):
        if mark.kind == CATEGORIES and n_hits:
            counts[mark.column] = counts.get(mark.column, 0) + n_hits
    return list(counts.items())


def unknown_in_words(n_values: int, counts: Iterable[tuple[str, int]]) -> str:
    """Say how many values were unknown, and in which columns.

    Examples
    --------
    >>> unknown_in_words(3, [("plan", 1), ("region", 2)])
    '3 values were categories that the model does not know (region 2, plan 1): to learn them, run accous fit again.'
    """
    values = count(n_values, "value was a category", "values were categories")
    ordered = sorted(counts, key=lambda pair: -pair[1])
    named = [f"{name} {number:,}" for name, number in ordered[:_MOST_NAMED]]
    more = [f"{len(ordered) - _MOST_NAMED} more columns"] if len(ordered) > _MOST_NAMED else []
    where = f" ({', '.join([*named, *more])})" if named else ""
    them = "it" if n_values == 1 else "them"
    return f"{values} that the model does not know{where}: to learn {them}, run accous fit again."
