"""A step from bytes to bytes: the same however an engine cuts the rows, whatever comes late, and refused if damaged."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import ULSIF, AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.core.kernels_keys import Number
from accous.exceptions import CheckpointError, DataError, ParameterError
from accous.keyed import KeyedAdapter
from accous.streams import GaussianStream, SineShift
from tests.budgets import examples
from tests.keyed.conftest import drifting, labelled

# --- any cut of the same rows gives the same predictions, events and state ----------------------------------


N_ROWS = 403
TIMES = np.arange(N_ROWS) * 0.5


def outputs(predictions):
    """What was said of each row, without the order in which it was said; times are numbers of rows here."""
    order = np.lexsort((predictions.numbers, predictions.keys.astype(str)))
    columns = predictions.keys, predictions.numbers, predictions.rounds, predictions.classes
    return [column[order].tolist() for column in columns] + [predictions.probabilities[order].tobytes()]


def joined(parts):
    names = ("keys", "numbers", "rounds", "classes", "probabilities")
    return outputs(SimpleNamespace(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}))


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


def test_several_threads_may_use_one_adapter(adapter):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda seed: adapter.step(None, drifting(120, seed))[0], range(8)))
    assert found == [adapter.step(None, drifting(120, seed))[0] for seed in range(8)]


def test_a_copy_of_an_adapter_that_was_used_does_what_it_does(model, rows):
    adapter = KeyedAdapter(model, round_size=4)
    state, _, _ = adapter.step(None, rows[:200])
    other = pickle.loads(pickle.dumps(adapter))
    assert other.step(state, rows[200:])[0] == adapter.step(state, rows[200:])[0]


def test_calls_with_many_numbers_of_keys_keep_few_arrays(model, rows):
    adapter = KeyedAdapter(model)
    for n_keys in range(1, 20):
        adapter.step_many({}, range(n_keys), None, rows[:n_keys])
    assert sum(map(len, adapter.runner._spare.values())) < 4 * 20


# --- rows that come too late, and rounds by time ------------------------------------------------------------


def n_late(adapter, state):
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
    hours = np.array(["2026-01-01T00:10", "2026-01-01T00:50", "2026-01-01T02:00"], dtype="datetime64[s]")
    _, predictions, _ = KeyedAdapter(model, round_time=3600.0).step(None, drifting(3, 0), hours)
    assert predictions.rounds.tolist() == [1, 1, 2]
    assert predictions.times.tolist() == hours.astype(np.int64).tolist()


# --- the bytes of a state -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def state(adapter):
    """A state with everything in it: learners, slots, a predictor, a comparison, waiting rows."""
    found, _, _ = adapter.step(None, drifting(803, 6, 2.0)[:753])
    n_learners, n_slots, _, _, is_moved, is_checked, n_waiting = found[6:13]
    assert min(n_learners, n_slots, is_moved, is_checked, n_waiting) > 0
    return found


def test_six_kilobytes_at_a_thousand_rounds_of_twelve_columns():
    stream = GaussianStream(SineShift(period=100), n_rounds=1000, batch_size=5, random_state=0)
    adapter = KeyedAdapter(AdaptiveClassifier().fit(*stream.reference()), round_size=5)
    state, _, _ = adapter.step(None, np.concatenate([batch.X for batch in stream]))
    stack, _ = adapter.runner.read([None], [state])
    assert stack.numbers[0, 0] == 1000
    assert stack.is_moved[0]
    assert (stack.n_merged[0] > 0).any(), "the stream comes back to what the pool remembers"
    assert len(state) <= 6 * 1024


def test_every_damage_is_noticed(adapter, state):
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(state), size=60).tolist():
        changed = bytearray(state)
        changed[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(CheckpointError):
            adapter.step(bytes(changed), drifting(1, 0))
    for length in rng.integers(1, len(state), size=30).tolist():
        with pytest.raises(CheckpointError, match=r"torn|accous wrote"):
            adapter.step(state[:length], drifting(1, 0))
    with pytest.raises(CheckpointError, match="torn"):
        adapter.step(state + state, drifting(1, 0))


@pytest.mark.parametrize("foreign", [b"", b"PK\x03\x04", bytes(5000)], ids=len)
def test_other_bytes_are_refused(adapter, foreign):
    with pytest.raises(CheckpointError, match="'shop 7'"):
        adapter.step_many({"shop 7": foreign}, ["shop 7"], None, drifting(1, 0))


@pytest.mark.parametrize("state", ["abc", 3, [1]], ids=repr)
def test_a_state_that_is_no_bytes_is_refused(adapter, state):
    with pytest.raises(CheckpointError, match=f"got a value of type {type(state).__name__}\\."):
        adapter.step(state, np.zeros((1, 4)))
    as_memory = memoryview(adapter.step(None, np.zeros((1, 4)))[0])
    assert adapter.step(as_memory, np.zeros((1, 4)))[0] == adapter.step(bytes(as_memory), np.zeros((1, 4)))[0]


def test_a_state_of_another_model_of_other_settings_or_of_a_newer_version_is_refused(model, adapter, state):
    other = KeyedAdapter(AdaptiveClassifier().fit(*labelled(300, 1)), round_size=5)
    for foreign in (other, KeyedAdapter(model, round_size=6), KeyedAdapter(model, round_size=5, lateness=1.0)):
        with pytest.raises(CheckpointError, match="another model"):
            foreign.step(state, drifting(1, 0), [0.0])
    with pytest.raises(CheckpointError, match="format 7"):
        adapter.step(state[:4] + (7).to_bytes(2, "little") + state[6:], drifting(1, 0))
    same = KeyedAdapter(AdaptiveClassifier().fit(*labelled(300, 0)), round_size=5)
    odd = memoryview(b"." + state)[1:]  # it may lie anywhere in memory
    assert same.step(odd, drifting(9, 1))[0] == adapter.step(state, drifting(9, 1))[0]


def test_every_number_comes_back_to_its_place(adapter, state):
    """The compiled reading beside slices of the bytes, in the order that the format names."""
    stack, waiting = adapter.runner.read([None], [state])
    shape, (n_learners, n_slots, n_visits, n_sizes) = adapter.shared.shape, state[6:10]
    at = 40

    def read(kind, *sizes):
        nonlocal at
        values = np.frombuffer(state, dtype=kind, count=int(np.prod(sizes)), offset=at).reshape(sizes)
        at += values.nbytes
        return values

    assert np.array_equal(read("<f8", len(stack.numbers)), stack.numbers[:, 0], equal_nan=True)
    assert np.array_equal(read("<f8", shape.n_coefs), stack.coef[0])
    for part in (stack.log_potentials, stack.squares):
        assert np.array_equal(read("<f8", n_learners), part[0, :n_learners])
    assert np.array_equal(read("<f8", *stack.predictors[0].shape), stack.predictors[0])
    assert np.array_equal(read("<f4", shape.layout.length), stack.singles[0])
    for part in (stack.coefs, stack.triangles):
        assert np.array_equal(read("<f4", n_learners, part.shape[2]), part[0, :n_learners])
    assert np.array_equal(read("<f4", n_slots, shape.slot_width), stack.slots[0, :n_slots])
    assert n_sizes == stack.n_changes[0]
    assert np.array_equal(read("<f4", n_sizes), stack.changes[0, :n_sizes])
    assert n_visits == stack.n_visits[0]
    assert np.array_equal(read("<i4", n_visits, 3), stack.visits[0, :n_visits])
    for part in (stack.fitted, stack.checked):
        assert np.array_equal(read("<f4", shape.n_weighing), part[0])
    assert not any(read("u1", -at % 8))
    assert np.array_equal(read("<f8", len(waiting[0]), shape.n_features + 3)[:, :-3], waiting[0].X)
    assert at == len(state)


def test_no_rows_change_nothing(adapter, state):
    assert adapter.step(state, drifting(0, 0))[0] == state
    assert adapter.step_many({"k": state}, [], None, drifting(0, 0))[0] == {}
    assert adapter.observe({"k": state}, [], drifting(0, 0), []) == {}


def sampled(random_state):
    """A model whose gradients are summed over a random third of the reference."""
    ratio = OnlineDensityRatio(max_reference=100, random_state=random_state)
    return AdaptiveClassifier(ratio=ratio).fit(*labelled(300, 0))


def fingerprint(model):
    return KeyedAdapter(model).fingerprint


def test_the_fingerprint_names_what_states_depend_on(tmp_path):
    first, second = (sampled(None) for _ in range(2))
    assert fingerprint(first) != fingerprint(second), "another sample of the reference is another model"
    accous.save(first, tmp_path)
    assert fingerprint(accous.load(tmp_path)) == fingerprint(first)
    assert len({fingerprint(sampled(np.random.RandomState(0))) for _ in range(2)}) == 1


# --- what a step refuses ------------------------------------------------------------------------------------


BROKEN = np.where(np.arange(12).reshape(3, 4) == 6, np.nan, 0.0)
ROWS = np.zeros((3, 4))
REFUSED = {
    "None as key": (lambda adapter: adapter.step_many({}, ["a", "b", None], None, ROWS), "row 2"),
    "NaN as key": (lambda adapter: adapter.step_many({}, ["a", "b", float("nan")], None, ROWS), "row 2"),
    "NA as key": (lambda adapter: adapter.step_many({}, pd.array([1, pd.NA, 3], "Int64"), None, ROWS), "<NA> in row 1"),
    "lists as keys": (lambda adapter: adapter.step_many({}, [["a"]], None, ROWS[:1]), "cannot name a state"),
    "few columns": (lambda adapter: adapter.step(None, ROWS[:, :3]), "3 features"),
    "missing value": (lambda adapter: adapter.step(None, BROKEN), "row 1"),
    "few keys": (lambda adapter: adapter.step_many({}, ["a", "b"], None, ROWS), "3 rows but keys has 2"),
    "few times": (lambda adapter: adapter.step(None, ROWS, [1.0, 2.0]), "3 rows but times has 2"),
    "missing time": (lambda adapter: adapter.step(None, ROWS[:2], [1.0, np.nan]), "times holds nan in row 1"),
    "text as time": (lambda adapter: adapter.step(None, ROWS[:1], ["x"]), "times holds values of type"),
    "half numbers": (lambda adapter: adapter.step(None, ROWS[:1], numbers=[0.5]), "numbers must be integers"),
    "no states": (lambda adapter: adapter.step_many(None, ["a"], None, ROWS[:1]), "dict .* NoneType"),
    "list of states": (lambda adapter: adapter.step_many([b""], ["a"], None, ROWS[:1]), "dict .* list"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_rows_that_are_refused(call, message, adapter):
    with pytest.raises(DataError, match=message):
        call(adapter)


def test_an_error_in_one_key_loses_no_other(adapter):
    states = adapter.step_many({}, ["a", "b"] * 20, None, drifting(40, 0))[0]
    before = dict(states)
    with pytest.raises(Exception, match="'b' is torn"):
        adapter.step_many(states | {"b": states["b"][:-1]}, ["a", "b"], None, drifting(2, 1))
    assert states == before
    again = adapter.step_many(states, ["a", "b"], None, drifting(2, 1))[0]
    assert again["a"] == adapter.step(states["a"], drifting(2, 1)[:1])[0]


@pytest.mark.parametrize(
    ("name", "value"), [("round_size", 0), ("round_time", -1.0), ("lateness", -1.0), ("late", "lose")]
)
def test_settings_that_cannot_be(model, name, value):
    with pytest.raises(ParameterError, match=f"{name} must"):
        KeyedAdapter(model, **{name: value})
    with pytest.raises(DataError, match="needs times"):
        KeyedAdapter(model, round_time=1.0).step(None, drifting(1, 0))


def of_ratio(**settings):
    return AdaptiveClassifier(ratio=OnlineDensityRatio(**settings)).fit(*labelled(120, 0))


UNSHARED = {
    "not fitted": (AdaptiveClassifier, "must be fitted"),
    "another class": (DecisionTreeClassifier, "got DecisionTreeClassifier"),
    "a table": (lambda: SimpleNamespace(model=AdaptiveClassifier()), "attribute `model`"),
    "numbers": (AdaptiveRegressor, "classes only"),
    "a tree": (lambda: AdaptiveClassifier(DecisionTreeClassifier()).fit(*labelled(120, 0)), "estimator=None"),
    "both predictors": (lambda: AdaptiveClassifier("auto").fit(*labelled(120, 0)), "--estimator linear"),
    "one-step ratio": (lambda: AdaptiveClassifier(ratio=ULSIF()).fit(*labelled(120, 0)), "ratio=None"),
    "no pool": (lambda: of_ratio(pool="none"), "with a pool"),
    "many columns": (lambda: of_ratio(feature_map="rbf", random_state=0), "63 columns"),
    "diagonal": (lambda: of_ratio(metric="diagonal"), "full metric"),
    "large memory": (lambda: of_ratio(memory=64), "at most 63 regimes"),
}


@pytest.mark.parametrize(("make", "message"), UNSHARED.values(), ids=UNSHARED)
def test_models_that_keys_cannot_share(make, message):
    with pytest.raises(ParameterError, match=message):
        KeyedAdapter(make())


def test_keys_of_a_model_on_clipped_numbers_predict_as_it_does_and_far_rows_count_as_outside():
    X, y = labelled(300, 0)
    model = AdaptiveClassifier("linear").fit(X, y)
    far = drifting(200, 3, 2.0) * [1.0, 1.0, 1.0, 40.0]
    adapter = KeyedAdapter(model, round_size=10)
    state, predictions, _ = adapter.step(None, far)
    (reading,) = adapter.readings({"a": state})
    assert np.array_equal(predictions.classes, np.concatenate([model.step(each) for each in np.split(far, 20)]))
    assert reading.is_adapted
    assert "few_inside" in [each["code"] for each in reading.reasons]
