"""Rules by which ``--estimator auto`` could choose, compared on the runs that `benchmarks.estimators` has kept.

``python -m benchmarks.choice_rules`` reads the errors in four blocks of each reference and the errors of the predictors
that never adapt on the rest of the stream. It prints how far each rule is above the better one, on the streams that the
rule was chosen on and on the others. It fits nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.table.model import BOOSTING, LINEAR
from benchmarks.real_stream_tables import STREAMS

__all__ = ["RULES", "main"]

Rule = Callable[[FloatArray], bool]
"""Takes by how much linear is ahead in each block, and returns whether to take it."""


def _leads_by(leads: FloatArray, n_errors: float, weights: FloatArray | None = None) -> bool:
    """Whether linear is ahead by more than so many standard errors; fewer than none is how far it may be behind."""
    weights = np.ones(len(leads)) if weights is None else weights
    shares = weights / weights.sum()
    lead = float(shares @ leads)
    noise = np.sqrt(np.sum(shares**2 * (leads - lead) ** 2) * len(leads) / (len(leads) - 1))
    return lead > n_errors * noise if n_errors > 0.0 else lead >= n_errors * noise


RULES: dict[str, Rule] = {
    "linear if ahead in every block": lambda leads: bool((leads >= 0.0).all() and (leads > 0.0).any()),
    "linear unless behind": lambda leads: _leads_by(leads, 0.0),
    "linear unless behind by 1 standard error": lambda leads: _leads_by(leads, -1.0),
    "linear if ahead in the last block": lambda leads: bool(leads[-1] > 0.0),
    "linear if ahead by more than 1 standard error": lambda leads: _leads_by(leads, 1.0 + 1e-9),
    "linear if ahead by more than 1.25": lambda leads: _leads_by(leads, 1.25),
    "linear if ahead by more than 1.5 (auto)": lambda leads: _leads_by(leads, 1.5),
    "linear if ahead by more than 1.5, later blocks heavier": lambda leads: _leads_by(leads, 1.5, np.arange(1.0, 5.0)),
    "linear if ahead by more than 1.75": lambda leads: _leads_by(leads, 1.75),
    "linear if ahead by more than 2": lambda leads: _leads_by(leads, 2.0),
}


def main() -> None:
    """Print a line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/raw/estimators"))
    runs = _read(parser.parse_args().folder)
    print("| rule | " + " | ".join(f"{kind}: mean, largest, above 0.3" for kind in ("chosen", "checked")) + " |")
    print("|---|---|---|")
    for name, rule in RULES.items():
        print(f"| {name} | " + " | ".join(_line(runs, rule, is_chosen=each) for each in (True, False)) + " |")


def _read(folder: Path) -> list[dict[str, Any]]:
    """Return the runs of which both predictors are there."""
    runs = []
    for path in sorted(folder.glob(f"*-{LINEAR}-fixed.json")):
        other = path.with_name(path.name.replace(f"-{LINEAR}-", f"-{BOOSTING}-"))
        if not other.exists():
            continue
        pair: list[dict[str, Any]] = [json.loads(each.read_text()) for each in (path, other)]
        if all(pair):  # a stream that is too short leaves nothing
            blocks = [[block.mean() for block in np.array_split(cell["losses"], 4)] for cell in pair]
            errors = [100.0 * cell["errors"]["fixed"] for cell in pair]
            runs.append({"stream": pair[0]["stream"], "leads": np.subtract(blocks[1], blocks[0]), "errors": errors})
    return runs


def _line(runs: list[dict[str, Any]], rule: Rule, *, is_chosen: bool) -> str:
    above = [
        run["errors"][0 if rule(run["leads"]) else 1] - min(run["errors"])
        for run in runs
        if STREAMS[run["stream"]].is_chosen is is_chosen
    ]
    if not above:
        return ""
    return f"{np.mean(above):.1f}, {max(above):.1f}, {np.sum(np.array(above) > 0.3)} of {len(above)}"


if __name__ == "__main__":
    main()
