"""Shifts, and streams from two pools or from a table in the order of time."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.exceptions import DataError, ParameterError
from accous.streams import BernoulliShift, ConstantShift, LinearShift, MixtureStream, Shift, SineShift, SquareShift
from accous_bench.streams import OrderedStream

# --- shifts ------------------------------------------------------------------------------------------------------

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
    np.testing.assert_array_equal(shift.alphas(n_rounds, seed), alphas)


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
    ("build", "name"),
    [
        *((lambda value=value: SquareShift(period=value), "period") for value in (0, 2.5)),
        *((lambda value=value: SineShift(period=value), "period") for value in (-1, True)),
        *((lambda value=value: BernoulliShift(flip=value), "flip") for value in (1.1, math.nan)),
        *((lambda value=value: ConstantShift(value), "alpha") for value in (-0.1, "half")),
        (lambda: LinearShift(reverse="yes"), "reverse"),
        *((lambda value=value: LinearShift().alphas(value), "n_rounds") for value in (0, 10.0)),
        *((lambda value=value: BernoulliShift().alphas(5, value), "random_state") for value in (-1, "seed", 0.5)),
    ],
)
def test_bad_shifts_are_named(build, name):
    with pytest.raises(ParameterError, match=name):
        build()


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


# --- streams from two pools -------------------------------------------------------------------------------------

# A row says where it is from: its pool in the first column, its number in the second.
POOL_A = np.column_stack((np.zeros(300), np.arange(300.0))), np.arange(300) % 2
POOL_B = np.column_stack((np.ones(500), np.arange(500.0))), np.arange(500) % 3


def stream(**changes: Any):
    settings = {"n_rounds": 40, "batch_size": 5, "n_reference": 100} | changes
    shift = settings.pop("shift", SquareShift(period=10))
    return MixtureStream(POOL_A, POOL_B, shift, **settings)


def rows_of(batches):
    return np.concatenate([batch.X for batch in batches])


@pytest.mark.parametrize(
    ("settings", "n_rows", "n_second"), [({"alpha_0": 0.7}, 100, 70), ({"n_reference": None, "alpha_0": 0.5}, 300, 150)]
)
def test_reference_has_its_size_and_share_and_leaves_half_of_each_pool_by_default(settings, n_rows, n_second):
    X, y = stream(**settings).reference()
    assert X.shape == (n_rows, 2)
    assert X[:, 0].sum() == n_second
    assert np.array_equal(y, np.where(X[:, 0] == 0, X[:, 1] % 2, X[:, 1] % 3))


def test_no_row_is_in_reference_and_stream():
    mixed = stream(n_rounds=400)
    in_reference = set(map(tuple, mixed.reference()[0]))
    assert len(in_reference) == 100
    assert in_reference.isdisjoint(map(tuple, rows_of(mixed)))


def test_share_of_the_second_pool_follows_alpha_and_labels_stay_with_their_rows():
    mixed = stream(shift=ConstantShift(0.3), n_rounds=2000)
    # The standard deviation of the share is sqrt(.21 / 10000).
    assert rows_of(mixed)[:, 0].mean() == pytest.approx(0.3, abs=0.02)
    for batch in stream():
        assert set(batch.X[:, 0]) == {batch.alpha}  # alpha of Squ is 0 or 1
        assert np.array_equal(batch.y, np.where(batch.X[:, 0] == 0, batch.X[:, 1] % 2, batch.X[:, 1] % 3))


def test_it_can_be_followed_again_with_the_same_bits_and_seeds_differ():
    mixed = stream()
    assert rows_of(mixed).tobytes() == rows_of(mixed).tobytes() == rows_of(stream()).tobytes()
    assert rows_of(mixed).tobytes() != rows_of(stream(random_state=1)).tobytes()
    assert [batch.round for batch in mixed] == list(range(1, 41))
    assert len(mixed) == 40


@pytest.mark.parametrize(("replace", "n_rounds"), [(False, 40), (True, 400)])
def test_rows_come_again_with_replacement_only(replace, n_rounds):
    rows = rows_of(stream(replace=replace, n_rounds=n_rounds))
    assert len(rows) == 5 * n_rounds
    assert (len(set(map(tuple, rows))) == len(rows)) is not replace


def test_true_ratio_is_by_what_the_parts_weight_has_changed():
    mixed = stream(alpha_0=0.8)
    X, _ = mixed.reference()
    ratio = mixed.reference_ratio(alpha=0.2)
    assert ratio == pytest.approx(np.where(X[:, 0] == 1, 0.2 / 0.8, 0.8 / 0.2))
    assert ratio.mean() == pytest.approx(1.0)


class SaysOne:
    def predict(self, X):
        return np.ones(len(X))


def test_risk_is_the_error_on_all_rows_left_weighted_by_alpha():
    mixed = stream()
    in_reference = set(map(tuple, mixed.reference()[0]))
    errors = [
        np.mean([label != 1 for row, label in zip(*pool, strict=True) if tuple(row) not in in_reference])
        for pool in (POOL_A, POOL_B)
    ]
    assert mixed.component_risks(SaysOne()) == pytest.approx(tuple(errors))
    assert mixed.risk(SaysOne(), 0.25) == pytest.approx(0.75 * errors[0] + 0.25 * errors[1])


def test_images_and_text_labels_pass_through():
    pool = np.zeros((20, 4, 4), dtype=np.uint8), np.array(["cat", "dog"] * 10)
    mixed = MixtureStream(pool, pool, LinearShift(), n_rounds=3, batch_size=2, n_reference=10)
    batch = next(iter(mixed))
    assert batch.X.shape == (2, 4, 4)
    assert batch.X.dtype == np.uint8
    assert set(batch.y) <= {"cat", "dog"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("shift", "Lin"), ("n_rounds", 0), ("batch_size", -1), ("alpha_0", 1.5), ("n_reference", 1), ("random_state", -1)],
)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ParameterError, match=name):
        stream(**{name: value})


def test_pools_that_are_too_small_or_do_not_fit_are_named():
    for changes in ({"n_reference": 600, "alpha_0": 0.5, "n_rounds": 10}, {"replace": False, "n_rounds": 400}):
        with pytest.raises(DataError, match=r"pool_\w has \d+ rows"):
            stream(**changes)
    for pool in (POOL_A[0], (POOL_A[0], POOL_A[1][:-1]), (np.zeros(3), np.zeros(3)), None):
        with pytest.raises(DataError, match="pool_a"):
            MixtureStream(pool, POOL_B, LinearShift(), n_rounds=2, batch_size=1)
    with pytest.raises(DataError, match="columns"):
        MixtureStream((np.zeros((9, 3)), np.zeros(9)), POOL_B, LinearShift(), n_rounds=2, batch_size=1)


def test_fresh_batches_are_other_draws_for_the_same_rounds():
    whole = stream(n_rounds=60, replace=False, batch_size=3)
    fresh = list(whole.fresh_batches())
    assert [(batch.round, batch.alpha) for batch in fresh] == [(batch.round, batch.alpha) for batch in whole]
    for batch in fresh:
        assert set(batch.X[:, 0]) <= ({1.0} if batch.alpha == 1 else {0.0})
    reference = {tuple(row) for row in whole.reference()[0]}
    assert not reference & {tuple(row) for batch in fresh for row in batch.X}
    assert not np.array_equal(rows_of(fresh), rows_of(whole))
    assert np.array_equal(rows_of(fresh), rows_of(whole.fresh_batches()))


# --- streams from a table in the order of time ------------------------------------------------------------------

X = np.arange(20.0)[:, None]
Y = np.arange(20) % 2


def starts(stream):
    return [int(batch.X[0, 0]) for batch in stream]


def test_so_many_rows_a_round():
    stream = OrderedStream(X, Y, n_reference=7, batch_size=5)
    assert stream.reference()[0].ravel().tolist() == list(range(7))
    assert starts(stream) == [7, 12, 17]
    assert [len(batch.y) for batch in stream] == [5, 5, 3]
    assert [batch.round for batch in stream] == [1, 2, 3]
    assert all(np.isnan(batch.alpha) for batch in stream)


@given(n_reference=st.integers(2, 19), batch_size=st.integers(1, 30))
def test_every_row_comes_once_and_in_order(n_reference, batch_size):
    stream = OrderedStream(X, Y, n_reference=n_reference, batch_size=batch_size)
    pieces = [stream.reference()[0], *(batch.X for batch in stream)]
    assert np.array_equal(np.concatenate(pieces), X)
    assert len(stream) == len(pieces) - 1
    assert all(len(piece) <= batch_size for piece in pieces[1:])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_reference": 1, "batch_size": 1}, ParameterError, "n_reference"),
        ({"n_reference": 5, "batch_size": 0}, ParameterError, "batch_size"),
        ({"n_reference": 20, "batch_size": 1}, DataError, "no stream"),
        ({"y": Y[:5], "n_reference": 5, "batch_size": 1}, DataError, "label"),
    ],
)
def test_bad_input_is_named(settings, error, message):
    with pytest.raises(error, match=message):
        OrderedStream(**{"X": X, "y": Y} | settings)
    assert repr(OrderedStream(X, Y, n_reference=7, batch_size=5)).startswith("OrderedStream(20 rows, n_reference=7")
