"""Traps in arrays: counters are told from measurements, and columns that determine the label from good ones."""

import numpy as np
import pytest

from accous.diagnostics.coverage import columns_of_label, follows_rows, rare_classes

ROWS = np.arange(300.0)
NOISE = np.random.default_rng(0).normal(size=300)


@pytest.mark.parametrize(
    "values",
    [
        ROWS,
        -ROWS,
        ROWS // 48 / 943,  # a normalised day with ties
        np.where(ROWS == 100, np.nan, ROWS),
        ROWS + 30 * (ROWS % 2),  # numbers handed out slightly out of order
        3 + ROWS // 100,
        np.searchsorted([20, 290], ROWS),  # parts of the first and the last month
        np.searchsorted([5, 110, 200, 290], ROWS) - 4.0,
        np.where(ROWS == 100, np.nan, 10 * (3 - ROWS // 100)),
    ],
    ids=[
        "rows",
        "falling",
        "normalised",
        "one missing",
        "out of order",
        "three months",
        "parts of months",
        "five months",
        "countdown",
    ],
)
def test_counters(values):
    assert follows_rows(values)


@pytest.mark.parametrize(
    "values",
    [
        ROWS + 5.0 * NOISE,  # rises throughout, with steps back
        ROWS % 24,
        np.round(20 + ROWS / 10 + NOISE),
        (ROWS > 150).astype(float),
        np.full(300, 3.0),
        np.random.default_rng(1).permutation(ROWS),
        np.where(ROWS < 100, np.nan, ROWS),
        ROWS[:20],
        (10 + ROWS // 60) % 12,
        np.where(ROWS < 298, 0.0, ROWS - 297),
        np.searchsorted([100, 200], ROWS) / 2,
        np.array([0.0, 1.0, 3.0])[(ROWS // 100).astype(int)],
        np.where(ROWS == 150, 0.0, ROWS // 100),
    ],
    ids=[
        "trend",
        "hour",
        "temperature",
        "one step",
        "constant",
        "shuffled",
        "mostly missing",
        "few rows",
        "month over the new year",
        "two rare values at the end",
        "no whole steps",
        "unequal steps",
        "a step back",
    ],
)
def test_measurements_are_no_counters(values):
    assert not follows_rows(values)


def test_a_rising_trend_really_passes_the_first_condition():
    trend = ROWS + 5.0 * NOISE
    assert np.corrcoef(np.argsort(np.argsort(trend)), ROWS)[0, 1] > 0.99


@pytest.mark.parametrize("n_classes", [2, 4])
def test_columns_that_determine_the_label_are_found_among_others(n_classes):
    random = np.random.default_rng(2)
    labels = random.integers(0, n_classes, 1000)
    codes = labels + n_classes * random.integers(0, 5, 1000)  # several values per class, mixed along the column
    close = labels + 0.8 * random.normal(size=1000)
    leak = np.exp(3.0 * (labels + random.random(1000)))
    X = np.column_stack((random.normal(size=1000), codes, close, leak))
    found = dict(columns_of_label(X, labels))
    assert found.keys() == {1, 3}
    assert min(found.values()) > 0.99


def test_a_good_column_does_not_determine_the_label():
    random = np.random.default_rng(3)
    x = random.normal(size=2000)
    assert columns_of_label(x[:, None], (x + 0.05 * random.normal(size=2000) > 0).astype(int)) == []


def test_nothing_determines_a_label_that_is_nearly_always_the_same():
    labels = (np.arange(400) % 25 == 0).astype(int)
    assert columns_of_label(labels[:, None].astype(float), labels) == []


def test_rare_classes_have_one_to_nine_rows():
    assert rare_classes(np.repeat([0, 2, 3, 4], [9, 10, 1, 50])).tolist() == [0, 3]
