"""OnlineDensityRatio, SingleLearnerRatio and NoShift: the paper after every round, what is shown and refused."""

import inspect
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.core.learners import DiagonalStack, MetricMatrix, Sketch, WideStack
from accous.exceptions import ParameterError
from accous.ratio import base as defaults
from accous.ratio.base import MAX_FULL_FEATURES
from tests.budgets import rest_slow
from tests.oracles import PaperAccous, SlowSingleLearner
from tests.ratio.online_cases import (
    MAX_RATIO,
    ORACLE_LOSSES,
    assert_agrees,
    brought_back,
    drifting_batches,
    each_loss,
    features_by_hand,
    normal_rows,
    paper_oracle,
    paper_settings,
    shown_state,
)

each_linear = pytest.mark.parametrize("make", [OnlineDensityRatio, SingleLearnerRatio])

# --- the paper, after every round -------------------------------------------------------------------------------


def run_both(settings, n_rounds, sizes=(2,), **more: Any):
    """Estimator, oracle and batch after every round; rows longer than the bound are brought back."""
    reference, bound = normal_rows(15), settings["feature_bound"]
    estimator = OnlineDensityRatio(**settings, **more).fit(reference)
    oracle = paper_oracle(brought_back(reference, bound), settings, **more)
    assert_agrees(estimator, oracle)
    for batch in drifting_batches(sizes, n_rounds):
        estimator.partial_fit(batch)
        oracle.run(brought_back(batch, bound))
        assert_agrees(estimator, oracle)
        yield estimator, oracle, batch


@pytest.mark.parametrize("sizes", rest_slow([[1, 5, 2, 9, 1, 1, 30], [1], [8]]), ids=["changing", "one", "many"])
@pytest.mark.parametrize(
    ("changes", "is_projected"),
    [
        ({"radius": 0.3, "step_size": 2.0}, True),
        ({"radius": 0.3, "step_size": 50.0, "ridge": 0.01}, True),
        ({"radius": 50.0, "step_size": 0.5}, False),
        ({"radius": 50.0, "step_size": 0.5, "ridge": 4.0}, False),
    ],
)
def test_paper_mode_is_algorithms_1_and_2_after_every_round(changes, is_projected, sizes):
    settings, n_on_surface = paper_settings(**changes), 0
    for estimator, oracle, _ in run_both(settings, 70, sizes):
        assert estimator.n_out_of_bound_ == 0
        norms = np.linalg.norm(oracle.learner_thetas, axis=1)
        n_on_surface += np.count_nonzero(norms > settings["radius"] * (1 - 1e-9))
    assert (n_on_surface > 20) == is_projected
    assert (n_on_surface == 0) != is_projected


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(("step_size", "factor"), [("theory", 3.0), ("lemma", 6.0)])
def test_the_preset_is_the_paper_with_its_own_radius_bound_and_step(step_size, factor, scale):
    reference = normal_rows(15)
    bound = float(np.linalg.norm(reference, axis=1).max())
    unit, norm = (bound, 1.0) if scale else (1.0, bound)
    gamma = factor * (1.0 + math.exp(1.5 * norm))
    ratio = OnlineDensityRatio.paper(horizon=70, step_size=step_size, scale=scale).fit(reference)
    model = AdaptiveClassifier.paper(horizon=70, step_size=step_size, scale=scale).fit(reference, np.arange(15) % 2)
    oracle = PaperAccous(reference / unit, radius=1.5, feature_bound=norm, step_size=gamma, horizon=70)
    for batch in drifting_batches([1, 5, 2], 70):
        ratio.partial_fit(batch)
        model.adapt(batch)
        oracle.run(brought_back(batch, bound) / unit)
        for one in (ratio, model.ratio_):
            assert_agrees(one, oracle)
        weights = np.minimum(np.exp(-reference / unit @ oracle.theta), 100.0)
        fitted = LogisticRegression(tol=1e-10).fit(reference, np.arange(15) % 2, weights / weights.mean())
        np.testing.assert_allclose(model.estimator_.coef_, fitted.coef_, atol=1e-4)
    assert model.n_rounds_ == 70


