"""Labels for predictions from before rows joined the reference: they say nothing about the present predictors."""

import threading

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.diagnostics.labels import JudgedRows
from accous.exceptions import DataError, ParameterError
from accous.streams import GaussianStream, SquareShift

N_ROUNDS, BATCH = 20, 10
N_BEFORE = N_ROUNDS * BATCH
# What n_rounds_ was when each row was predicted: a batch is predicted before it is learned from.
ROUNDS = np.repeat(np.arange(2 * N_ROUNDS), BATCH)


@pytest.fixture(scope="module")
def rows():
    stream = GaussianStream(SquareShift(period=20), n_rounds=2 * N_ROUNDS, batch_size=BATCH)
    batches = list(stream)
    X, y = np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    return stream.reference(), X, y


@pytest.fixture
def model(rows):
    """A model that rows have joined in the middle of the stream."""
    reference, X, y = rows
    model = AdaptiveClassifier().fit(*reference)
    batches = np.split(X, 2 * N_ROUNDS)
    for batch in batches[:N_ROUNDS]:
        model.adapt(batch)
    model.extend(X[:N_BEFORE], y[:N_BEFORE])
    for batch in batches[N_ROUNDS:]:
        model.adapt(batch)
    return model


def test_they_are_left_out(model, rows):
    _, X, y = rows
    assert (
        model.observe(X[:N_BEFORE], y[:N_BEFORE], predicted=1 - y[:N_BEFORE], rounds=ROUNDS[:N_BEFORE]).measured_
        is None
    )
    predicted = np.where(ROUNDS < N_ROUNDS, 1 - y, y)
    found = model.observe(X, y, predicted=predicted, rounds=ROUNDS).measured_
    assert (found.n_labelled, found.error, found.is_outdated) == (N_BEFORE, 0.0, False)
    assert sum(map(len, model.state_.late_labels.kept)) == N_BEFORE


def test_many_of_them_confirm_nothing(model, rows):
    _, X, y = rows
    few = slice(N_BEFORE, N_BEFORE + 30)
    model.observe(X[few], y[few], predicted=y[few], rounds=ROUNDS[few])
    before = repr(model.measured_), repr(model.trust_)
    model.observe(X[:N_BEFORE], y[:N_BEFORE], predicted=y[:N_BEFORE], rounds=ROUNDS[:N_BEFORE])
    assert (repr(model.measured_), repr(model.trust_)) == before
    assert not model.measured_.is_exact


def test_a_row_that_was_predicted_since_counts_also_before_the_next_round(rows):
    reference, X, y = rows
    model = AdaptiveClassifier().fit(*reference)
    for batch in np.split(X[:N_BEFORE], N_ROUNDS):
        model.adapt(batch)
    model.extend(X[:50], y[:50])
    later = X[N_BEFORE:]
    found = model.observe(later, y[N_BEFORE:], predicted=model.predict(later), rounds=np.full(len(later), N_ROUNDS))
    assert found.measured_.n_labelled == len(later)
    assert not found.measured_.is_outdated


def test_unknown_rounds_and_models_that_nothing_joined_leave_nothing_out(model, rows):
    reference, X, y = rows
    assert not model.is_before_joining([np.nan]).any()
    assert not AdaptiveClassifier().fit(*reference).is_before_joining(np.zeros(3)).any()
    assert not AdaptiveClassifier().fit(*reference).extend(X[:50], y[:50]).is_before_joining(np.zeros(3)).any()


@pytest.mark.parametrize("rounds", [3, [1, 2, 3], np.zeros((2 * N_BEFORE, 1))])
def test_rounds_of_another_shape_are_refused(model, rows, rounds):
    _, X, y = rows
    with pytest.raises(DataError, match=r"rounds must have the shape \(400,\)"):
        model.observe(X, y, predicted=y, rounds=rounds)


def test_rounds_need_the_predictions_of_the_time(model, rows):
    _, X, y = rows
    with pytest.raises(ParameterError, match="pass predicted too"):
        model.observe(X, y, rounds=ROUNDS)


def test_rows_that_join_meanwhile_wait_until_the_labels_are_counted(rows, monkeypatch):
    reference, X, y = rows
    model = AdaptiveClassifier().fit(*reference)
    for batch in np.split(X[:N_BEFORE], N_ROUNDS):
        model.adapt(batch)
    errors, threads = model._late_errors, []

    def join_meanwhile(*arguments):
        threads.append(threading.Thread(target=model.extend, args=(X[:50], y[:50])))
        threads[-1].start()
        threads[-1].join(0.2)
        return errors(*arguments)

    monkeypatch.setattr(model, "_late_errors", join_meanwhile)
    model.observe(None, y[:N_BEFORE], predicted=y[:N_BEFORE], rounds=ROUNDS[:N_BEFORE])
    threads[0].join()
    assert (model.measured_.n_labelled, model.measured_.is_outdated) == (N_BEFORE, True)


def test_a_part_keeps_the_names_of_its_own_rows():
    rows = JudgedRows(
        losses=np.ones(6),
        losses_fixed=None,
        errors_fixed=None,
        is_unseen=np.arange(6) % 2 == 0,
        unseen_names=("a", "b", "c"),
        estimates=np.full((6, 3), 0.1),
    )
    part = rows.part(np.array([True, True, False, False, True, False]))
    assert (len(part), part.unseen_names, part.is_unseen.tolist()) == (3, ("a", "c"), [True, False, True])
