"""Gaussian streams of classes, of numbers and with a mean that moves: draws, true ratios and exact risks."""

from __future__ import annotations

import pickle
from functools import cache
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, norm
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from accous.exceptions import DataError, ParameterError
from accous.streams import (
    BernoulliShift,
    ConstantShift,
    GaussianRegressionStream,
    GaussianStream,
    LinearShift,
    Shift,
    SineShift,
    SquareShift,
)
from accous_bench.streams import MovingGaussianStream
from tests.budgets import rest_slow
from tests.oracles import gaussian_mixture_ratio

N_AVERAGED = 50_000
N_MONTE_CARLO = 200_000
geometries = pytest.mark.parametrize("geometry", ["published", "reconstructed"])
KINDS = [GaussianStream, GaussianRegressionStream, MovingGaussianStream]
each_stream = pytest.mark.parametrize("kind", KINDS)


@cache
def many_rows(alpha, n_rows, kind=GaussianStream, **parameters):
    return kind(ConstantShift(0.5), n_rounds=1, alpha_0=alpha, n_reference=n_rows, **parameters).reference()


# --- geometry and draws -----------------------------------------------------------------------------------------


def test_published_means_are_those_of_the_paper():
    means = GaussianStream(LinearShift(), geometry="published").means
    expected = np.outer([-0.8, -1.2, 0.8, 1.2], np.ones(12))
    np.testing.assert_allclose(means, expected, rtol=1e-14)


@pytest.mark.parametrize("n_features", [2, 3, 4, 5, 12, 64])
@pytest.mark.parametrize("angle", [0.0, 40.0, 75.0, 90.0, 180.0])
def test_reconstructed_centres_separation_and_angle(n_features, angle):
    means = GaussianStream(LinearShift(), n_features=n_features, angle=angle).means
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


@geometries
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_rows_follow_the_mixture(geometry, alpha):
    X, y = many_rows(alpha, N_AVERAGED, geometry=geometry, n_features=4)
    means = GaussianStream(LinearShift(), geometry=geometry, n_features=4).means
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


@pytest.mark.parametrize(("kind", "seed"), [*((kind, 0) for kind in KINDS), *((kind, None) for kind in KINDS[:2])])
@pytest.mark.parametrize("batch_size", [1, 100])
def test_iterating_again_gives_the_same_bits(kind, batch_size, seed):
    settings = {"n_rounds": 30, "batch_size": batch_size, "random_state": seed}
    stream = kind(BernoulliShift(), **settings)
    assert_same_batches(stream, stream)  # two iterators side by side
    first_pass = list(stream)
    for batch in islice(stream, 3):  # a third one, left half-way
        batch.X[:] = 0
    assert_same_batches(first_pass, stream)
    assert_same_batches(first_pass, pickle.loads(pickle.dumps(stream)))
    assert stream.reference()[0].tobytes() == stream.reference()[0].tobytes()
    other = kind(BernoulliShift(), **settings | {"random_state": None if seed is None else 1})
    assert np.any(stream.reference()[0] != other.reference()[0])


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


def test_fresh_batches_are_independent_rows_of_the_same_rounds():
    stream = GaussianStream(SquareShift(period=10), n_rounds=40, batch_size=50, n_features=3)
    batches, fresh = list(stream), list(stream.fresh_batches())
    assert [(batch.round, batch.alpha) for batch in fresh] == [(batch.round, batch.alpha) for batch in batches]
    assert not np.isin(fresh[0].X, batches[0].X).any()
    for one, other in zip(batches, fresh, strict=True):
        np.testing.assert_allclose(one.X.mean(axis=0), other.X.mean(axis=0), atol=1.0)
    assert np.array_equal(fresh[-1].X, list(stream.fresh_batches())[-1].X)


@each_stream
def test_reference_and_batches_are_drawn_independently(kind):
    stream = kind(ConstantShift(0.9), n_rounds=1, batch_size=1000, n_reference=1000)
    X, batch = stream.reference()[0], next(iter(stream))
    assert abs(np.corrcoef((X - X.mean(axis=0)).ravel(), batch.X.ravel())[0, 1]) < 0.05


# --- true ratio -------------------------------------------------------------------------------------------------


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
    np.testing.assert_array_equal(stream.reference_ratio(0.3), stream.true_ratio(X, 0.3))
    X[:20] *= 0.1  # between the parts
    for alpha in (0.0, 0.25, 1.0):
        weights = [np.array([1 - each, 1 - each, each, each]) / 2 for each in (alpha, 0.7)]
        expected = gaussian_mixture_ratio(X, stream.means, *weights)
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


