"""Where measurements are written, with what they were measured with."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import accous

FOLDER = Path(__file__).parent / "results"


def write_results(name: str, rows: Any) -> Path:
    """Write rows, or several named lists of them, to ``benchmarks/results/<name>.json``."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({"measured_with": provenance(), "rows": rows}, indent=1) + "\n")
    return path.relative_to(FOLDER.parent.parent)


def provenance() -> dict[str, str]:
    """Versions and kind of machine."""
    return {
        "accous": accous.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": platform.machine(),
    }
