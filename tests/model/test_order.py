"""The order of labelled rows in time: given, read from a column, or found by a test."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.exceptions import DataError, ParameterError
from accous.model.order import ALPHA, Order, OrderKind, find_order, is_one_day, look_for_order, numbers_of
from accous.model.safeguards import LENIENT, UNREPLAYED

N_ROWS = 400


def exchangeable(seed, n_rows=N_ROWS, n_columns=6, n_classes=2):
    random = np.random.default_rng(seed)
    X = random.standard_t(3, size=(n_rows, n_columns))  # with heavy tails
    X[:, 1] = X[:, 1] > 2.0
    return X, random.integers(n_classes, size=n_rows) ^ (X[:, 0] > 0.0)


def kind_of(X, y, *, has_classes=True):
    return look_for_order(X, y, has_classes=has_classes).kind


# --- the test ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 6])
def test_rows_drawn_at_random_are_seldom_called_ordered(n_classes):
    found = [kind_of(*exchangeable([7, seed], n_rows=150, n_classes=n_classes)) for seed in range(100)]
    # With a probability of 0.01 each, more than 5 of 100 happen once in 2,000 times.
    assert found.count(OrderKind.FOUND) <= 5
    assert set(found) <= {OrderKind.FOUND, OrderKind.NOT_FOUND}


def drifting(X, y, time):
    X[:, 2] += 1.5 * time


def cyclic(X, y, time):
    X[:, 2] += 1.5 * np.cos(2.0 * np.pi * time)


def widening(X, y, time):
    X[:, 2] *= 1.0 + 4.0 * time


def changing(X, y, time):
    """P(y | x) turns round in the middle; inputs and classes stay as frequent as they were."""
    y[:] = (X[:, 0] > 0.0) ^ (time > 0.5)


def more_of_one(X, y, time):
    y[time > 0.5] = 1


def walking(X, y, time):
    X[:, 2] = np.cumsum(X[:, 2])


@pytest.mark.parametrize("change", [drifting, cyclic, widening, changing, more_of_one, walking])
@pytest.mark.parametrize("seed", range(3))
def test_an_order_that_matters_is_found_and_shuffling_ends_it(change, seed):
    X, y = exchangeable([13, seed])
    change(X, y, np.arange(N_ROWS) / N_ROWS)
    assert kind_of(X, y) is OrderKind.FOUND
    rows = np.random.default_rng([12, seed]).permutation(N_ROWS)
    assert kind_of(X[rows], y[rows]) is OrderKind.NOT_FOUND


def test_an_id_proves_nothing():
    X, y = exchangeable(21)
    for counter in (np.arange(N_ROWS), 5 * np.arange(N_ROWS)[::-1], np.arange(N_ROWS) // 20):
        found = look_for_order(np.column_stack((X, counter)), y, has_classes=True)
        assert found == look_for_order(X, y, has_classes=True)
        assert found.kind is OrderKind.NOT_FOUND


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("drift", [0.0, 2.0])
def test_rows_sorted_by_class_have_no_order_even_if_those_of_a_class_have_one(n_classes, drift):
    X, y = exchangeable(22, n_classes=n_classes)
    X[:, 2] += np.linspace(0.0, drift, N_ROWS)
    rows = np.argsort(-y, kind="stable")
    assert kind_of(X[rows], y[rows]) is OrderKind.SORTED_BY_LABEL
    if drift:
        assert kind_of(X, y) is OrderKind.FOUND
        assert kind_of(X, np.zeros(N_ROWS)) is OrderKind.FOUND  # a single class is not sorted


def test_rows_sorted_by_their_number_have_no_order():
    X, _ = exchangeable(123)
    y = X[:, 0] + X[:, 2]
    assert kind_of(X, y, has_classes=False) is OrderKind.NOT_FOUND
    rows = np.argsort(y)
    assert kind_of(X[rows], y[rows], has_classes=False) is OrderKind.SORTED_BY_LABEL


def test_few_rows_missing_values_constants_and_no_columns_are_judged():
    X, y = exchangeable(24)
    assert kind_of(X[:99], y[:99]) is OrderKind.FEW_ROWS
    X[::3, 0], X[:, 3], X[:, 4] = np.nan, np.nan, 7.0
    assert kind_of(X, y) is OrderKind.NOT_FOUND
    assert kind_of(X[:, :0], y) is OrderKind.NOT_FOUND
    X[200:, 0] = np.abs(X[200:, 0]) + 1.0
    assert kind_of(X, y) is OrderKind.FOUND


def test_many_columns_and_many_rows_are_judged_quickly_enough():
    X, y = exchangeable(25, n_rows=6_000, n_columns=300)
    assert kind_of(X, y) is OrderKind.NOT_FOUND
    X += np.linspace(0.0, 1.0, 6_000)[:, None]
    assert kind_of(X, y) is OrderKind.FOUND


def test_columns_of_texts_count_by_their_frequent_values():
    words = np.where(np.arange(N_ROWS) < 200, "early", "late")
    numbers = np.arange(N_ROWS, dtype=float)
    for frame in (pd.DataFrame({"w": words, "n": numbers}), pl.DataFrame({"w": words, "n": numbers})):
        found = numbers_of(frame)
        assert found.shape == (N_ROWS, 3)
        assert len(np.unique(found[:200], axis=0)) == 200
        assert kind_of(found, np.arange(N_ROWS) % 2) is OrderKind.FOUND


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "is_one"),
    [
        (["2024-05-31 17:00", "2024-05-31 18:00"], True),
        (["2024-05-31 17:00", "2024-06-01 18:00"], False),
        (np.array(["2024-05-31T17", "2024-05-31T18"], dtype="datetime64[h]"), True),
        (pd.to_datetime(["2024-05-31 17:00", "2024-05-31 18:00"]), True),
        (pd.Series(pd.to_datetime(["2024-05-31 23:00", "2024-06-01 01:00"], utc=True)), False),
        ([date(2024, 5, 31), date(2024, 6, 1)], False),
    ],
)
def test_times_of_one_day(times, is_one):
    assert is_one_day(times) is is_one
    found, rows = find_order(times, np.zeros((2, 1)), np.zeros(2), has_classes=True)
    assert found.kind is (OrderKind.ONE_DAY if is_one else OrderKind.TIMES)
    assert (rows is None) is is_one


@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_dates_is_the_order_of_a_frame(frames):
    X, y = exchangeable(31)
    days = np.datetime64("2024-01-01") + np.random.default_rng(31).permutation(N_ROWS)
    days = days.astype("datetime64[us]")
    found, rows = find_order("auto", frames({"a": X[:, 0], "day": days}), y, has_classes=True)
    assert (found, rows.tolist()) == (Order(OrderKind.COLUMN, column="day"), np.argsort(days).tolist())
    two = frames({"a": X[:, 0], "day": days, "hour": np.sort(days)})
    assert find_order("auto", two, y, has_classes=True)[0].column == "hour"
    one_day = frames({"a": X[:, 0], "day": np.full(N_ROWS, days[0])})
    assert find_order("auto", one_day, y, has_classes=True)[0].kind is OrderKind.NOT_FOUND


@pytest.mark.parametrize("order", [None, "day", "AUTO"])
def test_what_is_no_order_is_refused(order):
    with pytest.raises((ParameterError, DataError), match="order"):
        AdaptiveClassifier().fit(*exchangeable(32), order=order)


# --- models -----------------------------------------------------------------------------------------------------------


def test_a_model_backtests_what_is_in_order_and_nothing_else(tmp_path):
    X, y = exchangeable(41)
    model = AdaptiveClassifier().fit(X, y)
    assert (model.order_.kind, model.backtest_, model.verification_.order) == (OrderKind.NOT_FOUND, None, None)
    assert AdaptiveClassifier().fit(X, y, order=False).order_ == Order(OrderKind.UNORDERED)
    assert AdaptiveClassifier().fit(X, y, order=True).backtest_ is not None
    equal = AdaptiveClassifier().fit(X, y, order=np.zeros(N_ROWS))
    assert (equal.order_.kind, equal.backtest_) == (OrderKind.ONE_DAY, None)
    drifting(X, y, np.arange(N_ROWS) / N_ROWS)
    model = AdaptiveClassifier().fit(X, y)
    assert (model.order_.kind, model.order_.p_value <= ALPHA) == (OrderKind.FOUND, True)
    assert model.backtest_ == AdaptiveClassifier().fit(X, y, order=True).backtest_
    accous.save(model, tmp_path / "model")
    assert accous.load(tmp_path / "model").order_ == model.order_
    assert AdaptiveRegressor().fit(X, X[:, 0] + X[:, 3]).order_.kind is OrderKind.FOUND


def test_where_an_order_was_nearly_found_the_adapted_model_has_to_be_clearly_better():
    guards = {}
    for seed in range(60):
        X, y = exchangeable([43, seed], n_rows=150)
        found = look_for_order(X, y, has_classes=True)
        assert found.may_matter is (found.p_value <= 0.05)
        if found.kind is OrderKind.NOT_FOUND and found.may_matter not in guards:
            guards[found.may_matter] = AdaptiveClassifier().fit(X, y).rules_.guard
            assert AdaptiveClassifier().fit(X, y, order=False).rules_.guard is LENIENT
    assert guards == {True: UNREPLAYED, False: LENIENT}
    few = X[:99], y[:99]  # too few to replay
    assert AdaptiveClassifier().fit(*few, order=True).rules_.guard is UNREPLAYED
    assert AdaptiveClassifier().fit(*few).rules_.guard is LENIENT


def test_a_model_of_frames_takes_their_dates():
    X, y = exchangeable(42)
    frame = pd.DataFrame(X).rename(columns=str)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N_ROWS), unit="D")
    columns = make_column_transformer(("passthrough", [str(column) for column in range(6)]))
    model = AdaptiveClassifier(make_pipeline(columns, LogisticRegression()), accous.NoShift()).fit(frame, y)
    assert model.order_ == Order(OrderKind.COLUMN, column="day")
