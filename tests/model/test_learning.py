"""A model that learns from labels: what it keeps, how it fades, how both experts predict together, and `ask`."""

import pickle
from threading import Event, Thread

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.exceptions import DataError, ParameterError
from accous.model.heldout import Combination
from accous.model.learning import (
    MOST_LABELS,
    Fitted,
    KeptLabels,
    Learning,
    choose_share,
    forget_labels_of,
    is_drawn,
    keep_labels,
    learn_from_kept,
    start_learning,
)
from tests.waiting import PATIENCE


def make_rows(n_rows, seed, sign=1.0, n_columns=4):
    """Rows whose class is the sign of a sum, or its opposite."""
    X = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    return X, (sign * (X[:, 0] + X[:, 1]) > 0.0).astype(int)


def make_model(estimator=None, n_reference=300, **parameters):
    X, y = make_rows(n_reference, 0)
    return AdaptiveClassifier(estimator, random_state=0, **parameters).fit(X, y, order=False)


def run_rounds(model, n_windows=6, n_labels=100, sign=-1.0):
    """Windows of a thousand rows with another relation of label and inputs, and some labels of each."""
    for window in range(n_windows):
        X, y = make_rows(1_000, 10 + window, sign)
        model.adapt(X)
        chosen, probability = model.ask(X, n_labels)
        model.observe(X[chosen], y[chosen], probability=probability)
    return model


@pytest.mark.parametrize("estimator", [None, "auto", RandomForestClassifier(20, random_state=0), RidgeClassifier()])
def test_a_model_recovers_where_the_label_has_turned_round(estimator):
    model = make_model(estimator, 600)
    X, y = make_rows(1_000, 99, -1.0)
    assert np.mean(model.predict(X) != y) > 0.9
    assert np.mean(run_rounds(model).predict(X) != y) < 0.15
    assert np.mean(model.predict_fixed(X) != y) > 0.9
    last = model.learned_[-1]
    assert (last.round, last.row, last.n_new) == (6, 6_000, 100)
    assert last.error < 0.3
    assert last.error_fixed > 0.9
    assert last.weight > 0.99


def test_numbers_are_learned_too():
    X, _ = make_rows(600, 0)
    model = AdaptiveRegressor("auto", random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2, order=False)
    for window in range(6):
        Z, _ = make_rows(1_000, 10 + window)
        model.adapt(Z).observe(Z[:100], Z[:100, 1] ** 2 - Z[:100, 0])
    Z, _ = make_rows(1_000, 99)
    truths = Z[:, 1] ** 2 - Z[:, 0]
    assert np.abs(model.predict(Z) - truths).mean() < 0.5 * np.abs(model.predict_fixed(Z) - truths).mean()
    assert model.predict_interval(Z[:5]).shape == (5, 2)


def test_predictions_do_not_wait_while_labels_are_learned(monkeypatch):
    model, (X, y) = make_model(), make_rows(200, 1, -1.0)
    before, begun, may_end, fit = model.predict_proba(X), Event(), Event(), type(model).fit_learned
    slow = lambda *given: (begun.set(), may_end.wait(PATIENCE), fit(*given))[2]  # noqa: E731
    monkeypatch.setattr(type(model), "fit_learned", slow)
    thread = Thread(target=model.observe, args=(X, y))
    thread.start()
    assert begun.wait(PATIENCE)
    assert np.array_equal(model.predict_proba(X), before)
    may_end.set()
    thread.join()
    assert not np.array_equal(model.predict_proba(X), before)


def test_late_labels_are_of_rows_of_long_ago():
    model, (X, y) = make_model(), make_rows(3_000, 1)
    model.adapt(X).observe(X[900:1_000], y[900:1_000], rows_since=2_000)
    assert model.state_.learning.kept.position.tolist() == model.state_.labelled.made_at.tolist() == [1_000] * 100
    assert np.unique(model.state_.labelled.came).tolist() == [3_000]
    with pytest.raises(ParameterError, match="rows_since"):
        model.observe(X, y, rows_since=-1)


