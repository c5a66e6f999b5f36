"""Which reading of what the paper leaves open fits its numbers best?

``python -m benchmarks.readings`` measures the paper's contenders (all but DANN) under every combination of

- the synthetic data: the published geometry, and angles of 45 to 90 degrees between the class directions; Lin that
  rises or falls; or the tables: one split or one for each seed, a reference of one part or of both,
- the protocol,
- the predictor: three penalties, and inputs that are scaled or not,
- the estimators: ours; kernels of width 1 whatever the data, and LR with a weak penalty; or KMM and LR
  without regularisation, or Accous with the paper's own step and radius as well.

It writes the errors to ``benchmarks/results/readings.json`` after every data set; `benchmarks.readings_page` compares
them with the paper. The streams have 4,000 rounds instead of 10,000, with switches as often as in 10,000. One pass over
a stream serves all protocols and predictors (`benchmarks.reading_scores`).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from statistics import fmean
from typing import Any

from accous.threads import one_blas_thread
from benchmarks.reading_data import SHIFTS, Gaussians, Halves
from benchmarks.reading_fit import ESTIMATORS, PaperCell
from benchmarks.reading_scores import Cell, Predictor, errors_in
from benchmarks.record import FOLDER, write_results

__all__ = ["PREDICTORS", "SYNTHETIC", "TABLES", "cells_of", "record_of"]

SYNTHETIC = (*(Gaussians(angle) for angle in (75.0, None, 60.0, 90.0, 45.0)), Gaussians(75.0, lin_falls=True))
TABLES = tuple(Halves(split, alpha_0) for split, alpha_0 in product(("fixed", "seed"), (0.9, 1.0)))
FAMILIES: dict[str, tuple[Gaussians | Halves, ...]] = {"synthetic": SYNTHETIC, "tables": TABLES}
PREDICTORS = (Predictor(), Predictor(0.01), Predictor(100.0), Predictor(is_scaled=True))
# All estimators where the geometry is a candidate for the paper's; elsewhere those that cost little.
_EVERY_ESTIMATOR = (Gaussians(75.0), Gaussians(None))
_EVERYWHERE = ("regularised", "unit width")

Errors = dict[tuple[Any, Predictor, str, str, PaperCell], list[float]]


def cells_of(data: Gaussians | Halves) -> list[PaperCell]:
    """Return the paper's cells that a data set can be compared in."""
    return [(dataset, shift, size) for (dataset, size), shift in product(data.datasets, SHIFTS)]


def names_for(data: Gaussians | Halves) -> list[str]:
    """Return the contenders that run on a data set."""
    chosen = ESTIMATORS if data in _EVERY_ESTIMATOR else _EVERYWHERE
    return list(dict.fromkeys(name for estimators in chosen for name in ESTIMATORS[estimators].values()))


def measure(data: Gaussians | Halves, n_rounds: int, every: int, seed: int, errors: Errors) -> None:
    """Add the errors of one seed."""
    for cell in cells_of(data):
        found = errors_in(data, Cell(*cell, n_rounds, seed), names_for(data), PREDICTORS, every)
        for (name, predictor, protocol), error in found.items():
            errors[data, predictor, protocol, name, cell].append(error)


def record_of(errors: Errors) -> Iterator[dict[str, Any]]:
    """Yield one row for each data set, predictor and protocol, with the errors of the contenders cell by cell."""
    for data, predictor, protocol in dict.fromkeys(key[:3] for key in errors):
        by_name = {
            name: [errors[data, predictor, protocol, name, cell] for cell in cells_of(data)] for name in names_for(data)
        }
        yield {
            **asdict(data),
            **asdict(predictor),
            "protocol": protocol,
            "n_seeds": len(by_name["FIX"][0]),
            "cells": [", ".join(map(str, cell)) for cell in cells_of(data)],
            "errors": {name: [round(fmean(seeds), 3) for seeds in cells] for name, cells in by_name.items()},
        }


def search(families: Sequence[str], n_seeds: int, n_rounds: int, every: int) -> None:
    """Measure families of data sets, one seed after the other, and write what there is after each data set.

    A family that is not measured now keeps the rows that it has.
    """
    rows: dict[str, Any] = {**_kept(n_rounds, every), "n_rounds": n_rounds, "score_every": every}
    for family in families:
        errors: Errors = defaultdict(list)
        # Seed 0 is for looking: the width 1 was tried on it, and its split is the one that fixed splits have.
        for seed, data in product(range(1, n_seeds + 1), FAMILIES[family]):
            measure(data, n_rounds, every, seed, errors)
            rows[family] = list(record_of(errors))
            write_results("readings", rows)
            print(data, "seed", seed, flush=True)


def _kept(n_rounds: int, every: int) -> dict[str, Any]:
    """Return the rows of the present record if it is about streams of this length; otherwise none."""
    none: dict[str, Any] = {family: [] for family in FAMILIES}
    file = FOLDER / "readings.json"
    if not file.is_file():
        return none
    rows: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows if (rows["n_rounds"], rows["score_every"]) == (n_rounds, every) else none


def main() -> None:
    """Measure all readings and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4000, help="rounds of each stream (default 4000)")
    parser.add_argument("--every", type=int, default=20, help="score one round of so many (default 20)")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds (default 2)")
    parser.add_argument("--only", choices=FAMILIES, help="the synthetic data or the tables (default both)")
    given = parser.parse_args()
    with one_blas_thread():
        search([given.only] if given.only else [*FAMILIES], given.seeds, given.rounds, given.every)


if __name__ == "__main__":
    main()
