"""Rows that come twice: a key that several rows of a run have, and a stream that an earlier run has followed."""

from __future__ import annotations

import polars as pl

from accous.exceptions import DataError
from accous.tabular.formats.chunks import Position
from accous.tabular.formats.opening import open_table
from accous.tabular.formats.sources import STDIN
from accous.tabular.job_record import Job
from accous.tabular.label_tables import place_texts
from accous.tabular.stream_rows import is_unchanged
from accous.tabular.table_model import TableModel

__all__ = ["first_repeated", "followed_before"]


def first_repeated(predictions: str, key: str) -> str | None:
    """Return the first key that several rows of a file have, as labels would be joined by it; None if there is none.

    Parameters
    ----------
    predictions : str
        What a run has written.
    key : str
        Its column of keys.
    """
    try:
        keys = _keys(predictions, key).drop_nulls()
    except DataError:  # the run is done: what cannot be read back is said when labels are joined
        return None
    repeated = keys.filter(keys.is_duplicated())
    return str(repeated[0]) if len(repeated) else None


def _keys(predictions: str, key: str) -> pl.Series:
    table = open_table(predictions)
    try:
        pieces = [place_texts(chunk.frame[key]) for chunk in table.chunks([key], Position()) if chunk is not None]
    finally:
        table.close()
    return pl.concat(pieces) if pieces else pl.Series(dtype=pl.String)


def followed_before(table_model: TableModel, before: Job | None, stream: str) -> str | None:
    """Return what an earlier run has written about the same rows of a stream; None if none has.

    A file that was replaced by other rows is another stream, even if it has the same name.

    Parameters
    ----------
    table_model : TableModel
    before : Job, optional
        The last run before the one that begins.
    stream : str
        The absolute path of its stream.
    """
    runs = [*table_model.earlier_runs, *([] if before is None else [before])]
    same = [run for run in runs if run.n_rows and run.spec.stream == stream != STDIN]
    # Only the last of them: each takes a pass over the stream, and a file that was replaced daily has many.
    return same[-1].spec.output if same and is_unchanged(table_model, same[-1]) else None
