"""The history of a table model: bounded, complete, and the same after an interruption."""

from types import SimpleNamespace

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.diagnostics.performance import Estimate
from accous.table.history import BASES, MOST_POINTS, History, is_chosen


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
            history = History.from_plain(history.to_plain())
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


@pytest.mark.parametrize("n_rounds", [7, MOST_POINTS, 2 * MOST_POINTS + 3])
def test_late_labels_count_in_the_rounds_that_predicted_their_rows(model, n_rounds):
    history = History()
    for _ in range(n_rounds):
        history.add(model, 1)
    rounds = np.array([1.0, 1.0, 3.0, n_rounds, n_rounds + 1, 0.0, np.nan])
    history.add_labels(rounds, np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0, 1.0]))
    history = History.from_plain(history.to_plain())
    totals = {"n_late": {1: 2.0, 3: 1.0, n_rounds: 1.0}, "late_loss": {1: 1.0, 3: 0.5, n_rounds: 0.25}}
    for name, by_round in totals.items():
        expected = np.zeros(len(history))
        for number, value in by_round.items():
            if (number - 1) // history.stride < len(history):  # the open point is shown when it is closed
                expected[(number - 1) // history.stride] += value
        assert np.array_equal(history.column(name), expected)


def test_late_labels_stay_when_points_are_merged(model):
    history = History()
    for _ in range(MOST_POINTS - 1):
        history.add(model, 1)
    history.add_labels(np.arange(1.0, 9.0), np.ones(8))
    history.add(model, 1)
    assert history.stride == 2
    assert history.column("n_late")[:5].tolist() == [2.0, 2.0, 2.0, 2.0, 0.0]


def test_an_interruption_leaves_no_trace(model):
    n_rounds = 2 * MOST_POINTS + 77
    expected = record(model, n_rounds).to_plain()
    found = record(model, n_rounds, interrupted_at=(1, 100, MOST_POINTS, MOST_POINTS + 5, n_rounds)).to_plain()
    for name, value in expected.items():
        assert np.array_equal(found[name], value, equal_nan=True), name


def test_readings_are_those_of_the_model(model):
    history = record(model, 3)
    now = model.performance()
    for name in ("value", "low", "high"):
        assert history.column(name).tolist() == [getattr(now, name)] * 3
    assert history.column("basis").tolist() == [BASES.index(now.basis)] * 3


class Rising:
    """Stands for a model whose metric rises with the round's number."""

    def __init__(self) -> None:
        self.number, self.basis = 0, "expected"
        self.read: list[int] = []

    def current(self) -> SimpleNamespace:
        self.read.append(self.number)
        value = self.number / 1000
        now = Estimate("error", value, value - 0.1, value + 0.1, self.basis, 0.1, 0)
        return SimpleNamespace(performance=lambda: now, status=None)


def test_merged_points_are_means_and_have_the_last_basis():
    history, rising = History(), Rising()
    for rising.number in range(1, MOST_POINTS + 1):
        rising.basis = "labels" if rising.number > 7 else "expected"
        history.add(rising, 1, time=1000.0 * rising.number)
    assert history.stride == 2
    assert history.column("basis")[:4].tolist() == [0.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(history.column("value")[:3], [0.0015, 0.0035, 0.0055])
    assert history.column("time").tolist() == [2000.0 * point for point in range(1, len(history) + 1)]


@pytest.mark.parametrize("every", [2, 8, 64])
def test_one_round_of_each_block_is_chosen_and_all_places_are(every):
    chosen = np.array([number for number in range(1, 200 * every + 1) if is_chosen(number, every)])
    assert ((chosen - 1) // every).tolist() == list(range(200))
    assert len(set((chosen - 1) % every)) > 0.9 * every


@pytest.mark.parametrize("every", [8, 64, 256])
def test_a_period_near_a_block_makes_no_slow_waves(every):
    chosen = np.array([number for number in range(1, 1600 * every + 1) if is_chosen(number, every)])
    means = np.sin(2.0 * np.pi * chosen / (0.99 * every)).reshape(-1, 16).mean(axis=1)
    assert means.std() < 0.3  # 0.6 and more with rounds at equal distances


def test_a_short_stream_has_a_curve_and_a_long_one_few_readings():
    """Each of the first 8 rounds, then 2 whenever the rounds have doubled, and at least one of 512."""
    rising, history = Rising(), History()
    for rising.number in range(1, 4097):
        history.add(rising, 1)
    per_part = np.histogram(rising.read, bins=np.add([0, 8, 16, 32, 512, 1024, 2048, 4096], 0.5))[0]
    assert per_part.tolist() == [8, 2, 2, 8, 2, 2, 4]