def test_labels_that_tell_nothing_new_change_little():
    model = run_rounds(make_model(n_reference=1_000), sign=1.0)
    X, y = make_rows(2_000, 99)
    assert abs(np.mean(model.predict(X) != y) - np.mean(model.predict_fixed(X) != y)) < 0.01


def test_without_learning_labels_only_measure():
    model, twin = make_model(), make_model()
    X, y = make_rows(400, 1, -1.0)
    model.observe(X, y, learn=False)
    assert model.learned_ == ()
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))


def test_few_labels_are_kept_until_there_are_enough():
    model = make_model()
    X, y = make_rows(60, 1, -1.0)
    for row in range(24):
        model.observe(X[row : row + 1], y[row : row + 1])
    assert (model.learned_, len(model.state_.learning.kept)) == ((), 24)
    model.observe(X[24:25], y[24:25])
    assert [event.n_labels for event in model.learned_] == [25]


def test_of_classes_neither_part_of_the_expert_predicts_alone():
    """Linear alone was better on the reference, by far: for numbers it may stay alone."""
    X, y = make_rows(50, 0)
    combination = Combination(losses=tuple(np.arange(21.0)))
    models = AdaptiveClassifier().fit(X, y), AdaptiveRegressor().fit(X, y)
    tasks = [model.task_ for model in models]
    assert [choose_share(combination, start_learning(X, task).kept, task) for task in tasks] == [0.25, 0.0]


def test_a_pipeline_with_a_feature_map_learns_new_categories():
    rng = np.random.default_rng(0)

    def make_frame(values, n_rows):
        return pd.DataFrame({"kind": rng.choice(values, n_rows), "x": rng.normal(size=n_rows)})

    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough")
    reference = make_frame(["a", "b"], 400)
    ratio = OnlineDensityRatio(feature_map=encoder)
    model = AdaptiveClassifier(make_pipeline(encoder, LogisticRegression()), ratio)
    model.fit(reference, reference.kind == "a", order=False)
    later = make_frame(["b", "c"], 400)
    model.observe(later[:200], later.kind[:200] == "c")
    assert np.mean(model.predict(later[200:]) != (later.kind[200:] == "c")) < 0.05


def test_a_new_class_becomes_a_class():
    model = make_model("auto", 600)
    X, y = make_rows(300, 1)
    X[:150, 3] += 10.0
    y[:150] = 7
    model.adapt(X).observe(X, y)
    assert model.classes_.tolist() == [0, 1, 7]
    assert model.predict_proba(X).shape == (300, 3)
    assert np.mean(model.predict(X[:150]) == 7) > 0.9
    assert model.predict_set(X[:5]).shape == (5, 3)
    model.adapt(X).observe(X, y)
    assert model.performance().value < 0.5
    with pytest.raises(DataError, match="pass numbers"):
        model.observe(X, y.astype(str))


def test_labels_of_another_type_are_errors_and_no_classes():
    model = make_model()
    X, _ = make_rows(50, 1)
    assert model.observe(X, np.full(50, "other")).classes_.tolist() == [0, 1]
    assert model.state_.learning is None


