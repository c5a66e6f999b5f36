"""`observe` and `measured_`: late labels are counted, nothing is learned from them, and they survive a save."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import accous
from accous import AdaptiveClassifier, NoShift
from accous.exceptions import DataError
from accous.model.round import state_from_plain, state_to_plain
from accous.streams import GaussianStream, SquareShift

SAVED = Path(__file__).parents[1] / "checkpoint" / "saved_by_0_1"


def make_model(n_rounds=40, **parameters):
    stream = GaussianStream(SquareShift(period=20), n_rounds=n_rounds, batch_size=10)
    model = AdaptiveClassifier(**parameters).fit(*stream.reference())
    batches = list(stream)
    for batch in batches:
        model.adapt(batch.X)
    X, y = np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    return model, X, y


def test_before_the_first_label_there_is_nothing_measured():
    model, X, y = make_model(5)
    assert model.measured_ is None
    assert model.observe(X[:0], y[:0]).measured_ is None


def test_the_errors_are_those_of_the_predictors_and_nothing_is_learned():
    model, X, y = make_model()
    predictor, weights, risk = model.estimator_, model.reference_weight_, model.risk_
    found = model.observe(X, y).measured_
    is_wrong, is_wrong_fixed = model.predict(X) != y, model.fixed_.estimator.predict(X) != y
    shares = 0.5 ** (np.arange(len(y) - 1, -1, -1) / 500)
    assert found.error == pytest.approx(np.average(is_wrong, weights=shares))
    assert found.error_fixed == pytest.approx(np.average(is_wrong_fixed, weights=shares))
    assert found.error_low < found.error < found.error_high
    assert found.estimated == pytest.approx(risk.adapted)
    assert found.n_labelled == len(y) == model.state_.n_rows
    assert model.estimator_ is predictor
    assert np.array_equal(model.reference_weight_, weights)


def test_predictions_of_then_count_instead_of_those_of_now():
    model, X, y = make_model()
    found = model.observe(X, y, predicted=y, predicted_fixed=1 - y).measured_
    assert (found.error, found.error_fixed) == (0.0, pytest.approx(1.0))


def test_rows_may_be_unknown_if_their_predictions_are_known():
    model, _, y = make_model()
    found = model.observe(None, y, predicted=y).measured_
    assert (found.n_labelled, found.error, found.concept_changed) == (len(y), 0.0, "not known")
    assert np.isnan(found.error_fixed)


def test_labels_go_on_counting_over_rounds():
    model, X, y = make_model()
    model.observe(X[:100], y[:100])
    model.adapt(X[:10])
    assert model.measured_.n_labelled == 100
    assert model.observe(X[100:150], y[100:150]).measured_.n_labelled == 150


def test_true_labels_agree_with_the_estimate_and_flipped_ones_do_not():
    model, X, y = make_model()
    agreeing = model.observe(X, y).measured_
    assert (agreeing.contradicts, agreeing.concept_changed) == (False, "no")
    model, X, y = make_model()
    flipped = model.observe(X, 1 - y).measured_
    assert (flipped.contradicts, flipped.concept_changed) == (True, "yes")
    assert flipped.excess > 0.2


def test_a_class_that_the_reference_lacks_is_an_error_of_both_models_and_not_an_exception():
    model, X, y = make_model()
    labels = np.where(np.arange(len(y)) < 30, 7, y)
    found = model.observe(X, labels).measured_
    assert found.unseen_classes == {"7": 30}
    assert found.concept_changed == "yes"
    assert "'7' (30)" in found.sentence
    only_new = make_model()[0].observe(X[:30], labels[:30]).measured_
    assert (only_new.error, only_new.error_fixed) == (1.0, 1.0)


def test_labels_of_another_type_are_unseen_classes():
    model, X, _ = make_model(5)
    assert model.observe(X[:2], ["no", "yes"]).measured_.unseen_classes == {"no": 1, "yes": 1}


def test_labels_that_are_classes_as_text_are_refused():
    model, X, _ = make_model(5)
    with pytest.raises(DataError, match=r"y has labels such as '0', but the classes are 0, 1.*: pass numbers\."):
        model.observe(X[:2], ["0", "1"])
    assert model.measured_ is None


@pytest.mark.parametrize(
    ("rows", "labels", "options", "message"),
    [
        (slice(0, 3), [0, 1], {}, "2 values for 3 rows"),
        (slice(0, 2), [0, None], {}, "y holds None in row 1"),
        (slice(0, 2), [0.0, float("nan")], {}, "y holds NaN in row 1"),
        (None, [0, 1], {}, "pass X or predicted"),
        (slice(0, 2), [0, 1], {"predicted": [0]}, "predicted has 1 value for 2 rows"),
    ],
)
def test_wrong_input_is_refused_and_changes_nothing(rows, labels, options, message):
    model, X, _ = make_model(5)
    with pytest.raises(DataError, match=message):
        model.observe(None if rows is None else X[rows], np.array(labels, dtype=object), **options)
    assert model.measured_ is None


def test_a_new_label_makes_a_new_state_and_leaves_the_old_one():
    model, X, y = make_model(5)
    before = model.state_
    assert model.measured_ is None
    model.observe(X, y)
    assert model.state_ is not before
    assert before.late_labels is None
    assert "measured" not in before.cache


def test_labels_count_while_another_thread_reads_and_adds_to_the_cache():
    class ReadMeanwhile(dict):
        """A cache to which a reader adds between any two items that are looked at."""

        def items(self):
            for item in super().items():
                self[f"read {len(self)}"] = 0
                yield item

    model, X, y = make_model(5)
    coverage = model.coverage_
    model.state_ = replace(model.state_, cache=ReadMeanwhile(model.state_.cache))
    model.observe(X[:20], y[:20])
    assert model.measured_.n_labelled == 20
    assert model.coverage_ is coverage


def test_saved_counts_go_on_bit_for_bit(tmp_path):
    model, X, y = make_model(70)
    model.observe(X[:600], np.where(y[:600] == 0, "new", y[:600].astype(object)))
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    assert loaded.measured_ == model.measured_
    for each in (model, loaded):
        each.adapt(X[:10]).observe(X[600:], y[600:])
    assert loaded.measured_ == model.measured_
    assert np.array_equal(loaded.state_.late_labels.sums, model.state_.late_labels.sums)


def test_a_folder_without_the_plain_sum_goes_on_without_it():
    model, X, y = make_model(70)
    plain = state_to_plain(model.observe(X[:100], y[:100]).state_, None)
    del plain["late_labels"]["plain_loss"]
    model.state_ = state_from_plain(plain, model.state_.ratio, model.state_.estimator)
    measured = model.observe(X[100:150], y[100:150]).measured_
    assert measured.n_labelled == 150
    assert np.isnan(measured.error_plain)


def test_a_folder_without_blocks_and_latest_losses_starts_to_keep_them():
    model, X, y = make_model(70)
    plain = state_to_plain(model.observe(X[:100], y[:100]).state_, None)
    del plain["late_labels"]["blocks"], plain["late_labels"]["latest"]
    model.state_ = state_from_plain(plain, model.state_.ratio, model.state_.estimator)
    labels = model.observe(X[100:150], y[100:150]).state_.late_labels
    assert (labels.n_labelled, len(labels.latest), int(labels.blocks.sums[:, 0].sum())) == (150, 50, 50)
    assert not model.measured_.latest.n_rows


def test_a_folder_of_the_first_version_starts_to_count(tmp_path):
    model = accous.load(shutil.copytree(SAVED / "classifier", tmp_path / "model"))
    assert model.measured_ is None
    X = np.asarray(model.reference_)[:50]
    assert model.observe(X, model.classes_[model.labels_[:50]]).measured_.n_labelled == 50


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
    model, X, y = make_model(70)
    model.observe(X, 1 - y)
    assert model.measured_.concept_changed == "yes"
    for _ in range(n_later // 10):  # rows that the reference does not cover say nothing of older labels
        model.adapt(X[:10] + 1000.0)
    assert model.trust_.inputs.answer == "no"
    assert model.measured_.concept_changed == answer
