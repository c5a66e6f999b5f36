"""Rounds of an ensemble with many features: the slow version, and the pass over the reference that rounds share."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from accous.core.ensemble import WIDE_FROM, EnsembleSettings, EnsembleState, prepare_reference
from accous.core.learners import WideStack
from tests.builders import LOSSES, Array, Setup, feature_rows
from tests.rounds import reference_ratios, run_round, start_ensemble

N_FEATURES, N_REFERENCE, N_ROUNDS = WIDE_FROM + 2, 40, 20
BALLS = {"logistic": (1.0, 6.0), "least_squares": (2.5, 2.0), "kl": (2.2, 2.0)}

every_loss = pytest.mark.parametrize("loss", list(LOSSES))


MAX_RATIO = 1e9


def ratios(state: EnsembleState, settings: EnsembleSettings, reference: Array) -> Array:
    return reference_ratios(state, settings, prepare_reference(reference, settings.loss), MAX_RATIO)


def make_setup(loss: str, start: str = "handover") -> Setup:
    radius, step_size = BALLS[loss]
    return Setup(loss=loss, start=start, meta_range="running", radius=radius, step_size=step_size, min_interval=2)


def draw_batches(rng: np.random.Generator, n_rounds: int) -> Iterator[Array]:
    for t in range(n_rounds):
        yield feature_rows(rng, 3, N_FEATURES, shift=8.0 * np.sin(t / 7.0))


def play(setup: Setup, n_rounds: int) -> tuple[EnsembleState, Array]:
    rng = np.random.default_rng(0)
    reference = feature_rows(rng, N_REFERENCE, N_FEATURES)
    state = start_ensemble(setup.settings(N_FEATURES))
    for batch in draw_batches(rng, n_rounds):
        state = run_round(state, setup.settings(N_FEATURES), reference, batch, setup.step_size)
    return state, reference


def same_bits(one: EnsembleState, other: EnsembleState) -> bool:
    assert isinstance(one.learners, WideStack)
    assert isinstance(other.learners, WideStack)
    pairs = [(one.coef, other.coef), (one.weights, other.weights), (one.learners.coefs, other.learners.coefs)]
    pairs += [(a.dense(), b.dense()) for a, b in zip(one.learners.metrics, other.learners.metrics, strict=True)]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


@every_loss
@pytest.mark.parametrize("start", ["zero", "handover"])
def test_every_round_equals_the_slow_version(loss: str, start: str) -> None:
    setup = make_setup(loss, start)
    rng = np.random.default_rng(0)
    reference = feature_rows(rng, N_REFERENCE, N_FEATURES)
    settings, oracle = setup.settings(N_FEATURES), setup.oracle(reference)
    state = start_ensemble(settings)
    n_on_surface = 0
    for batch in draw_batches(rng, N_ROUNDS):
        state = run_round(state, settings, reference, batch, setup.step_size)
        oracle.run(batch)
        np.testing.assert_allclose(state.coef, oracle.theta, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.weights, oracle.weights, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(state.learners.coefs, oracle.learner_thetas, rtol=0.0, atol=1e-9)
        n_on_surface += int((np.linalg.norm(state.learners.coefs, axis=1) > setup.radius * (1.0 - 1e-9)).sum())
    assert n_on_surface > 0


# --- the shared pass --------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("n_rounds", [0, 1, 9])
def test_ratios_of_the_reference_are_those_of_the_coefficients(loss: str, n_rounds: int) -> None:
    state, reference = play(make_setup(loss), n_rounds)
    settings = make_setup(loss).settings(N_FEATURES)
    expected = settings.loss.ratio(reference @ state.coef, MAX_RATIO)
    np.testing.assert_allclose(ratios(state, settings, reference), expected, rtol=1e-12, atol=1e-13)


@every_loss
@pytest.mark.parametrize("n_rounds", [0, 1, 2, 9])
def test_reading_ratios_before_a_round_changes_no_bit_of_it(loss: str, n_rounds: int) -> None:
    setup = make_setup(loss)
    settings = setup.settings(N_FEATURES)
    state, reference = play(setup, n_rounds)
    batch = feature_rows(np.random.default_rng(1), 4, N_FEATURES)
    unread = run_round(replace(state, cache={}), settings, reference, batch, setup.step_size)
    before = ratios(state, settings, reference)
    read = run_round(state, settings, reference, batch, setup.step_size)
    assert same_bits(unread, read)
    assert ratios(state, settings, reference).tobytes() == before.tobytes()


def test_another_reference_is_passed_over_anew() -> None:
    setup = make_setup("logistic")
    settings = setup.settings(N_FEATURES)
    state, reference = play(setup, 9)
    other = feature_rows(np.random.default_rng(2), 11, N_FEATURES)
    ratios(state, settings, reference)
    expected = settings.loss.ratio(other @ state.coef, MAX_RATIO)
    np.testing.assert_allclose(ratios(state, settings, other), expected, rtol=1e-12)
    batch = feature_rows(np.random.default_rng(1), 4, N_FEATURES)
    ratios(state, settings, reference)
    fresh = run_round(replace(state, cache={}), settings, other, batch, setup.step_size)
    assert same_bits(run_round(state, settings, other, batch, setup.step_size), fresh)


def test_two_rounds_from_one_state_do_not_disturb_each_other() -> None:
    setup = make_setup("logistic")
    settings = setup.settings(N_FEATURES)
    state, reference = play(setup, 9)
    one, other = (feature_rows(np.random.default_rng(seed), 4, N_FEATURES) for seed in (1, 2))
    first = run_round(state, settings, reference, one, setup.step_size)
    run_round(state, settings, reference, other, setup.step_size)
    assert same_bits(run_round(state, settings, reference, one, setup.step_size), first)
