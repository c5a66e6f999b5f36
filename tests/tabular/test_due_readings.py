"""The risk may be read long after its round: the history has the same bits, and the round did not wait for it."""

from dataclasses import dataclass

import numpy as np
import pytest

from accous.classifier.round_log import NO_ROUNDS
from accous.diagnostics.trust import VERDICTS
from accous.tabular import history as histories
from accous.tabular.history import History


@dataclass(frozen=True)
class Answer:
    verdict: str


@dataclass(frozen=True)
class Risk:
    adapted: float
    adapted_low: float = 0.1
    adapted_high: float = 0.7
    fixed: float = 0.3
    fixed_low: float = float("nan")
    fixed_high: float = 0.5


class Copy:
    """A model that stays in one round, and counts how often it was read."""

    def __init__(self, number: int) -> None:
        self.number, self.n_read = number, 0

    @property
    def risk_(self) -> Risk:
        self.n_read += 1
        # Sums of these depend on the order in which they are added.
        return Risk(1.0 / (3 + self.number))

    @property
    def trust_(self) -> Answer:
        return Answer(VERDICTS[self.number % len(VERDICTS)])


class Model:
    effective_sample_size_ = 5.0
    reference_weight_ = np.array([1.0])
    ratio_ = None
    drift_events_ = ()


def test_a_risk_that_was_read_late_is_noted_for_its_round():
    """In the open rows, in closed blocks that earlier states share, and for a round that is no longer kept."""
    log, states = NO_ROUNDS, []
    for _ in range(70):
        log = log.after({}, np.ones(3), 1, share=1.0, refit=False, drift=False, held=False)
        states.append(log)
    for number in (1, 32, 33, 64, 65, 69, 70):
        noted = log.noting(70 - number, Risk(0.25)).rows({})[:, 6]
        assert np.flatnonzero(~np.isnan(noted)).tolist() == [number - 1]
        assert noted[number - 1] == 0.25
        at_once = NO_ROUNDS
        for each in range(1, 71):
            cache = {"wide_risk": Risk(0.25)} if each == number + 1 else {}
            at_once = at_once.after(cache, np.ones(3), 1, share=1.0, refit=False, drift=False, held=False)
        if number < 70:
            assert at_once.rows({}).tobytes() == log.noting(70 - number, Risk(0.25)).rows({}).tobytes()
    assert log.noting(70, Risk(0.25)) is log
    assert all(np.isnan(state.rows({})[:, 6]).all() for state in states)


def play(n_rounds: int, look_after=lambda *_: None, *, reads_later: bool) -> tuple[History, list[Copy]]:
    history, copies = History(), []
    history.reads_later = reads_later

    def aside() -> Copy:
        copies.append(Copy(history.n_rounds))
        return copies[-1]

    for number in range(1, n_rounds + 1):
        history.add(Model(), 3, aside=aside)
        look_after(number, history)
    return history, copies


def plain(history: History) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in history.to_plain().items()}


def look_at_due(number: int, history: History) -> None:
    if number % 5 == 0:
        for due in history.due[::2]:
            due.read()


def copy_now_and_then(number: int, history: History) -> None:
    if number % 7 == 3:
        history.copy()


@pytest.mark.parametrize("look_after", [lambda *_: None, look_at_due, copy_now_and_then])
def test_when_it_is_read_does_not_show(monkeypatch, look_after):
    """Points merge several times meanwhile."""
    monkeypatch.setattr(histories, "MOST_POINTS", 8)
    monkeypatch.setattr(histories, "_EARLY_ROUNDS", 100)
    at_once, _ = play(100, reads_later=False)
    later, copies = play(100, look_after, reads_later=True)
    assert plain(later) == plain(at_once)
    assert at_once.stride > 8
    assert [copy.n_read for copy in copies] == [1] * 100


def test_rounds_do_not_read_and_what_is_due_is_bounded():
    history, copies = play(16, reads_later=True)
    assert [copy.n_read for copy in copies] == [0] * 16
    assert [due.round for due in history.due] == list(range(1, 17))
    assert history.column("risk").tolist() == [1.0 / (3 + number) for number in range(1, 17)]
    assert history.due == []


def test_what_is_due_is_bounded(monkeypatch):
    monkeypatch.setattr(histories, "_EARLY_ROUNDS", 400)
    history, copies = play(200, reads_later=True)
    assert len(history.due) <= 64
    assert sum(copy.n_read == 0 for copy in copies) == len(history.due)


def test_without_a_copy_the_model_itself_is_read_at_once():
    history = History()
    history.reads_later = True
    model = Model()
    model.risk_, model.trust_ = Risk(0.25), Answer(VERDICTS[0])
    history.add(model, 1)
    assert history.due == []
