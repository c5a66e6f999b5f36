"""AdaptiveClassifier's estimate of its risk: when it is computed, when it is unknown, how near the truth it is."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from accous import AdaptiveClassifier
from accous.streams import ConstantShift, GaussianStream, Shift
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    Array,
    Labels,
    LinearTilt,
    drifting_batches,
    labelled_rows,
    play,
    played,
    shown_state,
    tilt,
)

each_n_classes = pytest.mark.parametrize("n_classes", [2, 4])


def count_cross_fits(model: AdaptiveClassifier, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one entry with every cross-fit from now on."""
    calls: list[int] = []
    cross_fitted = model.erm_.cross_fitted

    def counted(*arguments: Any) -> Any:
        calls.append(model.n_rounds_)
        return cross_fitted(*arguments)

    monkeypatch.setattr(model.erm_, "cross_fitted", counted)
    return calls


@pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["ours", "foreign"])
def test_the_risk_is_computed_once_per_round_and_only_when_read(
    estimator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_reading_the_risk_changes_nothing_else() -> None:
    read, unread = played(6), played(6)
    for batch in drifting_batches(6, seed=3):
        assert read.risk_estimate_ > 0.0
        read.adapt(batch)
        unread.adapt(batch)
    assert shown_state(read, PROBE) == shown_state(unread, PROBE)


def test_between_refits_the_risk_follows_the_weights() -> None:
    X, y = labelled_rows(n_rows=300)
    y = np.where(X[:, 0] > 0.5, 1 - y, y)  # wrong on the right
    model = AdaptiveClassifier(ratio=LinearTilt(), refit=100).fit(X, y)
    to_the_right = model.adapt(tilt(0.0, 1.0)).risk_estimate_
    to_the_left = model.adapt(tilt(0.0, -1.0)).risk_estimate_
    assert model.n_refits_ == 0
    assert to_the_left < to_the_right - 0.1


def exact_leave_one_out_error(model: AdaptiveClassifier, X: Array, y: Labels) -> float:
    weights, is_wrong = model.reference_weight_, []
    for i in range(len(X)):
        without = weights.copy()
        without[i] = 0.0
        fitted = LogisticRegression(C=model.C, solver="newton-cholesky").fit(X, y, sample_weight=without)
        is_wrong.append(fitted.predict(X[i : i + 1])[0] != y[i])
    return float(np.average(is_wrong, weights=weights))


@each_n_classes
def test_our_own_risk_is_nearly_that_of_leaving_out_every_row(n_classes: int) -> None:
    X, y = labelled_rows(n_rows=80, n_features=8, n_classes=n_classes)
    model = AdaptiveClassifier(refit="always").fit(X, y)
    play(model, drifting_batches(20, n_features=8))
    # A single row that is predicted otherwise counts by its weight, which is at most a few percent of all.
    largest = float(model.reference_weight_.max() / model.reference_weight_.sum())
    assert largest < 0.1
    assert model.risk_estimate_ == pytest.approx(exact_leave_one_out_error(model, X, y), abs=max(0.03, largest))


def rare_class(n_rows: int, n_rare: int) -> tuple[Array, Labels]:
    X, _ = labelled_rows(n_rows=n_rows)
    return X, np.array(["rare"] * n_rare + ["common"] * (n_rows - n_rare))


@pytest.mark.parametrize(("estimator", "n_needed"), [(None, 2), (LogisticRegression(), 5)], ids=["ours", "foreign"])
def test_the_risk_is_unknown_where_a_class_has_too_few_rows(estimator: Any, n_needed: int) -> None:
    for n_rare in range(1, 7):
        model = play(AdaptiveClassifier(estimator).fit(*rare_class(40, n_rare)), drifting_batches(6))
        assert np.isnan(model.risk_estimate_) == (n_rare < n_needed)


def risks_after_rounds(stream: GaussianStream, **parameters: Any) -> tuple[float, float, float]:
    """The estimate, the error on the reference itself with the same weights, and the truth."""
    X, y = stream.reference()
    model = AdaptiveClassifier(**parameters).fit(X, y)
    for batch in stream:
        model.adapt(batch.X)
    naive = float(np.average(model.predict(X) != y, weights=model.reference_weight_))
    return model.risk_estimate_, naive, stream.risk(model, batch.alpha)


def mean_risks(estimator: Any, shift: Shift, **stream: Any) -> Array:
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
def test_the_risk_is_near_the_truth_on_a_moved_stream(alpha: float, estimator: Any) -> None:
    shape = {"n_reference": 2000, "alpha_0": 0.7, "n_rounds": 40, "batch_size": 10}
    estimated, _, true = mean_risks(estimator, ConstantShift(alpha), **shape)
    assert estimated == pytest.approx(true, abs=0.02)


@pytest.mark.parametrize("estimator", rest_slow([None, LogisticRegression()]), ids=["ours", "foreign"])
def test_the_risk_is_not_optimistic_on_a_small_wide_reference(estimator: Any) -> None:
    shape = {"n_reference": 60, "n_features": 20, "alpha_0": 0.5, "n_rounds": 40, "batch_size": 10}
    estimated, naive, true = mean_risks(estimator, ConstantShift(1.0), **shape)
    assert naive < true - 0.15
    assert estimated == pytest.approx(true, abs=0.05)
