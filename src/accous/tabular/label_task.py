"""Whether the label of a table is a class or a number to predict: decided by its values, unless the user says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.exceptions import DataError

__all__ = ["CLASSES", "CLASSIFICATION", "REGRESSION", "TASKS", "LabelTask", "find_task"]

CLASSIFICATION, REGRESSION = TASKS = ("classification", "regression")
# Numbers with fewer different values are rather the names of classes.
_MOST_FRACTIONS, _MOST_WHOLE = 10, 50
_MOST_CLASSES = 200


@dataclass(frozen=True)
class LabelTask:
    """What is done with a label, and why.

    Attributes
    ----------
    name : {"classification", "regression"}
    sentence : str
        How that was decided, if the label could be either; otherwise empty.
    """

    name: str
    sentence: str = ""

    @property
    def kind(self) -> str:
        """The kind of the model: "classifier" or "regressor"."""
        return "regressor" if self.name == REGRESSION else "classifier"

    def read(self, labels: pl.Series, column: str, table: str) -> NDArray[Any]:
        """Return labels, all known, as the model takes them: numbers, whole numbers or text."""
        return _as_numbers(labels) if self.name == REGRESSION else _as_classes(labels, column, table)

    def is_bad(self, labels: pl.Series) -> NDArray[np.bool_]:
        """Where there is a label that cannot be used."""
        if self.name != REGRESSION:
            return np.zeros(len(labels), dtype=bool)
        return labels.is_not_null().to_numpy() & ~np.isfinite(_as_numbers(labels))


CLASSES = LabelTask(CLASSIFICATION)


def find_task(labels: pl.Series, column: str, chosen: str | None) -> LabelTask:
    """Decide what the label is.

    Whole numbers with more than 50 different values, and other numbers with more than 10, are numbers to predict.

    Parameters
    ----------
    labels : polars.Series
        As text; null where there is none.
    column : str
        For the sentence.
    chosen : {"classification", "regression"}, optional
        What the user says.

    Examples
    --------
    >>> import polars as pl
    >>> from accous.tabular.label_task import find_task
    >>> find_task(pl.Series(["yes", "no"]), "y", None).name
    'classification'
    >>> find_task(pl.Series([f"{number / 8}" for number in range(100)]), "y", None).name
    'regression'
    """
    if chosen is not None:
        return LabelTask(chosen)
    known = labels.drop_nulls()
    numbers = _as_numbers(known)
    if not len(known) or not np.isfinite(numbers).all():
        return LabelTask(CLASSIFICATION)
    n_different = len(np.unique(numbers))
    is_whole = bool((numbers % 1.0 == 0.0).all())
    if n_different > (_MOST_WHOLE if is_whole else _MOST_FRACTIONS):
        return LabelTask(
            REGRESSION,
            f"Column {column!r} has {n_different:,} different numbers, so numbers are predicted. If they are classes, "
            f"say --task {CLASSIFICATION}.",
        )
    if n_different <= 2:
        return LabelTask(CLASSIFICATION)
    return LabelTask(
        CLASSIFICATION,
        f"Column {column!r} has {n_different} different numbers, which are taken as classes. If they are to be "
        f"predicted as numbers, say --task {REGRESSION}.",
    )


def _as_numbers(labels: pl.Series) -> FloatArray:
    """Return numbers, and NaN where there is none."""
    return np.asarray(labels.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy(), dtype=np.float64)


def _as_classes(labels: pl.Series, name: str, table: str) -> NDArray[Any]:
    different = labels.unique().to_list()
    if len(different) < 2:
        raise DataError(f"{table}: the label {name!r} is always {different[0]!r}; at least two classes are needed.")
    if len(different) > _MOST_CLASSES:
        raise DataError(
            f"{table}: the label {name!r} has {len(different)} different values, too many for classes; if it is a "
            f"number, say --task {REGRESSION}."
        )
    if all(_is_whole_number(label) for label in different):
        return labels.cast(pl.Int64).to_numpy()
    return np.array(labels.to_list(), dtype=str)


def _is_whole_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 18 and str(int(text)) == text
