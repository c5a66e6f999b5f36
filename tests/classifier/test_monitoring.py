"""A model's diagnostics: shapes, meaning, edge cases, and that reading them changes nothing."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB

import accous
from accous import AdaptiveClassifier, LogisticRatio, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.diagnostics.drift import DriftEvent
from accous.diagnostics.labels import Audit
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import Trust
from accous.exceptions import DataError, ParameterError
from accous.streams import ConstantShift, GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    LinearTilt,
    customer_encoder,
    customers,
    drifting_batches,
    labelled_rows,
    play,
    shown_state,
)
from tests.forks import ForkServer

KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "foreign": {"estimator": GaussianNB()},
    "plain": {"fallback": "none"},
    "no shift": {"ratio": NoShift()},
    "single learner": {"ratio": SingleLearnerRatio()},
    "one step": {"ratio": LogisticRatio()},
    "rbf": {"ratio": OnlineDensityRatio("rbf", random_state=0)},
    "of others": {"ratio": LinearTilt()},
}
each_kind = pytest.mark.parametrize("parameters", KINDS.values(), ids=KINDS)


class LeastProbable(GaussianNB):
    """Predicts another class than the most probable one, as estimators with rules of their own may."""

    def predict(self, X: Any) -> Any:
        return self.classes_[np.argmin(self.predict_proba(X), axis=1)]


def model_of(n_rounds: int = 40, n_classes: int = 2, **parameters: Any) -> AdaptiveClassifier:
    X, y = labelled_rows(n_rows=200, n_classes=n_classes)
    return play(AdaptiveClassifier(**parameters).fit(X, y), drifting_batches(n_rounds))


def read_diagnostics(model: AdaptiveClassifier) -> list[Any]:
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


# --- for every kind of model ----------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("n_rounds", [0, 1, 40])
def test_every_model_tells(parameters: dict[str, Any], n_rounds: int) -> None:
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
def test_reading_diagnostics_changes_nothing(parameters: dict[str, Any]) -> None:
    told, silent = (model_of(20, **parameters) for _ in range(2))
    for batch in drifting_batches(20, seed=4):
        read_diagnostics(told)
        told.adapt(batch)
        silent.adapt(batch)
    assert shown_state(told, PROBE) == shown_state(silent, PROBE)
    assert repr(read_diagnostics(told)) == repr(read_diagnostics(silent))


@pytest.mark.parametrize("n_classes", [3, 5])
def test_more_classes(n_classes: int) -> None:
    model = model_of(n_classes=n_classes)
    assert model.predict_set(PROBE).shape == (40, n_classes)
    assert 0.0 < model.risk_.adapted < 1.0


@pytest.mark.slow
def test_frames_and_pipelines() -> None:
    frame = customers(200, seed=0)
    y = np.where(frame["income"] + frame["age"].fillna(40.0) / 40.0 > 2.0, "buys", "leaves")
    from sklearn.pipeline import make_pipeline

    estimator = make_pipeline(customer_encoder(), LogisticRegression())
    model = AdaptiveClassifier(estimator, OnlineDensityRatio(customer_encoder())).fit(frame, y)
    for seed in range(48):
        batch = customers(8, seed=seed)
        model.adapt(batch.assign(income=4.0 * batch["income"]))
    assert model.drift_attribution_.argmax() == 1
    assert model.predict_set(frame[:5]).shape == (5, 2)
    assert not model.audit(frame, y).concept_changed
    assert {name for event in model.drift_events_ for name in event.features} <= {"age", "income", "city"}


# --- what it says ---------------------------------------------------------------------------------------------


def moved_stream(n_rounds: int = 300) -> GaussianStream:
    return GaussianStream(SquareShift(period=150), n_rounds=n_rounds, batch_size=5, n_reference=2000, random_state=2)


def test_the_columns_that_move_are_named() -> None:
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


@pytest.mark.parametrize(("order", "answer"), [(None, "not known"), (True, "yes")])
def test_a_stream_that_stands_still_has_no_events_and_its_estimate_is_believed_after_a_backtest(
    order: Any, answer: str
) -> None:
    stream = GaussianStream(ConstantShift(0.9), n_rounds=300, batch_size=5, n_reference=2000)
    model = AdaptiveClassifier().fit(*stream.reference(), order=order)
    for batch in stream:
        model.adapt(batch.X)
    assert model.drift_events_ == ()
    assert (model.trust_.inputs.answer, model.trust_.predictions.answer) == ("yes", answer)
    # The fixed model predicts, so nothing is known about adaptation.
    assert model.trust_.verdict == "not verified"


def test_rows_far_away_have_no_overlap() -> None:
    model = model_of(0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        model.adapt(rng.normal(12.0, 1.0, size=(5, 3)))
    assert model.trust_.verdict == "no overlap"
    assert model.trust_.share_out_of_bound > 0.9


def test_a_narrow_bound_does_not_hide_rows_far_away() -> None:
    model = model_of(0, ratio=OnlineDensityRatio(feature_bound=2.0))
    rng = np.random.default_rng(0)
    for _ in range(60):
        model.adapt(rng.normal(12.0, 1.0, size=(5, 3)))
    assert model.state_.ratio.share_of_reference_out > 0.2
    assert model.trust_.share_out_of_bound > 0.5


def test_after_a_jump_the_estimates_are_near_the_truth_and_the_sets_cover() -> None:
    stream = moved_stream()
    model = AdaptiveClassifier().fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    risk = model.risk_
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


def test_smaller_alpha_gives_larger_sets() -> None:
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
def test_a_set_has_the_predicted_class(estimator: Any, n_classes: int, n_rounds: int, alpha: float, seed: int) -> None:
    """Where a model is right more often than asked for, the quantile alone leaves sets empty."""
    X, _ = labelled_rows(n_rows=150, seed=seed)
    y = np.digitize(X[:, 0], [0.0, 1.0][: n_classes - 1])
    model = play(AdaptiveClassifier(estimator).fit(X, y + 5), drifting_batches(n_rounds, seed=seed))
    sets, predicted = model.predict_set(PROBE, alpha=alpha), model.predict(PROBE)
    assert np.all(sets[model.classes_ == predicted[:, None]])
    assert sets.any(axis=1).all()


def test_history_is_the_mean_interval_length() -> None:
    model = model_of(40)
    ratio = model.ratio_
    assert model.history_in_use_ == pytest.approx(ratio.learner_weights_ @ ratio.learner_lengths_)
    assert model_of(2).history_in_use_ == 0.0
    assert model_of(7, ratio=SingleLearnerRatio()).history_in_use_ == 7.0
    assert model_of(7, ratio=NoShift()).history_in_use_ == 0.0


def test_an_audit_never_learns() -> None:
    audited, other = model_of(20), model_of(20)
    audited.audit(PROBE, np.zeros(len(PROBE), dtype=int))
    assert shown_state(audited, PROBE) == shown_state(other, PROBE)


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 2.0, float("nan"), "a", None, True])
def test_alpha_out_of_range(alpha: Any) -> None:
    with pytest.raises(ParameterError, match="alpha must be"):
        model_of(4).predict_set(PROBE, alpha=alpha)


def test_no_rows() -> None:
    model = model_of(4)
    assert model.predict_set(PROBE[:0]).shape == (0, 2)
    with pytest.raises(DataError, match="at least one labelled row"):
        model.audit(PROBE[:0], [])


def test_labels_of_unknown_classes_and_of_another_number() -> None:
    model = model_of(4)
    with pytest.raises(DataError, match=r"y holds the label 7, which the reference does not: use \[0, 1\]"):
        model.audit(PROBE[:2], [0, 7])
    with pytest.raises(DataError, match="X has 3 rows but y has 2 labels"):
        model.audit(PROBE[:3], [0, 1])


def test_too_few_rows_of_a_class() -> None:
    X, _ = labelled_rows(n_rows=30)
    model = AdaptiveClassifier().fit(X, np.arange(30) == 0)
    assert np.isnan(model.risk_.adapted)
    for ask in (lambda: model.predict_set(PROBE), lambda: model.audit(PROBE, np.ones(len(PROBE), dtype=bool))):
        with pytest.raises(DataError, match="more rows of every class"):
            ask()


def test_sets_need_probabilities() -> None:
    model = AdaptiveClassifier(Perceptron()).fit(*labelled_rows())
    with pytest.raises(ParameterError, match="predict_proba"):
        model.predict_set(PROBE)


def test_before_fit() -> None:
    for ask in (lambda m: m.trust_, lambda m: m.risk_, lambda m: m.predict_set(PROBE), lambda m: m.audit(PROBE, [])):
        with pytest.raises(Exception, match="fit"):
            ask(AdaptiveClassifier())


# --- saved and resumed ----------------------------------------------------------------------------------------


def test_all_of_it_is_saved_and_resumed(tmp_path: Any) -> None:
    stream = list(moved_stream(200))
    model = AdaptiveClassifier().fit(*moved_stream().reference())
    for batch in stream[:170]:
        model.adapt(batch.X)
    accous.save(model, tmp_path)
    resumed = accous.load(tmp_path)
    for batch in stream[170:]:
        assert resumed.trust_ == model.trust_
        assert resumed.risk_ == model.risk_
        assert resumed.drift_events_ == model.drift_events_
        assert resumed.drift_attribution_.tobytes() == model.drift_attribution_.tobytes()
        model.adapt(batch.X)
        resumed.adapt(batch.X)
    assert model.drift_events_


def test_plots_are_the_only_thing_that_needs_matplotlib(library_forks: ForkServer) -> None:
    modules = "accous.model.snapshot, accous.diagnostics.plots"
    code = f"import sys; import {modules}; sys.exit('matplotlib' in sys.modules)"
    library_forks.run(code, kind="code")
