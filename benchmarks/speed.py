"""Speed of the ratio estimators: the first part of ``make bench``.

Rounds per second of ``partial_fit`` beside the slow transcription of the paper that the tests use; the two are timed in
turns in one process, so that their quotient holds on a busy machine too.
"""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from accous import OnlineDensityRatio
from benchmarks.record import write_results
from benchmarks.yardsticks import slow_twin

SHAPES = ((1000, 12, 1), (1000, 12, 5), (5000, 64, 5))
WARM_UP_ROUNDS = 1100
TIMED_ROUNDS = 64
TIMED_TURNS = 5


def main() -> None:
    """Measure, print and write down."""
    console = Console()
    rows = [measure_speed(*shape) for shape in track(SHAPES, "speed", console=console)]
    console.print(speed_table(rows))
    console.print(f"Written to {write_results('speed', rows)}")


def measure_speed(n_reference: int, n_features: int, batch_size: int) -> dict[str, float]:
    """Rounds per second of the fast and of the slow version, both from the same state around round 1100."""
    rng = np.random.default_rng(0)
    fast = OnlineDensityRatio(step_size=10.0, meta_range="paper").fit(rng.normal(size=(n_reference, n_features)))
    batches = rng.normal(loc=0.5, size=(WARM_UP_ROUNDS + TIMED_TURNS * TIMED_ROUNDS, batch_size, n_features))
    for batch in batches[:WARM_UP_ROUNDS]:
        fast.partial_fit(batch)
    slow = slow_twin(fast)
    best_fast, best_slow = np.inf, np.inf
    for turn in range(TIMED_TURNS):
        first = WARM_UP_ROUNDS + turn * TIMED_ROUNDS
        start = time.perf_counter()
        for batch in batches[first : first + TIMED_ROUNDS]:
            fast.partial_fit(batch)
        best_fast = min(best_fast, (time.perf_counter() - start) / TIMED_ROUNDS)
        features, _ = fast.features_.transform(batches[first])
        start = time.perf_counter()
        slow.play(features)
        best_slow = min(best_slow, time.perf_counter() - start)
    return {
        "n_reference": n_reference,
        "n_features": n_features,
        "batch_size": batch_size,
        "rounds_per_second": 1.0 / best_fast,
        "slow_rounds_per_second": 1.0 / best_slow,
        "speed_up": best_slow / best_fast,
    }


def speed_table(rows: list[dict[str, float]]) -> Table:
    """Speed as a table for people."""
    table = Table(title="Rounds per second of partial_fit, around round 1100")
    for heading in ("reference rows", "features", "batch rows", "accous", "slow transcription", "times faster"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['n_reference']:.0f}",
            f"{row['n_features']:.0f}",
            f"{row['batch_size']:.0f}",
            f"{row['rounds_per_second']:.0f}",
            f"{row['slow_rounds_per_second']:.2f}",
            f"{row['speed_up']:.0f}",
        )
    return table


if __name__ == "__main__":
    main()
