"""How good a model says it is: held-out rows, estimates, states on simulated streams, labels and the alarm."""

import json
import pickle
from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.arrays import to_plain
from accous.exceptions import DataError, ParameterError
from accous.model.performance import alarm_from_plain, labelled_from_plain
from tests.classifiers import drifting_batches, labelled_rows

COEFS = np.array([2.0, -1.0, 0.5])


def draw(seed, n, *, is_turned=False, shift=0.0):
    rng = np.random.default_rng([seed, 9])
    X = rng.normal(size=(n, 3)) + np.array([shift, 0.0, 0.0])
    y = (X @ COEFS + rng.normal(size=n) > 0.0).astype(np.int64)
    return X, 1 - y if is_turned else y


def numbers(seed, n, *, offset=0.0):
    rng = np.random.default_rng([seed, 8])
    X = rng.normal(size=(n, 3))
    return X, X @ COEFS + offset + rng.normal(size=n)


def run_rounds(model, n_rounds, seed=1, *, observe=False, make=draw, **kwargs):
    X, y = make(seed, 20 * n_rounds, **kwargs)
    for rows in np.split(np.arange(len(X)), n_rounds):
        predicted = model.predict(X[rows])
        model.adapt(X[rows])
        if observe:
            model.observe(X[rows], y[rows], predicted=predicted, learn=False)
    return model


@pytest.fixture(scope="module")
def fitted():
    return AdaptiveClassifier().fit(*draw(0, 900), order=True)


@pytest.fixture
def model(fitted):
    return copy(fitted)


def test_every_estimator_has_held_out_rows_each_predicted_by_a_fit_without_it(fitted):
    X, y = draw(0, 900)
    held = fitted.held_out_
    assert held.is_in_time
    assert held.rows.tolist() == list(range(360, 900))
    assert held.n_before == (360, 540, 720)
    alone = LogisticRegression().fit(StandardScaler().fit(X).transform(X)[:540], y[:540])
    second = held.block == 1
    ours, theirs = held.probabilities[second], alone.predict_proba(StandardScaler().fit(X).transform(X)[540:720])
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    folds = AdaptiveClassifier(DecisionTreeClassifier(max_depth=2, random_state=0)).fit(X, y, order=False).held_out_
    assert not folds.is_in_time
    assert sorted(folds.rows.tolist()) == list(range(900))


def test_the_value_at_fit_is_that_of_held_out_rows(fitted):
    _, y = draw(0, 900)
    held = fitted.held_out_
    true = y[held.rows]
    assert fitted.performance().at_fit == pytest.approx((held.predicted != true).mean())
    assert fitted.performance("roc_auc").at_fit == pytest.approx(roc_auc_score(true, held.probabilities[:, 1]))
    assert fitted.performance("f1").at_fit == pytest.approx(f1_score(true, held.predicted))


def test_before_the_first_row_nothing_is_said_but_the_value_at_fit(model):
    found = model.snapshot().to_json(["roc_auc"], by="x0")
    json.dumps(found, allow_nan=False)
    assert (found["state"], found["alarm"], found["value"], found["low"], found["segments"]) == (
        None,
        False,
        None,
        None,
        [],
    )
    assert [each["text"] for each in found["reasons"]] == ["No rows yet."]
    assert found["advice"]["command"] == "accous adapt MODEL STREAM"
    assert 0.0 < found["at_fit"] < 0.5
    assert found["metrics"]["roc_auc"]["value"] is None
    model.adapt(draw(5, 5)[0])
    assert model.snapshot().to_json()["state"] is not None


