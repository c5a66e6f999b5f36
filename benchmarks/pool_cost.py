"""CPU time of a round without and with the pool: ``python -m benchmarks.pool_cost``.

All arms follow the same stream in turns of 20 rounds, so that a busy machine slows all of them. The median over turns
counts, after the first quarter.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice

import numpy as np

from accous.streams import GaussianStream, SquareShift
from accous.threads import one_blas_thread
from benchmarks.pool_arms import ARMS, DEFAULT, FALLBACK
from benchmarks.record import keep_row

__all__ = ["measure_cost"]

SIZES = ((1000, 12, 1), (5000, 64, 5))
TURN = 20


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1600, help="rounds of each stream (default 1600)")
    parser.add_argument("--small", action="store_true", help="only the smaller of the two references")
    options = parser.parse_args()
    for sizes in SIZES[:1] if options.small else SIZES:
        found = measure_cost(*sizes, options.rounds)
        case = "N_0 = {:,}, d = {}, N_t = {}".format(*sizes)
        keep_row("pool", "cost", {"case": case, "n_rounds": options.rounds, "microseconds": found})
        print(f"{case}: default / ensemble with fallback = {found[DEFAULT.name] / found[FALLBACK.name]:.2f}")
        for name, microseconds in found.items():
            print(f"  {name}: {microseconds:.0f} microseconds")


def measure_cost(n_reference: int, n_features: int, batch_size: int, n_rounds: int) -> dict[str, float]:
    """Return microseconds of CPU time a round, by arm."""
    stream = GaussianStream(
        SquareShift(period=100),
        n_reference=n_reference,
        n_features=n_features,
        batch_size=batch_size,
        n_rounds=n_rounds,
    )
    models = {}
    for arm in ARMS:
        with arm.switched():
            models[arm] = arm.model().fit(*stream.reference())
    seconds: dict[str, list[float]] = {arm.name: [] for arm in ARMS}
    batches = iter(stream)
    with one_blas_thread():
        while turn := [batch.X for batch in islice(batches, TURN)]:
            for arm, model in models.items():
                with arm.switched():
                    start = time.process_time()
                    for rows in turn:
                        model.adapt(rows)
                    seconds[arm.name].append((time.process_time() - start) / len(turn))
    return {name: 1e6 * float(np.median(each[len(each) // 4 :])) for name, each in seconds.items()}


if __name__ == "__main__":
    main()
