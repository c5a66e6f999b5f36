"""States from storage that others can write: right checksums, and counts and numbers that accous never writes."""

import struct

import numpy as np
import pytest

from accous.core.kernels_keys import Number
from accous.exceptions import CheckpointError
from accous.keyed.state import _HEADER
from tests.fuzz.forged import drifting, keyed_states, problem_of, seal_state

N_CASES = 1500


@pytest.fixture(scope="module")
def adapter():
    return keyed_states()[0]


@pytest.fixture(scope="module")
def state():
    return keyed_states()[1][-1]


def _with(state: bytes, place: int, content: bytes) -> bytes:
    return seal_state(state[:place] + content + state[place + len(content) :])


def _as_long_as_it_says(adapter, state: bytes) -> bytes:
    *sizes, n_waiting = _HEADER.unpack_from(state)[2:9]
    length = adapter._form.length(tuple(sizes), n_waiting)
    return seal_state(state.ljust(length, b"\0")[:length])


def test_the_seal_is_the_right_one(state):
    assert seal_state(state) == state


@pytest.mark.parametrize(
    ("place", "count"),
    [(6, 0), (6, 20), (6, 255), (7, 5), (7, 255), (8, 200), (9, 255), (10, 2), (10, 255), (11, 255)],
    ids=str,
)
def test_a_count_beyond_the_capacity_is_refused_before_anything_is_written(adapter, state, place, count):
    forged = _as_long_as_it_says(adapter, _with(state, place, bytes([count])))
    with pytest.raises(CheckpointError, match=r"'k' .*never writes"):
        adapter.step_many({"k": forged}, ["k"], None, drifting(1, 0))
    with pytest.raises(CheckpointError, match="never writes"):
        adapter.readings({"k": forged})


@pytest.mark.parametrize(
    "number", [Number.N_ROUNDS, Number.STRENGTH, Number.EXCESS, Number.SHARE, Number.EVENT_COLUMNS]
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e200])
def test_numbers_that_cannot_be_are_refused(adapter, state, number, value):
    forged = _with(state, 40 + 8 * number, struct.pack("<d", value))
    with pytest.raises(CheckpointError, match="never writes"):
        adapter.step(forged, drifting(9, 0))


@pytest.mark.parametrize(("n_merged", "is_kept"), [(2.0**24, True), (1e29, False)])
def test_looks_merged_are_as_many_as_can_be_counted(adapter, state, n_merged, is_kept):
    stack, _ = adapter.runner.read([None], [state])
    assert state[7]
    stack.n_merged[0, 0] = n_merged
    forged = adapter._form.pack(stack, np.empty((0, adapter.shared.shape.n_features + 3)), stack.keys, stack.keys)[0]
    if is_kept:
        adapter.step(forged, drifting(9, 0))
        return
    with pytest.raises(CheckpointError, match="never writes"):
        adapter.step(forged, drifting(9, 0))


def test_waiting_rows_and_single_precision_are_numbers_and_rows_of_a_look_have_rounds(adapter, state):
    shape, n_learners = adapter.shared.shape, state[6]
    singles = 40 + 8 * (len(Number) + 4 + shape.n_coefs + 2 * n_learners + shape.n_scores * (shape.n_features + 1))
    for place, content in (
        (len(state) - 8 * (shape.n_features + 3), struct.pack("<d", np.inf)),
        (singles + 4, struct.pack("<f", np.nan)),
        (40 + 8 * Number.LOOK_ROUNDS, struct.pack("<2d", 0.0, 100.0)),
    ):
        with pytest.raises(CheckpointError, match="never writes"):
            adapter.step(_with(state, place, content), drifting(9, 0))


@pytest.mark.parametrize("name", ["state", "page"])
def test_whatever_is_forged_is_used_or_refused(name):
    failed = {number: problem for number in range(N_CASES) if (problem := problem_of(name, 0, number))}
    assert not failed, next(iter(failed.values()))
