"""Write measurements to a file, together with the day, the commit, the versions and the machine used."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accous_bench.grid import commit, machine, versions

__all__ = ["FOLDER", "keep_row", "origin", "write_results"]

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


def keep_row(name: str, part: str, row: dict[str, Any]) -> None:
    """Add a row to a part of ``benchmarks/results/<name>.json``, in place of an earlier run of the same.

    Two rows are the same run if they differ in measured values only: a run with other seeds, rounds or contenders is
    a row of its own. Each row names the commit it was measured with, because a file grows over several.

    Parameters
    ----------
    name : str
        Name of the file.
    part : str
        Name of the list of rows in it.
    row : dict
        Settings, and dictionaries of measured values by contender.
    """
    path = FOLDER / f"{name}.json"
    rows: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())["rows"] if path.exists() else {}
    others = [one for one in rows.get(part, []) if run_of(one) != run_of(row)]
    rows[part] = [*others, row | {"commit": commit()}]
    write_results(name, rows)


def run_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return what makes a row a run of its own: its settings, and the names of what was measured."""
    return {
        name: sorted(value) if isinstance(value, dict) else value for name, value in row.items() if name != "commit"
    }
