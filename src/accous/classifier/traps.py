"""Warnings at ``fit`` of what misleads a model: counters, columns that give the label away, tiny classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from accous.classifier.task import Task
from accous.diagnostics.coverage import follows_rows
from accous.exceptions import TrapWarning

__all__ = ["warn_of_traps"]

_FEWEST_ROWS = 200  # with fewer, every class is small, and a column determines the label by chance


def warn_of_traps(rows: Any, task: Task, names: Callable[[], list[str]], *, is_ordered: bool = False) -> None:
    """Issue a `TrapWarning` for each trap in the reference.

    Parameters
    ----------
    rows : array or frame of shape (n_reference, n_features)
        Columns of a frame are not looked at.
    task : Task
        Knows the traps in the labels.
    names : callable
        Returns the names of the columns.
    is_ordered : bool, default=False
        Whether the rows are in order of time; only then is a column that follows their order a counter.
    """
    if len(task) < _FEWEST_ROWS:
        return
    for sentence in task.traps():
        _warn(sentence)
    if not isinstance(rows, np.ndarray) or rows.dtype.kind != "f":
        return
    for column, what in task.columns_of_label(rows):
        _warn(f"Column {names()[column]!r} alone predicts {what}: leave it out if it is not known before the label is.")
    if is_ordered:
        for column in range(rows.shape[1]):
            if follows_rows(rows[:, column]):
                _warn(
                    f"Column {names()[column]!r} counts the rows: leave it out, or all later rows are new to the model."
                )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, TrapWarning, stacklevel=4)  # at the caller of `fit`
