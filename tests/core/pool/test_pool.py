"""`RatioPool` plays rounds next to an estimator: here one whose theta is known in every round."""

from typing import Any

import numpy as np
import pytest

from accous.core.ensemble import MatrixReference
from accous.core.losses import LOSSES
from accous.core.pool import LONGEST_LOOK, N_SHAPES, UNCUT, PoolState, RatioPool
from tests.core.pool.plain_pool import plain_likelihoods, plain_log_likelihood, plain_pooled

LOSS = LOSSES["logistic"].make(100.0)
ONE, OTHER = np.array([-1.5, 0.0, 1.1]), np.array([1.5, 0.0, 1.1])


def rows(rng: np.random.Generator, n_rows: int, loc: float = 0.0) -> Any:
    return np.column_stack((rng.normal((loc, 0.0), size=(n_rows, 2)), np.ones(n_rows)))


class Playing:
    """A pool on sixty rows, and rounds whose theta the test chooses."""

    def __init__(self, n_slots: int = 4, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.reference = MatrixReference(rows(self.rng, 60), LOSS)
        self.pool = RatioPool(self.reference, 100.0, n_slots)
        self.state = self.pool.start(np.zeros(3))

    def run(self, coef: Any, loc: float, n_rounds: int = 1, n_batch: int = 3) -> PoolState:
        for _ in range(n_rounds):
            judgement = self.pool.judge(self.state, rows(self.rng, n_batch, loc))
            self.state = self.pool.settle(self.state, judgement, coef, self.reference.ratios(coef, UNCUT))
        return self.state


def assert_same_state(one: Any, other: Any) -> None:
    """All numbers of two states are the same bits."""
    for name in type(one).__slots__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if hasattr(type(mine), "__slots__") and not isinstance(mine, (np.ndarray, int, float)):
            assert_same_state(mine, theirs)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize("n_slots", [0, 1, 4])
def test_before_the_first_round_the_ratio_is_exactly_one(n_slots: int) -> None:
    playing = Playing(n_slots)
    assert playing.state.reference_ratios.tolist() == [1.0] * 60
    assert playing.pool.ratios(playing.state, 1e3 * rows(playing.rng, 20)).tolist() == [1.0] * 20
    # And it stays 1 while the estimate is 1, whatever the rows are.
    after = playing.run(np.zeros(3), loc=5.0, n_rounds=20)
    assert after.reference_ratios.tolist() == [1.0] * 60
    assert after.hold == 0.0


@pytest.mark.parametrize("n_slots", [0, 4])
def test_rounds_are_those_of_the_equations(n_slots: int) -> None:
    playing = Playing(n_slots)
    playing.run(ONE, loc=1.0, n_rounds=40)
    playing.run(OTHER, loc=-1.0, n_rounds=3)
    before, batch = playing.state, rows(playing.rng, 4, -1.0)
    judgement = playing.pool.judge(before, batch)
    batch_ratios = np.exp(-batch @ before.coef)
    of_slots = [np.exp(-batch @ coef) for coef in before.slots.coefs]
    likelihoods = plain_likelihoods(batch_ratios, 100.0, before.means, of_slots, before.slots.factors)
    expected = plain_log_likelihood(before.filters.proportions, likelihoods)
    assert judgement.log_likelihood == pytest.approx(expected, rel=1e-12)
    after = playing.pool.settle(before, judgement, OTHER, playing.reference.ratios(OTHER, UNCUT))
    assert after.n_rounds == 44
    slot_ratios = [
        np.array(plain_pooled(np.exp(-playing.reference.features @ coef), 100.0, shares, [])) * is_used
        for coef, shares, is_used in zip(after.slots.coefs, after.slots.shares, after.slots.is_used, strict=True)
    ]
    ratios = np.exp(-playing.reference.features @ OTHER)
    pooled = plain_pooled(ratios, 100.0, after.filters.proportions, slot_ratios)
    np.testing.assert_allclose(after.reference_ratios, pooled, rtol=1e-11, atol=1e-12)


def test_the_pooled_ratio_of_any_rows_is_that_of_the_reference_on_its_rows() -> None:
    playing = Playing()
    for coef, loc in ((ONE, 1.0), (OTHER, -1.0), (ONE, 1.0)):
        state = playing.run(coef, loc, n_rounds=50)
        found = playing.pool.ratios(state, playing.reference.features)
        np.testing.assert_allclose(found, np.minimum(state.reference_ratios, 100.0), rtol=1e-10, atol=1e-12)
        assert state.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)


