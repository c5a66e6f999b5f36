"""The fallback: when it does nothing, when it holds the adaptation back, and that it does not cost real gains."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import accous
from accous import KLIEP, AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import ParameterError
from accous.model.safeguards import LENIENT, Veto, next_veto
from accous.streams import ConstantShift, GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import PROBE, drifting_batches, labelled_rows, play, shown_state


def stream_of(shift: Any, **changes: Any) -> GaussianStream:
    return GaussianStream(shift, **{"n_rounds": 400, "n_reference": 500, "batch_size": 2, "random_state": 1} | changes)


def mean_excess(stream: GaussianStream, **parameters: Any) -> float:
    """Points above the fixed model."""
    model = AdaptiveClassifier(**parameters).fit(*stream.reference())
    fixed, excess = model.estimator_, []
    for batch in stream:
        excess.append(stream.risk(model.estimator_, batch.alpha) - stream.risk(fixed, batch.alpha))
        model.adapt(batch.X)
    return 100.0 * float(np.mean(excess))


# --- what it does -------------------------------------------------------------------------------------------


def test_where_nothing_moves_almost_nothing_is_lost() -> None:
    stream = stream_of(ConstantShift(0.9))
    assert mean_excess(stream, fallback="none") > 0.1
    assert abs(mean_excess(stream)) < 0.05


def test_where_the_stream_moves_most_of_the_gain_is_kept() -> None:
    stream = stream_of(SquareShift(period=200), n_reference=1000)
    gain = -mean_excess(stream, fallback="none")
    assert gain > 2.0
    assert -mean_excess(stream) > 0.9 * gain


def test_with_no_shift_to_be_seen_the_fixed_predictor_answers() -> None:
    X, y = labelled_rows(n_rows=400)
    model = AdaptiveClassifier().fit(X, y)
    fixed = model.estimator_
    still = np.random.default_rng(0)
    exponents, distances = set(), []
    for _ in range(60):
        model.adapt(X[still.integers(len(X), size=5)])
        exponents.add(model.trust_.exponent)
        if model.trust_.exponent == 0.0:
            assert model.estimator_ is fixed
            distances.append(0.5 * np.abs(model.reference_weight_ - 1.0).mean())
            np.testing.assert_array_equal(model.state_.fitted_weights, np.ones(len(X)))
    assert len(distances) > 30
    assert max(distances) < 0.1


@pytest.mark.parametrize(("excess", "error", "is_held"), [(0.03, 0.01, True), (0.01, 0.01, False), (-0.1, 0.01, False)])
def test_the_veto_asks_for_one_and_a_half_standard_errors(excess: float, error: float, is_held: bool) -> None:
    assert next_veto(LENIENT, excess, error, 3, 2) == Veto(is_held, excess, error, 3, 2)


def test_where_nothing_can_be_compared_there_is_no_veto() -> None:
    assert not next_veto(LENIENT, float("nan"), float("nan"), 1, 1).is_held


class AlwaysWorse(GaussianNB):
    """Right while all weights are one, wrong with any others."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.is_right_ = sample_weight is None or np.ptp(sample_weight) == 0.0
        return super().fit(X, y)

    def predict(self, X: Any) -> Any:
        predicted = super().predict(X)
        return predicted if self.is_right_ else self.classes_[::-1][np.searchsorted(self.classes_, predicted)]


def test_a_predictor_that_adapts_for_the_worse_is_never_used_after_the_first_comparison() -> None:
    X, y = labelled_rows(n_rows=400)
    model = AdaptiveClassifier(AlwaysWorse(), refit=1).fit(X, y)
    fixed = model.predict(PROBE).tolist()
    for batch in drifting_batches(60, n_rows=8):
        model.adapt(batch)
        if model.state_.fallback.veto.n_refits:
            assert model.predict(PROBE).tolist() == fixed
    assert model.state_.fallback.veto.n_refits > 0
    assert model.trust_.is_vetoed
    assert model.trust_.adaptation.answer == "no"
    assert "The fixed model predicts now." in model.trust_.adaptation.sentence


def test_a_veto_is_saved_and_resumed(tmp_path: Any) -> None:
    X, y = labelled_rows(n_rows=400)
    model = play(AdaptiveClassifier(AlwaysWorse(), refit=1).fit(X, y), drifting_batches(36, n_rows=8))
    assert model.trust_.is_vetoed
    accous.save(model, tmp_path)
    resumed = accous.load(tmp_path, estimator=AlwaysWorse())
    assert resumed.trust_ == model.trust_
    more = drifting_batches(20, n_rows=8, seed=5)
    assert shown_state(play(resumed, more), PROBE) == shown_state(play(model, more), PROBE)


# --- what it leaves alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ratio", [NoShift(), SingleLearnerRatio(), KLIEP(random_state=0)], ids=lambda r: type(r).__name__
)
def test_other_ratio_estimators_stay_what_they_are(ratio: Any) -> None:
    X, y = labelled_rows()
    auto, none = (
        play(AdaptiveClassifier(ratio=ratio, fallback=fallback).fit(X, y), drifting_batches(40))
        for fallback in ("auto", "none")
    )
    assert not ratio.keeps_record
    assert shown_state(auto, PROBE) == shown_state(none, PROBE)
    assert auto.trust_.exponent == 1.0


def test_without_it_the_weights_are_the_ratios() -> None:
    X, y = labelled_rows()
    model = play(AdaptiveClassifier(fallback="none").fit(X, y), drifting_batches(30))
    ratio = play_ratio(X, 30)
    np.testing.assert_allclose(model.reference_weight_, ratio / ratio.mean(), rtol=1e-12)
    assert model.trust_.exponent == 1.0


def play_ratio(X: Any, n_rounds: int) -> Any:
    ratio = OnlineDensityRatio(pool="none").fit(X)
    for batch in drifting_batches(n_rounds):
        ratio.partial_fit(batch)
    return ratio.reference_ratio_


@pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])
@pytest.mark.parametrize("estimator", rest_slow([None, LogisticRegression()]), ids=["ours", "foreign"])
@pytest.mark.parametrize("pool", ["auto", "none"])
def test_every_loss_can_be_tempered(pool: str, loss: str, estimator: Any) -> None:
    X, y = labelled_rows()
    model = AdaptiveClassifier(estimator, OnlineDensityRatio(loss=loss, pool=pool)).fit(X, y)
    assert model.trust_.exponent == 0.0
    play(model, drifting_batches(40))
    assert 0.1 < model.trust_.exponent < 1.0
    fallback, pool_ = model.state_.fallback, model.ratio_.pool_
    proportions = fallback.tempered.filters.proportions if pool_ is None else pool_.proportions
    assert model.trust_.exponent == 1.0 - proportions[0]
    assert np.isfinite(model.predict_proba(PROBE)).all()


@pytest.mark.parametrize("fallback", ["never", None, True, 1.0])
def test_another_fallback_is_refused(fallback: Any) -> None:
    with pytest.raises(ParameterError, match=r"fallback must be one of 'auto', 'none'"):
        AdaptiveClassifier(fallback=fallback).fit(*labelled_rows())
