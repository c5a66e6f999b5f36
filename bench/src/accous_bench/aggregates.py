"""The data behind a report, small enough to commit: numbers of every seed, a few curves, their origin."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.exceptions import DataError
from accous_bench.problems import STUDIED

__all__ = [
    "MEASURES", "Aggregates", "CellKey", "Curve", "Outcome", "aggregate_rows", "cell_key", "compare",
    "curves_from_rows", "latest_outcomes", "learner_weights_from_rows", "merge", "outcome_from_row",
    "read_aggregates", "switching_period", "write_aggregates",
]  # fmt: skip

# Number of digits to keep, so that a report from rows and one from a file of aggregates are the same.
MEASURES = {
    "error": 6,
    "risk": 6,
    "estimator_loss": 4,
    "ratio_error": 4,
    "effective_sample_size": 4,
    "ratio_regret": 6,
    "cpu_seconds": 3,
}


class CellKey(NamedTuple):
    """What all contenders of a cell have in common; contenders are compared within a cell."""

    dataset: str
    n_reference: int
    batch_size: int
    shift: str
    protocol: str


@dataclass(frozen=True)
class Outcome:
    """The result of one contender on one stream.

    Attributes
    ----------
    key : CellKey
    contender : str
    seed : int
    n_rounds : int
        Requested number of rounds; a table in order of time may have had fewer.
    n_run : int
        Number of rounds that the stream had; 0 if unknown.
    n_predicted : int
        Number of rounds that the contender ran: fewer if it keeps nothing and ran a sample of them.
    is_done : bool
    reason : str or None
        Why the run failed.
    error, risk, estimator_loss, ratio_error, effective_sample_size, ratio_regret, cpu_seconds : float or None
        As in the benchmark's rows; None if unknown.
    spec : str
        The specification the run belongs to.
    finished : str
        Time of completion, as ISO 8601.
    """

    key: CellKey
    contender: str
    seed: int
    n_rounds: int
    n_run: int
    n_predicted: int
    is_done: bool
    reason: str | None
    error: float | None
    risk: float | None
    estimator_loss: float | None
    ratio_error: float | None
    effective_sample_size: float | None
    ratio_regret: float | None
    cpu_seconds: float | None
    spec: str
    finished: str

    @property
    def place(self) -> tuple[CellKey, str, int, int]:
        """The fields that identify the run."""
        return self.key, self.contender, self.seed, self.n_rounds

    @property
    def scores(self) -> tuple[float | None, ...]:
        """Every measure but the time that it took."""
        return tuple(getattr(self, name) for name in MEASURES if name != "cpu_seconds")


def cell_key(row: Mapping[str, Any]) -> CellKey:
    """The cell that a row of the benchmark belongs to."""
    return CellKey(
        dataset=str(row["dataset"]),
        n_reference=int(row.get("n_reference") or 0),
        batch_size=int(row["batch_size"]),
        shift=str(row["shift"]),
        protocol=str(row["protocol"]),
    )


def outcome_from_row(row: Mapping[str, Any]) -> Outcome:
    """Read a row of the benchmark; raise a DataError if it lacks the fields that identify a run."""
    try:
        key = cell_key(row)
        contender, seed = str(row["contender"]), int(row["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"A benchmark row has no usable dataset, shift, batch_size, contender or seed: {error}."
        ) from None
    measures = {name: _number(row.get(name), n_digits) for name, n_digits in MEASURES.items()}
    is_done, n_rounds = row.get("status") == "done", int(row.get("n_rounds") or 0)
    n_run = int(row.get("n_run") or math.ceil((row.get("n_rows") or 0) / key.batch_size))
    return Outcome(
        key=key,
        contender=contender,
        seed=seed,
        n_rounds=n_rounds,
        n_run=n_run,
        n_predicted=int(row.get("n_predicted") or n_run),
        is_done=is_done,
        reason=None if is_done else str(row.get("reason") or "no reason given"),
        spec=str(row.get("spec") or ""),
        finished=str(row.get("finished") or ""),
        **measures,
    )


def _number(value: Any, n_digits: int) -> float | None:
    """Return a finite number rounded to this many digits, or None for NaN, infinity and null."""
    if value is None:
        return None
    number = float(value)
    return float(f"{number:.{n_digits}g}") if math.isfinite(number) else None


def latest_outcomes(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Keep one run of each contender, seed and length in a cell: a finished one if there is one, then the latest."""
    kept: dict[tuple[CellKey, str, int, int], Outcome] = {}
    for outcome in outcomes:
        before = kept.get(outcome.place)
        if before is None or (outcome.is_done, outcome.finished) >= (before.is_done, before.finished):
            kept[outcome.place] = outcome
    return list(kept.values())


