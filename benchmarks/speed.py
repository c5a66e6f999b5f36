"""Speed of whole rounds: the first part of ``make bench``.

It compares ``AdaptiveClassifier.adapt`` with a refit in every round to the arithmetic that no version can do without,
and to the plain loop of slow, obvious code. All take turns in one process, on one core, and the best turn of each
counts, so that the quotients also hold on a busy machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier
from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import is_narrow
from benchmarks.record import write_results
from benchmarks.speed_page import write_page
from benchmarks.yardsticks import BareArithmetic, PlainLoop, at_round, best_times

AROUND_ROUND = 8192
WARM_UP_ROUNDS, WIDE_WARM_UP_ROUNDS = 64, 300
SECONDS_PER_CONTENDER = 1.5
LARGEST_PLAIN_LOOP = 100_000

ALL_SIZES = ((300, 1000, 10_000, 100_000), (5, 12, 64, 512), (1, 5, 100), (2, 10))


@dataclass(frozen=True)
class Shape:
    """The sizes for which a round is measured."""

    n_reference: int
    n_features: int
    batch_size: int
    n_classes: int


SOME_SHAPES = tuple(
    Shape(*sizes)
    for sizes in (
        (300, 5, 1, 2), (1000, 12, 1, 2), (1000, 12, 5, 2), (1000, 12, 100, 2), (1000, 12, 1, 10), (10_000, 12, 5, 2),
        (100_000, 12, 5, 2), (1000, 5, 1, 2), (1000, 64, 5, 2), (10_000, 64, 5, 10), (1000, 512, 5, 2),
        (5000, 512, 5, 10),
    )
)  # fmt: skip


def main() -> None:
    """Measure, print, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="measure the whole grid of sizes, which takes an hour")
    arguments = parser.parse_args()
    console = Console()
    shapes = tuple(Shape(*sizes) for sizes in product(*ALL_SIZES)) if arguments.all else SOME_SHAPES
    with threadpool_limits(1):
        rows = [measure_round(shape) for shape in track(shapes, "rounds", console=console)]
        ages = [measure_age(n_rounds) for n_rounds in track((100, 10_000, 1_000_000), "ages", console=console)]
    console.print(speed_table(rows))
    console.print(f"Written to {write_results('speed', {'rounds': rows, 'ages': ages})}")
    console.print(f"Written to {write_page(rows, ages)}")


def measure_round(shape: Shape) -> dict[str, float]:
    """Return the seconds of a round, of its bare arithmetic and, for small sizes, of the plain loop."""
    model, batches = prepare(shape)
    bare = BareArithmetic(model)
    contenders: dict[str, Callable[[int], object]] = {
        "adapt": lambda call: model.adapt(batches[call % len(batches)]),
        "bare": lambda _: bare.run(),
    }
    has_plain_loop = shape.n_classes == 2 and shape.n_reference * shape.n_features <= LARGEST_PLAIN_LOOP
    if has_plain_loop:
        loop = PlainLoop(model)
        contenders["plain_loop"] = lambda call: loop.adapt(batches[call % len(batches)])
    times = time_in_turns(contenders)
    return asdict(shape) | {f"{name}_seconds": seconds for name, seconds in times.items()}


def measure_age(n_rounds: int) -> dict[str, float]:
    """Return the seconds of a round late in a stream, where only the number of learners grows, as log t."""
    model, batches = prepare(Shape(1000, 12, 1, 2))
    model = at_round(model, n_rounds)
    times = time_in_turns({"adapt": lambda call: model.adapt(batches[call % len(batches)])})
    return {"round": n_rounds, "adapt_seconds": times["adapt"], "n_learners": len(model.ratio_.learner_lengths_)}


def prepare(shape: Shape) -> tuple[AdaptiveClassifier, list[FloatArray]]:
    """Return a model after some rounds (around round 8192 if it is narrow), and batches for it."""
    rng = np.random.default_rng(0)
    X, y = make_reference(rng, shape)
    mean = rng.normal(scale=0.3, size=shape.n_features)
    n_rounds = WARM_UP_ROUNDS if is_narrow(shape.n_features + 1) else WIDE_WARM_UP_ROUNDS
    batches = [mean + rng.normal(size=(shape.batch_size, shape.n_features)) for _ in range(n_rounds)]
    model = AdaptiveClassifier(standardize=False, refit=10**9, fallback="none").fit(X, y)
    for batch in batches:
        model.adapt(batch)
    model.set_params(refit="always")
    model.adapt(batches[0])
    return (at_round(model, AROUND_ROUND) if is_narrow(shape.n_features + 1) else model), batches


def make_reference(rng: np.random.Generator, shape: Shape) -> tuple[FloatArray, IntArray]:
    """Return rows and labels of overlapping classes."""
    y = rng.integers(0, shape.n_classes, shape.n_reference)
    centres = rng.normal(size=(shape.n_classes, shape.n_features)) / np.sqrt(shape.n_features)
    return centres[y] + rng.normal(size=(shape.n_reference, shape.n_features)), y


def time_in_turns(contenders: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Return the best seconds per call of each; quick ones are called more often per turn."""
    once = best_times(contenders, 2, dict.fromkeys(contenders, 1))
    repeats = {name: max(1, min(32, int(0.005 / seconds))) for name, seconds in once.items()}
    a_turn = sum(repeats[name] * seconds for name, seconds in once.items())
    n_turns = int(np.clip(SECONDS_PER_CONTENDER * len(contenders) / a_turn, 3, 60))
    return best_times(contenders, n_turns, repeats)


def speed_table(rows: list[dict[str, float]]) -> Table:
    """Return the speeds as a table for the terminal."""
    table = Table(title="A whole round: adapt with a refit, one core")
    for heading in ("reference", "features", "batch", "classes", "rounds/s", "times bare arithmetic", "plain loop"):
        table.add_column(heading, justify="right")
    for row in rows:
        loop = row.get("plain_loop_seconds")
        table.add_row(
            *(f"{row[name]:,}" for name in ("n_reference", "n_features", "batch_size", "n_classes")),
            f"{1.0 / row['adapt_seconds']:,.0f}",
            f"{row['adapt_seconds'] / row['bare_seconds']:.2f}",
            "" if loop is None else f"{loop / row['adapt_seconds']:.0f} times slower",
        )
    return table


if __name__ == "__main__":
    main()
