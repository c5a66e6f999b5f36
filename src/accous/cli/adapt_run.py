"""What ``accous adapt`` does once it knows what is asked: open, begin or go on, follow, sum up."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import chosen_columns, results_console
from accous.exceptions import ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from accous.tabular.folder import Pipeline
    from accous.tabular.formats.chunks import TableReader
    from accous.tabular.job import Job, JobSpec
    from accous.tabular.running import SaveRule

__all__ = ["AdaptRequest", "run_adapt"]


@dataclass(frozen=True)
class AdaptRequest:
    """What was asked for, except for what changes nothing in the output."""

    model: Path
    stream: str
    output: str
    batch_size: int
    by: str | None
    learns_first: bool
    keep: list[str]
    label: str | None
    follows: bool
    is_new: bool
    overwrites: bool
    table_format: str | None
    encoding: str | None
    separator: str | None
    skips_bad: bool
    rejects: str | None
    accepts_unknown: bool

    @property
    def output_format(self) -> str:
        """Format of the predictions."""
        from accous.tabular.formats.opening import format_of

        output_format = format_of(self.output, "a name with one of these endings")
        if output_format == "npy":
            raise ParameterError(f"Predictions are a table, not an array: let {self.output} end in .csv or .parquet.")
        return output_format

    @property
    def text_output(self) -> str:
        """The file that rows are appended to."""
        from accous.tabular.formats.writing import partial_path

        return partial_path(self.output) if self.output_format == "parquet" else self.output

    @property
    def rejects_path(self) -> str | None:
        """Where rows set aside go: beside the predictions, unless another place is named."""
        if not self.skips_bad or (self.rejects is None and self.output == "-"):
            return self.rejects
        return self.rejects or f"{self.output}.rejects.csv"

    def spec(self, kept: list[str]) -> JobSpec:
        """All that the output depends on."""
        from accous.tabular.job import JobSpec, absolute

        options = {
            "batch-size": self.batch_size if self.by is None else 0,
            "by": self.by or "",
            "learn-first": self.learns_first,
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


def run_adapt(asked: AdaptRequest, save_rule: SaveRule, remarks: Console, *, as_json: bool) -> int:
    """Carry out what is asked; return the exit code."""
    from accous.cli.adapt_progress import AdaptProgress
    from accous.cli.compiling import compile_with_notice
    from accous.cli.stopping import stop_on_signals
    from accous.tabular.folder import load_pipeline
    from accous.tabular.formats.labelled import with_labels
    from accous.tabular.formats.opening import open_table
    from accous.tabular.formats.vectors import require_widths

    pipeline = load_pipeline(asked.model)
    fitted_widths = pipeline.settings.get("widths", {})
    _require_apart(asked)
    table = open_table(
        asked.stream,
        asked.table_format,
        encoding=asked.encoding,
        separator=asked.separator,
        is_growing=asked.follows,
        widths=fitted_widths,
    )
    require_widths(table.name, table.widths, fitted_widths)
    scored = None
    if asked.label is not None:
        table, scored = with_labels(table, asked.label)
    compile_with_notice(remarks)
    job = _begin(asked, pipeline, table, remarks)
    if job.is_finished:
        _remove_partial(asked)
        if as_json:
            _print_summary(pipeline, asked, remarks, is_finished=True, as_json=True)
        return 0
    n_before = job.n_rows
    with stop_on_signals() as request, AdaptProgress(remarks, table.share_read) as progress:
        is_finished = _follow(replace(asked, label=scored), pipeline, table, save_rule, request, progress)
    if is_finished:
        _remove_partial(asked)
    if n_before and is_finished and job.n_rows == n_before:
        remarks.print(f"Nothing new in {table.name}.", markup=False)
    _print_summary(pipeline, asked, remarks, is_finished=is_finished, as_json=as_json)
    return 0 if is_finished else request.exit_code


def _begin(asked: AdaptRequest, pipeline: Pipeline, table: TableReader, remarks: Console) -> Job:
    from accous.tabular.folder import save_pipeline
    from accous.tabular.job import begin_or_resume
    from accous.tabular.predictions import output_columns

    kept = chosen_columns("--keep", asked.keep, table.columns, table.name, table.widths)
    output_columns(kept, pipeline.model.classes_)
    before = pipeline.job
    spec = asked.spec(kept)
    if before is not None and before.is_finished and before.spec == spec and asked.output_format == "parquet":
        remarks.print(f"Nothing to do: {asked.output} is finished; rows that came since need another output.")
        return before
    job = begin_or_resume(spec, before, is_new=asked.is_new, overwrites=asked.overwrites, folder=asked.model)
    pipeline.job = job
    if job.n_rows:
        remarks.print(f"Going on after row {job.n_rows:,} ({table.unit} {job.position.line:,}).", markup=False)
    if job.n_output_bytes == 0:
        # The job is known before its output exists, so that the output is never taken for somebody else's.
        save_pipeline(pipeline, asked.model)
    return job


def _follow(
    asked: AdaptRequest, pipeline: Pipeline, table: TableReader, save_rule: SaveRule, request: Any, progress: Any
) -> bool:
    from accous.tabular.formats.writing import RowsOutput
    from accous.tabular.rounds import RoundRule
    from accous.tabular.rows import RowReader
    from accous.tabular.running import AdaptRun

    job = pipeline.job
    assert job is not None
    kept = chosen_columns("--keep", asked.keep, table.columns, table.name, table.widths)
    passed = list(dict.fromkeys([*kept, *filter(None, (asked.by, asked.label))]))
    reader = RowReader(
        table, pipeline.preparation, passed, skips_bad=asked.skips_bad, accepts_unknown=asked.accepts_unknown
    )
    text_format = "csv" if asked.output_format == "parquet" else asked.output_format
    output = RowsOutput(asked.text_output, text_format, job.n_output_bytes)
    rejects = None if asked.rejects_path is None else RowsOutput(asked.rejects_path, "csv", job.n_reject_bytes)
    run = AdaptRun(
        pipeline,
        asked.model,
        reader,
        output,
        rejects,
        rule=RoundRule(asked.batch_size, asked.by),
        save_rule=save_rule,
        kept=kept,
        label=asked.label,
        learns_first=asked.learns_first,
        should_stop=request,
        on_round=progress,
        finish=lambda: _finish_output(asked, pipeline, table, kept),
    )
    try:
        return run.run()
    finally:
        output.close()
        if rejects is not None:
            rejects.close()


def _finish_output(asked: AdaptRequest, pipeline: Pipeline, table: TableReader, kept: list[str]) -> None:
    """Turn what was collected into a Parquet file, where that was asked for."""
    if asked.output_format != "parquet":
        return
    import polars as pl

    from accous.tabular.formats.writing import finish_parquet
    from accous.tabular.predictions import output_columns

    schema: dict[str, Any] = dict.fromkeys(output_columns(kept, pipeline.model.classes_), pl.Float64())
    types = table.column_types(kept)
    schema |= {name: types.get(name, pl.String()) for name in kept}
    schema["round"] = pl.Int64()
    schema["prediction"] = pl.Int64() if pipeline.model.classes_.dtype.kind == "i" else pl.String()
    finish_parquet(asked.output, schema)


def _remove_partial(asked: AdaptRequest) -> None:
    """Remove the rows collected for a Parquet file that is finished, and known to be."""
    if asked.output_format == "parquet":
        Path(asked.text_output).unlink(missing_ok=True)


def _require_apart(asked: AdaptRequest) -> None:
    from accous.tabular.formats.labelled import place_of_labels
    from accous.tabular.job import absolute

    labels = place_of_labels(asked.label or "") or (None, "")
    files = [("STREAM", asked.stream), ("--label", labels[0])]
    files += [("--output", asked.output), ("--rejects", asked.rejects_path)]
    seen: dict[str, str] = {}
    for name, path in files:
        if path is None or path == "-":
            continue
        place = absolute(path)
        if place in seen:
            raise ParameterError(f"{seen[place]} and {name} are the same file, {path}: give another one.")
        seen[place] = name
        if Path(place).parent == asked.model.absolute():
            raise ParameterError(f"{name} {path} is inside the model's folder: give another one.")


def _print_summary(
    pipeline: Pipeline, asked: AdaptRequest, remarks: Console, *, is_finished: bool, as_json: bool
) -> None:
    from accous.tabular.summary import summarize_run

    job = pipeline.job
    assert job is not None
    record = summarize_run(pipeline)
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    console = remarks if asked.output == "-" else results_console()
    state = "" if is_finished else "Stopped and saved; the same command goes on. "
    where = "" if asked.output == "-" else f" in {asked.output}"
    text = f"{state}{job.n_rows:,} rows in {job.n_rounds:,} rounds{where}."
    if job.n_scored:
        text += f" Error of the fixed model {record['error_fixed']:.1%}, of accous {record['error']:.1%}"
        text += f" ({job.n_scored:,} labelled rows)."
    else:
        text += (
            f" {record['effective_sample_size']:,.0f} of {record['reference_rows']:,} reference rows carry the weight."
        )
    if not remarks.quiet:
        console.print(text, markup=False, soft_wrap=True)
    if job.n_rejected:
        where = "" if asked.rejects_path is None else f", in {asked.rejects_path}"
        remarks.print(f"{job.n_rejected:,} bad rows set aside{where}.", markup=False, soft_wrap=True)
    if job.n_unknown:
        remarks.print(f"{job.n_unknown:,} values were categories that the reference does not have.", markup=False)