def test_a_regime_is_remembered_and_recognised() -> None:
    playing = Playing()
    assert playing.run(ONE, 1.0, n_rounds=48).slots.is_used.tolist() == [True, False, False, False]
    np.testing.assert_allclose(playing.state.slots.coefs[0], ONE, rtol=1e-12)
    # The estimate now says nothing, and the slot explains the rows.
    state = playing.run(np.zeros(3), 1.0, n_rounds=6)
    assert state.proportions[N_SHAPES] > 0.5
    assert np.corrcoef(state.reference_ratios, playing.reference.ratios(ONE, UNCUT))[0, 1] > 0.9


def test_a_regime_like_the_reference_is_not_remembered() -> None:
    playing = Playing()
    assert not playing.run(0.1 * ONE, 0.1, n_rounds=64).slots.is_used.any()


def test_with_another_estimate_the_proportions_stay() -> None:
    playing = Playing()
    state = playing.run(ONE, 1.0, n_rounds=40)
    ratios = playing.reference.ratios(OTHER, UNCUT)
    expected = plain_pooled(ratios, 100.0, state.proportions, state.slot_ratios)
    np.testing.assert_allclose(playing.pool.with_estimate(state, ratios), expected, rtol=1e-11, atol=1e-12)
    same = playing.pool.with_estimate(state, playing.reference.ratios(ONE, UNCUT))
    assert same.tobytes() == state.reference_ratios.tobytes()


def test_with_another_estimate_the_hold_stays() -> None:
    playing = Playing()
    state = playing.run(3.0 * ONE, 6.0, n_rounds=40)
    assert state.hold > 0.0
    same = playing.pool.with_estimate(state, playing.reference.ratios(3.0 * ONE, UNCUT))
    assert same.tobytes() == state.reference_ratios.tobytes()
    ratios = playing.reference.ratios(OTHER, UNCUT)
    expected = plain_pooled(ratios, 100.0, state.proportions, state.slot_ratios)
    np.testing.assert_allclose(playing.pool.with_estimate(state, ratios), expected, rtol=1e-11, atol=1e-12)


def test_a_slot_that_is_taken_over_starts_without_the_mass_of_its_last_regime() -> None:
    playing = Playing(n_slots=1)
    playing.run(ONE, 1.0, n_rounds=48)
    mass = playing.run(np.zeros(3), 1.0, n_rounds=8).proportions[N_SHAPES]
    assert mass > 0.5
    while np.array_equal(np.sign(playing.state.slots.coefs[0]), np.sign(ONE)):
        before = playing.state
        playing.run(OTHER, -1.0)
        assert playing.state.n_rounds < 200
    # What the slot still had, the others have taken over.
    assert before.filters.posteriors[:, N_SHAPES].min() > 0.0
    assert playing.state.proportions[N_SHAPES] < 0.01
    assert playing.state.filters.posteriors[:, N_SHAPES].tolist() == [0.0] * 3
    assert playing.state.proportions.sum() == pytest.approx(1.0, abs=1e-12)
    assert playing.run(OTHER, -1.0, n_rounds=20).proportions[N_SHAPES] > 0.0


@pytest.mark.parametrize("n_rounds", [5, LONGEST_LOOK, 3 * LONGEST_LOOK, 3 * LONGEST_LOOK + 7])
@pytest.mark.parametrize("loc", [1.0, 6.0])
def test_a_restored_state_is_unchanged(n_rounds: int, loc: float) -> None:
    playing = Playing()
    state = playing.run(3.0 * ONE if loc > 5.0 else ONE, loc, n_rounds)
    again = playing.pool.restored(state, playing.reference.ratios(state.coef, UNCUT))
    assert_same_state(again, state)
    assert (state.hold > 0.0) == (loc > 5.0 and n_rounds >= LONGEST_LOOK), state.hold


