"""OnlineDensityRatio remembers regimes, recognises them when they come back, and forgets those that do not."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from accous import OnlineDensityRatio
from accous.core.pool import N_SHAPES
from accous.streams import GaussianStream, SquareShift
from tests.ratio.regime_streams import SIX, THREE, TWO, RegimeStream, slot_of

A_FEW_ROUNDS = 6


def assert_recognised(
    means: Sequence[Sequence[float]],
    schedule: Sequence[tuple[int, int]],
    memory: int = 4,
    within: int = A_FEW_ROUNDS,
    **stream: float,
) -> OnlineDensityRatio:
    """Every regime has one slot, and on every return that slot has more than half of the pool within a few rounds."""
    playing = RegimeStream(means, **stream)
    ratio = OnlineDensityRatio(memory=memory).fit(playing.reference())
    visits = playing.run(ratio, schedule)
    regimes = sorted({regime for regime, _ in schedule})
    slots = {regime: {slot_of(ratio, visit) for visit in visits if visit.regime == regime} for regime in regimes}
    assert all(len(of_regime) == 1 for of_regime in slots.values()), slots
    slot = {regime: next(iter(of_regime)) for regime, of_regime in slots.items()}
    assert len(set(slot.values())) == len(regimes), slot
    assert ratio.pool_.slots.is_used.sum() == len(regimes)
    returns = visits[len(regimes) :]
    rounds = [visit.rounds_until(slot[visit.regime]) for visit in returns]
    assert all(n is not None and n <= within for n in rounds), rounds
    return ratio


def test_two_regimes() -> None:
    assert_recognised(TWO, [(0, 100), (1, 100)] * 3)


def test_two_regimes_in_batches_of_one_row() -> None:
    assert_recognised(TWO, [(0, 200), (1, 200)] * 3, batch_size=1, within=40)


def test_three_regimes() -> None:
    assert_recognised(THREE, [(regime, 100) for regime in range(3)] * 3)


def test_six_regimes() -> None:
    assert_recognised(SIX, [(regime, 100) for regime in range(6)] * 2, memory=6, n_reference=600)


def test_regimes_that_drift_slowly_between_visits_keep_their_slots() -> None:
    ratio = assert_recognised(TWO, [(0, 80), (1, 80)] * 5, drift_per_visit=0.05)
    assert ratio.pool_.slots.n_merged[:2].min() > 8


def test_a_weekly_cycle_of_days_nights_and_weekends() -> None:
    playing = RegimeStream(THREE)
    ratio = OnlineDensityRatio().fit(playing.reference())
    week = [(0, 96), (1, 64)] * 5 + [(2, 192)]
    playing.run(ratio, week)
    second = playing.run(ratio, week)
    assert ratio.pool_.slots.is_used.sum() == 3
    day, night, weekend = (slot_of(ratio, visit) for visit in (second[-3], second[-2], second[-1]))
    assert len({day, night, weekend}) == 3
    slot = {0: day, 1: night, 2: weekend}
    rounds = [visit.rounds_until(slot[visit.regime]) for visit in second]
    assert np.mean([n is not None and n <= A_FEW_ROUNDS for n in rounds]) > 0.8, rounds


def test_days_and_nights_of_twelve_rounds() -> None:
    """Shorter than a look of 16 rounds: a look ends with the regime."""
    playing = RegimeStream(THREE)
    ratio = OnlineDensityRatio().fit(playing.reference())
    week = [(0, 12), (1, 12)] * 5 + [(2, 48)]
    for _ in range(3):
        playing.run(ratio, week)
    last = playing.run(ratio, week)
    assert (ratio.pool_.slots.n_merged > 1).sum() >= 3
    slot = [int(np.argmax(last[number].shares[-4:].mean(axis=0))) for number in (0, 1, -1)]
    assert len(set(slot)) == 3
    rounds = [visit.rounds_until(slot[visit.regime]) for visit in last]
    assert np.mean([n is not None and n <= A_FEW_ROUNDS for n in rounds]) > 0.8, rounds


def error_after_returns(memory: int, seed: int) -> float:
    """Mean |r - r*| on the reference in the first 25 rounds of each return of a part of the stream."""
    stream = GaussianStream(
        SquareShift(period=100), n_features=6, n_reference=300, n_rounds=800, batch_size=1, random_state=seed
    )
    X, _ = stream.reference()
    ratio, errors, n_rounds = OnlineDensityRatio(memory=memory).fit(X), [], 0
    for batch in stream:
        ratio.partial_fit(batch.X)
        n_rounds = n_rounds + 1 if batch.alpha == 0.0 else 0
        if batch.round > 400 and 0 < n_rounds <= 25:
            errors.append(np.abs(ratio.reference_ratio_ - stream.true_ratio(X, 0.0)).mean())
    return float(np.mean(errors))


def test_a_regime_that_comes_back_is_followed_faster_with_memory_than_without() -> None:
    with_memory, without = (np.mean([error_after_returns(memory, seed) for seed in range(2)]) for memory in (4, 0))
    assert with_memory < 0.75 * without


def test_more_regimes_than_slots_forget_the_least_used() -> None:
    playing = RegimeStream(SIX, n_reference=600)
    ratio = OnlineDensityRatio(memory=2).fit(playing.reference())
    often, seldom, new = playing.run(ratio, [(0, 150), (1, 150), (0, 150)])[1:] + playing.run(ratio, [(3, 150)])
    assert new.n_used == seldom.n_used == 2
    kept, replaced = slot_of(ratio, seldom), slot_of(ratio, new)
    assert kept != replaced
    # The slot of the seldom regime holds the new one, and its visits are gone.
    first_rounds = [first for slot, first, _ in ratio.pool_.slots.visits.tolist() if slot == replaced]
    assert min(first_rounds) > often.last_round
    again = playing.run(ratio, [(0, 50), (3, 50)])
    assert again[0].rounds_until(kept) <= A_FEW_ROUNDS
    assert again[1].rounds_until(replaced) <= A_FEW_ROUNDS


def test_without_memory_there_are_no_slots_and_the_shapes_do_the_work() -> None:
    playing = RegimeStream(TWO)
    ratio = OnlineDensityRatio(memory=0).fit(playing.reference())
    playing.run(ratio, [(0, 100), (1, 100)])
    assert len(ratio.pool_.proportions) == N_SHAPES
    assert ratio.pool_.slots.visits.shape == (0, 3)
    assert ratio.reference_ratio_.mean() == pytest.approx(1.0, abs=1e-9)
    left, right = ratio.predict_ratio(TWO)
    assert left < 0.1
    assert right > 1.5


def test_visits_are_in_order_inside_the_stream_and_do_not_overlap() -> None:
    playing = RegimeStream(TWO)
    ratio = OnlineDensityRatio().fit(playing.reference())
    playing.run(ratio, [(0, 100), (1, 100)] * 3)
    visits = ratio.pool_.slots.visits
    assert visits[0, 1] >= 1
    assert visits[-1, 2] <= ratio.n_rounds_
    assert (visits[:, 1] <= visits[:, 2]).all()
    assert (visits[1:, 1] > visits[:-1, 2]).all()
    # A visit ends within a few rounds of the regime's end: a look ends when the ratio moves away.
    assert np.abs(visits[:-1, 2] - 100 * np.arange(1, 6)).max() <= A_FEW_ROUNDS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_regimes_of_other_seeds(seed: int) -> None:
    assert_recognised(TWO, [(0, 100), (1, 100)] * 4, seed=seed)
    assert_recognised(THREE, [(regime, 120) for regime in range(3)] * 4, seed=seed)
    assert_recognised(SIX, [(regime, 150) for regime in range(6)] * 3, memory=6, n_reference=600, seed=seed)


@pytest.mark.parametrize("n_columns", [3, 70, 120])
def test_the_pooled_ratio_of_a_row_does_not_depend_on_the_rows_beside_it(n_columns: int) -> None:
    rng = np.random.default_rng(0)
    ratio = OnlineDensityRatio().fit(rng.normal(size=(200, n_columns)))
    for level in np.repeat((1.0, -1.0, 1.0), 40):
        ratio.partial_fit(rng.normal(size=(3, n_columns)) + level * (np.arange(n_columns) == 0))
    assert ratio.pool_.slots.is_used.any()
    rows = rng.normal(size=(21, n_columns))
    one_by_one = [ratio.predict_ratio(row[None])[0] for row in rows]
    assert ratio.predict_ratio(rows).tolist() == one_by_one


@pytest.mark.parametrize("settings", [{}, {"candidates": [lambda X: np.exp(X[:, 0])]}, {"loss": "least_squares"}])
@pytest.mark.parametrize("shift", [1.0, 6.0])
def test_the_ratio_of_a_batch_before_its_round_is_what_predict_ratio_gave(settings: Any, shift: float) -> None:
    rng = np.random.default_rng(1)
    ratio = OnlineDensityRatio(**settings).fit(rng.normal(size=(200, 4)))
    for _ in range(60):
        batch = rng.normal(size=(3, 4)) + shift
        before = ratio.predict_ratio(batch)
        assert ratio.partial_fit(batch).batch_ratio().tolist() == before.tolist()
    assert (ratio.pool_.hold > 0.0) == (shift > 5.0)
    assert before.tolist() != ratio.predict_ratio(batch).tolist()


def test_a_large_batch_is_not_part_of_a_pickle() -> None:
    rng = np.random.default_rng(1)
    ratio = OnlineDensityRatio().fit(rng.normal(size=(200, 4)))
    small = len(pickle.dumps(ratio.partial_fit(rng.normal(size=(3, 4)))))
    assert len(pickle.dumps(ratio.partial_fit(rng.normal(size=(20_000, 4))))) < small + 20_000