def test_functions_are_told_of_changes_once_and_not_kept(model, caplog):
    told, others = [], []
    model.on_status(lambda _: 1 / 0).on_status(told.append).on_status(others.append)
    run_rounds(model, 40)
    assert [each.state for each in told] == ["healthy"]
    assert "failed" in caplog.text
    X, y = draw(7, 300)
    model.adapt(X).observe(X, 1 - y, probability=1.0, learn=False)
    assert [(each.state, each.alarm) for each in told][1:] == [("degraded", True)]
    assert told == others
    for other in (copy(model), deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.adapt(X).observe(X, y, probability=1.0, learn=False)
    assert len(told) == 2


def test_all_labels_of_recent_rows_give_their_error(model):
    X, y = draw(5, 500)
    model.adapt(X).observe(X, y, learn=False)
    now = model.performance()
    assert (now.basis, now.n_labels) == ("labels", 500)
    assert now.value == pytest.approx((model.predict(X) != y).mean(), abs=1e-9)
    assert model.performance("roc_auc").value == pytest.approx(roc_auc_score(y, model.predict_proba(X)[:, 1]), abs=1e-9)


def test_a_standing_stream_is_healthy_without_labels_and_with_them(model):
    run_rounds(model, 40)
    assert model.status_.state == "healthy"
    assert model.status_.reasons[0].code == "inputs_as_before"
    run_rounds(model, 30, seed=2, observe=True)
    status = model.status_
    assert (status.state, status.reasons[0].code, status.alarm) == ("healthy", "labels_within", False)
    assert model.performance().basis == "labels"


def test_a_model_that_has_learned_nothing_is_told_so():
    X, _ = draw(0, 900)
    noise = np.random.default_rng(0).random(900) < 0.1
    model = run_rounds(AdaptiveClassifier().fit(X, noise, order=True), 5)
    assert "no_better" in [each["code"] for each in model.snapshot().to_json()["reasons"]]


def test_without_an_order_of_time_nothing_is_healthy_before_labels():
    model = run_rounds(AdaptiveClassifier().fit(*draw(0, 900), order=False), 30)
    assert (model.status_.state, model.status_.reasons[0].code) == ("uncertain", "no_backtest")
    assert model.status_.advice.n >= 50
    assert run_rounds(model, 30, seed=2, observe=True).status_.state == "healthy"


def test_labels_show_a_changed_concept_and_the_alarm_goes_off(model):
    run_rounds(model, 30, observe=True)
    assert not model.status_.alarm
    run_rounds(model, 30, seed=2, observe=True, is_turned=True)
    status = model.status_
    assert (status.state, status.reasons[0].code, status.advice.code) == ("degraded", "labels_beyond", "learn")
    assert status.alarm
    assert 30 < status.alarm_since < 45
    assert run_rounds(model, 1, seed=3).status_.alarm_since == status.alarm_since


def test_a_model_that_learns_is_measured_by_what_it_predicted_before():
    X, y = draw(1, 900, is_turned=True)
    learns, stays = (AdaptiveClassifier().fit(*draw(0, 900), order=True) for _ in range(2))
    for rows in np.split(np.arange(900), 15):
        wrong = (learns.predict(X[rows]) != y[rows]).tolist()
        learns.adapt(X[rows]).observe(X[rows], y[rows])
        kept = learns.state_.labelled[-60:]
        assert (kept.predicted != kept.y).tolist() == wrong
        stays.adapt(X[rows]).observe(X[rows], y[rows], learn=False)
    assert learns.performance().value < stays.performance().value - 0.2


def test_numbers_are_judged_by_their_residuals():
    model = AdaptiveRegressor().fit(*numbers(0, 900), order=True)
    run_rounds(model, 30, make=numbers)
    assert model.status_.state == "healthy"
    assert model.performance().value == pytest.approx(model.performance().at_fit, rel=0.15)
    run_rounds(model, 30, seed=2, observe=True, make=numbers, offset=4.0)
    assert (model.status_.state, model.status_.alarm) == ("degraded", True)
    # Labels of before the change still count a little.
    assert model.performance("bias").value == pytest.approx(-4.0, abs=1.0)


def test_labels_that_merely_arrived_decide_nothing_unless_they_are_all(model):
    X, y = draw(4, 1000)
    model.adapt(X)
    some = y[:400] == 1
    model.observe(X[:400][some], y[:400][some], learn=False)
    assert model.performance().basis == "expected"
    assert "labels_arrived" in [str(reason.code) for reason in model.status_.reasons]
    assert not model.status_.alarm
    model.observe(X[-100:], y[-100:], probability=0.1, learn=False)
    now = model.performance()
    assert (now.basis, now.n_labels) == ("labels", 100)
    assert now.value == pytest.approx((model.predict(X) != y).mean(), abs=0.08)


def test_labels_of_all_rows_count_once_each_though_some_were_asked_for(model):
    X, y = draw(4, 500)
    y[100:] = 1 - y[100:]
    model.adapt(X)
    model.observe(X[:100], y[:100], probability=0.2, learn=False)
    model.observe(X[100:], y[100:], learn=False)
    now = model.performance()
    assert now.n_labels == 500
    assert now.value == pytest.approx((model.predict(X) != y).mean())


def test_rows_chosen_by_known_probabilities_are_weighted_by_them(model):
    """Rows of one class are drawn nine times as often; the recall of either stays what it is."""
    X, y = draw(6, 500)
    model.adapt(X)
    rng, found = np.random.default_rng(0), []
    chosen = np.where(model.predict(X) == 1, 0.9, 0.1)
    for _ in range(20):
        drawn = rng.random(500) < chosen
        one = copy(model).observe(X[drawn], y[drawn], probability=chosen[drawn], learn=False)
        found.append(one.performance().value)
    assert np.mean(found) == pytest.approx((model.predict(X) != y).mean(), abs=0.02)


def test_old_labels_fade(model):
    X, y = draw(7, 400)
    model.adapt(X).observe(X, y, learn=False)
    assert model.performance().n_labels == 400
    assert run_rounds(model, 100, seed=8).performance().basis == "expected"


@pytest.mark.parametrize("rows_since", [0, 500, 501])
def test_labels_count_from_when_they_come_and_old_rows_are_a_reason(model, rows_since):
    X, y = draw(7, 1000)
    model.adapt(X).observe(X[:100], 1 - y[:100], probability=0.1, rows_since=rows_since, learn=False)
    assert (model.performance().basis, model.performance().value > 0.5) == ("labels", True)
    assert ("labels_old" in [str(each.code) for each in model.status_.reasons]) == (rows_since > 500)


def test_rows_asked_about_count_when_labels_of_all_rows_follow(model):
    X, y = draw(7, 6_000)
    model.adapt(X)
    is_asked = np.isin(np.arange(6_000), np.arange(5_500, 6_000, 8))
    model.observe(X[is_asked], y[is_asked], probability=0.125, learn=False)
    late = model.task_.read_late(y[~is_asked], int((~is_asked).sum()))
    model.measure(X[~is_asked], late, since_made=np.arange(6_000)[::-1][~is_asked])
    now = model.performance()
    assert (now.basis, len(model.state_.labelled)) == ("labels", 4_000)
    assert now.value == pytest.approx(np.mean(model.predict(X[-500:]) != y[-500:]), abs=0.03)


def test_the_alarm_sees_old_labels_too_and_the_state_recent_ones(model):
    X, y = draw(7, 6_000)
    model.adapt(X)
    late = model.task_.read_late(np.where(np.arange(6_000) < 3_000, 1 - y, y), 6_000)
    model.measure(X, late, since_made=np.arange(6_000)[::-1])
    assert (model.status_.state, model.status_.alarm) == ("healthy", True)


def test_labels_of_some_rows_that_arrived_at_once_are_no_alarm(model):
    X, y = draw(7, 6_000)
    model.adapt(X)
    is_wrong = model.predict(X) != y
    late = model.task_.read_late(y[is_wrong], int(is_wrong.sum()))
    assert len(late) > 500
    model.measure(X[is_wrong], late, since_made=np.arange(6_000)[::-1][is_wrong])
    assert not model.status_.alarm


def test_predictions_of_then_are_what_is_measured(model):
    X, y = draw(7, 400)
    model.adapt(X).observe(X, y, predicted=y, learn=False)
    assert model.performance().value < 0.01
    model = AdaptiveClassifier().fit(*draw(0, 900)).observe(None, y, predicted=1 - y, learn=False)
    assert model.performance().value > 0.95


def test_segments_by_column_worst_first(model):
    X, y = draw(11, 500)
    y = np.where(X[:, 1] > 0.7, 1 - y, y)
    model.adapt(X).observe(X, y, learn=False)
    segments = model.performance(by="x1")
    values = [one.value for _, one in segments]
    assert values == sorted(values, reverse=True)
    assert segments[0][0].startswith("from")
    wrong = model.predict(X) != y
    edge = np.quantile(X[:, 1], 0.75)
    assert values[0] == pytest.approx(wrong[X[:, 1] >= edge].mean(), abs=0.05)
    assert sum(one.n_labels for _, one in segments) == 500
    with pytest.raises(ParameterError, match=r"by 'x9': use one of 'x0', 'x1', 'x2'\."):
        model.performance(by="x9")
    with pytest.raises(ParameterError, match="no segments by 'age'"):
        model.performance(by="age")


def test_frames_of_a_users_estimator_are_estimated_from_weighted_held_out_rows():
    X, y = draw(0, 600)
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "up", "down"), "c": X[:, 2]})
    encode = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    ratio = accous.OnlineDensityRatio(make_column_transformer((StandardScaler(), ["a", "c"])))
    model = AdaptiveClassifier(make_pipeline(encode, LogisticRegression()), ratio).fit(frame, y, order=True)
    for rows in np.split(np.arange(600), 30):
        model.adapt(frame.iloc[rows])
    now = model.performance()
    assert now.value == pytest.approx(now.at_fit, abs=0.03)
    model.observe(frame, y, learn=False)
    assert model.performance().basis == "labels"
    with pytest.raises(ParameterError, match="rows of numbers"):
        model.performance(by="a")


