"""The curves for figures, averaged over seeds and reduced to the resolution of a figure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous_bench.problem import STUDIED
from accous_bench.reporting.outcomes import CellKey, cell_key

__all__ = ["Curve", "WeightMap", "curves_from_rows", "switching_period", "weight_maps_from_rows"]

SHOWN_ROUNDS = 1000
_SERIES = ("error", "risk", "estimator_loss")
_SWITCHED = ("Accous", "Accous (ensemble only)", "OLRE", "FIX", "oracle")
LEARNERS = ("Accous", "Accous (ensemble only)", "OLRE")
_DRIFT_POINTS, _SWITCH_POINTS, _WEIGHT_POINTS = 120, 500, 150
_LEAST_POINTS_A_STRETCH = 6

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Curve:
    """Errors of one contender over time, averaged over seeds.

    Attributes
    ----------
    key : CellKey
    contender : str
    n_rounds, n_seeds : int
    period : int or None
        Number of rounds between two switches, if the shift has switches.
    rounds : list of int
        The last round of each block that was averaged over.
    series : dict of str to list of (float or None)
        ``error``, ``risk`` and ``estimator_loss``, if they are kept.
    """

    key: CellKey
    contender: str
    n_rounds: int
    n_seeds: int
    period: int | None
    rounds: list[int]
    series: dict[str, list[float | None]]

    @property
    def place(self) -> tuple[CellKey, str, int]:
        """The fields that identify the curve."""
        return self.key, self.contender, self.n_rounds

    def values(self, name: str) -> FloatArray | None:
        """Return a series as an array, with NaN for unknown values; None if there is no such series."""
        return np.array(self.series[name], dtype=float) if name in self.series else None

    def as_record(self) -> dict[str, Any]:
        """For a JSON file."""
        names = {"contender": self.contender, "n_rounds": self.n_rounds, "n_seeds": self.n_seeds, "period": self.period}
        return self.key._asdict() | names | {"round": self.rounds} | self.series

    @classmethod
    def from_record(cls, record: Row) -> Curve:
        """From a JSON file."""
        series = {name: record[name] for name in _SERIES if name in record}
        names = (record["contender"], record["n_rounds"], record["n_seeds"], record["period"], record["round"])
        return cls(cell_key(record), *names, series)


@dataclass(frozen=True)
class WeightMap:
    """Weights of an ensemble's learners by the length of their interval, over time, averaged over seeds.

    Attributes
    ----------
    key : CellKey
    contender : str
    n_rounds, n_seeds : int
    period : int or None
    rounds : list of int
        Last round of each block.
    lengths : list of int
        Ascending.
    weights : list of list of float
        One list per round, with one entry per length.
    mean_weights : list of float
        Mean weight of each length, over the rounds in which it has a learner.
    """

    key: CellKey
    contender: str
    n_rounds: int
    n_seeds: int
    period: int | None
    rounds: list[int]
    lengths: list[int]
    weights: list[list[float]]
    mean_weights: list[float]

    @property
    def place(self) -> tuple[CellKey, str, int]:
        """The fields that identify the map."""
        return self.key, self.contender, self.n_rounds

    def as_record(self) -> dict[str, Any]:
        """For a JSON file."""
        names = {"contender": self.contender, "n_rounds": self.n_rounds, "n_seeds": self.n_seeds, "period": self.period}
        weights = {
            "round": self.rounds,
            "length": self.lengths,
            "weight": self.weights,
            "mean_weight": self.mean_weights,
        }
        return self.key._asdict() | names | weights

    @classmethod
    def from_record(cls, record: Row) -> WeightMap:
        """From a JSON file."""
        names = (record["contender"], record["n_rounds"], record["n_seeds"], record["period"], record["round"])
        return cls(cell_key(record), *names, record["length"], record["weight"], record["mean_weight"])


def switching_period(row: Row) -> int | None:
    """Return the rounds between switches (Squ) or waves (Sin): the stream's setting, or sqrt(T) rounded."""
    if row["shift"] not in ("Squ", "Sin", *STUDIED):
        return None
    given = re.search(r"period=(\d+)", str((row.get("settings") or {}).get("stream", "")))
    return int(given[1]) if given else max(1, round(float(row["n_rounds"]) ** 0.5))


def curves_from_rows(rows: Iterable[Row]) -> list[Curve]:
    """Keep the curves of naturally drifting streams, and of square shifts if their resolution is high enough."""
    curves = (_mean_curve(group) for group in _groups(rows, "curve").values())
    return [curve for curve in curves if curve is not None]


