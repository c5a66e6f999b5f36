"""A key does what `AdaptiveClassifier` does with the same rounds, and is judged as it would be."""

import json
import re
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.core import compiled
from accous.core import round as rounds
from accous.core.ensemble import project_marked
from accous.core.kernels_keys import REFIT, Number
from accous.core.kernels_pool import pool_in_use
from accous.core.kernels_rows import BLOCK, evaluate_ratios
from accous.core.kernels_weights import weigh_reference
from accous.core.pool import N_CAUTIOUS, UNCUT
from accous.exceptions import CheckpointError, DataError
from accous.keyed import KeyedAdapter, fleet
from accous.model.round import SMALLEST_SHIFT, is_refit_due
from accous.report.page import render_fleet
from tests.fuzz.forged import seal_state
from tests.keyed.conftest import drifting, labelled
from tests.needs import needs_compilation


def follow(parameters, n_classes=2, n_rounds=150, size=8, shift=1.2):
    reference = labelled(300, 0, n_classes)
    model, adapter = (AdaptiveClassifier(**parameters).fit(*reference) for _ in range(2))
    adapter = KeyedAdapter(adapter, round_size=size)
    state, events, theirs, ours = None, [], [], []
    for batch in drifting(n_rounds * size, 1, shift).reshape(n_rounds, size, -1):
        theirs.append(model.predict_proba(batch))
        state, predictions, found = adapter.step(state, batch)
        ours.append(predictions.probabilities)
        events += found
        model.adapt(batch)
    return adapter, state, model, np.concatenate(theirs), np.concatenate(ours), events


