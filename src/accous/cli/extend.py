"""``accous extend``: labelled rows join the reference, so that a model recovers when P(y | x) has changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from accous.cli.options import compile_with_notice, locked_model, print_backtest, remarks_console, results_console, say
from accous.table.options import ExtendOptions
from accous.text import count

if TYPE_CHECKING:
    from rich.console import Console

    from accous.table.labels import ExtendJob, RowsJoined

__all__ = ["EXAMPLES", "extend"]

EXAMPLES = """
Examples:

`accous extend model/ labelled.csv --label y`

`accous extend model/ labels.csv --key id`

`accous extend model/ labelled.parquet --max-reference 2000 --json`
"""


def extend(options: ExtendOptions) -> int:
    """Add labelled rows to the reference, and fit again; what the rounds have learned goes on.

    Give a table that has the columns of the model and the labels, or late labels alone: the model's folder remembers
    their rows. Measure first (accous labels): afterwards the model has seen the labels. Give each row once. A reference
    with an order in time is replayed again.
    """
    from accous.table.labels import ExtendJob

    remarks = remarks_console(quiet=options.quiet)
    compile_with_notice(remarks)
    with locked_model(options.model, "accous extend"), remarks.status("Reading the rows and fitting again"):
        job = ExtendJob(options)
        joined = job.run()
    _remark(joined, options.rejects, remarks)
    if options.as_json:
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
        texts.append(count(joined.n_unmatched, "label has", "labels have") + " no row that is remembered.")
    if joined.bad_rows:
        where = "" if rejects is None else f", in {rejects}"
        texts.append(f"{count(len(joined.bad_rows), 'bad row')} set aside{where}.")
    say(remarks, *texts)


def _known_rows(joined: RowsJoined) -> list[str]:
    """Say how many rows did not join because the reference has or had them, and how many look as if it had."""
    from accous.table.rows import copies_in_words

    texts = []
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
    say(results_console(), text)
    is_ordered = model.verification_.order is not None
    reason = model.unverified_ or ("" if is_ordered else "The reference has no order in time.")
    print_backtest(model.backtest_, reason, is_ordered=is_ordered)
