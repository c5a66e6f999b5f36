"""A round: the optimum, the weights, when the predictor is fitted anew, and the method of the paper."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.model.round import rounds_between_refits, seconds_of
from accous.model.safeguards import shrink
from accous.streams import GaussianStream, LinearShift, SineShift, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    LinearTilt,
    after_rounds,
    drifting_batches,
    labelled_rows,
    run_rounds,
    shown_state,
    tilt,
)
from tests.needs import needs_compilation
from tests.ratio.online_cases import paper_oracle, paper_settings

each_n_classes = pytest.mark.parametrize("n_classes", [2, 4])


# --- before the first round ---------------------------------------------------------------------------------


@each_n_classes
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("base", [None, np.linspace(0.1, 3.0, 120)], ids=["no base weights", "base weights"])
def test_a_fit_is_that_of_logistic_regression(n_classes, C, base):
    X, y = labelled_rows(n_classes=n_classes)
    ours = AdaptiveClassifier(C=C, standardize=False).fit(X, y, sample_weight=base)
    theirs = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=base)
    np.testing.assert_allclose(ours.predict_proba(PROBE), theirs.predict_proba(PROBE), atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(PROBE), theirs.decision_function(PROBE), atol=1e-4)
    assert ours.predict(PROBE).tolist() == theirs.predict(PROBE).tolist()


def test_attributes_after_fit_and_after_rounds():
    X, y = labelled_rows(n_classes=4)
    model = AdaptiveClassifier(refit="always", adaptation="always", random_state=7).fit(X, y)
    assert (model.n_rounds_, model.n_refits_, model.ratio_.n_rounds_) == (0, 0, 0)
    assert model.reference_weight_.tolist() == [1.0] * len(X)
    assert model.effective_sample_size_ == len(X)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.n_features_in_ == 3
    assert isinstance(model.ratio_, OnlineDensityRatio)
    assert model.ratio_.random_state == 7
    run_rounds(model, drifting_batches(10))
    assert (model.n_rounds_, model.n_refits_, model.ratio_.n_rounds_) == (10, 10, 10)
    assert model.predict_proba(PROBE).tobytes() == model.estimator_.predict_proba(PROBE).tobytes()


def test_a_ratio_given_is_cloned():
    ratio = OnlineDensityRatio("identity")
    assert after_rounds(5, ratio=ratio).ratio_ is not ratio
    assert not hasattr(ratio, "n_features_in_")


def test_a_second_fit_forgets_everything():
    X, y = labelled_rows(n_rows=80, n_classes=4, seed=5)
    used = run_rounds(after_rounds(12).fit(X, y), drifting_batches(6))
    fresh = run_rounds(AdaptiveClassifier(adaptation="always").fit(X, y), drifting_batches(6))
    assert shown_state(used, PROBE) == shown_state(fresh, PROBE)


# --- importance weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [np.ones(120), np.random.default_rng(0).exponential(5.0, size=120)])
def test_weights_are_base_weights_times_the_ratio_over_its_mean_under_them(base):
    model = run_rounds(AdaptiveClassifier().fit(*labelled_rows(), sample_weight=base), drifting_batches(30))
    ratio, weights = model.ratio_.reference_ratio_, model.reference_weight_
    assert ratio.std() > 0.1
    np.testing.assert_allclose(weights, base * ratio / np.average(ratio, weights=base), rtol=1e-12)
    assert weights.sum() == pytest.approx(base.sum(), rel=1e-12)
    assert model.effective_sample_size_ == pytest.approx(weights.sum() ** 2 / np.sum(weights**2), rel=1e-12)
    assert 1.0 < model.effective_sample_size_ < 0.95 * len(weights)


@each_n_classes
@pytest.mark.parametrize("has_base", [False, True])
def test_the_predictor_of_a_round_is_the_weighted_optimum(n_classes, has_base):
    X, y = labelled_rows(n_classes=n_classes)
    base = np.linspace(0.1, 3.0, len(X)) if has_base else None
    model = AdaptiveClassifier(refit="always", C=0.7, standardize=False).fit(X, y, sample_weight=base)
    run_rounds(model, drifting_batches(30, n_rows=12))
    weights, strength = model.state_.fitted_weights, model.state_.safeguards.check.strength
    np.testing.assert_array_equal(weights, shrink(model.reference_weight_, model.base_weight_, strength))
    theirs = LogisticRegression(C=0.7, tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=weights)
    plain = LogisticRegression(C=0.7, tol=1e-9, max_iter=10_000).fit(X, y, sample_weight=base)
    np.testing.assert_allclose(model.predict_proba(PROBE), theirs.predict_proba(PROBE), atol=1e-5)
    assert np.abs(plain.predict_proba(PROBE) - theirs.predict_proba(PROBE)).max() > 1e-2


def test_the_scale_of_the_ratio_does_not_matter():
    low, high = (after_rounds(0, ratio=LinearTilt(), refit="always").adapt(tilt(k, 0.3 * k)) for k in (0.01, 40.0))
    np.testing.assert_allclose(low.predict_proba(PROBE), high.predict_proba(PROBE), rtol=1e-9)


def test_a_ratio_of_zero_everywhere_keeps_the_weights():
    model = after_rounds(0, ratio=LinearTilt(), refit="always").adapt(tilt(1.0, 0.3))
    weights, answers = model.reference_weight_, model.predict_proba(PROBE)
    model.adapt(tilt(0.0, 0.0))
    assert model.ratio_.reference_ratio_.max() == 0.0
    assert model.n_rounds_ == 2
    np.testing.assert_array_equal(model.reference_weight_, weights)
    np.testing.assert_allclose(model.predict_proba(PROBE), answers, rtol=1e-6)


def test_a_ratio_of_zero_on_one_class_is_survived():
    X, y = labelled_rows()
    X[:, 0] = np.where(y == 1, 1.0, -1.0)
    for estimator in (None, LogisticRegression()):
        model = AdaptiveClassifier(estimator, LinearTilt(), refit="always").fit(X, y).adapt(tilt(0.0, 1.0))
        assert np.all(model.reference_weight_[y == 0] == 0.0)
        assert np.all(np.isfinite(model.predict_proba(PROBE)))


def test_a_single_row_left_is_an_effective_sample_of_one():
    X, y = labelled_rows()
    threshold = np.sort(X[:, 0])[-2]
    model = AdaptiveClassifier(ratio=LinearTilt()).fit(X, y).adapt(tilt(-threshold, 1.0))
    assert model.effective_sample_size_ == pytest.approx(1.0, rel=1e-12)
    assert np.all(np.isfinite(model.predict_proba(PROBE)))


# --- when to refit ------------------------------------------------------------------------------------------


def refit_rounds(model, batches):
    """The rounds that fitted a new predictor."""
    rounds = []
    for batch in batches:
        before = model.estimator_
        model.adapt(batch)
        if model.estimator_ is not before:
            rounds.append(model.n_rounds_)
    assert model.n_refits_ == len(rounds)
    return rounds


@pytest.mark.parametrize("refit", ["always", 1, 3, np.int64(4)])
def test_a_rule_of_your_own_refits_every_so_many_rounds(refit):
    every = 1 if refit == "always" else int(refit)
    assert refit_rounds(after_rounds(0, refit=refit), drifting_batches(10)) == list(range(every, 11, every))


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([tilt(1.0, 0.0), tilt(7.0, 0.0), tilt(1.0, 1e-3)], []),
        ([tilt(1.0, 0.9), tilt(1.0, 0.9), tilt(1.0, -0.9)], [1, 3]),
    ],
    ids=["the weights stay", "they jump"],
)
def test_auto_refits_when_the_weights_move(batches, expected):
    assert refit_rounds(after_rounds(0, ratio=LinearTilt()), batches) == expected


def test_auto_adds_up_small_moves_since_the_last_fit():
    model = after_rounds(0, ratio=LinearTilt())
    small_moves = [tilt(1.0, 0.02 * t) for t in range(1, 41)]
    assert 1 <= len(refit_rounds(model, small_moves)) <= 13


def test_between_refits_the_weights_move_and_the_predictor_stays():
    model = after_rounds(0, ratio=LinearTilt(), refit=10)
    answers = model.predict_proba(PROBE).tobytes()
    model.adapt(tilt(1.0, 0.5))
    assert model.reference_weight_.std() > 0.1
    assert model.effective_sample_size_ < 110
    assert model.predict_proba(PROBE).tobytes() == answers


def exact_mean_risk(shift, refit, seed, estimator=None):
    """Mean exact risk over a Gaussian stream, and how often the predictor was fitted."""
    stream = GaussianStream(shift, n_rounds=600, batch_size=2, n_reference=400, random_state=seed)
    model = AdaptiveClassifier(estimator, refit=refit, adaptation="always").fit(*stream.reference())
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
def test_auto_refits_less_often_than_always_and_is_as_good(shift):
    risk_of_always, n_always = exact_mean_risk(shift, "always", seed=3)
    risk_of_auto, n_auto = exact_mean_risk(shift, "auto", seed=3)
    foreign = LogisticRegression(solver="newton-cholesky")
    risk_of_foreign, n_foreign = exact_mean_risk(shift, "auto", seed=3, estimator=foreign)
    assert n_always == 600
    assert 10 < n_foreign < 270
    assert n_foreign < n_auto < 600
    assert risk_of_auto == pytest.approx(risk_of_always, abs=0.001)
    assert risk_of_foreign == pytest.approx(risk_of_always, abs=0.003)


def test_a_ratio_that_never_moves_never_refits():
    model = after_rounds(10, ratio=NoShift())
    assert model.n_rounds_ == 10
    assert model.n_refits_ == 0
    assert model.reference_weight_.tolist() == [1.0] * 120


# --- a budget for refits: measured once, then counted in rounds ---------------------------------------------


@pytest.mark.parametrize("budget", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("ratio", [3.0, 40.0, 700.0])
def test_so_many_rounds_keep_the_budget(budget, ratio):
    rounds = rounds_between_refits(budget, refit_seconds=ratio, round_seconds=1.0)
    assert ratio / (ratio + rounds) <= budget
    # And no more than twice as many as needed, but for the comparisons.
    assert ratio / (ratio + rounds / 2 / 1.2) >= budget * 0.99


def test_no_budget_and_quick_refits_have_no_limit():
    assert rounds_between_refits(1.0, 5.0, 1.0) == 0
    assert rounds_between_refits(0.5, 0.1, 1.0) == 0
    assert seconds_of(lambda: None) >= 0.0


def budgeted(estimator=None, **options):
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 3))
    y = np.where(X[:, 1] < 0.3, X[:, 0], X[:, 2]) + 0.3 * random.normal(size=300) > 0
    estimator = estimator or DecisionTreeClassifier(max_depth=1, random_state=0)
    return AdaptiveClassifier(estimator, **options).fit(X, y)


def rounds_of_refits(model, stop):
    found = []
    for number in range(model.n_rounds_, stop):
        before = model.n_refits_
        model.adapt(np.random.default_rng(number).normal([0.0, 0.04 * number, 0.0], 1.0, size=(10, 3)))
        found += [number + 1] if model.n_refits_ > before else []
    return found


def test_refits_keep_their_distance_and_a_loaded_model_keeps_it_too(tmp_path):
    free = rounds_of_refits(budgeted(), 60)
    model = budgeted(refit_budget=0.2)
    # What the clock says depends on the machine; what follows from it does not.
    model.rounds_between_refits_ = 8
    model.rules_ = model._make_rules(model.state_.ratio)
    rare = rounds_of_refits(model, 30)
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=DecisionTreeClassifier(max_depth=1, random_state=0))
    assert loaded.rounds_between_refits_ == 8
    late = rounds_of_refits(model, 60)
    assert rounds_of_refits(loaded, 60) == late
    assert np.diff([*rare, *late]).min() >= 8 > np.diff(free).min()


def test_trees_whose_refits_are_quick_need_no_clock():
    trees = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4, random_state=0)
    assert budgeted(trees, refit_budget=0.01).rounds_between_refits_ == 0
    assert budgeted(refit_budget=0.01).rounds_between_refits_ > 0


# --- always: the paper's method, bit for bit --------------------------------------------------


N_ROUNDS = 70


@pytest.mark.parametrize("has_base", [False, True])
def test_every_round_is_ratio_weights_and_minimiser(has_base):
    X, y = labelled_rows()
    base = np.linspace(0.5, 1.5, len(X)) if has_base else None
    model = AdaptiveClassifier(adaptation="always", refit="always").fit(X, y, sample_weight=base)
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


def test_in_the_papers_settings_the_ratio_is_algorithms_1_and_2():
    settings = paper_settings()
    X, y = labelled_rows(n_rows=40)
    model = AdaptiveClassifier(ratio=OnlineDensityRatio(**settings), adaptation="always", refit="always").fit(X, y)
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
def test_settings_of_the_paper_have_no_pool(settings, estimator):
    X, y = labelled_rows()
    auto, none = (
        run_rounds(
            AdaptiveClassifier(estimator, OnlineDensityRatio(pool=pool, **settings), adaptation="always").fit(X, y),
            drifting_batches(30),
        )
        for pool in ("auto", "none")
    )
    assert auto.ratio_.pool_ is None
    assert shown_state(auto, PROBE) == shown_state(none, PROBE)


def test_the_pool_leaves_theta_and_learners_alone():
    X, y = labelled_rows()
    auto, none = (
        run_rounds(AdaptiveClassifier(adaptation=adaptation).fit(X, y), drifting_batches(N_ROUNDS))
        for adaptation in ("auto", "always")
    )
    assert auto.ratio_.pool_ is not None
    assert auto.ratio_.coef_.tobytes() == none.ratio_.coef_.tobytes()
    assert auto.ratio_.learner_coefs_.tobytes() == none.ratio_.learner_coefs_.tobytes()
    assert auto.ratio_.estimated_ratios().tobytes() == none.ratio_.reference_ratio_.tobytes()
    assert auto.reference_weight_.tobytes() != none.reference_weight_.tobytes()


# --- `step` is `predict` and `adapt`; parameters that change between rounds ---------------------------------


MODELS = {
    "own": AdaptiveClassifier,
    "plain": lambda: AdaptiveClassifier(adaptation="always"),
    "pipeline": lambda: AdaptiveClassifier(LogisticRegression()),
}


@pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)
def test_the_same_bits_as_predict_then_adapt(make_model):
    X, y = labelled_rows(n_classes=3)
    one, two = make_model().fit(X, y), make_model().fit(X, y)
    for batch in drifting_batches(40):
        expected = two.predict(batch)
        two.adapt(batch)
        found = one.step(batch)
        assert found.tolist() == expected.tolist()
        assert found.dtype == expected.dtype
    assert shown_state(one, PROBE) == shown_state(two, PROBE)


def test_an_empty_batch_is_no_round():
    model = AdaptiveClassifier().fit(*labelled_rows())
    predicted = model.step(np.empty((0, 3)))
    assert predicted.shape == (0,)
    assert predicted.dtype == model.classes_.dtype
    assert model.n_rounds_ == 0


def test_step_reads_the_rows_once():
    model, reads = AdaptiveClassifier().fit(*labelled_rows()), []

    class Counted:
        def __array__(self, dtype=None, copy=None):
            reads.append(1)
            return PROBE

    n_reads = []
    for method in (model.predict, model.adapt, model.step):
        method(Counted())
        n_reads.append(len(reads))
        reads.clear()
    assert n_reads[0] == n_reads[1] == n_reads[2] > 0


@pytest.mark.parametrize("changes", [{"refit": "always", "adaptation": "always"}, {"adaptation": "never"}], ids=str)
def test_parameters_set_between_rounds_count_from_then_on_as_after_saving(changes, tmp_path):
    model = run_rounds(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(40))
    accous.save(model.set_params(**changes), tmp_path)
    loaded, batches, before = accous.load(tmp_path), drifting_batches(12, seed=4), model.n_refits_
    assert shown_state(run_rounds(loaded, batches), PROBE) == shown_state(run_rounds(model, batches), PROBE)
    assert model.n_refits_ == before + 12 or loaded.state_.safeguards.veto.is_held


# --- the path of a round ------------------------------------------------------------------------------------


def path_of(call):
    """The files of accous that a call runs through, in order, one entry a function."""
    root, files = str(Path(accous.__file__).parent), []
    sys.setprofile(lambda frame, event, _: event == "call" and files.append(frame.f_code.co_filename))
    try:
        call()
    finally:
        sys.setprofile(None)
    return [file for file in files if file.startswith(root)]


def n_files(path):
    return len({file for file in path if "kernels_" not in file})


@needs_compilation
def test_a_round_without_a_refit_makes_few_calls_in_few_files_and_so_does_a_reading():
    stream = GaussianStream(SquareShift(period=100), n_rounds=300)
    model, counts = AdaptiveClassifier().fit(*stream.reference()), []
    for batch in stream:
        n_refits = model.n_refits_
        path = path_of(lambda batch=batch: model.adapt(batch.X))
        if batch.round > 20 and model.n_refits_ == n_refits:
            counts.append((len(path), n_files(path), sum(one != other for one, other in pairwise(path))))
    n_calls, files, n_changes = np.median(counts, axis=0)
    assert 20 < n_calls <= 45
    assert files <= 10
    assert n_changes <= 25
    model.performance()  # what held-out rows show is computed once
    model.adapt(batch.X)
    assert 5 < n_files(path_of(model.performance)) <= 12
