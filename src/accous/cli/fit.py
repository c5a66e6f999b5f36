"""``accous fit``: the offline stage, from a labelled table to a model's folder."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accous.cli.options import (
    LARGEST_SEED,
    AsJson,
    Encoding,
    Force,
    OnBadRow,
    Quiet,
    Rejects,
    Separator,
    TableFormat,
    remarks_console,
    require_between,
    require_separator,
    results_console,
)
from accous.parameters import require_choice

if TYPE_CHECKING:
    from rich.console import Console

    from accous.classifier.backtest import Backtest
    from accous.tabular.fit_job import FitJob
    from accous.tabular.fitting import ReferenceTable

__all__ = [
    "EXAMPLES",
    "Categorical",
    "Drop",
    "KeepAsFeature",
    "Label",
    "ReferenceFile",
    "Time",
    "fit",
]

EXAMPLES = """
Examples:

`accous fit reference.csv --label y -o model/`

`accous fit reference.parquet --label churned -o model/ --time signed_up --categorical plan,region`

`zcat reference.csv.gz | accous fit - --label y -o model/ --json`

`accous fit embeddings.npy --label labels.npy -o model/`
"""
_MODEL = "The model"
_MOST_REMARKS = 12
ReferenceFile = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="Labelled rows: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
]
Label = Annotated[
    str,
    typer.Option(
        "--label", metavar="COL|FILE", help="The label column, or a separate file: labels.npy, labels.csv:COL."
    ),
]
_Folder = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model's folder.")]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL,...", help="Columns to leave out.", rich_help_panel="The table"),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", metavar="COL,...", help="Columns to read as categories even if they look like numbers.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Time = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="COL", help="Sort the rows by this column of dates or numbers.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
_Ordered = Annotated[
    bool | None,
    typer.Option(
        "--ordered/--unordered", help="The rows already are in order of time, or have none.", show_default=False,
        rich_help_panel="The table",
    ),
]  # fmt: skip
KeepAsFeature = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-as-feature", metavar="COL,...", help="Columns to use even if they look like ids, counters or times.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
_Ratio = Annotated[
    str,
    typer.Option(
        "--ratio", metavar="accous|ulsif|kliep|kmm|lr|olre|none",
        help="How to estimate the drift; none never adapts.", rich_help_panel=_MODEL,
    ),
]  # fmt: skip
_FeatureMap = Annotated[
    str | None,
    typer.Option(
        "--feature-map", metavar="NAME", help="Feature map of the ratio, such as rbf.",
        rich_help_panel=_MODEL,
    ),
]  # fmt: skip
_Loss = Annotated[
    str | None,
    typer.Option(
        "--loss", metavar="NAME",
        help="Loss of the ratio (accous and olre), such as kl; a wrong name is answered with all.",
        rich_help_panel=_MODEL,
    ),
]  # fmt: skip
_MaxRatio = Annotated[
    float | None, typer.Option("--max-ratio", help="Upper bound of the ratios; 100.", rich_help_panel=_MODEL)
]
_C = Annotated[
    float, typer.Option("--C", help="Inverse regularization strength of the classifier.", rich_help_panel=_MODEL)
]
_Caution = Annotated[
    str,
    typer.Option(
        "--caution", metavar="high|normal|low",
        help="How much evidence adaptation needs: high needs a backtest, low only that it is not clearly worse.",
        rich_help_panel=_MODEL,
    ),
]  # fmt: skip
_Seed = Annotated[int, typer.Option("--seed", help="Random seed.", rich_help_panel=_MODEL)]


def fit(
    reference: ReferenceFile,
    label: Label,
    output: _Folder,
    drop: Drop = None,
    categorical: Categorical = None,
    time: Time = None,
    ordered: _Ordered = None,
    keep_as_feature: KeepAsFeature = None,
    ratio: _Ratio = "accous",
    feature_map: _FeatureMap = None,
    loss: _Loss = None,
    max_ratio: _MaxRatio = None,
    C: _C = 1.0,
    caution: _Caution = "normal",
    seed: _Seed = 0,
    table_format: TableFormat = None,
    encoding: Encoding = None,
    separator: Separator = None,
    on_bad_row: OnBadRow = "fail",
    rejects: Rejects = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Fit a classifier on a labelled reference table.

    Missing numbers are filled in and numbers are scaled, each category level becomes a feature, and dates become
    positions in the year, the week and the day. A table shows what is done with each column, and all of it is saved
    with the model. A date column also gives the rows their order in time, unless you name a column with --time.
    """
    require_between("--seed", seed, 0, LARGEST_SEED)
    require_choice("--on-bad-row", on_bad_row, ("fail", "skip"))
    require_choice("--caution", caution, ("high", "normal", "low"))
    separator = require_separator(separator)
    from accous.cli.compiling import compile_with_notice
    from accous.tabular.fit_job import FitJob, FitRequest

    request = FitRequest(
        reference=reference,
        label=label,
        folder=output,
        drop=drop or [],
        categorical=categorical or [],
        time=time,
        is_ordered=ordered,
        keep_as_feature=keep_as_feature or [],
        ratio=ratio,
        feature_map=feature_map,
        loss=loss,
        max_ratio=max_ratio,
        C=C,
        caution=caution,
        seed=seed,
        table_format=table_format,
        encoding=encoding,
        separator=separator,
        skips_bad=on_bad_row == "skip",
        rejects=rejects,
        overwrites=force,
    )
    remarks = remarks_console(quiet=quiet)
    job = FitJob(request)
    _remark_on_bad_rows(job, rejects, remarks)
    compile_with_notice(remarks)
    _remark_on_classes(job, remarks)
    with remarks.status("Cross-validating"):
        accuracy = job.cross_validate()
    with remarks.status("Fitting, and replaying the reference" if job.is_ordered else "Fitting"):
        table_model = job.fit_and_save(accuracy)
    settings, found = table_model.settings, table_model.model.backtest_
    _print_remarks(job, remarks)
    if as_json:
        record = _record(job, settings, output) | {"backtest": None if found is None else found.summary()}
        typer.echo(json.dumps(record, indent=2))
        return 0
    _print(job.reference, settings)
    _print_backtest(found, is_ordered=job.is_ordered)
    remarks.print(
        f"Model: {output}. Next: accous adapt {output} STREAM -o predictions.csv", soft_wrap=True, markup=False
    )
    return 0


def _print_backtest(found: Backtest | None, *, is_ordered: bool) -> None:
    console = results_console()
    if found is not None:
        sentences: tuple[str, ...] = found.sentences
    elif is_ordered:
        sentences = ("Nothing is verified: the reference has too few rows to replay them.",)
    else:
        hint = "If its rows have one, use --time COL or --ordered."
        sentences = (f"Nothing is verified: the reference has no order in time. {hint}",)
    for sentence in filter(None, sentences):
        console.print(sentence, markup=False, soft_wrap=True)


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


def _record(job: FitJob, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    reference = job.reference
    plans = reference.encoder.plans
    return {
        "model": str(folder),
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


def _print(reference: ReferenceTable, settings: dict[str, Any]) -> None:
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
