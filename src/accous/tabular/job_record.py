"""A run over a stream: its specification and its progress."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accous.exceptions import DataError
from accous.tabular.formats.chunks import Position
from accous.tabular.formats.opening import written_format_of
from accous.tabular.formats.sources import STDIN
from accous.tabular.formats.writing import partial_path
from accous.tabular.unknown_counts import UnknownCounts

__all__ = ["Job", "JobSpec", "absolute", "begin_or_resume", "require_free"]


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
        # Options that came later change the output too.
        return "the columns of an older accous" if other.options.keys() - self.options.keys() else ""

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


def require_free(rejects: str) -> None:
    """Raise a DataError if the file for bad rows already exists."""
    if rejects and Path(rejects).is_file():
        raise DataError(f"{rejects} already exists: name another file with --rejects, or use --force to replace it.")


def absolute(path: str) -> str:
    """Return the absolute path; ``"-"`` stays as it is."""
    return path if path == STDIN else os.path.abspath(path)  # noqa: PTH100 (links stay as they are)
