"""AdaptiveClassifier: the optimum, the weights, and when the predictor is fitted anew."""

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.exceptions import ParameterError
from accous.model.safeguards import shrink
from accous.streams import GaussianStream, LinearShift, Shift, SineShift, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    LinearTilt,
    drifting_batches,
    labelled_rows,
    play,
    played,
    shown_state,
    tilt,
)

each_n_classes = pytest.mark.parametrize("n_classes", [2, 4])


# --- before the first round ---------------------------------------------------------------------------------


@each_n_classes
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("base", [None, np.linspace(0.1, 3.0, 120)], ids=["no base weights", "base weights"])
def test_a_fit_is_that_of_logistic_regression(n_classes: int, C: float, base: Any) -> None:
    X, y = labelled_rows(n_classes=n_classes)
    ours = AdaptiveClassifier(C=C, standardize=False).fit(X, y, sample_weight=base)
    theirs = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=base)
    np.testing.assert_allclose(ours.predict_proba(PROBE), theirs.predict_proba(PROBE), atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(PROBE), theirs.decision_function(PROBE), atol=1e-4)
    assert ours.predict(PROBE).tolist() == theirs.predict(PROBE).tolist()


def test_base_weights_change_the_fit() -> None:
    X, y = labelled_rows()
    weighted = AdaptiveClassifier().fit(X, y, sample_weight=np.exp(X[:, 0]))
    plain = AdaptiveClassifier().fit(X, y)
    assert np.abs(weighted.predict_proba(PROBE) - plain.predict_proba(PROBE)).max() > 0.05


def test_after_fit_nothing_has_been_played() -> None:
    X, y = labelled_rows(n_classes=4)
    model = AdaptiveClassifier().fit(X, y)
    assert (model.n_rounds_, model.n_refits_, model.ratio_.n_rounds_) == (0, 0, 0)
    assert model.reference_weight_.tolist() == [1.0] * len(X)
    assert model.effective_sample_size_ == len(X)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.n_features_in_ == 3
    assert isinstance(model.ratio_, OnlineDensityRatio)


def test_after_rounds_the_attributes_describe_the_round_to_come() -> None:
    model = played(10, refit="always")
    assert (model.n_rounds_, model.n_refits_, model.ratio_.n_rounds_) == (10, 10, 10)
    assert model.reference_weight_.shape == (120,)
    assert model.predict_proba(PROBE).tobytes() == model.estimator_.predict_proba(PROBE).tobytes()


def test_the_seed_reaches_the_ratio_made_for_none() -> None:
    assert played(0, random_state=7).ratio_.random_state == 7


def test_a_ratio_given_is_cloned() -> None:
    ratio = OnlineDensityRatio("identity")
    model = played(5, ratio=ratio)
    assert model.ratio_ is not ratio
    assert not hasattr(ratio, "n_features_in_")


def test_a_second_fit_forgets_everything() -> None:
    X, y = labelled_rows(n_rows=80, n_classes=4, seed=5)
    used = play(played(12).fit(X, y), drifting_batches(6))
    fresh = play(AdaptiveClassifier(fallback="none").fit(X, y), drifting_batches(6))
    assert shown_state(used, PROBE) == shown_state(fresh, PROBE)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "adapt"])
def test_an_unfitted_model_says_so(method: str) -> None:
    with pytest.raises(NotFittedError, match="AdaptiveClassifier"):
        getattr(AdaptiveClassifier(), method)(PROBE)


# --- importance weights -------------------------------------------------------------------------------------


def test_weights_are_the_ratio_over_its_mean() -> None:
    model = played(30)
    ratio = model.ratio_.reference_ratio_
    assert ratio.std() > 0.1
    np.testing.assert_allclose(model.reference_weight_, ratio / ratio.mean(), rtol=1e-12)
    assert model.reference_weight_.mean() == pytest.approx(1.0, rel=1e-12)


