"""What ``accous fit`` prints while its job runs, and at the end."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from accous.cli.options import print_backtest, results_console

if TYPE_CHECKING:
    from rich.console import Console

    from accous.tabular.fit_job import FitJob, FitRequest
    from accous.tabular.fitting import ReferenceTable

__all__ = ["run_fit"]

_MOST_REMARKS = 12


def run_fit(request: FitRequest, remarks: Console, *, as_json: bool) -> int:
    """Carry out a request; return the exit code."""
    from accous.cli.compiling import compile_with_notice
    from accous.tabular.fit_job import FitJob

    job = FitJob(request)
    _remark_on_bad_rows(job, request.rejects, remarks)
    compile_with_notice(remarks)
    _remark_on_classes(job, remarks)
    with remarks.status("Cross-validating"):
        accuracy = job.cross_validate()
    with remarks.status("Fitting, and replaying the reference" if job.is_ordered else "Fitting"):
        table_model = job.fit_and_save(accuracy)
    settings, found = table_model.settings, table_model.model.backtest_
    _print_remarks(job, remarks)
    if as_json:
        record = _record(job, settings) | {"backtest": None if found is None else found.summary()}
        typer.echo(json.dumps(record, indent=2))
        return 0
    _print_reference(job.reference, settings)
    print_backtest(found, is_ordered=job.is_ordered)
    where = request.folder
    remarks.print(f"Model: {where}. Next: accous adapt {where} STREAM -o predictions.csv", soft_wrap=True, markup=False)
    return 0


def _remark_on_bad_rows(job: FitJob, rejects: str | None, remarks: Console) -> None:
    bad_rows = job.reference.bad_rows
    if not bad_rows:
        return
    where = "" if rejects is None else f", in {rejects}"
    first = bad_rows[0]
    remarks.print(
        f"{len(bad_rows)} bad rows set aside{where}; the first: {job.unit} {first.line}, {first.reason}.", markup=False
    )


def _print_remarks(job: FitJob, remarks: Console) -> None:
    found = job.remarks
    for remark in found[:_MOST_REMARKS]:
        remarks.print(remark.text, markup=False, soft_wrap=True)
    if len(found) > _MOST_REMARKS:
        remarks.print(f"{len(found) - _MOST_REMARKS} more remarks: accous fit --json lists all.")


def _remark_on_classes(job: FitJob, remarks: Console) -> None:
    """Say if there are nearly as many classes as rows."""
    n_rows, n_classes = len(job.reference.y), len(set(job.reference.y.tolist()))
    if n_classes > 0.5 * n_rows:
        remarks.print(
            f"The label {job.label!r} has {n_classes} different values in {n_rows} rows: if it is a number rather "
            "than a class, divide it into classes first.",
            markup=False,
            soft_wrap=True,
        )


def _record(job: FitJob, settings: dict[str, Any]) -> dict[str, Any]:
    reference = job.reference
    plans = reference.encoder.plans
    return {
        "model": str(job.request.folder),
        "rows": len(reference.y),
        "rejected": len(reference.bad_rows),
        "features": len(reference.encoder.feature_names),
        "classes": {str(label): count for label, count in sorted(Counter(reference.y.tolist()).items())},
        "accuracy": settings["accuracy"],
        "largest_class": settings["largest_class"],
        "order": settings["order"],
        "remarks": [remark.to_json() for remark in job.remarks],
        "columns": [{"column": plan.name, "kind": plan.kind, "what": plan.summary()} for plan in plans],
    }


def _print_reference(reference: ReferenceTable, settings: dict[str, Any]) -> None:
    from accous.cli.columns_table import columns_table
    from accous.tabular.columns.summaries import shown_lines

    console = results_console()
    console.print(columns_table(shown_lines(reference.encoder.plans)))
    n_rows, n_features = len(reference.y), len(reference.encoder.feature_names)
    classes = sorted(Counter(reference.y.tolist()).items())
    shares = ", ".join(f"{label} {count / n_rows:.1%}" for label, count in classes[:8])
    more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
    console.print(f"{n_rows:,} rows, {n_features} features, {len(classes)} classes: {shares}{more}.", markup=False)
    accuracy = settings["accuracy"]
    found = "unknown, the reference has too few rows to cross-validate" if accuracy is None else f"{accuracy:.1%}"
    in_order = ", in order of time" if reference.order.is_known else ""
    console.print(
        f"Cross-validated accuracy on the reference{in_order}: {found} (always the most frequent class: "
        f"{settings['largest_class']:.1%})."
    )
    if accuracy is not None and accuracy <= settings["largest_class"]:
        console.print("The model is no better than always predicting the most frequent class.", soft_wrap=True)
