"""The history stays bounded, loses no count, and is the same whether a run was interrupted or not."""

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.arrays import from_plain, to_plain
from accous.tabular.history import MOST_POINTS, History


@pytest.fixture(scope="module")
def model() -> AdaptiveClassifier:
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    model = AdaptiveClassifier(random_state=0).fit(X, X[:, 0] > 0)
    for _ in range(9):
        model.adapt(random.normal(size=(3, 2)))
    return model


def record(model: AdaptiveClassifier, n_rounds: int, interrupted_at: tuple[int, ...] = ()) -> History:
    history = History()
    for number in range(1, n_rounds + 1):
        history.add(model, number, 2, 1, number % 2)
        if number in interrupted_at:
            history = from_plain(History, to_plain(history))
    return history


@pytest.mark.parametrize("n_rounds", [1, 7, MOST_POINTS - 1, MOST_POINTS, MOST_POINTS + 1, 5 * MOST_POINTS + 3])
def test_it_is_bounded_and_loses_no_count(model, n_rounds):
    history = record(model, n_rounds)
    assert len(history) < MOST_POINTS
    assert history.totals() == {
        "n_rows": n_rounds * (n_rounds + 1) // 2,
        "n_scored": 2 * n_rounds,
        "n_wrong_fixed": n_rounds,
        "n_wrong": (n_rounds + 1) // 2,
    }
    assert n_rounds - history.stride < (history.rounds[-1] if len(history) else 0) <= n_rounds
    assert history.n_rounds == n_rounds


def test_an_interruption_leaves_no_trace(model):
    n_rounds = 2 * MOST_POINTS + 77
    expected = to_plain(record(model, n_rounds))
    found = to_plain(record(model, n_rounds, interrupted_at=(1, 100, MOST_POINTS, MOST_POINTS + 5, n_rounds)))
    for name, value in expected.items():
        assert np.array_equal(found[name], value, equal_nan=True), name


def test_readings_are_those_of_the_model(model):
    history = record(model, 3)
    assert history.column("effective_sample_size").tolist() == [model.effective_sample_size_] * 3
    assert history.column("risk").tolist() == [model.risk_.adapted] * 3
    assert history.length_weights.sum(axis=1) == pytest.approx(np.ones(3))
