"""Shifts, changes of single columns and visits of regimes are counted apart, and the words say which is which."""

from types import SimpleNamespace
from typing import Any

import pytest

from accous.diagnostics.drift import DriftEvent, Regime
from accous.report.page import render_page
from accous.report.words import changes_in_words, kinds_of_changes, note_on_changes
from tests.report.subjects import follow

REGIME = Regime(
    number=1, visits=tuple((n, n + 40) for n in range(100, 1100, 100)), size=0.5, features=(), is_current=True
)
OVER = DriftEvent(64, 0.3, ("age",), 32)
VISITED = (
    "The inputs were in a remembered regime 10 times: a visit is a shift of its own only if the weights were at rest "
    "before, and more than 20% of the weight moved."
)
MOVING = DriftEvent(576, 0.3, ("age",), None)
NEW = DriftEvent(992, 0.02, ("age",), None, "outside")


def subject(events: list[DriftEvent], regimes: tuple[Regime, ...] = (), n_seasonal: int = 0) -> Any:
    return SimpleNamespace(events=events, regimes=regimes, n_seasonal=n_seasonal)


@pytest.mark.parametrize(
    ("events", "regimes", "words"),
    [
        ([], (), ""),
        ([OVER], (), "Detected: 1 shift, in round 64."),
        ([OVER, MOVING], (), "Detected: 2 shifts, the last in round 576 and still in progress."),
        ([NEW], (), "Detected: 1 change of a single column, in round 992."),
        (
            [OVER, NEW, NEW],
            (),
            "Detected: 1 shift, in round 64; 2 changes of single columns, the last in round 992.",
        ),
        (
            [MOVING],
            (REGIME,),
            f"Detected: 1 shift, in round 576 and still in progress. {VISITED}",
        ),
        ([OVER] * 10, (REGIME,), "Detected: 10 shifts, the last in round 64."),
    ],
)
def test_the_sentence_says_what_is_counted(events, regimes, words) -> None:
    assert changes_in_words(subject(events, regimes)) == words


def test_the_tile_says_what_its_number_is_made_of() -> None:
    assert kinds_of_changes(subject([OVER])) == ""
    assert kinds_of_changes(subject([OVER, NEW])) == "1 shift; 1 of single columns"
    assert kinds_of_changes(subject([MOVING], (REGIME,))) == "10 visits of regimes"
    assert kinds_of_changes(subject([OVER], n_seasonal=2)) == "2 seasonal, not counted"


def test_the_table_says_what_a_row_counts_and_names_the_visits_if_there_are_some() -> None:
    assert "A shift is noticed when more than 20% of the weight" in note_on_changes(subject([OVER]))
    assert "visits" not in note_on_changes(subject([OVER]))
    assert "visits of regimes, below, count every time" in note_on_changes(subject([OVER], (REGIME,)))
    assert "A shift is noticed when more than 20% of the weight" in render_page(follow(3.0, n_rounds=120))
