"""What each part of the pool is worth: ablations from the paper's ensemble to the default.

``python -m benchmarks.pool`` measures everything; ``--only`` names parts:

- headline: Gaussian streams with 12 columns, 1,000 reference rows and 1 or 5 rows a round; 10,000 rounds
- gaussian: one of columns (2, 64), reference rows (300, 10,000) and rows a round (50) changed; ``--full`` has all 27
- regimes: three and six regimes, and a weekly cycle
- tables: four tables whose two halves take turns
- streams: nineteen real streams in order of time, without and with the order made known to ``fit``
- images: features of a frozen network (needs the extra ``deep`` and the images)

Tables and streams need ``ACCOUS_DATA``. Every case is written to ``benchmarks/results/pool.json`` as soon as it is
finished, in place of an earlier run of the same case with the same seeds, rounds and arms.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from accous_bench.contenders import LIMIT, ORACLE
from benchmarks.limit import FIX, MOVING, seed_numbers
from benchmarks.pool_arms import ARMS, Arm
from benchmarks.pool_cases import Case, GaussianCase, ImageCase, RegimeCase, StreamCase, TableCase
from benchmarks.pool_regimes import KINDS
from benchmarks.problems import data_folder
from benchmarks.real_stream_tables import STREAMS
from benchmarks.record import keep_row

__all__ = ["PARTS", "cases_of", "main", "markdown", "measure"]

Row = dict[str, Any]
BASE = (12, 1000, 1)
FEATURES, REFERENCES, BATCHES = (2, 12, 64), (300, 1000, 10_000), (1, 5, 50)
TABLE_NAMES = ("diabetes", "breast", "acs_employment", "gas_sensor")


def headline(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the streams of the headline figures."""
    n_rounds = options.rounds or 10_000
    for batch_size, shift in product((1, 5), (*MOVING, "none")):
        yield GaussianCase(shift, *BASE[:2], batch_size, n_rounds)


def gaussian(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the other Gaussian streams."""
    sizes = list(product(FEATURES, REFERENCES, BATCHES))
    if not options.full:
        sizes = [one for one in sizes if sum(size != base for size, base in zip(one, BASE, strict=True)) == 1]
    for each, shift in product(sizes, MOVING):
        if options.full or each != (*BASE[:2], 5):
            yield GaussianCase(shift, *each, options.rounds or 3_000)


def regimes(options: argparse.Namespace) -> Iterator[Case]:
    """Yield streams of more than two regimes."""
    for kind, batch_size in product(KINDS, (1, 5)):
        yield RegimeCase(kind, batch_size, options.rounds or 3_000)


def tables(options: argparse.Namespace) -> Iterator[Case]:
    """Yield tables in two parts, if the data are there."""
    for table, shift in product(TABLE_NAMES, ("none", "Squ")) if data_folder() else ():
        yield TableCase(table, shift, options.rounds or 800)


def streams(options: argparse.Namespace) -> Iterator[Case]:
    """Yield real streams, if the data are there."""
    for is_ordered, stream in product((False, True), STREAMS) if data_folder() else ():
        yield StreamCase(stream, is_ordered, most_rows=2_000 if options.quick else 12_000)


def images(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the stream of images, if the data are there."""
    if data_folder():
        yield ImageCase(options.rounds or 400)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Case]]] = {
    "headline": headline,
    "gaussian": gaussian,
    "regimes": regimes,
    "tables": tables,
    "streams": streams,
    "images": images,
}
# Seeds of the headline were not used to choose any constant. A real stream is the same for every seed.
SEEDS = {"headline": "40-44", "gaussian": "40-42", "regimes": "40-42", "tables": "40-59", "streams": "0", "images": "0"}


def cases_of(part: str, options: argparse.Namespace) -> list[Case]:
    """Return the cases of a part that ``--match`` selects."""
    return [case for case in PARTS[part](options) if options.match in case.label]


def measure(case: Case, arms: Sequence[Arm], seeds: Sequence[int], n_jobs: int = 1) -> Row:
    """Return means over seeds, and the standard error of each arm's difference from FIX."""
    found = Parallel(n_jobs=n_jobs)(delayed(case.errors)(arms, seed) for seed in seeds)
    row: Row = {"case": case.label, **vars(case), "seeds": list(seeds), "errors": {}, "standard_errors": {}}
    for name in found[0]:
        differences = np.array([one[name] - one[FIX] for one in found])
        row["errors"][name] = float(np.mean([one[name] for one in found]))
        if len(found) > 1:
            row["standard_errors"][name] = float(differences.std(ddof=1) / np.sqrt(len(found)))
    return row


def markdown(rows: Sequence[Row]) -> str:
    """Return a table: errors in %, and the share of FIX to limit, or else to oracle, that each arm closes."""
    bound = next((name for name in (LIMIT, ORACLE) if all(name in row["errors"] for row in rows)), None)
    names = [FIX, *([bound] if bound else []), *(arm.name for arm in ARMS)]
    names = [name for name in names if any(name in row["errors"] for row in rows)]
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    lines += [f"| {row['case']} | {' | '.join(_cell(row, name, bound) for name in names)} |" for row in rows]
    return "\n".join(lines)


def _cell(row: Row, name: str, bound: str | None) -> str:
    errors = row["errors"]
    if name not in errors:
        return ""
    gap = errors[FIX] - errors[bound] if bound else 0.0
    if name in (FIX, bound) or gap < 0.05:
        return f"{errors[name]:.2f}"
    return f"{errors[name]:.2f} ({100.0 * (errors[FIX] - errors[name]) / gap:.0f})"


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS), help="parts (default: all)")
    parser.add_argument("--match", default="", help="only cases whose name contains this text")
    parser.add_argument("--arms", nargs="*", default=[arm.name for arm in ARMS], help="arms by name (default: all)")
    parser.add_argument("--seeds", help="first and last seed, such as 40-44 (default: by part)")
    parser.add_argument("--rounds", type=int, help="rounds of each stream (default: by part)")
    parser.add_argument("--full", action="store_true", help="all 27 sizes of Gaussian streams")
    parser.add_argument("--quick", action="store_true", help="300 rounds and one seed, to see that everything runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seeds = options.rounds or 300, options.seeds or "40"
    arms = [arm for arm in ARMS if arm.name in options.arms]
    for part in options.only:
        rows: list[Row] = []
        for case in cases_of(part, options):
            print(f"{part}: {case.label}", flush=True)
            row = measure(case, arms, seed_numbers(options.seeds or SEEDS[part]), options.jobs)
            rows.append(row)
            if not options.quick:
                keep_row("pool", part, row)
        if rows:
            print(f"\n{part}: error in % (share of the way from FIX to the bound, %)\n\n{markdown(rows)}\n", flush=True)


if __name__ == "__main__":
    main()
