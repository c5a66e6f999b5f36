"""Wide features: what a diagonal or low-rank metric saves in memory and time, and what it costs in accuracy.

There are two tables for each width. The first is about the ratio alone, around round 2,000 and around round 1,000,000:
the bytes that the learners hold, and the time of a round, with all metrics in turns on the same batches. The learners
reach their ages by random gradients. The second adapts classifiers along a stream that switches between two parts, next
to a model that never adapts and one that knows the true ratio. Each metric sees the same batches.

The parts are the two halves of the paper's Gaussian stream, in 12 of the columns, next to columns of noise whose
variance falls as in embeddings. Everything is rotated, so that no column is special. ``--images`` uses the 1,280
features of a frozen network instead, with MNIST and SVHN as the parts; this needs the extra ``deep``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.arrays import FloatArray
from accous.core.ensemble import ADAPT_ML_PROD, EnsembleState, active_lengths, start_learners
from accous.deep.precomputed import embeddings_of
from accous.ratio.base import RatioEstimator
from accous.streams import ConstantShift, GaussianStream, MixtureStream, Shift, SquareShift
from accous_bench.contenders import Oracle
from accous_bench.images import load_mnist_svhn

WIDTHS = (512, 1280)
METRICS: dict[str, dict[str, Any]] = {
    "full": {"metric": "full"},
    "low rank, 32": {"metric": "low_rank"},
    "low rank, 8": {"metric": "low_rank", "metric_rank": 8},
    "diagonal": {"metric": "diagonal"},
}
MEASURED = ("full", "low rank, 32", "diagonal")
AGES = (2000, 1_000_000)
N_REFERENCE, BATCH_SIZE, PERIOD, N_SIGNAL = 1000, 5, 100, 12
POOL_SIZE, EVERY = 3000, 5
RIDGES = (1.0, 0.1)
Pool = tuple[FloatArray, NDArray[np.int64]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, nargs="+", default=WIDTHS, help="widths to measure (default 512 1280)")
    parser.add_argument("--rounds", type=int, default=40, help="timed rounds of the ratio alone (default 40)")
    parser.add_argument("--stream", type=int, default=250, help="rounds of the streams (default 250)")
    parser.add_argument("--ridges", type=float, nargs="+", default=RIDGES, help="ridges to measure (default 1 0.1)")
    parser.add_argument("--seeds", type=int, default=1, help="streams of each kind (default 1)")
    parser.add_argument("--period", type=int, default=PERIOD, help=f"rounds between switches (default {PERIOD})")
    parser.add_argument(
        "--images",
        action="store_true",
        help="use real embeddings instead of --features; add --rounds 0 to leave out the tables of costs",
    )
    arguments = parser.parse_args()
    console = Console()
    with threadpool_limits(1):
        for width in arguments.features if arguments.rounds else ():
            console.print(cost_table(width, arguments.rounds))
        if arguments.stream:
            for pools in [embedded_pools()] if arguments.images else map(make_pools, arguments.features):
                shift = SquareShift(period=arguments.period)
                console.print(accuracy_table(pools, shift, arguments.ridges, arguments.stream, arguments.seeds))


# --- memory and time --------------------------------------------------------------------------------------------


def cost_table(width: int, n_rounds: int) -> Table:
    """Return a table of the learners' bytes and the time of a round, by metric and age."""
    table = Table(title=f"Ratio alone, {width} features, {N_REFERENCE} reference rows, batches of {BATCH_SIZE}")
    for heading in ("after rounds", "metric", "learners", "their MiB", "ms a round", "rounds/s"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for age in AGES:
        for name, (n_learners, size, seconds) in measure_costs(width, age, n_rounds).items():
            cells = f"{n_learners}", f"{size / 2**20:.2f}", f"{1e3 * seconds:.2f}", f"{1.0 / seconds:.0f}"
            table.add_row(f"{age:,}", name, *cells)
    return table


def measure_costs(width: int, age: int, n_rounds: int) -> dict[str, tuple[int, int, float]]:
    """Return the learners, their bytes, and the median seconds of a round; the metrics take turns in one process."""
    rng = np.random.default_rng(0)
    X, direction = rng.normal(size=(N_REFERENCE, width)), rng.normal(scale=0.1, size=width)
    ratios = {name: at_round(OnlineDensityRatio(**METRICS[name]).fit(X), age) for name in MEASURED}
    sizes = {name: size_of(ratio.state_.learners) for name, ratio in ratios.items()}
    seconds: dict[str, list[float]] = {name: [] for name in MEASURED}
    for _ in range(n_rounds):
        batch = direction + rng.normal(size=(BATCH_SIZE, width))
        for name, ratio in ratios.items():
            start = time.process_time()
            ratio.partial_fit(batch)
            seconds[name].append(time.process_time() - start)
    return {
        name: (len(ratio.state_.learners), sizes[name], float(np.median(seconds[name])))
        for name, ratio in ratios.items()
    }


def at_round(ratio: OnlineDensityRatio, n_rounds: int) -> OnlineDensityRatio:
    """Put a fitted ratio into a later round: its learners get the ages they have then, through random gradients.

    Ages are cut where a matrix has reached its largest size.
    """
    settings, rng = ratio.rounds_.settings, np.random.default_rng(1)
    n_coefs = len(settings.neutral)
    lengths = active_lengths(n_rounds + 1, settings.min_interval)
    ages = [min((n_rounds + 1) % int(length), n_coefs // 2 + 60) for length in lengths]
    learner = start_learners(1, settings.neutral, settings.ridge, settings.metric, settings.rank)
    at_age = {0: learner}
    for age in range(1, max(ages) + 1):
        gradient = rng.normal(scale=0.1 / np.sqrt(n_coefs), size=(1, n_coefs))
        learner = learner.step(gradient, 1.0, settings.radius)
        if age in ages:
            at_age[age] = learner
    learners = at_age[ages[-1]]
    for learner_age in reversed(ages[:-1]):
        learners = learners.after(at_age[learner_age])
    meta = ADAPT_ML_PROD.start(len(lengths), n_rounds)
    weights = ADAPT_ML_PROD.weights(meta)
    ratio.state_ = EnsembleState(
        n_rounds=n_rounds,
        coef=weights @ learners.coefs,
        lengths=lengths,
        weights=weights,
        learners=learners,
        meta=meta,
        largest_margin=1.0,
    )
    return ratio


def size_of(value: Any) -> int:
    """Return the bytes of all arrays in nested dataclasses and tuples."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, tuple):
        return sum(map(size_of, value))
    return sum(size_of(getattr(value, part.name)) for part in fields(value)) if is_dataclass(value) else 0


# --- accuracy ---------------------------------------------------------------------------------------------------


def accuracy_table(pools: list[Pool], shift: Shift, ridges: list[float], n_rounds: int, n_seeds: int) -> Table:
    """Return a table of the error on the streams, and of the ratio's error on the reference."""
    table = Table(title=f"{pools[0][0].shape[1]} features, {n_rounds} rounds, {shift}, seeds: {n_seeds}")
    for heading in ("ridge", "model", "error, %", "mean error of the ratio"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for ridge in ridges:
        ratios = {name: OnlineDensityRatio(ridge=ridge, **parts) for name, parts in METRICS.items()}
        streams = [make_stream(pools, shift, n_rounds, seed) for seed in range(n_seeds)]
        found = [measure_errors(stream, ratios) for stream in streams]
        for name in found[0]:
            error, ratio_error = np.mean([one[name] for one in found], axis=0)
            table.add_row(f"{ridge:g}", name, f"{100 * error:.2f}", f"{ratio_error:.3f}")
    return table


def make_stream(pools: list[Pool], shift: Shift, n_rounds: int, seed: int) -> MixtureStream:
    """Return a stream of two pools, with nine tenths of the reference from the second."""
    return MixtureStream(
        pools[0],
        pools[1],
        shift,
        n_rounds=n_rounds,
        batch_size=BATCH_SIZE,
        n_reference=N_REFERENCE,
        alpha_0=0.9,
        random_state=seed,
    )


def measure_errors(stream: MixtureStream, adapting: Mapping[str, RatioEstimator]) -> dict[str, tuple[float, float]]:
    """Return the mean error before learning from a round's batch, and the mean |r - true r| on the reference.

    The error is over all rows of the pools, weighted by the mixture, in every fifth round.
    """
    ratios = {"never adapting": NoShift(), **adapting}
    models = {
        name: AdaptiveClassifier(ratio=ratio, fallback="none", standardize=False) for name, ratio in ratios.items()
    }
    oracle = Oracle()
    oracle.fit(*stream.reference())
    for model in models.values():
        model.fit(*stream.reference())
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in (*models, "true ratio")}
    for batch in stream:
        if batch.round % EVERY == 0:
            truth = stream.reference_ratio(batch.alpha)
            oracle.adapt_to(truth)
            errors["true ratio"].append((stream.risk(oracle, batch.alpha), 0.0))
            for name, model in models.items():
                ratio_error = float(np.abs(model.ratio_.reference_ratio_ - truth).mean())
                errors[name].append((stream.risk(model, batch.alpha), ratio_error))
        for model in models.values():
            model.adapt(batch.X)
    return {name: tuple(np.mean(pairs, axis=0)) for name, pairs in errors.items()}


def make_pools(width: int, *, strength: float = 1.0, power: float = 0.5) -> list[Pool]:
    """Return rows of the two parts, times ``strength``, among noise whose spread falls with a power, all rotated."""
    rng = np.random.default_rng(width)
    rotation, _ = np.linalg.qr(rng.normal(size=(width, width)))
    spread = np.arange(1.0, width - N_SIGNAL + 1.0) ** -power
    pools = []
    for part in (0.0, 1.0):
        stream = GaussianStream(
            ConstantShift(part), n_features=N_SIGNAL, n_reference=POOL_SIZE, alpha_0=part, random_state=int(part)
        )
        signal, y = stream.reference()
        rows = np.column_stack((strength * signal, spread * rng.normal(size=(POOL_SIZE, len(spread)))))
        pools.append((rows @ rotation, y))
    return pools


def embedded_pools() -> list[Pool]:
    """Return features of a frozen network for digits of MNIST and of SVHN."""
    pair, pools = load_mnist_svhn(), []
    for part in (pair.first, pair.second):
        kept = np.random.default_rng(0).permutation(len(part.labels))[:POOL_SIZE]
        pools.append((embeddings_of(part.images[kept], cache=True).astype(np.float64), part.labels[kept]))
    return pools


if __name__ == "__main__":
    main()
