"""Write measurements to a file, together with the day, the commit, the versions and the machine used."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accous_bench.provenance import commit, machine, versions

__all__ = ["FOLDER", "origin", "write_results"]

FOLDER = Path(__file__).parent / "results"


def origin() -> dict[str, str | None]:
    """Return what a measurement was made with: today's date, the commit, the versions and the machine."""
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), **versions(), "machine": machine()}


def write_results(name: str, rows: Any) -> Path:
    """Write rows, or several named lists of them, to ``benchmarks/results/<name>.json``."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({"measured_with": origin(), "rows": rows}, indent=1) + "\n")
    return path.relative_to(FOLDER.parent.parent)
