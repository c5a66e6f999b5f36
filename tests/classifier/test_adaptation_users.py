"""AdaptiveClassifier and what users do with it: objects that write or pass on, empty batches, single rows, haste."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import DataError, ParameterError
from accous.streams import GaussianStream, SquareShift
from tests.budgets import rest_slow


def short_stream() -> GaussianStream:
    return GaussianStream(SquareShift(period=5), n_rounds=8, n_reference=60, n_features=3)


@pytest.mark.parametrize("fallback", rest_slow(["auto", "none"]))
def test_estimators_that_pass_weights_on_are_taken(fallback: str) -> None:
    stream = GaussianStream(SquareShift(period=5), n_rounds=8, batch_size=20, n_reference=60, n_features=3)
    X, y = stream.reference()
    voting = VotingClassifier([("tree", DecisionTreeClassifier(max_depth=2)), ("line", LogisticRegression())])
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    for estimator in (voting, search):
        model = AdaptiveClassifier(estimator, refit="always", fallback=fallback).fit(X, y)
        for batch in stream:
            model.adapt(batch.X)
        weights = model.state_.fitted_weights
        assert np.ptp(weights) > 0.5
        assert fallback == "auto" or np.array_equal(weights, model.reference_weight_)
        by_hand = clone(estimator).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(model.state_.estimator.predict(X), by_hand.predict(X))
        assert model.trust_.is_vetoed or model.estimator_ is model.state_.estimator


def test_one_that_passes_weights_on_to_one_without_is_refused() -> None:
    voting = VotingClassifier([("near", KNeighborsClassifier()), ("line", LogisticRegression())])
    with pytest.raises(ParameterError, match="VotingClassifier does not"):
        AdaptiveClassifier(voting).fit(np.eye(4), [0, 1, 0, 1])


def test_an_estimator_that_writes_into_its_input_does_no_harm() -> None:
    stream = short_stream()
    X, y = stream.reference()
    answers = []
    for is_copying in (True, False):
        scaling = StandardScaler(copy=is_copying)
        ratio = OnlineDensityRatio(feature_map=StandardScaler(copy=is_copying))
        model = AdaptiveClassifier(make_pipeline(scaling, LogisticRegression()), ratio, refit="always").fit(X, y)
        for batch in stream:
            model.adapt(batch.X.copy())
        answers.append((model.predict_proba(X.copy()).tobytes(), model.ratio_.coef_.tobytes()))
        np.testing.assert_array_equal(model.reference_, X)
    assert answers[0] == answers[1]


def test_writing_into_what_is_shown_changes_nothing() -> None:
    stream = short_stream()
    model = AdaptiveClassifier().fit(*stream.reference())
    untouched = AdaptiveClassifier().fit(*stream.reference())
    for batch in stream:
        weights, theta = model.reference_weight_, model.ratio_.coef_
        weights /= 1000.0
        theta += 7.0
        model.adapt(batch.X)
        untouched.adapt(batch.X)
    assert model.predict_proba(batch.X).tobytes() == untouched.predict_proba(batch.X).tobytes()


def test_no_rows_in_nothing_out() -> None:
    X, y = np.eye(6)[:, :3], [0, 1, 2] * 2
    none = np.empty((0, 3))
    for estimator in (None, LogisticRegression(), DecisionTreeClassifier()):
        model = AdaptiveClassifier(estimator).fit(X, y)
        assert model.predict(none).shape == (0,)
        assert model.predict(none).dtype == model.classes_.dtype
        assert model.predict_proba(none).shape == (0, 3)
        if hasattr(model, "decision_function"):
            assert model.decision_function(none).shape == (0, 3)


def test_a_row_far_out_has_finite_probabilities() -> None:
    model = AdaptiveClassifier().fit(np.eye(6)[:, :3], [0, 1] * 3)
    assert np.all(np.isfinite(model.predict_proba(np.array([[1e308, -1e308, 1e308]]))))


@pytest.mark.parametrize(
    "name", ["risk_estimate_", "effective_sample_size_", "n_rounds_", "ratio_", "reference_weight_"]
)
def test_a_learned_attribute_before_fit_says_that_fit_is_missing(name: str) -> None:
    with pytest.raises(NotFittedError, match=f"no {name} yet: call fit"):
        getattr(AdaptiveClassifier(), name)
    assert not hasattr(AdaptiveClassifier(), name)


def test_the_error_for_a_single_row_of_a_frame_says_how_to_reshape_it() -> None:
    frame = pd.DataFrame(np.eye(6)[:, :3], columns=list("abc"))
    model = AdaptiveClassifier().fit(frame, [0, 1] * 3)
    with pytest.raises(DataError, match=r"frame\.iloc\[\[0\]\]"):
        model.adapt(frame.iloc[0])


def test_every_reader_sees_ratio_and_predictor_of_the_same_round() -> None:
    """Also while the predictor is being fitted, which is when the two could come apart."""
    stream = short_stream()
    seen = []

    class Watching(LogisticRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            if hasattr(model, "state_"):
                seen.append(model.n_rounds_ - model.ratio_.n_rounds_)
            return super().fit(X, y, sample_weight)

    model = AdaptiveClassifier(Watching(), refit="always", fallback="none")
    model.fit(*stream.reference())
    seen.clear()
    for batch in stream:
        model.adapt(batch.X)
    assert seen == [0] * 8
