"""Ratios of the user's own join the pool: estimators that learn with it, and functions that stay."""

import pickle
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from accous import ULSIF, AdaptiveClassifier, LogisticRatio, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.core.pool import N_SHAPES
from accous.exceptions import ParameterError
from accous.streams import GaussianStream, SquareShift
from tests.oracles import PlainFilters, plain_likelihoods, plain_pooled

NORMAL = np.random.default_rng(0).normal(size=(200, 2))


def tilted(X: Any) -> Any:
    """A ratio that is not scaled to mean 1."""
    return 3.0 * np.exp(X[:, 0])


def batches(n_rounds: int, place: float = 1.0, n_rows: int = 3, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal((place, 0.0), size=(n_rounds, n_rows, 2))


def played(candidates: Any, n_rounds: int = 40, **parameters: Any) -> OnlineDensityRatio:
    ratio = OnlineDensityRatio(candidates=candidates, **parameters).fit(NORMAL)
    for batch in batches(n_rounds):
        ratio.partial_fit(batch)
    return ratio


def test_rounds_are_those_of_the_equations() -> None:
    """A slow pool: every candidate's ratio of every row, divided by its mean over the reference."""
    ratio, alone = OnlineDensityRatio(candidates=[tilted, ULSIF()], memory=2).fit(NORMAL), ULSIF().fit(NORMAL)
    filters, prior = None, np.array([0.5, *[0.25 / 11] * 11, 0.0, 0.0, 0.125, 0.125])
    for batch in batches(8, n_rows=4):
        before, state = alone.predict_ratio(NORMAL), ratio.pool_
        given = [tilted(batch) / tilted(NORMAL).mean(), alone.predict_ratio(batch) / before.mean()]
        if filters is None:
            filters = PlainFilters([0.2] * 5, [prior.tolist()] * 3, [[0.0] * 16] * 2)
        batch_ratios = np.exp(-(ratio.features_.transform(batch)[0] @ ratio.coef_))
        no_slots = np.zeros((2, 4)), np.zeros((2, N_SHAPES))
        filters = filters.after(prior, plain_likelihoods(batch_ratios, 100.0, state.means, *no_slots, given))
        ratio.partial_fit(batch)
        alone.partial_fit(batch)
        estimate = np.exp(-(ratio.reference_features_ @ ratio.coef_))
        rows = [tilted(NORMAL) / tilted(NORMAL).mean(), alone.reference_ratio_ / alone.reference_ratio_.mean()]
        expected = plain_pooled(estimate, 100.0, filters.proportions(prior), [np.zeros(200), np.zeros(200), *rows])
        np.testing.assert_allclose(ratio.reference_ratio_, np.minimum(expected, 100.0), rtol=1e-9)
        np.testing.assert_allclose(ratio.candidate_shares_, filters.proportions(prior)[-2:], rtol=1e-9)


def test_the_true_ratio_joins_and_wins() -> None:
    stream = GaussianStream(SquareShift(period=100), n_rounds=190, n_reference=500)
    parts = [partial(stream.true_ratio, alpha=alpha) for alpha in (0.0, 1.0)]
    X, _ = stream.reference()
    ratio, alone = OnlineDensityRatio(candidates=parts).fit(X), OnlineDensityRatio().fit(X)
    errors = []
    for batch in stream:
        truth = stream.reference_ratio(batch.alpha)
        errors.append([np.abs(each.reference_ratio_ - truth).mean() for each in (ratio, alone)])
        if batch.round in (100, 190):
            assert ratio.candidate_shares_[int(batch.alpha)] > 0.8
        for each in (ratio, alone):
            each.partial_fit(batch.X)
    mine, without = np.mean(errors, axis=0)
    assert mine < 0.5 * without


def test_a_one_step_estimator_joins_and_wins_where_no_log_linear_ratio_is_right() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(300, 1))
    given = [ULSIF(feature_map="identity"), NoShift()]
    ratio = OnlineDensityRatio(candidates=given).fit(reference)
    alone = OnlineDensityRatio().fit(reference)
    for _ in range(15):
        for each, rows in zip((ratio, alone), [0.4 * rng.normal(size=(150, 1))] * 2, strict=True):
            each.partial_fit(rows)
    assert ratio.candidate_shares_[0] > 0.8
    truth = np.exp(0.5 * reference[:, 0] ** 2 - 0.5 * (reference[:, 0] / 0.4) ** 2) / 0.4
    assert np.abs(ratio.reference_ratio_ - truth).mean() < 0.5 * np.abs(alone.reference_ratio_ - truth).mean()


def test_candidates_that_explain_nothing_lose_their_share() -> None:
    ratio = played([lambda X: np.exp(-2.0 * X[:, 0]), tilted])
    assert ratio.candidate_shares_[0] < 0.01
    assert ratio.candidate_shares_[1] > 0.3


def test_without_candidates_nothing_changes() -> None:
    default, empty = played(None), played([])
    assert default.reference_ratio_.tobytes() == empty.reference_ratio_.tobytes()
    assert len(default.pool_.proportions) == N_SHAPES + 4
    assert default.candidate_shares_.shape == empty.candidate_shares_.shape == (0,)
    # The ensemble learns the same with them.
    assert played([tilted]).coef_.tobytes() == default.coef_.tobytes()


