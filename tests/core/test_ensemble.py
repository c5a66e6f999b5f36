"""The ensemble: its cover, the meta-learner, and rounds of every kind against the slow version."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accous.arrays import from_plain, to_plain
from accous.core.ensemble import (
    ADAPT_ML_PROD,
    DIAGONAL,
    FULL,
    LOW_RANK,
    WIDE_FROM,
    AnyStack,
    CompiledStack,
    active_lengths,
    count_intervals,
    count_starting,
    intervals_for_round,
    log_intervals,
    prepare_reference,
    start_learners,
)
from accous.core.learners import DiagonalStack, Sketch, WideStack
from tests import oracles
from tests.budgets import rest_slow
from tests.builders import LOSSES, Setup, feature_rows, neutral_coef
from tests.oracles import cover, diagonal_step, sketched_step_of_rank
from tests.rounds import reference_ratios, run_round, start_ensemble

N_COVERED = 600
N_FEATURES, N_REFERENCE, N_ROUNDS = 3, 7, 26
RANK = 3
N_WIDE = WIDE_FROM + 2
BATCH_SIZES = {"one": [1], "many": [12], "changing": [1, 3, 12, 40]}
# Balls and steps for which some learners touch the surface and others do not.
BALLS = {"logistic": (1.0, 6.0), "least_squares": (2.5, 2.0), "kl": (2.2, 2.0)}
EXTREME_MARGINS = np.array([2.0, -2.0, 1.0, -1.0, 0.0])
MAX_RATIO = 1e9
PLAIN_STEPS = {FULL: oracles.newton_step, DIAGONAL: diagonal_step, LOW_RANK: sketched_step_of_rank(RANK)}

every_min_interval = pytest.mark.parametrize("min_interval", [1, 2, 4, 8])
counts = pytest.mark.parametrize("n_intervals", [2, 3, 40, 10_000])
every_loss = pytest.mark.parametrize("loss", list(LOSSES))
every_start = pytest.mark.parametrize("start", ["zero", "ensemble", "handover"])
every_range = pytest.mark.parametrize("meta_range", ["paper", "running"])

# --- the cover --------------------------------------------------------------------------------------------------


@every_min_interval
def test_active_and_starting_lengths_are_those_of_the_intervals(min_interval):
    intervals, n_before = cover(N_COVERED, min_interval), 0
    for t in range(1, N_COVERED + 1):
        lengths, n_starting = active_lengths(t, min_interval), count_starting(t, min_interval)
        assert lengths.tolist() == sorted(end - start + 1 for start, end in intervals if start <= t <= end)
        assert lengths.dtype == np.int64
        assert lengths[:n_starting].tolist() == sorted(end - start + 1 for start, end in intervals if start == t)
        # Every length that starts has just ended, but a new one.
        n_ended = sum(end == t - 1 for _, end in intervals)
        assert n_starting - (len(lengths) - n_before) == n_ended
        n_before = len(lengths)


@every_min_interval
def test_counts_are_those_of_the_intervals_that_start_up_to_the_horizon(min_interval):
    intervals, rounds = cover(N_COVERED, min_interval), range(1, N_COVERED + 1)
    for horizon in rounds:
        assert count_intervals(horizon, min_interval) == max(2, sum(start <= horizon for start, _ in intervals))
    assert {intervals_for_round(t, 100, min_interval) for t in rounds} == {count_intervals(100, min_interval)}
    # Without a horizon it changes at powers of two only, and no learner outlives a change.
    for n_bits, same in groupby(rounds, int.bit_length):
        expected = count_intervals(2**n_bits - 1, min_interval)
        assert {intervals_for_round(t, None, min_interval) for t in same} == {expected}
        assert log_intervals(n_bits, None, min_interval) == math.log(expected)
        assert log_intervals(n_bits, 100, min_interval) == math.log(count_intervals(100, min_interval))
    assert all(start.bit_length() == end.bit_length() for start, end in intervals)


def test_rounds_far_beyond_any_stream_have_one_length_per_power_of_two():
    assert active_lengths(2**40 + 5, 4).tolist() == [2**k for k in range(2, 41)]
    assert count_starting(2**40, 4) == 39
    assert count_starting(2**40 + 4, 4) == 1


# --- the meta-learner -------------------------------------------------------------------------------------------


def plain_weights(margins, n_intervals):
    """v, eps and p after the given rounds (rows), by the paper's formulas in plain floats."""
    v = [1.0 / n_intervals] * margins.shape[1]
    eps = [min(0.5, math.sqrt(math.log(n_intervals)))] * margins.shape[1]
    for i in range(margins.shape[1]):
        total = 0.0
        for m in margins[:, i].tolist():
            total += m**2
            new_eps = min(0.5, math.sqrt(math.log(n_intervals) / (1.0 + total)))
            v[i] = (v[i] * (1.0 + eps[i] * m)) ** (new_eps / eps[i])
            eps[i] = new_eps
    products = np.array([a * b for a, b in zip(eps, v, strict=True)])
    return np.array(v), np.array(eps), products / products.sum()


