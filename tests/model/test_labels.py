"""Labels that come late: what `observe` measures with them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, NoShift
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.trust import Checks, WeightEvidence, judge
from accous.exceptions import DataError, ParameterError
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
    found = model.observe(X, y, learn=False).measured_
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


# --- overlap judged after rows have joined the reference ---------------------------------------------------


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
