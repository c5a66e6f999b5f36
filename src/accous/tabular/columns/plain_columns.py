"""Encoded features folded back into plain columns, for models that need no encoding: trees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from accous.arrays import FloatArray
from accous.tabular.columns.plans import CategoryColumn, ColumnPlan, NumberColumn

__all__ = ["PlainColumns", "blocks_of", "is_category"]

NUMBERS, MARKED, CATEGORY = "numbers", "number with mark", "category"
Block = tuple[str, int]


class PlainColumns(TransformerMixin, BaseEstimator):
    """Folds the features of a table back: a category becomes one column of codes, a missing number becomes NaN.

    The model of a table keeps its rows as the features that a linear model reads. Trees do better with categories as
    categories and with missing values as they are. A number stays scaled, which means nothing to a tree. A number that
    is missing nowhere in the reference has no mark, so where it is missing later it stays the median.

    Parameters
    ----------
    blocks : tuple of (str, int)
        For every column of the table what it is, "numbers", "number with mark" or "category", and how many features it
        has.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.tabular.columns.plain_columns import PlainColumns
    >>> columns = PlainColumns((("number with mark", 2), ("category", 3)))
    >>> columns.fit_transform(np.array([[0.5, 0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0]]))
    array([[0.5, 1. ],
           [nan, 0. ]])
    """

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        self.blocks = blocks

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Do nothing: the blocks say everything."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Return one column for each number, each category and each coordinate of a date."""
        if all(kind == NUMBERS for kind, _ in self.blocks):
            return X
        columns: list[FloatArray] = []
        start = 0
        for kind, n_features in self.blocks:
            part = X[:, start : start + n_features]
            columns.append(part if kind == NUMBERS else _fold(part, kind)[:, None])
            start += n_features
        return np.concatenate(columns, axis=1)


def _fold(part: FloatArray, kind: str) -> FloatArray:
    """Return one column in place of several features."""
    if kind == MARKED:
        return np.where(part[:, 1] > 0.0, np.nan, part[:, 0])
    return np.where(part.max(axis=1) > 0.0, part.argmax(axis=1).astype(np.float64), np.nan)


def blocks_of(plans: Iterable[ColumnPlan]) -> tuple[Block, ...]:
    """Return what `PlainColumns` needs to know about the columns in use."""
    return tuple((_kind(plan), len(plan.feature_names)) for plan in plans)


def is_category(blocks: tuple[Block, ...]) -> list[bool]:
    """Return for each plain column whether it is a category."""
    return [kind == CATEGORY for kind, n_features in blocks for _ in range(n_features if kind == NUMBERS else 1)]


def _kind(plan: ColumnPlan) -> str:
    if isinstance(plan, CategoryColumn):
        return CATEGORY
    return MARKED if isinstance(plan, NumberColumn) and plan.marks_missing else NUMBERS
