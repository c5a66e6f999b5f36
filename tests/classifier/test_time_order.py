"""The order in time that a user gives: text that does not sort as its times do is refused."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous import AdaptiveClassifier, backtest
from accous.exceptions import DataError
from accous.model.backtest import read_order

SHUFFLED = np.random.default_rng(0).permutation(40)
DAYS = pd.date_range("2023-11-28 10:00", periods=40, freq="37D")[SHUFFLED]
ISO = [
    "%Y-%m",
    "%Y-%m-%d",
    "%Y-%m-%d %H",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%d %H:%MZ",
]
OTHER = ["%m/%d/%Y", "%d.%m.%Y", "%Y-%d-%m", "%d-%m-%Y", "%Y/%m/%d", "%B %d, %Y", "%H:%M %Y-%m-%d"]
KINDS = {
    "list": list,
    "array": np.array,
    "objects": lambda texts: np.array(texts, dtype=object),
    "bytes": lambda texts: np.array([text.encode() for text in texts]),
    "Series": pd.Series,
    "string": lambda texts: pd.Series(texts, dtype="string"),
    "category": lambda texts: pd.Series(texts, dtype="category"),
    "polars": pl.Series,
    "polars Categorical": lambda texts: pl.Series(texts, dtype=pl.Categorical),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def texts_of(form: str) -> list[str]:
    return DAYS.strftime(form).tolist()


def test_rows_of_the_same_time_keep_their_order() -> None:
    assert read_order([2, 1, 2, 1, 1], 5).tolist() == [1, 3, 4, 0, 2]


@each_kind
@pytest.mark.parametrize("form", ISO)
def test_iso_text_sorts_as_its_times_do(form: str, kind: Any) -> None:
    texts = texts_of(form)
    times = pd.to_datetime(texts, format=form)
    assert read_order(kind(texts), 40).tolist() == np.argsort(times, kind="stable").tolist()


@each_kind
@pytest.mark.parametrize("form", OTHER)
def test_other_dates_as_text_are_refused_in_a_line(form: str, kind: Any) -> None:
    texts = texts_of(form)
    with pytest.raises(DataError) as refused:
        read_order(kind(texts), 40)
    message = str(refused.value)
    assert "pandas.to_datetime(order, format=...)" in message
    # A day of the month up to 12 could be a month in some of these forms, so a later row may be the first that cannot.
    assert any(repr(text) in message for text in texts)
    assert "\n" not in message
    assert read_order(pd.to_datetime(texts, format=form), 40).tolist() == np.argsort(DAYS.normalize()).tolist()


@pytest.mark.parametrize(
    "texts", [["0", "1", "10"], ["1e3", "2", "1"], ["-1.5", "2", "0"], ["20240102", "20240101", "20231231"]]
)
def test_numbers_as_text_are_refused_with_the_first_of_them(texts: list[str]) -> None:
    with pytest.raises(DataError, match=rf"the text '{texts[0]}' in row 0, .*pandas\.to_numeric\(order\)"):
        read_order(texts, 3)
    assert (
        read_order(pd.to_numeric(pd.Series(texts)), 3).tolist() == np.argsort([float(each) for each in texts]).tolist()
    )


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-05-31", "2024-05-30 17:00"],
        ["2024-05-31 17:00", "2024-05-31T16:00"],
        ["2024-05-31T17:00+01:00", "2024-05-31T16:30-02:00"],
        ["2024-05-31T17:00Z", "2024-05-31T16:30"],
        ["2024-05-31", "2024-06"],
    ],
)
def test_iso_text_of_two_forms_is_refused_with_both(texts: list[str]) -> None:
    with pytest.raises(DataError) as refused:
        read_order(texts, 2)
    assert all(repr(text) in str(refused.value) for text in texts)
    assert 'format="ISO8601", utc=True' in str(refused.value)


def test_fractions_of_seconds_may_be_left_out_where_they_are_zero() -> None:
    for zone in ("", "Z", "+02:00"):
        texts = [f"2024-05-31T17:00:00{part}{zone}" for part in (".5", "", ".25", ".55")]
        assert read_order(texts, 4).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    "times",
    [
        np.array(list(DAYS), dtype=object),
        np.array([day.to_pydatetime() for day in DAYS], dtype=object),
        [day.date() for day in DAYS],
        DAYS.tz_localize("Europe/Berlin"),
        pd.Series(DAYS.to_period("D")),
        pl.Series(DAYS.to_list()),
        [datetime.timedelta(days=int(each)) for each in SHUFFLED],
    ],
    ids=["Timestamp", "datetime", "date", "zone", "Period", "polars", "timedelta"],
)
def test_objects_that_are_times_are_sorted_as_before(times: Any) -> None:
    assert read_order(times, 40).tolist() == np.argsort(SHUFFLED).tolist()


def test_fit_extend_and_backtest_refuse_text_that_does_not_sort_as_time() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = X[:, 0] > 0.0
    days = pd.date_range("2023-06-01", periods=150).strftime("%m/%d/%Y")
    model = AdaptiveClassifier().fit(X, y, order=True)
    for call in (
        lambda: AdaptiveClassifier().fit(X, y, order=days),
        lambda: backtest(AdaptiveClassifier(), X, y, order=days),
        lambda: model.extend(X, y, order=days),
    ):
        with pytest.raises(DataError, match="'06/01/2023' in row 0"):
            call()