def test_other_rows_of_the_same_number_are_another_reference() -> None:
    playing = Playing()
    state = playing.run(ONE, 1.0, n_rounds=53)
    other = MatrixReference(rows(playing.rng, 60), LOSS)
    pool = RatioPool(other, 100.0, 4)
    moved = pool.on_reference(state, other.ratios(state.coef, UNCUT))
    np.testing.assert_array_equal(moved.look.before, moved.reference_ratios)
    np.testing.assert_array_equal(moved.look.ratios, 5.0 * moved.reference_ratios)
    np.testing.assert_allclose(pool.ratios(moved, other.features), moved.reference_ratios, rtol=1e-10, atol=1e-12)


def test_on_a_larger_reference_the_memory_and_the_proportions_stay() -> None:
    playing = Playing()
    state = playing.run(ONE, 1.0, n_rounds=53)
    larger = MatrixReference(np.concatenate((playing.reference.features, rows(playing.rng, 40))), LOSS)
    pool = RatioPool(larger, 100.0, 4)
    moved = pool.on_reference(state, larger.ratios(state.coef, UNCUT))
    np.testing.assert_array_equal(moved.proportions, state.proportions)
    np.testing.assert_array_equal(moved.slots.coefs, state.slots.coefs)
    assert moved.reference_ratios.shape == moved.look.ratios.shape == moved.look.before.shape == (100,)
    assert moved.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
    assert moved.slot_ratios[0].mean() == pytest.approx(1.0, abs=1e-9)
    assert len(state.reference_ratios) == 60


def test_the_excess_compares_the_stream_with_the_reference_at_every_look() -> None:
    playing = Playing()
    playing.run(ONE, 1.0, n_rounds=LONGEST_LOOK)
    first = playing.state.excess
    sum_of_logs, sum_of_ratios = 0.0, np.zeros(60)
    for _ in range(LONGEST_LOOK):
        before, batch = playing.state, rows(playing.rng, 3, 1.0)
        judgement = playing.pool.judge(before, batch)
        playing.state = playing.pool.settle(before, judgement, ONE, playing.reference.ratios(ONE, UNCUT))
        sum_of_logs += judgement.log_likelihood
        ratios, proportions = playing.reference.ratios(ONE, UNCUT), judgement.filters.proportions
        sum_of_ratios += plain_pooled(ratios, 100.0, proportions, before.slot_ratios)
    mean = sum_of_ratios / LONGEST_LOOK
    expected = sum_of_logs / LONGEST_LOOK - float(np.mean([r * np.log(r) if r > 0.0 else 0.0 for r in mean]))
    assert playing.state.excess == pytest.approx(0.5 * (first + expected), rel=1e-9)


def test_a_look_ends_when_the_regime_does_and_the_round_begins_the_next_look() -> None:
    playing = Playing()
    playing.run(ONE, 1.0, n_rounds=LONGEST_LOOK)
    assert playing.state.look.n_rounds == 0
    playing.run(ONE, 1.0, n_rounds=12)
    assert playing.state.look.n_rounds == 12
    before = playing.state
    n_rounds = 0
    while playing.state.look.n_rounds > n_rounds and n_rounds < 100:
        n_rounds = playing.state.look.n_rounds
        after = playing.run(OTHER, -1.0)
    assert after.look.n_rounds == 1
    assert after.look.n_rows == 3
    assert after.n_rounds < before.n_rounds + 4
    np.testing.assert_array_equal(after.look.coef, OTHER)
    # The look that ended went to the slot of the first regime, and its visit ends with it.
    assert after.slots.is_used.tolist() == [True, False, False, False]
    assert after.slots.visits.tolist() == [[0, after.slots.visits[0, 1], after.n_rounds - 1]]
