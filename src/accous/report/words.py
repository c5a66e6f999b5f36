"""The sentences of a report: the verdict, how far the inputs moved, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from accous.report.subject import Subject

__all__ = ["Verdict", "judge_in_words"]

_HARDLY, _SOMEWHAT = 0.05, 0.2


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees.

    Attributes
    ----------
    tone : {"good", "thin", "bad", "none"}
    headline : str
    moved : str
        How far the inputs have moved, and which columns moved.
    trust : str
        Whether the adaptation can be trusted, and why.
    advice : list of str
        What to do.
    """

    tone: str
    headline: str
    moved: str
    trust: str
    advice: list[str]


def judge_in_words(subject: Subject) -> Verdict:
    """Describe the model's diagnostics in sentences."""
    trust = subject.model.trust_
    if subject.model.n_rounds_ == 0:
        none = "No batch has been seen yet."
        return Verdict("none", "Nothing to report yet", none, "", ["Run accous adapt on a stream first."])
    tones = {"good": "good", "thin": "thin", "no overlap": "bad"}
    return Verdict(tones[trust.verdict], _headline(subject), _moved(subject), trust.reason, _advice(subject))


def _headline(subject: Subject) -> str:
    trust, moved = subject.model.trust_, subject.moved_share
    if trust.verdict == "no overlap":
        return "The inputs have left the range that the reference covers"
    if trust.verdict == "thin":
        return "The inputs have moved to a region where the reference has few rows"
    if trust.is_vetoed:
        return "The inputs have moved, and the fixed model handles them better"
    if moved < _HARDLY:
        return "The inputs look like the reference"
    return "The inputs have moved, and the model follows"


def _moved(subject: Subject) -> str:
    moved = subject.moved_share
    how = "very little" if moved < _HARDLY else "somewhat" if moved < _SOMEWHAT else "far"
    text = f"The inputs have moved {how}: {moved:.0%} of the reference's weight has shifted to other rows."
    leading = [f"{name} ({share:.0%})" for name, share in subject.column_shares()[:3] if share >= 0.05]
    if leading and moved >= _HARDLY:
        text += f" Columns that moved most: {', '.join(leading)}."
    n_events = len(subject.events)
    if n_events:
        last = subject.events[-1]
        changes = "One change was detected" if n_events == 1 else f"{n_events} changes were detected, the last"
        text += f" {changes} in round {last.round:,}."
    return text


def _advice(subject: Subject) -> list[str]:
    trust, risk = subject.model.trust_, subject.model.risk_
    advice = []
    if trust.verdict == "no overlap":
        advice.append("Do not rely on the current predictions: no weighting of this reference fits the current inputs.")
        advice.append("Label a few hundred recent rows, add them to the reference, and run accous fit again.")
    elif trust.verdict == "thin":
        advice.append("Use the predictions with care, and check a sample of them by hand.")
        advice.append("Label some recent rows and add them to the reference: even a hundred help a lot.")
    elif subject.moved_share < _HARDLY:
        advice.append("You do not need to do anything.")
    else:
        advice.append("You can keep using the predictions: they are adapted to the current inputs.")
    if trust.is_vetoed:
        advice.append("The fixed model currently makes the predictions; accous retries the adaptation automatically.")
    if risk.fixed - risk.adapted > 0.01 and not trust.is_vetoed and trust.verdict != "no overlap":
        gain = 100 * (risk.fixed - risk.adapted)
        advice.append(f"The estimated error of the adapted model is {gain:.1f} points below that of the fixed model.")
    if not subject.history.totals()["n_scored"]:
        advice.append(
            "All of this assumes that the same input still gets the same label as in the reference. Only labels can "
            "confirm that: pass some from time to time (accous adapt --label)."
        )
    return advice
