"""Learners with a diagonal or low-rank matrix: stacks, rounds of the ensemble, and plain form."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from accous.arrays import from_plain, to_plain
from accous.core.ensemble import DIAGONAL, FULL, LOW_RANK, AnyStack, EnsembleSettings, EnsembleState, start_learners
from accous.core.learners import DiagonalStack, Sketch, WideStack
from tests import oracles
from tests.builders import LOSSES, Array, Setup, feature_rows
from tests.core.paper.test_newton import unit_rows
from tests.metric_oracles import diagonal_step, sketched_step_of_rank
from tests.rounds import run_round, start_ensemble

RANK = 3
PLAIN_STEPS = {DIAGONAL: diagonal_step, LOW_RANK: sketched_step_of_rank(RANK)}
BALLS = {"logistic": (1.0, 6.0), "least_squares": (2.5, 2.0), "kl": (2.2, 2.0)}

each_metric = pytest.mark.parametrize("metric", [DIAGONAL, LOW_RANK])
each_width = pytest.mark.parametrize("d", [5, 70, 98])


def make_settings(setup: Setup, d: int, metric: str, rank: int = RANK) -> EnsembleSettings:
    return replace(setup.settings(d), metric=metric, rank=rank)


def play(settings: EnsembleSettings, step_size: float, n_rounds: int) -> list[EnsembleState]:
    """The state after each round."""
    rng = np.random.default_rng(0)
    d = len(settings.neutral)
    reference, state, states = feature_rows(rng, 40, d), start_ensemble(settings), []
    for t in range(n_rounds):
        batch = feature_rows(rng, 3, d, shift=8.0 * np.sin(t / 7.0))
        state = run_round(state, settings, reference, batch, step_size)
        states.append(state)
    return states


# --- stacks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("radius", [0.3, 100.0])
def test_sketched_stack_equals_the_plain_step_learner_by_learner(d: int, radius: float) -> None:
    rng = np.random.default_rng(d)
    step_size, n_learners, ridge = 1.5, 3, 0.5
    start = 0.2 * unit_rows(rng, 1, d)[0]
    stack = start_learners(n_learners, start, ridge, LOW_RANK, RANK)
    slow: list[Any] = [(start, ridge * np.eye(d)) for _ in range(n_learners)]
    n_on_surface = 0
    for _ in range(20):
        gradients = rng.normal(loc=0.3, size=(n_learners, d)) * 10.0 ** rng.uniform(-2.0, 0.5, size=(n_learners, 1))
        stack = stack.step(gradients, step_size, radius)
        slow = [PLAIN_STEPS[LOW_RANK](*slow[i], gradients[i], step_size, radius) for i in range(n_learners)]
        np.testing.assert_allclose(stack.coefs, [theta for theta, _ in slow], rtol=1e-9, atol=1e-9)
        n_on_surface += int(np.sum(np.linalg.norm(stack.coefs, axis=1) > radius * (1.0 - 1e-9)))
    assert (n_on_surface > 5) == (radius == 0.3)


@each_width
@pytest.mark.parametrize(("metric", "kind"), [(DIAGONAL, DiagonalStack), (LOW_RANK, WideStack)])
def test_the_choice_holds_at_every_width(d: int, metric: str, kind: type) -> None:
    stack = start_learners(2, np.zeros(d), 1.0, metric, RANK).step(np.ones((2, d)), 1.0, 10.0)
    assert type(stack) is kind
    assert len(stack) == 2
    if isinstance(stack, WideStack):
        assert all(isinstance(part, Sketch) for part in stack.metrics)


@each_metric
def test_stacks_come_back_from_plain_form(metric: str) -> None:
    stack = start_learners(2, np.zeros(4), 1.0, metric, RANK).step(np.ones((2, 4)), 1.0, 10.0)
    assert isinstance(stack, DiagonalStack | WideStack)
    found = from_plain(AnyStack, to_plain(stack))
    assert type(found) is type(stack)
    gradients = np.arange(8.0).reshape(2, 4)
    expected = stack.step(gradients, 1.0, 10.0).coefs
    assert found.step(gradients, 1.0, 10.0).coefs.tobytes() == expected.tobytes()


# --- rounds -----------------------------------------------------------------------------------------------------


@each_metric
@pytest.mark.parametrize(("loss", "d"), [*((loss, 6) for loss in LOSSES), ("logistic", 98)])
def test_every_round_equals_the_slow_version(metric: str, loss: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "newton_step", PLAIN_STEPS[metric])
    radius, step_size = BALLS[loss]
    setup = Setup(loss=loss, start="handover", meta_range="running", radius=radius, step_size=step_size, min_interval=2)
    rng = np.random.default_rng(0)
    oracle = setup.oracle(feature_rows(rng, 40, d))
    n_on_surface = 0
    for t, state in enumerate(play(make_settings(setup, d, metric), step_size, 17)):
        oracle.run(feature_rows(rng, 3, d, shift=8.0 * np.sin(t / 7.0)))
        np.testing.assert_allclose(state.coef, oracle.theta, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.weights, oracle.weights, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.learners.coefs, oracle.learner_thetas, rtol=0.0, atol=1e-9)
        n_on_surface += int((np.linalg.norm(state.learners.coefs, axis=1) > setup.radius * (1.0 - 1e-9)).sum())
    assert n_on_surface > 0


@pytest.mark.parametrize("d", [6, 98])
def test_low_rank_is_the_whole_matrix_for_learners_of_few_rounds(d: int) -> None:
    """No learner of these rounds has more gradients than rows have room."""
    setup = Setup(radius=1.0, step_size=6.0)
    last_states = [play(make_settings(setup, d, metric, rank=16), 6.0, 40)[-1] for metric in (FULL, LOW_RANK)]
    np.testing.assert_allclose(last_states[1].coef, last_states[0].coef, rtol=0.0, atol=1e-9)


def sizes_of(state: EnsembleState) -> list[int]:
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
def test_memory_stays_within_the_documented_bound(metric: str) -> None:
    setup = Setup(radius=3.0)
    sizes = np.concatenate([sizes_of(state) for state in play(make_settings(setup, 98, metric), setup.step_size, 200)])
    assert 0.45 * BOUNDS[metric](98) < sizes.max() <= BOUNDS[metric](98)


def same_bits(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


@each_metric
def test_a_round_leaves_its_state_alone(metric: str) -> None:
    setup = Setup(radius=1.0)
    settings = make_settings(setup, 20, metric)
    state = play(settings, 2.0, 21)[-1]
    reference, batch = (feature_rows(np.random.default_rng(seed), 10, 20) for seed in (1, 2))
    first = run_round(state, settings, reference, batch, 2.0)
    run_round(state, settings, reference, -batch, 2.0)
    again = run_round(state, settings, reference, batch, 2.0)
    assert same_bits(first.coef, again.coef)
    assert same_bits(first.learners.coefs, again.learners.coefs)
