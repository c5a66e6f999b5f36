"""What ``accous adapt`` prints while its job runs, and at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import results_console
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.diagnostics.losses import LossScale
    from accous.table.adapt import AdaptJob, AdaptRequest, SaveRule

__all__ = ["run_adapt"]


def run_adapt(request: AdaptRequest, save_rule: SaveRule, remarks: Console, *, as_json: bool) -> int:
    """Carry out a request; return the exit code."""
    from accous.cli.adapt_progress import AdaptProgress
    from accous.cli.compiling import compile_with_notice
    from accous.cli.stopping import stop_on_signals
    from accous.table.adapt import AdaptJob

    job = AdaptJob(request)
    compile_with_notice(remarks)
    if not job.begin():
        remarks.print(f"Nothing to do: {request.output} is finished. New rows need another output file.", markup=False)
        if as_json:
            typer.echo(json.dumps(job.summary(), indent=2))
        return 0
    for text in _first_remarks(job, request):
        remarks.print(text, markup=False, soft_wrap=True)
    with stop_on_signals() as request_to_stop, AdaptProgress(remarks, job.table.share_read, _scale(job)) as progress:
        is_finished = job.follow(save_rule, should_stop=request_to_stop, on_round=progress)
    if is_finished and job.record.n_rows == job.n_rows_before:
        _remark_on_nothing(job, remarks)
    if as_json:
        typer.echo(json.dumps(job.summary(), indent=2))
    else:
        _print_summary(job, request, remarks, is_finished=is_finished)
    return 0 if is_finished else request_to_stop.exit_code


def _first_remarks(job: AdaptJob, request: AdaptRequest) -> Iterator[str]:
    """Yield what the reader should know before the run goes on."""
    if job.doubt is not None:
        yield job.doubt
    if job.abandoned is not None:
        yield f"The unfinished run on {job.abandoned} is abandoned: it was stopped before it saved a round."
    if job.is_reference:
        text = f"{request.stream} is the file that the model was fitted on: its rows are not new to the model, so what"
        yield f"{text} it says about them does not hold for a stream."
    if job.followed_before is not None:
        text = f"An earlier run, which wrote {job.followed_before}, followed this stream: the model learns it again."
        yield f"{text} To only predict, use accous predict."
    if job.n_rows_before:
        yield f"Resuming after row {job.n_rows_before:,} ({job.table.unit} {job.record.position.line:,})."


def _remark_on_nothing(job: AdaptJob, remarks: Console) -> None:
    """Say why no row was predicted, unless bad rows tell it."""
    if job.n_rows_before:
        remarks.print(f"Nothing new in {job.table.name}.", markup=False)
    elif not job.record.n_rejected:
        remarks.print(f"{job.table.name} has no rows: nothing was predicted.", markup=False)


def _scale(job: AdaptJob) -> LossScale:
    """Return how errors are written."""
    from accous.diagnostics.losses import LossScale

    return LossScale(job.table_model.model.task_.loss_name)


def _who_predicts(job: AdaptJob, numbers: dict[str, Any]) -> str:
    """Say how many rows carry the weight, or that it does not count because the fixed model predicts now."""
    from accous.model.watching import MAX_ROUNDS

    state = job.table_model.model.state_
    if state.fallback.veto.is_held:
        n_rounds = min(numbers["rounds"], MAX_ROUNDS)  # the log keeps no more
        share = state.rounds.share_adapted(n_rounds) if n_rounds else 0.0
        other = _share_adapted(share, n_rounds, numbers["rounds"])
        return f"The fixed model, which weighs all reference rows alike, predicts now{other}."
    n_effective, n_reference = numbers["effective_sample_size"], numbers["reference_rows"]
    return f"{n_effective:,.0f} of {n_reference:,} reference rows carry the weight."


def _share_adapted(share: float, n_counted: int, n_rounds: int) -> str:
    """Say in how many rounds the adapted model predicted; nothing if in none."""
    if not share:
        return ""
    which = "rounds" if n_counted == n_rounds else f"last {n_counted:,} rounds"
    part = f"{share:.0%}" if share >= 0.005 else "less than 1%"
    return f"; the adapted model predicted {part} of the {which}"


def _print_summary(job: AdaptJob, request: AdaptRequest, remarks: Console, *, is_finished: bool) -> None:
    record, numbers = job.record, job.summary()
    console = remarks if request.output == "-" else results_console()
    state = "" if is_finished else "Stopped and saved; run the same command again to continue. "
    where = "" if request.output == "-" else f" in {request.output}"
    text = f"{state}{count(record.n_rows, 'row')} in {count(record.n_rounds, 'round')}{where}."
    if record.n_scored:
        scale = _scale(job)
        fixed, ours = scale.shown(numbers["error_fixed"]), scale.shown(numbers["error"])
        text += f" {scale.name.capitalize()} of the fixed model {fixed}, of accous {ours}"
        text += f" ({count(record.n_scored, 'labelled row')})."
    else:
        text += f" {_who_predicts(job, numbers)}"
    console.print(text, markup=False, soft_wrap=True)
    for sentence in _remarks(job, request):
        remarks.print(sentence, markup=False, soft_wrap=True)


def _remarks(job: AdaptJob, request: AdaptRequest) -> Iterator[str]:
    """Yield what the reader should know about the rows that were read."""
    record, model = job.record, job.table_model
    if record.n_rejected:
        where = "" if request.rejects_path is None else f", in {request.rejects_path}"
        yield f"{count(record.n_rejected, 'bad row')} set aside{where}."
    measured = model.measured_ if record.n_scored else None
    if measured is not None and measured.unseen_classes:
        names = ", ".join(f"{name} ({n_rows:,})" for name, n_rows in measured.unseen_classes.items())
        yield f"Labels that the reference does not have count as errors: {names}."
    if job.repeated_key is not None:
        yield f"Several rows have {request.key} = {job.repeated_key}: late labels cannot be joined by this key."
    doubt = model.intervals_in_words() if record.n_rounds else ""
    if doubt:
        yield doubt
    backwards = model.backwards_in_words(record.n_rounds)
    if backwards:
        yield backwards
    if record.n_unknown:
        from accous.table.runs import unknown_in_words

        yield unknown_in_words(record.n_unknown, record.unknown_in)
