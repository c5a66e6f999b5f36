"""``accous fit``: the offline stage, from a labelled table to a model's folder."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import (
    ProgressBar,
    columns_table,
    compile_with_notice,
    print_backtest,
    remarks_console,
    results_console,
    say,
)
from accous.table.options import FitOptions
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.table.fit import FitJob, ReferenceTable

__all__ = ["EXAMPLES", "fit"]

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
    compile_with_notice(remarks)
    _remark_on_classes(job, remarks)
    with ProgressBar(remarks, "Fitting, and replaying the reference" if job.is_ordered else "Fitting") as bar:
        table_model = job.fit_and_save(bar.show)
    settings, found = table_model.settings, table_model.model.backtest_
    _print_remarks(job, remarks)
    if options.as_json:
        record = _record(job, settings) | {"backtest": None if found is None else found.summary()}
        typer.echo(json.dumps(record, indent=2))
        return 0
    _print_reference(job.reference, settings)
    _print_predictors(job, settings)
    print_backtest(found, is_ordered=job.is_ordered)
    if n_rounds := table_model.model.rounds_between_refits_:
        budget = f"--refit-budget {options.refit_budget:g}"
        say(remarks, f"Refits: at most one in {count(n_rounds, 'round')}, which keeps them to {budget}.")
    where = options.output
    say(remarks, f"Model: {where}. Next: accous adapt {where} STREAM -o predictions.csv")
    return 0


def _print_predictors(job: FitJob, settings: dict[str, Any]) -> None:
    """Print what the predictors did on held-out rows, and how far each counts."""
    from accous.table.kinds import predictors_in_words, scale_of

    if settings["predictors"] is not None:
        sentence = f"Predictors: {predictors_in_words(settings['predictors'], scale_of(settings))}"
        say(results_console(), f"{sentence}. One alone: --estimator NAME.")
    elif job.estimator != job.options.estimator:
        say(results_console(), f"Predictor: {job.estimator}. {job.why_linear} Another: --estimator NAME.")


def _remark_on_bad_rows(job: FitJob, remarks: Console) -> None:
    bad_rows, rejects = job.reference.bad_rows, job.options.rejects
    if not bad_rows:
        return
    where = "" if rejects is None else f", in {rejects}"
    first = bad_rows[0]
    remarks.print(
        f"{count(len(bad_rows), 'bad row')} set aside{where}; the first: {job.unit} {first.line}, {first.reason}.",
    )


def _print_remarks(job: FitJob, remarks: Console) -> None:
    found = job.remarks
    say(remarks, *(remark.text for remark in found[:_MOST_REMARKS]))
    if len(found) > _MOST_REMARKS:
        remarks.print(f"{len(found) - _MOST_REMARKS} more remarks: accous fit --json lists all.")


def _remark_on_classes(job: FitJob, remarks: Console) -> None:
    """Say if there are nearly as many classes as rows."""
    if job.reference.task.kind == "regressor":
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
        "remarks": [remark.to_json() for remark in job.remarks],
        "columns": [{"column": plan.name, "kind": plan.kind, "what": plan.summary()} for plan in plans],
    }


def _ends(reference: ReferenceTable) -> tuple[float, float, float]:
    """Return the lowest, the median and the highest number."""
    from statistics import median

    y = reference.y.tolist()
    return min(y), median(y), max(y)


def _record_of_labels(reference: ReferenceTable, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the labels are, and how well they are predicted on the reference."""
    if reference.task.kind == "regressor":
        ends = dict(zip(("lowest", "median", "highest"), _ends(reference), strict=True))
        names = ("task", "error", "error_of_median", "error_of_constant")
        return {name: settings[name] for name in names} | {"label": ends}
    return {
        "classes": {str(label): count for label, count in sorted(Counter(reference.y.tolist()).items())},
        "accuracy": settings["accuracy"],
        "largest_class": settings["largest_class"],
        "error_of_constant": settings["error_of_constant"],
    }


def _print_reference(reference: ReferenceTable, settings: dict[str, Any]) -> None:
    from accous.table.columns import shown_lines

    console = results_console()
    console.print(columns_table(shown_lines(reference.encoder.plans)))
    if reference.task.kind == "regressor":
        _print_numbers(reference, settings, console)
        return
    n_rows, n_features = len(reference.y), len(reference.encoder.feature_names)
    classes = sorted(Counter(reference.y.tolist()).items())
    shares = ", ".join(f"{label} {n_of_class / n_rows:.1%}" for label, n_of_class in classes[:8])
    more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
    console.print(f"{count(n_rows, 'row')}, {count(n_features, 'feature')}, {len(classes)} classes: {shares}{more}.")
    _print_score(reference, settings, "most frequent class", console)


def _print_numbers(reference: ReferenceTable, settings: dict[str, Any], console: Console) -> None:
    y, n_features = reference.y, len(reference.encoder.feature_names)
    low, median, high = (f"{each:.4g}" for each in _ends(reference))
    console.print(
        f"{count(len(y), 'row')}, {count(n_features, 'feature')}, numbers from {low} to {high}, median {median}.",
    )
    _print_score(reference, settings, "median", console)


def _print_score(reference: ReferenceTable, settings: dict[str, Any], constant: str, console: Console) -> None:
    """Print how well held-out rows were predicted, how they were held out, and what a constant does on them."""
    from accous.table.kinds import TOO_FEW_ROWS, held_out_in_words, no_better_in_words, reference_error, scale_of

    error, scale, of_constant = reference_error(settings), scale_of(settings), settings["error_of_constant"]
    how = held_out_in_words(is_ordered=reference.order.is_in_time)
    found = TOO_FEW_ROWS if error is None else scale.shown(error)
    text = f"{scale.name.capitalize()} on the reference, {how}: {found} (always the {constant}"
    of_which = " of those rows" if reference.order.is_in_time else ""
    console.print(f"{text}{of_which}: {scale.shown(of_constant)}).", soft_wrap=True)
    if no_better := no_better_in_words(settings):
        console.print(no_better, soft_wrap=True)