def test_a_step_of_the_paper_that_overflows_names_the_ways_out():
    with pytest.raises(ParameterError, match=r"S R = .*step_size=10.*scale=True"):
        OnlineDensityRatio.paper(horizon=10).fit(1000.0 * normal_rows(15))
    OnlineDensityRatio.paper(horizon=10, scale=True).fit(1000.0 * normal_rows(15))


def test_rows_longer_than_the_bound_are_learned_as_if_brought_back():
    n_long = 0
    for estimator, _, batch in run_both(paper_settings(feature_bound=1.2), 40, [1, 4]):
        n_long += np.count_nonzero(np.linalg.norm(batch, axis=1) > 1.2)
        assert estimator.n_out_of_bound_ == n_long
    assert n_long > 20


@pytest.mark.parametrize("horizon", [None, 1, 20, 64, 10_000])
def test_any_horizon_or_none_agrees_also_beyond_it(horizon):
    assert sum(1 for _ in run_both(paper_settings(horizon=horizon), 70)) == 70


@pytest.mark.parametrize("min_interval", [1, 2, 4, 8, 128])
def test_any_shortest_interval_agrees(min_interval):
    assert sum(1 for _ in run_both(paper_settings(), 35, min_interval=min_interval)) == 35


@pytest.mark.every_pair
@pytest.mark.parametrize("start", ["zero", "ensemble", "auto"])
@pytest.mark.parametrize("meta_range", ["paper", "running"])
@pytest.mark.parametrize("horizon", rest_slow([None, 1]))
@each_loss
def test_every_loss_with_intercept_and_scaling_agrees(loss, horizon, meta_range, start):
    bound, radius = 2.0, 3.0
    to_features = features_by_hand(loss, bound)
    reference = normal_rows(12, n_features=2)
    shared = {"radius": radius, "step_size": 0.7, "loss": loss, "horizon": horizon, "meta_range": meta_range}
    estimator = OnlineDensityRatio("identity", feature_bound=bound, start=start, **shared).fit(reference)
    longest = 1.0 if loss == "logistic" else math.sqrt(2.0)
    gradient_bounds = {
        "logistic": None,
        "least_squares": longest * (longest * radius + 1.0),
        "kl": longest * (1.0 + MAX_RATIO),
    }
    oracle = PaperAccous(
        to_features(reference),
        feature_bound=longest,
        neutral=np.array([0.0, 0.0, 1.0]),
        kl_floor=1.0 / MAX_RATIO,
        gradient_bound=gradient_bounds[loss],
        start=defaults.AUTO_START if start == "auto" else start,
        **shared,
    )
    smallest_rate = 0.5
    for batch in drifting_batches([1, 3], n_rounds=36, n_features=2):
        estimator.partial_fit(batch)
        oracle.run(to_features(batch))
        assert_agrees(estimator, oracle)
        smallest_rate = min([smallest_rate, *(learner.eps for learner in oracle.learners.values())])
    assert estimator.n_out_of_bound_ > 0
    # With K = 2 and margins up to 1 the rates do fall, so that their part in the weights is seen, too.
    assert (smallest_rate < 0.49) == (horizon == 1 and meta_range == "running")


@pytest.mark.parametrize(("radius", "step_size", "is_projected"), [(1.2, 30.0, True), (100.0, 0.3, False)])
@pytest.mark.parametrize("ridge", [1.0, 0.05])
@each_loss
def test_every_round_of_the_single_learner_is_one_step_of_algorithm_1(loss, ridge, radius, step_size, is_projected):
    to_features, reference = features_by_hand(loss, bound=2.0), normal_rows(12)
    settings = {"loss": loss, "radius": radius, "step_size": step_size, "ridge": ridge}
    estimator = SingleLearnerRatio("identity", feature_bound=2.0, **settings).fit(reference)
    kept = {"neutral": np.array([0.0, 0.0, 0.0, 1.0]), "kl_floor": 1.0 / MAX_RATIO}
    oracle, n_on_surface = SlowSingleLearner(to_features(reference), **kept, **settings), 0
    for batch in drifting_batches([1, 2, 3, 4], 50):
        estimator.partial_fit(batch)
        oracle.run(to_features(batch))
        assert estimator.n_rounds_ == oracle.round
        np.testing.assert_allclose(estimator.coef_, oracle.theta, rtol=0, atol=1e-9)
        n_on_surface += np.linalg.norm(oracle.theta) > radius * (1 - 1e-9)
    assert (n_on_surface > 5) == is_projected
    assert (n_on_surface == 0) != is_projected


