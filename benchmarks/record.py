"""Write measurements to a file, together with the versions and the machine used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accous_bench.provenance import machine, versions

FOLDER = Path(__file__).parent / "results"


def write_results(name: str, rows: Any) -> Path:
    """Write rows, or several named lists of them, to ``benchmarks/results/<name>.json``."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({"measured_with": {**versions(), "machine": machine()}, "rows": rows}, indent=1) + "\n")
    return path.relative_to(FOLDER.parent.parent)
