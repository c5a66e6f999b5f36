"""Many columns: what the ratio knows when strong directions of the reference count more than weak ones.

Classifiers follow streams of two parts, one that switches and one that does not move, with the ratio on standardised
columns (all directions alike), on principal components times the fourth root of their variance (the default beyond 100
columns) and times its square root; with each, the ensemble and the single learner. Every pair is the error in %, and
in brackets the mean of |r - true r| on the reference.

The parts are those of the paper's Gaussian data in 12 columns, or a fifth of them, beside columns of noise whose
variance falls as in embeddings, or does not fall, all of it rotated; and the gas sensors' table, cut in two along its
first principal component (``ACCOUS_DATA``).
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from accous import OnlineDensityRatio, SingleLearnerRatio
from accous.core.arrays import FloatArray
from accous.principal import principal_directions
from accous.ratio.base import RatioEstimator
from accous.streams import ConstantShift, SquareShift
from benchmarks.problems import table_parts
from benchmarks.wide_metrics import PERIOD, Pool, make_pools, make_stream, measure_errors

WIDTH = 200
SHIFTS = {"switches": SquareShift(period=PERIOD), "stands still": ConstantShift(0.9)}


class Emphasis(TransformerMixin, BaseEstimator):
    """Principal components of standardised columns times a power of their variance, none left out."""

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Learn the directions."""
        self.scaler_ = StandardScaler().fit(X)
        variances, directions = principal_directions(self.scaler_.transform(X))
        self.directions_ = directions.T * (variances / variances[0]) ** self.power
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Map rows."""
        return np.asarray(self.scaler_.transform(X) @ self.directions_)


MAPS: dict[str, Any] = {"standardize": "standardize", "principal": "principal", "square root": Emphasis()}
CLASSES = {"ensemble": OnlineDensityRatio, "single learner": SingleLearnerRatio}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=600, help="rounds of the streams (default 600)")
    parser.add_argument("--seeds", type=int, default=3, help="streams of each kind (default 3)")
    arguments = parser.parse_args()
    title = f"{WIDTH} columns, streams of {arguments.rounds} rounds, seeds: {arguments.seeds}"
    table = Table("rows", "stream", "model", *MAPS, title=title)
    with threadpool_limits(1):
        cells = [(rows, stream) for rows in pools() for stream in SHIFTS]
        for rows, stream in track(cells, console=Console(stderr=True), description="streams"):
            add_rows(table, rows, stream, arguments.rounds, arguments.seeds)
    Console(width=max(110, Console().width)).print(table)


@cache
def pools() -> dict[str, list[Pool]]:
    """Pairs of pools by what they are."""
    return {
        "parts among falling noise": make_pools(WIDTH),
        "parts among even noise": make_pools(WIDTH, power=0.0),
        "weak parts among falling noise": make_pools(WIDTH, strength=0.2),
        "weak parts among even noise": make_pools(WIDTH, strength=0.2, power=0.0),
        "gas sensors (128 columns)": table_parts("gas_sensor"),
    }


def add_rows(table: Table, rows: str, stream: str, n_rounds: int, n_seeds: int) -> None:
    """Measure one kind of stream and write its lines."""
    ratios: dict[str, RatioEstimator] = {
        f"{model}, {name}": cls(feature_map) for name, feature_map in MAPS.items() for model, cls in CLASSES.items()
    }
    streams = [make_stream(pools()[rows], SHIFTS[stream], n_rounds, seed) for seed in range(n_seeds)]
    found = [measure_errors(each, ratios) for each in streams]
    means = {name: np.mean([one[name] for one in found], axis=0) for name in found[0]}
    for bound in ("never adapting", "true ratio"):
        table.add_row(rows, stream, bound, as_text(means[bound]), "", "")
    for model in CLASSES:
        table.add_row(rows, stream, model, *(as_text(means[f"{model}, {name}"]) for name in MAPS))


def as_text(pair: FloatArray) -> str:
    """Error in %, and that of the ratio."""
    return f"{100 * pair[0]:.2f} ({pair[1]:.3f})"


if __name__ == "__main__":
    main()
