"""The data behind a report, small enough to commit: numbers of every seed, a few curves, their origin."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from accous.exceptions import DataError
from accous_bench.reporting.curves import Curve, WeightMap, curves_from_rows, weight_maps_from_rows
from accous_bench.reporting.outcomes import MEASURES, CellKey, Outcome, latest_outcomes, outcome_from_row

__all__ = ["Aggregates", "aggregate_rows", "merge", "read_aggregates", "write_aggregates"]

_FORMAT = 1
_KIND = "accous benchmark aggregates"


@dataclass(frozen=True)
class Aggregates:
    """Everything a report needs.

    Attributes
    ----------
    outcomes : list of Outcome
    curves : list of Curve
        Errors over time, averaged over seeds, if a figure shows them.
    weight_maps : list of WeightMap
        Weights of the learners over time, averaged over seeds.
    provenance : dict
        ``specs``, ``versions``, ``commits``, ``machines`` and ``settings``, with all values found; ``first``
        and ``last``, dates; ``superseded``, the number of finished runs replaced by a later run with the same names but
        other settings.
    """

    outcomes: list[Outcome]
    curves: list[Curve] = field(default_factory=list)
    weight_maps: list[WeightMap] = field(default_factory=list)
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
    outcomes = latest_outcomes(outcome_from_row(row) for row in _with_reference_size(rows))
    n_superseded = len(done) - sum(outcome.is_done for outcome in outcomes)
    return Aggregates(
        outcomes=outcomes,
        curves=curves_from_rows(done),
        weight_maps=weight_maps_from_rows(done),
        provenance=_provenance(rows) | {"superseded": n_superseded},
    )


def merge(parts: Iterable[Aggregates]) -> Aggregates:
    """Combine aggregates; if a run or curve occurs twice, the later one is kept."""
    parts = list(parts)
    curves = {curve.place: curve for part in parts for curve in part.curves}
    weight_maps = {weight_map.place: weight_map for part in parts for weight_map in part.weight_maps}
    return Aggregates(
        outcomes=latest_outcomes(outcome for part in parts for outcome in part.outcomes),
        curves=list(curves.values()),
        weight_maps=list(weight_maps.values()),
        provenance=_merged_provenance([part.provenance for part in parts]),
    )


def _with_reference_size(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Fill in the reference size of failed runs from other runs of the same data set."""
    sizes = {row["dataset"]: row["n_reference"] for row in rows if row.get("dataset") and row.get("n_reference")}
    return [row if row.get("n_reference") else {**row, "n_reference": sizes.get(row.get("dataset"))} for row in rows]


# --- where the numbers come from ---------------------------------------------------------------------------------


def _provenance(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    versions: dict[str, list[str]] = {}
    for row in rows:
        for name, version in (row.get("versions") or {}).items():
            versions.setdefault(name, []).append(str(version))
    dates = sorted(str(row["finished"]) for row in rows if row.get("finished"))
    return {
        "specs": _distinct(row.get("spec") for row in rows),
        "versions": {name: _distinct(values) for name, values in sorted(versions.items())},
        "commits": _distinct(row.get("commit") for row in rows),
        "machines": _distinct(row.get("machine") for row in rows),
        "first": dates[0] if dates else None,
        "last": dates[-1] if dates else None,
        "settings": _contender_settings(rows),
    }


def _contender_settings(rows: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the settings of each contender, without its seed, which differs between runs."""
    found: dict[str, list[str]] = {}
    for row in rows:
        described = (row.get("settings") or {}).get("contender")
        if described:
            found.setdefault(str(row["contender"]), []).append(_without_seed(described, row.get("seed")))
    return {name: _distinct(values)[:3] for name, values in found.items()}


def _without_seed(described: Any, seed: Any) -> str:
    if isinstance(described, dict):
        described = ", ".join(
            f"{name}={value}" if name else str(value)
            for name, value in described.items()
            if not name.endswith("random_state")
        )
    return str(described).replace(f"random_state={seed}", "random_state=seed")


def _distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value))


def _merged_provenance(parts: list[dict[str, Any]]) -> dict[str, Any]:
    firsts = sorted(part["first"] for part in parts if part.get("first"))
    lasts = sorted(part["last"] for part in parts if part.get("last"))
    merged: dict[str, Any] = {
        name: _distinct(value for part in parts for value in part.get(name, []))
        for name in ("specs", "commits", "machines")
    }
    for name in ("versions", "settings"):
        places = dict.fromkeys(place for part in parts for place in part.get(name, {}))
        merged[name] = {
            place: _distinct(value for part in parts for value in part.get(name, {}).get(place, [])) for place in places
        }
    merged["first"], merged["last"] = (firsts[0] if firsts else None), (lasts[-1] if lasts else None)
    merged["superseded"] = sum(part.get("superseded", 0) for part in parts)
    return merged


# --- as a file ---------------------------------------------------------------------------------------------------


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
        "learner_weights": [weight_map.as_record() for weight_map in aggregates.weight_maps],
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
        "n_played": _once([outcome.n_played for outcome in outcomes]),
        "n_predicted": _once([outcome.n_predicted for outcome in outcomes]),
        "spec": _once([outcome.spec for outcome in outcomes]),
        "finished": max(outcome.finished for outcome in outcomes),
    }
    for measure in MEASURES:
        values = [getattr(outcome, measure) for outcome in outcomes]
        if any(value is not None for value in values):
            record[measure] = values
    known = [outcome.error for outcome in outcomes if outcome.error is not None]
    if known:  # for readers of the file only; reading the file recomputes them
        record["mean_error"] = _rounded(float(np.mean(known)))
    if len(known) > 1:
        record["std_error"] = _rounded(float(np.std(known, ddof=1)))
    failures = {str(index): outcome.reason for index, outcome in enumerate(outcomes) if not outcome.is_done}
    return record | ({"failed": failures} if failures else {})


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


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
            weight_maps=[WeightMap.from_record(record) for record in parts["learner_weights"]],
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
            row |= {name: _at(record[name], index) for name in ("n_rounds", "n_played", "spec", "finished")}
            row["n_predicted"] = _at(record.get("n_predicted"), index)
            reason = failures.get(str(index))
            status = "done" if reason is None else "failed"
            yield outcome_from_row(
                row | {"contender": record["contender"], "seed": seed, "status": status, "reason": reason}
            )


def _at(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) else values