# --- curves of figures, averaged over seeds ---

SHOWN_ROUNDS = 1000
_SERIES = ("error", "risk", "estimator_loss")
_SWITCHED = ("accous", "Accous (paper)", "OLRE", "FIX", "oracle")
LEARNERS = ("accous", "Accous (paper)", "OLRE")
_DRIFT_POINTS, _SWITCH_POINTS, _WEIGHT_POINTS = 120, 500, 150
_LEAST_POINTS_A_STRETCH = 6
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Curve:
    """What a figure shows of one contender over time, averaged over seeds.

    Attributes
    ----------
    key : CellKey
    contender : str
    n_rounds, n_seeds : int
    period : int or None
        Number of rounds between two switches, if the shift has switches.
    rounds : list of int
        The last round of each block that was averaged over.
    series : dict of str to list
        ``error``, ``risk`` and ``estimator_loss``, if they are kept: a number or None for each block. Or ``weight`` of
        an ensemble's learners, a list for each block, with the ``length`` of their intervals, ascending, and their
        ``mean_weight``, each over the rounds in which it has a learner.
    """

    key: CellKey
    contender: str
    n_rounds: int
    n_seeds: int
    period: int | None
    rounds: list[int]
    series: dict[str, list[Any]]

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
        names = ("contender", "n_rounds", "n_seeds", "period", "round")
        series = {name: values for name, values in record.items() if name not in (*names, *CellKey._fields)}
        contender, n_rounds, n_seeds, period, rounds = (record[name] for name in names)
        return cls(cell_key(record), contender, n_rounds, n_seeds, period, rounds, series)


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


def learner_weights_from_rows(rows: Iterable[Row]) -> list[Curve]:
    """Keep the weights of the learners if they were recorded."""
    return [_mean_weights(group) for group in _groups(rows, "learner_weights").values()]


def _mean_weights(rows: list[Row]) -> Curve:
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
    series: dict[str, list[Any]] = {
        "length": [int(length) for length in lengths],
        "weight": [[round(float(weight), 3) for weight in row] for row in thinned],
        "mean_weight": [round(mean, 4) for mean in means],
    }
    names = (str(first["contender"]), int(first["n_rounds"]), len(rows), switching_period(first))
    return Curve(cell_key(first), *names, [int(rounds[end - 1]) for end in ends], series)


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


# --- all of it, and its file ---

_FORMAT = 2
_KIND = "accous benchmark aggregates"
_ORIGIN = ("versions", "commits", "machines", "settings", "dates")


@dataclass(frozen=True)
class Aggregates:
    """Everything a report needs.

    Attributes
    ----------
    outcomes : list of Outcome
    curves : list of Curve
        Errors over time, averaged over seeds, if a figure shows them.
    learner_weights : list of Curve
        Weights of the learners over time, averaged over seeds.
    provenance : dict of str to dict
        Of each contender: ``versions``, ``commits``, ``machines`` and ``settings``, with all values found; the first
        and last of ``dates``; ``repeated``, if some of its runs were: see `compare`.
    """

    outcomes: list[Outcome]
    curves: list[Curve] = field(default_factory=list)
    learner_weights: list[Curve] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)


def aggregate_rows(rows: Iterable[Mapping[str, Any]]) -> Aggregates:
    """Make aggregates from the rows of a benchmark.

    Parameters
    ----------
    rows : iterable of mappings
        As ``accous bench run`` writes them.

    Returns
    -------
    Aggregates
    """
    rows = list(rows)
    done = [row for row in rows if row.get("status") == "done"]
    return Aggregates(
        outcomes=latest_outcomes(outcome_from_row(row) for row in _with_reference_size(rows)),
        curves=curves_from_rows(done),
        learner_weights=learner_weights_from_rows(done),
        provenance=_merged(_provenance(row) for row in rows),
    )


