"""How often the inputs changed, in words: shifts, changes of single columns and visits of regimes are counted apart."""

from __future__ import annotations

from accous.diagnostics.drift import LONGEST_SHIFT, SMALLEST_CHANGE
from accous.report.subject import Subject
from accous.text import count

__all__ = ["changes_in_words", "kinds_of_changes", "note_on_changes"]

_SHIFT = "shift"


def changes_in_words(subject: Subject) -> str:
    """Return how many changes were detected and which was the last, in sentences; empty if there were none."""
    shifts = [event for event in subject.events if event.kind == _SHIFT]
    others = [event for event in subject.events if event.kind != _SHIFT]
    parts = []
    if shifts:
        # The log has one shift in progress at most, and it is the last one.
        resting = " and still in progress" if shifts[-1].rounds_to_adapt is None else ""
        parts.append(f"{_times(len(shifts), 'shift', shifts[-1].round)}{resting}")
    if others:
        parts.append(_times(len(others), "change of a single column", others[-1].round, "changes of single columns"))
    found = [f"Detected: {'; '.join(parts)}."] if parts else []
    n_visits = _n_visits(subject)
    if shifts and n_visits > len(shifts):
        found.append(
            f"The inputs were in a remembered regime {n_visits} times: a visit is a shift of its own only if the "
            f"weights were at rest before, and more than {SMALLEST_CHANGE:.0%} of the weight moved."
        )
    return " ".join(found)


def kinds_of_changes(subject: Subject) -> str:
    """Return what the number of changes is made of; empty if there is nothing to tell apart."""
    n_shifts = sum(event.kind == _SHIFT for event in subject.events)
    n_others, n_visits = len(subject.events) - n_shifts, _n_visits(subject)
    parts = [count(n_shifts, "shift"), f"{n_others:,} of single columns"] if n_others else []
    parts += [count(n_visits, "visit of a regime", "visits of regimes")] if n_visits else []
    parts += [f"{subject.n_seasonal:,} seasonal, not counted"] if subject.n_seasonal else []
    return "; ".join(parts)


def note_on_changes(subject: Subject) -> str:
    """Return what a row of the table of changes counts."""
    once = (
        f"A shift is noticed when more than {SMALLEST_CHANGE:.0%} of the weight of the reference rows has moved. It "
        f"lasts until the weights rest, {LONGEST_SHIFT} rounds at most, and counts once, even if the inputs go back "
        "and forth."
    )
    return f"{once} The visits of regimes, below, count every time." if _n_visits(subject) else once


def _n_visits(subject: Subject) -> int:
    return sum(len(regime.visits) for regime in subject.regimes)


def _times(number: int, noun: str, last: int, plural: str | None = None) -> str:
    """Return how many there were, and the round of the last."""
    the_last = "" if number == 1 else "the last "
    return f"{count(number, noun, plural)}, {the_last}in round {last:,}"
