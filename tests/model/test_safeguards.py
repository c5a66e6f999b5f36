"""What limits harm: the guard, the veto and when it is reconsidered, weights that are shrunk, and what they cost."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from accous import KLIEP, ULSIF, AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.diagnostics.evidence import Evidence
from accous.model import safeguards as guards
from accous.model.round import is_check_due
from accous.model.tasks import ClassTask
from accous.streams import ConstantShift, GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import PROBE, drifting_batches, labelled_rows, run_rounds, shown_state

NAN = float("nan")


# --- which guard, and what it holds back --------------------------------------------------------------------


def evidence(drift=0.0, gain=0.0):
    return Evidence(n_looks=12, drift=drift, gain=gain)


@pytest.mark.parametrize(
    ("found", "guard"),
    [
        (None, guards.LENIENT),
        (evidence(), guards.LENIENT),
        (evidence(drift=guards.QUIET_DRIFT - 0.001, gain=0.1), guards.LENIENT),
        (evidence(drift=guards.QUIET_DRIFT), guards.STRICT),
        (evidence(drift=0.5, gain=guards.LARGEST_LOSS), guards.STRICT),
        (evidence(drift=0.5, gain=guards.LARGEST_LOSS + 0.0001), guards.OFF),
        (evidence(drift=0.5, gain=-0.1), guards.STRICT),
    ],
)
def test_the_choice(found, guard):
    assert guards.choose_guard(found, "auto") is guard
    assert guards.choose_guard(found, "auto", has_trees=True) is (guards.EVEN if found is None else guard)
    assert guards.choose_guard(found, "auto", may_matter=True) is (guards.UNREPLAYED if found is None else guard)
    assert guards.choose_guard(found, "always") is guards.FREE
    assert guards.choose_guard(found, "never") is guards.NEVER


differences = st.floats(-1.0, 1.0) | st.just(NAN)
errors = st.floats(0.0, 1.0) | st.just(NAN)


@given(differences, errors)
def test_guards_ask_for_evidence_against_or_in_favour(excess, standard_error):
    is_clearly_worse = excess - guards.VETO_STANDARD_ERRORS * standard_error > 0.0
    is_clearly_better = excess + guards.GAIN_STANDARD_ERRORS * standard_error < 0.0
    assert not guards.FREE.holds(excess, standard_error)
    assert guards.LENIENT.holds(excess, standard_error) == is_clearly_worse
    assert guards.EVEN.holds(excess, standard_error) == (not excess <= 0.0)
    assert guards.STRICT.holds(excess, standard_error) == (not is_clearly_better)
    assert guards.OFF.holds(excess, standard_error)
    assert guards.next_veto(guards.LENIENT, excess, standard_error, 3, 2).is_held == is_clearly_worse
    for guard in (guards.FREE, guards.LENIENT, guards.EVEN, guards.STRICT, guards.OFF):
        assert guard.starts_held == guard.holds(NAN, NAN) == (guard not in (guards.FREE, guards.LENIENT))
    assert not guards.EVEN.holds(0.0, 0.0)


def drifting_reference(n_rows=600):
    """Rows whose first column wanders, and classes with a curved border: a linear model gains by following."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 3))
    X[:, 0] += np.linspace(-0.5, 0.5, n_rows)
    return X, (X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=n_rows) > 1.0).astype(int)


