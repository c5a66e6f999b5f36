"""Rows of a stream that was predicted before, read again for their features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.formats.chunks import Chunk, Position, digest_of
from accous.tabular.formats.opening import open_table
from accous.tabular.formats.sources import STDIN
from accous.tabular.job_record import Job
from accous.tabular.label_tables import place_texts
from accous.tabular.table_model import TableModel

__all__ = ["read_stream_rows"]


def read_stream_rows(
    table_model: TableModel, job: Job, places: pl.Series, *, key: str | None, n_header: int
) -> NDArray[np.float64] | None:
    """Return the features of rows of the stream that a run has predicted.

    Parameters
    ----------
    table_model : TableModel
    job : Job
        The run.
    places : polars.Series
        Keys or row numbers, as text, in the order of the stream.
    key : str, optional
        Column of the keys.
    n_header : int
        Lines before the first row.

    Returns
    -------
    array of shape (n_rows, n_features) or None
        None if the stream cannot be read again: it was piped, is gone or has changed, or some row is not in it.
    """
    if job.spec.stream == STDIN or not Path(job.spec.stream).is_file():
        return None
    try:
        return _read(table_model, job, places, key, n_header)
    except DataError:
        return None


def _read(
    table_model: TableModel, job: Job, places: pl.Series, key: str | None, n_header: int
) -> NDArray[np.float64] | None:
    options = job.spec.options
    table = open_table(
        job.spec.stream,
        options.get("format") or None,
        encoding=options.get("encoding") or None,
        separator=options.get("separator") or None,
        widths=table_model.settings.get("widths", {}),
    )
    wanted = list(dict.fromkeys([*table_model.encoder.used_columns, *([] if key is None else [key])]))
    pieces, found, is_same = [], [], False
    try:
        if any(name not in table.columns for name in wanted):
            return None
        for chunk in table.chunks(wanted, Position()):
            if chunk is None:
                continue
            rows = _rows_at(chunk, places, key, n_header)
            features = table_model.encoder.encode(chunk.frame[rows])
            if features.bad_values:
                return None
            pieces.append(features.X)
            found.append(_places(chunk, key, n_header)[rows])
            is_same = is_same or _is_end_of(chunk, job.position)
            if len(chunk.ends) and chunk.ends[-1] >= job.position.end:
                break
    finally:
        table.close()
    is_whole = bool(found) and pl.concat(found).to_list() == places.to_list()
    return np.concatenate(pieces) if is_same and is_whole else None


def _places(chunk: Chunk, key: str | None, n_header: int) -> pl.Series:
    return pl.Series(chunk.lines - n_header).cast(pl.String) if key is None else place_texts(chunk.frame[key])


def _rows_at(chunk: Chunk, places: pl.Series, key: str | None, n_header: int) -> list[int]:
    is_wanted = _places(chunk, key, n_header).is_in(places.to_list()).fill_null(False)
    return np.flatnonzero(is_wanted.to_numpy()).tolist()


def _is_end_of(chunk: Chunk, position: Position) -> bool:
    """Whether the last row that the run has read is in this chunk, and is still the same."""
    rows = np.flatnonzero(chunk.ends == position.end)
    if not len(rows):
        return False
    return not position.tail_digest or digest_of(chunk.row_bytes(int(rows[0]))) == position.tail_digest
