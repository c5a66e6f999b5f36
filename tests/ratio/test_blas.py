"""One BLAS thread inside a round: the setting is restored, and the bits do not depend on the number of cores."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.threads import one_blas_thread
from tests.needs import TWO_BLAS_THREADS
from tests.waiting import PATIENCE

N_BEFORE = 2


def blas_threads() -> set[int]:
    """The thread counts of the BLAS libraries in this process."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def let_any_thread_set() -> None:
    """Give up this thread's control of OpenBLAS: threadpoolctl lets only one thread at a time set it."""
    with threadpool_limits(None):
        pass


@pytest.fixture(autouse=True)
def two_threads_before() -> Iterator[None]:
    limits = threadpool_limits(N_BEFORE, user_api="blas")
    let_any_thread_set()
    if blas_threads() != {N_BEFORE}:
        pytest.skip(TWO_BLAS_THREADS)
    yield
    limits.restore_original_limits()
    let_any_thread_set()


def in_other_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def threads_inside() -> set[int]:
    with one_blas_thread():
        return blas_threads()


# --- the limit and its end ----------------------------------------------------------------------------------


def test_inside_there_is_one_thread_and_outside_the_setting_is_back() -> None:
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {N_BEFORE}


def test_only_the_outermost_of_nested_uses_restores() -> None:
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {N_BEFORE}


class PassingError(Exception):
    """Raised on purpose."""


def test_an_exception_that_passes_restores() -> None:
    with pytest.raises(PassingError), one_blas_thread():
        raise PassingError
    assert blas_threads() == {N_BEFORE}


def test_an_exception_that_passes_two_levels_restores() -> None:
    with pytest.raises(PassingError), one_blas_thread(), one_blas_thread():
        raise PassingError
    assert blas_threads() == {N_BEFORE}


def test_a_setting_changed_between_two_uses_is_kept() -> None:
    with one_blas_thread():
        pass
    with threadpool_limits(1, user_api="blas"):
        with one_blas_thread():
            pass
        assert blas_threads() == {1}
    assert blas_threads() == {N_BEFORE}


def test_of_two_overlapping_threads_the_last_one_out_restores() -> None:
    is_second_inside, may_second_leave = threading.Event(), threading.Event()

    def enter_and_wait() -> None:
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


def test_one_thread_after_the_other_is_limited() -> None:
    """Also while the first one lives on, as the main thread does when a worker plays the rounds."""
    assert threads_inside() == {1}
    assert in_other_thread(threads_inside) == {1}
    assert threads_inside() == {1}
    assert blas_threads() == {N_BEFORE}


def test_afterwards_other_threads_can_set_their_own_limit() -> None:
    def limited() -> set[int]:
        with threadpool_limits(1, user_api="blas"):
            return blas_threads()

    threads_inside()
    assert in_other_thread(limited) == {1}


def test_many_threads_at_once_restore_and_never_see_more_than_one_thread() -> None:
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    seen: set[int] = set()

    def enter_often() -> None:
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


# --- in the estimators --------------------------------------------------------------------------------------


class ThreadRecorder(TransformerMixin, BaseEstimator):
    """The identity; notes how many BLAS threads there are while it works, and fails where told to."""

    seen: list[set[int]] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any = None) -> "ThreadRecorder":
        self.seen.append(blas_threads())
        self.fitted_ = True
        return self

    def transform(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        self.seen.append(blas_threads())
        if X[0, 0] > 100.0:
            raise PassingError
        return X


@pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])
def test_fit_and_rounds_run_on_one_thread_and_restore(estimator_class: Any) -> None:
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


def test_a_round_that_fails_restores() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    estimator = OnlineDensityRatio(ThreadRecorder()).fit(X)
    with pytest.raises(PassingError):
        estimator.partial_fit(X + 1000.0)
    assert blas_threads() == {N_BEFORE}


LONG_RUN = """
import numpy as np
from threadpoolctl import threadpool_info
from accous import OnlineDensityRatio

rng = np.random.default_rng(0)
estimator = OnlineDensityRatio({feature_map!r}, random_state=0).fit(rng.normal(size=(2000, 40)))
for t in range({n_rounds}):
    estimator.partial_fit(rng.normal(np.cos(t / 30), size=(1 + t % 50, 40)))
threads = {{library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}}
print(max(threads), estimator.coef_.tobytes().hex(), estimator.learner_weights_.tobytes().hex())
"""


def run_with_threads(feature_map: str, n_rounds: int, n_threads: int) -> tuple[int, list[str]]:
    """Threads BLAS had, and the bits learned, in a fresh interpreter."""
    command = [sys.executable, "-c", LONG_RUN.format(feature_map=feature_map, n_rounds=n_rounds)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(n_threads)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    threads, *learned = run.stdout.split()
    return int(threads), learned


def test_the_bits_do_not_depend_on_the_number_of_threads_that_are_allowed() -> None:
    learned = []
    for n_threads in (1, N_BEFORE):
        with threadpool_limits(n_threads, user_api="blas"):
            assert blas_threads() == {n_threads}
            rng = np.random.default_rng(0)
            estimator = OnlineDensityRatio("standardize", random_state=0).fit(rng.normal(size=(2000, 40)))
            for t in range(36):
                estimator.partial_fit(rng.normal(np.cos(t / 30), size=(1 + t % 50, 40)))
        learned.append((estimator.coef_.tobytes(), estimator.learner_weights_.tobytes()))
    assert learned[0] == learned[1]


@pytest.mark.slow
@pytest.mark.parametrize(("feature_map", "n_rounds"), [("standardize", 36), ("standardize", 300), ("rbf", 50)])
def test_the_bits_do_not_depend_on_the_number_of_threads(feature_map: str, n_rounds: int) -> None:
    (threads_of_one, of_one), (threads_of_two, of_two) = (
        run_with_threads(feature_map, n_rounds, n_threads) for n_threads in (1, 2)
    )
    if threads_of_two != 2:
        pytest.skip(TWO_BLAS_THREADS)
    assert threads_of_one == 1
    assert of_one == of_two
