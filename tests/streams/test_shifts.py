"""The shifts: values by hand, properties on all of them, and their errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.exceptions import ParameterError
from accous.streams import BernoulliShift, ConstantShift, LinearShift, Shift, SineShift, SquareShift

any_shift = st.one_of(
    st.builds(LinearShift, reverse=st.booleans()),
    st.builds(SquareShift, period=st.none() | st.integers(1, 50)),
    st.builds(SineShift, period=st.none() | st.integers(1, 50)),
    st.builds(BernoulliShift, flip=st.none() | st.floats(0, 1)),
    st.builds(ConstantShift, alpha=st.floats(0, 1)),
)


@given(shift=any_shift, n_rounds=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_every_shift_gives_one_alpha_in_the_unit_interval_per_round(shift, n_rounds, seed):
    alphas = shift.alphas(n_rounds, random_state=seed)
    assert alphas.shape == (n_rounds,)
    assert alphas.dtype == np.float64
    assert np.all((alphas >= 0) & (alphas <= 1))


@given(shift=any_shift, n_rounds=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_alphas(shift, n_rounds, seed):
    np.testing.assert_array_equal(shift.alphas(n_rounds, seed), shift.alphas(n_rounds, seed))


@given(n_rounds=st.integers(1, 300))
def test_linear_directions_mirror_each_other(n_rounds):
    forward, backward = LinearShift().alphas(n_rounds), LinearShift(reverse=True).alphas(n_rounds)
    np.testing.assert_allclose(forward + backward, 1)
    assert forward[-1] == 1
    assert backward[-1] == 0


@given(period=st.integers(1, 30), n_rounds=st.integers(1, 200))
def test_square_repeats_itself_after_two_periods_and_sine_after_one(period, n_rounds):
    square, sine = SquareShift(period).alphas(n_rounds), SineShift(period).alphas(n_rounds)
    np.testing.assert_array_equal(square[2 * period :], square[: len(square[2 * period :])])
    np.testing.assert_array_equal(sine[period:], sine[: len(sine[period:])])


@pytest.mark.parametrize(
    ("shift", "expected"),
    [
        (LinearShift(), [0.2, 0.4, 0.6, 0.8, 1.0]),
        (LinearShift(reverse=True), [0.8, 0.6, 0.4, 0.2, 0.0]),
        (SquareShift(), [1, 1, 0, 0, 1]),  # round(sqrt(5)) = 2
        (SquareShift(period=3), [1, 1, 1, 0, 0]),
        (SineShift(), [1, 0, 1, 0, 1]),
        (SineShift(period=3), [math.sqrt(0.75), math.sqrt(0.75), 0, math.sqrt(0.75), math.sqrt(0.75)]),
        (SineShift(period=1), [0, 0, 0, 0, 0]),
        (BernoulliShift(flip=0), [1, 1, 1, 1, 1]),
        (BernoulliShift(flip=1), [1, 0, 1, 0, 1]),
        (ConstantShift(0.3), [0.3, 0.3, 0.3, 0.3, 0.3]),
    ],
    ids=repr,
)
def test_values_by_hand(shift, expected):
    np.testing.assert_allclose(shift.alphas(5), expected, atol=1e-15)


def test_default_period_is_the_rounded_square_root():
    assert SquareShift().alphas(10_000)[99:101].tolist() == [1, 0]
    assert SquareShift().alphas(1).tolist() == [1]
    assert SineShift().alphas(10_000)[49] == 1
    assert SineShift().alphas(10_000)[99] == 0


def test_bernoulli_stretches_last_about_the_square_root():
    n_flips = [np.abs(np.diff(BernoulliShift().alphas(10_000, seed))).sum() for seed in range(50)]
    # 9,999 chances of 1/100 in each of 50 runs: 100 flips on average, standard error 1.4
    assert np.mean(n_flips) == pytest.approx(100, abs=6)


def test_bernoulli_draws_differ_between_seeds_and_accept_all_kinds_of_seed():
    shift = BernoulliShift(flip=0.5)
    alphas = shift.alphas(100, 3)
    assert np.any(alphas != shift.alphas(100, 4))
    np.testing.assert_array_equal(alphas, shift.alphas(100, np.random.default_rng(3)))
    np.testing.assert_array_equal(alphas, shift.alphas(100, np.random.SeedSequence(3)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SquareShift(period=0), "period must be an integer of at least 1, got 0."),
        (lambda: SquareShift(period=2.5), "period must be an integer of at least 1, got 2.5."),
        (lambda: SineShift(period=-1), "period must be an integer of at least 1, got -1."),
        (lambda: SineShift(period=True), "period must be an integer of at least 1, got True."),
        (lambda: BernoulliShift(flip=1.1), "flip must be a number in [0, 1], got 1.1."),
        (lambda: BernoulliShift(flip=math.nan), "flip must be a number in [0, 1], got nan."),
        (lambda: ConstantShift(-0.1), "alpha must be a number in [0, 1], got -0.1."),
        (lambda: ConstantShift("half"), "alpha must be a number in [0, 1], got 'half'."),
        (lambda: LinearShift(reverse="yes"), "reverse must be True or False, got 'yes'."),
        (lambda: LinearShift().alphas(0), "n_rounds must be an integer of at least 1, got 0."),
        (lambda: LinearShift().alphas(10.0), "n_rounds must be an integer of at least 1, got 10.0."),
    ],
)
def test_errors_name_the_parameter(build, message):
    with pytest.raises(ParameterError) as caught:
        build()
    assert str(caught.value) == message


@pytest.mark.parametrize("seed", [-1, "seed", 0.5])
def test_a_bad_seed_is_a_parameter_error(seed):
    with pytest.raises(ParameterError, match="random_state must be"):
        BernoulliShift().alphas(5, random_state=seed)


def test_shifts_are_values():
    assert SquareShift(period=3) == SquareShift(3)
    assert repr(BernoulliShift(flip=0.1)) == "BernoulliShift(flip=0.1)"
    assert repr(LinearShift()) == "LinearShift(reverse=False)"
    with pytest.raises(AttributeError):
        SquareShift(period=3).period = 4
    with pytest.raises(TypeError):
        LinearShift(True)  # keyword only
    with pytest.raises(TypeError):
        Shift()