def test_base_weights_multiply_the_ratio_over_its_mean_under_them() -> None:
    X, y = labelled_rows()
    base = np.random.default_rng(0).exponential(5.0, size=len(X))
    model = play(AdaptiveClassifier().fit(X, y, sample_weight=base), drifting_batches(30))
    ratio = model.ratio_.reference_ratio_
    wanted = base * ratio / np.average(ratio, weights=base)
    np.testing.assert_allclose(model.reference_weight_, wanted, rtol=1e-12)
    assert model.reference_weight_.sum() == pytest.approx(base.sum(), rel=1e-12)


@each_n_classes
@pytest.mark.parametrize("has_base", [False, True])
def test_the_predictor_of_a_round_is_the_weighted_optimum(n_classes: int, has_base: bool) -> None:
    X, y = labelled_rows(n_classes=n_classes)
    base = np.linspace(0.1, 3.0, len(X)) if has_base else None
    model = AdaptiveClassifier(refit="always", C=0.7, standardize=False).fit(X, y, sample_weight=base)
    play(model, drifting_batches(30, n_rows=12))
    weights, strength = model.state_.fitted_weights, model.state_.fallback.check.strength
    np.testing.assert_array_equal(weights, shrink(model.reference_weight_, model.base_weight_, strength))
    theirs = LogisticRegression(C=0.7, tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=weights)
    plain = LogisticRegression(C=0.7, tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=base)
    np.testing.assert_allclose(model.predict_proba(PROBE), theirs.predict_proba(PROBE), atol=1e-5)
    assert np.abs(plain.predict_proba(PROBE) - theirs.predict_proba(PROBE)).max() > 1e-2


def test_the_scale_of_the_ratio_does_not_matter() -> None:
    low, high = (played(0, ratio=LinearTilt(), refit="always").adapt(tilt(k, 0.3 * k)) for k in (0.01, 40.0))
    np.testing.assert_allclose(low.predict_proba(PROBE), high.predict_proba(PROBE), rtol=1e-9)


def test_a_ratio_of_zero_everywhere_keeps_the_weights() -> None:
    model = played(0, ratio=LinearTilt(), refit="always").adapt(tilt(1.0, 0.3))
    weights, answers = model.reference_weight_, model.predict_proba(PROBE)
    model.adapt(tilt(0.0, 0.0))
    assert model.ratio_.reference_ratio_.max() == 0.0
    assert model.n_rounds_ == 2
    np.testing.assert_array_equal(model.reference_weight_, weights)
    np.testing.assert_allclose(model.predict_proba(PROBE), answers, rtol=1e-6)


def test_a_ratio_of_zero_on_one_class_is_survived() -> None:
    X, y = labelled_rows()
    X[:, 0] = np.where(y == 1, 1.0, -1.0)
    for estimator in (None, LogisticRegression()):
        model = AdaptiveClassifier(estimator, LinearTilt(), refit="always").fit(X, y).adapt(tilt(0.0, 1.0))
        assert np.all(model.reference_weight_[y == 0] == 0.0)
        assert np.all(np.isfinite(model.predict_proba(PROBE)))


def test_effective_sample_size_is_kishs() -> None:
    model = played(30)
    weights = model.reference_weight_
    assert model.effective_sample_size_ == pytest.approx(weights.sum() ** 2 / np.sum(weights**2), rel=1e-12)
    assert 1.0 < model.effective_sample_size_ < 0.95 * len(weights)


def test_a_single_row_left_is_an_effective_sample_of_one() -> None:
    X, y = labelled_rows()
    threshold = np.sort(X[:, 0])[-2]
    model = AdaptiveClassifier(ratio=LinearTilt()).fit(X, y).adapt(tilt(-threshold, 1.0))
    assert model.effective_sample_size_ == pytest.approx(1.0, rel=1e-12)
    assert np.all(np.isfinite(model.predict_proba(PROBE)))


# --- when to refit ------------------------------------------------------------------------------------------


