"""Without the fallback the classifier is the paper's method, bit for bit: its ratio, its weights, its minimiser."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, OnlineDensityRatio
from tests.classifiers import PROBE, drifting_batches, labelled_rows, play, shown_state
from tests.ratio.online_cases import paper_oracle, paper_settings

N_ROUNDS = 70


@pytest.mark.parametrize("has_base", [False, True])
def test_every_round_is_ratio_weights_and_minimiser(has_base: bool) -> None:
    X, y = labelled_rows()
    base = np.linspace(0.5, 1.5, len(X)) if has_base else None
    model = AdaptiveClassifier(fallback="none", refit="always").fit(X, y, sample_weight=base)
    assert model.ratio_.pool == "none"
    ratio, predictor = OnlineDensityRatio(pool="none").fit(X), model.estimator_
    b = model.base_weight_
    for batch in drifting_batches(N_ROUNDS):
        ratio.partial_fit(batch)
        model.adapt(batch)
        assert model.ratio_.reference_ratio_.tobytes() == ratio.reference_ratio_.tobytes()
        weights = model.reference_weight_
        expected = b * ratio.reference_ratio_
        np.testing.assert_allclose(weights, expected * (b.sum() / expected.sum()), rtol=1e-12)
        # No shrinkage, no veto: the minimiser for these weights makes the predictions.
        assert model.state_.fitted_weights.tobytes() == weights.tobytes()
        predictor = model.erm_.fit(weights, predictor)
        assert model.estimator_.coef_.tobytes() == predictor.coef_.tobytes()
    assert model.n_refits_ == N_ROUNDS
    assert np.abs(weights - b).max() > 0.1


def test_in_the_papers_settings_the_ratio_is_algorithms_1_and_2() -> None:
    settings = paper_settings()
    X, y = labelled_rows(n_rows=40)
    model = AdaptiveClassifier(ratio=OnlineDensityRatio(**settings), fallback="none", refit="always").fit(X, y)
    assert model.ratio_.pool_ is None
    oracle = paper_oracle(X, settings)
    for batch in drifting_batches(40):
        model.adapt(batch)
        oracle.run(batch)
        ratios = np.minimum(np.exp(-X @ oracle.theta), 100.0)
        np.testing.assert_allclose(model.reference_weight_, ratios / ratios.mean(), rtol=1e-8)


@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["built-in", "user's"])
@pytest.mark.parametrize(
    "settings",
    [{"horizon": 70}, {"meta_range": "paper"}, {"scale_features": False, "step_size": 1.0}],
    ids=["horizon", "meta range", "unscaled"],
)
def test_settings_of_the_paper_have_no_pool(settings: dict[str, Any], estimator: Any) -> None:
    X, y = labelled_rows()
    auto, none = (
        play(
            AdaptiveClassifier(estimator, OnlineDensityRatio(pool=pool, **settings), fallback="none").fit(X, y),
            drifting_batches(30),
        )
        for pool in ("auto", "none")
    )
    assert auto.ratio_.pool_ is None
    assert shown_state(auto, PROBE) == shown_state(none, PROBE)


def test_the_pool_leaves_theta_and_learners_alone() -> None:
    X, y = labelled_rows()
    auto, none = (
        play(AdaptiveClassifier(fallback=fallback).fit(X, y), drifting_batches(N_ROUNDS))
        for fallback in ("auto", "none")
    )
    assert auto.ratio_.pool_ is not None
    assert auto.ratio_.coef_.tobytes() == none.ratio_.coef_.tobytes()
    assert auto.ratio_.learner_coefs_.tobytes() == none.ratio_.learner_coefs_.tobytes()
    assert auto.ratio_.estimated_ratios().tobytes() == none.ratio_.reference_ratio_.tobytes()
    assert auto.reference_weight_.tobytes() != none.reference_weight_.tobytes()