@pytest.mark.parametrize(
    ("alpha_0", "expected"), [(0.9, [8, 8, 0.2 / 0.9, 0.2 / 0.9]), (0.0, [0.8, 0.8, np.inf, np.inf])]
)
def test_ratio_far_out_is_that_of_the_nearer_part(alpha_0, expected):
    far = np.outer([-1e308, -50.0, 50.0, 1e308], np.ones(12))
    np.testing.assert_allclose(GaussianStream(LinearShift(), alpha_0=alpha_0).true_ratio(far, 0.2), expected)
    assert GaussianStream(LinearShift()).true_ratio(far[:0], 0.5).shape == (0,)


# --- exact risk -------------------------------------------------------------------------------------------------


def test_risk_by_hand():
    stream = GaussianStream(LinearShift(), geometry="published", n_features=1)
    # Positive above 1: D'' is cut in its middle, D' is called negative nearly throughout.
    risk_first, risk_second = stream.component_risks((np.array([2.0]), -2.0))
    assert risk_second == pytest.approx(norm.cdf(-0.2))
    assert risk_first == pytest.approx((norm.cdf(2.2) + norm.cdf(-1.8)) / 2)
    assert stream.risk((np.array([2.0]), -2.0), 0.25) == pytest.approx(0.75 * risk_first + 0.25 * risk_second)
    # The best model of one part of the reconstruction cuts its middle: Phi(-distance / 2)
    stream = GaussianStream(LinearShift())
    means = stream.means
    direction = means[3] - means[2]
    best = (direction, -direction @ means[2:].mean(axis=0))
    assert stream.risk(best, 1.0) == pytest.approx(norm.cdf(-0.2 * np.sqrt(12)))


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_risk_depends_neither_on_the_scale_nor_on_the_precision_of_the_scores(factor):
    stream, coef = GaussianStream(LinearShift()), np.linspace(-1, 2, 12)
    expected = stream.component_risks((coef, 0.3))
    assert stream.component_risks((coef * factor, 0.3 * factor)) == pytest.approx(expected)
    single = Scores(lambda X: np.asarray(X, dtype=np.float32) @ coef.astype(np.float32) + np.float32(0.3))
    assert stream.component_risks(single) == pytest.approx(expected, abs=1e-5)
    assert stream.component_risks((np.zeros(12), 1.0)) == (0.5, 0.5)


@geometries
@pytest.mark.parametrize("kind", ["tuple", "logistic", "pipeline"])
def test_risk_agrees_with_monte_carlo(geometry, kind):
    stream = GaussianStream(LinearShift(), geometry=geometry)
    X, y = stream.reference()
    if kind == "tuple":
        model = (np.linspace(-0.5, 1, 12), 0.3)
    else:
        steps = [StandardScaler()] if kind == "pipeline" else []
        model = make_pipeline(*steps, LogisticRegression()).fit(X, y)
        model = model if steps else model[-1]
    for alpha in (0.0, 0.35, 1.0):
        X_new, y_new = many_rows(alpha, N_MONTE_CARLO, geometry=geometry, random_state=7)
        y_hat = X_new @ model[0] + model[1] > 0 if kind == "tuple" else model.predict(X_new)
        error, risk = np.mean(y_hat != y_new), stream.risk(model, alpha)
        assert error == pytest.approx(risk, abs=4 * np.sqrt(risk * (1 - risk) / N_MONTE_CARLO))


def test_a_pipeline_and_its_unrolled_coefficients_have_the_same_risk():
    stream = GaussianStream(LinearShift())
    X, y = stream.reference()
    for scale in (1.0, 1e-3, 1e3):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=scale)).fit(X, y)
        coef = pipeline[-1].coef_[0] / pipeline[0].scale_
        intercept = pipeline[-1].intercept_ - coef @ pipeline[0].mean_
        expected = stream.component_risks((coef, intercept))
        assert stream.component_risks(pipeline) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", [GaussianStream, GaussianRegressionStream])
def test_risk_of_an_array_of_alphas(kind):
    stream, model = kind(LinearShift(), n_rounds=5), (np.ones(12), 0.5)
    risks = stream.risk(model, stream.alphas)
    np.testing.assert_allclose(risks, [stream.risk(model, alpha) for alpha in stream.alphas.tolist()])
    assert isinstance(stream.risk(model, 0.5), float)