# --- what is learned and shown ----------------------------------------------------------------------------------


BAD_FITS = {
    "parameter": ({"ridge": -1.0}, normal_rows(5)),
    "late parameter": ({"loss": "kl", "radius": 0.5}, normal_rows(5)),
    "missing value": ({}, np.array([[1.0, np.nan], [0.0, 1.0]])),
    "too large value": ({}, np.array([[1.0, 1e300], [0.0, 1.0]])),
    "one row": ({}, normal_rows(1)),
    "strings": ({}, np.array([["a", "b"], ["c", "d"]])),
}


def after_rounds(model, n_features=3, n_rounds=20):
    model.fit(normal_rows(30, n_features))
    for batch in drifting_batches([3, 1], n_rounds, n_features):
        model.partial_fit(batch)
    return model


@each_linear
@each_loss
def test_after_fit_everything_is_neutral(loss, make):
    estimator = make(loss=loss).fit(normal_rows(20))
    assert estimator.coef_.tolist() == [0.0, 0.0, 0.0, 0.0 if loss == "logistic" else 1.0]
    assert (estimator.n_rounds_, estimator.n_out_of_bound_, estimator.n_features_in_) == (0, 0, 3)
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    assert estimator.predict_ratio(normal_rows(7, seed=5) * 10).tolist() == [1.0] * 7
    if make is OnlineDensityRatio:
        assert estimator.learner_lengths_.shape == estimator.learner_weights_.shape == (0,)
        assert estimator.learner_coefs_.shape == (0, 4)
    # One learner learns at once, the ensemble from the shortest interval on.
    for t in range(1, 5):
        estimator.partial_fit(normal_rows(5, seed=t) + 1.0)
        is_neutral = make is OnlineDensityRatio and t < 4
        assert np.all((estimator.reference_ratio_ == 1.0) == is_neutral)


@each_loss
def test_after_rounds_every_attribute_has_its_shape_and_range(loss):
    estimator = OnlineDensityRatio(loss=loss).fit(normal_rows(20))
    for t, batch in enumerate(drifting_batches([1, 4], n_rounds=40), start=1):
        estimator.partial_fit(batch)
        lengths = [2**k for k in range(2, 10) if 2**k <= t + 1]
        assert estimator.n_rounds_ == t
        assert estimator.learner_lengths_.tolist() == lengths
        assert estimator.learner_weights_.shape == (len(lengths),)
        assert estimator.learner_coefs_.shape == (len(lengths), 4)
        assert np.all(estimator.learner_weights_ > 0)
        assert not lengths or estimator.learner_weights_.sum() == pytest.approx(1.0, rel=1e-12)
        norms = np.linalg.norm(estimator.learner_coefs_, axis=1)
        assert np.all(norms <= estimator.radius_ * (1 + 1e-9))
        assert estimator.reference_ratio_.shape == (20,)
    np.testing.assert_allclose(
        estimator.coef_, estimator.learner_weights_ @ estimator.learner_coefs_, rtol=1e-12, atol=1e-15
    )


@each_linear
@each_loss
def test_refit_forgets_everything(loss, make):
    used, fresh = make(loss=loss), make(loss=loss)
    used.fit(normal_rows(30, n_features=2, seed=9) * 5)
    for batch in drifting_batches([4], n_rounds=20, n_features=2):
        used.partial_fit(batch * 50)
    assert used.n_out_of_bound_ > 0
    for _ in range(2):
        assert shown_state(after_rounds(used)) == shown_state(after_rounds(fresh))
    assert used.fit(normal_rows(5)).n_rounds_ == used.n_out_of_bound_ == 0


