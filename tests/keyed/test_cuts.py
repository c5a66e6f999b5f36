"""The same rows give the same predictions, events and final state, bit for bit, however an engine cuts them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.keyed import KeyedAdapter
from tests.budgets import examples
from tests.keyed.conftest import drifting

N_ROWS = 403
TIMES = np.arange(N_ROWS) * 0.5


def outputs(predictions):
    """What was said of each row, without the order in which it was said; times are numbers of rows here."""
    order = np.lexsort((predictions.numbers, predictions.keys.astype(str)))
    columns = predictions.keys, predictions.numbers, predictions.rounds, predictions.classes
    return [column[order].tolist() for column in columns] + [predictions.probabilities[order].tobytes()]


def joined(parts):
    class Joined:
        pass

    whole = Joined()
    for name in ("keys", "numbers", "rounds", "classes", "probabilities"):
        setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
    return outputs(whole)


def of_events(events):
    return sorted(repr(event) for event in events)


@pytest.fixture(scope="module")
def rows():
    return drifting(N_ROWS, 3, 2.0)


@pytest.fixture(scope="module")
def whole(adapter, rows):
    state, predictions, events = adapter.step(None, rows, TIMES, numbers=np.arange(N_ROWS))
    assert events
    assert 0.0 < events[0].time < N_ROWS
    return state, outputs(predictions), of_events(events)


@examples(60)
@given(cuts=st.lists(st.integers(0, N_ROWS), max_size=12))
def test_any_cut_of_one_key(adapter, rows, whole, cuts):
    state, parts, events = None, [], []
    for part in np.split(np.arange(N_ROWS), np.sort(cuts)):
        state, predictions, found = adapter.step(state, rows[part], TIMES[part], numbers=part)
        assert len(predictions) == len(part)
        parts.append(predictions)
        events += found
    assert (state, joined(parts), of_events(events)) == whole


@examples(60)
@given(
    others=st.lists(st.tuples(st.sampled_from(["a", "b", "ключ", "鍵", ""]), st.integers(0, N_ROWS)), max_size=60),
    cuts=st.lists(st.integers(0, N_ROWS), max_size=6),
)
def test_any_cut_of_many_keys_in_any_order_between_keys(adapter, rows, whole, others, cuts):
    """One key has the rows above; others come and go around it, some only once."""
    names, places = [name for name, _ in others], [place for _, place in others]
    keys = np.concatenate((np.full(N_ROWS, "here", dtype=object), np.array(names, dtype=object)))
    order = np.argsort(np.concatenate((np.arange(N_ROWS), places)), kind="stable")
    keys, X = keys[order], np.concatenate((rows, drifting(len(names), 4)))[order]
    # Rows of one time would be taken in the order of their values in one call, and as they come in two.
    times = np.concatenate((TIMES, np.array(places) * 0.5 + 1e-6 * np.arange(len(places))))[order]
    states, parts, events = {}, [], []
    for part in np.split(np.arange(len(keys)), np.sort(cuts)):
        after, predictions, found = adapter.step_many(states, keys[part], times[part], X[part], numbers=order[part])
        assert set(after) == set(keys[part])
        states |= after
        parts.append(predictions)
        events += found
    assert states["here"] == whole[0]
    assert of_events(event._replace(key=None) for event in events if event.key == "here") == whole[2]
    for key in set(names):
        is_key = keys == key
        assert states[key] == adapter.step(None, X[is_key], times[is_key], numbers=order[is_key])[0]


@pytest.mark.parametrize("chosen", [{"round_size": 5}, {"round_time": 5.0}], ids=str)
@examples(60)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, N_ROWS), max_size=6))
def test_any_order_within_the_lateness(model, rows, chosen, seed, cuts):
    adapter = KeyedAdapter(model, lateness=6.0, late="drop", **chosen)
    times, keys = np.floor(np.arange(N_ROWS) * 0.7), np.where(np.arange(N_ROWS) % 3, "x", "y")
    # A row is at most 5 behind rows that came before it: within the lateness of 6.
    delays = np.random.default_rng(seed).uniform(0.0, 5.0, size=N_ROWS)
    expected = None
    for order, parts in ((np.arange(N_ROWS), []), (np.argsort(times + delays, kind="stable"), np.sort(cuts))):
        states, events, calls = {}, [], np.split(order, parts)
        parts = []
        for part in calls:
            after, predictions, found = adapter.step_many(states, keys[part], times[part], rows[part], numbers=part)
            states |= after
            parts.append(predictions)
            events += found
        after, predictions, found = adapter.step_many(states, [], [], rows[:0], is_last=True)
        parts.append(predictions)
        result = states, after, joined(parts), of_events(events + found)
        expected = expected or result
        assert result == expected
    assert len(expected[2][0]) == N_ROWS, "every row is predicted once"


def test_rows_of_one_time_are_taken_in_the_order_of_their_values(adapter, rows):
    """An engine hands over the rows of a group in any order."""
    shuffled = np.random.default_rng(0).permutation(N_ROWS)
    times = np.arange(N_ROWS) // 7
    state, predictions, _ = adapter.step(None, rows, times, numbers=np.arange(N_ROWS))
    again, others, _ = adapter.step(None, rows[shuffled], times[shuffled], numbers=shuffled)
    assert state == again
    assert outputs(predictions) == outputs(others)


def test_predictions_are_in_the_order_of_the_rows_of_the_call(adapter, rows):
    keys = np.arange(N_ROWS) % 7
    _, predictions, _ = adapter.step_many({}, keys, np.arange(N_ROWS)[::-1], rows)
    assert predictions.positions.tolist() == list(range(N_ROWS))
    assert predictions.keys.tolist() == keys.tolist()
    assert np.array_equal(np.asarray(predictions), predictions.classes)


@pytest.mark.slow
def test_a_key_with_a_million_rows(model):
    adapter, X = KeyedAdapter(model, round_size=400), drifting(1_000_000, 5)
    state, predictions, _ = adapter.step(None, X)
    assert len(predictions) == 1_000_000
    assert predictions.rounds[-1] == 2500
    again = None
    for part in np.array_split(X, 7):
        again, _, _ = adapter.step(again, part)
    assert again == state
    assert len(state) < 10_000