class Scores:
    def __init__(self, function):
        self.decision_function = function


@pytest.mark.parametrize(
    "model", [RidgeClassifier(), RidgeClassifier(fit_intercept=False), SVC(kernel="linear")], ids=repr
)
def test_linear_models_of_all_kinds_have_an_exact_risk_and_others_are_refused(model):
    stream = GaussianStream(LinearShift(), n_reference=200)
    risk_first, risk_second = stream.component_risks(model.fit(*stream.reference()))
    assert risk_second < 0.35
    assert 0 < risk_first < 1
    for other in (
        *(Scores(lambda X: np.maximum(X.sum(axis=1), 0)), Scores(lambda X: np.full(len(X), np.nan))),
        *(Scores(lambda X: X.sum(axis=1) + 0.01 * X[:, 0] * X[:, 1]), Scores(lambda X: X[:, :3]), object()),
        *((np.ones(12),), (np.ones(11), 0.0), (np.ones((3, 12)), np.ones(3)), (np.full(12, np.nan), 0.0)),
        SVC(kernel="rbf").fit(*stream.reference()),
    ):
        with pytest.raises(DataError, match="linear model"):
            stream.risk(other, 0.5)


# --- the paper's numbers ----------------------------------------------------------------------------------------


def test_no_fixed_linear_model_beats_37_percent_on_the_published_data():
    stream = GaussianStream(LinearShift(), geometry="published")
    ones = np.ones(12) / np.sqrt(12)

    def risk_of_threshold(threshold):
        return float(stream.risk((ones, -threshold), stream.alphas).mean())

    best = min(minimize_scalar(risk_of_threshold, bracket=(c - 0.5, c + 0.5)).fun for c in (-4.0, 0.0, 4.0))
    assert best == pytest.approx(0.372, abs=5e-4)
    generator = np.random.default_rng(0)
    for _ in range(200):
        coef = generator.normal(size=12) + generator.normal() * 3
        assert stream.risk((coef, 5 * generator.normal()), stream.alphas).mean() > best


@pytest.fixture(scope="module")
@threadpool_limits.wrap(limits=1)  # threads only slow down fits this small
def error_rates():
    """Percent, fixed and oracle, for Lin, Squ, Sin, Ber: means over ten references."""
    shifts = [LinearShift(), SquareShift(), SineShift(), BernoulliShift()]
    grid = np.linspace(0, 1, 11)
    fixed, oracle = [], []
    for seed in range(10):
        streams = [GaussianStream(shift, random_state=seed) for shift in shifts]
        X, y = streams[0].reference()
        model = LogisticRegression(C=1.0).fit(X, y)
        fixed.append([stream.risk(model, stream.alphas).mean() for stream in streams])
        risks = []
        for alpha in grid.tolist():
            weight = streams[0].true_ratio(X, alpha)
            model = LogisticRegression(C=1.0).fit(X, y, sample_weight=weight / weight.mean())
            risks.append(streams[0].risk(model, alpha))
        oracle.append([np.interp(stream.alphas, grid, risks).mean() for stream in streams])
    return 100 * np.mean(fixed, axis=0), 100 * np.mean(oracle, axis=0)


def test_error_rates_on_the_reconstruction(error_rates):
    """Means over 200 (fixed) and 60 (oracle) references; one reference moves them by 0.6, so ten by 0.2."""
    fixed, oracle = error_rates
    np.testing.assert_allclose(fixed, [32.5, 32.5, 30.5, 32.4], atol=0.7)
    np.testing.assert_allclose(oracle, [29.0, 26.6, 28.1, 26.6], atol=0.7)


# --- numbers ----------------------------------------------------------------------------------------------------


def test_the_rows_and_ratios_are_those_of_the_stream_of_classes():
    stream, other = (
        kind(SquareShift(period=4), n_rounds=6, batch_size=3, n_features=5, random_state=2)
        for kind in (GaussianRegressionStream, GaussianStream)
    )
    np.testing.assert_array_equal(stream.reference()[0], other.reference()[0])
    np.testing.assert_array_equal(stream.alphas, other.alphas)
    np.testing.assert_array_equal(stream.reference_ratio(0.3), other.reference_ratio(0.3))
    X = stream.reference()[0][:4]
    np.testing.assert_array_equal(stream.true_ratio(X, 0.3), other.true_ratio(X, 0.3))
    for batch, wanted in zip(stream, other, strict=True):
        np.testing.assert_array_equal(batch.X, wanted.X)
        assert (batch.alpha, batch.round) == (wanted.alpha, wanted.round)
    assert len(stream) == 6


