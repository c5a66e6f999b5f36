"""Labels are summed in blocks in the order in which they come, however many come at once."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous import AdaptiveClassifier
from accous.arrays import from_plain, to_plain
from accous.diagnostics.labels import NO_BLOCKS, NO_STRETCHES, LabelBlocks


def slowly(losses, estimates):
    """Sum block by block; too many blocks are summed again in blocks of twice the length."""
    rows = [(1.0, loss, *each) for loss, each in zip(losses, estimates, strict=True) if not np.isnan(each).any()]
    size = 50
    while len(rows) > 64 * size:
        size *= 2
    return size, [np.sum(rows[start : start + size], axis=0) for start in range(0, len(rows), size)]


@given(st.lists(st.sampled_from([1, 7, 49, 50, 51, 333, 2_000]), max_size=12), st.integers(0, 9))
def test_pieces_give_the_blocks_of_the_slow_version(pieces, seed):
    rng = np.random.default_rng(seed)
    n_rows = sum(pieces)
    losses, estimates = rng.integers(0, 2, n_rows).astype(float), rng.integers(0, 9, (n_rows, 3)) / 8
    estimates[rng.random(n_rows) < 0.1] = np.nan
    found = NO_BLOCKS
    for end, n_new in zip(np.cumsum(pieces), pieces, strict=True):
        found = found.after(losses[end - n_new : end], estimates[end - n_new : end])
    size, expected = slowly(losses, estimates)
    assert found.n_rows == size
    np.testing.assert_array_equal(found.sums, np.reshape(expected, (-1, 5)))


def test_blocks_are_saved_and_those_of_before_are_empty():
    blocks = NO_BLOCKS.after(np.ones(120), np.full((120, 3), 0.5))
    again = from_plain(LabelBlocks, to_plain(blocks))
    np.testing.assert_array_equal(again.sums, blocks.sums)
    assert len(NO_BLOCKS.as_rounds().n_rows) == 0


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    return AdaptiveClassifier(random_state=0).fit(rows, (rows[:, 0] + rng.normal(size=400) > 0).astype(int))


def observe(model, wrong_shares, estimate=(0.25, 0.19, 0.32)):
    """Give 400 labels for each share of wrong predictions, with the estimate of the time."""
    for share in wrong_shares:
        is_wrong = np.arange(400) % 20 < 20 * share
        model.observe(None, np.zeros(400, dtype=int), is_wrong.astype(int), estimated=np.tile(estimate, (400, 1)))
    return model


def test_a_model_without_a_table_compares_stretch_by_stretch(model):
    twin = deepcopy(model)
    assert observe(twin, [0.25]).measured_.stretches == NO_STRETCHES
    observe(twin, [0.05, 0.05, 0.5, 0.45, 0.1])
    assert twin.measured_.stretches.disagree
    assert "stretches of at least" in twin.measured_.sentence


def test_labels_that_agree_throughout_are_not_apart(model):
    found = observe(deepcopy(model), [0.25, 0.2, 0.3, 0.25, 0.2]).measured_.stretches
    assert found.n_stretches
    assert not found.disagree
