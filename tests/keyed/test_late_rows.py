"""Rows that come too late, and rounds by time."""

import numpy as np
import pytest

from accous.exceptions import DataError, ParameterError
from accous.keyed import KeyedAdapter
from tests.keyed.conftest import drifting


def n_late(adapter, state):
    from accous.core.many_keys import Number

    return int(adapter.runner.read([None], [state])[0].numbers[Number.N_LATE, 0])


@pytest.mark.parametrize(("late", "rounds"), [("drop", []), ("count", [0, 0]), ("next", [2, 2])])
def test_policies(model, late, rounds):
    adapter, X = KeyedAdapter(model, round_size=5, lateness=2.0, late=late), drifting(30, 0)
    # At time 20, rows before 18 are ripe: three rounds of five, and three rows more.
    state, before, _ = adapter.step(None, X[:21], np.arange(21.0))
    assert before.rounds.tolist() == [1] * 5 + [2] * 5 + [3] * 5 + [4] * 3
    state, after, _ = adapter.step(state, X[21:23], [1.0, 17.5], numbers=[101, 102])
    assert after.numbers.tolist() == ([101, 102] if rounds else [])
    assert (after.rounds > 0).tolist() == [number > 0 for number in rounds]
    assert n_late(adapter, state) == 2


def test_a_late_row_keeps_its_own_time(model):
    X = drifting(30, 0)
    adapter = KeyedAdapter(model, round_size=5, lateness=2.0)
    state, _, _ = adapter.step(None, X[:21], np.arange(21.0))
    _, after, _ = adapter.step(state, X[21:24], [1.0, 30.0, 2.0], numbers=[101, 102, 103])
    found = dict(zip(after.numbers.tolist(), after.times.tolist(), strict=True))
    assert (found[101], found[103]) == (1.0, 2.0)
    assert set(after.times.tolist()) == {1.0, 2.0, 18.0, 19.0, 20.0}, "rows of the call before keep theirs, too"
    adapter = KeyedAdapter(model, round_time=10.0)
    state, _, _ = adapter.step(None, X[:2], [3.0, 55.0])
    state, after, _ = adapter.step(state, X[2:3], [5.0])
    assert (after.times.tolist(), after.rounds.tolist()) == ([5.0], [2])
    _, after, _ = adapter.step_many({"a": state}, ["b", "a"], [7.0, 6.0], X[3:5])
    assert (after.keys.tolist(), after.times.tolist()) == (["b", "a"], [7.0, 6.0])


def test_what_is_said_of_a_late_row_that_is_only_counted_does_not_depend_on_the_cut(model):
    X, times = drifting(400, 5, 0.0) + np.array([0.0, 2.0, 0.0, 0.0]), np.arange(400.0)
    times[300] = 10.0
    adapter, found, states = KeyedAdapter(model, round_size=5, lateness=2.0, late="count"), set(), set()
    for cuts in ([200], [300], [250, 301]):
        state = None
        for part in np.split(np.arange(400), cuts):
            state, predictions, _ = adapter.step(state, X[part], times[part], numbers=part)
            is_late = predictions.numbers == 300
            found |= {each.tobytes() for each in predictions.probabilities[is_late]}
            assert predictions.classes[is_late].tolist() in ([], model.predict_fixed(X[300:301]).tolist())
        states.add(state)
    assert (len(found), len(states)) == (1, 1)


def test_a_row_as_old_as_allowed_is_not_late(model):
    adapter = KeyedAdapter(model, round_size=5, lateness=2.0, late="drop")
    state, _, _ = adapter.step(None, drifting(1, 0), [10.0])
    state, _, _ = adapter.step(state, drifting(1, 1), [8.0])
    assert n_late(adapter, state) == 0
    state, _, _ = adapter.step(state, drifting(1, 2), [7.9])
    assert n_late(adapter, state) == 1


def test_rounds_by_time(model):
    adapter, X = KeyedAdapter(model, round_time=10.0), drifting(7, 0)
    state, predictions, _ = adapter.step(None, X, [3.0, 1.0, 12.0, 55.0, 57.0, 59.9, 60.0])
    # Times without rows are no rounds.
    assert predictions.rounds.tolist() == [1, 1, 2, 3, 3, 3, 4]
    state, predictions, _ = adapter.step(state, X[:2], [61.0, 70.0])
    assert predictions.rounds.tolist() == [4, 5]
    state, predictions, _ = adapter.step(state, X[:1], [5.0])
    assert predictions.rounds.tolist() == [5], "a late row joins the round that is open"


def test_datetimes(model):
    adapter, X = KeyedAdapter(model, round_time=3600.0), drifting(3, 0)
    hours = np.array(["2026-01-01T00:10", "2026-01-01T00:50", "2026-01-01T02:00"], dtype="datetime64[s]")
    _, predictions, _ = adapter.step(None, X, hours)
    assert predictions.rounds.tolist() == [1, 1, 2]
    assert predictions.times.tolist() == hours.astype(np.int64).tolist()


def test_what_cannot_be_is_refused(model):
    for settings, message in (
        ({"round_size": 0}, "round_size"),
        ({"round_time": -1.0}, "round_time"),
        ({"lateness": -1.0}, "lateness must be a number that is not negative"),
        ({"late": "lose"}, "late must be"),
    ):
        with pytest.raises(ParameterError, match=message):
            KeyedAdapter(model, **settings)
    with pytest.raises(DataError, match="needs times for round_time"):
        KeyedAdapter(model, round_time=1.0).step(None, drifting(1, 0))
