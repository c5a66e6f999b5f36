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


def make_model() -> AdaptiveClassifier:
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 3))
    # A single split is right on one side of the second column or on the other.
    y = np.where(X[:, 1] < 0.3, X[:, 0], X[:, 2]) + 0.3 * random.normal(size=300) > 0
    return AdaptiveClassifier(CountedTree(max_depth=1, random_state=0), caution="low").fit(X, y)


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
    return N_FITS[0] - before


def test_once_the_fixed_model_is_known_reading_fits_nothing():
    model = make_model()
    # Five folds of the fixed model, and two for comparisons.
    assert fits_of_reading(model) <= 7
    ages = []
    for stop in range(1, 60):
        play(model, stop - 1, stop)
        if model.fixed_.known_errors.keys() == {"all", "quick"}:
            assert fits_of_reading(model) == 0
            ages.append(model.risk_.age)
    assert model.n_refits_ > 6
    assert 0 in ages
    assert max(ages) > 0
    assert f"{max(ages)} rounds old" in str(accous.diagnostics.risk.RiskEstimate(**RISK, age=max(ages)))


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
