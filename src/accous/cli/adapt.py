"""``accous adapt``: the online stage, from a stream of unlabelled rows to predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from accous.cli.adapt_run import run_adapt
from accous.cli.locked_model import locked_model
from accous.cli.options import (
    AsJson,
    Encoding,
    KeptColumns,
    KeyColumn,
    ModelFolder,
    NamedEstimator,
    OnBadRow,
    PredictionsFile,
    Quiet,
    Rejects,
    Separator,
    TableFormat,
    UnknownCategory,
    remarks_console,
    require_between,
    require_separator,
)
from accous.cli.stopping import give_up_stdout
from accous.exceptions import ParameterError
from accous.parameters import require_choice

if TYPE_CHECKING:
    from accous.table.adapt import SaveRule

__all__ = ["EXAMPLES", "adapt"]

EXAMPLES = """
Examples:

`accous adapt model/ stream.csv -o predictions.csv --key id`

`accous adapt model/ stream.csv -o predictions.csv --by day --label y`

`tail -n +1 -f log.csv | accous adapt model/ - --batch-size 1 > predictions.csv`

`accous adapt model/ log.jsonl -o predictions.jsonl --follow --on-bad-row skip`

`accous adapt model/ stream.npy -o predictions.csv --label stream_labels.npy`
"""
_ROUNDS, _RUN = "Rounds", "The run"
_LARGEST_BATCH = 1_000_000
_Stream = Annotated[
    str, typer.Argument(metavar="STREAM", help="Unlabelled rows: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
]
_BatchSize = Annotated[int, typer.Option("--batch-size", help="Rows in a round.", rich_help_panel=_ROUNDS)]
_By = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="COL", help="Start a new round when this column changes, such as a date.",
        rich_help_panel=_ROUNDS,
    ),
]  # fmt: skip
_LearnFirst = Annotated[
    bool,
    typer.Option("--learn-first", help="Learn from a batch before predicting it, not after.", rich_help_panel=_ROUNDS),
]
_Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COL|FILE", help="Labels, as for fit; only for scoring, never learned from."),
]
_Follow = Annotated[
    bool,
    typer.Option("--follow", help="Wait for more rows at the end of the file; stop with Ctrl-C.", rich_help_panel=_RUN),
]
_SaveEvery = Annotated[
    str,
    typer.Option(
        "--save-every", metavar="N|Ns", help="Save every N rounds (1000) or N seconds (30s).", rich_help_panel=_RUN
    ),
]
_New = Annotated[
    bool,
    typer.Option("--new", help="Start a new run, and abandon an unfinished one.", rich_help_panel=_RUN),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace existing predictions.", rich_help_panel=_RUN)]


def adapt(
    model: ModelFolder,
    stream: _Stream,
    output: PredictionsFile = "-",
    batch_size: _BatchSize = 10,
    by: _By = None,
    learn_first: _LearnFirst = False,
    key: KeyColumn = None,
    keep: KeptColumns = None,
    label: _Label = None,
    follow: _Follow = False,
    save_every: _SaveEvery = "30s",
    new: _New = False,
    force: _Force = False,
    table_format: TableFormat = None,
    encoding: Encoding = None,
    separator: Separator = None,
    on_bad_row: OnBadRow = "fail",
    rejects: Rejects = None,
    unknown_category: UnknownCategory = "use",
    estimator: NamedEstimator = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Predict a stream batch by batch, and learn from each batch how the inputs drift.

    The output has the line of each row or your key, the columns that you keep, the round, the predicted class, the
    probability of each class, and the ratio: how much more common such a row is now than in the reference. If the
    command is stopped or killed, run it again and it continues exactly where it was. If the file has grown since, run
    it again and it appends.
    """
    require_between("--batch-size", batch_size, 1, _LARGEST_BATCH)
    require_choice("--on-bad-row", on_bad_row, ("fail", "skip"))
    require_choice("--unknown-category", unknown_category, ("use", "bad"))
    if as_json and output == "-":
        raise ParameterError("--json and the predictions both go to stdout: give the predictions a file with -o.")
    from accous.table.adapt import AdaptRequest

    request = AdaptRequest(
        model=model,
        estimator=estimator,
        stream=stream,
        output=output,
        batch_size=batch_size,
        by=by,
        learns_first=learn_first,
        key=key,
        keep=keep or [],
        label=label,
        follows=follow,
        is_new=new,
        overwrites=force,
        table_format=table_format,
        encoding=encoding,
        separator=require_separator(separator),
        skips_bad=on_bad_row == "skip",
        rejects=rejects,
        accepts_unknown=unknown_category == "use",
    )
    remarks = remarks_console(quiet=quiet)
    try:
        with locked_model(model, "accous adapt"):
            return run_adapt(request, _save_rule(save_every), remarks, as_json=as_json)
    except BrokenPipeError:
        return give_up_stdout()


def _save_rule(text: str) -> SaveRule:
    from accous.table.adapt import SaveRule

    try:
        rule = SaveRule(seconds=float(text[:-1])) if text.endswith("s") else SaveRule(rounds=int(text))
    except ValueError:
        rule = SaveRule(rounds=0)
    if (rule.rounds is not None and rule.rounds < 1) or not rule.seconds > 0:
        raise ParameterError(
            f"--save-every must be a number of rounds such as 1000 or of seconds such as 30s, got {text!r}."
        )
    return rule
