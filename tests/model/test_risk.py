"""The error of the weighted reference from fits without the row: when it is unknown, how near the truth it is."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier
from accous.exceptions import DataError
from accous.streams import ConstantShift, GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import PROBE, LinearTilt, drifting_batches, labelled_rows, run_rounds, tilt


def weighted_error(model):
    """The error of the predictor in use on the weighted reference, by fits without the row; NaN if it is unknown."""
    errors = model.current().errors
    return np.nan if errors is None else np.average(model.task_.losses(errors), weights=model.reference_weight_)


def test_between_refits_the_risk_follows_the_weights():
    X, y = labelled_rows(n_rows=300)
    y = np.where(X[:, 0] > 0.5, 1 - y, y)  # wrong on the right
    model = AdaptiveClassifier(ratio=LinearTilt(), refit=100).fit(X, y)
    to_the_right = weighted_error(model.adapt(tilt(0.0, 1.0)))
    to_the_left = weighted_error(model.adapt(tilt(0.0, -1.0)))
    assert model.n_refits_ == 0
    assert to_the_left < to_the_right - 0.1


def exact_leave_one_out_error(model, X, y):
    weights, is_wrong = model.reference_weight_, []
    for i in range(len(X)):
        without = weights.copy()
        without[i] = 0.0
        fitted = LogisticRegression(C=model.C, solver="newton-cholesky").fit(X, y, sample_weight=without)
        is_wrong.append(fitted.predict(X[i : i + 1])[0] != y[i])
    return float(np.average(is_wrong, weights=weights))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_our_own_risk_is_nearly_that_of_leaving_out_every_row(n_classes):
    X, y = labelled_rows(n_rows=80, n_features=8, n_classes=n_classes)
    model = run_rounds(AdaptiveClassifier(refit="always").fit(X, y), drifting_batches(20, n_features=8))
    # A single row that is predicted otherwise counts by its weight, which is at most a few percent of all.
    largest = float(model.reference_weight_.max() / model.reference_weight_.sum())
    assert largest < 0.1
    assert weighted_error(model) == pytest.approx(exact_leave_one_out_error(model, X, y), abs=max(0.03, largest))


@pytest.mark.parametrize(("estimator", "n_needed"), [(None, 2), (LogisticRegression(), 5)], ids=["ours", "foreign"])
def test_the_risk_is_unknown_where_a_class_has_too_few_rows(estimator, n_needed):
    X, _ = labelled_rows(n_rows=40)
    for n_rare in range(1, 7):
        model = run_rounds(AdaptiveClassifier(estimator).fit(X, np.arange(40) < n_rare), drifting_batches(6))
        assert np.isnan(weighted_error(model)) == (n_rare < n_needed)
        if n_rare == 1:
            with pytest.raises(DataError, match="every class"):
                model.predict_set(PROBE)


def risks_after_rounds(stream, **parameters):
    """The estimate, the error on the reference itself with the same weights, and the truth."""
    X, y = stream.reference()
    model = AdaptiveClassifier(**parameters).fit(X, y)
    for batch in stream:
        model.adapt(batch.X)
    naive = float(np.average(model.predict(X) != y, weights=model.reference_weight_))
    return weighted_error(model), naive, stream.risk(model, batch.alpha)


def mean_risks(estimator, shift, **stream):
    risks = [
        risks_after_rounds(GaussianStream(shift, random_state=seed, **stream), estimator=estimator, refit=10)
        for seed in range(10)
    ]
    return np.mean(risks, axis=0)


@pytest.mark.parametrize(
    ("alpha", "estimator"),
    [
        *((alpha, None) for alpha in (0.0, 0.5, 1.0)),
        *(pytest.param(alpha, LogisticRegression(), marks=pytest.mark.slow) for alpha in (0.0, 0.5, 1.0)),
    ],
)
def test_the_risk_is_near_the_truth_on_a_moved_stream(alpha, estimator):
    shape = {"n_reference": 2000, "alpha_0": 0.7, "n_rounds": 40, "batch_size": 10}
    estimated, _, true = mean_risks(estimator, ConstantShift(alpha), **shape)
    assert estimated == pytest.approx(true, abs=0.02)


@pytest.mark.parametrize("estimator", rest_slow([None, LogisticRegression()]), ids=["ours", "foreign"])
def test_the_risk_is_not_optimistic_on_a_small_wide_reference(estimator):
    shape = {"n_reference": 60, "n_features": 20, "alpha_0": 0.5, "n_rounds": 40, "batch_size": 10}
    estimated, naive, true = mean_risks(estimator, ConstantShift(1.0), **shape)
    assert naive < true - 0.15
    assert estimated == pytest.approx(true, abs=0.05)


def test_after_a_jump_the_error_is_near_the_truth_and_the_sets_cover():
    stream = GaussianStream(SquareShift(period=150), n_rounds=300, batch_size=5, n_reference=2000, random_state=2)
    model = run_rounds(AdaptiveClassifier().fit(*stream.reference()), (batch.X for batch in stream))
    *_, batch = stream
    true_adapted, true_fixed = (stream.risk(one, batch.alpha) for one in (model.estimator_, model.fixed_.estimator))
    assert batch.alpha == 0.0
    assert true_fixed - true_adapted > 0.05
    assert weighted_error(model) == pytest.approx(true_adapted, abs=0.03)
    fresh = next(iter(GaussianStream(ConstantShift(batch.alpha), n_rounds=1, batch_size=2000, random_state=5)))
    covered = model.predict_set(fresh.X, alpha=0.2)[np.arange(2000), fresh.y].mean()
    assert 0.7 < covered < 0.9


# --- fits of an estimator that is slow to fit ----------------------------------------------------------------


N_FITS = [0]


class CountedTree(DecisionTreeClassifier):
    def fit(self, X, y, sample_weight=None):
        N_FITS[0] += 1
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture(autouse=True)
def _no_fits_yet():
    N_FITS[0] = 0


def make_model(estimator=None, **options):
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 3))
    # A single split is right on one side of the second column or on the other.
    y = np.where(X[:, 1] < 0.3, X[:, 0], X[:, 2]) + 0.3 * random.normal(size=300) > 0
    estimator = estimator or CountedTree(max_depth=1, random_state=0)
    return AdaptiveClassifier(estimator, **options).fit(X, y)


def test_a_model_that_never_adapts_makes_no_fits_for_readings():
    make_model(ratio=accous.NoShift())
    assert N_FITS[0] == 1
