"""Many columns: the effect of shortening the rows beside the intercept.

Classifiers follow streams of two parts, one stream that switches and one that does not move. The ratio uses
standardised rows, either at full length or shortened, which is the default beyond 256 columns. The ensemble and the
single learner both run without the fallback. Each pair is the error in %, and in brackets the mean of |r - true r| on
the reference.

The parts are those of the paper's Gaussian data in 12 columns, at full strength or a fifth of it. They are next to
columns of noise whose variance falls as in embeddings, or does not fall, and everything is rotated. There is also the
gas sensors' table, cut in two along its first principal component (only with ``ACCOUS_DATA``).

At the end come the gas sensors in time order, which leave their reference: the error in %, with the fallback, as a mean
of five seeds.
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.arrays import FloatArray
from accous.ratio.base import RatioEstimator
from accous.streams import ConstantShift, SquareShift
from accous_bench.problems import Setting, get_problem
from benchmarks.problems import data_folder, table_parts
from benchmarks.wide_metrics import PERIOD, Pool, make_pools, make_stream, measure_errors

WIDTH = 300
SHIFTS = {"switches": SquareShift(period=PERIOD), "stands still": ConstantShift(0.9)}


def shorten(rows: FloatArray) -> FloatArray:
    """Make standardised rows as long as those of a dozen columns."""
    return rows / np.sqrt(rows.shape[1] / 12)


MAPS: dict[str, Any] = {
    "as long as they are": "standardize",
    "shortened": make_pipeline(StandardScaler(), FunctionTransformer(shorten)),
}
MODELS: dict[str, Any] = {"ensemble": OnlineDensityRatio, "single learner": SingleLearnerRatio}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=600, help="rounds of the streams (default 600)")
    parser.add_argument("--seeds", type=int, default=2, help="streams of each kind (default 2)")
    arguments = parser.parse_args()
    columns = [f"{model}, {name}" for model in MODELS for name in MAPS]
    title = f"{WIDTH} columns, streams of {arguments.rounds} rounds, seeds: {arguments.seeds}"
    table = Table("rows", "stream", "never adapting", *columns, "true ratio", title=title)
    with threadpool_limits(1):
        cells = [(rows, stream) for rows in pools() for stream in SHIFTS]
        for rows, stream in track(cells, console=Console(stderr=True), description="streams"):
            table.add_row(rows, stream, *measure(rows, stream, arguments.rounds, arguments.seeds))
        console = Console(width=max(150, Console().width))
        console.print(table)
        for name, error in (errors_in_order_of_time() if data_folder() else {}).items():
            console.print(f"Gas sensors in time order, {name}: {100 * error:.2f}")


@cache
def pools() -> dict[str, list[Pool]]:
    """Return the pairs of pools by name."""
    made = {
        "among falling noise": make_pools(WIDTH),
        "among even noise": make_pools(WIDTH, power=0.0),
        "weak, among falling noise": make_pools(WIDTH, strength=0.2),
        "weak, among even noise": make_pools(WIDTH, strength=0.2, power=0.0),
    }
    return made | {"gas sensors (128 columns)": table_parts("gas_sensor")} if data_folder() else made


def measure(rows: str, stream: str, n_rounds: int, n_seeds: int) -> list[str]:
    """Return the pairs for one kind of stream, as means over the seeds."""
    ratios: dict[str, RatioEstimator] = {
        f"{model}, {name}": make(feature_map) for model, make in MODELS.items() for name, feature_map in MAPS.items()
    }
    streams = (make_stream(pools()[rows], SHIFTS[stream], n_rounds, seed) for seed in range(n_seeds))
    found = [measure_errors(each, ratios) for each in streams]
    return [as_text(np.mean([one[name] for one in found], axis=0)) for name in found[0]]


def errors_in_order_of_time(n_seeds: int = 5) -> dict[str, float]:
    """Return the mean error on the gas sensors' natural stream, each batch predicted before it is learned from."""
    ratios: dict[str, RatioEstimator] = {"never adapting": NoShift()}
    ratios |= {name: OnlineDensityRatio(feature_map) for name, feature_map in MAPS.items()}
    errors: dict[str, list[float]] = {name: [] for name in ratios}
    for seed in range(n_seeds):
        stream = get_problem("gas_sensor").make(Setting("natural", 10, 3000, seed))
        for name, ratio in ratios.items():
            model = AdaptiveClassifier(ratio=ratio, standardize=False).fit(*stream.reference())
            wrong = []
            for batch in stream:
                wrong.append(np.mean(model.predict(batch.X) != batch.y))
                model.adapt(batch.X)
            errors[name].append(float(np.mean(wrong)))
    return {name: float(np.mean(each)) for name, each in errors.items()}


def as_text(pair: FloatArray) -> str:
    """Return the error in %, and in brackets the error of the ratio."""
    return f"{100 * pair[0]:.2f} ({pair[1]:.3f})"


if __name__ == "__main__":
    main()