def test_an_estimator_without_probabilities_has_an_error_and_no_ranks():
    model = AdaptiveClassifier(RidgeClassifier()).fit(*draw(0, 600), order=True)
    run_rounds(model, 20, observe=True)
    assert model.performance().value == pytest.approx(model.performance().at_fit, abs=0.06)
    assert model.performance("recall").basis == "labels"
    for name in ("roc_auc", "log_loss"):
        with pytest.raises(ParameterError, match="predict_proba"):
            model.performance(name)
    with pytest.raises(ParameterError, match="predict_proba"):
        AdaptiveClassifier(RidgeClassifier(), metric="roc_auc").fit(*draw(0, 600))


def test_metric_cost_threshold_and_tolerance_are_read():
    X, y = draw(0, 900)
    costs = [[0.0, 1.0], [5.0, 0.0]]
    model = AdaptiveClassifier(metric="cost", cost=costs, threshold=0.2).fit(X, y, order=True)
    held = model.held_out_
    predicted = (held.probabilities[:, 1] >= 0.2).astype(int)
    assert model.performance().at_fit == pytest.approx(np.array(costs)[y[held.rows], predicted].mean())
    lenient = AdaptiveClassifier(tolerance=0.9).fit(X, y, order=True)
    assert run_rounds(lenient, 40, observe=True, is_turned=True).status_.state == "healthy"
    for given, message in (
        ({"metric": "accuracy"}, "no metric 'accuracy'"),
        ({"metric": 3}, "name of a metric"),
        ({"metric": "cost"}, "no costs"),
        ({"threshold": 1.5}, "threshold"),
        ({"tolerance": -1.0}, "tolerance"),
    ):
        with pytest.raises(ParameterError, match=message):
            AdaptiveClassifier(**given).fit(X, y)


