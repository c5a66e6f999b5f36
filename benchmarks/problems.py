"""Streams for scoring ratio estimators: a reference, batches, and exact answers to compare with.

A stream mixes two parts, D' with weight 1 - alpha_t and D'' with weight alpha_t. On Gaussians the true ratio and
the risk of a linear model are known in closed form. On a table the parts are two disjoint pools of its rows; the
ratio follows from the mixture weights, and the risk is the error on all rows of the pools, weighted by alpha_t.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from accous.streams import (
    BernoulliShift,
    ConstantShift,
    GaussianStream,
    LinearShift,
    SineShift,
    SquareShift,
)

__all__ = [
    "SHIFTS",
    "TABLES",
    "GaussianProblem",
    "Problem",
    "TableProblem",
    "data_folder",
    "table_parts",
]

FloatArray = NDArray[np.float64]

ALPHA_0 = 0.9
# As fast as in a stream of 10,000 rounds, so that a shorter stream is a part of it.
SHIFTS = {
    "Lin": LinearShift(),
    "Squ": SquareShift(period=100),
    "Sin": SineShift(period=100),
    "Ber": BernoulliShift(flip=0.01),
    "none": ConstantShift(ALPHA_0),
}
TABLES = {
    "diabetes": "diabetes_pima.npz",
    "breast": "breast_wisconsin_original.npz",
    "gas_sensor": "gas_sensor_drift.npz",
    "acs_employment": "acs_employment_ma_2015_2018.npz",
    "powersupply": "powersupply.npz",
}
TABLE_ROWS = 6000


class Problem(Protocol):
    """One stream with its reference and its exact answers."""

    X: FloatArray
    y: NDArray[Any]
    alphas: FloatArray

    def batches(self) -> Iterator[FloatArray]:
        """Yield the rows of each round."""

    def component_risks(self, model: Any) -> tuple[float, float]:
        """Return the error of a fitted model under D' and under D''."""

    def true_ratio(self, alpha: float) -> FloatArray:
        """Return the true ratio of every reference row when D'' has weight alpha."""


class GaussianProblem:
    """The reconstructed Gaussian stream."""

    def __init__(
        self, shift: str, *, n_features: int, n_reference: int, batch_size: int, n_rounds: int, seed: int
    ) -> None:
        self.stream = GaussianStream(
            SHIFTS[shift],
            n_features=n_features,
            n_reference=n_reference,
            batch_size=batch_size,
            n_rounds=n_rounds,
            alpha_0=ALPHA_0,
            random_state=seed,
        )
        self.X, self.y = self.stream.reference()
        self.alphas = self.stream.alphas

    def batches(self) -> Iterator[FloatArray]:
        return (batch.X for batch in self.stream)

    def component_risks(self, model: Any) -> tuple[float, float]:
        return self.stream.component_risks(model)

    def true_ratio(self, alpha: float) -> FloatArray:
        return self.stream.true_ratio(self.X, alpha)


@dataclass
class _Pool:
    X: FloatArray
    y: NDArray[Any]


class TableProblem:
    """Rows of a table, split in two parts along their first principal component."""

    def __init__(self, table: str, shift: str, *, n_reference: int, batch_size: int, n_rounds: int, seed: int) -> None:
        X, y = _load_table(table)
        rng = np.random.default_rng([seed, 1])
        parts = [rng.permutation(part) for part in _split_in_two(X)]
        n_reference = min(n_reference, len(X) // 2)
        wanted = (n_reference - round(ALPHA_0 * n_reference), round(ALPHA_0 * n_reference))
        counts = [min(count, len(part) // 2) for count, part in zip(wanted, parts, strict=True)]
        in_reference = np.concatenate([part[:n] for part, n in zip(parts, counts, strict=True)])
        scaler = StandardScaler().fit(X[in_reference])
        self.X, self.y = scaler.transform(X[in_reference]), y[in_reference]
        self._alpha_0 = counts[1] / sum(counts)
        self._is_second = np.arange(sum(counts)) >= counts[0]
        rest = [part[n:] for part, n in zip(parts, counts, strict=True)]
        self._pools = [_Pool(scaler.transform(X[rows]), y[rows]) for rows in rest]
        self.alphas = SHIFTS[shift].alphas(n_rounds, np.random.default_rng([seed, 2]))
        self._batch_size, self._seed = batch_size, seed

    def batches(self) -> Iterator[FloatArray]:
        rng = np.random.default_rng([self._seed, 3])
        for alpha in self.alphas:
            is_second = rng.random(self._batch_size) < alpha
            places = rng.random(self._batch_size)
            yield np.stack(
                [
                    self._pools[int(second)].X[int(place * len(self._pools[int(second)].X))]
                    for second, place in zip(is_second, places, strict=True)
                ]
            )

    def component_risks(self, model: Any) -> tuple[float, float]:
        first, second = (float(np.mean(model.predict(pool.X) != pool.y)) for pool in self._pools)
        return first, second

    def true_ratio(self, alpha: float) -> FloatArray:
        return np.where(self._is_second, alpha / self._alpha_0, (1.0 - alpha) / (1.0 - self._alpha_0))


def data_folder() -> Path | None:
    """Return the folder with the tables, from the environment variable ACCOUS_DATA."""
    folder = os.environ.get("ACCOUS_DATA")
    return Path(folder) if folder else None


def table_parts(table: str) -> list[tuple[FloatArray, NDArray[Any]]]:
    """Return rows and labels of the two parts of a table."""
    X, y = _load_table(table)
    return [(X[rows], y[rows]) for rows in _split_in_two(X)]


def _load_table(table: str) -> tuple[FloatArray, NDArray[Any]]:
    folder = data_folder()
    if folder is None:
        raise SystemExit("Set ACCOUS_DATA to the folder with the tables.")
    with np.load(folder / TABLES[table], allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    # Two classes everywhere: with many small classes, the score would show the sample size, not the ratio.
    if table == "powersupply":
        y = ((y >= 7) & (y < 19)).astype(np.int64)  # day against night
    if table == "gas_sensor":
        y = (y <= 2).astype(np.int64)  # ethanol and ethylene against the other gases
    is_complete = np.isfinite(X).all(axis=1)
    X, y = X[is_complete], y[is_complete]
    chosen = np.random.default_rng(0).permutation(len(X))[:TABLE_ROWS]
    return X[chosen], y[chosen]


def _split_in_two(X: FloatArray) -> list[NDArray[np.intp]]:
    """Return the rows below and above the median of the first principal component of the standardised columns."""
    Z = StandardScaler().fit_transform(X)
    scores = Z @ np.linalg.svd(Z, full_matrices=False)[2][0]
    is_above = scores > np.median(scores)
    return [np.flatnonzero(~is_above), np.flatnonzero(is_above)]