@pytest.mark.parametrize("estimator", [None, "auto", RandomForestClassifier(20, random_state=0)])
def test_a_saved_model_goes_on_bit_by_bit(estimator, tmp_path):
    model = run_rounds(make_model(estimator, 600), n_windows=2)
    X, y = make_rows(30, 5, -1.0)
    model.observe(X, y)  # some wait to be learned
    accous.save(model, tmp_path / "model")
    own = {} if estimator in (None, "auto") else {"estimator": estimator}
    others = accous.load(tmp_path / "model", **own), pickle.loads(pickle.dumps(model))
    for other in others:
        assert other.learned_ == model.learned_
    Z, _ = make_rows(500, 77)
    for each in (model, *others):
        each.adapt(Z).observe(*make_rows(200, 6, -1.0))
    for other in others:
        assert np.array_equal(other.predict_proba(Z), model.predict_proba(Z))
        assert other.learned_ == model.learned_


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_in_which_labels_come_does_not_matter_to_the_refit(sizes, random):
    X, y = make_rows(sum(sizes), 3, -1.0)
    parts = np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])
    shuffled = random.sample(parts, len(parts))
    found = []
    for order in (parts, shuffled):
        model = make_model(n_reference=200)
        for rows in order:
            keep_labels(model, X[rows], y[rows], position=10 * rows, ids=rows, is_asked=rows < 0)
        learn_from_kept(model)
        found.append(model.predict_proba(X))
    assert np.array_equal(*found)


@settings(max_examples=10, deadline=None)
@given(st.sets(st.integers(0, 99), min_size=1, max_size=99))
def test_labels_taken_back_were_never_learned(taken):
    X, y = make_rows(100, 3, -1.0)
    rows, back = np.arange(100), np.array(sorted(taken))
    model, twin = make_model(n_reference=200), make_model(n_reference=200)
    keep_labels(model, X, y, position=rows, ids=rows, is_asked=rows < 0)
    learn_from_kept(model)
    rest = np.setdiff1d(rows, back)
    keep_labels(twin, X[rest], y[rest], position=rest, ids=rest, is_asked=rest < 0)
    if forget_labels_of(model, back):
        learn_from_kept(model)
        learn_from_kept(twin)
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))


def test_the_oldest_labels_leave():
    model = make_model(n_reference=100)
    X, y = make_rows(MOST_LABELS + 500, 3)
    model.observe(X[:500], y[:500]).adapt(X[:1]).observe(X[500:], y[500:])
    kept = model.state_.learning.kept
    assert len(kept) == MOST_LABELS
    assert np.array_equal(kept.rows, X[500:])


def test_labels_of_a_certain_kind_are_learned_and_do_not_measure():
    model = make_model("auto", 600)
    X, y = make_rows(1_000, 3, -1.0)
    model.adapt(X).observe(X[y == 1][:100], y[y == 1][:100])
    assert model.performance().basis == "expected"
    assert model.learned_[-1].n_labels == 100
    model.observe(X[:30], y[:30], probability=0.03)
    assert model.state_.learning.kept.is_asked.sum() == 30


def test_what_was_learned_can_be_seen():
    model = run_rounds(make_model(), n_windows=3)
    found = model.snapshot().to_json()["learning"]
    assert (found["labels"], found["waiting"], len(found["events"])) == (300, 0, 3)
    assert found["experts"]["learned from labels"] == model.learned_[-1].weight > 0.9
    first, second, last = found["events"]
    assert (first["error_after"], second["error_after"], last["error_after"]) == (second["error"], last["error"], None)
    assert last["error"] < first["error"]
    history = model.history_
    assert history["learned"].tolist() == [100, 100, 100]
    assert history["learned_weight"].tolist() == [event.weight for event in model.learned_]


def test_the_first_labels_are_believed_as_far_as_half_of_them_prove_the_other_half():
    rng = np.random.default_rng(0)
    model = make_model("auto", 600)
    X, _ = make_rows(400, 4)
    model.adapt(X).observe(X, rng.integers(0, 2, 400))  # the old relation is gone: the fixed model is sure and wrong
    assert model.learned_[0].weight > 0.9
    model = make_model("auto", 600)
    X, y = make_rows(400, 4)
    model.adapt(X).observe(X, y)
    assert model.learned_[0].weight < 0.85


def weight_by(answers, truths, spread, n_asked=0):
    """The weight of the expert that learned, given what both answered for labels of one moment."""
    n, none = len(answers), np.zeros((len(answers), 2))
    answers = np.hstack((answers, np.full((n, 2), np.nan)))
    zeros = np.zeros(n, dtype=np.int64)
    kept = KeptLabels(np.zeros((n, 1)), truths, zeros, zeros, answers, none, zeros > 0, np.arange(n) < n_asked)
    return Learning(kept, fitted=Fitted(lambda: None)).weighed(spread).weight


