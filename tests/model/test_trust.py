"""What a model says of itself: state, drift, sets of classes, and that reading them changes nothing."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Perceptron
from sklearn.naive_bayes import GaussianNB

from accous import AdaptiveClassifier, LogisticRatio, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.diagnostics.drift import DriftEvent
from accous.exceptions import ParameterError
from accous.streams import ConstantShift, GaussianStream
from tests.budgets import rest_slow
from tests.classifiers import PROBE, LinearTilt, drifting_batches, labelled_rows, run_rounds, shown_state

KINDS = {
    "default": {},
    "foreign": {"estimator": GaussianNB()},
    "plain": {"adaptation": "always"},
    "no shift": {"ratio": NoShift()},
    "single learner": {"ratio": SingleLearnerRatio()},
    "one step": {"ratio": LogisticRatio()},
    "rbf": {"ratio": OnlineDensityRatio("rbf", random_state=0)},
    "of others": {"ratio": LinearTilt()},
}


class LeastProbable(GaussianNB):
    """Predicts another class than the most probable one, as estimators with rules of their own may."""

    def predict(self, X):
        return self.classes_[np.argmin(self.predict_proba(X), axis=1)]


def model_of(n_rounds=40, n_classes=2, **parameters):
    X, y = labelled_rows(n_rows=200, n_classes=n_classes)
    return run_rounds(AdaptiveClassifier(**parameters).fit(X, y), drifting_batches(n_rounds))


def read_diagnostics(model):
    return [model.status_, model.performance(), model.performance("roc_auc"), model.drift_, model.predict_set(PROBE)]


# --- for every kind of model --------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("n_rounds", [0, 1, 40])
def test_every_model_tells(parameters, n_rounds):
    model = model_of(n_rounds, **parameters)
    status, now, area, drift, sets = read_diagnostics(model)
    # Without an order in time and without labels, nothing is healthy.
    assert status.state in (("uncertain", "degraded") if n_rounds else (None,))
    assert status.advice.n >= 50 * bool(n_rounds)
    for one in (now, area):
        assert 0.0 <= one.low <= one.value <= one.high <= 1.0 if n_rounds else np.isnan(one.value)
        assert (one.basis, one.n_labels) == ("expected", 0)
    assert all(isinstance(event, DriftEvent) for event in drift.events)
    assert sum(column.share for column in drift.columns) == pytest.approx(1.0) or not drift.columns
    assert (sets.dtype, sets.shape) == (np.dtype(bool), (len(PROBE), 2))


@pytest.mark.parametrize("parameters", rest_slow(KINDS.values()))
def test_reading_diagnostics_changes_nothing(parameters):
    told, silent = (model_of(20, **parameters) for _ in range(2))
    for batch in drifting_batches(20, seed=4):
        read_diagnostics(told)
        told.adapt(batch)
        silent.adapt(batch)
    assert shown_state(told, PROBE) == shown_state(silent, PROBE)
    assert repr(read_diagnostics(told)) == repr(read_diagnostics(silent))


# --- what it says -------------------------------------------------------------------------------------------


def test_the_columns_that_move_are_named():
    X, y = labelled_rows(n_rows=500)
    names = ["calm", "wild", "still"]
    model = AdaptiveClassifier().fit(pd.DataFrame(X, columns=names), y)
    rng = np.random.default_rng(3)
    for number in range(200):
        batch = rng.normal((0.0, 2.0 * (number > 60), 0.0), size=(5, 3))
        model.adapt(pd.DataFrame(batch, columns=names))
    assert (model.drift_.columns[0].name, model.drift_.columns[0].share > 0.8) == ("wild", True)
    assert {event.features for event in model.drift_.events} == {("wild",)}
    assert [event.kind for event in model.drift_.events] == ["shift", "outside"]
    event = model.drift_.events[0]
    assert 60 < event.round <= 112
    assert event.size > 0.3


@pytest.mark.parametrize(("order", "state"), [(False, "uncertain"), (True, "healthy")])
def test_a_stream_that_stands_still_has_no_events_and_is_healthy_after_a_backtest(order, state):
    stream = GaussianStream(ConstantShift(0.9), n_rounds=300, batch_size=5, n_reference=2000)
    model = AdaptiveClassifier().fit(*stream.reference(), order=order)
    for batch in stream:
        model.adapt(batch.X)
    assert model.drift_.events == ()
    assert model.status_.state == state


def test_smaller_alpha_gives_larger_sets():
    model = model_of(n_classes=4)
    sets = [model.predict_set(PROBE, alpha=alpha) for alpha in (0.01, 0.1, 0.4)]
    assert np.all(sets[0] >= sets[1])
    assert np.all(sets[1] >= sets[2])
    assert sets[0].sum() > sets[2].sum()


SURE = {"default": None, "trees": HistGradientBoostingClassifier(max_iter=8), "by another rule": LeastProbable()}


@pytest.mark.parametrize("n_classes", rest_slow([3, 2]))
@pytest.mark.parametrize("estimator", SURE.values(), ids=SURE)
@given(n_rounds=st.integers(0, 12), alpha=st.floats(0.01, 0.99), seed=st.integers(0, 5))
@settings(max_examples=5)
def test_a_set_has_the_predicted_class(estimator, n_classes, n_rounds, alpha, seed):
    """Where a model is right more often than asked for, the quantile alone leaves sets empty."""
    X, _ = labelled_rows(n_rows=150, seed=seed)
    y = np.digitize(X[:, 0], [0.0, 1.0][: n_classes - 1])
    model = run_rounds(AdaptiveClassifier(estimator).fit(X, y + 5), drifting_batches(n_rounds, seed=seed))
    sets, predicted = model.predict_set(PROBE, alpha=alpha), model.predict(PROBE)
    assert np.all(sets[model.classes_ == predicted[:, None]])
    assert sets.any(axis=1).all()


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 2.0, float("nan"), "a", None, True])
def test_alpha_out_of_range(alpha):
    with pytest.raises(ParameterError, match="alpha must be"):
        model_of(4).predict_set(PROBE, alpha=alpha)


def test_no_rows_and_estimators_without_sets():
    assert model_of(4).predict_set(PROBE[:0]).shape == (0, 2)
    with pytest.raises(ParameterError, match="predict_proba"):
        AdaptiveClassifier(Perceptron()).fit(*labelled_rows()).predict_set(PROBE)
