"""The risk may be read long after its round: the history has the same bits, and the round did not wait for it."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import VERDICTS
from accous.model.watching import NO_ROUNDS
from accous.streams import GaussianStream, SquareShift
from accous.table import history as histories
from accous.table.history import History

N_ROUNDS = 40


def risk_of(value: float) -> RiskEstimate:
    return RiskEstimate(
        adapted=value, adapted_low=0.1, adapted_high=0.7, fixed=0.3, fixed_low=float("nan"), fixed_high=0.5
    )


@pytest.fixture(scope="module")
def models() -> list[AdaptiveClassifier]:
    """The model after each of some rounds."""
    stream = GaussianStream(SquareShift(period=10), n_features=2, n_reference=40, n_rounds=N_ROUNDS, batch_size=3)
    model = AdaptiveClassifier().fit(*stream.reference())
    return [copy(model.adapt(batch.X)) for batch in stream]


def test_a_risk_that_was_read_late_is_noted_for_its_round():
    """In the open rows, in closed blocks that earlier states share, and for a round that is no longer kept."""
    log, states = NO_ROUNDS, []
    for _ in range(70):
        log = log.after({}, np.ones(3), 1, share=1.0, refit=False, drift=False, held=False)
        states.append(log)
    for number in (1, 32, 33, 64, 65, 69, 70):
        noted = log.noting(70 - number, risk_of(0.25)).rows({})[:, 6]
        assert np.flatnonzero(~np.isnan(noted)).tolist() == [number - 1]
        assert noted[number - 1] == 0.25
        at_once = NO_ROUNDS
        for each in range(1, 71):
            cache = {"wide_risk": risk_of(0.25)} if each == number + 1 else {}
            at_once = at_once.after(cache, np.ones(3), 1, share=1.0, refit=False, drift=False, held=False)
        if number < 70:
            assert at_once.rows({}).tobytes() == log.noting(70 - number, risk_of(0.25)).rows({}).tobytes()
    assert log.noting(70, risk_of(0.25)) is log
    assert all(np.isnan(state.rows({})[:, 6]).all() for state in states)


def play(
    models: list[AdaptiveClassifier], look_after=lambda *_: None, *, reads_later: bool
) -> tuple[History, list[AdaptiveClassifier]]:
    """Note all rounds; return the history, and the copies that it was given."""
    history, copies = History(), []
    history.reads_later = reads_later
    for number, model in enumerate(models, start=1):
        unread = copy(model)
        unread.state_ = replace(model.state_, cache={})

        def aside(unread: AdaptiveClassifier = unread) -> AdaptiveClassifier:
            copies.append(unread)
            return unread

        history.add(unread, 3, aside=aside)
        look_after(number, history)
    return history, copies


def is_read(model: AdaptiveClassifier) -> bool:
    return "wide_risk" in model.state_.cache


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
def test_when_it_is_read_does_not_show(monkeypatch, models, look_after):
    """Points merge several times meanwhile."""
    monkeypatch.setattr(histories, "MOST_POINTS", 4)
    monkeypatch.setattr(histories, "_EARLY_ROUNDS", N_ROUNDS)
    at_once, _ = play(models, reads_later=False)
    later, copies = play(models, look_after, reads_later=True)
    assert plain(later) == plain(at_once)
    assert at_once.stride > 8
    assert len(copies) == N_ROUNDS
    assert all(map(is_read, copies))


def test_rounds_do_not_read(models):
    history, copies = play(models[:16], reads_later=True)
    assert not any(map(is_read, copies))
    assert [due.round for due in history.due] == list(range(1, 17))
    assert history.column("risk").tolist() == [each.risk_.adapted for each in models[:16]]
    assert history.column("verdict").tolist() == [VERDICTS.index(each.trust_.verdict) for each in models[:16]]
    assert history.due == []


def test_what_is_due_is_bounded(monkeypatch, models):
    monkeypatch.setattr(histories, "_EARLY_ROUNDS", N_ROUNDS)
    monkeypatch.setattr(histories, "_MOST_DUE", 8)
    history, copies = play(models, reads_later=True)
    assert 0 < len(history.due) <= 8
    assert sum(not is_read(each) for each in copies) == len(history.due)


def test_without_a_copy_the_model_itself_is_read_at_once(models):
    history = History()
    history.reads_later = True
    history.add(models[0], 1)
    assert history.due == []
    assert history.column("risk").tolist() == [models[0].risk_.adapted]
