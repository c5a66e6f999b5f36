"""One round of the whole ensemble, against the slow version after every round."""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from accous.core.ensemble import EnsembleState
from tests.budgets import rest_slow
from tests.builders import LOSSES, Array, Setup, feature_rows, neutral_coef
from tests.oracles import PaperAccous
from tests.rounds import run_round, start_ensemble

N_FEATURES, N_REFERENCE, N_ROUNDS = 3, 7, 26
BATCH_SIZES = {"one": [1], "many": [12], "changing": [1, 3, 12, 40]}
# Balls and steps for which some learners touch the surface and others do not.
BALLS = {"logistic": (1.0, 6.0), "least_squares": (2.5, 2.0), "kl": (2.2, 2.0)}

every_loss = pytest.mark.parametrize("loss", list(LOSSES))
every_start = pytest.mark.parametrize("start", ["zero", "ensemble", "handover"])
every_range = pytest.mark.parametrize("meta_range", ["paper", "running"])


def make_setup(loss: str, start: str = "zero", meta_range: str = "paper", **choices: object) -> Setup:
    radius, step_size = BALLS[loss]
    setup = Setup(loss=loss, start=start, meta_range=meta_range, radius=radius, step_size=step_size)
    return replace(setup, **choices)


def draw_batches(rng: np.random.Generator, n_rounds: int, sizes: list[int]) -> Iterator[Array]:
    """Batches whose mean swings to and fro."""
    for t in range(n_rounds):
        yield feature_rows(rng, int(rng.choice(sizes)), N_FEATURES, shift=2.0 * np.sin(t / 7.0))


def play_both(
    setup: Setup, n_rounds: int = N_ROUNDS, sizes: str = "changing"
) -> Iterator[tuple[EnsembleState, PaperAccous]]:
    """The two versions after each round."""
    rng = np.random.default_rng(0)
    reference = feature_rows(rng, N_REFERENCE, N_FEATURES)
    settings, oracle = setup.settings(N_FEATURES), setup.oracle(reference)
    state = start_ensemble(settings)
    for batch in draw_batches(rng, n_rounds, BATCH_SIZES[sizes]):
        state = run_round(state, settings, reference, batch, setup.step_size)
        oracle.run(batch)
        yield state, oracle


def play(setup: Setup, n_rounds: int) -> EnsembleState:
    """The fast version alone, after some rounds."""
    rng = np.random.default_rng(0)
    reference = feature_rows(rng, N_REFERENCE, N_FEATURES)
    state = start_ensemble(setup.settings(N_FEATURES))
    for batch in draw_batches(rng, n_rounds, BATCH_SIZES["changing"]):
        state = run_round(state, setup.settings(N_FEATURES), reference, batch, setup.step_size)
    return state