@pytest.mark.parametrize("n_rounds", [0, 1, 40])
def test_ratios_of_the_reference_are_those_of_its_rows(n_rounds: int) -> None:
    ratio = played([tilted, LogisticRatio(), OnlineDensityRatio(feature_map="rbf", random_state=0)], n_rounds)
    np.testing.assert_allclose(ratio.predict_ratio(NORMAL), ratio.reference_ratio_, rtol=1e-9)
    assert ratio.pool_.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
    assert ratio.predict_ratio(NORMAL[:0]).shape == (0,)


def test_the_learners_are_pooled_with_them() -> None:
    ratios, weights = played([tilted]).learner_ratios()
    assert ratios.shape == (len(weights), 200)
    np.testing.assert_allclose(ratios.mean(axis=1), 1.0, rtol=1e-9)


def test_what_was_given_is_cloned_and_a_fitted_one_joins_as_its_function() -> None:
    given, fitted = ULSIF(), SingleLearnerRatio().fit(NORMAL)
    for batch in batches(30):
        fitted.partial_fit(batch)
    before = fitted.coef_
    ratio = played([given, fitted.predict_ratio], 20)
    assert "reference_" not in vars(given)
    assert fitted.n_rounds_ == 30
    assert fitted.coef_.tobytes() == before.tobytes()
    assert ratio.candidate_shares_[1] > ratio.candidate_shares_[0]
    copied = clone(ratio)
    assert copied.candidates[0] is not given
    assert copied.fit(NORMAL).candidate_shares_.tolist() == [0.125, 0.125]


def test_a_copy_learns_on_its_own() -> None:
    ratio = played([ULSIF(), tilted], 5)
    before = ratio.reference_ratio_.copy()
    copy(ratio).partial_fit(NORMAL[:4] + 2.0)
    assert ratio.reference_ratio_.tobytes() == before.tobytes()
    assert ratio.predict_ratio(NORMAL) == pytest.approx(before, rel=1e-9)


def test_a_candidate_that_fails_leaves_the_round_before() -> None:
    def fails_far_out(X: Any) -> Any:
        return np.where(X[:, 0] > 50.0, np.nan, 1.0)

    ratio = played([ULSIF(), fails_far_out], 5)
    before = ratio.reference_ratio_.copy()
    with pytest.raises(ParameterError, match=r"candidates\[1\] returned nan for row 1: return a finite ratio"):
        ratio.partial_fit([[0.0, 0.0], [99.0, 0.0]])
    assert ratio.n_rounds_ == 5
    assert ratio.reference_ratio_.tobytes() == before.tobytes()


def test_a_ratio_of_zero_everywhere_counts_as_one() -> None:
    ratio = played([lambda X: np.zeros(len(X))], 5)
    np.testing.assert_allclose(ratio.predict_ratio(NORMAL), ratio.reference_ratio_, rtol=1e-9)
    assert np.isfinite(ratio.reference_ratio_).all()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"candidates": ULSIF()}, "candidates must be a list"),
        ({"candidates": [ULSIF]}, r"candidates\[0\] is a class: pass an instance, ULSIF\(\)"),
        ({"candidates": [tilted, 2.0]}, r"candidates\[1\] must be a ratio estimator or a function"),
        ({"candidates": [lambda X: X]}, r"candidates\[0\] returned the shape \(200, 2\) for 200 rows"),
        ({"candidates": [lambda X: X[:, 0]]}, r"candidates\[0\] returned -.* for row"),
        ({"candidates": [tilted], "pool": "none"}, "candidates join the pool"),
        ({"candidates": [tilted], "horizon": 10}, "candidates join the pool"),
    ],
    ids=["no list", "a class", "a number", "two columns", "negative", "no pool", "a horizon"],
)
def test_what_cannot_join_is_refused(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        OnlineDensityRatio(**parameters).fit(NORMAL)


def test_a_classifier_uses_them_and_its_reference_can_grow() -> None:
    rng = np.random.default_rng(2)
    y = (NORMAL[:, 1] > 0.3 * NORMAL[:, 0] ** 2).astype(int)
    model = AdaptiveClassifier(ratio=OnlineDensityRatio(candidates=[tilted, LogisticRatio()])).fit(NORMAL, y)
    for batch in batches(40):
        model.adapt(batch)
    shares = model.ratio_.candidate_shares_
    assert shares[0] > 0.3
    X = rng.normal(size=(30, 2))
    model.extend(X, (X[:, 1] > 0.0).astype(int))
    assert model.ratio_.reference_ratio_.shape == (230,)
    np.testing.assert_array_equal(model.ratio_.candidate_shares_, shares)
    model.adapt(batches(1)[0])
    assert np.isfinite(model.reference_weight_).all()


def test_a_pickled_ratio_goes_on_with_the_same_bits() -> None:
    ratio = played([tilted, ULSIF()], 10)
    other = pickle.loads(pickle.dumps(ratio))
    for batch in batches(5, seed=3):
        assert (
            other.partial_fit(batch).reference_ratio_.tobytes() == ratio.partial_fit(batch).reference_ratio_.tobytes()
        )
