"""The error without labels: when it is computed, when it is unknown, how near the truth it is."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier
from accous.diagnostics.evidence import NO_EVIDENCE
from accous.diagnostics.messages import scale_of_numbers
from accous.diagnostics.risk import widen
from accous.exceptions import DataError
from accous.streams import ConstantShift, GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import PROBE, LinearTilt, drifting_batches, labelled_rows, play, played, tilt


def count_cross_fits(model, monkeypatch):
    """A list that grows by one entry with every cross-fit from now on."""
    calls = []
    cross_fitted = model.erm_.cross_fitted

    def counted(*arguments):
        calls.append(model.n_rounds_)
        return cross_fitted(*arguments)

    monkeypatch.setattr(model.erm_, "cross_fitted", counted)
    return calls


@pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["ours", "foreign"])
def test_the_risk_is_computed_once_per_round_and_only_when_read(estimator, monkeypatch):
    model = played(0, estimator=estimator, refit="always")
    calls = count_cross_fits(model, monkeypatch)
    play(model, drifting_batches(6))
    assert calls == []
    assert model.risk_estimate_ == model.risk_estimate_
    assert calls == [6]
    model.adapt(PROBE[:3])
    assert calls == [6]
    assert 0.0 < model.risk_estimate_ < 1.0
    assert calls == [6, 7]


def test_between_refits_the_risk_follows_the_weights():
    X, y = labelled_rows(n_rows=300)
    y = np.where(X[:, 0] > 0.5, 1 - y, y)  # wrong on the right
    model = AdaptiveClassifier(ratio=LinearTilt(), refit=100).fit(X, y)
    to_the_right = model.adapt(tilt(0.0, 1.0)).risk_estimate_
    to_the_left = model.adapt(tilt(0.0, -1.0)).risk_estimate_
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
    model = play(AdaptiveClassifier(refit="always").fit(X, y), drifting_batches(20, n_features=8))
    # A single row that is predicted otherwise counts by its weight, which is at most a few percent of all.
    largest = float(model.reference_weight_.max() / model.reference_weight_.sum())
    assert largest < 0.1
    assert model.risk_estimate_ == pytest.approx(exact_leave_one_out_error(model, X, y), abs=max(0.03, largest))


@pytest.mark.parametrize(("estimator", "n_needed"), [(None, 2), (LogisticRegression(), 5)], ids=["ours", "foreign"])
def test_the_risk_is_unknown_where_a_class_has_too_few_rows(estimator, n_needed):
    X, _ = labelled_rows(n_rows=40)
    for n_rare in range(1, 7):
        model = play(AdaptiveClassifier(estimator).fit(X, np.arange(40) < n_rare), drifting_batches(6))
        assert np.isnan(model.risk_estimate_) == np.isnan(model.risk_.adapted) == (n_rare < n_needed)
        for ask in (model.predict_set, lambda X, model=model: model.audit(X, np.ones(len(X), dtype=bool))):
            if n_rare == 1:
                with pytest.raises(DataError, match="more rows of every class"):
                    ask(PROBE)


def test_before_a_batch_and_outside_of_the_reference_nothing_is_known():
    X, y = labelled_rows()
    model = AdaptiveClassifier().fit(X[:6], [0, 1, 0, 1, 0, 1])
    assert not model.risk_.is_known
    assert not model.adapt(X[:10]).risk_.is_known
    assert not play(AdaptiveClassifier().fit(X, y), [batch + 20.0 for batch in drifting_batches(60)]).risk_.is_known


def risks_after_rounds(stream, **parameters):
    """The estimate, the error on the reference itself with the same weights, and the truth."""
    X, y = stream.reference()
    model = AdaptiveClassifier(**parameters).fit(X, y)
    for batch in stream:
        model.adapt(batch.X)
    naive = float(np.average(model.predict(X) != y, weights=model.reference_weight_))
    return model.risk_estimate_, naive, stream.risk(model, batch.alpha)


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


def test_after_a_jump_the_estimates_are_near_the_truth_and_the_sets_cover():
    stream = GaussianStream(SquareShift(period=150), n_rounds=300, batch_size=5, n_reference=2000, random_state=2)
    model = play(AdaptiveClassifier().fit(*stream.reference()), (batch.X for batch in stream))
    risk, (*_, batch) = model.risk_, stream
    true_adapted, true_fixed = (stream.risk(one, batch.alpha) for one in (model.estimator_, model.fixed_.estimator))
    assert batch.alpha == 0.0
    assert true_fixed - true_adapted > 0.05
    assert risk.adapted_low <= true_adapted <= risk.adapted_high
    assert risk.fixed_low <= true_fixed <= risk.fixed_high
    fresh = next(iter(GaussianStream(ConstantShift(batch.alpha), n_rounds=1, batch_size=2000, random_state=5)))
    covered = model.predict_set(fresh.X, alpha=0.2)[np.arange(2000), fresh.y].mean()
    assert 0.7 < covered < 0.9
    assert not model.audit(fresh.X[:300], fresh.y[:300]).concept_changed
    assert model.audit(fresh.X[:300], 1 - fresh.y[:300]).concept_changed


def test_only_a_constant_target_leaves_an_interval_as_it_is():
    drift = {"drift": 0.5, "seen_drift": 0.0, "disagreement": 0.0}
    constant = scale_of_numbers("absolute", 0.0, 0.0)
    assert widen((0.0, 0.0, 0.0), NO_EVIDENCE.fixed, **drift, scale=constant) == (0.0, 0.0, 0.0)
    perfect = scale_of_numbers("absolute", 0.0, 1e-12)
    assert widen((0.0, 0.0, 0.0), NO_EVIDENCE.fixed, **drift, scale=perfect)[2] > 0.0


# --- the risk of an estimator that is slow to fit is read at once, and says how old it is --------------------


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


def adapt_slowly(model, first, stop):
    for number in range(first, stop):
        random = np.random.default_rng(number)
        model.adapt(random.normal([0.0, min(1.2, 0.04 * number), 0.0], 1.0, size=(10, 3)))
    return model


def fits_of_reading(model):
    before = N_FITS[0]
    assert model.trust_.verdict
    assert 0.0 <= model.risk_.adapted <= 1.0
    assert model.risk_estimate_ == pytest.approx(model.sampling_risk().adapted)
    assert model.predict_set(np.zeros((2, 3))).shape == (2, 2)
    return N_FITS[0] - before


def test_reading_fits_nothing_from_the_first_time_on():
    model = make_model()
    # The model, and five folds that both the errors and the sets of classes use.
    assert N_FITS[0] == 6
    assert fits_of_reading(model) == 0
    ages = []
    for stop in range(1, 60):
        adapt_slowly(model, stop - 1, stop)
        assert fits_of_reading(model) == 0
        ages.append(model.risk_.age)
    assert model.n_refits_ > 6
    assert 0 in ages
    assert max(ages) > 0


def test_a_model_that_never_adapts_makes_no_fits_for_readings():
    make_model(ratio=accous.NoShift())
    assert N_FITS[0] == 1


def test_it_is_close_to_the_exact_estimate_and_a_loaded_model_reads_the_same_without_fits(tmp_path):
    model, rows = adapt_slowly(make_model(), 0, 40), np.random.default_rng(3).normal(size=(40, 3))
    state, expected = model.state_, (model.risk_, model.predict_set(rows).tolist())
    assert not state.safeguards.veto.is_held
    answers = model.erm_.cross_fitted(state.fitted_weights, state.estimator)
    exact = np.average(model.task_.errors(answers), weights=state.weights)
    assert model.risk_estimate_ == pytest.approx(exact, abs=0.05)
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=CountedTree(max_depth=1, random_state=0))
    before = N_FITS[0]
    assert (loaded.risk_, loaded.predict_set(rows).tolist()) == expected
    assert N_FITS[0] == before


def test_an_estimator_that_fails_on_folds_is_fitted_and_says_so_when_read():
    class NeverPart(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            if len(X) < 300:
                raise ValueError("a part is not enough")
            return super().fit(X, y, sample_weight=sample_weight)

    model = make_model(NeverPart())
    assert model.predict(np.zeros((2, 3))).shape == (2,)
    with pytest.raises(ValueError, match="a part is not enough"):
        _ = model.risk_