def test_the_target_is_the_documented_function_of_the_row_and_noise():
    stream = GaussianRegressionStream(LinearShift(), bend=0.3, noise=0.2, n_features=4, n_reference=50_000)
    X, y = stream.reference()
    u, across = X.mean(axis=1), X @ np.array([1.0, 0.0, -1.0, 0.0]) / np.sqrt(2.0)
    wanted = u + (1.0 - 0.3 * (1.0 - u)) * across
    np.testing.assert_allclose(stream.mean_target(X), wanted, atol=1e-12)
    assert (y - wanted).std() == pytest.approx(0.2, rel=0.02)
    assert (y - wanted).mean() == pytest.approx(0.0, abs=0.004)
    assert abs(np.corrcoef(y - wanted, u)[0, 1]) < 0.02


def test_noise_of_reference_and_batches_is_not_the_same():
    stream = GaussianRegressionStream(ConstantShift(0.9), n_reference=500, n_rounds=1, batch_size=500)
    X, y = stream.reference()
    batch = next(iter(stream))
    noises = y - stream.mean_target(X), batch.y - stream.mean_target(batch.X)
    assert abs(np.corrcoef(*noises)[0, 1]) < 0.15


def test_the_target_itself_has_the_risk_of_the_noise_if_it_is_linear():
    stream = GaussianRegressionStream(LinearShift(), bend=0.0, noise=0.5, n_features=4)
    slopes = np.full(4, 0.25) + np.array([1.0, 0.0, -1.0, 0.0]) / np.sqrt(2.0)
    assert stream.component_risks((slopes, 0.0)) == pytest.approx((0.25, 0.25), abs=1e-12)
    assert stream.component_risks((slopes, 3.0)) == pytest.approx((9.25, 9.25), abs=1e-12)


@pytest.mark.parametrize("bend", rest_slow([0.5, 0.0, 1.0]))
@pytest.mark.parametrize("kind", ["tuple", "ridge", "pipeline"])
def test_the_exact_risk_agrees_with_monte_carlo(kind, bend):
    stream = GaussianRegressionStream(LinearShift(), bend=bend)
    X, y = stream.reference()
    models = {
        "tuple": (np.linspace(-0.5, 1, 12), 0.3),
        "ridge": Ridge().fit(X, y),
        "pipeline": make_pipeline(StandardScaler(), Ridge(10.0)).fit(X, y),
    }
    model = models[kind]
    for alpha in (0.0, 0.35, 1.0):
        X_new, y_new = many_rows(alpha, N_MONTE_CARLO, GaussianRegressionStream, random_state=7, bend=bend)
        predicted = X_new @ model[0] + model[1] if kind == "tuple" else model.predict(X_new)
        squares = (predicted - y_new) ** 2
        assert stream.risk(model, alpha) == pytest.approx(squares.mean(), abs=4 * squares.std() / N_MONTE_CARLO**0.5)


@pytest.mark.parametrize("kind", [DecisionTreeRegressor(max_depth=4), PoissonRegressor(alpha=1.0)], ids=repr)
def test_the_risk_of_other_models_is_measured_on_a_large_sample(kind):
    """A Poisson regression has coefficients, but what it predicts is not linear."""
    stream = GaussianRegressionStream(LinearShift())
    X, y = stream.reference()
    model = kind.fit(X, np.exp(0.3 * y))
    for alpha in (0.0, 1.0):
        X_new, y_new = many_rows(alpha, N_MONTE_CARLO, GaussianRegressionStream, random_state=7)
        squares = (model.predict(X_new) - y_new) ** 2
        risk = stream.risk(model, alpha)
        assert risk == pytest.approx(squares.mean(), abs=5 * squares.std() / 20_000**0.5)
        assert risk == stream.risk(model, alpha)


def errors_in_first_part(bend):
    """Squared error in D' of a regression on the reference, and of one with the true ratio; mean of five seeds."""
    fixed, weighted = [], []
    for seed in range(5):
        stream = GaussianRegressionStream(LinearShift(), bend=bend, random_state=seed)
        X, y = stream.reference()
        weights = stream.reference_ratio(0.0)
        fixed.append(stream.risk(Ridge().fit(X, y), 0.0))
        weighted.append(stream.risk(Ridge().fit(X, y, sample_weight=weights / weights.mean()), 0.0))
    return float(np.mean(fixed)), float(np.mean(weighted))