def changing_reference(n_rows=600):
    """Rows whose labels turn round in the middle."""
    X, y = drifting_reference(n_rows)
    return X, np.where(np.arange(n_rows) < n_rows // 2, y, 1 - y)


@pytest.mark.parametrize(
    ("rows", "order", "adaptation", "name"),
    [
        (drifting_reference, True, "auto", "strict"),
        (changing_reference, True, "auto", "off"),
        (changing_reference, False, "auto", "lenient"),
        (changing_reference, True, "always", "free"),
        (drifting_reference, False, "never", "off"),
    ],
)
def test_the_model_starts_with_the_predictor_that_its_guard_names(rows, order, adaptation, name):
    model = AdaptiveClassifier(adaptation=adaptation).fit(*rows(), order=order)
    assert model.rules_.guard.name == name
    for batch in drifting_batches(3):
        assert model.state_.safeguards.veto.is_held == (name in ("strict", "off"))
        if name in ("strict", "off"):
            assert model.predict(PROBE).tolist() == model.predict_fixed(PROBE).tolist()
            assert model.estimator_ is model.fixed_.estimator
        model.adapt(batch)


@pytest.mark.parametrize("ratio", [None, ULSIF(random_state=0)], ids=["online", "one step"])
def test_never_is_the_fixed_model_and_the_ratio_follows_as_with_auto(ratio):
    model, auto = (
        AdaptiveClassifier(ratio=ratio, adaptation=adaptation, refit="always").fit(*labelled_rows())
        for adaptation in ("never", "auto")
    )
    for batch in drifting_batches(40):
        assert model.predict_proba(PROBE).tobytes() == auto.fixed_.estimator.predict_proba(PROBE).tobytes()
        model.adapt(batch)
        auto.adapt(batch)
        assert model.reference_weight_.tobytes() == auto.reference_weight_.tobytes()
    assert (model.n_refits_, model.state_.safeguards.check.weights) == (0, None)
    assert auto.n_refits_ > 0
    assert model.state_.watch.column_shares.tolist() == auto.state_.watch.column_shares.tolist()
    assert (model.rules_.guard, model.state_.safeguards.veto.is_held) == (guards.NEVER, True)


def test_with_the_guard_off_the_fixed_model_predicts_in_every_round():
    model = AdaptiveClassifier(refit="always").fit(*changing_reference(), order=True)
    assert model.rules_.guard.name == "off"
    free = AdaptiveClassifier(adaptation="always", refit="always").fit(*changing_reference())
    has_differed = False
    for batch in drifting_batches(80):
        assert model.predict_proba(PROBE).tobytes() == model.fixed_.estimator.predict_proba(PROBE).tobytes()
        has_differed |= free.predict_proba(PROBE).tobytes() != model.predict_proba(PROBE).tobytes()
        model.adapt(batch)
        free.adapt(batch)
    assert has_differed
    assert model.n_refits_ == 0, "whatever a fit or a comparison said, the fixed model would predict"


@pytest.mark.parametrize("parameters", [{"adaptation": "always"}, {"ratio": NoShift()}], ids=["none", "no record"])
def test_without_safeguards_nothing_is_held_back(parameters):
    model = run_rounds(AdaptiveClassifier(**parameters).fit(*labelled_rows()), drifting_batches(5))
    assert model.rules_.guard is guards.FREE
    assert not model.state_.safeguards.veto.is_held


def test_what_is_set_after_fit_holds_from_the_next_round_on():
    model = run_rounds(AdaptiveClassifier().fit(*labelled_rows()), drifting_batches(40))
    assert model.state_.safeguards.share > 0.0
    assert not model.state_.safeguards.veto.is_held
    more = drifting_batches(3, seed=4)
    model.set_params(adaptation="never").adapt(more[0])
    assert (model.rules_.guard, model.state_.safeguards.veto.is_held) == (guards.NEVER, True)
    assert model.estimator_ is model.fixed_.estimator
    model.set_params(adaptation="auto").adapt(more[1])
    assert (model.rules_.guard, model.state_.safeguards.veto.is_held) == (guards.LENIENT, False)
    model.set_params(adaptation="never").adapt(more[2]).set_params(adaptation="always").adapt(more[2])
    assert (model.rules_.guard, model.state_.safeguards.veto.is_held) == (guards.FREE, False)


class AlwaysWorse(GaussianNB):
    """Right while all weights are one, wrong with any others."""

    def fit(self, X, y, sample_weight=None):
        self.is_right_ = sample_weight is None or np.ptp(sample_weight) == 0.0
        return super().fit(X, y)

    def predict(self, X):
        predicted = super().predict(X)
        return predicted if self.is_right_ else self.classes_[::-1][np.searchsorted(self.classes_, predicted)]


def test_a_predictor_that_adapts_for_the_worse_is_never_used_after_the_first_comparison():
    model = AdaptiveClassifier(AlwaysWorse(), refit=1).fit(*labelled_rows(n_rows=400))
    fixed = model.predict(PROBE).tolist()
    for batch in drifting_batches(60, n_rows=8):
        model.adapt(batch)
        if model.state_.safeguards.veto.n_refits:
            assert model.predict(PROBE).tolist() == fixed
    assert model.state_.safeguards.veto.n_refits > 0
    assert model.state_.safeguards.veto.is_held


# --- what the safeguards cost and keep ----------------------------------------------------------------------


def stream_of(shift, **changes):
    return GaussianStream(shift, **{"n_rounds": 400, "n_reference": 500, "batch_size": 2, "random_state": 1} | changes)


def mean_excess(stream, **parameters):
    """Points above the fixed model."""
    model = AdaptiveClassifier(**parameters).fit(*stream.reference())
    fixed, excess = model.estimator_, []
    for batch in stream:
        excess.append(stream.risk(model.estimator_, batch.alpha) - stream.risk(fixed, batch.alpha))
        model.adapt(batch.X)
    return 100.0 * float(np.mean(excess))


def test_where_nothing_moves_almost_nothing_is_lost():
    stream = stream_of(ConstantShift(0.9))
    assert mean_excess(stream, adaptation="always") > 0.1
    assert abs(mean_excess(stream)) < 0.05


def test_where_the_stream_moves_most_of_the_gain_is_kept():
    stream = stream_of(SquareShift(period=200), n_reference=1000)
    gain = -mean_excess(stream, adaptation="always")
    assert gain > 2.0
    assert -mean_excess(stream) > 0.9 * gain


@pytest.mark.parametrize(
    "ratio", [NoShift(), SingleLearnerRatio(), KLIEP(random_state=0)], ids=lambda r: type(r).__name__
)
def test_other_ratio_estimators_stay_what_they_are(ratio):
    X, y = labelled_rows()
    auto, none = (
        run_rounds(AdaptiveClassifier(ratio=ratio, adaptation=adaptation).fit(X, y), drifting_batches(40))
        for adaptation in ("auto", "always")
    )
    assert not ratio.keeps_record
    assert shown_state(auto, PROBE) == shown_state(none, PROBE)
    assert auto.state_.safeguards.share == 1.0


@pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])
@pytest.mark.parametrize("estimator", rest_slow([None, LogisticRegression()]), ids=["ours", "foreign"])
@pytest.mark.parametrize("pool", ["auto", "none"])
def test_every_loss_can_be_tempered(pool, loss, estimator):
    X, y = labelled_rows()
    model = AdaptiveClassifier(estimator, OnlineDensityRatio(loss=loss, pool=pool)).fit(X, y)
    assert model.state_.safeguards.share == 0.0
    run_rounds(model, drifting_batches(40))
    assert 0.1 < model.state_.safeguards.share < 1.0
    safeguards, pool_ = model.state_.safeguards, model.ratio_.pool_
    proportions = safeguards.tempered.filters.proportions if pool_ is None else pool_.proportions
    assert model.state_.safeguards.share == 1.0 - proportions[0]
    assert np.isfinite(model.predict_proba(PROBE)).all()


