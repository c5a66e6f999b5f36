"""``accous extend``: labelled rows join the reference, so that a model recovers when P(y | x) has changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from accous.cli.locked_model import locked_model
from accous.cli.options import (
    AsJson,
    EarlierPredictions,
    Encoding,
    ModelFolder,
    NamedEstimator,
    OnBadRow,
    Ordered,
    Quiet,
    Rejects,
    Separator,
    TableFormat,
    print_backtest,
    remarks_console,
    require_between,
    require_separator,
)
from accous.parameters import require_choice
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.table.extend import ExtendJob, RowsJoined

__all__ = ["EXAMPLES", "extend"]

EXAMPLES = """
Examples:

`accous extend model/ labelled.csv --label y`

`accous extend model/ labels.csv --key id`

`accous extend model/ labels.csv --key id --predictions yesterday.csv`

`accous extend model/ labelled.parquet --max-reference 2000 --json`
"""
_LARGEST_REFERENCE = 100_000_000
_Rows = Annotated[
    str,
    typer.Argument(
        metavar="LABELLED", help="Labelled rows, or late labels of rows that a run has predicted; - is stdin."
    ),
]
_Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COL|FILE", help="Labels, as for fit. Default: named as in the reference."),
]
_Key = Annotated[
    str | None,
    typer.Option("--key", metavar="COL", help="Column that names a row: a row joins once. Default: its line does."),
]
_MaxReference = Annotated[
    int | None,
    typer.Option(
        "--max-reference", metavar="N", help="Most rows of the reference. Default: twice those that fit was given."
    ),
]
_DropRows = Annotated[
    str,
    typer.Option("--drop-rows", metavar="oldest|least-weight", help="Which rows leave if there are more than that."),
]


def extend(
    model: ModelFolder,
    rows: _Rows,
    label: _Label = None,
    key: _Key = None,
    predictions: EarlierPredictions = None,
    max_reference: _MaxReference = None,
    drop_rows: _DropRows = "oldest",
    ordered: Ordered = None,
    table_format: TableFormat = None,
    encoding: Encoding = None,
    separator: Separator = None,
    on_bad_row: OnBadRow = "fail",
    rejects: Rejects = None,
    estimator: NamedEstimator = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Add labelled rows to the reference, and fit again; what the rounds have learned goes on.

    Give a table that has the columns of the model and the labels, or late labels alone: their rows are then read again
    from the stream of the last run, or of the run that wrote `--predictions`. Measure first (accous labels): afterwards
    the model has seen the labels. A row joins once, also if you give it again. A reference with an order in time is
    replayed again.
    """
    require_choice("--on-bad-row", on_bad_row, ("fail", "skip"))
    require_choice("--drop-rows", drop_rows, ("oldest", "least-weight"))
    if max_reference is not None:
        require_between("--max-reference", max_reference, 2, _LARGEST_REFERENCE)
    from accous.cli.compiling import compile_with_notice
    from accous.table.extend import ExtendJob, ExtendRequest

    request = ExtendRequest(
        model=model,
        estimator=estimator,
        rows=rows,
        label=label,
        key=key,
        predictions=predictions,
        is_ordered=ordered,
        max_reference=max_reference,
        drop=drop_rows.replace("-", " "),
        table_format=table_format,
        encoding=encoding,
        separator=require_separator(separator),
        skips_bad=on_bad_row == "skip",
        rejects=rejects,
    )
    remarks = remarks_console(quiet=quiet)
    compile_with_notice(remarks)
    with locked_model(model, "accous extend"), remarks.status("Reading the rows and fitting again"):
        job = ExtendJob(request)
        joined = job.run()
    _remark(joined, rejects, remarks)
    if as_json:
        typer.echo(json.dumps(job.summary(joined), indent=2, allow_nan=False))
    elif joined.n_joined:
        _print(job, joined)
    return 0


def _remark(joined: RowsJoined, rejects: str | None, remarks: Console) -> None:
    texts = [f"{joined.joined_by[0].upper()}{joined.joined_by[1:]}."] if joined.joined_by else []
    texts += _known_rows(joined)
    if joined.n_missing:
        texts.append(count(joined.n_missing, "row has", "rows have") + " no label.")
    if joined.n_unnamed:
        texts.append(count(joined.n_unnamed, "row has", "rows have") + f" no {joined.key}.")
    if joined.n_unmatched:
        texts.append(count(joined.n_unmatched, "label has", "labels have") + " no row in the stream of the run.")
    if joined.bad_rows:
        where = "" if rejects is None else f", in {rejects}"
        texts.append(f"{count(len(joined.bad_rows), 'bad row')} set aside{where}.")
    for text in texts:
        remarks.print(text, markup=False, soft_wrap=True)


def _known_rows(joined: RowsJoined) -> list[str]:
    """Say how many rows did not join because the reference has or had them, and how many look as if it had."""
    from accous.table.rows import copies_in_words

    if not joined.n_joined and not joined.n_copies:
        return ["Nothing new: these rows have joined before."]
    texts = []
    if joined.n_before:
        texts.append(
            count(joined.n_before, "row has joined before and does", "rows have joined before and do")
            + " not join again."
        )
    if joined.n_copies:
        texts.append(("" if joined.n_joined else "Nothing new: ") + copies_in_words(joined.n_copies))
    if joined.n_alike:
        texts.append(
            f"{joined.n_alike:,} of the rows that joined equal a row of the reference in label and features: if they "
            "are the same rows, the backtest tests rows on themselves; then run accous fit on a table that has each "
            "row once."
        )
    return texts


def _print(job: ExtendJob, joined: RowsJoined) -> None:
    model = job.table_model.model
    text = f"{count(joined.n_joined, 'row')} joined the reference"
    text += f", {joined.n_left:,} left it" if joined.n_left else ""
    text += f"; it has {count(len(model.task_), 'row')} now."
    if joined.new_classes:
        text += f" New classes: {', '.join(joined.new_classes)}."
    typer.echo(text)
    is_ordered = model.time_order_ is not None
    reason = model.unverified_ or ("" if is_ordered else "The reference has no order in time.")
    print_backtest(model.backtest_, reason, is_ordered=is_ordered)