def test_a_new_class_counts_as_an_error(model):
    X, _ = draw(3, 500)
    model.adapt(X).observe(X, np.full(500, 7), learn=False)
    assert model.performance().value > 0.99


def test_labels_are_measured_with_the_probabilities_of_the_time(model):
    X, y = draw(5, 500)
    then = np.random.default_rng(0).dirichlet((1.0, 1.0), size=500)
    model.adapt(X).observe(X, y, predicted=then, learn=False)
    assert model.performance().value == pytest.approx((then.argmax(axis=1) != y).mean())
    assert model.performance("roc_auc").value == pytest.approx(roc_auc_score(y, then[:, 1]))
    with pytest.raises(DataError, match=r"probabilities of shape \(500, 2\)"):
        model.observe(X, y, predicted=np.full((500, 3), 0.3))


def test_a_new_class_counts_as_one_more_class_in_averages(model):
    X, y = draw(5, 500)
    y = np.where(np.arange(500) < 100, 7, y)
    predicted = model.adapt(X).predict(X)
    model.observe(X, y, learn=False)
    assert model.performance("f1_macro").value == pytest.approx(f1_score(y, predicted, average="macro"))
    assert model.performance("recall_macro").value == pytest.approx(recall_score(y, predicted, average="macro"))
    assert model.performance("balanced_error").value == pytest.approx(1.0 - balanced_accuracy_score(y, predicted))


