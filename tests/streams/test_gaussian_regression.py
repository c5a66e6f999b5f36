"""The Gaussian stream of numbers: its rows and targets, the exact risk, and what adaptation can gain on it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from accous.exceptions import DataError, ParameterError
from accous.streams import ConstantShift, GaussianRegressionStream, GaussianStream, LinearShift, SquareShift
from tests.budgets import rest_slow

N_MONTE_CARLO = 200_000


def many_rows(alpha: float, **parameters: float) -> tuple[np.ndarray, np.ndarray]:
    """A large reference with this alpha."""
    stream = GaussianRegressionStream(
        ConstantShift(0.5), n_rounds=1, alpha_0=alpha, n_reference=N_MONTE_CARLO, random_state=7, **parameters
    )
    return stream.reference()


# --- rows and targets -------------------------------------------------------------------------------------------


def test_the_rows_and_ratios_are_those_of_the_stream_of_classes() -> None:
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


def test_the_target_is_the_documented_function_of_the_row_and_noise() -> None:
    stream = GaussianRegressionStream(LinearShift(), bend=0.3, noise=0.2, n_features=4, n_reference=50_000)
    X, y = stream.reference()
    u, across = X.mean(axis=1), X @ np.array([1.0, 0.0, -1.0, 0.0]) / np.sqrt(2.0)
    wanted = u + (1.0 - 0.3 * (1.0 - u)) * across
    np.testing.assert_allclose(stream.mean_target(X), wanted, atol=1e-12)
    assert (y - wanted).std() == pytest.approx(0.2, rel=0.02)
    assert (y - wanted).mean() == pytest.approx(0.0, abs=0.004)
    assert abs(np.corrcoef(y - wanted, u)[0, 1]) < 0.02


@given(st.integers(0, 5), st.integers(1, 4))
def test_it_can_be_followed_again(seed: int, batch_size: int) -> None:
    stream = GaussianRegressionStream(
        LinearShift(), n_reference=5, n_rounds=3, batch_size=batch_size, random_state=seed
    )
    first, second = ([np.column_stack((batch.X, batch.y)) for batch in stream] for _ in range(2))
    assert np.array(first).tobytes() == np.array(second).tobytes()
    assert stream.reference()[1].tobytes() == stream.reference()[1].tobytes()


def test_noise_of_reference_and_batches_is_not_the_same() -> None:
    stream = GaussianRegressionStream(ConstantShift(0.9), n_reference=500, n_rounds=1, batch_size=500)
    X, y = stream.reference()
    batch = next(iter(stream))
    noises = y - stream.mean_target(X), batch.y - stream.mean_target(batch.X)
    assert abs(np.corrcoef(*noises)[0, 1]) < 0.15


# --- risk -------------------------------------------------------------------------------------------------------


def test_the_target_itself_has_the_risk_of_the_noise_if_it_is_linear() -> None:
    stream = GaussianRegressionStream(LinearShift(), bend=0.0, noise=0.5, n_features=4)
    slopes = np.full(4, 0.25) + np.array([1.0, 0.0, -1.0, 0.0]) / np.sqrt(2.0)
    assert stream.component_risks((slopes, 0.0)) == pytest.approx((0.25, 0.25), abs=1e-12)
    assert stream.component_risks((slopes, 3.0)) == pytest.approx((9.25, 9.25), abs=1e-12)


@pytest.mark.parametrize("bend", rest_slow([0.5, 0.0, 1.0]))
@pytest.mark.parametrize("kind", ["tuple", "ridge", "pipeline"])
def test_the_exact_risk_agrees_with_monte_carlo(kind: str, bend: float) -> None:
    stream = GaussianRegressionStream(LinearShift(), bend=bend)
    X, y = stream.reference()
    models = {
        "tuple": (np.linspace(-0.5, 1, 12), 0.3),
        "ridge": Ridge().fit(X, y),
        "pipeline": make_pipeline(StandardScaler(), Ridge(10.0)).fit(X, y),
    }
    model = models[kind]
    for alpha in (0.0, 0.35, 1.0):
        X_new, y_new = many_rows(alpha, bend=bend)
        predicted = X_new @ model[0] + model[1] if kind == "tuple" else model.predict(X_new)
        squares = (predicted - y_new) ** 2
        assert stream.risk(model, alpha) == pytest.approx(squares.mean(), abs=4 * squares.std() / N_MONTE_CARLO**0.5)


@pytest.mark.parametrize("kind", [DecisionTreeRegressor(max_depth=4), PoissonRegressor(alpha=1.0)], ids=repr)
def test_the_risk_of_other_models_is_measured_on_a_large_sample(kind) -> None:
    """A Poisson regression has coefficients, but what it predicts is not linear."""
    stream = GaussianRegressionStream(LinearShift())
    X, y = stream.reference()
    model = kind.fit(X, np.exp(0.3 * y))
    for alpha in (0.0, 1.0):
        X_new, y_new = many_rows(alpha)
        squares = (model.predict(X_new) - y_new) ** 2
        risk = stream.risk(model, alpha)
        assert risk == pytest.approx(squares.mean(), abs=5 * squares.std() / 20_000**0.5)
        assert risk == stream.risk(model, alpha)


def test_risk_of_an_array_of_alphas() -> None:
    stream, model = GaussianRegressionStream(LinearShift(), n_rounds=5), (np.ones(12), 0.5)
    risks = stream.risk(model, stream.alphas)
    np.testing.assert_allclose(risks, [stream.risk(model, alpha) for alpha in stream.alphas.tolist()])
    assert isinstance(stream.risk(model, 0.5), float)


def errors_in_first_part(bend: float) -> tuple[float, float]:
    """Squared error in D' of a regression on the reference, and of one with the true ratio; mean of five seeds."""
    fixed, weighted = [], []
    for seed in range(5):
        stream = GaussianRegressionStream(LinearShift(), bend=bend, random_state=seed)
        X, y = stream.reference()
        weights = stream.reference_ratio(0.0)
        fixed.append(stream.risk(Ridge().fit(X, y), 0.0))
        weighted.append(stream.risk(Ridge().fit(X, y, sample_weight=weights / weights.mean()), 0.0))
    return float(np.mean(fixed)), float(np.mean(weighted))


def test_the_true_ratio_gains_as_documented() -> None:
    assert errors_in_first_part(0.5) == pytest.approx((2.1, 1.2), abs=0.05)


def test_where_the_target_is_linear_there_is_nothing_to_gain() -> None:
    fixed, weighted = errors_in_first_part(0.0)
    assert 1.0 < fixed < weighted < 1.3


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"bend": 1.5}, "bend"),
        ({"noise": -1.0}, "noise"),
        ({"n_features": 1}, "n_features"),
        ({"alpha_0": 2}, "alpha_0"),
    ],
)
def test_a_wrong_parameter_is_named(changes: dict[str, float], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        GaussianRegressionStream(LinearShift(), **changes)


def test_what_is_no_shift_no_row_or_no_model_is_refused() -> None:
    with pytest.raises(ParameterError, match="shift must be a Shift"):
        GaussianRegressionStream("Lin")  # type: ignore[arg-type]
    stream = GaussianRegressionStream(LinearShift())
    with pytest.raises(DataError, match=r"shape \(n_rows, 12\)"):
        stream.mean_target([[1.0]])
    with pytest.raises(ParameterError, match="alpha must be in"):
        stream.risk((np.ones(12), 0.0), 1.5)
    with pytest.raises(DataError, match="risk needs a linear model: object has no coefficients"):
        stream.risk(object(), 0.5)
