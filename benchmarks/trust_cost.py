"""The cost of the fallback and of the diagnostics, as a share of the plain method's rounds, in one process.

The plain rounds are those of the paper's method without diagnostics: ratio, weights, refit. Both models learn from the
same batches in alternation and take turns in going first. For every round, the fastest of several passes counts, in CPU
time instead of wall time, so that other work on the machine matters less.
"""

from __future__ import annotations

import argparse
import time
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.table import Table

from accous import AdaptiveClassifier
from accous.arrays import FloatArray
from accous.model.round import is_refit_due, weigh
from accous.streams import GaussianStream, SquareShift
from benchmarks.record import write_results

CASES = ((1000, 12, 1), (1000, 12, 5), (10_000, 12, 1), (1000, 50, 1))


class PlainRounds(AdaptiveClassifier):
    """The plain method, without diagnostics."""

    def adapt(self, X_batch: Any, y: None = None) -> Self:
        """Play a round: ratio, weights, and a refit if due."""
        before, rules = self.state_, self.rules_
        ratio = copy(before.ratio)
        ratio.partial_fit(X_batch)
        weights = weigh(rules, np.ascontiguousarray(ratio.reference_ratio_, dtype=np.float64), before.weights)
        state = replace(before, n_rounds=before.n_rounds + 1, ratio=ratio, weights=weights, cache={})
        if is_refit_due(rules.refit, rules.erm, before, weights, state.n_rounds):
            estimator = rules.erm.fit(weights, before.estimator)
            state = replace(state, estimator=estimator, fitted_weights=weights, n_refits=before.n_refits + 1)
        self.state_ = state
        return self


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=384, help="rounds of each stream (default 384)")
    parser.add_argument("--passes", type=int, default=5, help="passes over each stream (default 5)")
    arguments = parser.parse_args()
    rows = [measure(*case, arguments.rounds, arguments.passes) for case in CASES]
    table = Table(title="Microseconds per round, and per reading of a diagnostic")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    console = Console(width=170)
    console.print(table)
    console.print(f"Written to {write_results('trust_cost', rows)}")


def measure(n_reference: int, n_features: int, batch_size: int, n_rounds: int, n_passes: int) -> dict[str, Any]:
    """Return the mean time of a round of both models, and of reading the diagnostics."""
    stream = GaussianStream(
        SquareShift(period=100),
        n_reference=n_reference,
        n_features=n_features,
        batch_size=batch_size,
        n_rounds=n_rounds,
    )
    batches = [batch.X for batch in stream]
    best = np.full((2, n_rounds), np.inf)
    for number in range(n_passes):
        makers = (PlainRounds(standardize=False, fallback="none"), AdaptiveClassifier(standardize=False))
        models = [model.fit(*stream.reference()) for model in makers]
        for place, batch in enumerate(batches):
            for which in ((0, 1), (1, 0))[(place + number) % 2]:
                start = time.thread_time()
                models[which].adapt(batch)
                best[which, place] = min(best[which, place], time.thread_time() - start)
    plain, guarded = 1e6 * best.mean(axis=1)
    return {
        "n_reference": n_reference,
        "n_features": n_features,
        "batch_size": batch_size,
        "plain_round": float(plain),
        "guarded_round": float(guarded),
        "share_added": float(guarded / plain - 1.0),
        **{f"read_{name}": 1e6 * _time_of_reading(models[1], name, batches[0]) for name in ("trust", "risk", "set")},
    }


def _time_of_reading(model: Any, name: str, X: FloatArray) -> float:
    best = np.inf
    for _ in range(5):
        model.state_.cache.clear()
        start = time.thread_time()
        model.predict_set(X) if name == "set" else getattr(model, f"{name}_")
        best = min(best, time.thread_time() - start)
    return best


if __name__ == "__main__":
    main()