@each_linear
@pytest.mark.parametrize(("changes", "X"), BAD_FITS.values(), ids=BAD_FITS)
def test_a_failed_fit_leaves_the_estimator_unfitted_or_as_it_was(changes, X, make):
    estimator = make(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        estimator.fit(X)
    for method in (estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(NotFittedError, match=make.__name__):
            method(normal_rows(5))
    estimator.set_params(**make().get_params())
    assert estimator.partial_fit(normal_rows(5)).n_rounds_ == 0  # the first call is fit
    before = shown_state(after_rounds(estimator, n_rounds=8))
    estimator.set_params(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        estimator.fit(X)
    assert shown_state(estimator) == before
    assert estimator.set_params(**make().get_params()).partial_fit(normal_rows(3)).n_rounds_ == 9


@each_linear
@each_loss
def test_ratios_of_the_reference_and_the_observed_loss_are_those_of_the_current_theta(loss, make):
    to_features = features_by_hand(loss, bound=2.0)
    reference, batch = normal_rows(20), normal_rows(9, seed=3)
    estimator = make("identity", loss=loss, feature_bound=2.0).fit(reference)
    for other in drifting_batches([5], n_rounds=20):
        expected = ORACLE_LOSSES[loss](estimator.coef_, to_features(reference), to_features(batch))
        assert estimator.score_loss(batch) == pytest.approx(expected, rel=1e-12)
        ratios = estimator.predict_ratio(reference)
        np.testing.assert_allclose(ratios, estimator.reference_ratio_, rtol=1e-12, atol=1e-12)
        estimator.partial_fit(other)


@each_loss
@pytest.mark.parametrize("pool", ["auto", "none"])
def test_the_ratio_is_cut_at_max_ratio(pool, loss):
    settings = {"loss": loss, "step_size": 3.0, "radius": 20.0, "pool": pool}
    uncut, cut = (OnlineDensityRatio(max_ratio=limit, **settings).fit(normal_rows(50)) for limit in (1e6, 1.5))
    for estimator in (uncut, cut):
        for _ in range(25):
            estimator.partial_fit(normal_rows(20, seed=4, loc=1.0))
    if loss != "kl":  # its floor is 1 / max_ratio, so there the limit takes part in learning
        assert cut.coef_.tobytes() == uncut.coef_.tobytes()
        np.testing.assert_array_equal(cut.estimated_ratios(), np.minimum(uncut.estimated_ratios(), 1.5))
    elif pool == "none":
        assert cut.predict_ratio(normal_rows(50, loc=-3.0)).min() == 1.0 / 1.5
    assert cut.reference_ratio_.max() == 1.5
    assert cut.predict_ratio(normal_rows(50, loc=3.0)).max() == 1.5
    assert uncut.reference_ratio_.max() > 1.5


# --- the ratio means what it says -------------------------------------------------------------------------------


def shifted_normal_estimate(estimator, seed):
    """Correlation of the estimated with the true log ratio of N(mu, I) to N(0, I), and mean reference ratio."""
    rng = np.random.default_rng(seed)
    mu = np.array([0.5, 0.0, -0.25])
    estimator.fit(rng.normal(size=(500, 3)))
    for _ in range(300):
        estimator.partial_fit(rng.normal(mu, size=(20, 3)))
    rows = rng.normal(size=(500, 3))
    true_log_ratio = rows @ mu - mu @ mu / 2.0
    log_ratio = np.log(np.maximum(estimator.predict_ratio(rows), 1e-2))
    return float(np.corrcoef(log_ratio, true_log_ratio)[0, 1]), float(estimator.reference_ratio_.mean())


@pytest.mark.parametrize("kind", ["pool", "no pool", "single"])
@each_loss
def test_a_standing_stream_gives_the_true_ratio_and_a_pool_corrects_its_mean(loss, kind):
    pool = {} if kind == "single" else {"pool": "auto" if kind == "pool" else "none"}
    estimator = (SingleLearnerRatio if kind == "single" else OnlineDensityRatio)(loss=loss, step_size=1.0, **pool)
    correlation, mean_ratio = shifted_normal_estimate(estimator, seed=0)
    assert correlation > (0.75 if loss != "logistic" else 0.95 if kind == "pool" else 0.97)
    assert mean_ratio == pytest.approx(1.0, abs=1e-9 if kind == "pool" else 0.1)


@each_linear
@each_loss
def test_the_defaults_give_the_direction_and_size_of_the_ratio(loss, make):
    results = [shifted_normal_estimate(make(loss=loss), seed) for seed in range(3)]
    correlations, mean_ratios = np.array(results).T
    assert np.median(correlations) > 0.5
    assert np.all((mean_ratios > 0.33) & (mean_ratios < 3.0)), mean_ratios


def ratio_errors(estimator, n_rounds, jump):
    """mean |r - r*| on the reference after each round of N(mu, I) -> N(-mu, I)."""
    rng = np.random.default_rng(0)
    reference, mu = rng.normal(size=(300, 2)), np.array([0.8, 0.0])
    estimator.fit(reference)
    errors = []
    for t in range(1, n_rounds + 1):
        mean = mu if t <= jump else -mu
        estimator.partial_fit(rng.normal(mean, size=(5, 2)))
        true_ratio = np.exp(reference @ mean - mean @ mean / 2.0)
        errors.append(np.abs(estimator.reference_ratio_ - true_ratio).mean())
    return np.array(errors)


@each_loss
def test_after_a_jump_the_ensemble_recovers_and_the_single_learner_lags(loss):
    jump, n_rounds = 700, 800
    of_ensemble, of_single = (
        ratio_errors(estimator_class(loss=loss, step_size=1.0), n_rounds, jump)
        for estimator_class in (OnlineDensityRatio, SingleLearnerRatio)
    )
    assert of_single[jump - 50 : jump].mean() < 0.4  # it did learn
    at_jump = of_ensemble[jump]
    assert of_ensemble[-20:].mean() < 0.5 * at_jump
    assert of_ensemble[jump:].mean() < 0.85 * of_single[jump:].mean()


# --- parameters -------------------------------------------------------------------------------------------------

BAD_PARAMETERS = {
    "loss": ("hinge", None),
    "radius": (0.0, -1.0, math.nan, math.inf, "large"),
    "feature_bound": (0.0, -2.0, "norm"),
    "step_size": (0.0, -1.0, math.inf, "big", None, True),
    "ridge": (0.0, -1.0, math.nan, None),
    "max_ratio": (0.5, 1.0, math.inf, None),
    "metric": ("dense", None),
    "metric_rank": (0, 8.0, None),
    "feature_map": ("pca", None, 3),
}
BAD_FOR_ENSEMBLES = {
    "min_interval": (3, 0, -4, 4.0, True, 2**70),
    "horizon": (0, 10.0, "long"),
    "start": ("one", None),
    "meta_range": ("all", None),
}


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((OnlineDensityRatio, name) for name in BAD_PARAMETERS | BAD_FOR_ENSEMBLES),
        *((SingleLearnerRatio, name) for name in BAD_PARAMETERS),
    ],
)
def test_a_bad_parameter_is_refused_by_name(make, name):
    for value in (BAD_PARAMETERS | BAD_FOR_ENSEMBLES)[name]:
        with pytest.raises(ParameterError, match=name):
            make(**{name: value}).fit(normal_rows(10))


@pytest.mark.parametrize("loss", ["least_squares", "kl"])
@pytest.mark.parametrize("changes", [{"fit_intercept": False}, {"radius": 0.9}, {"step_size": "theory"}], ids=str)
@each_linear
def test_what_only_the_logistic_loss_can_do_is_refused_for_the_others(changes, loss, make):
    with pytest.raises(ParameterError, match=next(iter(changes))):
        make(loss=loss, **changes).fit(normal_rows(10))
    make(**({"radius": 0.9} | changes)).fit(normal_rows(10))


@pytest.mark.parametrize(("scale_features", "largest_score"), [(True, 3.0), (False, 6.0)])
@each_linear
def test_the_theory_step_is_the_theorems(scale_features, largest_score, make):
    settings = {"step_size": "theory", "radius": 3.0, "feature_bound": 2.0, "scale_features": scale_features}
    estimator = make(**settings).fit(normal_rows(10))
    assert estimator.step_size_ == pytest.approx(3.0 * (1.0 + math.exp(largest_score)), rel=1e-14)
    assert estimator.partial_fit(normal_rows(5)).step_size_ == estimator.step_size_


@pytest.mark.parametrize("radius", [30.0, 100.0, 200.0, 300.0, 500.0, 700.0, 708.9, 709.5, 710.0, 1e6])
def test_a_large_theory_step_is_computed_with_or_refused(radius):
    estimator = OnlineDensityRatio(step_size="theory", radius=radius)
    if radius > 700.0:
        with pytest.raises(ParameterError, match="step_size"):
            estimator.fit(normal_rows(10))
        return
    estimator.fit(normal_rows(10))
    for batch in drifting_batches([2], n_rounds=8):
        estimator.partial_fit(batch)
    assert np.all(np.isfinite(estimator.coef_))
    assert np.linalg.norm(estimator.coef_) <= radius * (1 + 1e-9)


def test_parameters_given_as_numpy_numbers_are_taken():
    settings = {"radius": np.float64(2), "ridge": np.int32(1), "min_interval": np.int64(4)}
    settings |= {"horizon": np.int64(9), "step_size": np.float32(1), "max_ratio": np.int8(100)}
    of_numpy = OnlineDensityRatio(**settings).fit(normal_rows(20))
    of_python = OnlineDensityRatio(**{name: value.item() for name, value in settings.items()})
    of_python.fit(normal_rows(20))
    for batch in drifting_batches([2], n_rounds=12):
        of_numpy.partial_fit(batch)
        of_python.partial_fit(batch)
    assert shown_state(of_numpy) == shown_state(of_python)


@pytest.mark.parametrize("scale_features", [True, False])
@pytest.mark.parametrize("n_features", [2, 12, 64])
@pytest.mark.parametrize("loss", ["logistic", "kl"])
@pytest.mark.parametrize("max_ratio", [100.0, 1e6])
@each_linear
def test_the_default_radius_is_half_the_dimension_unscaled_and_can_express_max_ratio_scaled(
    n_features, scale_features, loss, max_ratio, make
):
    estimator = make(loss=loss, scale_features=scale_features, max_ratio=max_ratio).fit(normal_rows(10, n_features))
    n_coefs, largest_score = n_features + 1, math.log(max_ratio) if loss == "logistic" else max_ratio
    rule = defaults.default_radius(n_coefs, is_scaled=scale_features, largest_score=largest_score)
    assert estimator.radius_ == rule
    assert rule >= largest_score if scale_features else rule == n_coefs / 2


def test_the_automatic_step_depends_on_the_batch_only_and_grows_with_it():
    estimator = OnlineDensityRatio().fit(normal_rows(10))
    assert estimator.step_size_ == defaults.default_step_size(1, is_log_linear=True)
    for n_rows in (1, 3, 50):
        estimator.partial_fit(normal_rows(n_rows) * 100)
        assert estimator.step_size_ == defaults.default_step_size(n_rows, is_log_linear=True)
    steps = [defaults.default_step_size(n_rows, is_log_linear=True) for n_rows in (1, 2, 5, 10, 1000)]
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    ("name", "auto", "value"),
    [
        ("meta_range", "auto", defaults.AUTO_META_RANGE),
        ("step_size", "auto", defaults.default_step_size(3, is_log_linear=True)),
    ],
)
def test_what_is_called_auto_is_the_documented_choice(name, auto, value):
    states = []
    for setting in (auto, value):
        estimator = OnlineDensityRatio(**{name: setting}).fit(normal_rows(20))
        for batch in drifting_batches([3], n_rounds=20):
            estimator.partial_fit(batch)
        states.append(shown_state(estimator))
    assert states[0] == states[1]


