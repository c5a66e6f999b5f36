"""One BLAS thread inside a round, the same bits every time, and readers in other threads."""

import pickle
import threading
from contextlib import ExitStack, suppress
from copy import copy
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.threads import one_blas_thread
from tests.needs import TWO_BLAS_THREADS
from tests.ratio.online_cases import TWO, RegimeStream, drifting_batches, each_loss, normal_rows, shown_state
from tests.waiting import PATIENCE, asking

N_BEFORE = 2


def blas_threads():
    """The thread counts of the BLAS libraries in this process."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def let_any_thread_set():
    """Give up this thread's control of OpenBLAS: threadpoolctl lets only one thread at a time set it."""
    with threadpool_limits(None):
        pass


@pytest.fixture
def two_threads_before():
    limits = threadpool_limits(N_BEFORE, user_api="blas")
    let_any_thread_set()
    if blas_threads() != {N_BEFORE}:
        pytest.skip(TWO_BLAS_THREADS)
    yield
    limits.restore_original_limits()
    let_any_thread_set()


two_threads = pytest.mark.usefixtures("two_threads_before")


def in_other_thread(function):
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def threads_inside():
    with one_blas_thread():
        return blas_threads()


class PassingError(Exception):
    """Raised on purpose."""


# --- the limit and its end --------------------------------------------------------------------------------------


@two_threads
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_inside_there_is_one_thread_and_the_outermost_restores_the_setting(depth, fails):
    with suppress(PassingError), ExitStack() as stack:
        for _ in range(depth):
            stack.enter_context(one_blas_thread())
        assert blas_threads() == {1}
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
        if fails:
            raise PassingError
    assert blas_threads() == {N_BEFORE}


@two_threads
def test_a_setting_changed_between_two_uses_is_kept():
    with one_blas_thread():
        pass
    with threadpool_limits(1, user_api="blas"):
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
    assert blas_threads() == {N_BEFORE}


@two_threads
def test_of_two_overlapping_threads_the_last_one_out_restores():
    is_second_inside, may_second_leave = threading.Event(), threading.Event()

    def enter_and_wait():
        with one_blas_thread():
            is_second_inside.set()
            may_second_leave.wait(timeout=PATIENCE)

    second = threading.Thread(target=enter_and_wait)
    with one_blas_thread():
        second.start()
        assert is_second_inside.wait(timeout=PATIENCE)
    after_first = blas_threads()
    may_second_leave.set()
    second.join()
    assert after_first == {1}
    assert blas_threads() == {N_BEFORE}


@two_threads
def test_one_thread_after_the_other_is_limited():
    """Also while the first one lives on, as the main thread does when a worker runs the rounds."""
    assert threads_inside() == {1}
    assert in_other_thread(threads_inside) == {1}
    assert threads_inside() == {1}
    assert blas_threads() == {N_BEFORE}


@two_threads
def test_afterwards_other_threads_can_set_their_own_limit():
    def limited():
        with threadpool_limits(1, user_api="blas"):
            return blas_threads()

    threads_inside()
    assert in_other_thread(limited) == {1}


@two_threads
def test_many_threads_at_once_restore_and_never_see_more_than_one_thread():
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    seen: set[int] = set()

    def enter_often():
        for _ in range(300):
            try:
                with one_blas_thread():
                    seen.update(library.get_num_threads() for library in libraries)
                    raise PassingError
            except PassingError:
                pass

    threads = [threading.Thread(target=enter_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {1}
    assert blas_threads() == {N_BEFORE}


# --- in the estimators ------------------------------------------------------------------------------------------


class ThreadRecorder(TransformerMixin, BaseEstimator):
    """The identity; notes how many BLAS threads there are while it works, and fails where told to."""

    seen: list[set[int]] = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.seen.append(blas_threads())
        self.fitted_ = True
        return self

    def transform(self, X):
        self.seen.append(blas_threads())
        if X[0, 0] > 100.0:
            raise PassingError
        return X


@two_threads
@pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])
def test_fit_and_rounds_run_on_one_thread_and_restore_also_if_they_fail(estimator_class):
    ThreadRecorder.seen.clear()
    X = np.random.default_rng(0).normal(size=(20, 3))
    estimator = estimator_class(ThreadRecorder()).fit(X).partial_fit(X)
    assert len(ThreadRecorder.seen) >= 3
    assert all(seen == {1} for seen in ThreadRecorder.seen)
    assert blas_threads() == {N_BEFORE}
    estimator.score_loss(X)
    estimator.predict_ratio(X)
    _ = estimator.reference_ratio_
    assert blas_threads() == {N_BEFORE}
    with pytest.raises(PassingError):
        estimator.partial_fit(X + 1000.0)
    assert blas_threads() == {N_BEFORE}


@two_threads
@pytest.mark.parametrize(
    ("feature_map", "n_rounds"),
    [
        ("standardize", 36),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("standardize", 300), ("rbf", 50))),
    ],
)
def test_the_bits_do_not_depend_on_the_number_of_threads_that_are_allowed(feature_map, n_rounds):
    learned = []
    for n_threads in (1, N_BEFORE):
        with threadpool_limits(n_threads, user_api="blas"):
            assert blas_threads() == {n_threads}
            rng = np.random.default_rng(0)
            estimator = OnlineDensityRatio(feature_map, random_state=0).fit(rng.normal(size=(2000, 40)))
            for t in range(n_rounds):
                estimator.partial_fit(rng.normal(np.cos(t / 30), size=(1 + t % 50, 40)))
        learned.append((estimator.coef_.tobytes(), estimator.learner_weights_.tobytes()))
    assert learned[0] == learned[1]


# --- readers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", ["identity", "standardize", "rbf"])
@each_loss
def test_the_same_seed_gives_the_same_bits(loss, feature_map):
    states = []
    for _ in range(2):
        estimator = OnlineDensityRatio(feature_map, loss=loss, random_state=0).fit(normal_rows(150))
        for batch in drifting_batches([1, 6], n_rounds=40):
            estimator.partial_fit(batch)
        states.append(shown_state(estimator))
    assert states[0] == states[1]


def test_asking_changes_nothing():
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


@pytest.mark.usefixtures("eager_thread_switches")
@pytest.mark.parametrize("n_before", [0, 96])
def test_threads_that_ask_during_rounds_see_one_round_or_another_never_a_mixture(n_before):
    """The pooled ratio has mean 1 over the reference only if theta, means, proportions and slots belong together."""
    recurring = RegimeStream(TWO, n_reference=150)
    reference = recurring.reference()
    estimator = OnlineDensityRatio().fit(reference)
    recurring.run(estimator, [(0, n_before), (1, n_before)] if n_before else [])
    assert (estimator.pool_.slots.n_merged > 1).sum() == (2 if n_before else 0)
    batches, again = [recurring.batch(number // 40 % 2) for number in range(160)], copy(estimator)
    answers = [again.partial_fit(batch).predict_ratio(reference) for batch in batches]
    expected, seen = np.array([estimator.predict_ratio(reference), *answers]), []
    with asking(
        lambda: seen.extend((estimator.predict_ratio(reference), estimator.reference_ratio_)), n_threads=4
    ) as wait_for_answers:
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