def test_a_new_class_that_was_predicted_is_right_and_another_is_wrong(model):
    X, y = draw(3, 500)
    model.adapt(X)
    truth = np.where(np.arange(500) < 250, 7, y)
    assert copy(model).observe(X, truth, predicted=truth, learn=False).performance().value < 0.01
    right = np.where(np.arange(500) < 100, 7, y)  # wrong for 150 rows of the new class
    assert copy(model).observe(X, truth, predicted=right, learn=False).performance().value == pytest.approx(
        0.3, abs=2e-3
    )
    wrong = np.where(np.arange(500) < 400, 7, y)
    assert copy(model).observe(X, truth, predicted=wrong, learn=False).performance().value == pytest.approx(
        0.3, abs=2e-3
    )


@pytest.mark.parametrize("probability", [0.0, 1.5, [0.5, 0.5]])
def test_impossible_probabilities_are_refused(model, probability):
    X, y = draw(3, 5)
    with pytest.raises(DataError, match="probability must be"):
        model.observe(X, y, probability=probability, learn=False)


def test_a_tiny_reference_says_that_nothing_is_known():
    model = AdaptiveClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1]).adapt([[0.0]])
    assert np.isnan(model.performance().value)
    assert (model.status_.state, model.status_.reasons[0].code) == ("uncertain", "not_defined")
    assert json.dumps(model.snapshot().to_json(), allow_nan=False)


def test_json_has_everything_that_surfaces_ask_for(model):
    run_rounds(model, 40, observe=True, shift=1.5)
    found = model.snapshot().to_json(["roc_auc", "recall:1"], by="x0")
    json.dumps(found, allow_nan=False)
    keys = "state alarm alarm_since metric value low high basis at_fit n_labels rounds rows reasons advice metrics"
    assert found.keys() == {*keys.split(), "segments", "drift", "learning"}
    assert found["metrics"]["roc_auc"].keys() == {"value", "low", "high", "basis", "at_fit"}
    assert {"segment", "value", "low", "high", "n_labels"} <= found["segments"][0].keys()
    moved = found["drift"]["columns"][0]
    assert (moved["name"], moved["then"] + 1.0 < moved["now"]) == ("x0", True)
    assert found["drift"]["columns"] == [vars(each) for each in model.drift_.columns]


def test_reading_twice_and_in_another_order_says_the_same(fitted):
    first, second = (run_rounds(copy(fitted), 30, observe=True) for _ in range(2))
    names = ("f1", "error", "roc_auc")
    assert [first.performance(name) for name in names] == [second.performance(name) for name in names[::-1]][::-1]
    assert first.status_ == second.status_ == first.snapshot().status


def test_blocks_without_labels_are_bet_on_once_the_status_was_read(model):
    run_rounds(model, 10)
    assert model.state_.alarm is None
    before = model.status_
    run_rounds(model, 10, seed=2)
    watch = model.current().alarm
    assert not before.alarm
    assert watch.n_closed == model.state_.recent.n_closed == 6
    assert watch.process.rounds == 6
    seldom, often = copy(model), copy(model)
    for number in range(30):
        run_rounds(seldom, 1, seed=number)
        _ = run_rounds(often, 1, seed=number).status_
    watch = seldom.current().alarm
    assert watch.n_closed > seldom.state_.alarm.n_closed  # several blocks are bet on together
    assert watch.process == often.current().alarm.process
    assert max(watch.process.stakes) < 0.5  # on a standing stream the money dwindles