def test_its_keywords_are_those_of_the_ensemble_as_far_as_they_apply():
    of_ensemble = inspect.signature(OnlineDensityRatio).parameters
    of_single = inspect.signature(SingleLearnerRatio).parameters
    of_pool = {"pool", "memory", "candidates"}
    assert set(of_ensemble) - set(of_single) == {"min_interval", "horizon", "start", "meta_range"} | of_pool
    for name, parameter in of_single.items():
        assert parameter.default == of_ensemble[name].default
        assert parameter.kind == of_ensemble[name].kind


# --- the metric -------------------------------------------------------------------------------------------------


def stack_of(model):
    return model.state_.learner if isinstance(model, SingleLearnerRatio) else model.state_.learners


@each_linear
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n_extra", "metric"), [(0, "full"), (1, "low_rank")])
def test_auto_keeps_the_whole_matrix_up_to_a_width(make, fit_intercept, n_extra, metric):
    rows = normal_rows(5, MAX_FULL_FEATURES + n_extra)
    model = make(fit_intercept=fit_intercept).fit(rows)
    assert model.metric_ == metric
    for row in rows:
        model.partial_fit(row[None])
    assert {type(part) for part in stack_of(model).metrics} == {MetricMatrix if metric == "full" else Sketch}


@each_linear
@pytest.mark.parametrize("n_features", [3, 100])
def test_auto_is_full_bit_for_bit_and_what_is_asked_for_is_kept_at_every_width(make, n_features):
    auto, full, diagonal, sketched = (
        after_rounds(make(metric=metric, metric_rank=2, ridge=0.1), n_features, 30)
        for metric in ("auto", "full", "diagonal", "low_rank")
    )
    assert auto.coef_.tobytes() == full.coef_.tobytes()
    assert auto.reference_ratio_.tobytes() == full.reference_ratio_.tobytes()
    assert isinstance(stack_of(diagonal), DiagonalStack)
    assert isinstance(stack_of(sketched), WideStack)
    assert max(len(part.rows) for part in stack_of(sketched).metrics if isinstance(part, Sketch)) <= 4
    for one, other in ((full, diagonal), (full, sketched), (diagonal, sketched)):
        assert np.abs(one.coef_ - other.coef_).max() > 1e-3 * np.abs(full.coef_).max()


