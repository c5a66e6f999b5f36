"""Slots: what is put, merged, forgotten, and when regimes were visited."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accous.core.pool import MOST_VISITS, N_SHAPES, LookSums, Slots, distance, start_look, start_slots

ONES = np.ones(10)


def ratio_on(first: int, last: int) -> Any:
    """A ratio of mean 1 on some of ten rows."""
    ratios = np.zeros(10)
    ratios[first:last] = 10.0 / (last - first)
    return ratios


def shares(number: int) -> Any:
    return np.eye(N_SHAPES)[number]


def filled(n_slots: int, n_used: int) -> Slots:
    slots = start_slots(n_slots, 2)
    for slot in range(n_used):
        slots = slots.put(slot, np.full(2, float(slot)), shares(1), is_same=False)
    return slots


def look_at(ratios: Any, before: Any, of_shapes: float = 1.0) -> LookSums:
    proportions = np.zeros(N_SHAPES + 2)
    proportions[[0, 2, N_SHAPES]] = 0.0, of_shapes, 1.0 - of_shapes
    return mean_look(proportions, ratios=ratios, before=before)


def mean_look(
    proportions: Any, n_rounds: int = 16, n_rows: int = 80, ratios: Any = ONES, before: Any = ONES
) -> LookSums:
    """Means over a look."""
    return LookSums(
        n_rounds=n_rounds,
        n_rows=n_rows,
        coef=np.zeros(2),
        ratios=ratios,
        proportions=proportions,
        log_likelihood=0.0,
        before=before,
    )


def test_a_new_regime_takes_a_free_slot() -> None:
    slots = start_slots(3, 2)
    slot, is_same = slots.find(np.zeros((3, 10)), ratio_on(0, 5))
    assert (slot, is_same) == (0, False)
    slots = slots.put(slot, np.array([1.0, 2.0]), shares(3), is_same=False).with_factors(slot, np.full(N_SHAPES, 2.0))
    assert slots.is_used.tolist() == [True, False, False]
    assert slots.coefs[0].tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(slots.factors[0], shares(3) / 2.0)
    assert slots.factors[1:].tolist() == [[0.0] * N_SHAPES] * 2
    ratios = np.array([ratio_on(0, 5), np.zeros(10), np.zeros(10)])
    assert slots.find(ratios, ratio_on(5, 10)) == (1, False)


def test_the_same_regime_is_the_nearest_slot_within_a_total_variation() -> None:
    slots = filled(3, 2)
    ratios = np.array([ratio_on(0, 5), ratio_on(0, 7), np.zeros(10)])
    assert slots.find(ratios, ratio_on(0, 7)) == (1, True)
    assert distance(ratio_on(0, 6), ratio_on(0, 7)) < distance(ratio_on(0, 6), ratio_on(0, 5))
    assert slots.find(ratios, ratio_on(0, 6)) == (1, True)
    # The last three rows take a share of the ratio, which is its distance. Free slots do not count as ratios.
    for share, expected in ((0.29, (1, True)), (0.31, (2, False)), (1.0, (2, False))):
        other = (1.0 - share) * ratio_on(0, 7) + share * ratio_on(7, 10)
        assert distance(other, ratio_on(0, 7)) == pytest.approx(share)
        assert slots.find(ratios, other) == expected


def test_looks_at_the_same_regime_are_averaged_and_later_ones_keep_an_eighth() -> None:
    slots, values = filled(1, 0), np.random.default_rng(0).normal(size=(30, 2))
    slots = slots.put(0, values[0], shares(1), is_same=False)
    mean = values[0].copy()
    for n_merged, value in enumerate(values[1:], start=2):
        slots = slots.put(0, value, shares(2), is_same=True)
        mean += (value - mean) / min(n_merged, 8)
        np.testing.assert_allclose(slots.coefs[0], mean, rtol=1e-12)
        if n_merged == 8:
            np.testing.assert_allclose(mean, values[:8].mean(axis=0), rtol=1e-12)
    assert slots.n_merged[0] == 30
    assert slots.shares[0].sum() == pytest.approx(1.0)
    assert slots.shares[0, 2] > 0.95


def test_the_least_used_slot_is_forgotten_when_all_are_taken() -> None:
    slots = filled(3, 3)
    proportions = np.zeros(N_SHAPES + 3)
    for used in (0, 2, 0, 2):
        proportions[N_SHAPES:] = np.eye(3)[used]
        slots = slots.after_look(mean_look(proportions), None, 16)
    ratios = np.array([ratio_on(0, 3), ratio_on(3, 6), ratio_on(6, 8)])
    slot, is_same = slots.find(ratios, ratio_on(8, 10))
    assert (slot, is_same) == (1, False)
    slots = slots.put(slot, np.array([7.0, 7.0]), shares(4), is_same=False)
    assert slots.coefs[1].tolist() == [7.0, 7.0]
    np.testing.assert_array_equal(slots.shares[1], shares(4))
    assert (slots.n_merged[1], slots.use[1]) == (1, 1.0)


def test_use_decays_and_counts_the_share_of_each_slot() -> None:
    proportions = np.zeros(N_SHAPES + 2)
    proportions[N_SHAPES:] = 0.3, 0.1
    slots = filled(2, 2).after_look(mean_look(proportions), None, 16)
    np.testing.assert_allclose(slots.use, 0.999**16 + np.array([0.3, 0.1]), rtol=1e-14)
    # A look that ended early counts by its rounds.
    slots = filled(2, 2).after_look(mean_look(proportions, n_rounds=4), None, 16)
    np.testing.assert_allclose(slots.use, 0.999**4 + np.array([0.3, 0.1]) / 4.0, rtol=1e-14)


def test_visits_are_prolonged_by_the_next_look_and_begin_anew_after_a_pause() -> None:
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    in_force = [nothing + np.eye(N_SHAPES + 2)[N_SHAPES + slot] for slot in range(2)]
    looks = [(in_force[0], None), (in_force[0], None), (in_force[1], None), (nothing, None), (nothing, 1), (nothing, 0)]
    for number, (proportions, put) in enumerate(looks, start=1):
        slots = slots.after_look(mean_look(proportions), put, 16 * number)
    assert slots.visits.tolist() == [[0, 1, 32], [1, 33, 48], [1, 65, 80], [0, 81, 96]]


def test_only_the_latest_visits_are_kept_and_a_forgotten_regime_has_none() -> None:
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    n_looks = 2 * MOST_VISITS + 20
    for number in range(1, n_looks + 1):
        slots = slots.after_look(mean_look(nothing), number % 2, 16 * number)
    assert np.bincount(slots.visits[:, 0]).tolist() == [MOST_VISITS, MOST_VISITS]
    assert slots.visits[:2].tolist() == [[1, 1, 16], [0, 17, 32]]  # the first visits stay
    assert slots.visits[-1].tolist() == [0, 16 * (n_looks - 1) + 1, 16 * n_looks]
    forgotten = slots.put(0, np.zeros(2), shares(1), is_same=False)
    assert set(forgotten.visits[:, 0].tolist()) == {1}
    assert set(slots.put(0, np.zeros(2), shares(1), is_same=True).visits[:, 0].tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("look", "settled", "is_kept"),
    [
        (look_at(ratio_on(0, 5), ratio_on(0, 5)), ratio_on(0, 5), True),
        (look_at(ratio_on(0, 5), ratio_on(5, 10)), ratio_on(0, 5), False),
        (look_at(ratio_on(0, 5), ratio_on(0, 5), of_shapes=0.04), ratio_on(0, 5), False),
        (look_at(ONES, ONES), 0.95 + 0.1 * (np.arange(10) < 5), False),
        (look_at(ratio_on(0, 5), ratio_on(0, 5)), ratio_on(0, 9), False),
    ],
    ids=["kept", "has moved", "is remembered already", "is the reference", "is not what the pool says"],
)
def test_which_looks_are_worth_keeping(look: LookSums, settled: Any, is_kept: bool) -> None:
    assert look.is_worth_keeping(settled) is is_kept


def test_a_look_starts_from_nothing_and_means_are_over_its_rounds() -> None:
    look = start_look(2, N_SHAPES, ratio_on(0, 5))
    assert look.coef.tolist() == [0.0, 0.0]
    assert look.before.tolist() == ratio_on(0, 5).tolist()
    assert (look.n_rounds, look.n_rows) == (0, 0)
    sums = {
        "coef": np.array([12.0, 24.0]),
        "ratios": 12.0 * ONES,
        "proportions": 6.0 * shares(1),
        "log_likelihood": 3.0,
    }
    mean = replace(look, n_rounds=12, n_rows=60, **sums).mean()
    assert mean.coef.tolist() == [1.0, 2.0]
    assert mean.ratios.tolist() == [1.0] * 10
    assert (mean.log_likelihood, mean.proportions[1]) == (0.25, 0.5)
    assert mean.shape_shares()[1] == 1.0


def test_slots_are_never_written_into() -> None:
    slots = filled(2, 1)
    before = [each.copy() for each in (slots.coefs, slots.shares, slots.n_merged, slots.use, slots.factors)]
    slots.put(0, np.full(2, 9.0), shares(5), is_same=True).with_factors(0, np.ones(N_SHAPES))
    slots.put(0, np.full(2, 9.0), shares(5), is_same=False).after_look(mean_look(np.ones(N_SHAPES + 2)), 0, 16)
    for array, copy in zip((slots.coefs, slots.shares, slots.n_merged, slots.use, slots.factors), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_what_a_jump_passed_through_is_no_visit_of_the_regime_that_takes_its_slot() -> None:
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    slots = replace(slots, n_merged=np.array([1, 2]))
    for number, slot in enumerate((0, 1), start=1):
        slots = slots.after_look(mean_look(nothing), slot, 16 * number)
    taken_up = slots.put(0, np.zeros(2), shares(1), is_same=True).after_look(mean_look(nothing), 0, 48)
    assert taken_up.visits.tolist() == [[1, 17, 32], [0, 33, 48]]


def test_a_look_is_left_if_the_ratio_is_farther_from_its_mean_than_a_total_variation() -> None:
    look = replace(start_look(2, N_SHAPES, ONES), n_rounds=4, ratios=4.0 * ratio_on(0, 5))
    assert not look.is_left(ratio_on(0, 5))
    for share, expected in ((0.29, False), (0.31, True)):
        assert look.is_left((1.0 - share) * ratio_on(0, 5) + share * ratio_on(5, 10)) is expected


@pytest.mark.parametrize(
    ("n_rounds", "n_rows", "before", "is_kept"),
    [(16, 16, 5, True), (16, 16, 0, False), (12, 60, 0, True), (8, 16, 0, True), (7, 70, 0, False), (12, 12, 0, False)],
)
def test_a_look_that_ended_early_needs_rounds_and_rows_and_no_look_before(
    n_rounds: int, n_rows: int, before: int, is_kept: bool
) -> None:
    """The look before it was of another regime, or of the same one."""
    proportions = np.append(shares(2), (0.0, 0.0))
    look = mean_look(proportions, n_rounds, n_rows, ratio_on(5, 10), ratio_on(before, before + 5))
    assert look.is_worth_keeping(ratio_on(5, 10)) is is_kept
    visits = filled(2, 2).after_look(look, 0, 100).visits.tolist()
    assert visits == ([[0, 101 - n_rounds, 100]] if n_rounds >= 8 and n_rows >= 16 else [])


def test_visits_of_short_looks_in_a_row_are_one() -> None:
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    for n_rounds, last in ((16, 16), (10, 26), (12, 42), (12, 70)):
        slots = slots.after_look(mean_look(nothing, n_rounds), 0, last)
    assert slots.visits.tolist() == [[0, 1, 42], [0, 59, 70]]
