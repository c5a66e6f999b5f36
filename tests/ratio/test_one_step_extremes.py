"""What holds for all one-step estimators where rows are few, many, far or alike; and how much memory many rows take."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from accous.diagnostics.losses import effective_sample_size
from tests.budgets import rest_slow
from tests.ratio.one_step_cases import (
    ONE_STEP,
    each_estimator,
    each_map,
    gaussian_ratio,
    make,
    normal_rows,
    weights_of,
)

# --- few rows, many rows, far rows ----------------------------------------------------------------------------

# Shares of the reference that a single row leaves. Measured: 0.125, 0.81 and 1.00 for sums of kernels, 0.92, 0.99 and
# 1.00 for KMM, 0.85, 0.77 and 0.88 for the regression.
SMALLEST_SHARES = {
    "ULSIF": {1: 0.09, 12: 0.6, 500: 0.9},
    "RULSIF": {1: 0.09, 12: 0.6, 500: 0.9},
    "KLIEP": {1: 0.09, 12: 0.6, 500: 0.9},
    "KMM": {1: 0.7, 12: 0.9, 500: 0.95},
    "LogisticRatio": {1: 0.6, 12: 0.55, 500: 0.65},
}


@pytest.mark.parametrize("n_columns", [1, 12, 500])
@each_estimator
def test_one_row_leaves_a_healthy_effective_sample_size(name: str, n_columns: int) -> None:
    estimator = make(name).fit(normal_rows(300, n_columns))
    rows = [np.full(n_columns, 2.0 / math.sqrt(n_columns)), np.zeros(n_columns), *normal_rows(6, n_columns, seed=3)]
    for row in rows:
        weights = estimator.partial_fit(row[None]).reference_ratio_
        assert np.all(np.isfinite(weights))
        assert effective_sample_size(weights) >= 300 * SMALLEST_SHARES[name][n_columns]


@pytest.mark.parametrize("n_columns", rest_slow([3, 1, 40]))
@pytest.mark.parametrize("distance", rest_slow([1e3, 1e50, 1e6, 1e10], n_fast=2))
@each_map
@each_estimator
def test_batches_at_any_distance_give_finite_weights(
    name: str, feature_map: str, distance: float, n_columns: int
) -> None:
    reference = normal_rows(50, n_columns)
    estimator = make(name, feature_map=feature_map).fit(reference)
    away = np.zeros((3, n_columns))
    away[:, 0] = distance, -distance, 0.5 * distance
    for batch in (away[:1], away, np.vstack((reference[:4], away)), np.full((2, n_columns), distance)):
        estimator.partial_fit(batch)
        for ratio in (estimator.reference_ratio_, estimator.predict_ratio(np.vstack((reference, batch)))):
            assert np.all(np.isfinite(ratio))
            assert np.all((ratio >= 0.0) & (ratio <= estimator.max_ratio))
    back = estimator.partial_fit(reference).reference_ratio_
    np.testing.assert_allclose(back, weights_of(name, reference, reference, feature_map=feature_map), atol=1e-5)


@pytest.mark.parametrize("distance", [1e4, 1e10])
@each_estimator
def test_an_outlier_in_the_reference_does_no_harm(name: str, distance: float) -> None:
    # Its distance to itself is known to distance^2 / 10^16 only, far more than a kernel is wide.
    reference = np.vstack((normal_rows(60), [[distance, -distance], [3.0 * distance, 0.0]]))
    estimator = make(name, feature_map="identity").fit(reference)
    for batch in (normal_rows(20, seed=1, loc=0.5), reference[-2:], np.vstack((normal_rows(5), reference[-1:]))):
        estimator.partial_fit(batch)
        for ratio in (estimator.reference_ratio_, estimator.predict_ratio(np.vstack((reference, batch)))):
            assert np.all((ratio >= 0.0) & (ratio <= estimator.max_ratio))


@each_estimator
def test_a_distant_batch_favours_the_rows_on_its_side(name: str) -> None:
    reference = normal_rows(200)
    weights = weights_of(name, reference, normal_rows(5, seed=1, loc=[3.0, 0.0]))
    assert weights @ reference[:, 0] / weights.sum() > reference[:, 0].mean() + 0.1


@each_estimator
def test_a_batch_larger_than_the_reference(name: str) -> None:
    reference = normal_rows(12)
    estimator = make(name).fit(reference).partial_fit(normal_rows(700, seed=1, loc=[0.7, 0.0]))
    weights = estimator.reference_ratio_
    assert weights.shape == (12,)
    assert np.all(np.isfinite(weights))
    assert effective_sample_size(weights) > 2.0
    assert np.corrcoef(weights, gaussian_ratio(reference, np.array([0.7, 0.0])))[0, 1] > 0.5


@pytest.mark.parametrize("n_copies", [2, 40])
@each_estimator
def test_rows_that_occur_many_times(name: str, n_copies: int) -> None:
    reference, batch = normal_rows(40), normal_rows(6, seed=1, loc=0.5)
    weights = weights_of(name, np.repeat(reference, n_copies, axis=0), np.repeat(batch, n_copies, axis=0))
    assert np.all(np.isfinite(weights))
    by_row = weights.reshape(40, n_copies)
    np.testing.assert_allclose(by_row, by_row[:, :1].repeat(n_copies, axis=1), rtol=0.0, atol=1e-6)
    once = weights_of(name, reference, batch)
    assert np.corrcoef(by_row[:, 0], once)[0, 1] > 0.7


@each_estimator
def test_a_reference_most_of_whose_rows_are_alike(name: str) -> None:
    # Distances between copies are 0 but for rounding; a kernel as narrow as rounding would see copies as strangers.
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(3, 10))
        reference = values[rng.choice(3, p=[0.85, 0.1, 0.05], size=100)]
        estimator = make(name).fit(reference).partial_fit(values[1:2])
        assert estimator.predict_ratio(values[1:2] + 1e-4)[0] == pytest.approx(
            estimator.predict_ratio(values[1:2])[0], rel=1e-2
        )


@each_estimator
def test_two_rows_that_are_equal_are_reference_enough(name: str) -> None:
    for batch in (np.ones((1, 3)), np.zeros((4, 3)), normal_rows(5, 3)):
        weights = weights_of(name, np.ones((2, 3)), batch)
        assert np.all(np.isfinite(weights))
        assert weights[0] == pytest.approx(weights[1], rel=1e-9)


# --- memory ---------------------------------------------------------------------------------------------------

MANY_ROWS = """
import resource, sys
import numpy as np
import accous