# --- when the adapted predictor is compared with the fixed one ----------------------------------------------


ONES = np.ones(10)
NEAR, FAR = 0.15, 0.25  # total variations


class Erm:
    """Says how often to compare."""

    def __init__(self, rounds=32, refits=1):
        self.rounds_between_checks, self.refits_between_checks = rounds, refits


def check_at(n_rounds, n_refits, weights):
    return guards.Check(guards.Veto(True, 0.1, 0.01, n_rounds, n_refits), 12.0, weights)


@pytest.mark.parametrize(
    ("erm", "this_round", "n_refits", "moved", "is_due"),
    [
        (Erm(), 131, 11, NEAR, False),
        (Erm(), 132, 11, NEAR, True),
        (Erm(), 132, 10, NEAR, False),
        (Erm(), 101, 11, FAR, False),
        (Erm(), 102, 11, FAR, True),
        (Erm(), 102, 10, FAR, False),
        (Erm(256), 115, 11, FAR, False),
        (Erm(256), 116, 11, FAR, True),
        (Erm(1, 5), 140, 14, NEAR, False),
        (Erm(1, 5), 140, 11, FAR, False),
        (Erm(1, 5), 140, 12, FAR, True),
        (Erm(1, 5), 140, 15, NEAR, True),
    ],
)
def test_regularly_or_at_once_after_a_jump(erm, this_round, n_refits, moved, is_due):
    assert is_check_due(check_at(100, 10, ONES), erm, this_round, n_refits, moved) is is_due


