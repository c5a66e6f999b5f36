"""Estimators, rows and true ratios that the tests of the one-step estimators share."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accous import KLIEP, KMM, RULSIF, ULSIF, LogisticRatio

Array = NDArray[np.float64]

ONE_STEP = {cls.__name__: cls for cls in (ULSIF, RULSIF, KLIEP, KMM, LogisticRatio)}
KERNEL_SUMS = ["ULSIF", "RULSIF", "KLIEP"]

each_estimator = pytest.mark.parametrize("name", list(ONE_STEP))
each_map = pytest.mark.parametrize("feature_map", ["standardize", "identity", "rbf"])
each_kernel_sum = pytest.mark.parametrize("name", KERNEL_SUMS)


def make(name, **settings: Any):
    """The estimator of that name, solved as far as floats go where it is solved by iteration."""
    exact = {"KLIEP": {"tol": 1e-11}, "KMM": {"tol": 1e-11}, "LogisticRatio": {"max_steps": 200}}
    return ONE_STEP[name](**({"random_state": 0} | exact.get(name, {}) | settings))


def normal_rows(n_rows, n_columns=2, seed=0, loc=0.0):
    return np.random.default_rng(seed).normal(loc, size=(n_rows, n_columns))


def weights_of(name, reference, batch, **settings: Any):
    return np.asarray(make(name, **settings).fit(reference).partial_fit(batch).reference_ratio_)


def gaussian_ratio(rows, loc):
    """N(loc, 1) over N(0, 1)."""
    return np.asarray(np.exp(rows @ loc - 0.5 * loc @ loc))


def relative_ratio(ratio, alpha):
    """Ratio to the mixture that holds a share alpha of the batch."""
    return np.asarray(ratio / (alpha * ratio + 1.0 - alpha))
