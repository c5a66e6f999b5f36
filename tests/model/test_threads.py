"""Every reader sees one whole round: while another thread adapts, and after a call that failed."""

from dataclasses import replace
from functools import partial
from threading import Thread

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.streams import GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    FailingClassifier,
    after_rounds,
    drifting_batches,
    labelled_rows,
    run_rounds,
    shown_state,
)
from tests.waiting import asking

each_kind = pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["ours", "foreign"])


# --- what a failed call leaves behind -----------------------------------------------------------------------


BAD_BATCHES = {
    "missing value": (np.array([[0.0, np.nan, 0.0]]), "Column 1 holds NaN in row 0"),
    "infinity": (np.array([[0.0, 0.0, 0.0], [0.0, 0.0, np.inf]]), r"Column 2 holds inf.* in row 1"),
    "too few columns": (np.zeros((2, 2)), r"2 features.* 3 features"),
    "too many columns": (np.zeros((2, 4)), r"4 features.* 3 features"),
    "one dimension": (np.zeros(3), "(?i)reshape your data"),
    "text": (np.array([["a", "b", "c"]]), "Column 0"),
}


@each_kind
@pytest.mark.parametrize(
    "to_input", [np.asarray, partial(pd.DataFrame, columns=["a", "b", "c"])], ids=["array", "frame"]
)
def test_bad_and_empty_batches_leave_everything_as_it_was(estimator, to_input):
    X, y = labelled_rows()
    model = AdaptiveClassifier(estimator, refit="always").fit(to_input(X), y)
    run_rounds(model, map(to_input, drifting_batches(9)))
    before = shown_state(model, to_input(PROBE))
    assert model.adapt(to_input(PROBE)[:0]) is model
    if to_input is np.asarray:
        for batch, message in BAD_BATCHES.values():
            # A foreign estimator predicts before the rows are read.
            for method in (model.adapt, *([model.step] if estimator is None else [])):
                with pytest.raises(ValueError, match=message):
                    method(batch)
    assert shown_state(model, to_input(PROBE)) == before
    assert model.adapt(to_input(PROBE[:2])).n_rounds_ == 10


class FailingMap(TransformerMixin, BaseEstimator):
    """The identity; raises the error it is told to."""

    error = None

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        if FailingMap.error is not None:
            raise FailingMap.error("told to fail")
        return X


each_error = pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError], ids=lambda e: e.__name__)


@each_error
@pytest.mark.parametrize("method", ["adapt", "step"])
@pytest.mark.parametrize("n_rows", [1, 5])
def test_a_failed_refit_leaves_the_round_before_and_the_next_goes_on(error, n_rows, method):
    X, y = labelled_rows()
    batches = drifting_batches(12, n_rows=n_rows)
    FailingClassifier.fail_at()
    model = AdaptiveClassifier(FailingClassifier(), refit="always", adaptation="always").fit(X, y)
    FailingClassifier.fail_at(8, error=error)  # one fit per round
    run_rounds(model, batches[:7])
    before = run_rounds(AdaptiveClassifier(GaussianNB(), refit="always", adaptation="always").fit(X, y), batches[:7])
    estimator = model.estimator_
    with pytest.raises(error, match="told to fail"):
        getattr(model, method)(batches[7])
    assert model.estimator_ is estimator
    assert shown_state(model, PROBE) == shown_state(before, PROBE)
    assert shown_state(run_rounds(model, batches[7:]), PROBE) == shown_state(run_rounds(before, batches[7:]), PROBE)


@each_error
def test_a_failed_ratio_leaves_the_round_before_and_the_next_goes_on(error, monkeypatch):
    model, twin = (after_rounds(7, ratio=OnlineDensityRatio(FailingMap()), refit="always") for _ in range(2))
    monkeypatch.setattr(FailingMap, "error", error)
    with pytest.raises(error, match="told to fail"):
        model.adapt(PROBE[:3])
    monkeypatch.undo()
    assert shown_state(model, PROBE) == shown_state(twin, PROBE)
    batches = drifting_batches(5, seed=2)
    assert shown_state(run_rounds(model, batches), PROBE) == shown_state(run_rounds(twin, batches), PROBE)


def test_a_failed_cross_fit_leaves_the_round_and_can_be_tried_again():
    FailingClassifier.fail_at()
    model = after_rounds(9, estimator=FailingClassifier(), refit="always")
    FailingClassifier.fail_at(1)  # without safeguards, nothing has been compared yet: the reading fits
    with pytest.raises(RuntimeError, match="told to fail"):
        model.performance()
    assert model.n_rounds_ == 9
    assert model.performance() == after_rounds(9, estimator=GaussianNB(), refit="always").performance()


BAD_FITS = {
    "refit": ({"refit": "never"}, labelled_rows()),
    "estimator": ({"estimator": KNeighborsClassifier()}, labelled_rows()),
    "ratio": ({"ratio": OnlineDensityRatio(ridge=-1.0)}, labelled_rows()),
    "one class": ({}, (np.zeros((5, 7)), np.zeros(5))),
    "too few labels": ({}, (np.zeros((5, 7)), [0, 1])),
    "missing value": ({}, (np.full((5, 7), np.nan), [0, 1, 0, 1, 0])),
}