@pytest.mark.parametrize("erm", [Erm(), Erm(1, 5)], ids=["built-in", "user's"])
def test_after_rounds_with_nothing_to_adapt_to_the_first_fit_is_compared(erm):
    paused = check_at(100, 10, None)
    assert not is_check_due(paused, erm, 102, 10, NEAR)
    assert is_check_due(paused, erm, 102, 11, NEAR)


def adapt_to(model, alpha, n_rounds, seed):
    """Adapt to a part of the stream; return the rounds in which predictors were compared."""
    stream = GaussianStream(ConstantShift(alpha), n_rounds=n_rounds, batch_size=5, n_features=6, random_state=seed)
    compared = []
    for batch in stream:
        model.adapt(batch.X)
        check = model.state_.safeguards.check
        if check.veto.n_rounds == model.n_rounds_ and check.weights is not None:
            compared.append(model.n_rounds_)
    return compared


def fitted(**parameters):
    stream = GaussianStream(ConstantShift(0.5), n_rounds=1, n_features=6, n_reference=400, alpha_0=0.5)
    return AdaptiveClassifier(**parameters).fit(*stream.reference())


def test_a_jump_is_checked_within_a_few_rounds_and_a_regime_every_32_rounds_at_most():
    model = fitted()
    compared = adapt_to(model, 1.0, 120, seed=1)
    assert model.erm_.rounds_between_checks == 32
    # Not long after the last comparison, the stream jumps from one part to the other.
    while model.n_rounds_ - compared[-1] > 3:
        compared += adapt_to(model, 1.0, 1, seed=model.n_rounds_)
    jump = model.n_rounds_
    after = adapt_to(model, 0.0, 20, seed=3)
    assert after[0] <= jump + 8
    assert after[0] - compared[-1] < 32
    assert model.state_.safeguards.veto.standard_error > 0.0
    model = fitted()
    adapt_to(model, 1.0, 150, seed=1)
    assert len(adapt_to(model, 1.0, 120, seed=2)) <= 5


@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["built-in", "user's"])
def test_while_there_is_nothing_to_adapt_to_the_fixed_predictor_answers_unfitted(estimator):
    model = fitted(estimator=estimator)
    distances = []
    for batch in GaussianStream(ConstantShift(0.5), n_rounds=60, batch_size=5, n_features=6, random_state=1):
        n_refits = model.n_refits_
        model.adapt(batch.X)
        if model.state_.safeguards.share == 0.0:
            assert model.estimator_ is model.fixed_.estimator
            assert (model.n_refits_, model.state_.safeguards.check.weights) == (n_refits, None)
            assert model.state_.safeguards.share == 0.0
            np.testing.assert_array_equal(model.state_.fitted_weights, np.ones(400))
            distances.append(0.5 * np.abs(model.reference_weight_ - 1.0).mean())
    assert len(distances) > 50
    # The pool moved a little; no fit follows such weights.
    assert 0.0 < max(distances) < 0.1
    n_refits = model.n_refits_
    adapt_to(model, 1.0, 20, seed=2)
    assert model.n_refits_ > n_refits


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 5])
def test_standing_still_costs_at_most_two_hundredths_of_a_point(batch_size):
    shape = {"n_rounds": 2000, "n_reference": 1000, "batch_size": batch_size}
    excess = [mean_excess(stream_of(ConstantShift(0.9), **shape, random_state=seed)) for seed in range(4)]
    assert np.mean(excess) <= 0.02


