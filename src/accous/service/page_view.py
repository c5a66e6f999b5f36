"""What the live page shows, as plain values: the verdict first, then numbers, charts and changes."""

from __future__ import annotations

from typing import Any

from accous.report.page.figures import (
    MEASURED_LATE,
    Figure,
    error_figure,
    lengths_figure,
    moved_figure,
    place_of_rounds,
    sample_size_figure,
)
from accous.report.page.page import NOTES, TITLES, event_rows, tile_rows
from accous.report.page.words import Subject, answer_rows, judge_in_words

__all__ = ["page_view"]

_ADDRESSES = {
    "Run accous adapt on a stream first.": "Send rows to /v1/step.",
    ", or accous adapt --label": "",
    "accous labels": "/v1/labels",
}
_ANSWER_TONES = {"yes": "good", "no": "bad", "not known": "none"}


def page_view(
    subject: Subject,
    state: dict[str, Any],
    measured: list[list[float]],
    n_records: int,
) -> dict[str, Any]:
    """Return what the page shows.

    Parameters
    ----------
    subject : Subject
    state : dict
        What ``accous inspect --json`` prints.
    measured : list of (round, error, low, high, labels)
        What late labels had measured by some rounds.
    n_records : int
        Of the log.
    """
    verdict = judge_in_words(subject)
    headings, rows = event_rows(subject)
    return {
        "records": n_records,
        "name": subject.name,
        "rounds": state["rounds"],
        "rows": subject.history.totals()["n_rows"],
        "reference_rows": state["reference_rows"],
        "verdict": {
            "tone": verdict.tone,
            "badge": verdict.badge,
            "headline": verdict.headline,
            "sentences": [text for text in (verdict.moved, verdict.trust) if text],
            "advice": [_for_service(text) for text in verdict.advice],
        },
        "answers": [
            {"question": question, "answer": answer, "tone": _ANSWER_TONES[answer], "sentence": sentence}
            for question, answer, sentence in answer_rows(subject)
        ],
        "tiles": [{"name": name, "value": value, "note": note} for name, value, note in tile_rows(subject)],
        "charts": _charts(subject, measured),
        "changes": {"headings": headings, "rows": rows, "all": len(subject.events)},
        "findings": list(state["findings"]),
    }


def _for_service(text: str) -> str:
    """Name the address where the report names the command."""
    for command, address in _ADDRESSES.items():
        text = text.replace(command, address)
    return text


def _charts(subject: Subject, measured: list[list[float]]) -> dict[str, dict[str, Any]]:
    figures: dict[str, Figure | None] = {
        "error": _with_labels(subject, error_figure(subject), measured),
        "sample": sample_size_figure(subject),
        "moved": moved_figure(subject),
        "lengths": lengths_figure(subject),
    }
    return {
        name: {"title": TITLES[name], "note": " ".join(NOTES[name].split()), "figure": figure}
        for name, figure in figures.items()
        if figure is not None
    }


def _with_labels(subject: Subject, figure: Figure | None, measured: list[list[float]]) -> Figure | None:
    """Add what late labels had measured, where the time line reaches back to it."""
    ends = subject.history.rounds
    notes = [note for note in measured if len(ends) and note[0] <= subject.history.n_rounds]
    if figure is None or not notes or any(each["name"] == MEASURED_LATE for each in figure["series"]):
        return figure
    rounds, errors, lows, highs = (list(column) for column in list(zip(*notes, strict=True))[:4])
    series = {
        "kind": "dots",
        "name": MEASURED_LATE,
        "colour": "measured",
        "x": place_of_rounds(subject, [int(each) for each in rounds]),
        "y": [round(each, 5) for each in errors],
        "low": [round(each, 5) for each in lows],
        "high": [round(each, 5) for each in highs],
    }
    return figure | {"series": [*figure["series"], series]}