if sys.platform == "linux":
    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
rng = np.random.default_rng(0)
reference, batch = rng.normal(size=(100_000, 10)), rng.normal(0.3, size=({n_batch}, 10))
for name in {names}:
    estimator = getattr(accous, name)(random_state=0).fit(reference).partial_fit(batch)
    assert np.isfinite(estimator.reference_ratio_).all()
    assert estimator.reference_ratio_[reference.sum(axis=1) > 3].mean() > 1.2
    assert estimator.predict_ratio(reference[:500]).shape == (500,)
    del estimator
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(names: list[str], n_batch: int) -> float:
    """GiB that a fresh process needs for 100,000 reference rows; 100,000 times 100,000 numbers would be 75."""
    pytest.importorskip("resource", reason="needs the module resource: run the tests on Linux or macOS")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    script = MANY_ROWS.format(names=names, n_batch=n_batch)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unit = 1 if sys.platform == "darwin" else 1024
    return int(done.stdout) * unit / 2**30


@pytest.mark.slow
def test_a_hundred_thousand_rows_need_no_square_matrix() -> None:
    assert peak_memory(list(ONE_STEP), n_batch=20) < 1.0


@pytest.mark.slow
@each_estimator
def test_a_hundred_thousand_rows_and_a_large_batch_need_no_matrix_of_both(name: str) -> None:
    assert peak_memory([name], n_batch=3000) < 1.0
