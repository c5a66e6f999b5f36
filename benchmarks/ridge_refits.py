"""What a refit of the ridge regression costs beside one of the logistic regression, and beside scikit-learn's Ridge.

``python -m benchmarks.ridge_refits`` plays weights that move a little from refit to refit. Both regressions start from
their last coefficients, as in a round; the ridge regression uses them only with many columns. All take turns in one
process, on one core; the best turn counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from accous.arrays import FloatArray
from accous.core.regression import leave_one_out_predictions, make_problem, make_ridge_problem, solve, solve_ridge
from benchmarks.yardsticks import best_times

__all__ = ["main", "measure_refits"]

SIZES = ((1000, 12), (5000, 64), (1000, 200), (5000, 512))
N_WEIGHTS, TURNS = 50, 8


def measure_refits(
    n_rows: int, n_features: int, turns: int = TURNS, refits_per_turn: int = N_WEIGHTS
) -> dict[str, float]:
    """Return the seconds of one refit by each, and of all predictions without their row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n_rows)
    weights = moving_weights(X, rng)
    ridge = make_ridge_problem(X, y, 1.0)
    logistic = make_problem(X, (y + rng.logistic(size=n_rows) > 0.0).astype(np.int64), 2, 1.0)
    last, last_ridge = solve(logistic, weights[0]), solve_ridge(ridge, weights[0])

    def refit_logistic(call: int) -> None:
        nonlocal last
        last = solve(logistic, weights[call % N_WEIGHTS], last)

    def refit_ridge(call: int) -> None:
        nonlocal last_ridge
        last_ridge = solve_ridge(ridge, weights[call % N_WEIGHTS], last_ridge)

    contenders: dict[str, Callable[[int], object]] = {
        "ridge": refit_ridge,
        "logistic": refit_logistic,
        "scikit_learn": lambda call: Ridge(alpha=1.0).fit(X, y, sample_weight=weights[call % N_WEIGHTS]),
        "leave_one_out": lambda call: leave_one_out_predictions(ridge, weights[call % N_WEIGHTS]),
    }
    return best_times(contenders, turns, dict.fromkeys(contenders, refits_per_turn))


def moving_weights(X: FloatArray, rng: np.random.Generator) -> list[FloatArray]:
    """Return log-linear weights along a random walk."""
    steps = 0.05 * rng.normal(size=(N_WEIGHTS, X.shape[1])) / np.sqrt(X.shape[1])
    ratios = np.exp(np.cumsum(steps, axis=0) @ X.T)
    return [ratio / ratio.mean() for ratio in ratios]


def main() -> None:
    """Measure and print."""
    table = Table(title="microseconds")
    names = ("ridge", "logistic", "scikit_learn", "leave_one_out")
    for name in ("rows x columns", *names, "ridge / logistic"):
        table.add_column(name, justify="right")
    with threadpool_limits(1):
        for n_rows, n_features in SIZES:
            times = measure_refits(n_rows, n_features, refits_per_turn=N_WEIGHTS if n_features < 500 else 5)
            cells = [f"{1e6 * times[name]:,.0f}" for name in names]
            table.add_row(f"{n_rows:,} x {n_features}", *cells, f"{times['ridge'] / times['logistic']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