def test_experts_that_err_to_both_sides_predict_together():
    truths = np.arange(2_000.0)
    answers = np.stack((truths - 2.0, truths + 3.0), axis=1)
    assert abs(weight_by(answers, truths, 1.0) - 0.4) < 0.01  # 3 : 2; alone, the other one is better


@pytest.mark.parametrize(("n_asked", "low", "high"), [(24, 0.9, 1.0), (25, 0.0, 0.5)])
def test_labels_that_were_asked_for_decide_who_predicts(n_asked, low, high):
    """The others may be of rows that suit the expert that learned."""
    answers = np.repeat([[0.9, 0.1], [0.1, 0.9]], [n_asked, 300], axis=0)
    assert low <= weight_by(answers, np.zeros(len(answers)), None, n_asked) <= high


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0), st.floats(0.1, 3.0))
def test_the_experts_together_lose_three_nats_more_than_the_best_mixture_at_most(seed, first, second):
    rng = np.random.default_rng(seed)
    answers = np.stack((rng.beta(first, 1.0, 200), rng.beta(second, 1.0, 200)), axis=1).clip(0.02, 1.0)
    weights = np.array([weight_by(answers[:row], np.zeros(row), None) for row in range(200)])
    shares = np.linspace(0.0, 1.0, 21)
    lost = [-np.log((1.0 - each) * answers[:, 0] + each * answers[:, 1]).sum() for each in (weights, *shares)]
    assert lost[0] <= min(lost[1:]) + np.log(21.0) + 200 * 0.001  # no expert has less than a thousandth


def test_without_labels_nothing_changes_bit_for_bit():
    model, twin, (X, _) = make_model("auto", 600), make_model("auto", 600), make_rows(200, 10)
    before = model.state_
    model.ask(X, 20)
    assert model.observe(X[:0], []).state_ is before
    model.adapt(X)
    twin.adapt(X)
    assert np.array_equal(model.predict_proba(X), twin.predict_proba(X))
    assert (model.performance(), model.status_) == (twin.performance(), twin.status_)


# --- `ask` ------------------------------------------------------------------------------------------------------


def test_rows_are_drawn_with_known_probability():
    model, (X, _) = make_model(), make_rows(200, 1)
    chosen, probabilities = model.ask(X, 50)
    assert (len(np.unique(chosen)), np.unique(probabilities).tolist()) == (50, [0.25])
    assert np.array_equal(model.ask(X, 50)[0], chosen)
    assert not np.array_equal(model.adapt(X).ask(X, 50)[0], chosen)
    assert model.ask(X, 500)[1].tolist() == [1.0] * 200
    assert model.ask(X[:0], 5)[0].tolist() == []
    for wrong in (0, -1, 1.5, "all", True):
        with pytest.raises(ParameterError):
            model.ask(X, wrong)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_a_share_of_a_stream_does_not_depend_on_its_batches(sizes):
    X, _ = make_rows(sum(sizes), 1)
    whole = make_model(n_reference=50).ask(X, 0.3)[0]
    model, found, first = make_model(n_reference=50), [], 0
    for size in sizes:
        found += (first + model.ask(X[first : first + size], 0.3)[0]).tolist()
        model.adapt(X[first : first + size])
        first += size
    assert found == whole.tolist()


def test_shares_are_drawn_independently_of_seed_and_row():
    rows = np.arange(20_000)
    drawn = [is_drawn(rows, 0.2, seed) for seed in (0, 1)]
    assert abs((drawn[0] & drawn[1]).mean() - 0.04) < 0.006
    assert abs((drawn[0][1:] & drawn[0][:-1]).mean() - 0.04) < 0.006
