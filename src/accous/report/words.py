"""What a report says in words: the verdict, how far the inputs moved, and what to do."""

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
        How far the inputs have moved, and which.
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
    """Put the model's own diagnostics into words."""
    trust = subject.model.trust_
    if subject.model.n_rounds_ == 0:
        none = "No batch has been seen yet."
        return Verdict("none", "Nothing to report yet", none, "", ["Run accous adapt on a stream first."])
    tones = {"good": "good", "thin": "thin", "no overlap": "bad"}
    return Verdict(tones[trust.verdict], _headline(subject), _moved(subject), trust.reason, _advice(subject))


def _headline(subject: Subject) -> str:
    trust, moved = subject.model.trust_, subject.moved_share
    if trust.verdict == "no overlap":
        return "The inputs have left what the reference covers"
    if trust.verdict == "thin":
        return "The inputs have moved to where the reference has few rows"
    if trust.is_vetoed:
        return "The inputs have moved, and the fixed model serves them better"
    if moved < _HARDLY:
        return "The inputs look like the reference"
    return "The inputs have moved, and the model follows"


def _moved(subject: Subject) -> str:
    moved = subject.moved_share
    how = "hardly" if moved < _HARDLY else "somewhat" if moved < _SOMEWHAT else "far"
    text = f"The inputs have moved {how}: {moved:.0%} of the reference's weight now lies on other rows."
    leading = [f"{name} ({share:.0%})" for name, share in subject.column_shares()[:3] if share >= 0.05]
    if leading and moved >= _HARDLY:
        text += f" Mostly moved: {', '.join(leading)}."
    n_events = len(subject.model.drift_events_)
    if n_events:
        last = subject.model.drift_events_[-1]
        changes = "One change was noticed" if n_events == 1 else f"{n_events} changes were noticed"
        text += f" {changes}, the last in round {last.round:,}."
    return text


def _advice(subject: Subject) -> list[str]:
    trust, risk = subject.model.trust_, subject.model.risk_
    advice = []
    if trust.verdict == "no overlap":
        advice.append("Do not rely on the predictions for the current inputs: no weighting of this reference can help.")
        advice.append("Label a few hundred of the recent rows, add them to the reference, and run accous fit again.")
    elif trust.verdict == "thin":
        advice.append("Use the predictions with care, and check a sample of them by hand.")
        advice.append("Label some of the recent rows and add them to the reference: a hundred go a long way.")
    elif subject.moved_share < _HARDLY:
        advice.append("Nothing needs to be done.")
    else:
        advice.append("Go on: the predictions are made for the current inputs.")
    if trust.is_vetoed:
        advice.append("Predictions are those of the fixed model now; the adaptation is tried again by itself.")
    if risk.fixed - risk.adapted > 0.01 and not trust.is_vetoed and trust.verdict != "no overlap":
        gain = 100 * (risk.fixed - risk.adapted)
        advice.append(f"By its own estimate the adapted model errs {gain:.1f} points less than the fixed one would.")
    if not subject.history.totals()["n_scored"]:
        advice.append(
            "All this holds as long as equal inputs have equal labels now as before, which nothing without labels can "
            "show: give some labels now and then (accous adapt --label) to check."
        )
    return advice
