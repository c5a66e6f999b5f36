"""The record of a run on disk: its place in the stream, counts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import DataError, ParameterError
from accous.table.columns import CATEGORIES, ColumnEncoder, Marks
from accous.table.readers import (
    STDIN,
    Position,
    partial_path,
    paths_beside,
    place_of_labels,
    spread_names,
    written_format_of,
)
from accous.text import count, did_you_mean, listed

# --- Categories that a model does not know, by column: accous fit decides which it knows, rows that join do not


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
    '3 values are categories unknown to the model (region 2, plan 1); labels of such rows teach it (accous ask).'
    """
    values = count(n_values, "value is a category", "values are categories")
    ordered = sorted(counts, key=lambda pair: -pair[1])
    named = [f"{name} {number:,}" for name, number in ordered[:_MOST_NAMED]]
    more = [f"{len(ordered) - _MOST_NAMED} more columns"] if len(ordered) > _MOST_NAMED else []
    where = f" ({', '.join([*named, *more])})" if named else ""
    return f"{values} unknown to the model{where}; labels of such rows teach it (accous ask)."


# --- Whether a file is the one that a model was fitted on: its length and a digest tell, under any name


def identify_file(path: str) -> dict[str, Any] | None:
    """Return length and digest of a file, ready for JSON; None if it is no file, such as the standard input."""
    file = Path(path)
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return {"bytes": file.stat().st_size, "digest": digest}


def is_same_file(path: str, known: dict[str, Any] | None) -> bool:
    """Whether a file has the length and the digest of another, which `identify_file` has returned."""
    file = Path(path)
    # A stream may be long: it is read for this only if it has the same length.
    if known is None or not file.is_file() or file.stat().st_size != known["bytes"]:
        return False
    return identify_file(path) == known


# --- A run over a stream: its specification and its progress


@dataclass(frozen=True)
class JobSpec:
    """The specification of a run: everything that its output depends on.

    Attributes
    ----------
    stream, output, rejects : str
        Absolute paths, or ``"-"``.
    options : dict
        The options, by the names they have on the command line.
    """

    stream: str
    output: str
    rejects: str
    options: dict[str, Any] = field(default_factory=dict)

    def difference(self, other: JobSpec) -> str:
        """Name one difference from another specification, besides the stream."""
        for name in ("output", "rejects"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} {getattr(self, name)}"
        for name, value in self.options.items():
            if other.options.get(name) != value:
                return f"--{name} {value}"
        return ""

    def is_taken_up_by(self, other: JobSpec) -> bool:
        """Whether a run with another specification continues this one.

        It does if both are the same, or if the other one sets the bad rows aside that ended this one: there was no bad
        row before, so the output so far is the same either way.
        """
        if self.options.get("on-bad-row") != "fail" or other.options.get("on-bad-row") != "skip":
            return self == other
        return replace(self, rejects=other.rejects, options={**self.options, "on-bad-row": "skip"}) == other


@dataclass(kw_only=True)
class Job:
    """A run and its progress; it is updated during the run.

    Attributes
    ----------
    spec : JobSpec
    position : Position
        How far the stream was read: up to the last row of the last round.
    n_output_bytes, n_reject_bytes : int
        Lengths of what was written.
    n_rows, n_rejected, n_rounds : int
    n_scored : int
        Rows with a label.
    n_wrong_fixed, n_wrong : float
        How many of them each model got wrong; sums of losses if numbers are predicted.
    n_missing, n_unknown : int
        Values that were missing, and categories that the model does not know.
    unknown_in : list of pairs
        The columns that these categories were in, and how many.
    is_finished : bool
        Whether the end of the stream was reached.
    source, first_id : int
        The number of the stream in the store of predictions, and the id of the first prediction.
    """

    spec: JobSpec
    position: Position = field(default_factory=Position)
    n_output_bytes: int = 0
    n_reject_bytes: int = 0
    n_rows: int = 0
    n_rejected: int = 0
    n_rounds: int = 0
    n_scored: int = 0
    n_wrong_fixed: float = 0
    n_wrong: float = 0
    n_missing: int = 0
    n_unknown: int = 0
    unknown_in: UnknownCounts = field(default_factory=list)
    is_finished: bool = False
    source: int = 0
    first_id: int = 0

    @property
    def has_results(self) -> bool:
        """Whether the run has saved rounds, or was stopped before its first save and has written rows."""
        if self.n_rounds or self.spec.output == STDIN:
            return self.n_rounds > 0
        is_parquet = written_format_of(self.spec.output) == "parquet"
        written = Path(partial_path(self.spec.output) if is_parquet else self.spec.output)
        return written.is_file() and written.stat().st_size > 0