def theta(adapter, state):
    return adapter.runner.read([None], [state])[0].coef[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_hardly_matters_if_every_round_refits(n_classes):
    parameters = {"refit": "always", "ratio": OnlineDensityRatio(memory=0)}
    adapter, state, model, theirs, ours, events = follow(parameters, n_classes, n_rounds=100)
    assert np.abs(theta(adapter, state) - model.ratio_.coef_).max() < 1e-5
    assert np.abs(ours - theirs).max() < 1e-4
    shifts = [(event.round, event.columns) for event in events if event.kind == "shift"]
    assert shifts == [(event.round, event.features) for event in model.drift_.events if event.kind == "shift"]
    assert shifts
    assert shifts[0][1][0] == "x1"


@pytest.mark.parametrize(
    "ratio",
    [
        {"radius": 0.5},
        {"ridge": 1e-6, "radius": 0.5},
        {"min_interval": 1},
        {"start": "ensemble"},
        {"start": "zero", "memory": 0},
        {"max_reference": 100, "random_state": 0},
        {"feature_map": "identity"},
    ],
    ids=str,
)
def test_other_settings_of_the_ratio(ratio):
    parameters = {"ratio": OnlineDensityRatio(**ratio), "refit": "always"}
    adapter, state, model, theirs, ours, _ = follow(parameters, n_rounds=40)
    # Tiny ridges make the first steps depend on the last digits of A.
    tolerance = 0.02 if "ridge" in ratio else 1e-5
    assert np.abs(theta(adapter, state) - model.ratio_.coef_).max() < tolerance
    assert np.abs(ours - theirs).max() < 10 * tolerance


def test_a_jump_ends_the_look_of_a_key_in_the_round_in_which_it_ends_the_classifiers():
    reference, rng, jumps = labelled(300, 0), np.random.default_rng(5), (25, 66, 95)
    model, adapter = (AdaptiveClassifier(refit="always").fit(*reference) for _ in range(2))
    adapter, state, looks, answers = KeyedAdapter(adapter, round_size=8), None, [], []
    for mean in np.repeat([0.0, 1.8, -1.8, 1.8], np.diff((0, *jumps, 130))):
        batch = rng.normal((mean, 0.0, 0.0, 0.0), size=(8, 4))
        state, predictions, _ = adapter.step(state, batch)
        answers.append(np.mean(np.asarray(predictions) == model.step(batch)))
        stack = adapter.runner.read([None], [state])[0]
        looks.append((stack.numbers[Number.LOOK_ROUNDS, 0], model.ratio_.pool_.look.n_rounds))
    ours, theirs = ([jump + rounds[jump:].index(1) for jump in jumps] for rounds in zip(*looks, strict=True))
    assert ours == theirs
    assert np.subtract(ours, jumps).max() < 6
    assert np.mean(answers) >= 0.999
    assert stack.n_merged[0].tolist() == model.ratio_.pool_.slots.n_merged.tolist()


@needs_compilation
def test_a_key_weighs_and_decides_to_the_bit_as_one_model_does(adapter):
    """The same numbers in double precision through the loops of one model: weights, what they show, what is due."""
    shared, state, found, rng = adapter.shared, None, [], np.random.default_rng(0)
    rounds, rules, base, n = shared.rounds, shared.rules, shared.rules.base_weight, shared.shape.n_reference
    ratios, none = np.empty((len(shared.reference.blocks), BLOCK)), np.zeros(2, dtype=np.int64)
    for batch in drifting(450, 7, 2.0).reshape(90, 5, -1):
        state, _, _ = adapter.step(state, batch)
        stack = adapter.runner.read([None], [state])[0]
        stack.coef[0] *= rng.uniform(0.9, 1.1)  # what the round did has been followed up already
        numbers, row = stack.numbers[:, 0], stack.singles[0].astype(np.float64)
        is_moved = stack.is_moved[0]
        fitted = rounds.weights_of(stack, 0, stack.fitted[0]) if is_moved else base
        pooled, shown, (weights, shrunk) = np.empty(n), np.empty(5), np.empty((2, n))
        evaluate_ratios(shared.reference.blocks, stack.coef[0], UNCUT, ratios)
        of_model = row, shared.shape.layout.places, N_CAUTIOUS, float(stack.holds[0]), stack.slot_ratios[0]
        pool_in_use(ratios.reshape(-1), rounds.cuts, *of_model, np.empty(12), np.empty(12), np.empty(n), pooled)
        of_fits = base, fitted, base, float(numbers[Number.STRENGTH])
        weigh_reference(base, pooled, shared.max_ratio, *of_fits, weights, shrunk, shown)
        _, due = rounds.settle(stack, none[:1], none, np.empty(0))
        assert stack.weights[0].tobytes() == weights.tobytes()
        assert numbers[Number.EFFECTIVE_ROWS] == shown[1]
        assert bool(numbers[Number.SHARE]) is bool(shown[0] >= SMALLEST_SHIFT)
        if numbers[Number.SHARE]:
            assert stack.shrunk[0].tobytes() == shrunk.tobytes()
            since_refit = int(numbers[Number.N_ROUNDS] - numbers[Number.LAST_REFIT])
            assert bool(due[0] & REFIT) == is_refit_due(rules, since_refit, shown[2] / n, shown[3])
            found.append((is_moved, bool(due[0] & REFIT)))
    assert {(True, False), (True, True)} <= set(found)


def test_a_point_that_the_kernel_cannot_project_is_projected_all_the_same(adapter):
    stack, _ = adapter.runner.read([None], [None], 100)
    shared = adapter.shared
    stack.n_learners[0] = 1
    stack.coefs[0, 0] = 100.0
    rows, columns = np.tril_indices(shared.shape.n_coefs)
    stack.triangles[0, 0] = np.where(rows == columns, 10.0 ** np.minimum(2 * rows, 30), 0.0)
    radius = shared.ratio.radius_
    project_marked(1, stack.coefs[0], stack.triangles[0], radius)
    assert np.linalg.norm(stack.coefs[0, 0]) == pytest.approx(radius, rel=1e-5)


def test_one_call_of_the_kernel_runs_a_round_of_many_keys(adapter, monkeypatch):
    n_active = []
    kernel = rounds.run_learners_of_keys

    def counting(active, *arguments):
        n_active.append(len(active))
        kernel(active, *arguments)

    monkeypatch.setattr(rounds, "run_learners_of_keys", counting)
    keys = np.repeat(np.arange(512), 10)
    adapter.step_many({}, keys, None, drifting(len(keys), 2))
    assert n_active == [256, 256, 256, 256]


def test_a_step_in_which_nothing_is_due_is_nine_compiled_calls(adapter, monkeypatch):
    state, called = adapter.step(None, drifting(15, 0))[0], []
    adapter.step(state, drifting(5, 1))  # compiles what the first step did not need
    for kernel in compiled._kernels:
        count = partial(lambda kernel, call, *given: called.append(kernel.plain.__name__) or call(*given), kernel)
        monkeypatch.setattr(kernel, "_call", partial(count, kernel._call))
    adapter.step(state, drifting(5, 1))
    of_states = ["read_states", "restore_keys"], ["write_states"]
    of_round = ["predict_rows", "make_features", "_read_batches", "_filter_batches", "_run_learners", "settle_keys"]
    assert called == [*of_states[0], *of_round, *of_states[1]]


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_columns_of_a_frame_are_found_by_name(make_frame):
    names = ["a", "b", "c", "d"]
    X, y = labelled(300, 0)
    adapter = KeyedAdapter(AdaptiveClassifier().fit(make_frame(dict(zip(names, X.T, strict=True))), y), round_size=5)
    columns = dict(zip(names, drifting(40, 0).T, strict=True))
    straight = make_frame(columns)
    for order in (["d", "b", "a", "c"], ["d", "other", "b", "a", "c"]):
        crooked = make_frame({name: columns.get(name, columns["a"]) for name in order})
        assert adapter.step(None, crooked)[0] == adapter.step(None, straight)[0]
        keys = ["k", "l"] * 20
        assert adapter.step_many({}, keys, None, crooked)[0] == adapter.step_many({}, keys, None, straight)[0]


def test_safeguards_and_what_a_key_does_not_keep_hardly_change_its_predictions():
    """Learners in single precision are all that differs."""
    _, _, _, theirs, ours, _ = follow({})
    assert np.mean((ours[:, 1] > 0.5) == (theirs[:, 1] > 0.5)) >= 0.999
    assert np.abs(ours - theirs).mean() < 1e-3
    parameters = {"adaptation": "always", "refit": 3, "ratio": OnlineDensityRatio(memory=0)}
    _, _, model, theirs, ours, _ = follow(parameters, n_rounds=60)
    assert np.abs(ours - theirs).max() < 1e-4
    assert model.n_rounds_ == 60


# --- labels of keys -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taught():
    """An adapter whose model has learned from labels that have turned round and have a new class, and two keys."""
    X, y = labelled(400, 9)
    model = AdaptiveClassifier().fit(*labelled(300, 0))
    before = KeyedAdapter(model, round_size=5).step_many({}, ["a", "b"] * 50, None, drifting(100, 1))[0]
    model.observe(X, np.where(X[:, 3] > 1.5, 2, 1 - y))
    return KeyedAdapter(model, round_size=5), before


def test_labels_of_a_key_measure_it_and_say_whom_to_believe(taught):
    adapter, states = taught
    X, y = labelled(300, 10)
    ask = drifting(40, 2)

    def shares(states):
        return adapter.step_many(states, ["a"] * 40, None, ask)[1].probabilities

    assert shares(states).shape == (40, 3)
    wrong, right = (
        adapter.observe(states, ["a"] * 300, X, truths) for truths in (y, np.where(X[:, 3] > 1.5, 2, 1 - y))
    )
    assert set(wrong) == {"a"}
    fixed, learned = adapter.shared.fixed.predict_proba(ask), adapter.shared.learned.predict_proba(ask)
    distances = [
        [np.abs(shares(each)[:, :2] - expert[:, :2]).max() for expert in (fixed, learned)] for each in (wrong, right)
    ]
    assert distances[0][0] < 0.1 < distances[0][1]
    assert distances[1][1] < 0.02
    found = [adapter.readings(each)[0] for each in (states, wrong, right)]
    assert [each.basis for each in found] == ["expected", "labels", "labels"]
    assert found[2].high < 0.3
    assert found[1].low > 0.6
    assert found[1].state == "degraded" != found[2].state
    moved = adapter.step_many(right, ["a"] * 8000, None, drifting(8000, 3))[0]
    assert adapter.readings(moved)[0].basis == "expected", "labels of long ago say nothing of now"


def test_labels_count_alike_in_parts_and_together_and_none_change_nothing(taught):
    adapter, states = taught
    X, y = labelled(60, 11)
    keys = np.where(np.arange(60) % 3 > 0, "a", "b")
    together = adapter.observe(states, keys, X, y)
    apart = {key: adapter.observe(states, keys[keys == key], X[keys == key], y[keys == key])[key] for key in "ab"}
    assert together == apart
    assert adapter.observe(states, ["a"] * 2, X[:2], [7, 1])["a"] != states["a"], "an unknown class is an error"
    for truths, message in ((["x", "y"], "None of the labels"), ([1], "y has 1 value")):
        with pytest.raises(DataError, match=message):
            adapter.observe(states, ["a"] * 2, X[:2], truths)
    for number, value in (
        (Number.N_WRONG, 5.0),
        (Number.LABELS_ROW, 1e6),
        (Number.N_LABELS, -1.0),
        (Number.GAIN, np.nan),
    ):
        forged = seal_state(
            states["a"][: 40 + 8 * number] + np.float64(value).tobytes() + states["a"][48 + 8 * number :]
        )
        with pytest.raises(CheckpointError, match="never writes"):
            adapter.observe({"a": forged}, ["a"], X[:1], y[:1])


# --- all keys at a glance -----------------------------------------------------------------------------------


SHIFT = np.array([0.0, 2.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def readings(adapter):
    """Two keys that stand still, one that has moved for long, and one that came back."""
    rows = {
        "still": drifting(200, 0, 0.0),
        "moved": drifting(200, 1, 0.0) + SHIFT,
        "back <b>": np.concatenate((drifting(200, 2, 0.0) + SHIFT, drifting(600, 3, 0.0))),
        "young": drifting(3, 4),
    }
    states = {name: adapter.step(None, X, np.arange(len(X)) * 60.0)[0] for name, X in rows.items()}
    return fleet(states, adapter)


def test_worst_first_with_columns_and_times(readings):
    found = {reading.key: reading for reading in readings}
    assert readings[0].key == "moved"
    moved = found["moved"]
    assert moved.columns[0] == "x1"
    assert moved.drift > 0.3
    assert 0 < moved.since_round <= 40
    assert moved.since_time == (5 * moved.since_round - 1) * 60.0
    assert moved.effective_rows < 200
    assert found["still"].drift < 0.2
    assert found["still"].changes == 0
    assert found["still"].value == pytest.approx(found["still"].at_fit, abs=0.03)
    assert found["back <b>"].changes >= 1
    assert found["back <b>"].drift < 0.3
    assert (found["young"].rounds, found["young"].rows) == (0, 0)


def test_a_key_keeps_no_rows_and_readings_change_no_state(adapter):
    state, _, _ = adapter.step(None, drifting(750, 5, 0.0))
    before = bytes(state)
    (reading,) = fleet({"k": state}, adapter)
    assert (reading.rows, reading.state, reading.basis) == (750, "uncertain", "expected")
    assert [each["code"] for each in reading.reasons] == ["no_backtest"]
    assert (reading.advice["code"], reading.advice["n"] >= 50) == ("label", True)
    assert state == before
    assert adapter.step(state, drifting(20, 6))[0] == adapter.step(before, drifting(20, 6))[0]


def test_a_key_is_judged_as_the_classifier_would_be(readings):
    single = AdaptiveClassifier().fit(*labelled(300, 0))
    for batch in (drifting(200, 1, 0.0) + SHIFT).reshape(40, 5, 4):
        single.adapt(batch)
    moved = next(reading for reading in readings if reading.key == "moved")
    now = single.performance()
    assert (moved.metric, moved.at_fit) == (now.metric, pytest.approx(now.at_fit))
    assert moved.value == pytest.approx(now.value, abs=0.05)
    assert moved.low < moved.value < moved.high
    assert moved.drift == pytest.approx(single.current().coverage.drift_strength, abs=0.2)
    assert moved.effective_rows == pytest.approx(single.effective_sample_size_, rel=0.05)


def rows_of(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_holds_ten_thousand_keys_and_escapes_names(readings):
    many = [readings[number % 4]._replace(key=f"key {number} </script>")._asdict() for number in range(10_000)]
    page = render_fleet(many, "10,000 <keys>")
    assert "10,000 &lt;keys&gt;" in page
    assert page.count("</script>") == 2
    assert [row[0] for row in rows_of(page)] == [reading["key"] for reading in many]
    assert len(page) < 3_000_000
    assert "x1" in page


def test_the_page_says_since_when_and_does_not_deny_a_drift_whose_columns_are_not_known_yet(readings):
    def shown(readings):
        return {row[0]: row[-1] for row in rows_of(render_fleet([each._asdict() for each in readings], "keys"))}

    moved = readings[0]
    assert shown(readings)["moved"] == f"{moved.since_time:.10g}", "numbers that are no dates stay numbers"
    assert shown(readings)["still"] == ""
    begin = 1_767_225_600.0  # 2026-01-01
    dated = [each._replace(time=each.time + begin, since_time=each.since_time + begin) for each in readings]
    minute = int(moved.since_time // 60)
    assert shown(dated)["moved"] == f"2026-01-01 {minute // 60:02d}:{minute % 60:02d}"
    blank = {each.key: {**each._asdict(), "columns": ()} for each in readings}
    denied = "No key has drifted"
    assert denied in render_fleet([blank["still"]], "keys")
    assert denied not in render_fleet([blank["moved"], blank["still"]], "keys")
