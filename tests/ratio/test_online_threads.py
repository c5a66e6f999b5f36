"""OnlineDensityRatio: the same bits every time, and readers in other threads."""

import pickle
import sys
from collections.abc import Iterator
from copy import copy

import numpy as np
import pytest

from accous import OnlineDensityRatio
from tests.ratio.online_cases import (
    Array,
    drifting_batches,
    each_loss,
    normal_rows,
    shown_state,
)
from tests.ratio.regime_streams import TWO, RegimeStream
from tests.waiting import asking


@pytest.mark.parametrize("feature_map", ["identity", "standardize", "rbf"])
@each_loss
def test_the_same_seed_gives_the_same_bits(loss: str, feature_map: str) -> None:
    states = []
    for _ in range(2):
        estimator = OnlineDensityRatio(feature_map, loss=loss, random_state=0).fit(normal_rows(150))
        for batch in drifting_batches([1, 6], n_rounds=40):
            estimator.partial_fit(batch)
        states.append(shown_state(estimator))
    assert states[0] == states[1]


def test_asking_changes_nothing() -> None:
    estimator = OnlineDensityRatio("rbf", random_state=0).fit(normal_rows(30))
    for batch in drifting_batches([3], n_rounds=10):
        estimator.partial_fit(batch)
    before = pickle.dumps(estimator)
    far_away = normal_rows(20) * 1e6
    for _ in range(3):
        estimator.predict_ratio(far_away)
        estimator.score_loss(far_away)
        shown_state(estimator)
    assert pickle.dumps(estimator) == before


@pytest.fixture
def eager_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_thread_switches")
def test_threads_that_ask_during_rounds_see_one_round_or_another_never_a_mixture() -> None:
    reference, probe = normal_rows(100), normal_rows(40, seed=7)
    batches = list(drifting_batches([4], n_rounds=150))
    estimator = OnlineDensityRatio().fit(reference)
    answers = [estimator.predict_ratio(probe)]
    for batch in batches:
        estimator.partial_fit(batch)
        answers.append(estimator.predict_ratio(probe))
    expected = np.array(answers)

    estimator.fit(reference)
    seen: list[Array] = []
    with asking(lambda: seen.append(estimator.predict_ratio(probe)), n_threads=4) as wait_for_answers:
        for number, batch in enumerate(batches):
            if number % 15 == 0:
                wait_for_answers()
            estimator.partial_fit(batch)
    np.testing.assert_allclose(estimator.predict_ratio(probe), expected[-1], rtol=1e-12)
    rounds_seen = set()
    for answer in seen:
        distances = np.abs(expected - answer).max(axis=1)
        assert distances.min() < 1e-12
        rounds_seen.add(int(distances.argmin()))
    assert len(rounds_seen) > 5


@pytest.mark.usefixtures("eager_thread_switches")
def test_with_remembered_regimes_every_answer_comes_from_one_pool() -> None:
    """The pooled ratio has mean 1 over the reference only if theta, means, proportions and slots belong together."""
    playing = RegimeStream(TWO, n_reference=150)
    reference = playing.reference()
    estimator = OnlineDensityRatio().fit(reference)
    playing.run(estimator, [(0, 96), (1, 96)])
    assert (estimator.pool_.slots.n_merged > 1).sum() == 2
    batches = [playing.batch(number // 40 % 2) for number in range(160)]
    again = copy(estimator)
    answers = [again.partial_fit(batch).predict_ratio(reference) for batch in batches]
    expected = np.array([estimator.predict_ratio(reference), *answers])
    seen: list[Array] = []

    def ask() -> None:
        seen.extend((estimator.predict_ratio(reference), estimator.reference_ratio_))

    with asking(ask, n_threads=3) as wait_for_answers:
        for number, batch in enumerate(batches):
            if number % 16 == 0:
                wait_for_answers()
            estimator.partial_fit(batch)
    rounds_seen = set()
    for answer in seen:
        assert answer.mean() == pytest.approx(1.0, abs=1e-9)
        distances = np.abs(expected - answer).max(axis=1)
        assert distances.min() < 1e-9
        rounds_seen.add(int(distances.argmin()))
    assert len(rounds_seen) > 5
