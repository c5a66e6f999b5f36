"""The adaptive regressor where the truth is known: gap to the true ratio, coverage of intervals.

``python -m benchmarks.regression`` plays `GaussianRegressionStream` with the four shifts of the paper and seeds on
which nothing was chosen. The oracle is a ridge regression with the true ratios of every round as weights. The gap is
the mean squared error of the fixed regression minus that of the oracle, over all rounds, each under its own
distribution.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from accous import AdaptiveRegressor
from accous.model.predictors import RidgeErm, deviations_of_columns
from accous.streams import GaussianRegressionStream
from accous.threads import one_blas_thread
from benchmarks.pages import keep
from benchmarks.refits import SHIFTS

SEEDS = (101, 102, 103)
ALPHA = 0.1


def measure_gap(shift: str, seed: int, n_rounds: int = 10_000) -> dict[str, Any]:
    """Return the mean squared errors of the fixed, the adapted and the oracle regression."""
    stream = GaussianRegressionStream(SHIFTS[shift], n_rounds=n_rounds, random_state=seed)
    X, y = stream.reference()
    with one_blas_thread():
        model = AdaptiveRegressor().fit(X, y)
        erm = RidgeErm(X, y, 1.0, deviations_of_columns(X, np.ones(len(X))))
        fixed = stream.risk(model.fixed_.estimator, stream.alphas)
        sums = {"adapted": 0.0, "held": 0.0, "oracle": 0.0}
        oracles: dict[float, float] = {}
        for batch in stream:
            sums["adapted"] += stream.risk(model, batch.alpha)
            sums["held"] += float(model.state_.safeguards.veto.is_held)
            if batch.alpha not in oracles:
                weights = stream.reference_ratio(batch.alpha)
                oracles[batch.alpha] = stream.risk(erm.fit(weights / weights.mean(), None), batch.alpha)
            sums["oracle"] += oracles[batch.alpha]
            model.adapt(batch.X)
    found = {name: total / n_rounds for name, total in sums.items()} | {"fixed": float(np.mean(fixed))}
    closed = (found["fixed"] - found["adapted"]) / (found["fixed"] - found["oracle"])
    return {"shift": shift, "seed": seed, "rounds": n_rounds, **found, "closed": closed}


def measure_intervals(shift: str, seed: int, n_rounds: int = 1_000) -> dict[str, Any]:
    """Return how often 90 % intervals held the number, and how wide they were, without and with the ratio."""
    stream = GaussianRegressionStream(SHIFTS[shift], n_rounds=n_rounds, batch_size=5, random_state=seed)
    X, y = stream.reference()
    inside, inside_fixed, widths = [], [], []
    with one_blas_thread():
        model = AdaptiveRegressor().fit(X, y)
        errors = model.fixed_.errors()
        assert errors is not None
        half_width = np.quantile(np.abs(errors), 1.0 - ALPHA)
        for batch in stream:
            low, high = model.predict_interval(batch.X, ALPHA).T
            inside.append((low <= batch.y) & (batch.y <= high))
            inside_fixed.append(np.abs(batch.y - model.predict_fixed(batch.X)) <= half_width)
            widths.append(high - low)
            model.adapt(batch.X)
    return {
        "shift": shift,
        "seed": seed,
        "rows": 5 * n_rounds,
        "covered": float(np.mean(inside)),
        "covered_fixed": float(np.mean(inside_fixed)),
        "median_width": float(np.median(np.concatenate(widths))),
    }


def main() -> None:
    """Measure, print and write ``benchmarks/results/regression.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    options = parser.parse_args()
    rows: dict[str, Any] = {"gap": [], "intervals": []}
    for shift in SHIFTS:
        gaps = [measure_gap(shift, seed, options.rounds) for seed in options.seeds]
        intervals = [measure_intervals(shift, seed) for seed in options.seeds]
        for found in (gaps, intervals):
            names = [name for name, value in found[0].items() if isinstance(value, float)]
            means = {name: float(np.mean([one[name] for one in found])) for name in names}
            print(shift, ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()), flush=True)
        rows["gap"] += gaps
        rows["intervals"] += intervals
    keep("regression", rows)


if __name__ == "__main__":
    main()
