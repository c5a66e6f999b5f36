"""Threads that learn with one model take turns, readers do not wait, and the lock is not part of the model."""

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import accous
from accous import ULSIF, AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.ratio.base import RatioEstimator
from accous.table.columns import Choices, ColumnEncoder
from accous.table.model import TableModel
from accous.threads import LOCK_NAME
from tests.waiting import PATIENCE

N_THREADS, N_CALLS = 3, 100
RANDOM = np.random.default_rng(0)
REFERENCE = RANDOM.normal(size=(120, 3))
LABELS = (REFERENCE[:, 0] > 0).astype(int)
BATCHES = RANDOM.normal(loc=0.4, size=(N_THREADS, N_CALLS, 2, 3))
RATIOS = [OnlineDensityRatio(), SingleLearnerRatio(), ULSIF(random_state=0), NoShift()]


@pytest.fixture
def _eager_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def call_from_threads(learn: Callable[[Any], object], batches: Any = BATCHES) -> None:
    """Each thread calls ``learn`` with its own batches; all of them start together."""
    start = threading.Barrier(len(batches))

    def work(own: Any) -> None:
        start.wait()
        for batch in own:
            learn(batch)

    threads = [threading.Thread(target=work, args=(own,)) for own in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fitted_classifier(**parameters: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier(**parameters).fit(REFERENCE, LABELS)


def as_frame(rows: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["a", "b", "c"])


def table_model() -> TableModel:
    reference = as_frame(REFERENCE)
    encoder = ColumnEncoder.learn(reference, Choices())
    model = AdaptiveClassifier().fit(encoder.encode(reference).X, LABELS)
    return TableModel(model=model, encoder=encoder, label="y", settings={})


# --- no batch is lost -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_eager_thread_switches")
@pytest.mark.parametrize("ratio", RATIOS, ids=lambda ratio: type(ratio).__name__)
def test_concurrent_rounds_are_all_run(ratio: RatioEstimator) -> None:
    model = fitted_classifier(ratio=ratio)
    call_from_threads(model.adapt)
    assert model.n_rounds_ == model.ratio_.n_rounds_ == N_THREADS * N_CALLS


@pytest.mark.usefixtures("_eager_thread_switches")
@pytest.mark.parametrize(
    ("estimator", "n_lost"),
    [(OnlineDensityRatio().fit(REFERENCE), 0), (SingleLearnerRatio().fit(REFERENCE), 0), (OnlineDensityRatio(), 1)],
    ids=["online", "single", "unfitted: one fits, the others learn"],
)
def test_concurrent_rounds_of_a_ratio_are_all_run(estimator: Any, n_lost: int) -> None:
    estimator = copy.deepcopy(estimator)
    call_from_threads(estimator.partial_fit)
    assert estimator.n_rounds_ == N_THREADS * N_CALLS - n_lost


@pytest.mark.usefixtures("_eager_thread_switches")
def test_concurrent_steps_of_a_table_model_are_all_run_and_recorded() -> None:
    model, rounds = table_model(), list[int]()
    frames = [[as_frame(batch) for batch in own] for own in BATCHES]
    call_from_threads(lambda frame: rounds.append(model.step(frame)["round"][0]), frames)
    assert sorted(rounds) == list(range(1, N_THREADS * N_CALLS + 1))
    assert model.model.n_rounds_ == model.history.n_rounds == N_THREADS * N_CALLS
    assert model.history.totals()["n_rows"] == BATCHES[..., 0].size


@pytest.mark.usefixtures("_eager_thread_switches")
def test_labels_and_failed_calls_among_rounds_lose_none() -> None:
    model = fitted_classifier()
    labels = np.zeros(2)

    def learn_fail_and_observe(batch: Any) -> None:
        model.adapt(batch)
        with pytest.raises(accous.AccousError):
            model.adapt(np.full((1, 3), np.nan))
        model.observe(batch, labels, predicted=labels, probability=1.0, learn=False)

    call_from_threads(learn_fail_and_observe)
    assert model.n_rounds_ == N_THREADS * N_CALLS
    assert len(model.state_.labelled) == BATCHES[..., 0].size


# --- readers --------------------------------------------------------------------------------------------------


def readers() -> dict[str, tuple[Any, Callable[[Any], object]]]:
    frame = as_frame(REFERENCE[:2])
    return {
        "classifier": (
            fitted_classifier(),
            lambda model: (model.predict(REFERENCE), model.status_, model.performance()),
        ),
        "ratio": (OnlineDensityRatio().fit(REFERENCE), lambda model: model.predict_ratio(REFERENCE)),
        "table": (table_model(), lambda model: model.predict(frame)),
    }


@pytest.mark.parametrize("name", ["classifier", "ratio", "table"])
def test_readers_do_not_wait_while_another_thread_learns(name: str) -> None:
    model, read = readers()[name]
    answers: list[object] = []
    with model.lock():
        thread = threading.Thread(target=lambda: answers.append(read(model)), daemon=True)
        thread.start()
        thread.join(PATIENCE)
    assert len(answers) == 1


@pytest.mark.usefixtures("_eager_thread_switches")
def test_a_prediction_of_a_table_model_comes_from_one_round() -> None:
    batches = [as_frame(batch) for batch in BATCHES[0]]
    model, probe = table_model(), as_frame(REFERENCE[:5])
    expected = [model.predict(probe)]
    for batch in batches:
        model.step(batch)
        expected.append(model.predict(probe))
    model = table_model()
    seen: list[pl.DataFrame] = []
    thread = threading.Thread(target=lambda: seen.extend(model.predict(probe) for _ in range(300)))
    thread.start()
    for batch in batches:
        model.step(batch)
    thread.join()
    assert len(seen) == 300
    for found in seen:
        assert found.equals(expected[found["round"][0]])


# --- the lock is not part of the model ------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("name", ["classifier", "ratio", "table"])
def test_copies_have_no_lock_and_make_their_own(name: str, duplicate: Callable[[Any], Any]) -> None:
    model, _ = readers()[name]
    with model.lock():
        assert LOCK_NAME in vars(model)
        other = duplicate(model)
        assert LOCK_NAME not in vars(other)
        assert other.lock() is not model.lock()
        assert other.lock() is other.lock()


@pytest.mark.parametrize("name", ["classifier", "ratio", "table"])
def test_a_saved_model_learns_on_after_it_is_loaded(name: str, tmp_path: Any) -> None:
    model, _ = readers()[name]
    with model.lock():
        if name == "table":
            model.settings = {"reference": "", "ratio": "accous", "accuracy": None}
        accous.save(model, tmp_path / "saved")
    other = accous.load(tmp_path / "saved")
    learn = {"classifier": "adapt", "ratio": "partial_fit", "table": "step"}[name]
    batches = BATCHES[0] if name != "table" else [as_frame(batch) for batch in BATCHES[0]]
    call_from_threads(getattr(other, learn), [batches] * 2)
    assert getattr(other, "model", other).n_rounds_ == 2 * N_CALLS


def test_parameters_and_text_do_not_show_the_lock() -> None:
    model = fitted_classifier().adapt(BATCHES[0, 0])
    assert LOCK_NAME in vars(model)
    assert model.get_params().keys() == AdaptiveClassifier().get_params().keys()
    assert repr(model) == repr(AdaptiveClassifier())
    assert vars(clone(model)).keys() == vars(AdaptiveClassifier()).keys()
