"""``standardize``: the optimum of scikit-learn's scaled pipeline, whatever the units of the columns are."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import accous
from accous import AdaptiveClassifier
from accous.exceptions import ParameterError
from accous.model.predictors import deviations_of_columns

# Columns by the compiled Newton steps, by plain ones, and by descent in principal axes.
each_kind = pytest.mark.parametrize(("n_features", "n_classes"), [(5, 2), (5, 4), (40, 3), (300, 2)])


def raw_rows(n_features: int = 5, n_classes: int = 2, n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Columns in very different units, far from zero, one of them constant."""
    random = np.random.default_rng(n_features + n_classes)
    Z = random.normal(size=(n_rows, n_features))
    scores = Z @ random.normal(size=(n_features, n_classes)) + 2.0 * random.gumbel(size=(n_rows, n_classes))
    X = Z * 10.0 ** random.uniform(-3, 3, n_features) + random.normal(size=n_features)
    X[:, 1] = 7.0
    return X, scores.argmax(axis=1)


def scaled_pipeline(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, *, base: np.ndarray | None = None, C: float = 1.0
) -> Pipeline:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=C, tol=1e-10, max_iter=100_000))
    named = {"standardscaler__sample_weight": base, "logisticregression__sample_weight": weights}
    # On some processors the weighted variance of a constant column rounds to less than 0 in scikit-learn.
    with np.errstate(invalid="ignore"):
        return pipeline.fit(X, y, **named)


@each_kind
@pytest.mark.parametrize("has_base", [False, True])
def test_a_fit_is_that_of_the_scaled_pipeline(n_features, n_classes, has_base):
    X, y = raw_rows(n_features, n_classes)
    base = np.linspace(0.1, 1.9, len(X)) if has_base else None
    ours = AdaptiveClassifier(C=0.3).fit(X, y, sample_weight=base)
    theirs = scaled_pipeline(X, y, base, base=base, C=0.3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    scaler, regression = theirs
    np.testing.assert_allclose(ours.estimator_.coef_ * scaler.scale_, regression.coef_, atol=1e-6)


def test_the_coefficients_are_those_of_the_raw_columns():
    X, y = raw_rows()
    model = AdaptiveClassifier().fit(X, y)
    scores = X @ model.estimator_.coef_[0] + model.estimator_.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_predictor_of_a_round_is_the_weighted_optimum(n_classes):
    X, y = raw_rows(5, n_classes)
    model = AdaptiveClassifier(refit="always", fallback="none").fit(X, y)
    for start in range(0, 200, 10):
        model.adapt(X[start : start + 10] + 0.5 * X.std(axis=0))
    theirs = scaled_pipeline(X, y, model.reference_weight_)
    plain = scaled_pipeline(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert np.abs(plain.predict_proba(X) - theirs.predict_proba(X)).max() > 1e-2


@each_kind
def test_units_do_not_matter(n_features, n_classes):
    X, y = raw_rows(n_features, n_classes)
    units = 2.0 ** np.random.default_rng(0).integers(-20, 20, n_features)
    one, other = AdaptiveClassifier().fit(X, y), AdaptiveClassifier().fit(X * units, y)
    for start in range(0, 100, 10):
        one.adapt(X[start : start + 10])
        other.adapt(X[start : start + 10] * units)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X * units), atol=1e-6)
    assert one.risk_estimate_ == pytest.approx(other.risk_estimate_, abs=1e-3)


def test_without_it_units_do_matter():
    X, y = raw_rows()
    raw = AdaptiveClassifier(standardize=False).fit(X, y)
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(raw.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert np.abs(raw.predict_proba(X) - AdaptiveClassifier().fit(X, y).predict_proba(X)).max() > 0.05


def test_the_risk_is_nearly_that_of_leaving_out_every_row():
    X, y = raw_rows(n_rows=80)
    model = AdaptiveClassifier().fit(X, y)
    scale = X.std(axis=0) + (X.std(axis=0) < 1e-9)
    is_wrong = []
    for row in range(len(X)):
        rest = np.arange(len(X)) != row
        fitted = LogisticRegression(solver="newton-cholesky").fit(X[rest] / scale, y[rest])
        is_wrong.append(fitted.predict(X[[row]] / scale)[0] != y[row])
    assert model.risk_estimate_ == pytest.approx(np.mean(is_wrong), abs=0.03)


@each_kind
def test_it_is_saved_and_resumes_bit_for_bit(n_features, n_classes, tmp_path):
    X, y = raw_rows(n_features, n_classes)
    for standardize in (True, False):
        model = AdaptiveClassifier(standardize=standardize, random_state=0).fit(X, y)
        for start in range(0, 60, 10):
            model.adapt(X[start : start + 10] + 0.3 * X.std(axis=0))
        accous.save(model, tmp_path / f"{standardize}")
        loaded = accous.load(tmp_path / f"{standardize}")
        assert loaded.standardize is standardize
        for start in range(60, 120, 10):
            for one in (model, loaded):
                one.adapt(X[start : start + 10] - 0.3 * X.std(axis=0))
        assert np.array_equal(model.decision_function(X), loaded.decision_function(X))
        assert model.risk_estimate_ == loaded.risk_estimate_


def test_an_estimator_ignores_it():
    X, y = raw_rows()
    answers = [
        AdaptiveClassifier(LogisticRegression(solver="newton-cholesky"), standardize=standardize).fit(X, y).predict(X)
        for standardize in (True, False)
    ]
    assert np.array_equal(*answers)


@pytest.mark.parametrize("standardize", ["yes", None, 1])
def test_it_is_true_or_false(standardize):
    with pytest.raises(ParameterError, match="standardize must be True or False"):
        AdaptiveClassifier(standardize=standardize).fit(*raw_rows())


def test_the_scales_are_those_of_the_standard_scaler():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 6)) * [1e-8, 1.0, 1e8, 0.0, 1e-14, 1e-3] + [0.0, 5.0, 0.0, 3.3, 1e5, 1e6]
    for weights in (np.ones(50), np.arange(50.0)):
        scales = deviations_of_columns(X, weights)
        np.testing.assert_allclose(scales, StandardScaler().fit(X, sample_weight=weights).scale_, rtol=1e-7)
        assert scales[3] == 1.0


def test_extreme_columns_have_finite_answers():
    X, y = raw_rows()
    X = X * [1e-300, 1.0, 1e-160, 1e90, 1.0]
    model = AdaptiveClassifier().fit(X, y)
    assert np.isfinite(model.adapt(X[:20]).predict_proba(X)).all()
