"""What a run of ``accous adapt`` is asked to do: the stream, the output, and all options that the output depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from accous.exceptions import ParameterError
from accous.tabular.formats.labelled import place_of_labels
from accous.tabular.formats.opening import written_format_of
from accous.tabular.formats.sources import STDIN
from accous.tabular.formats.writing import partial_path
from accous.tabular.job_record import JobSpec, absolute

__all__ = ["AdaptRequest"]


@dataclass(frozen=True, kw_only=True)
class AdaptRequest:
    """A stream to follow and how to follow it.

    Attributes
    ----------
    model : Path
        The folder of the table model.
    stream, output : str
        Files, or ``"-"`` for standard input and output.
    batch_size : int
        Rows in a round, unless ``by`` is given.
    by : str, optional
        Start a new round when this column changes.
    learns_first : bool
        Whether to learn from a batch before it is predicted.
    key : str, optional
        Column that identifies a row; it is the first one of the predictions, in place of the line.
    keep : list of str
        Columns to copy to the predictions.
    label : str, optional
        Column or file of labels, for scoring only.
    follows : bool
        Whether to wait for more rows at the end of the stream.
    is_new : bool
        Whether to abandon an unfinished run.
    overwrites : bool
        Whether existing output may be replaced.
    table_format, encoding, separator : str, optional
        Of the stream, if they cannot be inferred from the file.
    skips_bad : bool
        Whether bad rows are set aside, or stop the run.
    rejects : str, optional
        File for the rows set aside.
    accepts_unknown : bool
        Whether categories that the reference does not have are used, or make their rows bad ones.
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    stream_argument : str
        What the command calls the stream, for messages.
    """

    model: Path
    stream: str
    output: str
    batch_size: int = 10
    by: str | None = None
    learns_first: bool = False
    key: str | None = None
    keep: list[str] = field(default_factory=list)
    label: str | None = None
    follows: bool = False
    is_new: bool = False
    overwrites: bool = False
    table_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    skips_bad: bool = False
    rejects: str | None = None
    accepts_unknown: bool = True
    estimator: str | None = None
    stream_argument: str = "STREAM"

    @property
    def output_format(self) -> str:
        """Format of the predictions."""
        return "csv" if self.output == STDIN else written_format_of(self.output)

    def require_output_format(self) -> None:
        """Raise a ParameterError if the name of the predictions does not say how to write them."""
        _ = self.output_format

    @property
    def text_output(self) -> str:
        """The file that rows are appended to."""
        return partial_path(self.output) if self.output_format == "parquet" else self.output

    @property
    def text_format(self) -> str:
        """Format of the file that rows are appended to."""
        return "csv" if self.output_format == "parquet" else self.output_format

    @property
    def rejects_path(self) -> str | None:
        """Where rows set aside go: next to the predictions, unless another file is named."""
        if not self.skips_bad or (self.rejects is None and self.output == STDIN):
            return self.rejects
        return self.rejects or f"{self.output}.rejects.csv"

    def spec(self, kept: list[str]) -> JobSpec:
        """Return everything that the output depends on.

        Parameters
        ----------
        kept : list of str
            The columns that ``keep`` stands for.
        """
        options = {
            "batch-size": self.batch_size if self.by is None else 0,
            "by": self.by or "",
            "learn-first": self.learns_first,
            "key": self.key or "",
            "keep": ",".join(kept),
            "label": self.label or "",
            "encoding": self.encoding or "",
            "separator": self.separator or "",
            "format": self.table_format or "",
            "on-bad-row": "skip" if self.skips_bad else "fail",
            "unknown-category": "use" if self.accepts_unknown else "bad",
        }
        rejects = self.rejects_path
        return JobSpec(
            absolute(self.stream), absolute(self.output), "" if rejects is None else absolute(rejects), options
        )

    def require_separate_files(self) -> None:
        """Raise a ParameterError where two files are the same, or one is inside the model's folder."""
        labels = place_of_labels(self.label or "") or (None, "")
        files = [(self.stream_argument, self.stream), ("--label", labels[0])]
        files += [("--output", self.output), ("--rejects", self.rejects_path)]
        seen: dict[str, str] = {}
        for name, path in files:
            if path is None or path == STDIN:
                continue
            place = absolute(path)
            if place in seen:
                raise ParameterError(f"{seen[place]} and {name} are the same file, {path}: give another one.")
            seen[place] = name
            if Path(place).parent == self.model.absolute():
                raise ParameterError(f"{name} {path} is inside the model's folder: give another one.")
