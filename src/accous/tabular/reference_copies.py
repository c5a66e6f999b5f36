"""Labelled rows that are in the reference already, such as the file that ``accous fit`` was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import BoolArray
from accous.tabular.label_kinds import LabelKind
from accous.tabular.remembered_rows import numbers_of_lines
from accous.text import count

__all__ = ["RowsToJoin", "copies_in_words", "rows_to_join"]

_FEWEST = 20
_LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class RowsToJoin:
    """Which of some labelled rows join the reference.

    Attributes
    ----------
    is_new : array of bool
        The rows that join.
    is_copy : array of bool
        The rows that do not, because the reference has them already.
    n_alike : int
        Rows that join although a single row of the reference is the same; 0 if they are few.
    """

    is_new: BoolArray
    is_copy: BoolArray
    n_alike: int = 0


def rows_to_join(
    model: Any, kind: LabelKind, X: NDArray[np.float64], labels: pl.Series, is_unknown: BoolArray
) -> RowsToJoin:
    """Return which rows join the reference, and which are copies of rows that it has.

    A row repeats one of the reference if their features and labels have the same bits and the reference has that row
    once. If more than half of the different rows repeat one, and at least twenty, they are taken for the same rows, and
    do not join again. Rows may also be alike because few categories make them so, or because the same customers come
    again with the same features. Then some of them have another label than the row of the reference with their
    features. One such row is enough to let all join: leaving out the others would leave changed labels only.

    Parameters
    ----------
    model : AdaptiveClassifier or AdaptiveRegressor
    kind : LabelKind
        Of the model.
    X : array of shape (n_rows, n_features)
    labels : polars.Series
        As text.
    is_unknown : array of bool
        The rows that have not joined before, by their names.
    """
    none = np.zeros(len(X), dtype=bool)
    if is_unknown.sum() < _FEWEST:
        return RowsToJoin(is_unknown, none)
    truths = pl.Series([str(truth) for truth in model.task_.truths.tolist()], dtype=pl.String)
    known, n_times = np.unique(_contents(kind, model.reference_, truths), return_counts=True)
    contents = _contents(kind, X, labels)
    is_repeated = is_unknown & np.isin(contents, known[n_times == 1])
    n_repeated = len(np.unique(contents[is_repeated]))
    if n_repeated < _FEWEST:
        return RowsToJoin(is_unknown, none)
    is_other = is_unknown & ~is_repeated
    has_other_label = np.isin(_contents(kind, X[is_other]), _contents(kind, model.reference_)).any()
    if n_repeated > _LARGEST_SHARE * len(np.unique(contents[is_unknown])) and not has_other_label:
        return RowsToJoin(is_unknown & ~is_repeated, is_repeated)
    return RowsToJoin(is_unknown, none, int(is_repeated.sum()))


def copies_in_words(n_copies: int) -> str:
    """Say how many rows did not join because the reference has them."""
    are = count(n_copies, "row is in the reference already and does", "rows are in the reference already and do")
    return f"{are} not join again: label and features are the same. Give new rows only."


def _contents(kind: LabelKind, X: NDArray[np.float64], labels: pl.Series | None = None) -> NDArray[np.uint64]:
    """Return a number for each row, from its features and its label, if that counts."""
    content = np.asarray(X, dtype=np.float64) + 0.0  # -0.0 is 0.0
    if labels is not None:
        answers = np.asarray(kind.true_answers(labels), dtype=np.float64) + 0.0
        content = np.column_stack((answers, content))
    return numbers_of_lines(np.zeros(len(content), dtype=np.int64), content)
