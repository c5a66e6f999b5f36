"""The Gaussian stream: geometry, draws, true ratio and construction."""

import pickle
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import multivariate_normal

from accous.exceptions import DataError, ParameterError
from accous.streams import (
    BernoulliShift,
    ConstantShift,
    GaussianStream,
    LinearShift,
    Shift,
    SquareShift,
)
from tests.budgets import rest_slow
from tests.streams.gaussian_cases import class_means, geometries, many_rows

N_AVERAGED = 50_000


# --- geometry -----------------------------------------------------------------------------------------------


def test_published_means_are_those_of_the_paper():
    means = class_means(GaussianStream(LinearShift(), geometry="published"))
    expected = np.outer([-0.8, -1.2, 0.8, 1.2], np.ones(12))
    np.testing.assert_allclose(means, expected, rtol=1e-14)


@pytest.mark.parametrize("n_features", [2, 3, 4, 5, 12, 64])
@pytest.mark.parametrize("angle", [0.0, 40.0, 75.0, 90.0, 180.0])
def test_reconstructed_centres_separation_and_angle(n_features, angle):
    means = class_means(GaussianStream(LinearShift(), n_features=n_features, angle=angle))
    np.testing.assert_allclose(means[:2].mean(axis=0), -1, atol=1e-14)
    np.testing.assert_allclose(means[2:].mean(axis=0), 1, atol=1e-14)
    directions = np.stack([means[1] - means[0], means[3] - means[2]])
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 0.4 * np.sqrt(n_features))
    cosine = directions[0] @ directions[1] / (0.16 * n_features)
    assert cosine == pytest.approx(np.cos(np.deg2rad(angle)), abs=1e-12)
    along = directions.sum(axis=1) / np.sqrt(n_features)
    if n_features == 2:  # no room for both: they lean to either side of the one orthogonal direction
        lean = np.sin(np.deg2rad([-angle / 2, angle / 2]))
        np.testing.assert_allclose(along, 0.4 * np.sqrt(2) * lean, atol=1e-12)
    else:
        np.testing.assert_allclose(along, 0, atol=1e-12)


def test_reconstructed_directions_use_every_coordinate():
    means = class_means(GaussianStream(LinearShift()))
    assert np.abs(means[1] - means[0]).min() > 0.05
    assert np.abs(means[3] - means[2]).min() > 0.05


# --- draws --------------------------------------------------------------------------------------------------


@geometries
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_rows_follow_the_mixture(geometry, alpha):
    X, y = many_rows(alpha, N_AVERAGED, geometry=geometry, n_features=4)
    means = class_means(GaussianStream(LinearShift(), geometry=geometry, n_features=4))
    assert y.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(len(y)))
    for label in (0, 1):
        rows = X[y == label]
        expected = (1 - alpha) * means[label] + alpha * means[2 + label]
        gap = means[2 + label] - means[label]
        spread = np.sqrt(1 + alpha * (1 - alpha) * gap**2)
        np.testing.assert_array_less(np.abs(rows.mean(axis=0) - expected), 5 * spread / np.sqrt(len(rows)))
        covariance = np.eye(4) + alpha * (1 - alpha) * np.outer(gap, gap)
        np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.1)


def test_batches_carry_rows_labels_alpha_and_round():
    stream = GaussianStream(LinearShift(), n_rounds=300, batch_size=3, n_features=5)
    batches = list(stream)
    assert len(stream) == len(batches) == 300
    assert [batch.round for batch in batches] == list(range(1, 301))
    np.testing.assert_array_equal([batch.alpha for batch in batches], stream.alphas)
    np.testing.assert_array_equal(stream.alphas, LinearShift().alphas(300))
    assert {batch.X.shape for batch in batches} == {(3, 5)}
    assert {batch.y.shape for batch in batches} == {(3,)}
    assert set(np.concatenate([batch.y for batch in batches])) == {0, 1}
    with pytest.raises(AttributeError):
        batches[0].alpha = 0.5


def test_batches_come_from_the_part_alpha_says():
    for batch in GaussianStream(SquareShift(period=5), n_rounds=40, batch_size=7):
        is_second = batch.X.mean(axis=1) > 0  # the centres are 7 standard deviations apart
        assert np.all(is_second == (batch.alpha == 1))


def assert_same_batches(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a.X, b.X)
        np.testing.assert_array_equal(a.y, b.y)
        assert (a.alpha, a.round) == (b.alpha, b.round)


@pytest.mark.parametrize("batch_size", [1, 100, 300])
@pytest.mark.parametrize("seed", [0, None])
def test_iterating_again_gives_the_same_bits(batch_size, seed):
    stream = GaussianStream(BernoulliShift(), n_rounds=30, batch_size=batch_size, random_state=seed)
    assert_same_batches(stream, stream)  # two iterators side by side
    first_pass = list(stream)
    list(islice(stream, 3))  # a third one, left half-way
    assert_same_batches(first_pass, stream)
    assert_same_batches(first_pass, pickle.loads(pickle.dumps(stream)))


