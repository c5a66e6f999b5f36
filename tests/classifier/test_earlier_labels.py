"""Labels for predictions from before rows joined the reference: they count as if they had come in time."""

from dataclasses import replace

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.diagnostics.late_labels import JudgedRows, LateLabels, Sum
from accous.streams import GaussianStream, SquareShift

N_ROUNDS, BATCH = 20, 10


@pytest.fixture(scope="module")
def rows():
    stream = GaussianStream(SquareShift(period=20), n_rounds=2 * N_ROUNDS, batch_size=BATCH)
    batches = list(stream)
    X, y = np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    return stream.reference(), X, y


def make_model(rows):
    reference, X, _ = rows
    model = AdaptiveClassifier().fit(*reference)
    for batch in np.split(X[: N_ROUNDS * BATCH], N_ROUNDS):
        model.adapt(batch)
    return model


def predictions(y):
    """Every fourth one is wrong."""
    return np.where(np.arange(len(y)) % 4 == 0, 1 - y, y)


def test_they_count_as_those_that_came_in_time(rows):
    _, X, y = rows
    n_rows, rounds = N_ROUNDS * BATCH, np.repeat(np.arange(1, N_ROUNDS + 1), BATCH)
    X, y = X[:n_rows], y[:n_rows]
    given = {"predicted": predictions(y), "estimated": np.tile((0.1, 0.05, 0.2), (n_rows, 1))}
    in_time, late = make_model(rows).observe(None, y, **given), make_model(rows)
    for model in (in_time, late):
        model.extend(X, y)
    late.observe(X, y, **given, rounds=rounds)
    assert repr(late.measured_) == repr(in_time.measured_)
    assert late.measured_.is_outdated
    assert late.observe(X, y, **given).measured_.is_outdated is False  # no rounds: they came since


def test_a_call_may_have_rows_from_before_and_since(rows):
    _, X, y = rows
    n_before = N_ROUNDS * BATCH
    model = make_model(rows).extend(X[:n_before], y[:n_before])
    for batch in np.split(X[n_before:], N_ROUNDS):
        model.adapt(batch)
    rounds = np.repeat(np.arange(1, 2 * N_ROUNDS + 1), BATCH)
    found = model.observe(X, y, predicted=np.where(rounds > N_ROUNDS, y, 1 - y), rounds=rounds).measured_
    labels = model.state_.late_labels
    assert (found.n_labelled, labels.n_before, found.is_outdated) == (2 * n_before, n_before, False)
    assert sum(map(len, labels.kept)) == n_before  # the test of P(y | x) has the later rows alone
    assert 0.0 < found.error < 0.4  # earlier rows count as 50 at most, and half their weight is gone since


def test_without_a_round_there_is_no_before(rows):
    reference, X, y = rows
    model = AdaptiveClassifier().fit(*reference).extend(X[:50], y[:50])
    assert not model.is_before_joining(np.zeros(3)).any()
    assert not model.is_before_joining([np.nan]).any()


def judged(n_rows, loss):
    return JudgedRows(
        losses=np.full(n_rows, loss),
        losses_fixed=None,
        errors_fixed=None,
        is_unseen=np.arange(n_rows) % 2 == 0,
        unseen_names=tuple("abcdefghij"[: (n_rows + 1) // 2]),
        estimates=np.full((n_rows, 3), 0.1),
    )


def test_a_part_keeps_the_names_of_its_own_rows():
    part = judged(6, 1.0).part(np.array([True, True, False, False, True, False]))
    assert (len(part), part.unseen_names, part.is_unseen.tolist()) == (3, ("a", "c"), [True, False, True])


def test_labels_since_then_are_not_changed_by_earlier_ones():
    since = replace(LateLabels().after(judged(10, 0.0)), n_before=0)
    found = since.after_earlier(judged(8, 1.0), frozenset())
    assert (found.n_labelled, found.n_before, found.sums[Sum.LOSS]) == (18, 8, 0.0)
    assert found.n_unseen == since.n_unseen
