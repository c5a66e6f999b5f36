"""Labels that come late: `observe` measures and learns nothing, `extend` adds rows to the reference."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, backtest
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.trust import Checks, WeightEvidence, judge
from accous.exceptions import DataError, ParameterError
from accous.model.labels import rows_to_keep
from accous.streams import GaussianStream, SquareShift
from tests.classifiers import play


def make_stream(n_rounds=60, n_reference=300):
    """A reference, and all rows and labels of a stream in batches of ten."""
    stream = GaussianStream(SquareShift(period=20), n_rounds=n_rounds, batch_size=10, n_reference=n_reference)
    batches = list(stream)
    X, y = np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    return stream.reference(), X, y


def make_model(n_rounds=60, n_reference=300, **parameters):
    reference, X, y = make_stream(n_rounds, n_reference)
    return play(AdaptiveClassifier(**parameters).fit(*reference), np.split(X, n_rounds)), X, y


# --- `observe` and `measured_` ------------------------------------------------------------------------------


def test_the_errors_are_those_of_the_predictors_and_nothing_is_learned():
    model, X, y = make_model(40, 1000)
    assert model.measured_ is None
    assert model.observe(X[:0], y[:0]).measured_ is None
    predictor, weights, risk, before = model.estimator_, model.reference_weight_, model.risk_, model.state_
    found = model.observe(X, y).measured_
    is_wrong, is_wrong_fixed = model.predict(X) != y, model.fixed_.estimator.predict(X) != y
    shares = 0.5 ** (np.arange(len(y) - 1, -1, -1) / 500)
    assert found.error == pytest.approx(np.average(is_wrong, weights=shares))
    assert found.error_fixed == pytest.approx(np.average(is_wrong_fixed, weights=shares))
    assert found.error_low < found.error < found.error_high
    assert found.estimated == pytest.approx(risk.adapted)
    assert found.n_labelled == len(y) == model.state_.n_rows
    assert (found.contradicts, found.concept_changed) == (False, "no")
    assert model.estimator_ is predictor
    assert np.array_equal(model.reference_weight_, weights)
    assert model.state_ is not before
    assert before.late_labels is None


def test_predictions_of_then_count_instead_of_those_of_now_and_rows_may_be_unknown():
    model, X, y = make_model(40, 1000)
    found = model.observe(X, y, predicted=y, predicted_fixed=1 - y).measured_
    assert (found.error, found.error_fixed) == (0.0, pytest.approx(1.0))
    found = make_model(40, 1000)[0].observe(None, y, predicted=y).measured_
    assert (found.n_labelled, found.error, found.concept_changed) == (len(y), 0.0, "not known")
    assert np.isnan(found.error_fixed)


def test_labels_go_on_counting_over_rounds():
    model, X, y = make_model()
    model.observe(X[:100], y[:100])
    assert model.adapt(X[:10]).measured_.n_labelled == 100
    assert model.observe(X[100:150], y[100:150]).measured_.n_labelled == 150


def test_classes_that_the_reference_lacks_are_errors_of_both_models():
    model, X, y = make_model(40, 1000)
    labels = np.where(np.arange(len(y)) < 30, 7, y)
    found = model.observe(X, labels).measured_
    assert (found.unseen_classes, found.concept_changed) == ({"7": 30}, "yes")
    model = make_model(5)[0]
    only_new = model.observe(X[:30], labels[:30]).measured_
    assert (only_new.error, only_new.error_fixed) == (1.0, 1.0)
    assert model.observe(X[:2], ["no", "yes"]).measured_.unseen_classes == {"7": 30, "no": 1, "yes": 1}


@pytest.mark.parametrize(
    ("rows", "labels", "options", "message"),
    [
        (slice(0, 3), [0, 1], {}, "2 values for 3 rows"),
        (slice(0, 2), ["0", "1"], {}, "'0', but the classes are 0, 1"),
        (None, [0, 1], {}, "pass X or predicted"),
        (slice(0, 2), [0, 1], {"predicted": [0]}, "predicted has 1 value for 2 rows"),
        (slice(0, 2), [0, 1], {"predicted": [0, 1], "rounds": 3}, r"rounds must have the shape \(2,\)"),
        (slice(0, 2), [0, 1], {"predicted": [0, 1], "rounds": [[1], [2]]}, r"rounds must have the shape \(2,\)"),
        (slice(0, 2), [0, 1], {"rounds": [1, 2]}, "pass predicted too"),
    ],
)
def test_labels_that_cannot_be_counted_are_refused_and_change_nothing(rows, labels, options, message):
    model, X, _ = make_model(5)
    with pytest.raises((DataError, ParameterError), match=message):
        model.observe(None if rows is None else X[rows], np.array(labels, dtype=object), **options)
    assert model.measured_ is None


def test_frames_and_estimators_of_the_users_are_measured_too():
    stream = GaussianStream(SquareShift(period=20), n_rounds=20, batch_size=20)
    X, y = stream.reference()
    names = [f"c{number}" for number in range(X.shape[1])]
    model = AdaptiveClassifier(LogisticRegression()).fit(pd.DataFrame(X, columns=names), np.where(y, "yes", "no"))
    for batch in stream:
        frame = pd.DataFrame(batch.X, columns=names)
        model.observe(frame, np.where(batch.y, "yes", "no")).adapt(frame)
    assert model.measured_.n_labelled == 400
    assert model.measured_.concept_changed == "no"


def test_a_ratio_without_features_keeps_the_rows_themselves():
    model, X, y = make_model(10, ratio=NoShift())
    assert np.array_equal(model.observe(X, y).state_.late_labels.audit_rows.features, X)
    assert model.measured_.concept_changed in {"yes", "no"}


@pytest.mark.parametrize(("n_later", "answer"), [(100, "not known"), (600, "yes")])
def test_labels_are_judged_by_the_coverage_of_their_own_time(n_later, answer):
    model, X, y = make_model(70, 1000)
    model.observe(X, 1 - y)
    assert (model.measured_.contradicts, model.measured_.concept_changed) == (True, "yes")
    assert model.measured_.excess > 0.2
    for _ in range(n_later // 10):  # rows that the reference does not cover say nothing of older labels
        model.adapt(X[:10] + 1000.0)
    assert model.trust_.inputs.answer == "no"
    assert model.measured_.concept_changed == answer


# --- labels for predictions from before rows joined the reference -------------------------------------------


# What n_rounds_ was when each row was predicted: a batch is predicted before it is learned from.
ROUNDS = np.repeat(np.arange(40), 10)


@pytest.fixture
def joined():
    """A model that rows have joined in the middle of the stream, and its rows."""
    reference, X, y = make_stream(40, 1000)
    model = play(AdaptiveClassifier().fit(*reference), np.split(X[:200], 20))
    return play(model.extend(X[:200], y[:200]), np.split(X[200:], 20)), X, y


def test_they_are_left_out_and_confirm_nothing(joined):
    model, X, y = joined
    before, few = slice(0, 200), slice(200, 230)
    model.observe(X[before], y[before], predicted=1 - y[before], rounds=ROUNDS[before])
    assert model.measured_ is None
    model.observe(X[few], y[few], predicted=y[few], rounds=ROUNDS[few])
    shown = repr(model.measured_), repr(model.trust_)
    model.observe(X[before], y[before], predicted=y[before], rounds=ROUNDS[before])
    assert (repr(model.measured_), repr(model.trust_)) == shown
    assert not model.measured_.is_exact
    found = model.observe(X, y, predicted=np.where(ROUNDS < 20, 1 - y, y), rounds=ROUNDS).measured_
    assert (found.n_labelled, found.error, found.is_outdated) == (230, 0.0, False)
    assert sum(map(len, model.state_.late_labels.kept)) == 230
    labels = np.array([f"new {number // 150}" for number in range(400)], dtype=object)
    found = model.observe(X, labels, predicted=y, rounds=ROUNDS).measured_
    assert found.unseen_classes == {"new 1": 100, "new 2": 100}


def test_a_row_that_was_predicted_since_counts_also_before_the_next_round():
    model, X, y = make_model(20)
    found = model.extend(X[:50], y[:50]).observe(X, y, predicted=model.predict(X), rounds=np.full(200, 20)).measured_
    assert (found.n_labelled, found.is_outdated) == (200, False)


def test_unknown_rounds_and_models_that_nothing_joined_leave_nothing_out(joined):
    model, X, y = joined
    assert model.is_before_joining([0.0, 19.0, 20.0, np.nan]).tolist() == [True, True, False, False]
    new = AdaptiveClassifier().fit(*make_stream(1)[0])
    assert not new.is_before_joining(np.zeros(3)).any()
    assert not new.extend(X[:50], y[:50]).is_before_joining(np.zeros(3)).any()


# --- `extend`: labelled rows join the reference, old ones leave, and the rounds go on -----------------------


def test_the_model_recovers_from_a_flipped_concept_and_adapting_alone_does_not():
    reference, X, y = make_stream(200)
    y = np.where(np.arange(len(y)) < 500, y, 1 - y)
    extended, adapted = (AdaptiveClassifier().fit(*reference) for _ in range(2))
    errors = []
    for start in range(0, len(X), 10):
        batch, labels = X[start : start + 10], y[start : start + 10]
        errors.append([np.mean(each.step(batch) != labels) for each in (extended, adapted)])
        if start % 50 == 40:
            extended.extend(X[start - 40 : start + 10], y[start - 40 : start + 10], max_reference=300)
    before, after = np.mean(errors[:50], axis=0), np.mean(errors[150:], axis=0)
    assert before[0] < before[1] + 0.05
    assert after[1] > 0.6
    assert after[0] < 0.4


def test_the_rounds_go_on_with_the_same_theta_learners_and_scaling():
    model, X, y = make_model()
    ratio, before, reference = model.ratio_, model.state_, model.reference_
    assert model.extend(X[:0], y[:0]).state_ is before
    model.extend(X[:100], y[:100])
    assert model.n_rounds_ == 60
    assert np.array_equal(model.ratio_.coef_, ratio.coef_)
    assert np.array_equal(model.ratio_.learner_coefs_, ratio.learner_coefs_)
    assert model.ratio_.feature_bound_ == ratio.feature_bound_
    np.testing.assert_allclose(model.ratio_.ratios_at(ratio.coef_)[:300], ratio.ratios_at(ratio.coef_), rtol=1e-12)
    assert np.array_equal(model.ratio_.pool_.proportions, ratio.pool_.proportions)
    assert len(model.reference_weight_) == len(model.labels_) == len(model.reference_) == 400
    np.testing.assert_array_equal(model.reference_[300:], X[:100])
    assert len(before.weights) == len(reference) == len(ratio.reference_ratio_) == 300, "the old state is as it was"
    assert model.adapt(X[:10]).n_rounds_ == 61


def test_both_predictors_are_fits_on_the_new_reference():
    model, X, y = make_model(adaptation="always", standardize=False)
    model.extend(X[:100], y[:100])
    for predictor, weights in ((model.fixed_.estimator, None), (model.estimator_, model.reference_weight_)):
        expected = LogisticRegression(tol=1e-10, max_iter=10_000)
        expected.fit(model.reference_, model.classes_[model.labels_], sample_weight=weights)
        np.testing.assert_allclose(predictor.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


def test_the_oldest_rows_leave_above_twice_the_fitted_size_or_those_of_least_weight():
    model, X, y = make_model(adaptation="always")
    for rows in (slice(0, 400), slice(400, 600)):
        model.extend(X[rows], y[rows])
        assert len(model.reference_) == 600
        np.testing.assert_array_equal(model.reference_[rows.start - rows.stop :], X[rows])
    gone = model.reference_[model.reference_weight_.argmin()]
    model.extend(X[:10], y[:10], max_reference=200, drop="least weight")
    assert len(model.reference_) == 200
    assert not (model.reference_ == gone).all(axis=1).any()


def test_some_rows_of_each_class_always_stay():
    labels = np.array([0] * 20 + [1] * 100)
    kept = rows_to_keep(labels, np.arange(120.0), 30)
    assert len(kept) == 30
    assert (np.bincount(labels[kept]) == [5, 25]).all()
    assert (labels[kept] == 0).nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    assert kept[:5].tolist() == [15, 16, 17, 18, 19]


def test_a_new_class_joins(tmp_path):
    model, X, _ = make_model()
    new = np.random.default_rng(0).normal(size=(60, X.shape[1]))
    new[:, 0] += 8.0
    assert model.observe(new, np.full(60, 2)).measured_.unseen_classes == {"2": 60}
    model.extend(new, np.full(60, 2))
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict(new) == 2).mean() > 0.9
    assert model.predict_proba(X).shape == (600, 3)
    assert model.measured_.unseen_classes == {}
    model.adapt(X[:10])
    accous.save(model, tmp_path / "model")
    assert np.array_equal(accous.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_what_was_measured_before_counts_little_and_goes_on():
    model, X, y = make_model()
    model.observe(X, 1 - y)
    assert model.measured_.contradicts
    model.extend(X[:300], 1 - y[:300], max_reference=300)
    model.observe(X[300:], 1 - y[300:])
    assert model.measured_.n_labelled == 900
    assert model.measured_.error < 0.45
    assert model.measured_.concept_changed == "no"


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_and_an_estimator_of_the_users(library, tmp_path):
    (X, y), rows, labels = make_stream(20)

    def frame(rows):
        return library.DataFrame({f"c{number}": column for number, column in enumerate(rows.T)})

    model = AdaptiveClassifier(LogisticRegression()).fit(frame(X), np.where(y, "yes", "no"))
    play(model, map(frame, np.split(rows, 20)))
    model.extend(frame(rows[-10:]), np.where(labels[-10:], "yes", "perhaps"))
    assert len(model.reference_) == 310
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=LogisticRegression())
    assert np.array_equal(loaded.predict_proba(frame(rows)), model.predict_proba(frame(rows)))


def test_base_weights_of_new_rows_are_their_own_or_the_mean():
    (X, y), _, _ = make_stream(1)
    model = AdaptiveClassifier().fit(X, y, sample_weight=np.linspace(1.0, 3.0, 300))
    assert model.extend(X[:2], y[:2]).base_weight_[-2:].tolist() == pytest.approx([2.0, 2.0])
    assert model.extend(X[:2], y[:2], sample_weight=[0.0, 5.0]).base_weight_[-2:].tolist() == [0.0, 5.0]


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0], {}, "3 rows but y has 1 label "),
        (["a", "b", "c"], {}, "convert y"),
        ([0, 1, 0], {"drop": "youngest"}, "drop"),
        ([0, 1, 0], {"max_reference": 0}, "max_reference"),
        ([0, 1, 0], {"sample_weight": [-1.0, 1.0, 1.0]}, "sample_weight"),
        ([0.5, 1.0, 0.0], {}, "Unknown label type"),
    ],
)
def test_rows_that_cannot_join_are_refused_and_change_nothing(y, options, message):
    model, X, _ = make_model(5)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.extend(X[:3], np.array(y), **options)
    assert vars(model) == before


def test_rows_can_be_transformed_before_they_join_and_not_by_the_ratio():
    model, X, y = make_model(5, ratio=OnlineDensityRatio(StandardScaler()))
    with pytest.raises(ParameterError, match="transformer"):
        model.extend(X[:5], y[:5])
    assert len(model.reference_) == 300
    scaler = StandardScaler().fit(model.reference_)
    model = AdaptiveClassifier().fit(scaler.transform(model.reference_), model.labels_)
    assert len(model.extend(scaler.transform(X[:10]), y[:10]).reference_) == 310


OBJECTS = partial(np.array, dtype=object)


@pytest.mark.parametrize("of_fit", [list, np.array, OBJECTS])
@pytest.mark.parametrize("of_extend", [list, np.array, partial(pd.Series, dtype=object), pl.Series, pd.Series])
def test_text_labels_join_whatever_holds_them(of_fit, of_extend):
    (X, y), _, _ = make_stream()
    names = np.where(y == 1, "yes", "no").tolist()
    model = AdaptiveClassifier().fit(X, of_fit(names))
    kind = model.classes_.dtype.kind
    model.extend(X[:20], of_extend([*names[:19], "perhaps"]))
    assert model.classes_.dtype.kind == kind
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.classes_[model.labels_].tolist() == [*names, *names[:19], "perhaps"]
    with pytest.raises(DataError, match="y mixes types"):
        model.extend(X[:2], np.array(["yes", 1], dtype=object))


# --- after `extend`, the backtest of the old reference is evidence no more ----------------------------------


def rows(n_rows, *, seed=0, is_turned=False, by=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0.0).astype(int)
    return X + by, 1 - y if is_turned else y


def ordered(n_rows=600, *, order=True, estimator=None):
    model = AdaptiveClassifier(estimator).fit(*rows(n_rows), order=order)
    return play(model, np.split(rows(200, seed=1)[0], 40))


def answers(model):
    trust = model.trust_
    return trust.adaptation.answer, trust.predictions.answer, trust.predictions.sentence


def test_the_replay_is_repeated_on_the_extended_reference():
    model, short = ordered(), ordered(90)
    before, (X, y) = model.backtest_, rows(400, seed=2)
    assert (before.verdict, model.rules_.guard.name) == ("verified", "strict")
    model.extend(X, y)
    together = np.concatenate((rows(600)[0], X)), np.concatenate((rows(600)[1], y))
    assert model.backtest_ == backtest(AdaptiveClassifier(), *together, cuts=(0.5,)) != before
    assert len(model.backtest_.looks) == 5
    assert model.backtest_.verdict == "verified"
    assert short.backtest_ is None
    assert short.extend(*rows(80, seed=2)).backtest_.n_reference == 170


def test_rows_that_turn_the_labels_round_end_a_good_verdict_unless_they_have_no_weight():
    model = ordered().extend(*rows(400, seed=2, is_turned=True))
    assert (model.backtest_.verdict, model.rules_.guard.name, answers(model)[1]) == ("contradicted", "off", "no")
    X, y = rows(400, seed=2)
    is_turned = np.arange(400) % 2 == 0
    y = np.where(is_turned, 1 - y, y)
    assert ordered().extend(X, y).backtest_.verdict == "contradicted"
    weights = np.where(is_turned, 1e-9, 1.0)
    assert ordered().extend(X, y, sample_weight=weights).backtest_.verdict == "verified"


def test_rows_without_an_order_drop_the_evidence_and_the_answers_say_why(tmp_path):
    model = ordered()
    assert model.trust_.predictions.answer == "yes"
    model.extend(*rows(100, seed=2), order=False)
    assert model.backtest_ is None
    assert model.halves_ is None
    assert answers(model)[:2] == ("not known", "not known")
    assert "have joined" in answers(model)[2]
    accous.save(model, tmp_path / "model")
    assert answers(accous.load(tmp_path / "model")) == answers(model)
    assert "have joined" in answers(model.extend(*rows(100, seed=3)))[2]
    model.fit(*rows(600))
    assert "have joined" not in model.adapt(np.zeros((1, 3))).trust_.predictions.sentence
    model = ordered(order=False).extend(*rows(100, seed=2))
    assert model.backtest_ is None
    assert "have joined" not in answers(model)[2]


def test_times_give_the_new_rows_their_order():
    X, y = rows(300, seed=2)
    shuffled = np.random.default_rng(3).permutation(300)
    by_time = ordered().extend(X[shuffled], y[shuffled], order=shuffled)
    assert by_time.backtest_ == ordered().extend(X, y).backtest_
    before = dict(vars(by_time))
    with pytest.raises(DataError, match="order"):
        by_time.extend(X[:3], y[:3], order=np.arange(2))
    assert vars(by_time) == before


def test_a_reference_that_cannot_be_replayed_any_more_says_so():
    first_half = rows(600)[0][:325]

    class NotTheFirstHalf(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            if np.array_equal(X, first_half):
                raise ValueError("not these rows")
            return super().fit(X, y, sample_weight)

    small = ordered().extend(*rows(20, seed=2), max_reference=80)
    failing = ordered(estimator=NotTheFirstHalf()).extend(*rows(50, seed=2))
    for model, words in ((small, "fewer than 100 rows"), (failing, "could not be replayed")):
        assert model.backtest_ is None
        assert words in answers(model)[2]


def test_the_answers_are_about_the_reference_that_rows_have_joined(tmp_path):
    """The inputs have left the reference and the labels contradict the estimate, until these rows join."""
    X, y = rows(300, seed=1, by=4.0)
    model = play(AdaptiveClassifier().fit(*rows(600)), np.split(X, 30))
    model.observe(X, y, predicted=1 - y, estimated=np.tile((0.1, 0.05, 0.15), (300, 1)))
    assert (model.trust_.inputs.answer, model.trust_.predictions.answer) == ("no", "no")
    model.extend(X, y)
    assert (model.trust_.inputs.answer, model.trust_.predictions.answer) == ("not known", "not known")
    assert model.measured_.is_outdated
    accous.save(model, tmp_path / "model")
    assert repr(accous.load(tmp_path / "model").trust_) == repr(model.trust_)
    X, y = rows(160, seed=2, by=4.0)
    for batch in np.split(X, 16):
        assert model.trust_.inputs.answer != "no"
        model.adapt(batch)
    model.observe(X[:20], y[:20], predicted=1 - y[:20], estimated=np.tile((0.1, 0.05, 0.15), (20, 1)))
    assert not model.measured_.is_outdated
    assert model.trust_.predictions.answer == "no"


@pytest.mark.parametrize(
    ("since_joining", "answer"), [(None, "no"), ((16, 160), "no"), ((15, 150), "yes"), ((0, 0), "not known")]
)
def test_a_ratio_to_the_reference_before_is_no_sign_of_missing_overlap(since_joining, answer):
    found = judge(
        WeightEvidence(300.0, 1.0, 2.0, mean_weight=0.2, share_cut=0.0),
        share_out_of_bound=0.0,
        exponent=1.0,
        is_vetoed=False,
        excess=(-0.03, 0.01),
        interval=(0.1, 0.08, 0.12),
        checks=Checks(coverage=Coverage(500, 0.05, 0.2), since_joining=since_joining),
    )
    assert found.inputs.answer == answer
