"""What the tests of inputs share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]
MakeInput = Callable[[Array], Any]

NAMES = ["age", "height", "weight"]

each_kind = pytest.mark.parametrize(
    "make_input",
    [
        lambda X: X,
        lambda X: pd.DataFrame(X, columns=NAMES),
        lambda X: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    ],
    ids=["array", "pandas", "polars"],
)


def normal_rows(n_rows: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n_rows, 3))


def assert_sane(estimator: Any, X: Any) -> None:
    """Everything learned is finite, theta lies in its ball, ratios lie in [0, max_ratio]."""
    assert np.all(np.isfinite(estimator.coef_))
    assert np.linalg.norm(estimator.coef_) <= estimator.radius_ * (1.0 + 1e-9)
    for ratio in (estimator.reference_ratio_, estimator.predict_ratio(X)):
        assert np.all(np.isfinite(ratio))
        assert np.all((ratio >= 0.0) & (ratio <= estimator.max_ratio))
    assert np.isfinite(estimator.score_loss(X))
