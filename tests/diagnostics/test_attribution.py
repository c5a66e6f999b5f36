"""Which columns moved: sums, signs and kinds of columns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous.diagnostics.drift import ReferenceColumns, linear_parts, shares


def test_parts_sum_to_the_variance_of_the_score() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 4)) @ np.diag([1.0, 2.0, 3.0, 0.5])
    coef = np.array([1.0, 0.5, 0.0, -2.0])
    covariances = np.array([np.cov(column, features @ coef)[0, 1] for column in features.T])
    parts = linear_parts(coef, covariances)
    assert parts.sum() == pytest.approx(np.var(features @ coef), rel=0.05)
    assert parts[2] == 0.0
    np.testing.assert_allclose(parts[[0, 1, 3]], [1.0, 1.0, 1.0], rtol=0.25)


def test_shares_sum_to_one_or_are_zero() -> None:
    assert shares(np.array([1.0, 3.0])).tolist() == [0.25, 0.75]
    assert shares(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_columns_of_frames_whatever_they_hold() -> None:
    rng = np.random.default_rng(1)
    city = rng.choice(["Oslo", "Lima"], size=200)
    columns = {
        "size": np.where(np.arange(200) == 5, np.nan, rng.normal(size=200)),
        "city": city,
        "when": np.datetime64("2024-01-01") + rng.integers(0, 100, size=200).astype("timedelta64[D]"),
        "constant": np.ones(200),
        "missing": np.full(200, np.nan),
    }
    log_ratio = np.where(city == "Oslo", 1.0, -1.0)
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        parts = ReferenceColumns(frame).parts(log_ratio)
        assert parts[1] == pytest.approx(np.var(log_ratio))
        assert parts[[0, 2, 3, 4]].max() < 0.05


def test_numbers_by_themselves_explain_squared_correlations() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(5.0, 3.0, size=(400, 2))
    log_ratio = 2.0 * X[:, 0] + rng.normal(size=400)
    parts = ReferenceColumns(X).parts(log_ratio)
    expected = [np.corrcoef(X[:, j], log_ratio)[0, 1] ** 2 * np.var(log_ratio) for j in range(2)]
    np.testing.assert_allclose(parts, expected, rtol=1e-9)
