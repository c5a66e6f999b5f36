"""``accous fit``, from a labelled table to a model, and ``accous backtest``, which replays such a table."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import (
    announcing_compilation,
    columns_table,
    print_backtest,
    remarks_console,
    results_console,
    say,
)
from accous.exceptions import DataError, ParameterError
from accous.table.options import BacktestOptions, FitOptions
from accous.text import ProgressBar, count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.diagnostics.evidence import Look
    from accous.diagnostics.losses import LossScale
    from accous.model.backtest import Backtest
    from accous.table.fit import FitJob, ReferenceTable

EXAMPLES = """
Examples:

`accous fit reference.csv --label y -o model/`

`accous fit reference.parquet --label churned -o model/ --time signed_up --categorical plan,region`

`zcat reference.csv.gz | accous fit - --label y -o model/ --json`

`accous fit embeddings.npy --label labels.npy -o model/`

`accous fit trips.csv --target minutes -o model/`
"""
_MOST_REMARKS = 12


def fit(options: FitOptions) -> int:
    """Fit a model on a labelled reference table: a classifier, or a regressor if the label is a number.

    Missing numbers are filled in and numbers are scaled, each category level becomes a feature, and dates become
    positions in the year, the week and the day. A table shows what is done with each column, and all of it is saved
    with the model. A date column also gives the rows their order in time, unless you name a column with --time.
    """
    from accous.table.fit import FitJob

    remarks = remarks_console(quiet=options.quiet)
    job = FitJob(options)
    _remark_on_bad_rows(job, remarks)
    _remark_on_classes(job, remarks)
    with (
        announcing_compilation(remarks),
        ProgressBar("Fitting, and replaying the reference" if job.is_ordered else "Fitting", console=remarks) as bar,
    ):
        table_model = job.fit_and_save(bar.show)
    settings, found, snapshot = table_model.settings, table_model.model.backtest_, table_model.snapshot()
    _print_remarks(job, remarks)
    if options.as_json:
        record = _record(job, settings) | {"backtest": None if found is None else found.summary()}
        record["at_fit"] = snapshot.to_json()["at_fit"]
        record["worst_window"] = snapshot.windows.worst if snapshot.windows.n_windows else None
        typer.echo(json.dumps(record, indent=2))
        return 0
    _print_reference(job.reference, settings)
    _print_predictors(job, settings)
    if options.metric is not None:
        from accous.cli.status import status_line

        say(results_console(), status_line(snapshot))
    if snapshot.windows.n_windows:
        metric, worst = snapshot.rules.measures.read(None), snapshot.windows.worst
        amount = f"{100.0 * worst:.1f} points" if metric.is_share else metric.shown(worst)
        say(results_console(), f"In the worst window of the reference, the loss was {amount} higher than expected.")
    print_backtest(found, is_ordered=job.is_ordered)
    if n_rounds := table_model.model.rounds_between_refits_:
        budget = f"--refit-budget {options.refit_budget:g}"
        say(remarks, f"Refits: at most one in {count(n_rounds, 'round')}, which keeps them to {budget}.")
    say(remarks, f"Model: {options.output}. Next: accous adapt {options.output} STREAM -o predictions.csv")
    return 0


def _print_predictors(job: FitJob, settings: dict[str, Any]) -> None:
    """Print what the predictors did on held-out rows, and how far each counts."""
    from accous.table.kinds import predictors_in_words, scale_of

    if settings["predictors"] is not None:
        sentence = f"Predictors: {predictors_in_words(settings['predictors'], scale_of(settings))}"
        say(results_console(), f"{sentence}. One alone: --estimator linear or boosting.")
    elif job.estimator != job.options.estimator:
        say(results_console(), f"Predictor: {job.estimator}. {job.why_linear} Another: --estimator NAME.")


def _remark_on_bad_rows(job: FitJob, remarks: Console) -> None:
    bad_rows, rejects = job.reference.bad_rows, job.options.rejects
    if not bad_rows:
        return
    where = "" if rejects is None else f", in {rejects}"
    first = bad_rows[0]
    remarks.print(
        f"{count(len(bad_rows), 'bad row')} set aside{where}; the first: {job.unit} {first.line}, {first.reason}."
    )


def _print_remarks(job: FitJob, remarks: Console) -> None:
    found = job.remarks
    say(remarks, *(remark.text for remark in found[:_MOST_REMARKS]))
    if len(found) > _MOST_REMARKS:
        remarks.print(f"{len(found) - _MOST_REMARKS} more remarks: accous fit --json lists all.")


def _remark_on_classes(job: FitJob, remarks: Console) -> None:
    """Say if there are nearly as many classes as rows."""
    if not job.reference.task.has_classes:
        return
    n_rows, n_classes = len(job.reference.y), len(set(job.reference.y.tolist()))
    if n_classes > 0.5 * n_rows:
        say(
            remarks,
            f"The label {job.label!r} has {n_classes} different values in {n_rows} rows: if it is a number rather "
            "than a class, say --task regression.",
        )


def _record(job: FitJob, settings: dict[str, Any]) -> dict[str, Any]:
    reference = job.reference
    plans = reference.encoder.plans
    return {
        "model": str(job.options.output),
        "rows": len(reference.y),
        "rejected": len(reference.bad_rows),
        "features": len(reference.encoder.feature_names),
        **_record_of_labels(reference, settings),
        "estimator": settings["estimator"],
        "predictors": settings["predictors"],
        "order": settings["order"],
        "remarks": [asdict(remark) for remark in job.remarks],
        "columns": [{"column": plan.name, "kind": plan.kind, "what": plan.summary()} for plan in plans],
    }


def _ends(reference: ReferenceTable) -> tuple[float, float, float]:
    """Return the lowest, the median and the highest number."""
    from statistics import median

    y = reference.y.tolist()
    return min(y), median(y), max(y)


def _record_of_labels(reference: ReferenceTable, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the labels are, and how well they are predicted on the reference."""
    names = ["error_of_constant", "beats_constant"]
    if reference.task.has_classes:
        found: dict[str, Any] = {
            "classes": {str(label): n for label, n in sorted(Counter(reference.y.tolist()).items())}
        }
        names += ["accuracy", "largest_class"]
    else:
        found = {"label": dict(zip(("lowest", "median", "highest"), _ends(reference), strict=True))}
        names += ["task", "error"]
    return found | {name: settings[name] for name in names}


