"""What a model says of itself: the three answers, sets of classes, audits, and that reading them changes nothing."""

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
from accous.diagnostics.labels import Audit
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import Trust
from accous.exceptions import DataError, ParameterError
from accous.streams import ConstantShift, GaussianStream
from tests.budgets import rest_slow
from tests.classifiers import PROBE, LinearTilt, drifting_batches, labelled_rows, play, shown_state

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
    return play(AdaptiveClassifier(**parameters).fit(X, y), drifting_batches(n_rounds))


def read_diagnostics(model):
    labels = model.classes_[np.arange(len(PROBE)) % len(model.classes_)]
    return [
        model.trust_,
        model.risk_,
        model.drift_attribution_,
        model.history_in_use_,
        model.drift_events_,
        model.predict_set(PROBE),
        model.audit(PROBE, labels),
    ]


# --- for every kind of model --------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("n_rounds", [0, 1, 40])
def test_every_model_tells(parameters, n_rounds):
    model = model_of(n_rounds, **parameters)
    trust, risk, attribution, history, events, sets, audit = read_diagnostics(model)
    assert isinstance(trust, Trust)
    # Without an order in time and without labels, nothing is verified.
    assert trust.verdict in ("not verified", "thin", "contradicted", "no overlap")
    assert 1.0 <= trust.effective_sample_size <= 200.0 + 1e-9
    assert isinstance(risk, RiskEstimate)
    assert 0.0 <= risk.adapted_low <= risk.adapted <= risk.adapted_high <= 1.0
    assert 0.0 <= risk.fixed_low <= risk.fixed <= risk.fixed_high <= 1.0
    assert risk.adapted == pytest.approx(model.risk_estimate_, abs=1e-12)
    assert attribution.shape == (3,)
    assert attribution.sum() == pytest.approx(1.0) or not attribution.any()
    assert history >= 0.0
    assert all(isinstance(event, DriftEvent) for event in events)
    assert (sets.dtype, sets.shape) == (np.dtype(bool), (len(PROBE), 2))
    assert isinstance(audit, Audit)
    assert 0.0 <= audit.p_value <= 1.0


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
    assert model.drift_attribution_[1] > 0.8
    assert {event.features for event in model.drift_events_} == {("wild",)}
    assert [event.kind for event in model.drift_events_] == ["shift", "outside"]
    event = model.drift_events_[0]
    assert 60 < event.round <= 112
    assert event.size > 0.3


@pytest.mark.parametrize(("order", "answer"), [(False, "not known"), (True, "yes")])
def test_a_stream_that_stands_still_has_no_events_and_its_estimate_is_believed_after_a_backtest(order, answer):
    stream = GaussianStream(ConstantShift(0.9), n_rounds=300, batch_size=5, n_reference=2000)
    model = AdaptiveClassifier().fit(*stream.reference(), order=order)
    for batch in stream:
        model.adapt(batch.X)
    assert model.drift_events_ == ()
    assert (model.trust_.inputs.answer, model.trust_.predictions.answer) == ("yes", answer)
    # The fixed model predicts, so nothing is known about adaptation.
    assert model.trust_.verdict == "not verified"


@pytest.mark.parametrize("bound", [None, 2.0])
def test_rows_far_away_have_no_overlap(bound):
    """A narrow bound does not hide them."""
    model = model_of(0, ratio=OnlineDensityRatio(feature_bound=bound))
    play(model, np.random.default_rng(0).normal(12.0, 1.0, size=(60, 5, 3)))
    assert model.trust_.inputs.answer == "no"
    assert model.trust_.verdict == "no overlap"
    assert model.trust_.share_out_of_bound > 0.5


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
    model = play(AdaptiveClassifier(estimator).fit(X, y + 5), drifting_batches(n_rounds, seed=seed))
    sets, predicted = model.predict_set(PROBE, alpha=alpha), model.predict(PROBE)
    assert np.all(sets[model.classes_ == predicted[:, None]])
    assert sets.any(axis=1).all()


def test_history_is_the_mean_interval_length():
    model = model_of(40)
    ratio = model.ratio_
    assert model.history_in_use_ == pytest.approx(ratio.learner_weights_ @ ratio.learner_lengths_)
    assert model_of(2).history_in_use_ == 0.0
    assert model_of(7, ratio=SingleLearnerRatio()).history_in_use_ == 7.0
    assert model_of(7, ratio=NoShift()).history_in_use_ == 0.0


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 2.0, float("nan"), "a", None, True])
def test_alpha_out_of_range(alpha):
    with pytest.raises(ParameterError, match="alpha must be"):
        model_of(4).predict_set(PROBE, alpha=alpha)


def test_rows_and_labels_that_cannot_be_audited_and_estimators_without_sets():
    model = model_of(4)
    assert model.predict_set(PROBE[:0]).shape == (0, 2)
    with pytest.raises(DataError, match="at least one"):
        model.audit(PROBE[:0], [])
    with pytest.raises(DataError, match=r"label 7.* \[0, 1\]"):
        model.audit(PROBE[:2], [0, 7])
    with pytest.raises(ParameterError, match="predict_proba"):
        AdaptiveClassifier(Perceptron()).fit(*labelled_rows()).predict_set(PROBE)


def test_plots_are_the_only_thing_that_needs_matplotlib(library_forks):
    modules = "accous.model.snapshot, accous.diagnostics.plots"
    code = f"import sys; import {modules}; sys.exit('matplotlib' in sys.modules)"
    library_forks.run(code, kind="code")
