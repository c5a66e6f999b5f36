"""Rows and rounds for the tests of feature maps."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOSSES = ["logistic", "least_squares", "kl"]
MAPS = ["auto", "identity", "standardize", "rbf"]
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_map = pytest.mark.parametrize("feature_map", MAPS)


def skewed_rows(n_rows: int, seed: int = 0) -> Array:
    """Columns of different centre and spread."""
    return np.random.default_rng(seed).normal([0.0, 5.0, -300.0], [1.0, 0.01, 40.0], size=(n_rows, 3))


def play(estimator: Any, n_rounds: int = 10, scale: float = 1.0) -> Any:
    for seed in range(n_rounds):
        estimator.partial_fit(skewed_rows(4, seed=100 + seed) * scale)
    return estimator