def _print_reference(reference: ReferenceTable, settings: dict[str, Any]) -> None:
    """Print what is done with each column, and how well held-out rows were predicted, beside a constant on them."""
    from accous.table.columns import shown_lines
    from accous.table.kinds import TOO_FEW_ROWS, held_out_in_words, no_better_in_words, reference_error, scale_of

    console, scale, error = results_console(), scale_of(settings), reference_error(settings)
    console.print(columns_table(shown_lines(reference.encoder.plans)))
    n_rows, n_features = len(reference.y), len(reference.encoder.feature_names)
    if reference.task.has_classes:
        classes = sorted(Counter(reference.y.tolist()).items())
        shares = ", ".join(f"{label} {n_of_class / n_rows:.1%}" for label, n_of_class in classes[:8])
        more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
        labels, constant = f"{len(classes)} classes: {shares}{more}", "most frequent class"
    else:
        low, median, high = map(scale.shown, _ends(reference))
        labels, constant = f"numbers from {low} to {high}, median {median}", "median"
    console.print(f"{count(n_rows, 'row')}, {count(n_features, 'feature')}, {labels}.")
    how = held_out_in_words(is_ordered=reference.order.is_in_time)
    found = TOO_FEW_ROWS if error is None else scale.shown(error)
    text = f"{scale.name.capitalize()} on the reference, {how}: {found} (always the {constant}"
    of_which = " of those rows" if reference.order.is_in_time else ""
    console.print(f"{text}{of_which}: {scale.shown(settings['error_of_constant'])}).", soft_wrap=True)
    if no_better := no_better_in_words(settings):
        console.print(no_better, soft_wrap=True)


