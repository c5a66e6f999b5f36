"""``accous fit``: the offline stage, from a labelled table to a model's folder."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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
    chosen_columns,
    remarks_console,
    require_between,
    require_separator,
    results_console,
)
from accous.exceptions import CheckpointError
from accous.parameters import require_choice

if TYPE_CHECKING:
    from rich.console import Console

    from accous.tabular.fitting import Reference
    from accous.tabular.formats.chunks import BadRow

__all__ = ["EXAMPLES", "fit"]

EXAMPLES = """
Examples:

`accous fit reference.csv --label y -o model/`

`accous fit reference.parquet --label churned -o model/ --drop customer_id --categorical plan,region`

`zcat reference.csv.gz | accous fit - --label y -o model/ --json`

`accous fit embeddings.npy --label labels.npy -o model/`
"""
_MODEL = "The model"
_ReferenceFile = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="Labelled rows: CSV, TSV, JSON lines, Parquet or npy; - is stdin.")
]
_Label = Annotated[
    str,
    typer.Option(
        "--label", metavar="COL|FILE", help="The column of labels, or their own file: labels.npy, labels.csv:COL."
    ),
]
_Folder = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model's folder.")]
_Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL,...", help="Columns to leave out.", rich_help_panel="The table"),
]
_Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", metavar="COL,...", help="Columns to read as categories though they look like numbers.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
_Ratio = Annotated[
    str,
    typer.Option(
        "--ratio", metavar="accous|ulsif|kliep|kmm|lr|olre|none",
        help="How the drift is estimated; none never adapts.", rich_help_panel=_MODEL,
    ),
]  # fmt: skip
_FeatureMap = Annotated[
    str | None,
    typer.Option(
        "--feature-map", metavar="NAME", help="Features of the ratio, such as rbf; a wrong name is answered with all.",
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
    float | None, typer.Option("--max-ratio", help="Where ratios are cut; 100.", rich_help_panel=_MODEL)
]
_C = Annotated[float, typer.Option("--C", help="Inverse penalty of the classifier.", rich_help_panel=_MODEL)]
_Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.", rich_help_panel=_MODEL)]


def fit(
    reference: _ReferenceFile,
    label: _Label,
    output: _Folder,
    drop: _Drop = None,
    categorical: _Categorical = None,
    ratio: _Ratio = "accous",
    feature_map: _FeatureMap = None,
    loss: _Loss = None,
    max_ratio: _MaxRatio = None,
    C: _C = 1.0,
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

    Numbers are imputed and scaled, categories become one feature a level, dates become their place in the year, the
    week and the day; a table says what was done with each column. All of it is saved with the model.
    """
    require_between("--seed", seed, 0, LARGEST_SEED)
    require_choice("--on-bad-row", on_bad_row, ("fail", "skip"))
    separator = require_separator(separator)
    _require_new(output, rejects, is_forced=force)
    remarks = remarks_console(quiet=quiet)
    from accous.cli.compiling import compile_with_notice
    from accous.tabular.columns.learning import Choices
    from accous.tabular.fitting import cross_validate, read_reference
    from accous.tabular.formats.labelled import with_labels
    from accous.tabular.formats.opening import open_table
    from accous.tabular.ratios import make_ratio

    estimator = make_ratio(ratio, seed=seed, feature_map=feature_map, loss=loss, max_ratio=max_ratio)
    table, label = with_labels(open_table(reference, table_format, encoding=encoding, separator=separator), label)
    choices = Choices(
        tuple(chosen_columns("--drop", drop or [], table.columns, table.name, table.widths)),
        tuple(chosen_columns("--categorical", categorical or [], table.columns, table.name)),
    )
    read = read_reference(table, label, choices, skips_bad=on_bad_row == "skip")
    _write_rejects(read.bad_rows, rejects, remarks, table.unit)
    compile_with_notice(remarks)
    settings = {"reference": table.name, "n_reference": len(read.y), "ratio": ratio, "C": C, "seed": seed}
    used = {name.rpartition("_")[0] for name in read.preparation.used_columns}
    if widths := {name: width for name, width in table.widths.items() if name in used}:
        settings["widths"] = widths
    settings |= {"feature_map": feature_map, "loss": loss, "max_ratio": max_ratio}
    with _one_remark_on_classes(read, label, remarks):
        with remarks.status("Cross-validating"):
            settings["accuracy"] = cross_validate(read, choices, C=C, seed=seed)
        settings["largest_class"] = max(Counter(read.y.tolist()).values()) / len(read.y)
        _fit_and_save(read, estimator, label, settings, output)
    _print(read, settings, output, as_json=as_json, remarks=remarks)
    return 0


