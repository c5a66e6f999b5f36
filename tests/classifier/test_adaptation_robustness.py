"""AdaptiveClassifier under hard use: labels and references of every kind, failed calls, threads."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import DataError
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    Array,
    FailingClassifier,
    Labels,
    drifting_batches,
    labelled_rows,
    play,
    played,
    shown_state,
)
from tests.waiting import asking

each_n_classes = pytest.mark.parametrize("n_classes", [2, 4])
each_kind = pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["ours", "foreign"])


# --- labels and references of every kind --------------------------------------------------------------------

LABEL_KINDS: dict[str, Callable[[Labels], Any]] = {
    "text": lambda y: np.array(["no", "yes"])[y],
    "text objects": lambda y: np.array(["no", "yes"], dtype=object)[y],
    "bool": lambda y: y.astype(bool),
    "float": lambda y: y.astype(float),
    "negative": lambda y: 2 * y - 1,
    "far apart": lambda y: 1000 * y,
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(np.array(["no", "yes"])[y], index=np.arange(len(y))[::-1]),
    "categories": lambda y: pd.Series(np.array(["no", "yes"])[y], dtype="category"),
}


@each_kind
@pytest.mark.parametrize("convert", LABEL_KINDS.values(), ids=LABEL_KINDS)
def test_labels_of_any_kind_come_back_as_they_were(convert: Any, estimator: Any) -> None:
    X, y = labelled_rows()
    numbers, model = (
        play(AdaptiveClassifier(estimator).fit(X, labels), drifting_batches(8)) for labels in (y, convert(y))
    )
    kinds = np.unique(np.asarray(convert(y)))
    assert model.classes_.tolist() == kinds.tolist()
    assert model.classes_.dtype == kinds.dtype
    assert model.predict(PROBE).tolist() == kinds[numbers.predict(PROBE)].tolist()
    assert model.risk_estimate_ == numbers.risk_estimate_


@pytest.mark.parametrize("y", [np.zeros(120, int), np.array(["only"] * 120)], ids=["number", "text"])
@each_kind
def test_one_class_is_refused(y: Labels, estimator: Any) -> None:
    with pytest.raises(DataError, match=rf"one class '?{y[0]}'?; .* at least two"):
        AdaptiveClassifier(estimator).fit(PROBE.repeat(3, axis=0), y)


def test_labels_that_are_numbers_on_a_scale_are_refused() -> None:
    X, _ = labelled_rows()
    with pytest.raises(ValueError, match="continuous"):
        AdaptiveClassifier().fit(X, X[:, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_labels_that_are_missing_are_refused(value: float) -> None:
    X, y = labelled_rows()
    with pytest.raises(ValueError, match=r"y (holds NaN in row 3|contains infinity)"):
        AdaptiveClassifier().fit(X, np.where(np.arange(len(y)) == 3, value, y))


def test_labels_that_are_not_given_are_asked_for() -> None:
    with pytest.raises(DataError, match="requires y"):
        AdaptiveClassifier().fit(PROBE, None)


def test_labels_of_another_number_than_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"40 rows .* 30 labels"):
        AdaptiveClassifier().fit(PROBE, np.arange(30) % 2)


BAD_BASE_WEIGHTS = {
    "negative": np.linspace(-1.0, 1.0, 40),
    "all zero": np.zeros(40),
    "too few": np.ones(39),
    "missing": np.where(np.arange(40) == 7, np.nan, 1.0),
    "infinite": np.where(np.arange(40) == 7, np.inf, 1.0),
    "a missing number": np.nan,
}


@pytest.mark.parametrize("base", BAD_BASE_WEIGHTS.values(), ids=BAD_BASE_WEIGHTS)
def test_bad_base_weights_are_refused(base: Any) -> None:
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        AdaptiveClassifier().fit(PROBE, np.arange(40) % 2, sample_weight=base)


@each_kind
def test_classes_seen_once_are_learned(estimator: Any) -> None:
    X, y = labelled_rows(n_rows=60)
    y[:3] = [7, 8, 9]
    model = play(AdaptiveClassifier(estimator, refit="always").fit(X, y), drifting_batches(12))
    assert model.classes_.tolist() == [0, 1, 7, 8, 9]
    assert np.all(np.isfinite(model.predict_proba(PROBE)))
    assert np.isnan(model.risk_estimate_)


@pytest.mark.parametrize("X", [[[0.0, 1.0], [1.0, 0.0]], np.zeros((2, 2))], ids=["two rows", "the same row twice"])
@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["ours", "foreign"])
def test_a_reference_of_two_rows_is_enough(X: Any, estimator: Any) -> None:
    model = AdaptiveClassifier(estimator, refit="always").fit(X, ["a", "b"])
    play(model, drifting_batches(12, n_features=2))
    assert model.n_rounds_ == 12
    assert np.all(np.isfinite(model.predict_proba(PROBE[:, :2])))
    assert np.isnan(model.risk_estimate_)


@each_kind
def test_a_reference_of_one_row_is_refused(estimator: Any) -> None:
    with pytest.raises(ValueError, match=r"1 sample\(s\)"):
        AdaptiveClassifier(estimator).fit([[1.0, 2.0]], [0])


@each_n_classes
@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_columns_in_any_unit_are_fitted(n_classes: int, unit: float) -> None:
    X, y = labelled_rows(n_classes=n_classes)
    model = AdaptiveClassifier(refit="always").fit(X * unit, y)
    play(model, [batch * unit for batch in drifting_batches(10)])
    assert np.all(np.isfinite(model.predict_proba(PROBE * unit)))
    assert 0.0 < model.risk_estimate_ < 1.0


@pytest.mark.slow
@each_n_classes
def test_a_large_reference_is_fitted_and_adapted(n_classes: int) -> None:
    X, y = labelled_rows(n_rows=200_000, n_features=20, n_classes=n_classes)
    model = AdaptiveClassifier(refit="always").fit(X, y)
    play(model, drifting_batches(3, n_features=20))
    assert model.n_refits_ == 3
    assert model.risk_estimate_ == pytest.approx(np.mean(model.predict(X) != y), abs=0.01)


# --- what a failed call leaves behind -----------------------------------------------------------------------


def to_frame(X: Array) -> pd.DataFrame:
    return pd.DataFrame(X, columns=["a", "b", "c"])


@each_kind
@pytest.mark.parametrize("to_input", [np.asarray, to_frame], ids=["array", "frame"])
def test_an_empty_batch_changes_nothing(estimator: Any, to_input: Any) -> None:
    X, y = labelled_rows()
    model = AdaptiveClassifier(estimator, refit="always").fit(to_input(X), y)
    play(model, map(to_input, drifting_batches(6)))
    before = shown_state(model, to_input(PROBE))
    assert model.adapt(to_input(PROBE)[:0]) is model
    assert shown_state(model, to_input(PROBE)) == before


BAD_BATCHES = {
    "missing value": (np.array([[0.0, np.nan, 0.0]]), r"Column 1 holds NaN in row 0"),
    "infinity": (np.array([[0.0, 0.0, 0.0], [0.0, 0.0, np.inf]]), r"Column 2 holds inf.* in row 1"),
    "too few columns": (np.zeros((2, 2)), r"2 features.* 3 features"),
    "too many columns": (np.zeros((2, 4)), r"4 features.* 3 features"),
    "one dimension": (np.zeros(3), r"(?i)reshape your data"),
    "text": (np.array([["a", "b", "c"]]), r"Column 0 cannot be read as numbers"),
}


@each_kind
@pytest.mark.parametrize(("batch", "message"), BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_a_bad_batch_is_refused_and_leaves_everything_as_it_was(batch: Any, message: str, estimator: Any) -> None:
    model = played(9, estimator=estimator, refit="always")
    before = shown_state(model, PROBE)
    with pytest.raises(ValueError, match=message):
        model.adapt(batch)
    assert shown_state(model, PROBE) == before
    assert model.adapt(PROBE[:2]).n_rounds_ == 10


class FailingMap(TransformerMixin, BaseEstimator):
    """The identity; raises the error it is told to."""

    error: type[BaseException] | None = None

    def fit(self, X: Any, y: Any = None) -> "FailingMap":
        self.fitted_ = True
        return self

    def transform(self, X: Array) -> Array:
        if FailingMap.error is not None:
            raise FailingMap.error("told to fail")
        return X


each_error = pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError], ids=lambda e: e.__name__)
each_batch_size = pytest.mark.parametrize("n_rows", [1, 5])


@each_error
@each_batch_size
def test_a_failed_refit_leaves_the_round_before_and_the_next_goes_on(error: type[BaseException], n_rows: int) -> None:
    X, y = labelled_rows()
    batches = drifting_batches(12, n_rows=n_rows)
    FailingClassifier.fail_at()
    model = AdaptiveClassifier(FailingClassifier(), refit="always", fallback="none").fit(X, y)
    FailingClassifier.fail_at(8, error=error)  # one fit per round
    play(model, batches[:7])
    before = play(AdaptiveClassifier(GaussianNB(), refit="always", fallback="none").fit(X, y), batches[:7])
    estimator = model.estimator_
    with pytest.raises(error, match="told to fail"):
        model.adapt(batches[7])
    assert model.estimator_ is estimator
    assert shown_state(model, PROBE) == shown_state(before, PROBE)
    assert shown_state(play(model, batches[7:]), PROBE) == shown_state(play(before, batches[7:]), PROBE)


@each_error
def test_a_failed_ratio_leaves_the_round_before_and_the_next_goes_on(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, twin = (played(7, ratio=OnlineDensityRatio(FailingMap()), refit="always") for _ in range(2))
    monkeypatch.setattr(FailingMap, "error", error)
    with pytest.raises(error, match="told to fail"):
        model.adapt(PROBE[:3])
    monkeypatch.undo()
    assert shown_state(model, PROBE) == shown_state(twin, PROBE)
    batches = drifting_batches(5, seed=2)
    assert shown_state(play(model, batches), PROBE) == shown_state(play(twin, batches), PROBE)


def test_a_failed_cross_fit_leaves_the_round_and_can_be_tried_again() -> None:
    FailingClassifier.fail_at()
    model = played(9, estimator=FailingClassifier(), refit="always")
    FailingClassifier.fail_at(1)  # without a fallback, nothing has been compared yet: the reading fits
    with pytest.raises(RuntimeError, match="told to fail"):
        _ = model.risk_estimate_
    assert model.n_rounds_ == 9
    assert model.risk_estimate_ == played(9, estimator=GaussianNB(), refit="always").risk_estimate_


BAD_FITS: dict[str, tuple[dict[str, Any], tuple[Any, Any]]] = {
    "refit": ({"refit": "never"}, labelled_rows()),
    "estimator": ({"estimator": KNeighborsClassifier()}, labelled_rows()),
    "ratio": ({"ratio": OnlineDensityRatio(ridge=-1.0)}, labelled_rows()),
    "one class": ({}, (np.zeros((5, 7)), np.zeros(5))),
    "too few labels": ({}, (np.zeros((5, 7)), [0, 1])),
    "missing value": ({}, (np.full((5, 7), np.nan), [0, 1, 0, 1, 0])),
}
each_bad_fit = pytest.mark.parametrize(("changes", "data"), BAD_FITS.values(), ids=BAD_FITS)


@each_bad_fit
def test_after_a_failed_first_fit_the_model_is_not_fitted(changes: dict[str, Any], data: Any) -> None:
    model = AdaptiveClassifier(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        model.fit(*data)
    for method in (model.predict, model.adapt):
        with pytest.raises(NotFittedError):
            method(PROBE)


@each_bad_fit
def test_a_failed_second_fit_leaves_the_model_as_it_was(changes: dict[str, Any], data: Any) -> None:
    model, twin = played(6), played(6)
    model.set_params(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        model.fit(*data)
    model.set_params(**AdaptiveClassifier(fallback="none").get_params(deep=False))
    assert shown_state(model, PROBE) == shown_state(twin, PROBE)
    assert shown_state(play(model, drifting_batches(6)), PROBE) == shown_state(play(twin, drifting_batches(6)), PROBE)


# --- threads ------------------------------------------------------------------------------------------------


@pytest.fixture
def eager_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_thread_switches")
@pytest.mark.parametrize("estimator", rest_slow([None, GaussianNB()]), ids=["ours", "foreign"])
def test_threads_that_ask_during_rounds_see_one_round_or_another_never_a_mixture(estimator: Any) -> None:
    batches = drifting_batches(60)
    model = played(0, estimator=estimator, refit="always")
    of_rounds = [model.predict_proba(PROBE).tobytes()]
    of_rounds += [model.adapt(batch).predict_proba(PROBE).tobytes() for batch in batches]
    assert len(set(of_rounds)) > 50

    model = played(0, estimator=estimator, refit="always")
    seen = set()

    def ask() -> None:
        seen.add(model.predict_proba(PROBE).tobytes())
        assert model.reference_weight_.shape == (120,)

    with asking(ask, n_threads=3) as wait_for_answers:
        for number, batch in enumerate(batches):
            if number % 6 == 0:
                wait_for_answers()
            model.adapt(batch)
    assert seen <= set(of_rounds)
    assert len(seen) > 5


@pytest.mark.usefixtures("eager_thread_switches")
def test_the_risk_read_during_rounds_is_that_of_some_round() -> None:
    batches = drifting_batches(40)
    model = played(0, refit="always")
    of_rounds = {model.risk_estimate_, *(model.adapt(batch).risk_estimate_ for batch in batches)}
    model = played(0, refit="always")
    seen: list[float] = []
    thread = threading.Thread(target=lambda: seen.extend(model.risk_estimate_ for _ in range(200)))
    thread.start()
    play(model, batches)
    thread.join()
    assert len(seen) == 200
    assert set(seen) <= of_rounds