# --- accous backtest


BACKTEST_EXAMPLES = """
Examples:

`accous backtest reference.csv --label y --time date`

`accous backtest reference.parquet --label churned --ordered --plot backtest.png`

`accous backtest reference.csv --label y --time date --json | jq .verdict`
"""
_HEADINGS = ("rows", "reference rows", "fixed", "adapted", "drift")
_DRIFT_NOTE = (
    "Drift: 0 means that recent rows look like the reference, 1 that a classifier tells them apart without error."
)


def backtest(options: BacktestOptions) -> int:
    """Replay labelled history as a stream, and see whether adaptation would have helped.

    The first 40, 60 and 80% of the rows serve as the reference in turn, the others as a stream whose labels are known.
    """
    if options.plot is not None:
        _require_picture(options)
    from accous.table.fit import FitJob

    remarks = remarks_console(quiet=options.quiet)
    job = FitJob(options.to_fit())
    job.require_order()
    if job.reference.order.kind not in ("given", "times"):
        say(remarks, job.reference.order.sentence)
    # The one remark that is about the backtest itself.
    say(remarks, *(remark.text for remark in job.remarks if remark.kind == "repeated"))
    with announcing_compilation(remarks), ProgressBar("Replaying", console=remarks) as bar:
        found = job.backtest(options.batch_size, bar.show)
    if options.as_json:
        record = {"estimator": job.estimator, **found.summary(), "table": _records(found)}
        typer.echo(json.dumps(record, indent=2, allow_nan=False))
    else:
        _print(found, job)
    if options.plot is not None:
        figure = found.plot()
        figure.suptitle(f"Backtest of the predictor {job.estimator}", fontsize="medium")
        try:
            figure.savefig(options.plot)
        except OSError as error:
            raise DataError(f"The picture cannot be written to {options.plot}: {error.strerror or error}.") from None
    return 0


def _require_picture(options: BacktestOptions) -> None:
    """Check the name of the picture before the replay, which may take minutes."""
    from accous.table.runs import require_separate_files

    plot = options.plot
    assert plot is not None
    if plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ParameterError(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}.")
    if not plot.parent.is_dir():
        raise ParameterError(f"--plot {plot}: there is no folder {plot.parent}; create it, or name another.")
    if plot.exists() and not options.force:
        raise DataError(f"{plot} already exists: give another name, or use --force to replace it.")
    require_separate_files({"REFERENCE": options.reference}, {"--plot": str(plot)}, label=options.label)


def _records(found: Backtest) -> list[dict[str, float | None]]:
    """Return the looks, ready for JSON: null where something is not known."""
    return [{name: value if math.isfinite(value) else None for name, value in look.items()} for look in found.table()]


def _print(found: Backtest, job: FitJob) -> None:
    from rich.table import Table

    console = results_console()
    table = Table(title=f"Backtest of the predictor {job.estimator}")
    for heading in _HEADINGS:
        table.add_column(heading, no_wrap=heading == "rows")
    for look in found.looks:
        table.add_row(*_cells(look, found.scale))
    console.print(table)
    say(console, *filter(None, (_DRIFT_NOTE, found.sentence, found.how)))


def _cells(look: Look, scale: LossScale) -> tuple[str, ...]:
    """Return one row of the table; rows are counted from 1, and both ends of a range belong to it."""
    errors = (look.error_fixed, look.error_adapted)
    return (
        f"{look.start + 1:,} to {look.stop:,}",
        f"{look.n_reference:,}",
        *("unknown" if math.isnan(error) else scale.shown(error) for error in errors),
        "unknown" if math.isnan(look.drift) else f"{look.drift:.2f}",
    )