def test_the_true_ratio_gains_as_documented_and_nothing_where_the_target_is_linear():
    assert errors_in_first_part(0.5) == pytest.approx((2.1, 1.2), abs=0.05)
    fixed, weighted = errors_in_first_part(0.0)
    assert 1.0 < fixed < weighted < 1.3


# --- a mean that moves ------------------------------------------------------------------------------------------


def test_the_ratio_is_that_of_the_two_densities():
    stream = MovingGaussianStream(LinearShift(), n_features=3, distance=1.5, n_rounds=4)
    X = np.random.default_rng(0).normal(size=(20, 3))
    mean = np.full(3, 0.6 * 1.5 / np.sqrt(3))
    expected = multivariate_normal(mean).pdf(X) / multivariate_normal(np.zeros(3)).pdf(X)
    assert stream.true_ratio(X, alpha=0.6) == pytest.approx(expected, rel=1e-10)


def test_rows_have_the_mean_of_their_round():
    stream = MovingGaussianStream(SquareShift(period=2), distance=3.0, n_features=2, n_rounds=4, batch_size=20_000)
    means = [batch.X.mean(axis=0) for batch in stream]
    expected = np.outer([1, 1, 0, 0], np.full(2, 3.0 / np.sqrt(2)))
    assert np.array(means) == pytest.approx(expected, abs=0.05)


def test_labels_follow_the_same_rule_in_all_rounds():
    stream = MovingGaussianStream(LinearShift(), distance=2.0, n_rounds=2, batch_size=50_000, n_reference=50_000)
    parts = [stream.reference(), *((batch.X, batch.y) for batch in stream)]
    shares = [y[np.abs(X[:, 0] - 0.5) < 0.1].mean() for X, y in parts]
    assert np.ptp(shares) < 0.05


# --- what is refused --------------------------------------------------------------------------------------------


class OutOfRange(Shift):
    def _alphas(self, rounds, generator):
        return 2.0 * rounds


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (GaussianStream, "geometry", ["paper"]),
        (GaussianStream, "angle", [181, np.nan]),
        (GaussianRegressionStream, "bend", [1.5]),
        (GaussianRegressionStream, "noise", [-1.0]),
        (MovingGaussianStream, "distance", [0]),
        *((kind, "n_features", [0]) for kind in KINDS),
        *((kind, "n_features", [1]) for kind in KINDS[:2]),
        *((kind, "alpha_0", [1.5]) for kind in KINDS[:2]),
        *((kind, "shift", ["Lin", OutOfRange()]) for kind in KINDS),
        *((kind, "random_state", [-1]) for kind in KINDS),
        *((GaussianStream, name, [0, 1e3]) for name in ("n_reference", "n_rounds", "batch_size")),
    ],
)
def test_a_wrong_parameter_is_named(kind, name, values):
    for value in values:
        with pytest.raises(ParameterError, match=name):
            kind(**{"shift": LinearShift(), name: value})


@each_stream
def test_rows_and_alphas_that_cannot_be_used_are_refused(kind):
    stream = kind(LinearShift(), n_features=4)
    for X in (np.zeros(4), np.zeros((3, 2)), np.full((1, 4), np.nan), np.full((1, 4), np.inf)):
        with pytest.raises(DataError, match=r"shape|finite"):
            stream.true_ratio(X, 0.5)
    for alpha in (-0.1, 1.1, np.nan):
        with pytest.raises(ParameterError, match="alpha"):
            stream.true_ratio(np.zeros((1, 4)), alpha)
        if kind is not MovingGaussianStream:
            with pytest.raises(ParameterError, match="alpha"):
                stream.risk((np.ones(4), 0.0), alpha)


def test_a_stream_has_a_readable_repr_cannot_be_changed_and_takes_numpy_numbers():
    stream = GaussianStream(SquareShift(period=4), n_rounds=10, batch_size=2)
    assert repr(stream).startswith("GaussianStream(shift=SquareShift(period=4), n_features=12, n_reference=1000")
    with pytest.raises(AttributeError):
        stream.n_rounds = 20
    with pytest.raises(ValueError, match="read-only"):
        stream.alphas[0] = 0.5
    settings = {"n_rounds": np.int64(10), "batch_size": np.int32(2), "random_state": np.int64(0)}
    assert_same_batches(stream, GaussianStream(SquareShift(period=4), **settings))
