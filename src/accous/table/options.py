"""What the commands on tables are asked to do: one dataclass a command.

A field is declared once, with what the command line shows of it. ``accous.cli`` reads the dataclass as the command's
options, the command's job runs on the same object, and the record of a run on disk is made from its fields. The module
loads no numerical library, so that ``accous --help`` answers at once.
"""

# Annotations are values here, not texts: typer and dataclasses would take milliseconds to read them at each start.

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from accous.exceptions import ParameterError
from accous.text import require_choice

# --- Options whose values are checked when they are read


def one_of(name: str, choices: str, **shown: Any) -> Any:
    """Return an option that takes one of some words, which are separated by ``|``."""

    def check(value: str | None) -> str | None:
        return None if value is None else require_choice(name, value, tuple(choices.split("|")))

    return typer.Option(name, metavar=choices, callback=check, **shown)


def between(name: str, low: float, high: float, **shown: Any) -> Any:
    """Return an option that takes a number between two others."""

    def check(value: float | None) -> float | None:
        if value is not None and not low <= value <= high:
            raise ParameterError(f"{name} must be between {low} and {high}, got {value}.")
        return value

    return typer.Option(name, callback=check, **shown)


def _one_character(separator: str | None) -> str | None:
    """Return a separator of one character; a backslash and t stand for a tab."""
    if separator is None:
        return None
    separator = separator.replace("\\t", "\t")
    if len(separator) != 1 or ord(separator) > 127 or separator in '"\n\r':
        raise ParameterError(f"--separator must be one character such as ';', got {separator!r}.")
    return separator


def _in_panel(panel: str) -> Callable[..., Any]:
    """Return what makes options that the help shows in one panel."""
    return partial(typer.Option, rich_help_panel=panel)


# --- Options that several commands have


_MODEL, _TABLE, _ROUNDS, _RUN = "The model", "The table", "Rounds", "The run"
_of_model, _of_table, _of_rounds, _of_run = map(_in_panel, (_MODEL, _TABLE, _ROUNDS, _RUN))
_LARGEST_BATCH, _MOST_LABELS, _MOST_DAYS = 1_000_000, 1_000_000, 36_500
LARGEST_SEED = 2**32 - 1

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder made by accous fit.")]
NamedEstimator = Annotated[
    str | None,
    _of_model(metavar="MODULE:NAME", help="The same name as for fit, if the model was fitted with your own code."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide the progress bar and remarks.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]

_Reference = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="Labelled rows: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
]
_Label = Annotated[
    str,
    typer.Option(
        "--label",
        "--target",
        metavar="COL|FILE",
        help="The label column, or a separate file: labels.npy, labels.csv:COL.",
    ),
]
_Task = Annotated[
    str | None,
    one_of(
        "--task",
        "classification|regression",
        help="What the label is. Default: numbers with many different values are predicted as numbers.",
    ),
]
_Drop = Annotated[list[str] | None, _of_table(metavar="COL,...", help="Columns to leave out.")]
_Categorical = Annotated[
    list[str] | None, _of_table(metavar="COL,...", help="Columns to read as categories even if they look like numbers.")
]
_KeepAsFeature = Annotated[
    list[str] | None, _of_table(metavar="COL,...", help="Columns to use even if they look like ids, counters or times.")
]
_Time = Annotated[str | None, _of_table(metavar="COL", help="Sort the rows by this column of dates or numbers.")]
_Ordered = Annotated[
    bool | None,
    _of_table(
        "--ordered/--no-ordered", help="Whether the rows are in order of time. Default: detected.", show_default=False
    ),
]
_Format = Annotated[
    str | None, _of_table(metavar="NAME", help="Format of the table (csv, jsonl, ...), if the file name does not say.")
]
_Encoding = Annotated[
    str | None,
    _of_table(metavar="NAME", help="Encoding of a text file, such as latin-1. Default: UTF-8 or UTF-16."),
]
_Separator = Annotated[
    str | None,
    _of_table(
        metavar="CHAR", help="Field separator of a CSV file. Default: detected in the header.", callback=_one_character
    ),
]
_OnBadRow = Annotated[
    str,
    one_of(
        "--on-bad-row", "fail|skip", help="Stop at a bad row, or set it aside and continue.", rich_help_panel=_TABLE
    ),
]
_Rejects = Annotated[
    str | None, _of_table(metavar="FILE", help="CSV file for the rows set aside, with line and reason.")
]
_UnknownCategory = Annotated[
    str,
    one_of(
        "--unknown-category",
        "use|bad",
        help="Use categories that the reference does not have, or treat their rows as bad rows.",
        rich_help_panel=_TABLE,
    ),
]
_Predictions = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="PREDICTIONS", help="A .csv, .tsv, .jsonl or .parquet file; - is stdout, as CSV."
    ),
]
_Key = Annotated[
    str | None, typer.Option(metavar="COL", help="Column that identifies a row, copied in place of its line number.")
]
_Keep = Annotated[list[str] | None, typer.Option(metavar="COL,...", help="Columns to copy to the predictions.")]


