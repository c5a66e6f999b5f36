"""Rounds with wide features, as a multiple of their bare arithmetic.

It compares a whole ``adapt`` with a refit in every round to the products and exponentials that no version can do
without. The two are timed in turns in one process, on one core, so that their quotient also holds on a busy machine:
``OPENBLAS_NUM_THREADS=1 python -m benchmarks.wide``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.threads import one_blas_thread

FloatArray = NDArray[np.float64]

N_REFERENCE, N_FEATURES, N_CLASSES, BATCH_SIZE = 5000, 512, 10, 5
# With intervals from length 1, twelve learners are active from round 2048; the oldest are 952 rounds old here.
MIN_INTERVAL, WARM_UP_ROUNDS = 1, 3000
# Every learner is projected in every round; new learners are at zero, the others on the surface.
SMALL_RADIUS = 0.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="timed rounds of each kind (default 60)")
    parser.add_argument(
        "--warm-up", type=int, default=WARM_UP_ROUNDS, help=f"untimed rounds (default {WARM_UP_ROUNDS})"
    )
    parser.add_argument("--classes", type=int, default=N_CLASSES, help=f"number of classes (default {N_CLASSES})")
    arguments = parser.parse_args()
    table = Table(title=f"adapt, {N_REFERENCE} x {N_FEATURES}, {arguments.classes} classes, batches of {BATCH_SIZE}")
    for heading in ("radius", "learners", "on surface", "bare, ms", "round, ms", "times bare", "median"):
        table.add_column(heading, justify="right")
    for name, radius in (("default", None), (str(SMALL_RADIUS), SMALL_RADIUS)):
        table.add_row(name, *measure(radius, arguments.warm_up, arguments.rounds, arguments.classes))
    console = Console()
    console.print(table)
    error, double, single = compare_precisions()
    console.print(
        f"float32 for the ratio alone, 300 rounds: log ratios differ by {error:.1e} at most; "
        f"{1e3 * single:.1f} ms a round instead of {1e3 * double:.1f}."
    )


def compare_precisions(n_rounds: int = 300) -> tuple[float, float, float]:
    """Return the largest difference of log ratios over a stream, and the best time of a round in both precisions."""
    rng = np.random.default_rng(0)
    X, _, directions = make_reference(rng, N_CLASSES)
    double, single = (OnlineDensityRatio(dtype=dtype).fit(X) for dtype in ("float64", "float32"))
    error, best = 0.0, [np.inf, np.inf]
    for number in range(n_rounds):
        batch = make_batch(rng, number, directions)
        logs = []
        for i, ratio in enumerate((double, single)):
            seconds = timed(partial(play_and_read, ratio, batch))
            best[i] = min(best[i], seconds) if number > n_rounds // 2 else np.inf
            logs.append(np.log(ratio.reference_ratio_))
        error = max(error, float(np.abs(logs[0] - logs[1]).max()))
    return error, best[0], best[1]


def play_and_read(ratio: OnlineDensityRatio, batch: FloatArray) -> FloatArray:
    """Play one round, and return the ratios after it."""
    return ratio.partial_fit(batch).reference_ratio_


def measure(radius: float | None, n_warm_up: int, n_rounds: int, n_classes: int) -> list[str]:
    """Return the best times of a round and of the bare arithmetic, and the quotients of best and of median times."""
    rng = np.random.default_rng(0)
    X, y, directions = make_reference(rng, n_classes)
    ratio = OnlineDensityRatio(radius=radius, min_interval=MIN_INTERVAL)
    model = AdaptiveClassifier(ratio=ratio, refit=10**9, fallback="none", standardize=False).fit(X, y)
    for number in range(n_warm_up):
        model.adapt(make_batch(rng, number, directions))
    model.set_params(refit="always")
    bare = make_bare(model)
    times, bare_times, n_on_surface = [], [], []
    for number in range(n_warm_up, n_warm_up + n_rounds):
        batch = make_batch(rng, number, directions)
        times.append(timed(partial(model.adapt, batch)))
        bare_times.append(timed(bare))
        norms = np.linalg.norm(model.ratio_.learner_coefs_, axis=1)
        n_on_surface.append(np.count_nonzero(norms >= model.ratio_.radius_ * (1.0 - 1e-9)))
    n_learners = len(model.ratio_.learner_lengths_)
    best, best_bare = min(times), min(bare_times)
    return [
        str(n_learners),
        f"{np.mean(n_on_surface):.1f}",
        f"{1e3 * best_bare:.1f}",
        f"{1e3 * best:.1f}",
        f"{best / best_bare:.2f}",
        f"{np.median(times) / np.median(bare_times):.2f}",
    ]


def make_reference(rng: np.random.Generator, n_classes: int) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
    """Return overlapping classes, and the directions in which the stream moves."""
    y = rng.integers(0, n_classes, N_REFERENCE)
    centres = rng.normal(scale=0.12, size=(n_classes, N_FEATURES))
    return centres[y] + rng.normal(size=(N_REFERENCE, N_FEATURES)), y, rng.normal(scale=0.1, size=(2, N_FEATURES))


def make_batch(rng: np.random.Generator, number: int, directions: FloatArray) -> FloatArray:
    """Return rows whose mean moves in a circle."""
    mean = np.cos(number / 60.0) * directions[0] + np.sin(number / 60.0) * directions[1]
    return np.asarray(mean + rng.normal(size=(BATCH_SIZE, N_FEATURES)))


def make_bare(model: AdaptiveClassifier) -> Callable[[], object]:
    """The arithmetic of a round on arrays of the same shapes, with each product in the order fastest for BLAS."""
    ratio = model.ratio_
    features, coef = ratio.reference_features_, ratio.coef_
    points = np.concatenate((ratio.learner_coefs_, coef[None]))
    design = features.copy()
    n_scores = 1 if len(model.classes_) == 2 else len(model.classes_)
    coefs = np.random.default_rng(1).normal(scale=0.1, size=(n_scores, design.shape[1]))
    targets = (model.labels_ == np.arange(n_scores)[:, None]).astype(np.float64)

    def run() -> object:
        with one_blas_thread():
            slopes = 1.0 / (1.0 + np.exp(points @ features.T))
            gradients = slopes @ features
            ratios = np.exp(-(features @ coef))
            scores = coefs @ design.T
            powers = np.exp(scores - scores.max(axis=0))
            residuals = powers / powers.sum(axis=0) - targets
            return gradients, (ratios * residuals) @ design

    return run


def timed(action: Callable[[], object]) -> float:
    """Return the CPU seconds of an action; other processes do not count."""
    start = time.process_time()
    action()
    return time.process_time() - start


if __name__ == "__main__":
    main()