def begin_or_resume(spec: JobSpec, before: Job | None, *, is_new: bool, overwrites: bool, folder: Path) -> Job:
    """Return the job to carry out: the previous one, if it has the same specification, or a new one.

    Parameters
    ----------
    spec : JobSpec
    before : Job, optional
        The last one of this model.
    is_new : bool
        Whether to give up an unfinished one.
    overwrites : bool
        Whether an output that exists may be replaced.
    folder : Path
        The model's folder, for messages.
    """
    is_same = before is not None and before.spec == spec and not is_new
    if before is not None and is_same and not (before.is_finished and spec.stream == STDIN):
        return replace(before, is_finished=False)
    if before is not None and not before.is_finished and not is_new and before.spec.is_taken_up_by(spec):
        if before.spec.rejects != spec.rejects and not overwrites:
            require_free(spec.rejects)
        return replace(before, spec=spec)
    if before is not None and not before.is_finished and not is_new and before.has_results:
        is_other = before.spec.stream != spec.stream
        run = f"run on {before.spec.stream}" + ("" if is_other else f" with {before.spec.difference(spec)}")
        raise DataError(
            f"{folder} has an unfinished {run}: run that command again to finish it, or abandon it with --new."
        )
    is_own = before is not None and not before.is_finished and before.spec.output == spec.output
    if spec.output != STDIN and Path(spec.output).is_file() and not (overwrites or is_own):
        raise DataError(
            f"{spec.output} already exists and is not an unfinished output of this model: give another name, or use "
            "--force to replace it."
        )
    is_own = before is not None and not before.is_finished and before.spec.rejects == spec.rejects
    if not (overwrites or is_own):
        require_free(spec.rejects)
    return Job(spec=spec)


def require_free(rejects: str | None) -> None:
    """Raise a DataError if the file for bad rows already exists."""
    if rejects and Path(rejects).is_file():
        raise DataError(f"{rejects} already exists: name another file with --rejects, or use --force to replace it.")


def require_separate_files(
    inputs: Mapping[str, str | None],
    outputs: Mapping[str, str | None],
    folder: Path | None = None,
    label: str | None = None,
) -> None:
    """Raise a ParameterError if an output is an input or another output, by any name, or is in the model's folder.

    Parameters
    ----------
    inputs, outputs : mapping of str to str
        Files by their names on the command line; None and ``"-"`` are left out.
    folder : Path, optional
        Of the model.
    label : str, optional
        What ``--label`` was given: a column, or a file that is one more input.
    """
    labels = place_of_labels(label or "") or (None, "")
    inputs = {**inputs, "--label": labels[0]}
    seen = {_place(path): name for name, path in inputs.items() if path is not None and path != STDIN}
    patterns = () if folder is None else ("*", "service/*")
    in_folder = {_place(str(path)) for pattern in patterns for path in (folder or Path()).glob(pattern)}
    for name, path in outputs.items():
        if path is None or path == STDIN:
            continue
        for each in paths_beside(path):
            place = _place(each)
            if place in seen:
                raise ParameterError(f"{seen[place]} and {name} are the same file, {each}: give another one.")
            if folder is not None and (place in in_folder or Path(each).resolve().is_relative_to(folder.resolve())):
                raise ParameterError(f"{name} {each} is inside the model's folder: give another one.")
            seen[place] = name