@contextmanager
def _one_remark_on_classes(read: Reference, label: str, remarks: Console) -> Iterator[None]:
    """Say if there are nearly as many classes as rows; scikit-learn would warn of it in every fit."""
    n_classes = len(set(read.y.tolist()))
    if n_classes > 0.5 * len(read.y):
        remarks.print(
            f"The label {label!r} has {n_classes} different values in {len(read.y)} rows: if it is a number rather "
            "than a class, divide it into classes first.",
            markup=False,
            soft_wrap=True,
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes is greater than")
        yield


def _require_new(folder: Path, rejects: str | None, *, is_forced: bool) -> None:
    if is_forced:
        return
    if rejects is not None:
        from accous.tabular.job import require_free

        require_free(rejects)
    if (folder / "manifest.json").exists():
        raise CheckpointError(
            f"{folder} holds a model already: give another folder, or --force to replace it and all it has learned"
        )


def _fit_and_save(read: Reference, ratio: Any, label: str, settings: dict[str, Any], folder: Path) -> None:
    from accous.checkpoint.locks import exclusive_lock
    from accous.classifier.adaptation import AdaptiveClassifier
    from accous.tabular.folder import Pipeline, save_pipeline

    model = AdaptiveClassifier(ratio=ratio, C=settings["C"], random_state=settings["seed"]).fit(read.X, read.y)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(folder, "accous fit"):
            save_pipeline(Pipeline(model, read.preparation, label, settings), folder, is_last=True)
    except OSError as error:
        raise CheckpointError(f"Cannot write to {folder} ({error.strerror or error}): give another folder") from None


def _write_rejects(bad_rows: list[BadRow], path: str | None, remarks: Console, unit: str) -> None:
    if not bad_rows:
        return
    where = ""
    if path is not None:
        from accous.tabular.formats.writing import RowsOutput
        from accous.tabular.rejects import rejects_frame

        file = RowsOutput(path, "csv", 0)
        file.write(rejects_frame(bad_rows))
        file.put_on_disk()
        file.close()
        where = f", in {path}"
    first = bad_rows[0]
    remarks.print(
        f"{len(bad_rows)} bad rows set aside{where}; the first: {unit} {first.line}, {first.reason}.", markup=False
    )


def _print(read: Reference, settings: dict[str, Any], folder: Path, *, as_json: bool, remarks: Console) -> None:
    if as_json:
        columns = [{"column": plan.name, "kind": plan.kind, "what": plan.summary()} for plan in read.preparation.plans]
        record = {
            "model": str(folder),
            "rows": len(read.y),
            "rejected": len(read.bad_rows),
            "features": len(read.preparation.feature_names),
            "classes": {str(label): count for label, count in sorted(Counter(read.y.tolist()).items())},
            "accuracy": settings["accuracy"],
            "largest_class": settings["largest_class"],
            "columns": columns,
        }
        typer.echo(json.dumps(record, indent=2))
        return
    from accous.cli.columns_table import columns_table
    from accous.tabular.columns.summaries import shown_lines

    console = results_console()
    console.print(columns_table(shown_lines(read.preparation.plans)))
    classes = sorted(Counter(read.y.tolist()).items())
    shares = ", ".join(f"{label} {count / len(read.y):.1%}" for label, count in classes[:8])
    more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
    n_features = len(read.preparation.feature_names)
    console.print(f"{len(read.y):,} rows, {n_features} features, {len(classes)} classes: {shares}{more}.", markup=False)
    accuracy = settings["accuracy"]
    found = "unknown, the reference has too few rows to cross-validate" if accuracy is None else f"{accuracy:.1%}"
    console.print(
        f"Cross-validated accuracy on the reference: {found} (always the most frequent class: "
        f"{settings['largest_class']:.1%})."
    )
    remarks.print(
        f"Model: {folder}. Next: accous adapt {folder} STREAM -o predictions.csv", soft_wrap=True, markup=False
    )
