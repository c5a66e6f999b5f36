"""``accous predict``: predictions from a model that stays as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from accous.cli.options import (
    compile_with_notice,
    give_up_stdout,
    remarks_console,
    require_folder,
    require_no_batches_left,
    results_console,
    say,
    stop_on_signals,
)
from accous.table.options import PredictOptions
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.table.adapt import PredictJob

__all__ = ["EXAMPLES", "predict"]

EXAMPLES = """
Examples:

`accous predict model/ rows.csv -o predictions.csv --key id`

`accous predict model/ rows.parquet -o predictions.parquet --keep day,hour`

`cat rows.jsonl | accous predict model/ - --format jsonl > predictions.csv`
"""


def predict(options: PredictOptions) -> int:
    """Predict rows without learning from them; the model's folder only remembers what was predicted.

    The output has the columns that accous adapt writes: the line of each row and an id, or your key, what you keep,
    the last round that the model has learned from, the predicted class, the probability of each class, and the ratio.
    """
    require_folder(options.model)
    require_no_batches_left(options.model, may_be_served=True)
    from accous.table.adapt import PredictJob

    remarks = remarks_console(quiet=options.quiet)
    job = PredictJob(options)
    compile_with_notice(remarks)
    try:
        with stop_on_signals() as request_to_stop, remarks.status("Predicting"):
            is_finished = job.run(request_to_stop)
    except BrokenPipeError:
        return give_up_stdout()
    if not is_finished:
        return request_to_stop.exit_code
    if options.as_json:
        typer.echo(json.dumps(job.summary(), indent=2))
    else:
        _print_summary(job, remarks)
    return 0


def _print_summary(job: PredictJob, remarks: Console) -> None:
    output = job.options.output
    console = remarks if output == "-" else results_console()
    where = "" if output == "-" else f" in {output}"
    learned = count(job.table_model.model.n_rounds_, "round")
    text = f"{count(job.n_rows, 'row')}{where}, predicted after {learned}; nothing was learned."
    say(console, text)
    if not job.is_remembered:
        say(remarks, f"{job.options.model} cannot be written to, so it does not remember the predictions.")
    if job.n_rejected:
        where = "" if job.rejects_path is None else f", in {job.rejects_path}"
        say(remarks, f"{count(job.n_rejected, 'bad row')} set aside{where}.")
    if job.n_unknown:
        from accous.table.runs import unknown_in_words

        say(remarks, unknown_in_words(job.n_unknown, job.unknown_in))
