"""Disagreement between the halves of the reference, for the user's own estimators too."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from accous import AdaptiveClassifier, OnlineDensityRatio
from tests.classifiers import customer_encoder, customers

N_ROWS = 600


def rows(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n_rows) > 0.0).astype(int)


def turned_round():
    """P(y | x) turns round in the middle."""
    X, y = rows()
    return X, np.where(np.arange(N_ROWS) < N_ROWS // 2, y, 1 - y)


def played(model, seed=5):
    for batch in np.split(rows(200, seed=seed)[0], 20):
        model.adapt(batch)
    return model


@pytest.mark.parametrize("estimator", [GaussianNB(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_it_is_that_of_fits_on_the_halves_on_recent_rows(estimator):
    X, y = turned_round()
    model = played(AdaptiveClassifier(estimator).fit(X, y, order=True))
    recent = model.state_.recent.last()
    halves = np.array_split(np.arange(N_ROWS), 2)
    first, second = (clone(estimator).fit(X[part], y[part]) for part in halves)
    expected = np.mean(first.predict(recent) != second.predict(recent))
    assert expected > 0.8
    assert model._disagreement(model.state_) == pytest.approx(expected)


def test_the_interval_is_as_wide_as_the_halves_disagree():
    """Both references drift as little, and both backtests are left out: only the halves differ."""
    wide, narrow = (AdaptiveClassifier(GaussianNB()).fit(X, y, order=True) for X, y in (turned_round(), rows()))
    for model in (wide, narrow):
        model.backtest_ = None
        played(model)
    low, high = (model.risk_.fixed_high - model.sampling_risk().fixed_high for model in (narrow, wide))
    assert low < 0.2
    assert high > 0.25


@pytest.mark.slow
def test_frames_are_compared_on_the_weighted_reference():
    frame = customers(400, seed=0)
    y = (frame["income"] > 1.0).to_numpy().astype(int)
    y = np.where(np.arange(len(y)) < len(y) // 2, y, 1 - y)
    pipeline = make_pipeline(customer_encoder(), LogisticRegression())
    model = AdaptiveClassifier(pipeline, ratio=OnlineDensityRatio(customer_encoder()))
    model.fit(frame, y, order=True)
    assert np.isnan(model._disagreement(model.state_))  # no recent rows yet
    model.adapt(frame[:50])
    first, second = (
        clone(pipeline).fit(frame[part], y[part]) for part in (slice(0, len(y) // 2), slice(len(y) // 2, len(y)))
    )
    differ = first.predict(frame) != second.predict(frame)
    expected = np.average(differ, weights=model.reference_weight_)
    assert expected > 0.3
    assert model._disagreement(model.state_) == pytest.approx(expected)


def test_the_halves_are_fitted_once_by_fit():
    fits = []

    class Counted(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(X))
            return super().fit(X, y, sample_weight)

    model = AdaptiveClassifier(Counted(max_depth=3)).fit(*rows(300), order=True)
    assert fits[-2:] == [150, 150]
    n_fits = len(fits)
    model.adapt(rows(10, seed=5)[0])
    assert np.isfinite([model._disagreement(model.state_) for _ in range(3)]).all()
    assert len(fits) == n_fits


def test_base_weights_count_in_the_halves():
    X, y = rows()
    is_turned = np.arange(N_ROWS) % 2 == 0
    labels = np.where((np.arange(N_ROWS) >= N_ROWS // 2) & is_turned, 1 - y, y)
    weights = np.where(is_turned, 1e-6, 1.0)
    for estimator in (None, GaussianNB()):
        plain, weighted = (
            AdaptiveClassifier(estimator).fit(X, labels, sample_weight=each, order=True).halves_
            for each in (None, weights)
        )
        assert weighted.disagreement(X) < plain.disagreement(X)


def test_an_estimator_that_fails_on_a_half_leaves_it_unknown():
    class NeverHalf(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            if len(X) == N_ROWS // 2:
                raise ValueError("not a half")
            return super().fit(X, y, sample_weight)

    model = AdaptiveClassifier(NeverHalf(), fallback="none").fit(*rows(), order=True)
    assert np.isnan(model.halves_.disagreement(rows(10)[0]))
    assert np.isnan(model.halves_.disagreement_on_reference(np.ones(N_ROWS)))


def test_it_survives_a_pickle():
    model = played(AdaptiveClassifier(GaussianNB()).fit(*turned_round(), order=True))
    again = pickle.loads(pickle.dumps(model))
    assert again._disagreement(again.state_) == model._disagreement(model.state_)