@pytest.mark.parametrize(("changes", "data"), BAD_FITS.values(), ids=BAD_FITS)
def test_a_failed_fit_leaves_the_model_as_it_was(changes, data):
    new, model, twin = AdaptiveClassifier(**changes), after_rounds(6), after_rounds(6)
    for each in (new, model.set_params(**changes)):
        with pytest.raises(ValueError, match=r"\w"):
            each.fit(*data)
    for method in (new.predict, new.adapt):
        with pytest.raises(NotFittedError):
            method(PROBE)
    model.set_params(**AdaptiveClassifier(adaptation="always").get_params(deep=False))
    assert shown_state(model, PROBE) == shown_state(twin, PROBE)
    assert shown_state(run_rounds(model, drifting_batches(6)), PROBE) == shown_state(
        run_rounds(twin, drifting_batches(6)), PROBE
    )


# --- threads ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("eager_thread_switches")
@pytest.mark.parametrize("estimator", rest_slow([None, GaussianNB()]), ids=["ours", "foreign"])
def test_threads_that_ask_during_rounds_see_one_round_or_another_never_a_mixture(estimator):
    batches = drifting_batches(60)
    twin, model = (after_rounds(0, estimator=estimator, refit="always") for _ in range(2))
    of_rounds, risks, seen, seen_risks = [], [], set(), set()
    for batch in (PROBE[:0], *batches):
        of_rounds.append(twin.adapt(batch).predict_proba(PROBE).tobytes())
        risks.append(twin.performance().value)
    assert len(set(of_rounds)) > 50

    def ask():
        seen.add(model.predict_proba(PROBE).tobytes())
        seen_risks.add(model.performance().value)
        assert model.reference_weight_.shape == (120,)

    with asking(ask, n_threads=3) as wait_for_answers:
        for number, batch in enumerate(batches):
            if number % 6 == 0:
                wait_for_answers()
            model.adapt(batch)
    assert seen <= set(of_rounds)
    assert seen_risks <= set(risks)
    assert len(seen) > 5


def test_no_round_of_another_thread_comes_between_prediction_and_learning():
    others = []

    class Interrupted(GaussianNB):
        def predict(self, X):
            if len(X) == 7 and not others:
                others.append(Thread(target=model.adapt, args=(PROBE,)))
                others[0].start()
                others[0].join(0.2)
            return super().predict(X)

    model = AdaptiveClassifier(Interrupted(), adaptation="always").fit(*labelled_rows())
    model.step(PROBE[:7])
    others[0].join()
    assert model.history_["rows"].tolist() == [7, len(PROBE)]


def test_every_reader_sees_ratio_and_predictor_of_the_same_round():
    stream = GaussianStream(SquareShift(period=5), n_rounds=8, n_reference=60, n_features=3)
    seen = []

    class Watching(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            if hasattr(model, "state_"):
                seen.append(model.n_rounds_ - model.ratio_.n_rounds_)
            return super().fit(X, y, sample_weight)

    model = AdaptiveClassifier(Watching(), refit="always", adaptation="always")
    model.fit(*stream.reference())
    seen.clear()
    for batch in stream:
        model.adapt(batch.X)
    assert seen == [0] * 8


# --- every reading comes from one round, even if another thread adapts while it is computed -----------------


READINGS = ("status_", "performance", "drift_", "history_")


class Overtaken(AdaptiveClassifier):
    """Another thread finishes its rounds right after every read of the state."""

    @property
    def state_(self):
        attributes = vars(self)
        if "state_" not in attributes:
            raise AttributeError("state_")
        state = attributes["state_"]
        attributes["state_"] = attributes.get("next_state", state)
        return state

    @state_.setter
    def state_(self, state):
        vars(self)["state_"] = state


@pytest.fixture(scope="module")
def two_rounds():
    """A model and two of its states, far apart in what they show."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)
    model = Overtaken().fit(X, y, order=True)
    states = []
    for shift in (0.2, 1.5):
        for _ in range(64):
            batch = rng.normal(shift, size=(5, 3))
            model.adapt(batch)
        model.observe(batch, rng.integers(0, 2, size=5))
        states.append(model.state_)
    return model, *states


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_does_not_mix_two_rounds(two_rounds, name):
    model, before, after = two_rounds
    found = []
    for next_state in (before, after):
        vars(model).update(state_=replace(before), next_state=replace(next_state))
        reading = getattr(model, name)
        found.append(repr(reading() if callable(reading) else reading))
    vars(model).update(state_=replace(after), next_state=replace(after))
    assert found[0] == found[1]
    reading = getattr(model, name)
    assert repr(reading() if callable(reading) else reading) != found[0], "the two rounds are to differ"


def test_labels_keep_what_was_read_and_does_not_depend_on_them():
    X, y = labelled_rows()
    model = run_rounds(AdaptiveClassifier().fit(X, y), drifting_batches(5))
    drift, status = model.drift_, model.status_
    model.observe(X[:20], y[:20], learn=False)
    assert len(model.state_.labelled) == 20
    assert model.drift_ is drift
    assert model.status_ is not status