def run_margins(margins, n_intervals):
    """The state after rounds with the given margins (rows)."""
    meta = ADAPT_ML_PROD.start(margins.shape[1], n_intervals)
    for row in margins:
        meta = ADAPT_ML_PROD.step(meta, row, n_intervals)
    return meta


@pytest.mark.every_pair
@counts
@pytest.mark.parametrize("size", [1e-9, 0.01, 0.5, 1.9])
@pytest.mark.parametrize("n_rounds", [0, 1, 2, 50])
def test_log_space_equals_the_plain_formulas(n_intervals, size, n_rounds):
    margins = np.random.default_rng(n_rounds).uniform(-size, size, size=(n_rounds, 6))
    meta = run_margins(margins, n_intervals)
    v, eps, weights = plain_weights(margins, n_intervals)
    np.testing.assert_allclose(np.exp(meta.log_potentials), v, rtol=1e-12)
    np.testing.assert_allclose(meta.rates, eps, rtol=1e-13)
    np.testing.assert_allclose(meta.squares, (margins**2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(ADAPT_ML_PROD.weights(meta), weights, rtol=1e-12)


@pytest.mark.parametrize("n_rounds", [3, 30])
def test_learners_of_unequal_age_equal_the_plain_formulas(n_rounds):
    rng = np.random.default_rng(5)
    old_margins, young_margins = rng.uniform(-1.0, 1.0, size=(n_rounds, 2)), rng.uniform(-1.0, 1.0, size=(20, 5))
    meta = run_margins(old_margins, 7).after(ADAPT_ML_PROD.start(3, 7))
    for row in young_margins:
        meta = ADAPT_ML_PROD.step(meta, row, 7)
    young_v, young_eps, _ = plain_weights(young_margins[:, :3], 7)
    old_v, old_eps, _ = plain_weights(np.concatenate((old_margins, young_margins[:, 3:])), 7)
    products = np.concatenate((young_v * young_eps, old_v * old_eps))
    np.testing.assert_allclose(ADAPT_ML_PROD.weights(meta), products / products.sum(), rtol=1e-12)


def test_one_step_by_hand():
    meta = ADAPT_ML_PROD.step(ADAPT_ML_PROD.start(2, 2), np.array([1.0, -2.0 / 3.0]), 2)
    np.testing.assert_allclose(np.exp(meta.log_potentials), [0.75, 1.0 / 3.0], rtol=1e-14)
    np.testing.assert_allclose(ADAPT_ML_PROD.weights(meta), [9.0 / 13.0, 4.0 / 13.0], rtol=1e-14)


@given(
    margins=hnp.arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(1, 6)), elements=st.floats(-2.0, 2.0)),
    n_intervals=st.integers(2, 10**6),
)
def test_weights_are_a_distribution(margins, n_intervals):
    weights = ADAPT_ML_PROD.weights(run_margins(margins, n_intervals))
    assert np.all(weights >= 0.0)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)


@counts
def test_equal_learners_have_equal_weights(n_intervals):
    margins = np.repeat(np.random.default_rng(0).uniform(-2.0, 2.0, size=(100, 1)), 5, axis=1)
    np.testing.assert_array_equal(ADAPT_ML_PROD.weights(run_margins(margins, n_intervals)), 0.2)


