"""What the commands on tables share: options, consoles, checks and lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accous.exceptions import ParameterError
from accous.parameters import require_choice

if TYPE_CHECKING:
    from rich.console import Console

    from accous.model.backtest import Backtest

__all__ = [
    "LARGEST_SEED",
    "AsJson",
    "Categorical",
    "Drop",
    "EarlierPredictions",
    "Encoding",
    "Force",
    "KeepAsFeature",
    "KeptColumns",
    "KeyColumn",
    "Label",
    "ModelFolder",
    "NamedEstimator",
    "OnBadRow",
    "Ordered",
    "PredictionsFile",
    "Quiet",
    "ReferenceFile",
    "Rejects",
    "Separator",
    "TableFormat",
    "Time",
    "UnknownCategory",
    "print_backtest",
    "remarks_console",
    "require_between",
    "require_separator",
    "results_console",
]

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by accous fit.")]
PredictionsFile = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="PREDICTIONS", help="A .csv, .tsv, .jsonl or .parquet file; - is stdout, as CSV."
    ),
]
EarlierPredictions = Annotated[
    str | None,
    typer.Option(
        "--predictions",
        metavar="FILE",
        help="What accous adapt has written. Default: the output of the last run that has predicted rows.",
    ),
]
KeyColumn = Annotated[
    str | None,
    typer.Option("--key", metavar="COL", help="Column that identifies a row, copied in place of its line number."),
]
KeptColumns = Annotated[
    list[str] | None, typer.Option("--keep", metavar="COL,...", help="Columns to copy to the predictions.")
]
UnknownCategory = Annotated[
    str,
    typer.Option(
        "--unknown-category", metavar="use|bad",
        help="Use categories that the reference does not have, or treat their rows as bad rows.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
LARGEST_SEED = 2**32 - 1

ReferenceFile = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="Labelled rows: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
]
Label = Annotated[
    str,
    typer.Option(
        "--label", "--target", metavar="COL|FILE",
        help="The label column, or a separate file: labels.npy, labels.csv:COL.",
    ),
]  # fmt: skip
Task = Annotated[
    str | None,
    typer.Option(
        "--task", metavar="classification|regression",
        help="What the label is. Default: numbers with many different values are predicted as numbers.",
    ),
]  # fmt: skip
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL,...", help="Columns to leave out.", rich_help_panel="The table"),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", metavar="COL,...", help="Columns to read as categories even if they look like numbers.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Time = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="COL", help="Sort the rows by this column of dates or numbers.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Ordered = Annotated[
    bool | None,
    typer.Option(
        "--ordered/--unordered", help="The rows already are in order of time, or have none.", show_default=False,
        rich_help_panel="The table",
    ),
]  # fmt: skip
KeepAsFeature = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-as-feature", metavar="COL,...", help="Columns to use even if they look like ids, counters or times.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
TableFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="Format of the table (csv, jsonl, ...), if its name does not tell it.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Encoding of a text file, such as latin-1; UTF-8 or UTF-16 if not given.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="CHAR", help="Field separator of a CSV file. Default: found in the header.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
NamedEstimator = Annotated[
    str | None,
    typer.Option(
        "--estimator", metavar="MODULE:NAME",
        help="Needed if the model was fitted with code of your own: the same name as for fit.",
        rich_help_panel="The model",
    ),
]  # fmt: skip
OnBadRow = Annotated[
    str,
    typer.Option(
        "--on-bad-row", metavar="fail|skip", help="Stop at a bad row, or set it aside and continue.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Rejects = Annotated[
    str | None,
    typer.Option(
        "--rejects", metavar="FILE", help="CSV file for the rows set aside, with line and reason.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide the progress bar and remarks.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


def remarks_console(*, quiet: bool) -> Console:
    """Console for remarks and progress, on stderr: results alone go to stdout."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet, highlight=False)


def results_console() -> Console:
    """Console for results."""
    from rich.console import Console

    return Console(highlight=False)


def print_backtest(found: Backtest | None, reason: str = "", *, is_ordered: bool) -> None:
    """Print what the replay of the reference showed, or why there is none.

    Parameters
    ----------
    found : Backtest, optional
    reason : str
        Why there is none, if the model says so itself.
    is_ordered : bool
        Whether the reference has an order in time.
    """
    console = results_console()
    if found is not None:
        sentences: tuple[str, ...] = (found.sentences[0], found.how, found.sentences[1])
    elif reason:
        sentences = (f"Nothing is verified: {reason[0].lower()}{reason[1:]}",)
    elif is_ordered:
        sentences = ("Nothing is verified: the reference has too few rows to replay them.",)
    else:
        hint = "If its rows have one, use --time COL or --ordered."
        sentences = (f"Nothing is verified: the reference has no order in time. {hint}",)
    for sentence in filter(None, sentences):
        console.print(sentence, markup=False, soft_wrap=True)


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Raise a ParameterError for a number out of range."""
    if not low <= value <= high:
        raise ParameterError(f"{name} must be between {low} and {high}, got {value}.")


def require_task(task: str | None) -> str | None:
    """Return the task, or raise a ParameterError that names both."""
    return None if task is None else require_choice("--task", task, ("classification", "regression"))


def require_separator(separator: str | None) -> str | None:
    """Return a separator of one character; a backslash and t stand for a tab."""
    if separator is None:
        return None
    separator = separator.replace("\\t", "\t")
    if len(separator) != 1 or ord(separator) > 127 or separator in '"\n\r':
        raise ParameterError(f"--separator must be one character such as ';', got {separator!r}.")
    return separator