def merge(parts: Iterable[Aggregates]) -> Aggregates:
    """Combine aggregates; if a run or curve occurs twice, the later one is kept, and so is where it comes from."""
    parts = list(parts)
    outcomes = latest_outcomes(outcome for part in parts for outcome in part.outcomes)
    kept = {id(outcome) for outcome in outcomes}
    curves = {curve.place: curve for part in parts for curve in part.curves}
    learner_weights = {curve.place: curve for part in parts for curve in part.learner_weights}
    return Aggregates(
        outcomes=outcomes,
        curves=list(curves.values()),
        learner_weights=list(learner_weights.values()),
        provenance=_merged(_still_used(part, kept) for part in parts),
    )


def _still_used(part: Aggregates, kept: set[int]) -> dict[str, dict[str, Any]]:
    """Return the origin of the contenders of which at least one run is kept."""
    used = {outcome.contender for outcome in part.outcomes if id(outcome) in kept}
    return {name: origin for name, origin in part.provenance.items() if name in used}


def compare(stored: Aggregates, repeated: Aggregates) -> Aggregates:
    """Return the stored aggregates with a note, ``repeated``, in the provenance of every contender of repeated runs.

    It has dates and commits, the number of ``runs``, how many gave the ``same`` scores in every digit that is kept, and
    the ``largest`` difference of an error. A DataError if one of the runs failed or is not stored.
    """
    before, provenance = {one.place: one for one in stored.outcomes if one.is_done}, dict(stored.provenance)
    for name, origin in repeated.provenance.items():
        again = [one for one in repeated.outcomes if one.contender == name]
        for one in again:
            if not one.is_done or one.place not in before:
                reason = one.reason or "there is no such run in the file"
                raise DataError(f"{name} on {one.key.dataset}, {one.key.shift}, seed {one.seed}: {reason}.")
        largest = max(abs((before[one.place].error or 0.0) - (one.error or 0.0)) for one in again)
        n_same = sum(before[one.place].scores == one.scores for one in again)
        note = {
            "dates": origin["dates"],
            "commits": origin["commits"],
            "runs": len(again),
            "same": n_same,
            "largest": float(f"{largest:.3g}"),
        }
        provenance[name] = provenance[name] | {"repeated": note}
    return replace(stored, provenance=provenance)


def _with_reference_size(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Fill in the reference size of failed runs from other runs of the same data set."""
    sizes = {row["dataset"]: row["n_reference"] for row in rows if row.get("dataset") and row.get("n_reference")}
    return [row if row.get("n_reference") else {**row, "n_reference": sizes.get(row.get("dataset"))} for row in rows]


def _provenance(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return where one run comes from; the seed, which differs between runs, is not part of the settings."""
    described = (row.get("settings") or {}).get("contender")
    versions = ", ".join(f"{name} {version}" for name, version in sorted((row.get("versions") or {}).items()))
    settings = _without_seed(described, row.get("seed"))
    found = zip(_ORIGIN, (versions, row.get("commit"), row.get("machine"), settings, row.get("finished")), strict=True)
    return {str(row["contender"]): {name: _distinct([value]) for name, value in found}}


def _without_seed(described: Any, seed: Any) -> str:
    if isinstance(described, dict):
        described = ", ".join(
            f"{name}={value}" if name else str(value)
            for name, value in described.items()
            if not name.endswith("random_state")
        )
    return str(described or "").replace(f"random_state={seed}", "random_state=seed")


def _distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value))