@pytest.mark.slow
def test_a_hundred_thousand_extreme_rounds_stay_finite():
    n_rounds = 100_000
    constant = np.tile(EXTREME_MARGINS, (n_rounds, 1))
    alternating = np.where(np.arange(n_rounds) % 2, 1.0, -1.0)[:, None] * EXTREME_MARGINS
    at_random = np.random.default_rng(2).choice([-1.0, 1.0], size=constant.shape) * EXTREME_MARGINS
    meta = run_margins(np.hstack((constant, alternating, at_random)), 200)
    assert np.isfinite(meta.log_potentials).all()
    assert np.all(meta.rates > 0.0)
    weights = ADAPT_ML_PROD.weights(meta)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)


def test_learner_ruined_by_one_worst_margin_can_recover():
    margins = np.concatenate((np.array([[-2.0, 0.0]]), np.tile([1.0, -1.0], (10_000, 1))))
    assert ADAPT_ML_PROD.weights(run_margins(margins[:1], 200))[0] < 1e-290
    assert ADAPT_ML_PROD.weights(run_margins(margins, 200))[0] > 0.99


def test_since_and_after_replace_the_youngest_learners():
    old = run_margins(np.array([[0.5, -0.5, 0.1]]), 5)
    joined = old.since(2).after(ADAPT_ML_PROD.start(2, 8))
    np.testing.assert_allclose(joined.log_potentials, [-math.log(8.0), -math.log(8.0), old.log_potentials[2]])
    np.testing.assert_array_equal(joined.rates, [0.5, 0.5, old.rates[2]])
    np.testing.assert_array_equal(joined.squares, [0.0, 0.0, old.squares[2]])


# --- rounds against the slow version ----------------------------------------------------------------------------


def make_setup(loss, start="zero", meta_range="paper", **choices: object):
    radius, step_size = BALLS[loss]
    setup = Setup(loss=loss, start=start, meta_range=meta_range, radius=radius, step_size=step_size)
    return replace(setup, **choices)


def draw_batches(rng, n_rounds, sizes):
    """Batches whose mean swings to and fro."""
    for t in range(n_rounds):
        yield feature_rows(rng, int(rng.choice(sizes)), N_FEATURES, shift=2.0 * np.sin(t / 7.0))


def run_both(setup, n_rounds=N_ROUNDS, sizes="changing"):
    """The two versions after each round."""
    rng = np.random.default_rng(0)
    reference = feature_rows(rng, N_REFERENCE, N_FEATURES)
    settings, oracle = setup.settings(N_FEATURES), setup.oracle(reference)
    state = start_ensemble(settings)
    for batch in draw_batches(rng, n_rounds, BATCH_SIZES[sizes]):
        state = run_round(state, settings, reference, batch, setup.step_size)
        oracle.run(batch)
        yield state, oracle


def run_rounds(setup, n_rounds):
    """The fast version alone, after some rounds."""
    rng = np.random.default_rng(0)
    reference = feature_rows(rng, N_REFERENCE, N_FEATURES)
    state = start_ensemble(setup.settings(N_FEATURES))
    for batch in draw_batches(rng, n_rounds, BATCH_SIZES["changing"]):
        state = run_round(state, setup.settings(N_FEATURES), reference, batch, setup.step_size)
    return state