# --- The commands


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What all commands that read a table are told."""

    format: _Format = None
    encoding: _Encoding = None
    separator: _Separator = None
    quiet: Quiet = False
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class _RowsOptions(TableOptions):
    """What the commands that predict are told."""

    output: _Predictions = "-"
    key: _Key = None
    keep: _Keep = None
    on_bad_row: _OnBadRow = "fail"
    rejects: _Rejects = None
    unknown_category: _UnknownCategory = "use"
    estimator: NamedEstimator = None

    def __post_init__(self) -> None:
        if self.as_json and self.output == "-":
            raise ParameterError("--json and the predictions both go to stdout: give the predictions a file with -o.")


@dataclass(frozen=True, kw_only=True)
class FitOptions(TableOptions):
    """A reference to fit on and how to fit; without an ``output`` it is only replayed."""

    reference: _Reference
    label: _Label
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="MODEL", help="The model's folder.")]
    task: _Task = None
    drop: _Drop = None
    categorical: _Categorical = None
    time: _Time = None
    ordered: _Ordered = None
    keep_as_feature: _KeepAsFeature = None
    estimator: Annotated[
        str,
        _of_model(
            metavar="auto|linear|boosting|forest|MODULE:NAME",
            help="What predicts; auto: linear and boosting together. MODULE:NAME: your function that makes a "
            "classifier.",
        ),
    ] = "auto"
    ratio: Annotated[
        str,
        _of_model(metavar="accous|ulsif|kliep|kmm|lr|olre|none", help="How to estimate the drift; none never adapts."),
    ] = "accous"
    feature_map: Annotated[str | None, _of_model(metavar="NAME", help="Feature map of the ratio, such as rbf.")] = None
    loss: Annotated[
        str | None,
        _of_model(metavar="NAME", help="Loss of the ratio (accous and olre), such as kl. A wrong name lists them all."),
    ] = None
    max_ratio: Annotated[float | None, _of_model(help="Upper bound of the ratios. Default: 100.")] = None
    C: Annotated[float, _of_model("--C", help="Inverse regularisation strength of the linear model.")] = 1.0
    alpha: Annotated[float, _of_model(help="Penalty of the linear regression, for numbers.")] = 1.0
    class_weight: Annotated[
        str | None,
        one_of(
            "--class-weight",
            "balanced",
            help="Give rare classes as much weight as frequent ones.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    metric: Annotated[
        str | None,
        _of_model(
            metavar="NAME",
            help="The metric behind state and alarm, such as roc_auc, recall, f1_macro or cost. Default: error, or "
            "mean_absolute_error.",
        ),
    ] = None
    cost: Annotated[
        str | None,
        _of_model(
            metavar="FILE", help="CSV of costs for --metric cost: true classes as rows, predicted ones as columns."
        ),
    ] = None
    threshold: Annotated[
        float | None,
        between(
            "--threshold",
            0.0,
            1.0,
            help="Probability from which the metric counts a row as the second of two classes.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    refit_budget: Annotated[
        float | None,
        _of_model(metavar="SHARE", help="Largest share of the running time for refits of forest or MODULE:NAME."),
    ] = 0.2
    adaptation: Annotated[
        str,
        one_of(
            "--adaptation",
            "auto|always|never",
            help="Predict with the adapted model where that is supported, always, or never.",
            rich_help_panel=_MODEL,
        ),
    ] = "auto"
    seed: Annotated[int, between("--seed", 0, LARGEST_SEED, help="Random seed.", rich_help_panel=_MODEL)] = 0
    on_bad_row: _OnBadRow = "fail"
    rejects: _Rejects = None
    force: Force = False


@dataclass(frozen=True, kw_only=True)
class BacktestOptions(TableOptions):
    """Labelled history to replay."""

    reference: _Reference
    label: _Label
    task: _Task = None
    time: _Time = None
    ordered: Annotated[bool, _of_table("--ordered", help="The rows are already in order of time.")] = False
    batch_size: Annotated[int, between("--batch-size", 1, _LARGEST_BATCH, help="Rows in a round of the replay.")] = 10
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture of the replays, such as replays.png.")] = (
        None
    )
    estimator: Annotated[
        str, _of_model(metavar="auto|linear|boosting|forest|MODULE:NAME", help="What predicts; auto: as in fit.")
    ] = "auto"
    drop: _Drop = None
    categorical: _Categorical = None
    keep_as_feature: _KeepAsFeature = None
    force: Force = False

    def to_fit(self) -> FitOptions:
        """Return how to fit on the history: nothing is saved."""
        names = {each.name for each in fields(FitOptions)}
        chosen = {each.name: getattr(self, each.name) for each in fields(self) if each.name in names}
        chosen["ordered"] = self.ordered or None
        return FitOptions(**chosen, output=None, refit_budget=None)


@dataclass(frozen=True)
class SaveRule:
    """When to save during a run: after a number of rounds, or after a number of seconds.

    Neither changes the output.
    """

    rounds: int | None = None
    seconds: float = 30.0

    def is_due(self, n_rounds: int, last_time: float) -> bool:
        """Whether to save after this round."""
        if self.rounds is not None:
            return n_rounds % self.rounds == 0
        return time.monotonic() - last_time >= self.seconds

    def rounds_left(self, n_rounds: int, most: int) -> int:
        """Return how many more rounds there are until one may be due, at most so many."""
        return most if self.rounds is None else min(most, self.rounds - n_rounds % self.rounds)


@dataclass(frozen=True, kw_only=True)
class AdaptOptions(_RowsOptions):
    """A stream to follow and how to follow it."""

    model: ModelFolder
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="Unlabelled rows: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
    ]
    batch_size: Annotated[
        int, between("--batch-size", 1, _LARGEST_BATCH, help="Rows in a round.", rich_help_panel=_ROUNDS)
    ] = 10
    by: Annotated[
        str | None, _of_rounds(metavar="COL", help="Start a new round when this column changes, such as a date.")
    ] = None
    learn_first: Annotated[
        bool, _of_rounds("--learn-first", help="Learn from a batch before predicting it, not after.")
    ] = False
    label: Annotated[
        str | None, typer.Option(metavar="COL|FILE", help="Labels, as for fit; only for scoring, never learned from.")
    ] = None
    follow: Annotated[
        bool, _of_run("--follow", help="Wait for more rows at the end of the file; stop with Ctrl-C.")
    ] = False
    save_every: Annotated[str, _of_run(metavar="N|Ns", help="Save every N rounds (1000) or N seconds (30s).")] = "30s"
    keep_days: Annotated[
        int,
        between(
            "--keep-days",
            1,
            _MOST_DAYS,
            metavar="N",
            help="Days after which predictions and their labels are forgotten.",
            rich_help_panel=_RUN,
        ),
    ] = 90
    new: Annotated[bool, _of_run("--new", help="Start a new run, abandoning an unfinished one.")] = False
    force: Annotated[bool, _of_run("--force", help="Replace existing predictions.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.save_rule()

    def save_rule(self) -> SaveRule:
        """Return what ``save_every`` says."""
        text = self.save_every
        try:
            rule = SaveRule(seconds=float(text[:-1])) if text.endswith("s") else SaveRule(rounds=int(text))
        except ValueError:
            rule = SaveRule(rounds=0)
        if (rule.rounds is not None and rule.rounds < 1) or not rule.seconds > 0:
            raise ParameterError(
                f"--save-every must be a number of rounds such as 1000 or of seconds such as 30s, got {text!r}."
            )
        return rule

    def record(self, kept: list[str]) -> dict[str, Any]:
        """Return the options that the predictions depend on, by their names on the command line.

        Parameters
        ----------
        kept : list of str
            The columns that ``keep`` stands for.
        """
        chosen = {name.replace("_", "-"): getattr(self, name) for name in _RECORDED}
        chosen |= {"keep": ",".join(kept)} | ({} if self.by is None else {"batch-size": 0})
        return {name: "" if value is None else value for name, value in chosen.items()}


_RECORDED = (
    *("batch_size", "by", "learn_first", "key", "keep", "label", "encoding", "separator", "format", "on_bad_row"),
    "unknown_category",
)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(_RowsOptions):
    """Rows to predict."""

    model: ModelFolder
    rows: Annotated[
        str, typer.Argument(metavar="ROWS", help="Rows to predict: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
    ]
    force: Force = False


@dataclass(frozen=True, kw_only=True)
class LabelsOptions(TableOptions):
    """Late labels and where they belong."""

    model: ModelFolder
    labels: Annotated[
        str | None, typer.Argument(metavar="LABELS", help="Late labels: CSV, TSV, JSON lines or Parquet; - is stdin.")
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Column that identifies the row, as in accous adapt. Default: its --key, id or line.",
        ),
    ] = None
    id: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="Column that holds the id of the prediction.")
    ] = None
    label: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the labels. Default: named as in the reference.")
    ] = None
    measure_only: Annotated[
        bool, typer.Option("--measure-only", help="Measure with these labels, and do not learn from them.")
    ] = False
    undo: Annotated[bool, typer.Option("--undo", help="Withdraw the last file of labels.")] = False
    forget: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Delete what is remembered of the row with this key.")
    ] = None
    estimator: NamedEstimator = None

    def __post_init__(self) -> None:
        if (self.labels is not None) + self.undo + bool(self.forget) != 1:
            raise ParameterError("Give one of these: a file of labels, --undo, or --forget KEY.")
        if self.key is not None and self.id is not None:
            raise ParameterError("--key and --id both name the column to join by: give one.")


@dataclass(frozen=True, kw_only=True)
class AskOptions(TableOptions):
    """Rows to choose from, and how many labels are wanted."""

    model: ModelFolder
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="Rows to choose from: CSV, TSV, JSON lines, Parquet or npy.")
    ]
    n: Annotated[int | None, between("-n", 1, _MOST_LABELS, metavar="N", help="How many rows to label.")] = None
    labels_per: Annotated[
        tuple[int, int] | None,
        typer.Option("--labels-per", metavar="ROWS N", help="A budget: N labels for every ROWS rows, such as 1000 50."),
    ] = None
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PATH", help="CSV file for the chosen rows, with an empty label column."
        ),
    ]
    key: _Key = None
    with_predictions: Annotated[
        bool, typer.Option("--with-predictions", help="Add the predictions, which may bias the people who label.")
    ] = False
    force: Force = False
    estimator: NamedEstimator = None

    def __post_init__(self) -> None:
        if (self.n is None) == (self.labels_per is None):
            raise ParameterError("Say how many labels: -n N, or --labels-per ROWS N.")
        if self.labels_per is not None and not 0 < self.labels_per[1] < self.labels_per[0]:
            raise ParameterError("--labels-per ROWS N needs fewer labels than rows, such as 1000 50.")


_WORKERS, _SAVING, _LIMITS = "Workers", "Saving", "Limits"
_LARGEST_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """A model to serve, and how."""

    model: ModelFolder
    host: Annotated[str, typer.Option(help="Address to listen on; --token-file is needed for all but localhost.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, between("--port", 0, _LARGEST_PORT, help="Port to listen on; 0 takes a free one.")] = 8321
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of tokens: lines 'read: TOKEN' and 'write: TOKEN'.")
    ] = None
    workers: Annotated[
        int, between("--workers", 0, 256, help="Extra processes that only predict.", rich_help_panel=_WORKERS)
    ] = 0
    read_port: Annotated[
        int,
        between(
            "--read-port", 0, _LARGEST_PORT, help="Port of the workers; 0 takes a free one.", rich_help_panel=_WORKERS
        ),
    ] = 8322
    learn_first: Annotated[
        bool, typer.Option("--learn-first", help="Learn from a batch before predicting it, not after.")
    ] = False
    estimator: NamedEstimator = None
    save_batches: Annotated[
        int, between("--save-batches", 1, 10_000_000, help="Batches between two saves.", rich_help_panel=_SAVING)
    ] = 5_000
    save_seconds: Annotated[
        float | None,
        between(
            "--save-seconds",
            0.1,
            1e9,
            help="Longest time between two saves. Default: 60 seconds, or 2 with workers.",
            rich_help_panel=_SAVING,
        ),
    ] = None
    max_body: Annotated[
        float, between("--max-body", 0.001, 1_024, help="Largest request, in megabytes.", rich_help_panel=_LIMITS)
    ] = 16.0
    max_rows: Annotated[
        int, between("--max-rows", 1, 1_000_000, help="Most rows in a request.", rich_help_panel=_LIMITS)
    ] = 10_000
    queue: Annotated[
        int, between("--queue", 1, 1_000_000, help="Batches that may wait to be learned.", rich_help_panel=_LIMITS)
    ] = 1_024
    quiet: Quiet = False
