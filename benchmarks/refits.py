"""What ``refit="auto"`` costs and saves with a foreign estimator: the third part of ``make bench``.

On the reconstructed Gaussian streams, it measures how far the exact risk of ``"auto"`` is above that of ``"always"``,
and the share of rounds with a refit.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.streams import GaussianStream
from accous_bench.problems import SHIFTS
from benchmarks.record import write_results

POLICIES = ("always", "auto")
BATCH_SIZES = (1, 5)
MOVING = ("Lin", "Squ", "Sin", "Ber")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds of each stream (default 10000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    arguments = parser.parse_args()
    console = Console()
    cases = list(itertools.product(BATCH_SIZES, MOVING, POLICIES))
    jobs = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(run_policy)(*case, arguments.rounds) for case in cases
    )
    results = dict(zip(cases, track(jobs, "refits", total=len(cases), console=console), strict=True))
    rows = [summarise(results, batch_size, shift) for batch_size, shift in itertools.product(BATCH_SIZES, MOVING)]
    console.print(refit_table(rows, arguments.rounds))
    console.print(f"Written to {write_results('refits', rows)}")


def run_policy(batch_size: int, shift: str, policy: str, n_rounds: int) -> tuple[float, float]:
    """Return the mean exact risk before each round, and the refits per round."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=n_rounds, batch_size=batch_size)
    estimator = LogisticRegression(solver="newton-cholesky")
    model = AdaptiveClassifier(estimator, refit=policy, standardize=False, fallback="none").fit(*stream.reference())
    risks = []
    for batch in stream:
        risks.append(stream.risk(model.estimator_, batch.alpha))
        model.adapt(batch.X)
    return float(np.mean(risks)), model.n_refits_ / n_rounds


def summarise(results: dict[tuple[int, str, str], tuple[float, float]], batch_size: int, shift: str) -> dict[str, Any]:
    """Put the two policies side by side."""
    always, auto = (results[batch_size, shift, policy] for policy in POLICIES)
    return {
        "batch_size": batch_size,
        "shift": shift,
        "risk_always": always[0],
        "risk_auto": auto[0],
        "points_lost": 100.0 * (auto[0] - always[0]),
        "share_refitted": auto[1],
    }


def refit_table(rows: list[dict[str, Any]], n_rounds: int) -> Table:
    """One line per stream."""
    table = Table(title=f'refit="auto" against "always", {n_rounds} rounds')
    for heading in ("batch rows", "shift", "error, always", "error, auto", "points lost", "rounds refitted"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row["batch_size"]),
            row["shift"],
            f"{row['risk_always']:.2%}",
            f"{row['risk_auto']:.2%}",
            f"{row['points_lost']:+.3f}",
            f"{row['share_refitted']:.0%}",
        )
    return table


if __name__ == "__main__":
    main()
