"""The risk of an estimator that is slow to fit is read at once, and says how old it is."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier

N_FITS = [0]


class CountedTree(DecisionTreeClassifier):
    def fit(self, X, y, sample_weight=None):
        N_FITS[0] += 1
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture(autouse=True)
def _no_fits_yet() -> None:
    N_FITS[0] = 0


def make_model(estimator=None, **options) -> AdaptiveClassifier:
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 3))
    # A single split is right on one side of the second column or on the other.
    y = np.where(X[:, 1] < 0.3, X[:, 0], X[:, 2]) + 0.3 * random.normal(size=300) > 0
    estimator = estimator or CountedTree(max_depth=1, random_state=0)
    return AdaptiveClassifier(estimator, caution="low", **options).fit(X, y)


def play(model: AdaptiveClassifier, first: int, stop: int) -> AdaptiveClassifier:
    for number in range(first, stop):
        random = np.random.default_rng(number)
        model.adapt(random.normal([0.0, min(1.2, 0.04 * number), 0.0], 1.0, size=(10, 3)))
    return model


def fits_of_reading(model: AdaptiveClassifier) -> int:
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
        play(model, stop - 1, stop)
        assert fits_of_reading(model) == 0
        ages.append(model.risk_.age)
    assert model.n_refits_ > 6
    assert 0 in ages
    assert max(ages) > 0
    rows = np.random.default_rng(2).normal(size=(20, 3))
    model.extend(rows, rows[:, 0] > 0)
    assert fits_of_reading(model) == 0
    assert f"{max(ages)} rounds old" in str(accous.diagnostics.risk.RiskEstimate(**RISK, age=max(ages)))


def test_a_model_that_never_adapts_makes_no_fits_for_readings():
    make_model(ratio=accous.NoShift())
    assert N_FITS[0] == 1


def test_sets_follow_the_last_comparison_and_a_loaded_model_has_them_without_fits(tmp_path):
    model = play(make_model(), 0, 40)
    rows = np.random.default_rng(3).normal(size=(40, 3))
    check = model.state_.fallback.check
    shares = model.erm_.cross_fitted_probabilities(check.weights, None, is_quick=True)
    assert check.scores.shape == (300,)
    assert shares.shape == (300, 2)
    expected = model.predict_set(rows)
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=CountedTree(max_depth=1, random_state=0))
    before = N_FITS[0]
    np.testing.assert_array_equal(loaded.predict_set(rows), expected)
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


RISK = dict.fromkeys(("adapted", "adapted_low", "adapted_high", "fixed", "fixed_low", "fixed_high"), 0.1)


def test_a_loaded_model_reads_the_same_without_fits(tmp_path):
    model = play(make_model(), 0, 40)
    expected = model.risk_
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=CountedTree(max_depth=1, random_state=0))
    before = N_FITS[0]
    assert loaded.risk_ == expected
    assert N_FITS[0] == before


def test_it_is_close_to_the_exact_estimate():
    model = play(make_model(), 0, 40)
    state = model.state_
    assert not state.fallback.veto.is_held
    answers = model.erm_.cross_fitted(state.fitted_weights, state.estimator)
    exact = np.average(model.task_.errors(answers), weights=state.weights)
    assert model.risk_estimate_ == pytest.approx(exact, abs=0.05)
