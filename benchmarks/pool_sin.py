"""How far the ratio is from the truth under ``Sin``, and two attempts to bring it closer.

``python -m benchmarks.pool_sin`` prints the total variation, over the reference, of the ratio in use before a round
from the true ratio of that round. The stream has 10,000 rounds, of which 200 to 1,500 count. The attempts are momentum,
which extends the ratio by a quarter of its change over four rounds, and the ratios of both true parts as candidates.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice

import numpy as np

from accous import OnlineDensityRatio
from accous.arrays import FloatArray
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from benchmarks.limit import seed_numbers, streams
from benchmarks.record import keep_row

__all__ = ["distances", "extended"]

N_ROUNDS, FIRST, LAST = 10_000, 200, 1_500
LAG, GAIN = 4, 0.25


def extended(now: FloatArray, before: FloatArray) -> FloatArray:
    """Return the ratio moved on in the direction in which it has moved, with mean 1."""
    moved = np.maximum(now + GAIN * (now - before), 0.0)
    return np.asarray(moved / moved.mean())


def distances(stream: GaussianStream, first: int = FIRST, last: int = LAST) -> dict[str, float]:
    """Return mean total variations from the true ratio, over some rounds."""
    X, _ = stream.reference()
    parts = [partial(stream.true_ratio, alpha=alpha) for alpha in (0.0, 1.0)]
    default = OnlineDensityRatio().fit(X)
    with_parts = OnlineDensityRatio(candidates=parts).fit(X)
    past: deque[FloatArray] = deque(maxlen=LAG + 1)
    found: dict[str, list[float]] = {"default": [], "momentum": [], "true parts as candidates": []}
    with one_blas_thread():
        for batch in islice(stream, last):
            past.append(default.reference_ratio_)
            if batch.round >= first:
                truth = stream.reference_ratio(batch.alpha)
                ratios = (past[-1], extended(past[-1], past[0]), with_parts.reference_ratio_)
                for values, ratio in zip(found.values(), ratios, strict=True):
                    values.append(0.5 * float(np.abs(ratio / ratio.mean() - truth / truth.mean()).mean()))
            default.partial_fit(batch.X)
            with_parts.partial_fit(batch.X)
    return {name: float(np.mean(values)) for name, values in found.items()}


def measure(seeds: Sequence[int], batch_size: int) -> dict[str, float]:
    """Return the means over seeds."""
    found = [distances(stream) for stream in streams("Sin", seeds, N_ROUNDS, batch_size)]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seed_numbers, default=[20, 21], help="first and last seed (default 20-21)")
    options = parser.parse_args()
    for batch_size in (5, 1):
        found = measure(options.seeds, batch_size)
        case = f"Sin, N_t = {batch_size}"
        keep_row("pool", "sin", {"case": case, "seeds": options.seeds, "distances": found})
        print(case, {name: round(value, 4) for name, value in found.items()}, flush=True)


if __name__ == "__main__":
    main()
