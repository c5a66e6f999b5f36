"""The filter against loops that spell out Bayes' rule, and the contender that is weighted by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from accous.arrays import FloatArray
from accous.exceptions import DataError
from accous.streams import GaussianStream, SquareShift
from accous_bench.contenders import get_contender
from accous_bench.limit import DIFFUSIONS, JUMPS, SHARE, AlphaFilter, Limit
from accous_bench.protocols import fit_on, rounds
from accous_bench.run import play
from accous_bench.spec import read_spec

GRID = [i / 100 for i in range(101)]


def kernel_by_hand(diffusion: float, jump: float) -> list[list[float]]:
    generator = np.zeros((101, 101))
    for i in range(101):
        for neighbour in (i - 1, i + 1):
            if 0 <= neighbour <= 100:
                generator[i, neighbour] += 1.0
                generator[i, i] -= 1.0
    diffused = expm(diffusion**2 / (2 * 0.01**2) * generator)
    return [[(1 - jump) * float(diffused[i, j]) + jump / 101 for j in range(101)] for i in range(101)]


def means_by_hand(rounds: list[list[tuple[float, float]]]) -> list[float]:
    """The mean alpha before each round and after the last, with one loop for every sum."""
    kernels = [kernel_by_hand(diffusion, jump) for diffusion in DIFFUSIONS for jump in JUMPS]
    beliefs = [[1 / 101] * 101 for _ in kernels]
    weights = [1 / len(kernels)] * len(kernels)

    def mean() -> float:
        return sum(
            w * sum(p * a for p, a in zip(belief, GRID, strict=True))
            for w, belief in zip(weights, beliefs, strict=True)
        )

    means = [mean()]
    for rows in rounds:
        likelihood = [math.prod((1 - a) * first + a * second for first, second in rows) for a in GRID]
        for k, kernel in enumerate(kernels):
            joint = [p * chance for p, chance in zip(beliefs[k], likelihood, strict=True)]
            evidence = sum(joint)
            weights[k] *= evidence
            beliefs[k] = [sum(joint[i] / evidence * kernel[i][j] for i in range(101)) for j in range(101)]
        total = sum(weights)
        weights = [(1 - SHARE) * w / total + SHARE / len(kernels) for w in weights]
        means.append(mean())
    return means


densities = st.tuples(st.floats(0.01, 10.0), st.floats(0.01, 10.0))


def follow(alphas: FloatArray, seed: int = 0) -> AlphaFilter:
    """Show the filter a row of one of two unit Gaussians at -1.5 and +1.5 for every alpha."""
    generator = np.random.default_rng(seed)
    is_second = generator.random(len(alphas)) < alphas
    rows = np.where(is_second, 1.5, -1.5) + generator.standard_normal(len(alphas))
    tracker = AlphaFilter()
    for row in rows:
        tracker.learn(np.exp(-0.5 * (row + 1.5) ** 2)[None], np.exp(-0.5 * (row - 1.5) ** 2)[None])
    return tracker


def test_the_filter_agrees_with_loops() -> None:
    generator = np.random.default_rng(0)
    rounds = [
        [(float(first), float(second)) for first, second in generator.exponential(size=(n, 2))] for n in (1, 3, 1, 2, 5)
    ]
    tracker, means = AlphaFilter(), []
    for rows in rounds:
        means.append(tracker.mean)
        tracker.learn(*np.array(rows).T)
    assert [*means, tracker.mean] == pytest.approx(means_by_hand(rounds), rel=1e-10)


@given(st.lists(densities, min_size=1, max_size=4), st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4))
def test_a_factor_of_both_densities_does_not_matter(rows: list[tuple[float, float]], factors: list[float]) -> None:
    plain, scaled = AlphaFilter(), AlphaFilter()
    values = np.array(rows)
    plain.learn(*values.T)
    scaled.learn(*(values * np.array(factors)[: len(rows), None]).T)
    assert scaled.mean == pytest.approx(plain.mean, rel=1e-9)
    np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-9)


@given(st.lists(densities, min_size=1, max_size=6))
def test_beliefs_and_weights_stay_distributions_and_swapped_parts_mirror_them(rows: list[tuple[float, float]]) -> None:
    tracker, mirrored = AlphaFilter(), AlphaFilter()
    for first, second in rows:
        tracker.learn(np.array([first]), np.array([second]))
        mirrored.learn(np.array([second]), np.array([first]))
    np.testing.assert_allclose(tracker.probabilities.sum(axis=2), 1.0, rtol=1e-12)
    assert tracker.weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert mirrored.mean == pytest.approx(1.0 - tracker.mean, abs=1e-9)


def test_many_rows_that_no_jumpless_kernel_expected_leave_everything_finite() -> None:
    tracker = AlphaFilter()
    # So many rows leave one value of alpha only, and the product of their densities is below the smallest number.
    certain, excluded = np.full(80_000, 1e-3), np.full(80_000, 0.0)
    tracker.learn(excluded, certain)
    assert tracker.mean > 0.9
    assert tracker.probabilities.min() > 0.0  # otherwise, no later rows could change the mind of a jumpless kernel
    tracker.learn(certain, excluded)
    assert np.isfinite(tracker.probabilities).all()
    assert np.isfinite(tracker.weights).all()
    assert tracker.mean < 0.1


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_a_constant_alpha_is_found(alpha: float) -> None:
    early, late = (follow(np.full(n_rounds, alpha)) for n_rounds in (20, 3000))
    assert late.mean == pytest.approx(alpha, abs=0.04)
    assert abs(late.mean - alpha) < abs(early.mean - alpha)


def random_walk(n_rounds: int, diffusion: float) -> FloatArray:
    steps = np.random.default_rng(1).normal(scale=diffusion, size=n_rounds).cumsum()
    return np.abs((0.5 + steps + 1.0) % 2.0 - 1.0)  # reflected at 0 and 1


@pytest.mark.parametrize(
    ("alphas", "is_right"),
    [
        (np.full(3000, 0.5), np.outer(np.array(DIFFUSIONS) <= 0.006, np.array(JUMPS) <= 0.001)),
        (np.arange(3000) // 100 % 2 * 1.0, np.outer(np.array(DIFFUSIONS) <= 0.02, np.array(JUMPS) >= 0.01)),
        (random_walk(3000, 0.02), np.outer(np.array(DIFFUSIONS) == 0.02, np.array(JUMPS) >= 0.0)),
    ],
    ids=["constant", "switching every 100 rounds", "diffusing by 0.02"],
)
def test_the_evidence_picks_the_kernel_that_moves_like_alpha(alphas: FloatArray, is_right: FloatArray) -> None:
    weights = follow(alphas).weights
    assert weights[is_right.astype(bool)].sum() > 0.6
    assert weights.min() >= SHARE / weights.size


def small_stream(**changes: object) -> GaussianStream:
    keywords = {"n_features": 3, "n_reference": 200, "n_rounds": 30, "batch_size": 2} | changes
    return GaussianStream(SquareShift(period=10), **keywords)  # type: ignore[arg-type]


def test_the_model_of_a_round_knows_the_rows_before_it_only() -> None:
    stream, contender = small_stream(), get_contender("limit")
    model = contender(0)
    fit_on(stream, contender, model)
    tracker, X = AlphaFilter(), stream.reference()[0]
    for batch in rounds(contender, model, stream):
        ratio = stream.true_ratio(X, tracker.mean)
        np.testing.assert_allclose(model.weights_, ratio / ratio.mean(), rtol=1e-9)
        tracker.learn(stream.true_ratio(batch.X, 0.0), stream.true_ratio(batch.X, 1.0))


def test_the_ratio_at_the_mean_alpha_is_the_mean_ratio() -> None:
    stream = small_stream()
    tracker = AlphaFilter()
    tracker.learn(np.array([0.2, 1.0]), np.array([2.0, 0.5]))
    chances = np.einsum("dj,dja->a", tracker.weights, tracker.probabilities)
    mean_ratio = sum(p * stream.reference_ratio(a) for p, a in zip(chances.tolist(), GRID, strict=True))
    np.testing.assert_allclose(stream.reference_ratio(tracker.mean), mean_ratio, rtol=1e-9)


def test_the_limit_runs_in_a_spec_between_fix_and_the_oracle(write_spec: Callable[..., Path]) -> None:
    path = write_spec(
        ('["FIX", "uLSIF", "Accous", "oracle"]', '["FIX", "limit", "oracle"]'),
        ('["Lin", "Squ"]', '["Squ"]'),
        ("seeds = 2", "seeds = 1"),
        ("rounds = [24]", "rounds = [400]"),
        ("n_reference = 60", "n_reference = 2000"),
        ("n_features = 3", "n_features = 12"),
    )
    rows = {row["contender"]: row for row in map(play, read_spec(path).runs())}
    assert {row["status"] for row in rows.values()} == {"done"}
    assert rows["oracle"]["risk"] < rows["limit"]["risk"] < rows["FIX"]["risk"] - 0.02
    assert rows["limit"]["settings"]["contender"] == {"": "Limit(C=1.0)"}


@pytest.mark.parametrize(
    ("dataset", "shift"),
    [("moving_gaussian", "fixed path"), pytest.param("breast_cancer", "Squ", marks=pytest.mark.slow)],
)
def test_the_limit_says_why_it_cannot_run_elsewhere(write_spec: Callable[..., Path], dataset: str, shift: str) -> None:
    path = write_spec(
        ('datasets = ["gaussian"]', f'datasets = ["{dataset}"]'),
        ('["Lin", "Squ"]', f'["{shift}"]'),
        ('["FIX", "uLSIF", "Accous", "oracle"]', '["limit"]'),
        ("[options.gaussian]\nn_reference = 60\nn_features = 3", ""),
    )
    row = play(read_spec(path).runs()[0])
    assert row["status"] == "failed"
    assert "Only the Gaussian problems (gaussian, gaussian_published) have them: leave the limit out." in row["reason"]


@pytest.mark.parametrize("alpha_0", [0.0, 1.0])
def test_a_reference_of_one_part_is_refused(alpha_0: float) -> None:
    with pytest.raises(DataError, match="densities of the two parts"):
        Limit().know_parts(small_stream(alpha_0=alpha_0))


def test_the_parts_come_before_the_fit() -> None:
    with pytest.raises(DataError, match=r"call know_parts\(stream\) before fit"):
        Limit().fit(*small_stream().reference())