# --- weights that leave few effective rows are shrunk, by a strength that the labels choose -----------------


N = 40
BASE = np.ones(N)
WEIGHTS = np.where(np.arange(N) < 20, 1.9, 0.1)
LABELS = np.arange(N) % 2


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1e4))
def test_the_formula(seed, strength):
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.1, 2.0, size=12)
    weights = base * np.exp(rng.normal(scale=2.0, size=12))
    weights *= base.sum() / weights.sum()
    n_effective = sum(weights) ** 2 / sum(w * w for w in weights)
    expected = [(n_effective * w + strength * b) / (n_effective + strength) for w, b in zip(weights, base, strict=True)]
    shrunk = guards.shrink(weights, base, strength)
    np.testing.assert_allclose(shrunk, expected, rtol=1e-12)
    assert shrunk.sum() == pytest.approx(base.sum(), rel=1e-12)


class ScriptedErm:
    """Fits nothing: the cross-fitted probability of each row's label depends on the weights as the test says."""

    is_quick_to_cross_fit = True

    def __init__(self, losses):
        self.losses = losses
        self.fitted = []

    def strength_of(self, weights):
        return next(each for each in guards.STRENGTHS if np.array_equal(weights, guards.shrink(WEIGHTS, BASE, each)))

    def fit(self, weights, previous):
        self.fitted.append(self.strength_of(weights))
        return f"fit with {self.strength_of(weights):g}"

    def cross_fitted_probabilities(self, weights, fitted):
        if self.losses is None:
            return None
        assert fitted == f"fit with {self.strength_of(weights):g}"
        of_label = 1.0 - np.broadcast_to(self.losses[self.strength_of(weights)], N)
        return np.where(np.eye(2, dtype=bool)[LABELS], of_label[:, None], 1.0 - of_label[:, None])


def choose(losses, current=12.0, this_round=90):
    erm = ScriptedErm(losses)
    latest = guards.Fit(f"fit with {current:g}", guards.shrink(WEIGHTS, BASE, current), 7, 90)
    found = guards.choose_strength(
        erm, ClassTask(np.array([0, 1]), LABELS), WEIGHTS, BASE, (current, latest), this_round
    )
    return None if found is None else (*found[:2], erm)


# One row in four differs: the mean difference is 0.05, and its standard error about 0.015.
SPREAD = np.where(np.arange(N) % 4 == 0, 0.2, 0.0)


@pytest.mark.parametrize(
    ("losses", "chosen"),
    [
        ((0.3, 0.3, 0.3), 192.0),
        ((0.3, 0.2, 0.1), 192.0),
        ((0.1, 0.2, 0.3), 12.0),
        ((0.2, 0.1, 0.3), 48.0),
        ((0.3, 0.1, 0.1), 192.0),
        ((0.2, 0.2, 0.2 + SPREAD), 48.0),
        ((0.2 + SPREAD, 0.2, 0.2 + SPREAD), 48.0),
        ((0.2, 0.2 + SPREAD, 0.2 + SPREAD), 12.0),
        # Worse by 0.001 on average, with a standard error of 0.02: as good as the best.
        ((0.3, 0.301 + np.where(np.arange(N) % 2 == 0, 0.1, -0.1), 0.5), 48.0),
        ((0.3, 0.5, 0.301 + np.where(np.arange(N) % 2 == 0, 0.1, -0.1)), 192.0),
    ],
)
def test_the_largest_strength_within_one_standard_error_of_the_best_is_chosen(losses, chosen):
    for current in guards.STRENGTHS:
        strength, fit, _ = choose(dict(zip(guards.STRENGTHS, losses, strict=True)), current)
        assert strength == chosen
        assert fit.estimator == f"fit with {chosen:g}"
        np.testing.assert_array_equal(fit.weights, guards.shrink(WEIGHTS, BASE, chosen))


