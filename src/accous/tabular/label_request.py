"""What ``accous labels`` is asked to do, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["LabelRequest", "LabelsCounted"]


@dataclass(frozen=True, kw_only=True)
class LabelRequest:
    """Late labels and where they belong.

    Attributes
    ----------
    model : Path
        The folder of the table model.
    labels : str
        The file, or ``"-"`` for the standard input.
    key : str, optional
        Column that names a row, in the labels and in the predictions. None: the one
        that the run was given, or ``line``, if the labels have it; otherwise by position.
    label : str, optional
        Column of the labels.
    predictions : str, optional
        None: the output of the last run that has predicted rows.
    table_format, encoding, separator : str, optional
        Of the labels, where they cannot be told from the file.
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    """

    model: Path
    labels: str
    key: str | None = None
    label: str | None = None
    predictions: str | None = None
    table_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    estimator: str | None = None


@dataclass(frozen=True, kw_only=True)
class LabelsCounted:
    """What became of the labels in a file.

    Attributes
    ----------
    n_read : int
        Rows of the file.
    n_counted : int
        Labels that were counted now.
    n_before : int
        Labels that an earlier call has counted.
    n_differing : int
        How many of those have another class now; what was counted stays.
    n_unmatched : int
        Labels without a prediction; ``first_unmatched`` is the place of one.
    n_missing, n_repeated : int
        Rows without a label, and rows that repeat another one.
    n_unnamed : int
        Rows that have a label, but no key; ``key`` is the name of its column.
    joined_by : str
        How labels and predictions were joined, in words.
    n_earlier : int
        Labels that are not counted, because they are about predictions from before rows joined the reference.
    has_rows : bool
        Whether the rows were found in the stream, so that P(y | x) can be tested and the fixed model is measured too.
    is_known_run : bool
        Whether the predictions are those of a run that the model remembers, whose stream can be read again.
    """

    n_read: int
    n_counted: int
    n_before: int
    n_differing: int
    n_unmatched: int
    first_unmatched: str
    n_missing: int
    n_repeated: int
    n_unnamed: int
    key: str
    joined_by: str
    n_earlier: int
    has_rows: bool
    is_known_run: bool