@pytest.mark.every_pair
@each_linear
@pytest.mark.parametrize("metric", ["full", "diagonal", "low_rank"])
@pytest.mark.parametrize("n_features", [3, 100])
@pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])
def test_every_metric_finds_the_drift(make, metric, n_features, loss):
    """Rows like the batches have larger ratios than rows on the other side."""
    model = make(metric=metric, loss=loss).fit(normal_rows(200, n_features))
    towards = np.zeros(n_features)
    towards[0] = 2.0
    for seed in range(40):
        model.partial_fit(normal_rows(5, n_features, seed, loc=towards))
    there, opposite = model.predict_ratio(np.array([towards, -towards]))
    assert there > 1.2 * opposite


# --- NoShift ----------------------------------------------------------------------------------------------------


def test_the_ratio_is_1_whatever_arrives():
    estimator = NoShift().fit(np.zeros((5, 2)))
    for t in range(1, 8):
        estimator.partial_fit(np.full((t, 2), 1e300))
        assert estimator.predict_ratio(np.full((3, 2), -1e300)).tolist() == [1.0] * 3
        assert estimator.reference_ratio_.tolist() == [1.0] * 5
        assert estimator.n_rounds_ == t


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_may_hold_anything(make_frame):
    """It serves beside any estimator, also one whose pipeline takes categories and missing values."""
    frame = make_frame({"city": ["Rome", None, "Oslo"], "age": [1.0, None, float("inf")]})
    estimator = NoShift().fit(frame).partial_fit(frame)
    assert estimator.n_rounds_ == 1
    assert estimator.predict_ratio(frame).tolist() == estimator.reference_ratio_.tolist() == [1.0] * 3
    assert list(estimator.feature_names_in_) == ["city", "age"]


def test_no_shift_is_checked_fitted_and_refitted_as_the_others():
    X = np.random.default_rng(0).normal(size=(20, 2))
    estimator = NoShift()
    for method in (estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(NotFittedError, match="NoShift"):
            method(X)
    estimator.fit(X)
    for bad in (np.array([[np.nan, 0.0]]), np.array([["a", "b"]]), np.zeros((2, 3)), np.zeros(2)):
        for method in (estimator.partial_fit, estimator.predict_ratio, estimator.score_loss):
            with pytest.raises(ValueError, match=r"NaN|numbers|features|one dimension"):
                method(bad)
    assert estimator.score_loss(X[:3]) == math.log(2.0)
    estimator.reference_ratio_[:] = 9.0
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    estimator.partial_fit(X).fit(np.zeros((3, 4)))
    assert (estimator.n_rounds_, estimator.n_features_in_) == (0, 4)
    assert estimator.reference_ratio_.shape == (3,)
    assert estimator.get_params() == {}
