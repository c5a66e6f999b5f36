"""The bytes of a state: small, and refused where they are not what they should be."""

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.exceptions import CheckpointError
from accous.keyed import KeyedAdapter
from accous.streams import GaussianStream, SineShift
from tests.keyed.conftest import drifting, labelled


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
        with pytest.raises(CheckpointError, match=r"torn|not one that accous wrote"):
            adapter.step(state[:length], drifting(1, 0))
    with pytest.raises(CheckpointError, match="torn"):
        adapter.step(state + state, drifting(1, 0))


@pytest.mark.parametrize("foreign", [b"", b"PK\x03\x04", bytes(5000)], ids=len)
def test_other_bytes_are_refused(adapter, foreign):
    with pytest.raises(CheckpointError, match="key 'shop 7' is not one that accous wrote"):
        adapter.step_many({"shop 7": foreign}, ["shop 7"], None, drifting(1, 0))


def test_a_state_of_another_model_or_of_other_settings_is_refused(model, adapter, state):
    other = KeyedAdapter(AdaptiveClassifier().fit(*labelled(300, 1)), round_size=5)
    for foreign in (other, KeyedAdapter(model, round_size=6), KeyedAdapter(model, round_size=5, lateness=1.0)):
        with pytest.raises(CheckpointError, match="belongs to another model or to other settings"):
            foreign.step(state, drifting(1, 0), [0.0])
    same = KeyedAdapter(AdaptiveClassifier().fit(*labelled(300, 0)), round_size=5)
    assert same.step(state, drifting(9, 1))[0] == adapter.step(state, drifting(9, 1))[0]


def test_a_state_of_a_newer_version_is_refused(adapter, state):
    newer = state[:4] + (7).to_bytes(2, "little") + state[6:]
    with pytest.raises(CheckpointError, match="has format 7, and this accous reads formats up to 1: update accous"):
        adapter.step(newer, drifting(1, 0))


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
    assert np.array_equal(read("<f8", len(waiting[0]), shape.n_features + 3)[:, :-3], waiting[0].X)
    assert np.array_equal(read("<f4", shape.n_singles), stack.singles[0])
    for part in (stack.coefs, stack.triangles):
        assert np.array_equal(read("<f4", n_learners, part.shape[2]), part[0, :n_learners])
    assert np.array_equal(read("<f4", n_slots, shape.slot_width), stack.slots[0, :n_slots])
    assert read("<f4", n_sizes).tolist() == list(stack.sizes[0])
    assert np.array_equal(read("<i4", n_visits, 3), stack.visits[0])
    for part in (stack.fitted, stack.checked):
        assert np.array_equal(read("<u2", shape.n_sample), part[0])
    assert at == len(state)


def test_a_state_may_lie_anywhere_in_memory(adapter, state):
    odd = memoryview(b"." + state)[1:]
    assert adapter.step(odd, drifting(9, 1))[0] == adapter.step(state, drifting(9, 1))[0]


def test_no_rows_change_nothing(adapter, state):
    assert adapter.step(state, drifting(0, 0))[0] == state
    assert adapter.step_many({"k": state}, [], None, drifting(0, 0))[0] == {}


def test_several_threads_may_use_one_adapter(adapter):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda seed: adapter.step(None, drifting(120, seed))[0], range(8)))
    assert found == [adapter.step(None, drifting(120, seed))[0] for seed in range(8)]
