"""The Gaussian stream: the exact risk, and the error rates that its data should give."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from accous.exceptions import DataError
from accous.streams import (
    BernoulliShift,
    GaussianStream,
    LinearShift,
    SineShift,
    SquareShift,
)
from tests.streams.gaussian_cases import class_means, geometries, many_rows

N_MONTE_CARLO = 200_000


# --- risk ---------------------------------------------------------------------------------------------------


def test_risk_by_hand():
    stream = GaussianStream(LinearShift(), geometry="published", n_features=1)
    # Positive above 1: D'' is cut in its middle, D' is called negative nearly throughout.
    risk_first, risk_second = stream.component_risks((np.array([2.0]), -2.0))
    assert risk_second == pytest.approx(norm.cdf(-0.2))
    assert risk_first == pytest.approx((norm.cdf(2.2) + norm.cdf(-1.8)) / 2)
    assert stream.risk((np.array([2.0]), -2.0), 0.25) == pytest.approx(0.75 * risk_first + 0.25 * risk_second)
    # The best model of one part of the reconstruction cuts its middle: Phi(-distance / 2)
    stream = GaussianStream(LinearShift())
    means = class_means(stream)
    direction = means[3] - means[2]
    best = (direction, -direction @ means[2:].mean(axis=0))
    assert stream.risk(best, 1.0) == pytest.approx(norm.cdf(-0.2 * np.sqrt(12)))


@pytest.mark.parametrize("intercept", [-1.0, 0.0, 1.0])
def test_a_model_without_slope_is_wrong_on_half(intercept):
    assert GaussianStream(LinearShift()).component_risks((np.zeros(12), intercept)) == (0.5, 0.5)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_risk_does_not_depend_on_the_scale_of_the_scores(factor):
    stream, coef = GaussianStream(LinearShift()), np.linspace(-1, 2, 12)
    expected = stream.component_risks((coef, 0.5))
    assert stream.component_risks((coef * factor, 0.5 * factor)) == pytest.approx(expected)


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


def test_linear_models_of_all_kinds_are_accepted():
    stream = GaussianStream(LinearShift(), n_reference=200)
    X, y = stream.reference()
    for model in (RidgeClassifier(), RidgeClassifier(fit_intercept=False), SVC(kernel="linear")):
        risk_first, risk_second = stream.component_risks(model.fit(X, y))
        assert risk_second < 0.35
        assert 0 < risk_first < 1


def test_risk_of_an_array_of_alphas():
    stream, model = GaussianStream(LinearShift(), n_rounds=5), (np.ones(12), 0.5)
    risks = stream.risk(model, stream.alphas)
    np.testing.assert_allclose(risks, [stream.risk(model, alpha) for alpha in stream.alphas.tolist()])
    assert isinstance(stream.risk(model, 0.5), float)


class SinglePrecision:
    def decision_function(self, X):
        return np.asarray(X, dtype=np.float32) @ np.linspace(-1, 2, 12, dtype=np.float32) + np.float32(0.3)


def test_a_single_precision_decision_function_is_accepted():
    stream = GaussianStream(LinearShift())
    expected = stream.component_risks((np.linspace(-1, 2, 12), 0.3))
    assert stream.component_risks(SinglePrecision()) == pytest.approx(expected, abs=1e-5)


class Scores:
    def __init__(self, function):
        self.decision_function = function


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Scores(lambda X: np.maximum(X.sum(axis=1), 0)), "not affine"),
        (Scores(lambda X: X.sum(axis=1) + 0.01 * X[:, 0] * X[:, 1]), "not affine"),
        (Scores(lambda X: np.full(len(X), np.nan)), "not affine"),
        (Scores(lambda X: X[:, :3]), "one score per row"),
        (object(), "object has no coefficients"),
        ((np.ones(12),), "tuple has no coefficients"),
        ((np.ones(11), 0.0), "12 features, got 11 coefficients and 1 intercepts"),
        ((np.ones((3, 12)), np.ones(3)), "12 features, got 36 coefficients and 3 intercepts"),
        ((np.full(12, np.nan), 0.0), "finite"),
    ],
)
def test_models_without_an_exact_risk_are_refused(model, message):
    with pytest.raises(DataError, match=f"^risk needs a linear model: .*{message}"):
        GaussianStream(LinearShift()).risk(model, 0.5)


def test_a_kernel_machine_is_refused():
    stream = GaussianStream(LinearShift(), n_reference=100)
    with pytest.raises(DataError, match="risk needs a linear model: the decision function is not affine"):
        stream.risk(SVC(kernel="rbf").fit(*stream.reference()), 0.5)


# --- the paper's numbers ------------------------------------------------------------------------------------


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


# Means over 200 (fixed) and 60 (oracle) references; one reference moves them by 0.6, so ten by 0.2.
def test_fixed_model_on_the_reconstruction(error_rates):
    np.testing.assert_allclose(error_rates[0], [32.5, 32.5, 30.5, 32.4], atol=0.7)


def test_oracle_on_the_reconstruction(error_rates):
    np.testing.assert_allclose(error_rates[1], [29.0, 26.6, 28.1, 26.6], atol=0.7)