def assert_same(state, oracle):
    assert state.n_rounds == oracle.round
    np.testing.assert_array_equal(state.lengths, oracle.lengths)
    np.testing.assert_allclose(state.coef, oracle.theta, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(state.weights, oracle.weights, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(state.learners.coefs, oracle.learner_thetas, rtol=0.0, atol=1e-9)


def is_on_surface(state, radius):
    return np.linalg.norm(state.learners.coefs, axis=1) > radius * (1.0 - 1e-9)


def arrays_of(state):
    """Every array of a state."""
    parts = (state, state.learners, state.meta)
    values = [getattr(part, field.name) for part in parts for field in fields(part)]
    return [value for value in values if isinstance(value, np.ndarray)]


@pytest.mark.every_pair
@every_loss
@every_start
@every_range
@pytest.mark.parametrize(
    "schedule",
    rest_slow(sorted(product((None, 11, N_ROUNDS), (1, 2, 4, 8)), key=lambda s: s not in [(None, 1), (11, 4)]), 2),
    ids=str,
)
def test_every_round_equals_the_slow_version(loss, start, meta_range, schedule):
    """A schedule is a horizon, which may be exceeded, and the shortest interval."""
    horizon, min_interval = schedule
    setup = make_setup(loss, start, meta_range, horizon=horizon, min_interval=min_interval)
    n_on_surface = n_inside = 0
    for state, oracle in run_both(setup):
        assert_same(state, oracle)
        n_on_surface += int(is_on_surface(state, setup.radius).sum())
        n_inside += int((~is_on_surface(state, setup.radius)).sum())
    assert n_on_surface > 0
    assert n_inside > 0


@every_loss
@every_range
@pytest.mark.parametrize("choices", [{"radius": 1e4, "min_interval": 1}, {"ridge": 0.05}, {"ridge": 20.0}], ids=str)
@pytest.mark.parametrize("sizes", ["one", "many"])
def test_other_balls_ridges_and_sizes_equal_the_slow_version(loss, meta_range, choices, sizes):
    setup = make_setup(loss, meta_range=meta_range, **{"min_interval": 2, **choices})
    for state, oracle in run_both(setup, sizes=sizes):
        assert_same(state, oracle)
        assert setup.radius < 1e4 or not is_on_surface(state, setup.radius).any()


@pytest.mark.parametrize("metric", list(PLAIN_STEPS))
@pytest.mark.parametrize(("loss", "d"), [("logistic", 6), *((loss, N_WIDE) for loss in LOSSES)])
@pytest.mark.parametrize("start", ["zero", "handover"])
def test_rounds_of_every_metric_equal_the_slow_version(metric, loss, d, start, monkeypatch):
    monkeypatch.setattr(oracles, "newton_step", PLAIN_STEPS[metric])
    setup = make_setup(loss, start, "running", min_interval=2)
    rng, n_on_surface = np.random.default_rng(0), 0
    oracle = setup.oracle(feature_rows(rng, 40, d))
    for t, state in enumerate(run_metric(make_settings(setup, d, metric), setup.step_size, 17)):
        oracle.run(feature_rows(rng, 3, d, shift=8.0 * np.sin(t / 7.0)))
        assert_same(state, oracle)
        n_on_surface += int(is_on_surface(state, setup.radius).sum())
    assert n_on_surface > 0


@pytest.mark.parametrize("sizes", list(BATCH_SIZES))
def test_every_round_equals_the_slow_version_when_rates_fall(sizes):
    """A small feature bound makes margins large, though not beyond 2, and rates fall below one half."""
    setup = Setup(horizon=11, min_interval=8, step_size=6.0, feature_bound=0.045)
    smallest_rate = 0.5
    for state, oracle in run_both(setup, n_rounds=70, sizes=sizes):
        assert_same(state, oracle)
        slow_learners = sorted(oracle.learners.items(), key=lambda item: item[0][1] - item[0][0])
        rates, potentials = state.meta.rates, np.exp(state.meta.log_potentials)
        np.testing.assert_allclose(rates, [learner.eps for _, learner in slow_learners], rtol=1e-9)
        np.testing.assert_allclose(potentials, [learner.v for _, learner in slow_learners], rtol=1e-9)
        smallest_rate = min([smallest_rate, *rates])
    assert smallest_rate < 0.45
    assert oracle.largest_gap <= 2.0 * setup.radius * setup.feature_bound


def test_last_round_before_a_power_of_two_counts_its_own_intervals():
    """Without a horizon the count grows at the next round; the new learners' start must not see that yet."""
    setup = Setup(start="ensemble", meta_range="running", min_interval=8)
    rates_before_restart = np.array([0.5])
    for state, oracle in run_both(setup, n_rounds=32, sizes="many"):
        assert_same(state, oracle)
        rates_before_restart = state.meta.rates if state.n_rounds == 30 else rates_before_restart
    assert rates_before_restart.min() < 0.495


@every_loss
@every_range
def test_rows_far_beyond_the_feature_bound_leave_everything_finite_and_margins_cut_at_two(loss, meta_range):
    setup = make_setup(loss, meta_range=meta_range, min_interval=1, feature_bound=1e-9)
    state = run_rounds(setup, 100)
    assert all(np.isfinite(array).all() for array in arrays_of(state))
    np.testing.assert_allclose(state.weights.sum(), 1.0, rtol=1e-14)
    longest = run_rounds(setup, 30).meta.squares[-1]
    assert longest <= 4.0 * 15
    assert meta_range == "running" or longest > 4.0


# --- what a state shows -----------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("min_interval", [2, 4, 8])
def test_theta_is_neutral_until_the_shortest_interval_starts(loss, min_interval):
    setup, neutral = make_setup(loss, min_interval=min_interval), neutral_coef(loss, N_FEATURES)
    for n_rounds, lengths in ((0, []), (min_interval - 2, []), (min_interval - 1, [min_interval])):
        state = run_rounds(setup, n_rounds)
        assert state.lengths.tolist() == lengths
        assert len(state.learners) == len(state.weights) == len(lengths)
        np.testing.assert_array_equal(state.coef, neutral)
    assert np.linalg.norm(run_rounds(setup, min_interval).coef - neutral) > 1e-3


@pytest.mark.parametrize(
    ("start", "rounds_of_ensemble_starts"),
    [("zero", set()), ("ensemble", set(range(2, 18))), ("handover", {2, 4, 8, 16})],
)
def test_new_learners_start_where_asked(start, rounds_of_ensemble_starts):
    setup = make_setup("logistic", start, min_interval=1)
    states = [run_rounds(setup, n_rounds) for n_rounds in range(1, 17)]
    is_moved = {state.n_rounds + 1: bool(np.any(state.learners.coefs[0] != 0.0)) for state in states}
    assert {round_number for round_number, moved in is_moved.items() if moved} == rounds_of_ensemble_starts


def test_running_range_is_the_largest_margin_seen():
    largest = 0.0
    for state, oracle in run_both(make_setup("logistic", meta_range="running", min_interval=1)):
        assert state.largest_margin >= largest
        np.testing.assert_allclose(state.largest_margin, oracle.largest_gap, rtol=1e-9, atol=1e-12)
        largest = state.largest_margin
    assert largest > 0.0


# --- the state as a value ---------------------------------------------------------------------------------------


def test_step_size_may_change_from_round_to_round():
    setup = make_setup("logistic", min_interval=1)
    reference, batch = np.split(feature_rows(np.random.default_rng(2), 20, N_FEATURES), [15])
    state = run_rounds(setup, 1)
    small, large = (run_round(state, setup.settings(N_FEATURES), reference, batch, step) for step in (0.1, 0.2))
    move = small.learners.coefs[-1] - state.learners.coefs[-1]
    np.testing.assert_allclose(large.learners.coefs[-1] - state.learners.coefs[-1], 2.0 * move, rtol=1e-10)


# --- the choice of a metric -------------------------------------------------------------------------------------


def make_settings(setup, d, metric, rank=RANK):
    return replace(setup.settings(d), metric=metric, rank=rank)


def run_metric(settings, step_size, n_rounds):
    """The state after each round."""
    rng = np.random.default_rng(0)
    d = len(settings.neutral)
    reference, state, states = feature_rows(rng, 40, d), start_ensemble(settings), []
    for t in range(n_rounds):
        batch = feature_rows(rng, 3, d, shift=8.0 * np.sin(t / 7.0))
        state = run_round(state, settings, reference, batch, step_size)
        states.append(state)
    return states


@pytest.mark.parametrize(
    ("metric", "d", "kind"),
    [
        (FULL, WIDE_FROM - 1, CompiledStack),
        (FULL, WIDE_FROM, WideStack),
        *((DIAGONAL, d, DiagonalStack) for d in (5, 70, 98)),
        *((LOW_RANK, d, WideStack) for d in (5, 70, 98)),
    ],
)
def test_metric_and_width_decide_and_every_kind_comes_back_from_plain_form(metric, d, kind):
    stack = start_learners(2, np.zeros(d), 1.0, metric, RANK).step(np.ones((2, d)), 1.0, 10.0)
    assert type(stack) is kind
    if metric == LOW_RANK:
        assert all(isinstance(part, Sketch) for part in stack.metrics)
    found = from_plain(AnyStack, to_plain(stack))
    assert type(found) is kind
    gradients = np.arange(2.0 * d).reshape(2, d)
    assert found.step(gradients, 1.0, 10.0).coefs.tobytes() == stack.step(gradients, 1.0, 10.0).coefs.tobytes()


@pytest.mark.parametrize("d", [6, 98])
def test_low_rank_is_the_whole_matrix_for_learners_of_few_rounds(d):
    """No learner of these rounds has more gradients than rows have room."""
    setup = Setup(radius=1.0, step_size=6.0)
    last_states = [run_metric(make_settings(setup, d, metric, rank=16), 6.0, 40)[-1] for metric in (FULL, LOW_RANK)]
    np.testing.assert_allclose(last_states[1].coef, last_states[0].coef, rtol=0.0, atol=1e-9)


def sizes_of(state):
    """Numbers in each learner's matrix."""
    learners = state.learners
    if isinstance(learners, DiagonalStack):
        return [len(diagonal) for diagonal in learners.diagonals]
    assert isinstance(learners, WideStack)
    arrays = [[getattr(part, field.name) for field in fields(part)] for part in learners.metrics]
    return [sum(array.size for array in some if isinstance(array, np.ndarray)) for some in arrays]


BOUNDS: dict[str, Callable[[int], int]] = {
    FULL: lambda d: d * d + 64 * (d + 64),
    LOW_RANK: lambda d: 2 * RANK * (d + 2 * RANK),
    DIAGONAL: lambda d: d,
}


@pytest.mark.parametrize("metric", list(BOUNDS))
def test_memory_stays_within_the_documented_bound(metric):
    setup = Setup(radius=3.0)
    sizes = np.concatenate(
        [sizes_of(state) for state in run_metric(make_settings(setup, 98, metric), setup.step_size, 200)]
    )
    assert 0.45 * BOUNDS[metric](98) < sizes.max() <= BOUNDS[metric](98)


# --- the pass over a wide reference that rounds share -----------------------------------------------------------


def run_wide(loss, n_rounds, metric=FULL):
    setup = make_setup(loss, "handover", "running", min_interval=2)
    settings = make_settings(setup, N_WIDE, metric)
    states = run_metric(settings, setup.step_size, n_rounds)
    reference = feature_rows(np.random.default_rng(0), 40, N_WIDE)
    return (states[-1] if states else start_ensemble(settings)), settings, reference


def ratios(state, settings, reference):
    return reference_ratios(state, settings, prepare_reference(reference, settings.loss), MAX_RATIO)


def bits(state):
    matrices = [metric.dense() for metric in state.learners.metrics] if isinstance(state.learners, WideStack) else []
    return [array.tobytes() for array in (state.coef, state.weights, state.learners.coefs, *matrices)]


@every_loss
@pytest.mark.parametrize("n_rounds", [0, 1, 2, 9])
def test_ratios_of_the_reference_are_right_and_reading_them_changes_no_bit_of_a_round(loss, n_rounds):
    state, settings, reference = run_wide(loss, n_rounds)
    batch = feature_rows(np.random.default_rng(1), 4, N_WIDE)
    unread = run_round(replace(state, cache={}), settings, reference, batch, 2.0)
    before = ratios(state, settings, reference)
    expected = settings.loss.ratio(reference @ state.coef, MAX_RATIO)
    np.testing.assert_allclose(before, expected, rtol=1e-12, atol=1e-13)
    assert bits(run_round(state, settings, reference, batch, 2.0)) == bits(unread)
    assert ratios(state, settings, reference).tobytes() == before.tobytes()


def test_another_reference_is_passed_over_anew():
    state, settings, reference = run_wide("logistic", 9)
    other, batch = (feature_rows(np.random.default_rng(seed), 11, N_WIDE) for seed in (1, 2))
    ratios(state, settings, reference)
    expected = settings.loss.ratio(other @ state.coef, MAX_RATIO)
    np.testing.assert_allclose(ratios(state, settings, other), expected, rtol=1e-12)
    ratios(state, settings, reference)
    fresh = run_round(replace(state, cache={}), settings, other, batch, 2.0)
    assert bits(run_round(state, settings, other, batch, 2.0)) == bits(fresh)