def _merged(parts: Iterable[Mapping[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return every value of each contender once, of its settings three at most."""
    merged: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, origin in part.items():
            merged[name] = _joined(merged[name], origin) if name in merged else origin
    return merged


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    joined = one | other | {name: _distinct([*one[name], *other[name]]) for name in _ORIGIN}
    dates = sorted(joined["dates"])
    return joined | {"settings": joined["settings"][:3], "dates": [*dates[:1], *dates[-1:]]}


def write_aggregates(aggregates: Aggregates, path: Path) -> None:
    """Write the aggregates as JSON, with one line per contender and cell."""
    cells = [
        _cell_record(key, list(group)) for key, group in groupby(_in_order(aggregates.outcomes), lambda one: one.key)
    ]
    parts = {
        "format": _FORMAT,
        "kind": _KIND,
        "provenance": aggregates.provenance,
        "cells": cells,
        "curves": [curve.as_record() for curve in aggregates.curves],
        "learner_weights": [curve.as_record() for curve in aggregates.learner_weights],
    }
    path.write_text(_compact_json(parts) + "\n", encoding="utf-8")


def _compact_json(parts: dict[str, Any]) -> str:
    """Write one line per list entry: the file is small, and a diff of two versions is readable."""
    lines = []
    for name, value in parts.items():
        if isinstance(value, list):
            entries = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            lines.append(f' "{name}": [\n{entries}\n ]' if value else f' "{name}": []')
        else:
            lines.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(lines) + "\n}"


def _in_order(outcomes: list[Outcome]) -> list[Outcome]:
    """Group outcomes by cell, and by contender within a cell, in order of first appearance."""
    cells: dict[CellKey, dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        cells.setdefault(outcome.key, {}).setdefault(outcome.contender, []).append(outcome)
    return [outcome for cell in cells.values() for group in cell.values() for outcome in group]


def _cell_record(key: CellKey, outcomes: list[Outcome]) -> dict[str, Any]:
    contenders = [_contender_record(name, list(group)) for name, group in groupby(outcomes, lambda one: one.contender)]
    return key._asdict() | {"contenders": contenders}


def _contender_record(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the runs of one contender as columns with one entry per run; shared values are written once."""
    record: dict[str, Any] = {
        "contender": name,
        "seed": [outcome.seed for outcome in outcomes],
        "n_rounds": _once([outcome.n_rounds for outcome in outcomes]),
        "n_run": _once([outcome.n_run for outcome in outcomes]),
        "n_predicted": _once([outcome.n_predicted for outcome in outcomes]),
        "spec": _once([outcome.spec for outcome in outcomes]),
        "finished": max(outcome.finished for outcome in outcomes),
    }
    for measure in MEASURES:
        values = [getattr(outcome, measure) for outcome in outcomes]
        if any(value is not None for value in values):
            record[measure] = values
    failures = {str(index): outcome.reason for index, outcome in enumerate(outcomes) if not outcome.is_done}
    return record | ({"failed": failures} if failures else {})


def _once(values: list[Any]) -> Any:
    return values[0] if len(Counter(values)) == 1 else values


def read_aggregates(path: Path) -> Aggregates:
    """Read what `write_aggregates` has written."""
    try:
        parts = json.loads(path.read_text(encoding="utf-8"))
        if parts.get("kind") != _KIND or parts.get("format") != _FORMAT:
            raise DataError(f"{path} holds no aggregates of format {_FORMAT}: create them with accous bench report.")
        return Aggregates(
            outcomes=[outcome for cell in parts["cells"] for outcome in _cell_outcomes(cell)],
            curves=[Curve.from_record(record) for record in parts["curves"]],
            learner_weights=[Curve.from_record(record) for record in parts["learner_weights"]],
            provenance=parts["provenance"],
        )
    except (AttributeError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path} cannot be read as aggregates of accous bench report: {error!r}.") from None


def _cell_outcomes(cell: dict[str, Any]) -> Iterable[Outcome]:
    for record in cell["contenders"]:
        failures = record.get("failed", {})
        for index, seed in enumerate(record["seed"]):
            row = {name: cell.get(name) for name in CellKey._fields}
            row |= {name: record[name][index] for name in MEASURES if name in record}
            row |= {name: _at(record[name], index) for name in ("n_rounds", "n_run", "spec", "finished")}
            row["n_predicted"] = _at(record.get("n_predicted"), index)
            reason = failures.get(str(index))
            status = "done" if reason is None else "failed"
            yield outcome_from_row(
                row | {"contender": record["contender"], "seed": seed, "status": status, "reason": reason}
            )


def _at(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) else values