def _place(path: str) -> tuple[int, int] | str:
    """Return what two names of one file have in common: links of both kinds are followed."""
    try:
        found = Path(path).stat()
    except OSError:
        return os.path.realpath(path)
    # Two names of a terminal may be meant: only what is in a file can be lost.
    return (found.st_dev, found.st_ino) if S_ISREG(found.st_mode) else absolute(path)


def absolute(path: str) -> str:
    """Return the absolute path; ``"-"`` stays as it is."""
    return path if path == STDIN else os.path.abspath(path)  # noqa: PTH100 (links stay as they are)


# --- How much of a log of batches a model contains, saved with the model so that no batch counts twice


@dataclass(frozen=True)
class LogPosition:
    """A place in a log.

    Attributes
    ----------
    log : str
        The log's own name, drawn at random: another model in the same folder has another log.
    n_records : int
        The records that the model has carried out, counted from the first one that the log ever had.
    """

    log: str
    n_records: int


# --- Where a round ends: after a number of rows, or when a column changes


LARGEST_ROUND = 10_000  # a column that never changes must not fill the memory


@dataclass(frozen=True)
class RoundRule:
    """How rows are divided into rounds.

    Attributes
    ----------
    batch_size : int
        Rows in a round, if ``by`` is None.
    by : str, optional
        A column; a new round starts when its value changes, and after `LARGEST_ROUND` rows.
    """

    batch_size: int = 1
    by: str | None = None

    def stops(self, frame: pl.DataFrame, n_rows: int, *, is_end: bool) -> list[int]:
        """Return where the complete rounds end; at the end of the stream, the last round is complete too.

        The first row must begin a round. A frame without columns has no height, hence ``n_rows``. The result does not
        depend on the pieces in which a stream arrives.

        Examples
        --------
        >>> import polars as pl
        >>> days = pl.DataFrame({"day": ["mon", "mon", "tue", "wed", "wed"]})
        >>> RoundRule(by="day").stops(days, 5, is_end=False)
        [2, 3]
        >>> RoundRule(batch_size=2).stops(days, 5, is_end=True)
        [2, 4, 5]
        """
        if self.by is None:
            stops = list(range(self.batch_size, n_rows + 1, self.batch_size))
            if is_end and n_rows % self.batch_size:
                stops.append(n_rows)
            return stops
        # By another name: polars takes some names of columns for patterns.
        return self._stops_by_value(frame[self.by].alias("values"), is_end=is_end)

    def _stops_by_value(self, values: pl.Series, *, is_end: bool) -> list[int]:
        is_new = values.ne_missing(values.shift()).to_numpy()
        changes = [int(row) for row in np.flatnonzero(is_new) if row]
        stops: list[int] = []
        start = 0
        for change in [*changes, len(values)]:
            stops += range(start + LARGEST_ROUND, change, LARGEST_ROUND)
            stops.append(change)
            start = change
        last_start = stops[-2] if len(stops) > 1 else 0
        is_last_complete = is_end or len(values) - last_start >= LARGEST_ROUND
        return stops if is_last_complete and len(values) else stops[:-1]


# --- The columns that an option such as --keep names


def chosen_columns(
    option: str, values: list[str] | None, columns: list[str], table: str, widths: Mapping[str, int] | None = None
) -> list[str]:
    """Return the columns named by an option that can be repeated and takes names separated by commas.

    The name of an embedding, one of ``widths``, stands for all of its columns.

    Examples
    --------
    >>> chosen_columns("--keep", ["id", "day,hour"], ["id", "day", "hour"], "rows.csv")
    ['id', 'day', 'hour']
    """
    names = [name for value in values or [] for name in ([value] if value in columns else value.split(","))]
    widths = widths or {}
    names = [part for name in names for part in (spread_names(name, widths[name]) if name in widths else [name])]
    for name in names:
        if name not in columns:
            meant = did_you_mean(name, columns)
            raise ParameterError(f"{option} {name}: {table} has no such column{meant}; it has {listed(columns)}.")
    return list(dict.fromkeys(names))
