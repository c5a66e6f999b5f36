"""``accous predict``: predictions from a model that stays as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from accous.cli.locked_model import require_folder
from accous.cli.options import (
    AsJson,
    Encoding,
    Force,
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
    require_separator,
    results_console,
)
from accous.cli.stopping import give_up_stdout, stop_on_signals
from accous.exceptions import ParameterError
from accous.parameters import require_choice
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.table.adapt import AdaptRequest, PredictJob

__all__ = ["EXAMPLES", "predict"]

EXAMPLES = """
Examples:

`accous predict model/ rows.csv -o predictions.csv --key id`

`accous predict model/ rows.parquet -o predictions.parquet --keep id,day`

`cat rows.jsonl | accous predict model/ - --format jsonl > predictions.csv`
"""
_Rows = Annotated[
    str, typer.Argument(metavar="ROWS", help="Rows to predict: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
]


def predict(
    model: ModelFolder,
    rows: _Rows,
    output: PredictionsFile = "-",
    key: KeyColumn = None,
    keep: KeptColumns = None,
    force: Force = False,
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
    """Predict rows without learning from them; the model's folder stays as it is.

    The output has the columns that accous adapt writes: the line of each row or your key, the columns that you keep,
    the last round that the model has learned from, the predicted class, the probability of each class, and the ratio.
    """
    require_choice("--on-bad-row", on_bad_row, ("fail", "skip"))
    require_choice("--unknown-category", unknown_category, ("use", "bad"))
    if as_json and output == "-":
        raise ParameterError("--json and the predictions both go to stdout: give the predictions a file with -o.")
    require_folder(model)
    from accous.cli.compiling import compile_with_notice
    from accous.table.adapt import AdaptRequest, PredictJob

    request = AdaptRequest(
        model=model,
        estimator=estimator,
        stream=rows,
        stream_argument="ROWS",
        output=output,
        key=key,
        keep=keep or [],
        overwrites=force,
        table_format=table_format,
        encoding=encoding,
        separator=require_separator(separator),
        skips_bad=on_bad_row == "skip",
        rejects=rejects,
        accepts_unknown=unknown_category == "use",
    )
    remarks = remarks_console(quiet=quiet)
    job = PredictJob(request)
    compile_with_notice(remarks)
    try:
        with stop_on_signals() as request_to_stop, remarks.status("Predicting"):
            is_finished = job.run(request_to_stop)
    except BrokenPipeError:
        return give_up_stdout()
    if not is_finished:
        return request_to_stop.exit_code
    if as_json:
        typer.echo(json.dumps(job.summary(), indent=2))
    else:
        _print_summary(job, request, remarks)
    return 0


def _print_summary(job: PredictJob, request: AdaptRequest, remarks: Console) -> None:
    console = remarks if request.output == "-" else results_console()
    numbers = job.summary()
    where = "" if request.output == "-" else f" in {request.output}"
    learned = count(numbers["rounds_learned"], "round")
    text = f"{count(job.n_rows, 'row')}{where}, predicted after {learned}; nothing was learned."
    console.print(text, markup=False, soft_wrap=True)
    if job.n_rejected:
        where = "" if request.rejects_path is None else f", in {request.rejects_path}"
        remarks.print(f"{count(job.n_rejected, 'bad row')} set aside{where}.", markup=False, soft_wrap=True)
    if job.n_unknown:
        from accous.table.runs import unknown_in_words

        remarks.print(unknown_in_words(job.n_unknown, job.unknown_in), markup=False, soft_wrap=True)
