"""Rows of a stream that was predicted before, read again for their features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.marks import Marks
from accous.tabular.formats.chunks import Chunk, Position, TableReader, digest_of
from accous.tabular.formats.opening import open_table
from accous.tabular.formats.sources import STDIN
from accous.tabular.job_record import Job
from accous.tabular.label_tables import LINE, place_texts
from accous.tabular.table_model import TableModel

__all__ = ["StreamRows", "is_unchanged", "open_stream_again", "read_stream_rows"]


@dataclass(frozen=True)
class StreamRows:
    """Rows of a stream.

    Attributes
    ----------
    stream : str
        Its path.
    lines : array of shape (n_rows,)
    X : array of shape (n_rows, n_features)
    marks : Marks
        What they show in single columns.
    """

    stream: str
    lines: NDArray[np.int64]
    X: NDArray[np.float64]
    marks: Marks


def read_stream_rows(
    table_model: TableModel, job: Job, places: pl.Series, *, place_column: str | None
) -> StreamRows | None:
    """Return the features of rows of the stream that a run has predicted.

    Parameters
    ----------
    table_model : TableModel
    job : Job
        The run.
    places : polars.Series
        Keys, lines or positions, as text, in the order of the stream.
    place_column : str, optional
        Column of the keys, or ``line``. None: by position.

    Returns
    -------
    StreamRows or None
        None if the stream cannot be read again: it was piped, is gone or has changed, or some row is not in it.
    """
    try:
        table = open_stream_again(table_model, job)
        if table is None:
            return None
        try:
            return _find(table, table_model.encoder, job, places, place_column)
        finally:
            table.close()
    except DataError:
        return None


def open_stream_again(table_model: TableModel, job: Job) -> TableReader | None:
    """Open the stream of a run as the run did; None if it was piped or is gone."""
    if job.spec.stream == STDIN or not Path(job.spec.stream).is_file():
        return None
    options = job.spec.options
    return open_table(
        job.spec.stream,
        options.get("format") or None,
        encoding=options.get("encoding") or None,
        separator=options.get("separator") or None,
        widths=table_model.settings.get("widths", {}),
    )


def is_unchanged(table_model: TableModel, job: Job) -> bool:
    """Whether the stream of a run can be read again, and the last row that the run has read is still there."""
    try:
        table = open_stream_again(table_model, job)
    except DataError:  # emptied or damaged since
        return False
    if table is None:
        return False
    try:
        table.read_if_simple(table.columns[:1])
        chunks = table.chunks(table.columns[:1], Position())
        return any(_is_end_of(chunk, job) for chunk in chunks if chunk is not None)
    except DataError:
        return False
    finally:
        table.close()


def _find(
    table: TableReader, encoder: ColumnEncoder, job: Job, places: pl.Series, place_column: str | None
) -> StreamRows | None:
    """Read the table up to where the run has read it, and keep the rows that are sought."""
    keys = [] if place_column in (None, LINE) else [place_column]
    needed = list(dict.fromkeys([*encoder.used_columns, *keys]))
    if any(name not in table.columns for name in needed):
        return None
    wanted = list(dict.fromkeys([*needed, *(name for name in encoder.constants if name in table.columns)]))
    pieces, lines, found, is_same, n_before, sought = [], [], [], False, 0, places.to_list()
    for chunk in table.chunks(wanted, Position()):
        if chunk is None:
            continue
        here = _places(chunk, place_column, n_before)
        n_before += chunk.frame.height
        rows = np.flatnonzero(here.is_in(sought).fill_null(False).to_numpy()).tolist()
        features = encoder.encode(chunk.frame[rows])
        if features.bad_values:
            return None
        pieces.append(features)
        lines.append(chunk.lines[rows])
        found.append(here[rows])
        is_same = is_same or _is_end_of(chunk, job)
        if len(chunk.ends) and chunk.ends[-1] >= job.position.end:
            break
    if not (is_same and found and pl.concat(found).to_list() == sought):
        return None
    marks = reduce(Marks.followed_by, [piece.marks for piece in pieces])
    X = np.concatenate([piece.X for piece in pieces])
    return StreamRows(job.spec.stream, np.concatenate(lines), X, marks)


def _places(chunk: Chunk, place_column: str | None, n_before: int) -> pl.Series:
    if place_column is None:
        return pl.Series(np.arange(n_before + 1, n_before + chunk.frame.height + 1)).cast(pl.String)
    return pl.Series(chunk.lines).cast(pl.String) if place_column == LINE else place_texts(chunk.frame[place_column])


def _is_end_of(chunk: Chunk, job: Job) -> bool:
    """Whether the last row that the run has read is in this chunk, and is still the same."""
    rows = np.flatnonzero(chunk.ends == job.position.end)
    if not len(rows):
        return False
    if not job.position.tail_digest:
        return _is_older(job.spec.stream, job.spec.output)
    return digest_of(chunk.row_bytes(int(rows[0]))) == job.position.tail_digest


def _is_older(stream: str, output: str) -> bool:
    """Whether a stream was last written before a run wrote about it: a Parquet file that was replaced later was not.

    Rows of such files have no digest, and the file of another day has as many rows as that of today.
    """
    try:
        return Path(stream).stat().st_mtime_ns <= Path(output).stat().st_mtime_ns
    except OSError:
        return False
