"""``accous ask``, which rows to label, and ``accous labels``: measured by the predictions of the time, then learned."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from accous.cli.options import locked_model, remarks_console, results_console, say
from accous.cli.status import status_line
from accous.table.options import AskOptions, LabelsOptions
from accous.text import count

if TYPE_CHECKING:
    from accous.model.learning import LearningEvent
    from accous.table.labels import LabelJob, LabelsCounted

ASK_EXAMPLES = """
Examples:

`accous ask model/ stream.csv -n 100 -o to_label.csv`

`accous ask model/ stream.csv --labels-per 1000 50 -o to_label.csv --key id`
"""

EXAMPLES = """
Examples:

`accous labels model/ labels.csv --key id`

`accous labels model/ labels.csv --label churned --json`

`accous labels model/ --undo`

`accous labels model/ --forget 4711`
"""


def ask(options: AskOptions) -> int:
    """Choose random rows to label, and write them with an empty label column.

    Fill in the labels and give the file to accous labels, which measures the model with them and then lets it learn.
    No row is asked about twice. Rows without a prediction are predicted first, without learning from them.
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
    then = f"fill in the column {job.table_model.label!r} of {options.output}, then run accous labels {options.model} "
    then += options.output
    if not asked.n_asked:
        then = "no row of this share is left"
    elif options.key:
        then += f" --key {options.key}"
    say(results_console(), f"{asked.n_asked:,} of {count(asked.n_free, 'row')} chosen: {then}.")
    return 0


def labels(options: LabelsOptions) -> int:
    """Measure how good the model is with labels that arrived late, and learn from them.

    Each label is compared with the prediction made at the time, which the model's folder remembers by the key of the
    row, the id of the prediction, or the line in the predicted file. A label counts once, even if you give it twice;
    another label for the same row replaces it.

    Once enough labels are new, the model learns from all of them: a second predictor is fitted on the reference and the
    labels, with less weight on older rows, and the two predict together. --measure-only measures without learning, and
    --undo takes the last file back.
    """
    from accous.table.labels import LabelJob

    remarks, counted, done = remarks_console(quiet=options.quiet), None, ""
    with locked_model(options.model, "accous labels"), remarks.status("Joining the labels with the predictions"):
        job = LabelJob(options)
        if options.undo:
            done = f"{count(job.undo(), 'label')} taken back."
        elif options.forget:
            done = f"{count(job.forget(options.forget), 'prediction')} deleted."
        else:
            before = job.table_model.learned_[-1:]
            counted = job.run()
            done = _learned(job, before)
    say(remarks, *([] if counted is None else _remarks(counted)), *filter(None, [done]))
    if options.as_json:
        typer.echo(json.dumps(job.summary(counted), indent=2, allow_nan=False))
    else:
        say(results_console(), status_line(job.table_model.snapshot()))
    return 0


def _learned(job: LabelJob, before: tuple[LearningEvent, ...]) -> str:
    """Say what was learned now, or that labels wait."""
    learning, last = job.table_model.model.state_.learning, job.table_model.learned_[-1:]
    if last and last != before:
        labels = f"{count(last[0].n_labels, 'label')} ({last[0].n_new:,} new)"
        return f"The model learned from {labels}; what it learned makes up {last[0].weight:.0%} of each prediction."
    n_waiting = 0 if learning is None else int((~learning.kept.is_learned).sum())
    waits = count(n_waiting, "label waits", "labels wait")
    return f"{waits} until there are enough to learn from." if n_waiting else ""


def _remarks(counted: LabelsCounted) -> list[str]:
    """Say how the labels were joined, and what became of those that were not counted now."""
    texts = [f"{counted.joined_by[0].upper()}{counted.joined_by[1:]}."]
    if not (counted.n_counted or counted.n_corrected):
        texts.append("Nothing new: these labels were counted before.")
    elif counted.n_before:
        texts.append(
            count(counted.n_before, "label was counted before and does", "labels were counted before and do")
            + " not count again."
        )
    if counted.n_corrected:
        texts.append(count(counted.n_corrected, "label takes", "labels take") + " the place of another one.")
    if counted.n_unmatched:
        unmatched = count(counted.n_unmatched, "label has", "labels have")
        then = "To learn from them, predict their rows first (accous predict) and give the labels again."
        texts.append(f"{unmatched} no prediction; the first is {counted.first_unmatched!r}. {then}")
    if counted.n_repeated:
        texts.append(count(counted.n_repeated, "row repeats", "rows repeat") + " a label.")
    lacking = ((counted.n_missing, "label"), (counted.n_unnamed, counted.place_column))
    texts += [count(number, "row has", "rows have") + f" no {what}." for number, what in lacking if number]
    if counted.unseen:
        names = ", ".join(f"{name} ({n_rows:,})" for name, n_rows in counted.unseen.items())
        texts.append(f"Labels that the reference does not have count as errors: {names}.")
    return texts