def assert_same(state: EnsembleState, oracle: PaperAccous) -> None:
    assert state.n_rounds == oracle.round
    np.testing.assert_array_equal(state.lengths, oracle.lengths)
    np.testing.assert_allclose(state.coef, oracle.theta, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(state.weights, oracle.weights, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(state.learners.coefs, oracle.learner_thetas, rtol=0.0, atol=1e-9)


def is_on_surface(state: EnsembleState, radius: float) -> NDArray[np.bool_]:
    return np.linalg.norm(state.learners.coefs, axis=1) > radius * (1.0 - 1e-9)


def arrays_of(state: EnsembleState) -> list[Array]:
    """Every array of a state."""
    parts = (state, state.learners, state.meta)
    values = [getattr(part, field.name) for part in parts for field in fields(part)]
    return [value for value in values if isinstance(value, np.ndarray)]


# --- against the slow version ---------------------------------------------------------------------------------


@pytest.mark.every_pair
@every_loss
@every_start
@every_range
@pytest.mark.parametrize(
    "schedule",
    rest_slow(sorted(product((None, 11, N_ROUNDS), (1, 2, 4, 8)), key=lambda s: s not in [(None, 1), (11, 4)]), 2),
    ids=str,
)
def test_every_round_equals_the_slow_version(
    loss: str, start: str, meta_range: str, schedule: tuple[int | None, int]
) -> None:
    """A schedule is a horizon, which may be exceeded, and the shortest interval."""
    horizon, min_interval = schedule
    setup = make_setup(loss, start, meta_range, horizon=horizon, min_interval=min_interval)
    n_on_surface = n_inside = 0
    for state, oracle in play_both(setup):
        assert_same(state, oracle)
        n_on_surface += int(is_on_surface(state, setup.radius).sum())
        n_inside += int((~is_on_surface(state, setup.radius)).sum())
    assert n_on_surface > 0
    assert n_inside > 0


@every_loss
@pytest.mark.parametrize("sizes", ["one", "many"])
def test_every_round_equals_the_slow_version_for_equal_batch_sizes(loss: str, sizes: str) -> None:
    for state, oracle in play_both(make_setup(loss, min_interval=2), sizes=sizes):
        assert_same(state, oracle)


@every_loss
@every_range
def test_every_round_equals_the_slow_version_in_a_ball_never_left(loss: str, meta_range: str) -> None:
    setup = make_setup(loss, meta_range=meta_range, radius=1e4, min_interval=1)
    for state, oracle in play_both(setup):
        assert_same(state, oracle)
        assert not is_on_surface(state, setup.radius).any()


@every_loss
@pytest.mark.parametrize("ridge", [0.05, 20.0])
def test_every_round_equals_the_slow_version_for_other_ridges(loss: str, ridge: float) -> None:
    for state, oracle in play_both(make_setup(loss, ridge=ridge, min_interval=2)):
        assert_same(state, oracle)


@pytest.mark.parametrize("sizes", list(BATCH_SIZES))
def test_every_round_equals_the_slow_version_when_rates_fall(sizes: str) -> None:
    """A small feature bound makes margins large, though not beyond 2, and rates fall below one half."""
    setup = Setup(horizon=11, min_interval=8, step_size=6.0, feature_bound=0.045)
    smallest_rate = 0.5
    for state, oracle in play_both(setup, n_rounds=70, sizes=sizes):
        assert_same(state, oracle)
        slow_learners = sorted(oracle.learners.items(), key=lambda item: item[0][1] - item[0][0])
        rates, potentials = state.meta.rates, np.exp(state.meta.log_potentials)
        np.testing.assert_allclose(rates, [learner.eps for _, learner in slow_learners], rtol=1e-9)
        np.testing.assert_allclose(potentials, [learner.v for _, learner in slow_learners], rtol=1e-9)
        smallest_rate = min([smallest_rate, *rates])
    assert smallest_rate < 0.45
    assert oracle.largest_gap <= 2.0 * setup.radius * setup.feature_bound


def test_last_round_before_a_power_of_two_counts_its_own_intervals() -> None:
    """Without a horizon the count grows at the next round; the new learners' start must not see that yet."""
    setup = Setup(start="ensemble", meta_range="running", min_interval=8)
    rates_before_restart = np.array([0.5])
    for state, oracle in play_both(setup, n_rounds=32, sizes="many"):
        assert_same(state, oracle)
        rates_before_restart = state.meta.rates if state.n_rounds == 30 else rates_before_restart
    assert rates_before_restart.min() < 0.495


@every_loss
@every_range
def test_rows_far_beyond_the_feature_bound_leave_everything_finite(loss: str, meta_range: str) -> None:
    state = play(make_setup(loss, meta_range=meta_range, min_interval=1, feature_bound=1e-9), 100)
    assert all(np.isfinite(array).all() for array in arrays_of(state))
    np.testing.assert_allclose(state.weights.sum(), 1.0, rtol=1e-14)


@every_loss
def test_margins_beyond_two_are_cut(loss: str) -> None:
    state = play(make_setup(loss, min_interval=1, feature_bound=1e-9), 30)
    longest = state.meta.squares[-1]
    assert 4.0 < longest <= 4.0 * 15


@pytest.mark.slow
@every_loss
@every_start
@every_range
def test_three_hundred_rounds_equal_the_slow_version(loss: str, start: str, meta_range: str) -> None:
    for state, oracle in play_both(make_setup(loss, start, meta_range, min_interval=1), n_rounds=300):
        assert_same(state, oracle)


# --- what a state shows ---------------------------------------------------------------------------------------


@every_loss
def test_before_the_first_round_there_is_the_neutral_theta_and_no_learner(loss: str) -> None:
    state = start_ensemble(make_setup(loss).settings(N_FEATURES))
    np.testing.assert_array_equal(state.coef, neutral_coef(loss, N_FEATURES))
    assert state.n_rounds == len(state.learners) == len(state.lengths) == len(state.weights) == 0


@every_loss
@pytest.mark.parametrize("min_interval", [2, 4, 8])
def test_theta_is_neutral_until_the_shortest_interval_starts(loss: str, min_interval: int) -> None:
    setup = make_setup(loss, min_interval=min_interval)
    state = play(setup, min_interval - 2)
    assert len(state.learners) == 0
    np.testing.assert_array_equal(state.coef, neutral_coef(loss, N_FEATURES))
    state = play(setup, min_interval - 1)
    assert state.lengths.tolist() == [min_interval]
    np.testing.assert_array_equal(state.coef, neutral_coef(loss, N_FEATURES))
    assert np.linalg.norm(play(setup, min_interval).coef - neutral_coef(loss, N_FEATURES)) > 1e-3


@pytest.mark.parametrize(
    ("start", "rounds_of_ensemble_starts"),
    [("zero", set()), ("ensemble", set(range(2, 18))), ("handover", {2, 4, 8, 16})],
)
def test_new_learners_start_where_asked(start: str, rounds_of_ensemble_starts: set[int]) -> None:
    setup = make_setup("logistic", start, min_interval=1)
    states = [play(setup, n_rounds) for n_rounds in range(1, 17)]
    is_moved = {state.n_rounds + 1: bool(np.any(state.learners.coefs[0] != 0.0)) for state in states}
    assert {round_number for round_number, moved in is_moved.items() if moved} == rounds_of_ensemble_starts


def test_learners_restart_all_at_once_at_a_power_of_two() -> None:
    state = play(make_setup("logistic", "ensemble", min_interval=1), 15)
    np.testing.assert_array_equal(state.learners.matrices, np.tile(np.eye(N_FEATURES), (5, 1, 1)))
    np.testing.assert_array_equal(state.learners.coefs, np.tile(state.learners.coefs[0], (5, 1)))
    np.testing.assert_allclose(state.weights, 0.2, rtol=1e-15)


def test_running_range_is_the_largest_margin_seen() -> None:
    largest = 0.0
    for state, oracle in play_both(make_setup("logistic", meta_range="running", min_interval=1)):
        assert state.largest_margin >= largest
        np.testing.assert_allclose(state.largest_margin, oracle.largest_gap, rtol=1e-9, atol=1e-12)
        largest = state.largest_margin
    assert largest > 0.0


# --- the state as a value -------------------------------------------------------------------------------------


@pytest.mark.every_pair
@every_loss
@every_start
@pytest.mark.parametrize("n_rounds", [0, 2, 3, 6, 7, 12])
def test_playing_twice_from_one_state_gives_the_same_bits(loss: str, start: str, n_rounds: int) -> None:
    setup = make_setup(loss, start)
    reference, batch = np.split(feature_rows(np.random.default_rng(1), 20, N_FEATURES), [15])
    state = play(setup, n_rounds)
    settings = setup.settings(N_FEATURES)
    first, second = (run_round(state, settings, reference, batch, setup.step_size) for _ in range(2))
    for one, other in zip(arrays_of(first), arrays_of(second), strict=True):
        assert one.tobytes() == other.tobytes()
    assert first.largest_margin == second.largest_margin


@pytest.mark.every_pair
@every_loss
@every_start
@pytest.mark.parametrize("n_rounds", [0, 2, 3, 6, 7, 12])
def test_round_writes_neither_into_the_state_nor_into_the_rows(loss: str, start: str, n_rounds: int) -> None:
    setup = make_setup(loss, start)
    reference, batch = np.split(feature_rows(np.random.default_rng(1), 20, N_FEATURES), [15])
    state = play(setup, n_rounds)
    arrays = [*arrays_of(state), reference, batch]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    run_round(state, setup.settings(N_FEATURES), reference, batch, setup.step_size)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_step_size_may_change_from_round_to_round() -> None:
    setup = make_setup("logistic", min_interval=1)
    reference, batch = np.split(feature_rows(np.random.default_rng(2), 20, N_FEATURES), [15])
    state = play(setup, 1)
    small, large = (run_round(state, setup.settings(N_FEATURES), reference, batch, step) for step in (0.1, 0.2))
    move = small.learners.coefs[-1] - state.learners.coefs[-1]
    np.testing.assert_allclose(large.learners.coefs[-1] - state.learners.coefs[-1], 2.0 * move, rtol=1e-10)