def test_the_history_notes_what_was_read_after_a_round(model, tmp_path):
    run_rounds(model, 3)
    first = model.performance()
    run_rounds(model, 2, seed=2)
    status = model.status_
    accous.save(model, tmp_path)
    for one in (model, accous.load(tmp_path)):
        history = one.history_
        assert np.flatnonzero(history["value"].notna()).tolist() == [2, 4]
        read = history.loc[3, ["value", "low", "high", "basis"]].tolist()
        assert read == [first.value, first.low, first.high, "expected"]
        assert history["state"].isna().tolist() == [True] * 4 + [False]
        assert history["state"].iloc[-1] == status.state


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_labels_and_alarm_survive_a_file_bit_for_bit(kind, tmp_path):
    make = draw if kind == "classes" else numbers
    model = (AdaptiveClassifier if kind == "classes" else AdaptiveRegressor)().fit(*make(0, 500), order=True)
    run_rounds(model, 20, observe=True, make=make)
    assert model.status_.state
    run_rounds(model, 5, seed=4, make=make)
    assert model.status_.state
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    for one in (model, loaded):
        run_rounds(one, 10, seed=5, observe=True, make=make)
    assert json.dumps(loaded.snapshot().to_json()) == json.dumps(model.snapshot().to_json())
    assert loaded.state_.alarm == model.state_.alarm
    for name, value in to_plain(model.state_.labelled).items():
        assert np.array_equal(to_plain(loaded.state_.labelled)[name], value, equal_nan=True), name


FORGED = {
    "a class that is not there": {"y": np.full(40, 2)},
    "fewer predictions": {"predicted": np.zeros(39, dtype=np.int64)},
    "a probability above 1": {"probabilities": np.full((40, 2), 1.5)},
    "no number": {"probabilities": np.full((40, 2), np.nan)},
    "chosen with 0": {"chosen": np.zeros(40)},
    "text": {"y": np.full(40, "a")},
    "before the stream": {"made_at": np.full(40, -1)},
    "labels before their rows": {"came": np.zeros(40, dtype=np.int64)},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_forged_labels_are_refused(model, forged):
    run_rounds(model, 2, observe=True)
    plain = to_plain(model.state_.labelled)
    assert len(labelled_from_plain(plain, model.task_)) == 40
    with pytest.raises(ValueError, match="labelled rows"):
        labelled_from_plain(plain | forged, model.task_)


@pytest.mark.parametrize("forged", [{"limit": 0.0}, {"stakes": [1.0]}, {"stakes": [np.inf] * 5}, {"since": 3}])
def test_a_forged_alarm_is_refused(model, forged):
    run_rounds(model, 2, observe=True)
    plain = to_plain(model.state_.alarm)
    assert alarm_from_plain(plain) == model.state_.alarm
    with pytest.raises(ValueError, match="alarm"):
        alarm_from_plain(plain | {"process": plain["process"] | forged})


def test_rows_with_missing_numbers_are_measured_as_they_are_predicted():
    X, y = draw(0, 600)
    X[::3, 0] = np.nan
    model = AdaptiveClassifier("auto").fit(X, y, order=True).adapt(X[:300])
    model.observe(X[:300], y[:300], learn=False)
    assert model.state_.labelled.predicted.tolist() == model.predict(X[:300]).tolist()
    assert sum(one.n_labels for _, one in model.performance(by="x0")) == 200


def test_labelled_rows_are_bounded(model):
    X, y = draw(3, 5000)
    assert len(copy(model).observe(X, y, learn=False).state_.labelled) == 4000
    run_rounds(model, 1, observe=True)
    rows = model.state_.labelled
    many = replace(rows, **{name: np.repeat(value, 300, axis=0) for name, value in to_plain(rows).items()})
    assert len(rows.after(many).newest()) == 4000


def test_after_learning_the_labels_speak_alone():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 3))
    y = (X[:, 0] + rng.normal(size=900) > 0.0).astype(int)
    model = AdaptiveClassifier().fit(X[:300], y[:300], order=False)
    predicted = np.concatenate([model.step(X[start : start + 10]) for start in range(300, 900, 10)])
    model.observe(X[300:], y[300:], predicted=predicted, probability=1.0)
    assert model.learned_
    labels = model.current().labels
    wrong = np.average(predicted[-len(labels) :] != y[-len(labels) :], weights=labels.weight)
    assert model.performance().value == pytest.approx(wrong)


def test_held_out_rows_are_weighted_only_for_the_model_that_predicted_them():
    snapshots = {}
    for adaptation in ("always", "never"):
        model = AdaptiveClassifier(adaptation=adaptation).fit(*labelled_rows(), order=False)
        for batch in drifting_batches(40):
            model.adapt(batch)
        snapshots[adaptation] = model.snapshot()
    assert snapshots["always"].calibration is snapshots["always"].rules.held_out.calibration
    assert snapshots["never"].calibration is not snapshots["never"].rules.held_out.calibration
