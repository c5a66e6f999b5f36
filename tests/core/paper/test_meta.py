"""The meta-learner in log space: against the plain formulas, and over long extreme streams."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accous.core.ensemble import ADAPT_ML_PROD, MetaState
from tests.builders import Array

EXTREME_MARGINS = np.array([2.0, -2.0, 1.0, -1.0, 0.0])

counts = pytest.mark.parametrize("n_intervals", [2, 3, 40, 10_000])


def plain_weights(margins: Array, n_intervals: int) -> tuple[Array, Array, Array]:
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


def play(margins: Array, n_intervals: int) -> MetaState:
    """The state after rounds with the given margins (rows)."""
    meta = ADAPT_ML_PROD.start(margins.shape[1], n_intervals)
    for row in margins:
        meta = ADAPT_ML_PROD.step(meta, row, n_intervals)
    return meta


# --- against the plain formulas -------------------------------------------------------------------------------


@pytest.mark.every_pair
@counts
@pytest.mark.parametrize("size", [1e-9, 0.01, 0.5, 1.9])
@pytest.mark.parametrize("n_rounds", [0, 1, 2, 50])
def test_log_space_equals_the_plain_formulas(n_intervals: int, size: float, n_rounds: int) -> None:
    margins = np.random.default_rng(n_rounds).uniform(-size, size, size=(n_rounds, 6))
    meta = play(margins, n_intervals)
    v, eps, weights = plain_weights(margins, n_intervals)
    np.testing.assert_allclose(np.exp(meta.log_potentials), v, rtol=1e-12)
    np.testing.assert_allclose(meta.rates, eps, rtol=1e-13)
    np.testing.assert_allclose(meta.squares, (margins**2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(ADAPT_ML_PROD.weights(meta), weights, rtol=1e-12)


@pytest.mark.parametrize("n_rounds", [3, 30])
def test_learners_of_unequal_age_equal_the_plain_formulas(n_rounds: int) -> None:
    rng = np.random.default_rng(5)
    old_margins, young_margins = rng.uniform(-1.0, 1.0, size=(n_rounds, 2)), rng.uniform(-1.0, 1.0, size=(20, 5))
    meta = play(old_margins, 7).after(ADAPT_ML_PROD.start(3, 7))
    for row in young_margins:
        meta = ADAPT_ML_PROD.step(meta, row, 7)
    young_v, young_eps, _ = plain_weights(young_margins[:, :3], 7)
    old_v, old_eps, _ = plain_weights(np.concatenate((old_margins, young_margins[:, 3:])), 7)
    products = np.concatenate((young_v * young_eps, old_v * old_eps))
    np.testing.assert_allclose(ADAPT_ML_PROD.weights(meta), products / products.sum(), rtol=1e-12)


@pytest.mark.parametrize(("n_intervals", "rate"), [(2, 0.5), (1000, 0.5)])
def test_new_learners_start_at_one_over_the_count(n_intervals: int, rate: float) -> None:
    meta = ADAPT_ML_PROD.start(3, n_intervals)
    np.testing.assert_allclose(np.exp(meta.log_potentials), 1.0 / n_intervals, rtol=1e-14)
    np.testing.assert_array_equal(meta.rates, rate)
    np.testing.assert_array_equal(meta.squares, 0.0)


def test_one_step_by_hand() -> None:
    meta = ADAPT_ML_PROD.step(ADAPT_ML_PROD.start(2, 2), np.array([1.0, -2.0 / 3.0]), 2)
    np.testing.assert_allclose(np.exp(meta.log_potentials), [0.75, 1.0 / 3.0], rtol=1e-14)
    np.testing.assert_allclose(ADAPT_ML_PROD.weights(meta), [9.0 / 13.0, 4.0 / 13.0], rtol=1e-14)


def test_rate_falls_below_one_half_when_margins_add_up() -> None:
    meta = play(np.full((11, 1), 1.0), 2)
    np.testing.assert_allclose(meta.rates, math.sqrt(math.log(2.0) / 12.0), rtol=1e-14)


def test_a_better_learner_gains_weight() -> None:
    weights = ADAPT_ML_PROD.weights(play(np.tile([0.3, 0.0, -0.3], (10, 1)), 10))
    assert weights[0] > weights[1] > weights[2]


# --- weights --------------------------------------------------------------------------------------------------


@given(
    margins=hnp.arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(1, 6)), elements=st.floats(-2.0, 2.0)),
    n_intervals=st.integers(2, 10**6),
)
def test_weights_are_a_distribution(margins: Array, n_intervals: int) -> None:
    weights = ADAPT_ML_PROD.weights(play(margins, n_intervals))
    assert np.all(weights >= 0.0)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)


@counts
def test_equal_learners_have_equal_weights(n_intervals: int) -> None:
    margins = np.repeat(np.random.default_rng(0).uniform(-2.0, 2.0, size=(100, 1)), 5, axis=1)
    np.testing.assert_array_equal(ADAPT_ML_PROD.weights(play(margins, n_intervals)), 0.2)


def test_one_learner_has_weight_one() -> None:
    np.testing.assert_array_equal(ADAPT_ML_PROD.weights(play(np.array([[-2.0], [-2.0], [1.5]]), 3)), [1.0])


def test_order_of_the_learners_does_not_matter() -> None:
    margins = np.random.default_rng(1).uniform(-1.0, 1.0, size=(40, 4))
    order = np.array([2, 0, 3, 1])
    weights, reordered = ADAPT_ML_PROD.weights(play(margins, 9)), ADAPT_ML_PROD.weights(play(margins[:, order], 9))
    np.testing.assert_allclose(reordered, weights[order], rtol=1e-14)


# --- extreme streams ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hundred_thousand_extreme_rounds_stay_finite() -> None:
    n_rounds = 100_000
    constant = np.tile(EXTREME_MARGINS, (n_rounds, 1))
    alternating = np.where(np.arange(n_rounds) % 2, 1.0, -1.0)[:, None] * EXTREME_MARGINS
    at_random = np.random.default_rng(2).choice([-1.0, 1.0], size=constant.shape) * EXTREME_MARGINS
    meta = play(np.hstack((constant, alternating, at_random)), 200)
    assert np.isfinite(meta.log_potentials).all()
    assert np.all(meta.rates > 0.0)
    weights = ADAPT_ML_PROD.weights(meta)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)


def test_learner_ruined_by_one_worst_margin_can_recover() -> None:
    margins = np.concatenate((np.array([[-2.0, 0.0]]), np.tile([1.0, -1.0], (10_000, 1))))
    assert ADAPT_ML_PROD.weights(play(margins[:1], 200))[0] < 1e-290
    assert ADAPT_ML_PROD.weights(play(margins, 200))[0] > 0.99


# --- the state as a value -------------------------------------------------------------------------------------


def test_step_does_not_write_into_its_arguments() -> None:
    meta = play(np.array([[0.5, -0.5, 0.1]]), 5)
    margins = np.array([0.3, 0.2, -0.7])
    arguments = (meta.log_potentials, meta.rates, meta.squares, margins)
    before = [array.copy() for array in arguments]
    for array in arguments:
        array.flags.writeable = False
    ADAPT_ML_PROD.weights(ADAPT_ML_PROD.step(meta, margins, 5))
    for array, copy in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_since_and_after_replace_the_youngest_learners() -> None:
    old = play(np.array([[0.5, -0.5, 0.1]]), 5)
    joined = old.since(2).after(ADAPT_ML_PROD.start(2, 8))
    np.testing.assert_allclose(joined.log_potentials, [-math.log(8.0), -math.log(8.0), old.log_potentials[2]])
    np.testing.assert_array_equal(joined.rates, [0.5, 0.5, old.rates[2]])
    np.testing.assert_array_equal(joined.squares, [0.0, 0.0, old.squares[2]])