def refit_rounds(model: AdaptiveClassifier, batches: Any) -> list[int]:
    """The rounds that fitted a new predictor."""
    rounds = []
    for batch in batches:
        before = model.estimator_
        model.adapt(batch)
        if model.estimator_ is not before:
            rounds.append(model.n_rounds_)
    assert model.n_refits_ == len(rounds)
    return rounds


def test_always_refits_in_every_round() -> None:
    assert refit_rounds(played(0, refit="always"), drifting_batches(5)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("every", [1, 3, np.int64(4)])
def test_a_number_refits_every_so_many_rounds(every: int) -> None:
    assert refit_rounds(played(0, refit=every), drifting_batches(10)) == list(range(int(every), 11, int(every)))


def test_auto_does_not_refit_while_the_weights_stay() -> None:
    model = played(0, ratio=LinearTilt())
    assert refit_rounds(model, [tilt(1.0, 0.0), tilt(7.0, 0.0), tilt(1.0, 1e-3)]) == []


def test_auto_refits_when_the_weights_jump() -> None:
    model = played(0, ratio=LinearTilt())
    assert refit_rounds(model, [tilt(1.0, 0.9), tilt(1.0, 0.9), tilt(1.0, -0.9)]) == [1, 3]


def test_auto_adds_up_small_moves_since_the_last_fit() -> None:
    model = played(0, ratio=LinearTilt())
    small_moves = [tilt(1.0, 0.02 * t) for t in range(1, 41)]
    assert 1 <= len(refit_rounds(model, small_moves)) <= 13


def test_between_refits_the_weights_move_and_the_predictor_stays() -> None:
    model = played(0, ratio=LinearTilt(), refit=10)
    answers = model.predict_proba(PROBE).tobytes()
    model.adapt(tilt(1.0, 0.5))
    assert model.reference_weight_.std() > 0.1
    assert model.effective_sample_size_ < 110
    assert model.predict_proba(PROBE).tobytes() == answers


@pytest.mark.parametrize("refit", [0, -1, 1.0, 2.5, True, False, None, "never", "Auto", [1], np.nan])
def test_a_bad_refit_is_refused(refit: Any) -> None:
    with pytest.raises(ParameterError, match=r"^refit must be 'auto', 'always' or a positive integer"):
        AdaptiveClassifier(refit=refit).fit(*labelled_rows())


def exact_mean_risk(shift: Shift, refit: str, seed: int, estimator: Any = None) -> tuple[float, int]:
    """Mean exact risk over a Gaussian stream, and how often the predictor was fitted."""
    stream = GaussianStream(shift, n_rounds=600, batch_size=2, n_reference=400, random_state=seed)
    model = AdaptiveClassifier(estimator, refit=refit, fallback="none").fit(*stream.reference())
    risks = []
    for batch in stream:
        risks.append(stream.risk(model.estimator_, batch.alpha))
        model.adapt(batch.X)
    return float(np.mean(risks)), model.n_refits_


@pytest.mark.parametrize(
    "shift",
    rest_slow([SquareShift(period=150), LinearShift(reverse=True), SineShift(period=200)]),
    ids=lambda s: type(s).__name__,
)
def test_auto_refits_less_often_than_always_and_is_as_good(shift: Shift) -> None:
    risk_of_always, n_always = exact_mean_risk(shift, "always", seed=3)
    risk_of_auto, n_auto = exact_mean_risk(shift, "auto", seed=3)
    foreign = LogisticRegression(solver="newton-cholesky")
    risk_of_foreign, n_foreign = exact_mean_risk(shift, "auto", seed=3, estimator=foreign)
    assert n_always == 600
    assert 10 < n_foreign < 270
    assert n_foreign < n_auto < 600
    assert risk_of_auto == pytest.approx(risk_of_always, abs=0.001)
    assert risk_of_foreign == pytest.approx(risk_of_always, abs=0.003)


def test_a_ratio_that_never_moves_never_refits() -> None:
    model = played(10, ratio=NoShift())
    assert model.n_rounds_ == 10
    assert model.n_refits_ == 0
    assert model.reference_weight_.tolist() == [1.0] * 120