def test_changing_a_batch_in_place_does_not_change_the_next_pass():
    stream = GaussianStream(LinearShift(), n_rounds=5)
    first_pass = [batch.X.copy() for batch in stream]
    for batch in stream:
        batch.X[:] = 0
    np.testing.assert_array_equal(first_pass, [batch.X for batch in stream])


def test_reference_does_not_depend_on_the_rounds():
    X, y = GaussianStream(LinearShift()).reference()
    for other in (
        GaussianStream(LinearShift(), n_rounds=17),
        GaussianStream(LinearShift(), batch_size=5),
        GaussianStream(BernoulliShift()),
    ):
        list(islice(other, 10))
        np.testing.assert_array_equal(other.reference()[0], X)
        np.testing.assert_array_equal(other.reference()[1], y)
    assert X.shape == (1000, 12)
    assert np.any(GaussianStream(LinearShift(), random_state=1).reference()[0] != X)


def test_early_batches_do_not_depend_on_the_number_of_rounds():
    short = GaussianStream(SquareShift(period=3), n_rounds=10)
    long = GaussianStream(SquareShift(period=3), n_rounds=1000)
    assert_same_batches(short, islice(long, 10))


def test_reference_alphas_and_batches_are_drawn_independently():
    stream = GaussianStream(ConstantShift(0.9), n_rounds=1, batch_size=1000)
    X_reference, _ = stream.reference()
    X_batch = next(iter(stream)).X
    correlation = np.corrcoef((X_reference - X_reference.mean(axis=0)).ravel(), X_batch.ravel())[0, 1]
    assert abs(correlation) < 0.05


def test_without_a_seed_streams_differ():
    left, right = (GaussianStream(LinearShift(), random_state=None) for _ in range(2))
    assert np.any(left.reference()[0] != right.reference()[0])
    np.testing.assert_array_equal(left.reference()[0], left.reference()[0])


# --- true ratio ---------------------------------------------------------------------------------------------


@geometries
@pytest.mark.parametrize("n_features", [2, 12])
def test_ratio_is_one_on_average_over_the_reference(geometry, n_features):
    stream = GaussianStream(LinearShift(), geometry=geometry, n_features=n_features, n_reference=N_AVERAGED)
    X, _ = stream.reference()
    for alpha in (0.0, 0.4, 0.9, 1.0):
        ratio = stream.true_ratio(X, alpha)
        assert ratio.mean() == pytest.approx(1, abs=4 * ratio.std() / np.sqrt(len(X)) + 1e-12)


@geometries
@pytest.mark.parametrize("n_features", rest_slow([12, 2, 3]))
def test_ratio_agrees_with_densities_row_by_row(geometry, n_features):
    stream = GaussianStream(LinearShift(), geometry=geometry, n_features=n_features, n_reference=100, alpha_0=0.7)
    X, _ = stream.reference()
    X[:20] *= 0.1  # between the parts
    means = class_means(stream)

    def density(x, alpha):
        parts = [0.5 * multivariate_normal.pdf(x, mean) for mean in means]
        return (1 - alpha) * (parts[0] + parts[1]) + alpha * (parts[2] + parts[3])

    for alpha in (0.0, 0.25, 1.0):
        expected = [density(x, alpha) / density(x, 0.7) for x in X]
        np.testing.assert_allclose(stream.true_ratio(X, alpha), expected, rtol=1e-9)


@settings(deadline=None)
@given(
    X=hnp.arrays(float, (4, 3), elements=st.floats(allow_nan=False, allow_infinity=False)),
    alpha=st.floats(0, 1),
    alpha_0=st.floats(0.01, 0.99),
    geometry=st.sampled_from(["published", "reconstructed"]),
)
def test_any_finite_row_has_a_finite_ratio_within_its_bounds(X, alpha, alpha_0, geometry):
    stream = GaussianStream(ConstantShift(0.5), geometry=geometry, n_features=3, n_rounds=1, alpha_0=alpha_0)
    ratio = stream.true_ratio(X, alpha)
    low, high = sorted([(1 - alpha) / (1 - alpha_0), alpha / alpha_0])
    assert np.all((ratio >= low * (1 - 1e-9)) & (ratio <= high * (1 + 1e-9)))


def test_ratio_far_out_is_that_of_the_nearer_part():
    stream = GaussianStream(LinearShift(), alpha_0=0.9)
    far = np.outer([-1e308, -50.0, 50.0, 1e308], np.ones(12))
    np.testing.assert_allclose(stream.true_ratio(far, 0.2), [8, 8, 0.2 / 0.9, 0.2 / 0.9])


