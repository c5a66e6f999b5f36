"""``accous adapt``, the online stage, and ``accous predict``, which leaves the model as it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import (
    announcing_compilation,
    give_up_stdout,
    locked_model,
    remarks_console,
    require_folder,
    require_no_batches_left,
    results_console,
    say,
    stop_on_signals,
)
from accous.cli.status import status_line
from accous.table.options import AdaptOptions, PredictOptions
from accous.text import ProgressBar, count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.diagnostics.losses import LossScale
    from accous.table.adapt import AdaptJob, PredictJob
    from accous.table.runs import Job

EXAMPLES = """
Examples:

`accous adapt model/ stream.csv -o predictions.csv --key id`

`accous adapt model/ stream.csv -o predictions.csv --by day --label y`

`tail -n +1 -f log.csv | accous adapt model/ - --batch-size 1 > predictions.csv`

`accous adapt model/ log.jsonl -o predictions.jsonl --follow --on-bad-row skip`

`accous adapt model/ stream.npy -o predictions.csv --label stream_labels.npy`
"""

PREDICT_EXAMPLES = """
Examples:

`accous predict model/ rows.csv -o predictions.csv --key id`

`accous predict model/ rows.parquet -o predictions.parquet --keep day,hour`

`cat rows.jsonl | accous predict model/ - --format jsonl > predictions.csv`
"""


def adapt(options: AdaptOptions) -> int:
    """Predict a stream batch by batch, and learn from each batch how the inputs drift.

    Each row of the output has its line and an id (or your key), the columns that you keep, the round, the predicted
    class, the probability of each class, and the ratio: how much more common such rows are now than in the reference.
    If the command is stopped or killed, run it again to continue. If the file has grown, run it again to append.
    """
    try:
        with locked_model(options.model, "accous adapt"):
            return _run(options, remarks_console(quiet=options.quiet))
    except BrokenPipeError:
        return give_up_stdout()


def _run(options: AdaptOptions, remarks: Console) -> int:
    from accous.table.adapt import AdaptJob, summarize_run

    job = AdaptJob(options)
    if not job.begin():
        remarks.print(f"Nothing to do: {options.output} is finished. New rows need another output file.")
        if options.as_json:
            typer.echo(json.dumps(summarize_run(job.table_model.snapshot()), indent=2))
        return 0
    say(remarks, *_first_remarks(job))
    has_end = job.table.share_read() is not None
    with (
        stop_on_signals() as request_to_stop,
        announcing_compilation(remarks),
        ProgressBar("Reading", 1.0 if has_end else None, console=remarks) as bar,
    ):
        is_finished = job.follow(should_stop=request_to_stop, on_round=_progress(job, bar))
    if is_finished and job.record.n_rows == job.n_rows_before:
        _remark_on_nothing(job, remarks)
    numbers = summarize_run(job.table_model.snapshot())
    if options.as_json:
        typer.echo(json.dumps(numbers, indent=2))
    else:
        _print_summary(job, numbers, remarks, is_finished=is_finished)
    return 0 if is_finished else request_to_stop.exit_code


def _progress(job: AdaptJob, bar: ProgressBar) -> Callable[[Job], None]:
    """Return what shows rounds, rows per second, and errors if there are labels."""
    scale, start_time, start_rows = _scale(job), time.monotonic(), job.n_rows_before

    def show(record: Job) -> None:
        if not bar.is_due():
            return
        rate = (record.n_rows - start_rows) / max(time.monotonic() - start_time, 1e-9)
        text = f"round {record.n_rounds:,}, {count(record.n_rows, 'row')}, {rate:,.0f} rows per second"
        if record.n_scored:
            fixed, ours = (scale.shown(each / record.n_scored) for each in (record.n_wrong_fixed, record.n_wrong))
            text += f"; {scale.name} of the fixed model {fixed}, of accous {ours}"
        bar.show(job.table.share_read() or 0.0, text)

    return show


def _first_remarks(job: AdaptJob) -> Iterator[str]:
    """Yield what the reader should know before the run goes on."""
    if job.doubt is not None:
        yield job.doubt
    if job.abandoned is not None:
        yield f"The unfinished run on {job.abandoned} is abandoned: it was stopped before it saved a round."
    if job.is_reference:
        text = (
            f"{job.options.stream} is the file that the model was fitted on: its rows are not new to the model, so what"
        )
        yield f"{text} it says about them does not hold for a stream."
    if job.is_followed_again:
        yield "An earlier run followed this stream: the model learns it again. To only predict, use accous predict."
    if job.n_rows_before:
        yield f"Resuming after row {job.n_rows_before:,} ({job.table.unit} {job.record.position.line:,})."


def _remark_on_nothing(job: AdaptJob, remarks: Console) -> None:
    """Say why no row was predicted, unless bad rows tell it."""
    if job.n_rows_before:
        remarks.print(f"Nothing new in {job.table.name}.")
    elif not job.record.n_rejected:
        remarks.print(f"{job.table.name} has no rows: nothing was predicted.")


def _scale(job: AdaptJob) -> LossScale:
    """Return how errors are written."""
    from accous.diagnostics.losses import LossScale

    return LossScale(job.table_model.model.task_.loss_name)


def _print_summary(job: AdaptJob, numbers: dict[str, Any], remarks: Console, *, is_finished: bool) -> None:
    record, output = job.record, job.options.output
    console = remarks if output == "-" else results_console()
    state = "" if is_finished else "Stopped and saved; run the same command again to continue. "
    where = "" if output == "-" else f" in {output}"
    text = f"{state}{count(record.n_rows, 'row')} in {count(record.n_rounds, 'round')}{where}."
    if record.n_scored:
        scale = _scale(job)
        fixed, ours = scale.shown(numbers["error_fixed"]), scale.shown(numbers["error"])
        text += f" {scale.name.capitalize()} of the fixed model {fixed}, of accous {ours}"
        text += f" ({count(record.n_scored, 'labelled row')})."
    say(console, text, status_line(job.table_model.snapshot()))
    say(remarks, *_remarks(job))


def _remarks(job: AdaptJob) -> Iterator[str]:
    """Yield what the reader should know about the rows that were read."""
    record, model = job.record, job.table_model
    yield from _remarks_on_values(job, record)
    if job.repeated_key is not None:
        yield f"Several rows have {job.options.key} = {job.repeated_key}: a late label belongs to the last of them."
    backwards = model.backwards_in_words(record.n_rounds)
    if backwards:
        yield backwards


def _remarks_on_values(job: AdaptJob | PredictJob, counted: Job | PredictJob) -> Iterator[str]:
    """Yield how many rows were set aside, and which categories are new."""
    if counted.n_rejected:
        where = "" if job.rejects_path is None else f", in {job.rejects_path}"
        yield f"{count(counted.n_rejected, 'bad row')} set aside{where}."
    if counted.n_unknown:
        from accous.table.runs import unknown_in_words

        yield unknown_in_words(counted.n_unknown, counted.unknown_in)


# --- accous predict


def predict(options: PredictOptions) -> int:
    """Predict rows without learning from them.

    The output has the columns of accous adapt; 'round' is the last one that the model has learned from. The model does
    not change, but its folder remembers the predictions for late labels.
    """
    require_folder(options.model)
    require_no_batches_left(options.model, may_be_served=True)
    from accous.table.adapt import PredictJob

    remarks = remarks_console(quiet=options.quiet)
    job = PredictJob(options)
    try:
        with stop_on_signals() as request_to_stop, announcing_compilation(remarks), remarks.status("Predicting"):
            is_finished = job.run(request_to_stop)
    except BrokenPipeError:
        return give_up_stdout()
    if not is_finished:
        return request_to_stop.exit_code
    if options.as_json:
        typer.echo(json.dumps(job.summary(), indent=2))
    else:
        _print_predicted(job, remarks)
    return 0


def _print_predicted(job: PredictJob, remarks: Console) -> None:
    output = job.options.output
    console = remarks if output == "-" else results_console()
    where = "" if output == "-" else f" in {output}"
    learned = count(job.table_model.model.n_rounds_, "round")
    text = f"{count(job.n_rows, 'row')}{where}, predicted after {learned}; nothing was learned."
    say(console, text)
    if not job.is_remembered:
        say(remarks, f"{job.options.model} cannot be written to, so it does not remember the predictions.")
    say(remarks, *_remarks_on_values(job, job))
