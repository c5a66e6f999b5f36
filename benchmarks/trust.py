"""Every figure of docs/trust.md. Run ``python -m benchmarks.trust`` for all parts, or name some of them.

The parts are harm (what the fallback saves and costs), insights (label-free risk, prediction sets, audits), tables (the
risk on tables), cbpe (the risk beside NannyML's method), drift (events beside ADWIN and an MMD test) and verdicts. Each
part replaces its rows in ``benchmarks/results/trust.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.problems import SHIFTS, data_folder
from benchmarks.record import FOLDER, write_results
from benchmarks.trust_cbpe import cbpe_row, measure_cbpe
from benchmarks.trust_drift import CASES, DETECTORS, drift_row
from benchmarks.trust_harm import HarmCase, harm_row, measure_excess
from benchmarks.trust_risk import Setting, insight_row, measure_insights, measure_table_risks, table_row
from benchmarks.trust_verdicts import DISTANCES, SHIFT_NAMES, SIZES, away_row, measure_verdicts, verdict_rows

Row = dict[str, Any]
TABLE_NAMES = ("diabetes", "breast", "acs_employment", "powersupply")
console = Console(width=190)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="parts to measure (default: all)")
    parser.add_argument("--references", type=int, default=100, help="independent references per shift (default 100)")
    parser.add_argument("--splits", type=int, default=20, help="splits per stream of the part harm (default 20)")
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split of harm (default 0)")
    parser.add_argument("--rounds", type=int, default=800, help="rounds of each stream of the part harm (default 800)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    arguments = parser.parse_args()
    for part in arguments.parts or PARTS:
        rows = PARTS[part](arguments)
        print_rows(part, rows)
        console.print(f"Written to {write_part(part, rows)}")


def measure_harm(arguments: argparse.Namespace) -> list[Row]:
    """Measure the excess over the fixed model, without and with the fallback."""
    sizes = {"batch_size": 1, "n_rounds": arguments.rounds}
    cases = [HarmCase("gauss", shift, n, **sizes) for n in (1000, 300) for shift in SHIFTS]
    if data_folder() is not None:
        cases += [HarmCase(table, shift, 1000, **sizes) for table in TABLE_NAMES for shift in ("none", "Squ")]
    splits = range(arguments.first_split, arguments.first_split + arguments.splits)
    found = run(measure_excess, list(itertools.product(cases, splits)), arguments.jobs, "harm")
    return [harm_row(case, [found[case, split] for split in splits]) for case in cases]


def measure_insight_rows(arguments: argparse.Namespace) -> list[Row]:
    """Measure the coverage of risks and sets, and the level and power of audits."""
    n_few = max(2, arguments.references // 3)
    counts = {Setting(shift): arguments.references for shift in SHIFTS}
    counts |= {Setting("Squ", n_reference=n): n_few for n in (300, 3000)} | {Setting("Squ", batch_size=5): n_few}
    cases = [(setting, seed) for setting, count in counts.items() for seed in range(count)]
    found = run(measure_insights, cases, arguments.jobs, "insights")
    return [insight_row(setting, [found[setting, seed] for seed in range(n)]) for setting, n in counts.items()]


def measure_table_rows(arguments: argparse.Namespace) -> list[Row]:
    """Measure the coverage of risks on tables."""
    if data_folder() is None:
        return []
    n_references, groups = max(2, arguments.references // 5), list(itertools.product(TABLE_NAMES, ("none", "Squ")))
    cases = [(*group, 300, seed) for group in groups for seed in range(n_references)]
    found = run(measure_table_risks, cases, arguments.jobs, "tables")
    return [table_row(*group, [found[*group, 300, seed] for seed in range(n_references)]) for group in groups]


def measure_drift(arguments: argparse.Namespace) -> list[Row]:
    """Measure false alarms and delays."""
    n_references = max(2, arguments.references // 5)
    cases = [(detector, case, 1, n_references) for detector in DETECTORS for case in CASES]
    return list(run(drift_row, cases, arguments.jobs, "drift").values())


def measure_verdict_rows(arguments: argparse.Namespace) -> list[Row]:
    """Measure harm by evidence and verdict."""
    n_references = max(2, arguments.references // 12)
    cases = list(itertools.product(SHIFT_NAMES, SIZES, range(n_references)))
    found = run(measure_verdicts, cases, arguments.jobs, "verdicts")
    away = run(away_row, [(distance, n_references) for distance in DISTANCES], arguments.jobs, "far away")
    return [*verdict_rows(list(itertools.chain.from_iterable(found.values()))), *away.values()]


def measure_cbpe_rows(arguments: argparse.Namespace) -> list[Row]:
    """Measure the label-free risk beside CBPE."""
    n_references = max(2, arguments.references // 5)
    found = run(measure_cbpe, list(itertools.product(SHIFTS, range(n_references))), arguments.jobs, "cbpe")
    return [cbpe_row(shift, [found[shift, seed] for seed in range(n_references)]) for shift in SHIFTS]


PARTS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "harm": measure_harm,
    "insights": measure_insight_rows,
    "tables": measure_table_rows,
    "cbpe": measure_cbpe_rows,
    "drift": measure_drift,
    "verdicts": measure_verdict_rows,
}


def run(measure: Callable[..., Any], cases: list[tuple[Any, ...]], n_jobs: int, title: str) -> dict[Any, Any]:
    """Measure all cases, in several processes."""
    jobs: Iterable[Any] = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(measure)(*case) for case in cases)
    return dict(zip(cases, track(jobs, title, total=len(cases), console=console), strict=True))


def print_rows(part: str, rows: list[Row]) -> None:
    """Print one table for all rows with the same measures."""
    for names, same in itertools.groupby(rows, key=tuple):
        group = list(same)
        table = Table(title=part, show_header=False)
        # One line per measure, because they do not all fit side by side.
        for name in names:
            table.add_row(name.replace("_", " "), *(_text(row[name]) for row in group))
        console.print(table)


def _text(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)


def write_part(part: str, rows: list[Row]) -> Any:
    """Replace one part's rows."""
    path = FOLDER / "trust.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else {}
    return write_results("trust", before | {part: rows})


if __name__ == "__main__":
    main()