def _mean_curve(rows: list[Row]) -> Curve | None:
    first, rounds, rows = _with_common_rounds(rows, "curve")
    key, period = cell_key(first), switching_period(first)
    known = {name: _mean_series([row["curve"].get(name) for row in rows]) for name in _SERIES}
    if key.shift == "natural":
        shown, names = slice(None), ["error"]
        n_points = _DRIFT_POINTS
    elif key.shift == "Squ" and first["contender"] in _SWITCHED and _is_fine_enough(rounds, period):
        shown = slice(int(np.searchsorted(rounds, rounds[-1] - SHOWN_ROUNDS, side="right")), None)
        names = ["error" if known["risk"] is None else "risk"]
        names += ["estimator_loss"] if first["contender"] in LEARNERS else []
        n_points = _SWITCH_POINTS
    else:
        return None
    series = {name: _thinned(values[shown], n_points) for name in names if (values := known[name]) is not None}
    if not series:
        return None
    ends = _block_ends(len(rounds[shown]), n_points)
    kept_rounds = [int(rounds[shown][end - 1]) for end in ends]
    return Curve(key, str(first["contender"]), int(first["n_rounds"]), len(rows), period, kept_rounds, series)


def _is_fine_enough(rounds: FloatArray, period: int | None) -> bool:
    return period is not None and len(rounds) * period >= _LEAST_POINTS_A_STRETCH * rounds[-1]


def weight_maps_from_rows(rows: Iterable[Row]) -> list[WeightMap]:
    """Keep the weights of the learners if they were recorded."""
    return [_mean_weights(group) for group in _groups(rows, "learner_weights").values()]


def _mean_weights(rows: list[Row]) -> WeightMap:
    first, rounds, rows = _with_common_rounds(rows, "learner_weights")
    lengths = sorted({length for row in rows for length in row["learner_weights"]["length"]})
    weights = np.zeros((len(rounds), len(lengths)))
    for row in rows:
        columns = [lengths.index(length) for length in row["learner_weights"]["length"]]
        weights[:, columns] += np.array(row["learner_weights"]["weight"], dtype=float) / len(rows)
    # An interval of length n begins in round n for the first time.
    means = [_mean_or_zero(weights[rounds >= length, column]) for column, length in enumerate(lengths)]
    ends = _block_ends(len(rounds), _WEIGHT_POINTS)
    thinned = np.add.reduceat(weights, np.r_[0, ends[:-1]]) / np.diff(np.r_[0, ends])[:, None]
    return WeightMap(
        key=cell_key(first),
        contender=str(first["contender"]),
        n_rounds=int(first["n_rounds"]),
        n_seeds=len(rows),
        period=switching_period(first),
        rounds=[int(rounds[end - 1]) for end in ends],
        lengths=[int(length) for length in lengths],
        weights=[[round(float(weight), 3) for weight in row] for row in thinned],
        mean_weights=[round(mean, 4) for mean in means],
    )


def _mean_or_zero(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _groups(rows: Iterable[Row], field: str) -> dict[tuple[CellKey, str, int], list[Row]]:
    """Group the rows that have this field by cell, contender and length of the stream."""
    groups: dict[tuple[CellKey, str, int], list[Row]] = {}
    for row in rows:
        if row.get(field) and row[field].get("round"):
            groups.setdefault((cell_key(row), str(row["contender"]), int(row["n_rounds"])), []).append(row)
    return groups


def _with_common_rounds(rows: list[Row], field: str) -> tuple[Row, FloatArray, list[Row]]:
    """Return the rows with the most common number of points, one per seed, and the mean rounds of the points.

    Tables in order of time differ a little in length from seed to seed, and so do the rounds of their points.
    """
    sizes = Counter(len(row[field]["round"]) for row in rows)
    usual = max(sizes, key=lambda size: (sizes[size], size))
    kept = list({row["seed"]: row for row in rows if len(row[field]["round"]) == usual}.values())
    rounds: FloatArray = np.round(np.array([row[field]["round"] for row in kept], dtype=float).mean(axis=0))
    return kept[0], rounds, kept


def _mean_series(several: Sequence[Sequence[float | None] | None]) -> FloatArray | None:
    known = [np.array(values, dtype=float) for values in several if values is not None]
    if not known:
        return None
    return _mean_of_known(np.array(known), axis=0)


def _mean_of_known(values: FloatArray, axis: int) -> FloatArray:
    """Return the mean without NaN values; NaN if there are no other values."""
    is_known = ~np.isnan(values)
    counts = is_known.sum(axis=axis)
    sums = np.where(is_known, values, 0.0).sum(axis=axis)
    return np.asarray(np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=counts > 0))


def _block_ends(n_values: int, n_points: int) -> list[int]:
    n_blocks = min(n_values, n_points)
    return [round((block + 1) * n_values / n_blocks) for block in range(n_blocks)]


def _thinned(values: FloatArray, n_points: int) -> list[float | None]:
    """Return the means of blocks of values, rounded to four digits."""
    ends = _block_ends(len(values), n_points)
    starts = [0, *ends[:-1]]
    means = [float(_mean_of_known(values[start:end], axis=0)) for start, end in zip(starts, ends, strict=True)]
    return [None if np.isnan(mean) else float(f"{mean:.4g}") for mean in means]
