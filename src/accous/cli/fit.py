"""``accous fit``: the offline stage, from a labelled table to a model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accous.cli.fit_run import run_fit
from accous.cli.options import (
    LARGEST_SEED,
    AsJson,
    Categorical,
    Drop,
    Encoding,
    Force,
    KeepAsFeature,
    Label,
    OnBadRow,
    Ordered,
    Quiet,
    ReferenceFile,
    Rejects,
    Separator,
    TableFormat,
    Task,
    Time,
    remarks_console,
    require_between,
    require_separator,
    require_task,
)
from accous.parameters import require_choice

__all__ = ["EXAMPLES", "fit"]

EXAMPLES = """
Examples:

`accous fit reference.csv --label y -o model/`

`accous fit reference.parquet --label churned -o model/ --time signed_up --categorical plan,region`

`zcat reference.csv.gz | accous fit - --label y -o model/ --json`

`accous fit embeddings.npy --label labels.npy -o model/`

`accous fit trips.csv --target minutes -o model/`
"""
_MODEL = "The model"
_Folder = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model's folder.")]
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
_Estimator = Annotated[
    str,
    typer.Option(
        "--estimator", metavar="auto|linear|boosting|forest|MODULE:NAME",
        help="What predicts; auto compares linear and boosting. MODULE:NAME: your function that makes a classifier.",
        rich_help_panel=_MODEL,
    ),
]  # fmt: skip
_C = Annotated[float, typer.Option("--C", help="Inverse regularization strength of linear.", rich_help_panel=_MODEL)]
_Alpha = Annotated[
    float, typer.Option("--alpha", help="Penalty of the linear regression of numbers.", rich_help_panel=_MODEL)
]
_RefitBudget = Annotated[
    float,
    typer.Option(
        "--refit-budget", metavar="SHARE", help="Largest share of the time for refits of forest or MODULE:NAME.",
        rich_help_panel=_MODEL,
    ),
]  # fmt: skip
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
    task: Task = None,
    drop: Drop = None,
    categorical: Categorical = None,
    time: Time = None,
    ordered: Ordered = None,
    keep_as_feature: KeepAsFeature = None,
    estimator: _Estimator = "auto",
    ratio: _Ratio = "accous",
    feature_map: _FeatureMap = None,
    loss: _Loss = None,
    max_ratio: _MaxRatio = None,
    C: _C = 1.0,
    alpha: _Alpha = 1.0,
    refit_budget: _RefitBudget = 0.2,
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
    """Fit a model on a labelled reference table: a classifier, or a regressor if the label is a number.

    Missing numbers are filled in and numbers are scaled, each category level becomes a feature, and dates become
    positions in the year, the week and the day. A table shows what is done with each column, and all of it is saved
    with the model. A date column also gives the rows their order in time, unless you name a column with --time.
    """
    require_between("--seed", seed, 0, LARGEST_SEED)
    require_choice("--on-bad-row", on_bad_row, ("fail", "skip"))
    require_choice("--caution", caution, ("high", "normal", "low"))
    from accous.table.fit import FitRequest

    request = FitRequest(
        reference=reference,
        label=label,
        folder=output,
        task=require_task(task),
        drop=drop or [],
        categorical=categorical or [],
        time=time,
        is_ordered=ordered,
        keep_as_feature=keep_as_feature or [],
        estimator=estimator,
        ratio=ratio,
        feature_map=feature_map,
        loss=loss,
        max_ratio=max_ratio,
        C=C,
        alpha=alpha,
        refit_budget=refit_budget,
        caution=caution,
        seed=seed,
        table_format=table_format,
        encoding=encoding,
        separator=require_separator(separator),
        skips_bad=on_bad_row == "skip",
        rejects=rejects,
        overwrites=force,
    )
    return run_fit(request, remarks_console(quiet=quiet), as_json=as_json)
