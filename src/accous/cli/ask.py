"""``accous ask``: which rows of a stream to label."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from accous.cli.options import locked_model, remarks_console, results_console, say
from accous.table.options import AskOptions
from accous.text import count

__all__ = ["EXAMPLES", "ask"]

EXAMPLES = """
Examples:

`accous ask model/ stream.csv -n 100 -o to_label.csv`

`accous ask model/ stream.csv --labels-per 1000 50 -o to_label.csv --key id`
"""


def ask(options: AskOptions) -> int:
    """Choose rows to label at random, and write them with an empty column for the label.

    Fill in the labels and give the file to accous labels: it measures the model with them, and the model learns from
    them. No row is asked about twice. Rows that were not predicted yet are predicted first; nothing is learned from
    them.
    """
    from accous.table.labels import AskJob

    remarks = remarks_console(quiet=options.quiet)
    with locked_model(options.model, "accous ask"), remarks.status("Choosing rows"):
        job = AskJob(options)
        asked = job.run()
    if asked.n_predicted:
        say(remarks, f"{count(asked.n_predicted, 'row')} predicted now; nothing was learned from them.")
    if options.as_json:
        typer.echo(json.dumps(asdict(asked), indent=2))
        return 0
    label = job.table_model.label
    say(
        results_console(),
        f"{count(asked.n_asked, 'row')} of {asked.n_free:,} in {options.output}: fill in the column {label!r}, then "
        f"run accous labels {options.model} {options.output}" + (f" --key {options.key}." if options.key else "."),
    )
    return 0
