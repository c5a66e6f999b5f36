"""What ``accous extend`` is asked to do, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accous.tabular.formats.chunks import BadRow

__all__ = ["ExtendRequest", "RowsJoined"]


@dataclass(frozen=True, kw_only=True)
class ExtendRequest:
    """Labelled rows and how they join.

    Attributes
    ----------
    model : Path
        The folder of the table model.
    rows : str
        The file, or ``"-"`` for the standard input: labelled rows with the columns of the model, or late labels of
        rows that a run has predicted.
    label : str, optional
        Column of the labels, or their file; None: the one of the reference.
    key : str, optional
        Column that names a row; a row joins once.
    predictions : str, optional
        What the run has written that late labels are about; None: the output of the last run.
    is_ordered : bool, optional
        Whether the rows are in order of time, or have none; None: as ``fit`` put the reference in order.
    max_reference : int, optional
    drop : {"oldest", "least weight"}
        As for `accous.AdaptiveClassifier.extend`.
    table_format, encoding, separator : str, optional
        Of the rows, where they cannot be told from the file.
    skips_bad : bool
        Whether bad rows are set aside, or are an error.
    rejects : str, optional
        File for the rows set aside.
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    """

    model: Path
    rows: str
    label: str | None = None
    key: str | None = None
    predictions: str | None = None
    is_ordered: bool | None = None
    max_reference: int | None = None
    drop: str = "oldest"
    table_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    skips_bad: bool = False
    rejects: str | None = None
    estimator: str | None = None


@dataclass(frozen=True, kw_only=True)
class RowsJoined:
    """What became of the rows in a file.

    Attributes
    ----------
    n_read : int
        Rows of the file that could be read.
    n_joined, n_before : int
        Rows that joined now, and rows that had joined before.
    n_copies : int
        Rows that did not join because the reference has them already, such as those that ``fit`` was given.
    n_alike : int
        Rows that joined although a row of the reference is the same; 0 if they are few.
    n_missing, n_unmatched : int
        Rows without a label, and late labels without a row in the stream.
    n_unnamed : int
        Late labels without a key; ``key`` is the name of its column.
    n_left : int
        Rows that left the reference.
    new_classes : list of str
    bad_rows : list of BadRow
        The rows set aside.
    joined_by : str
        How late labels were joined with their rows, in words; empty if the file has the rows itself.
    """

    n_read: int
    n_joined: int
    n_before: int
    n_copies: int
    n_alike: int
    n_missing: int
    n_unmatched: int
    n_unnamed: int
    key: str
    n_left: int
    new_classes: list[str]
    bad_rows: list[BadRow]
    joined_by: str