@pytest.mark.parametrize("alpha_0", [0.0, 1.0])
def test_ratio_without_one_part_in_the_reference(alpha_0):
    stream = GaussianStream(LinearShift(), alpha_0=alpha_0)
    far = np.outer([-100.0, 100.0], np.ones(12))
    np.testing.assert_array_equal(stream.true_ratio(far, alpha_0), 1)
    other_part = stream.true_ratio(far, 1 - alpha_0)
    assert sorted(other_part) == [0, np.inf]


def test_ratio_of_no_rows_is_empty():
    assert GaussianStream(LinearShift()).true_ratio(np.empty((0, 12)), 0.5).shape == (0,)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(12), r"shape \(n_rows, 12\), got \(12,\)"),
        (np.zeros((3, 2)), r"shape \(n_rows, 12\), got \(3, 2\)"),
        (np.full((1, 12), np.nan), "X must be finite"),
        (np.full((1, 12), np.inf), "X must be finite"),
    ],
)
def test_ratio_refuses_rows_it_cannot_use(X, message):
    with pytest.raises(DataError, match=message):
        GaussianStream(LinearShift()).true_ratio(X, 0.5)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, np.nan])
def test_ratio_and_risk_refuse_an_alpha_outside_the_unit_interval(alpha):
    stream = GaussianStream(LinearShift())
    with pytest.raises(ParameterError, match="alpha must be"):
        stream.true_ratio(np.zeros((1, 12)), alpha)
    with pytest.raises(ParameterError, match="alpha must be"):
        stream.risk((np.ones(12), 0.0), alpha)


# --- construction -------------------------------------------------------------------------------------------


class OutOfRange(Shift):
    def _alphas(self, rounds, generator):
        return 2.0 * rounds


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"geometry": "paper"}, "geometry must be one of reconstructed, published, got 'paper'."),
        ({"angle": 181}, "angle must be a number in [0, 180], got 181."),
        ({"angle": np.nan}, "angle must be a number in [0, 180], got nan."),
        ({"n_features": 1}, "n_features must be an integer of at least 2, got 1."),
        (
            {"n_features": 0, "geometry": "published"},
            "n_features must be an integer of at least 1, got 0.",
        ),
        ({"n_reference": 0}, "n_reference must be an integer of at least 1, got 0."),
        ({"n_rounds": 0}, "n_rounds must be an integer of at least 1, got 0."),
        ({"n_rounds": 1e3}, "n_rounds must be an integer of at least 1, got 1000.0."),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0."),
        ({"alpha_0": 1.5}, "alpha_0 must be a number in [0, 1], got 1.5."),
        ({"random_state": -1}, "random_state must be an integer of at least 0, got -1."),
        ({"shift": "Lin"}, "shift must be a Shift such as LinearShift(), got 'Lin'."),
        ({"shift": OutOfRange()}, "shift must give one alpha in [0, 1] for each of the n_rounds rounds."),
    ],
)
def test_errors_name_the_parameter(parameters, message):
    with pytest.raises(ParameterError) as caught:
        GaussianStream(**{"shift": LinearShift(), **parameters})
    assert str(caught.value) == message


def test_a_stream_has_a_readable_repr_and_cannot_be_changed():
    stream = GaussianStream(SquareShift(period=4), n_rounds=10)
    assert repr(stream) == (
        "GaussianStream(shift=SquareShift(period=4), geometry='reconstructed', angle=75.0, n_features=12, "
        "n_reference=1000, n_rounds=10, batch_size=1, alpha_0=0.9, random_state=0)"
    )
    with pytest.raises(AttributeError):
        stream.n_rounds = 20
    with pytest.raises(ValueError, match="read-only"):
        stream.alphas[0] = 0.5


def test_numpy_scalars_are_accepted_as_parameters():
    stream = GaussianStream(LinearShift(), n_rounds=np.int64(3), batch_size=np.int32(2), random_state=np.int64(0))
    assert_same_batches(stream, GaussianStream(LinearShift(), n_rounds=3, batch_size=2))


def test_fresh_batches_are_independent_rows_of_the_same_rounds():
    stream = GaussianStream(SquareShift(period=10), n_rounds=40, batch_size=50, n_features=3)
    batches, fresh = list(stream), list(stream.fresh_batches())
    assert [(batch.round, batch.alpha) for batch in fresh] == [(batch.round, batch.alpha) for batch in batches]
    assert not np.isin(fresh[0].X, batches[0].X).any()
    for one, other in zip(batches, fresh, strict=True):
        np.testing.assert_allclose(one.X.mean(axis=0), other.X.mean(axis=0), atol=1.0)
    assert np.array_equal(fresh[-1].X, list(stream.fresh_batches())[-1].X)
