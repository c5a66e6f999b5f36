"""The cost before the first round, and whether two processes slow each other down.

It measures import times, short commands, the first use with an empty and with a filled cache of compiled loops, and the
rounds per second of two processes at once against one alone. Each is the best of several runs in fresh processes.
``--commands`` measures the commands alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.progress import track

from benchmarks.record import write_results
from benchmarks.startup_commands import measure_commands

REPEATS = 7
IMPORTS = {
    "scikit-learn and numba": "import sklearn.linear_model, sklearn.preprocessing, numba",
    "accous": "import accous",
    "an estimator of accous": "from accous import AdaptiveClassifier",
}
FIRST_USE = """
import numpy as np
from accous import AdaptiveClassifier
X = np.random.default_rng(0).normal(size=(200, 3))
model = AdaptiveClassifier(standardize=False, refit="always", fallback="none").fit(X, X[:, 0] > X[:, 1])
for _ in range(9):
    model.adapt(X[:2])
    model.predict(X[:1])
"""
ROUNDS = """
import time
import numpy as np
from accous import AdaptiveClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 12))
y = X[:, 0] + rng.normal(size=1000) > 0
model = AdaptiveClassifier(standardize=False, refit="always", fallback="none").fit(X, y)
batches = rng.normal(0.3, size=(500, 1, 12))
for batch in batches:
    model.adapt(batch)
start, n_rounds = time.perf_counter(), 0
while time.perf_counter() - start < 2.0:
    for batch in batches:
        model.adapt(batch)
    n_rounds += len(batches)
print(n_rounds / (time.perf_counter() - start))
"""


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description="Measure what starting costs.")
    parser.add_argument("--commands", action="store_true", help="Measure only the commands, and save nothing.")
    console = Console()
    if parser.parse_args().commands:
        for name, value in measure_commands(REPEATS).items():
            console.print(f"{name}: {value:,.3g}")
        return
    rows: dict[str, float] = {}
    for name, code in track(IMPORTS.items(), "imports", console=console):
        rows[f"import {name}, CPU seconds"] = min(cpu_seconds(code) for _ in range(REPEATS))
    rows |= measure_commands(REPEATS)
    with tempfile.TemporaryDirectory() as folder:
        cache = {"NUMBA_CACHE_DIR": folder}
        rows["first use, nothing compiled yet, CPU seconds"] = cpu_seconds(FIRST_USE, cache)
        rows["first use, from the cache, CPU seconds"] = min(cpu_seconds(FIRST_USE, cache) for _ in range(REPEATS))
    rows["rounds a second, one process"] = max(sum(run_together(1)) for _ in range(3))
    rows["rounds a second, two processes together"] = max(sum(run_together(2)) for _ in range(3))
    for name, value in rows.items():
        console.print(f"{name}: {value:,.4g}")
    console.print(f"Written to {write_results('startup', rows)}")


def cpu_seconds(code: str, environment: dict[str, str] | None = None) -> float:
    """Return the CPU time of a fresh interpreter that runs the code, minus that of one that runs nothing."""
    return _cpu_seconds(code, environment or {}) - _cpu_seconds("pass", {})


def _cpu_seconds(code: str, environment: dict[str, str]) -> float:
    timed = f"{code}\nimport time\nprint(time.process_time())"
    return float(_run(timed, environment))


def run_together(n_processes: int) -> list[float]:
    """Return the rounds per second of each of several processes that run at the same time."""
    with ThreadPoolExecutor(n_processes) as pool:
        return [float(text) for text in pool.map(_run, [ROUNDS] * n_processes)]


def _run(code: str, environment: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-c", code]
    settings = os.environ | (environment or {})
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.split()[-1]


if __name__ == "__main__":
    main()
