"""AdaptiveRegressor: the same optimum as scikit-learn's Ridge, estimates against brute force, units."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from accous import AdaptiveRegressor, NoShift, backtest
from accous.diagnostics.losses import read_loss
from accous.exceptions import DataError, DataWarning, ParameterError
from accous.streams import ConstantShift, GaussianRegressionStream, SquareShift
from tests.classifiers import LinearTilt, run_rounds, tilt

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * (1.0, 5.0, 0.1)
Y = X[:, 0] - 0.2 * X[:, 1] ** 2 + RNG.normal(size=60)
BASE = RNG.uniform(0.5, 2.0, size=60)


def after_rounds(model, n_rounds=120, *, order=False):
    stream = GaussianRegressionStream(
        SquareShift(period=60), n_rounds=n_rounds, batch_size=5, n_reference=400, n_features=6, random_state=7
    )
    (*batches,) = stream
    return run_rounds(model.fit(*stream.reference(), order=order), (batch.X for batch in batches)), batches[-1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks():
    check_estimator(AdaptiveRegressor())


@pytest.mark.parametrize("standardize", [True, False])
def test_the_optimum_is_that_of_ridge(standardize):
    model = AdaptiveRegressor(ratio=LinearTilt(), alpha=3.0, standardize=standardize, refit="always")
    model.fit(X, Y, sample_weight=BASE).adapt(tilt(1.0, 0.3))
    ridge = make_pipeline(StandardScaler(), Ridge(3.0)) if standardize else make_pipeline(Ridge(3.0))
    weights = {"ridge__sample_weight": model.reference_weight_}
    if standardize:
        weights["standardscaler__sample_weight"] = BASE
    np.testing.assert_allclose(model.predict(X), ridge.fit(X, Y, **weights).predict(X), rtol=1e-9)
    assert not np.allclose(model.predict(X), model.predict_fixed(X))


@pytest.mark.parametrize("loss", ["absolute", "squared", "pinball(0.8)"])
@pytest.mark.parametrize("estimator", [None, Ridge()])
def test_the_risk_is_the_weighted_loss_of_fits_without_the_row(loss, estimator):
    model = AdaptiveRegressor(estimator, LinearTilt(), standardize=False, loss=loss, refit="always")
    model.fit(X, Y).adapt(tilt(1.0, 0.3))
    weights, own_loss = model.reference_weight_, read_loss(loss)
    losses = []
    for row in range(60):
        rest = np.arange(60) != row
        fitted = Ridge().fit(X[rest], Y[rest], sample_weight=weights[rest])
        losses.append(own_loss(Y[[row]], fitted.predict(X[[row]]))[0])
    # The user's estimator is cross-fitted by folds.
    tolerance = 1e-9 if estimator is None else 0.1
    found = model.task_.losses(model.current().errors)
    assert np.average(found, weights=weights) == pytest.approx(np.average(losses, weights=weights), rel=tolerance)


def test_adaptation_lowers_the_risk_where_one_line_does_not_fit_all():
    stream = GaussianRegressionStream(ConstantShift(0.0), n_rounds=300, batch_size=5, random_state=11)
    model = AdaptiveRegressor().fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    fixed, adapted = stream.risk(model.fixed_.estimator, 0.0), stream.risk(model, 0.0)
    assert adapted < fixed - 0.6
    assert not model.state_.safeguards.veto.is_held


def test_intervals_follow_the_inputs():
    stream = GaussianRegressionStream(ConstantShift(0.0), n_rounds=400, batch_size=5, random_state=12)
    model = AdaptiveRegressor().fit(*stream.reference())
    inside = {"adapted": [], "fixed": []}
    half_width = np.quantile(np.abs(model.fixed_.errors()), 0.9)
    for batch in stream:
        if batch.round > 100:
            low, high = model.predict_interval(batch.X, 0.1).T
            inside["adapted"].append((low <= batch.y) & (batch.y <= high))
            inside["fixed"].append(np.abs(batch.y - model.predict_fixed(batch.X)) <= half_width)
        model.adapt(batch.X)
    # Of one reference, in which about a hundred rows are like the stream.
    assert 0.84 < np.mean(inside["adapted"]) < 0.95
    assert np.mean(inside["fixed"]) < 0.8
    assert model.predict_interval(batch.X[:0]).shape == (0, 2)


def test_the_unit_of_the_target_changes_only_the_numbers():
    """In another unit, and with another zero, every decision and every answer about trust is the same."""
    stream = GaussianRegressionStream(SquareShift(period=60), n_rounds=120, batch_size=5, n_features=6, n_reference=400)
    reference, y = stream.reference()
    metres = AdaptiveRegressor().fit(reference, y, order=True)
    millimetres = AdaptiveRegressor().fit(reference, 1000.0 * y + 5e5, order=True)
    for batch in stream:
        for model, labels in ((metres, batch.y), (millimetres, 1000.0 * batch.y + 5e5)):
            model.adapt(batch.X)
            if batch.round % 10 == 0:
                model.observe(batch.X, labels)
    np.testing.assert_allclose(millimetres.predict(batch.X), 1000.0 * metres.predict(batch.X) + 5e5, rtol=1e-9)
    assert millimetres.performance().high == pytest.approx(1000.0 * metres.performance().high)
    first, second = ((model.n_refits_, model.status_.state, model.status_.alarm) for model in (metres, millimetres))
    assert first == second


def test_a_clearly_worse_adapted_model_is_held_back():
    """With a linear target, weights only cost rows: the veto compares mean losses."""
    stream = GaussianRegressionStream(
        ConstantShift(0.0), bend=0.0, n_rounds=150, batch_size=5, n_features=12, n_reference=150, random_state=5
    )
    careful = AdaptiveRegressor().fit(*stream.reference())
    free = AdaptiveRegressor(adaptation="always").fit(*stream.reference())
    risks = np.zeros(2)
    for batch in stream:
        careful.adapt(batch.X)
        free.adapt(batch.X)
        risks += stream.risk(careful, 0.0), stream.risk(free, 0.0)
    assert risks[0] < risks[1]


def test_a_reference_in_order_is_replayed():
    model, _ = after_rounds(AdaptiveRegressor(loss="squared"), 40, order=True)
    assert model.backtest_.verdict in ("adapt", "adapt with care", "do not adapt")
    look = model.backtest_.looks[0]
    part = AdaptiveRegressor().fit(model.reference_[:160], model.targets_[:160])
    block = slice(look.start, look.stop)
    losses = np.square(model.targets_[block] - part.predict_fixed(model.reference_[block]))
    assert look.error_fixed == pytest.approx(losses.mean())
    found = backtest(AdaptiveRegressor(Ridge()), np.tile(X, (4, 1)), np.tile(Y, 4))
    assert found.scale.loss == "absolute"
    assert found.summary()["looks"] == len(found.table())


def test_any_regressor_with_weights_and_frames():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = AdaptiveRegressor(HistGradientBoostingRegressor(max_iter=5, random_state=0)).fit(frame, Y)
    assert model.step(frame[["c", "a", "b"]][:5]).shape == (5,)
    assert model.predict_interval(frame[:5]).shape == (5, 2)
    assert np.isfinite(model.performance().value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": LogisticRegression()}, "a regressor"),
        ({"estimator": KNeighborsRegressor()}, "KNeighborsRegressor"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"loss": "huber"}, "loss must be"),
        ({"estimator": Ridge(), "alpha": 2.0}, "alpha applies only"),
    ],
)
def test_parameters_that_cannot_be_used(parameters, message):
    with pytest.raises(ParameterError, match=message):
        AdaptiveRegressor(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("much", "('much'|types)"), (np.nan, "NaN"), (None, "None"), (np.inf, "infinity"), (1e200, r"1e\+200")],
)
def test_labels_that_are_no_numbers(value, shown):
    y = [*Y[:4], value, *Y[5:20]]
    model = AdaptiveRegressor().fit(X, Y)
    for method in (AdaptiveRegressor().fit, model.observe):
        with pytest.raises(DataError, match=f"y (holds|mixes) {shown}.* row 4|types"):
            method(X[:20], y)


def test_texts_are_pointed_to_the_classifier_and_alpha_of_an_interval_is_a_share():
    with pytest.raises(DataError, match="AdaptiveClassifier"):
        AdaptiveRegressor().fit(X[:3], ["a", "b", "a"])
    with pytest.raises(ParameterError, match="alpha"):
        AdaptiveRegressor(ratio=NoShift()).fit(X, Y).predict_interval(X, 1.0)


def test_a_column_that_gives_the_number_away():
    rows = RNG.normal(size=(300, 2))
    y = rows[:, 0] + RNG.normal(size=300)
    with pytest.warns(DataWarning, match="'x2'"):
        AdaptiveRegressor().fit(np.column_stack((rows, np.exp(y))), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AdaptiveRegressor().fit(rows, y)


@pytest.mark.parametrize("order", [False, True], ids=["no order", "order"])
@pytest.mark.parametrize("value", [0.0, 3.0, 1e90])
def test_a_constant_target_is_predicted_without_error(value, order):
    rows = RNG.normal(size=(300, 2))
    with pytest.warns(DataWarning, match="nothing to learn"):
        model = AdaptiveRegressor().fit(rows, np.full(300, value), order=order)
    for shift in (0.0, 1.0):
        run_rounds(model, np.split(rows[:60] + shift, 12))
        np.testing.assert_allclose(model.predict(rows), value, rtol=1e-9)
        assert model.performance().value <= 1e-9 * value


def test_an_interval_that_the_past_refutes_is_shown_only_with_labels():
    """The number rises with time, not with the column: rows predicted from earlier ones are ever further off."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2))
    y = X[:, 0] + 0.02 * np.arange(700) + rng.normal(size=700)
    model = AdaptiveRegressor(random_state=0).fit(X[:400], y[:400], order=True)
    with pytest.raises(DataError, match="observe"):
        model.predict_interval(X[400:], 0.1)
    model.adapt(X[400:500]).observe(X[400:500], y[400:500], learn=False)
    low, high = model.predict_interval(X[500:550], 0.1).T
    assert np.mean((low <= y[500:550]) & (y[500:550] <= high)) > 0.8