def test_one_standard_error_is_that_of_the_weighted_difference():
    """Just below and just above one standard error, computed by hand."""
    noise = np.where(np.arange(N) % 2 == 0, 0.1, -0.1)
    shares = WEIGHTS / WEIGHTS.sum()
    centred = noise - shares @ noise
    error = np.sqrt(sum((share * value) ** 2 for share, value in zip(shares, centred, strict=True)))
    for factor, chosen in ((0.99, 48.0), (1.01, 12.0)):
        losses = {12.0: 0.4, 48.0: 0.4 + centred + factor * error, 192.0: 0.9}
        assert choose(losses)[0] == chosen


def test_the_fit_in_use_is_repeated_only_if_it_is_older_and_a_round_counts_as_one_refit():
    losses = {12.0: 0.1, 48.0: 0.2, 192.0: 0.3}
    for this_round, expected in ((90, ([12.0, 192.0], 7, 90)), (100, ([12.0, 48.0, 192.0], 8, 100))):
        _, fit, erm = choose(losses, current=48.0, this_round=this_round)
        assert (erm.fitted, fit.n_refits, fit.last_refit) == expected
    assert choose(None, current=48.0) is None, "where rows cannot be left out"


def after_jump(n_features=4, n_reference=250, **parameters):
    """The model after a jump, and (strength, last check) after every round."""
    shape = {"n_features": n_features, "n_reference": n_reference, "batch_size": 5, "random_state": 1}
    stream = GaussianStream(SquareShift(period=80), n_rounds=80, **shape)
    model, history = AdaptiveClassifier(**parameters).fit(*stream.reference()), []
    for batch in stream:
        check = model.adapt(batch.X).state_.safeguards.check
        history.append((check.strength, check.veto.n_rounds))
    return model, history


def test_the_strength_changes_only_with_a_check():
    model, history = after_jump(n_reference=100)
    assert len({strength for strength, _ in history}) > 1
    for this_round, ((before, _), (after, checked)) in enumerate(pairwise(history), start=2):
        assert after in guards.STRENGTHS
        assert after == before or checked == this_round
    assert guards.is_choice_due(model.erm_, model.reference_weight_)
    assert not guards.is_choice_due(model.erm_, np.ones(400)), "with many effective rows there is nothing to choose"
    assert guards.is_choice_due(model.erm_, np.ones(399))


@pytest.mark.parametrize(
    ("n_features", "estimator"), [(140, None), (4, LogisticRegression())], ids=["many coefficients", "user's estimator"]
)
def test_where_choosing_is_expensive_the_first_strength_stays(n_features, estimator):
    model, history = after_jump(n_features, estimator=estimator)
    assert not guards.is_choice_due(model.erm_, model.reference_weight_)
    assert {strength for strength, _ in history} == {guards.FIRST_STRENGTH}
    assert model.n_refits_ > 0


@pytest.mark.parametrize(
    ("gain", "chosen"), [(-1.5, 0), (0.0, 0), (0.9, 0), (1.1, 1)], ids=["worse", "equal", "not clear", "clear"]
)
def test_with_enough_effective_rows_a_larger_strength_has_to_be_clearly_better(gain, chosen):
    n_rows = 100
    noise = np.where(np.arange(n_rows) % 2 == 0, 0.1, -0.1)
    losses = [np.full(n_rows, 0.4), 0.4 + noise - gain * 0.1 / np.sqrt(n_rows), np.full(n_rows, 0.9)]
    assert guards._choose(losses, np.ones(n_rows), n_rows) == chosen
    few = slice(0, 50)
    assert guards._choose([each[few] for each in losses], np.ones(50), 50.0) == (0 if gain < -1.45 else 1)
