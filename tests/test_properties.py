"""What must hold for every reference and every stream of batches within the bounds."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.builders import LOSSES, Array, Setup, neutral_coef, with_intercept
from tests.rounds import run_round, start_ensemble

Stream = tuple[Array, list[Array]]


def rows(n_features, max_rows, *, digits=None):
    """Feature rows of norm at most 1 that end in the intercept; `digits` limits how small an entry can be."""
    elements = st.floats(-1.0, 1.0) if digits is None else st.integers(-(10**digits), 10**digits)
    shape = st.tuples(st.integers(1, max_rows), st.just(n_features))
    scale = 1.0 if digits is None else 10.0**-digits
    arrays = hnp.arrays(np.float64, shape, elements=elements.map(lambda value: value * scale))
    return arrays.map(with_intercept)


@st.composite
def streams(draw, max_rounds=8, digits=None):
    """A small reference and a few batches."""
    n_features = draw(st.integers(2, 4))
    reference = draw(rows(n_features, 5, digits=digits))
    batches = draw(st.lists(rows(n_features, 3, digits=digits), min_size=1, max_size=max_rounds))
    return reference, batches


@st.composite
def setups(draw):
    """Any choice; the ball is wide enough for the neutral theta."""
    return Setup(
        loss=draw(st.sampled_from(sorted(LOSSES))),
        start=draw(st.sampled_from(["zero", "ensemble", "handover"])),
        meta_range=draw(st.sampled_from(["paper", "running"])),
        horizon=draw(st.none() | st.integers(1, 20)),
        min_interval=draw(st.sampled_from([1, 2, 4, 8])),
        radius=draw(st.floats(2.0, 50.0)),
        step_size=draw(st.floats(1e-3, 1e3)),
        ridge=draw(st.floats(1e-2, 1e2)),
    )


def run_rounds(setup, reference, batches):
    """The state after each round."""
    chosen = setup.settings(reference.shape[1])
    state = start_ensemble(chosen)
    for batch in batches:
        state = run_round(state, chosen, reference, batch, setup.step_size)
        yield state


@given(stream=streams(), setup=setups())
def test_every_theta_lies_in_the_ball_and_theirs_is_the_mean_by_weights_that_are_a_distribution(stream, setup):
    neutral = neutral_coef(setup.loss, stream[0].shape[1])
    for state in run_rounds(setup, *stream):
        thetas = np.vstack((state.learners.coefs, state.coef))
        assert np.linalg.norm(thetas, axis=1).max() <= setup.radius * (1.0 + 1e-12)
        assert state.weights.shape == state.lengths.shape == (len(state.learners),)
        assert np.all(state.weights >= 0.0)
        if len(state.weights):
            np.testing.assert_allclose(state.weights.sum(), 1.0, rtol=1e-14)
        mean = (state.weights[:, None] * state.learners.coefs).sum(axis=0) if len(state.weights) else neutral
        np.testing.assert_allclose(state.coef, mean, rtol=1e-13, atol=1e-13 * setup.radius)


@given(stream=streams(max_rounds=17), setup=setups())
def test_there_is_one_learner_per_power_of_two_up_to_the_next_round(stream, setup):
    for t, state in enumerate(run_rounds(setup, *stream), start=1):
        powers = [2**k for k in range(10) if setup.min_interval <= 2**k <= t + 1]
        assert state.n_rounds == t
        assert state.lengths.tolist() == powers
        assert len(state.learners) == len(powers)


@given(stream=streams(max_rounds=6, digits=3), setup=setups(), seed=st.integers(0, 1000))
def test_order_of_the_reference_rows_does_not_matter(stream, setup, seed):
    reference, batches = stream
    shuffled = np.random.default_rng(seed).permutation(reference)
    # Longer steps multiply rounding errors from round to round.
    setup = replace(setup, step_size=min(setup.step_size, 10.0))
    for state, other in zip(run_rounds(setup, reference, batches), run_rounds(setup, shuffled, batches), strict=True):
        np.testing.assert_allclose(other.coef, state.coef, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(other.weights, state.weights, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(other.learners.coefs, state.learners.coefs, rtol=0.0, atol=1e-9)


@given(reference=rows(3, 5), setup=setups(), n_rounds=st.integers(1, 16))
def test_logistic_theta_stays_zero_on_batches_equal_to_the_reference(reference, setup, n_rounds):
    for state in run_rounds(replace(setup, loss="logistic"), reference, [reference] * n_rounds):
        np.testing.assert_array_equal(state.coef, 0.0)
        np.testing.assert_array_equal(state.learners.coefs, 0.0)
