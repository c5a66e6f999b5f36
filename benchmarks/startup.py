"""The cost before the first round, and whether two processes slow each other down.

It measures import times, short commands, the first use with an empty and with a filled cache of compiled loops, and the
rounds per second of two processes at once against one alone. Each is the best of several runs in fresh processes.
``--commands`` measures the commands alone.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.pages import keep

REPEATS = 7
IMPORTS = {
    "scikit-learn and numba": "import sklearn.linear_model, sklearn.preprocessing, numba",
    "accous": "import accous",
    "an estimator of accous": "from accous import AdaptiveClassifier",
}
# In this order: each finds what those before it have left.
COMMANDS = {
    "import accous": "-c 'import accous'",
    "accous --help": "-m accous --help",
    "accous --version": "-m accous --version",
    "accous fit": "-m accous fit reference.csv --label y -o model --force --quiet",
    "accous adapt": "-m accous adapt model stream.csv -o out.csv --new --force --quiet",
    "accous status": "-m accous status model",
    "accous status --json": "-m accous status model --json",
}
FIRST_USE = """
import numpy as np
from accous import AdaptiveClassifier
X = np.random.default_rng(0).normal(size=(200, 3))
model = AdaptiveClassifier(standardize=False, refit="always", adaptation="always").fit(X, X[:, 0] > X[:, 1])
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
model = AdaptiveClassifier(standardize=False, refit="always", adaptation="always").fit(X, y)
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


def measure_commands(n_repeats: int) -> dict[str, float]:
    """Best CPU and wall seconds of every command, on 500 labelled and 60 unlabelled rows; the compiled loops cached."""
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), n_reference=500, n_stream=60)
        for name, command in COMMANDS.items():
            _seconds(command, folder)
            times = [_seconds(command, folder) for _ in range(n_repeats)]
            rows[f"{name}, CPU seconds"] = min(cpu for cpu, _ in times)
            rows[f"{name}, wall seconds"] = min(wall for _, wall in times)
    return rows


def write_tables(folder: Path, n_reference: int, n_stream: int) -> None:
    """Write a reference and a stream of five columns."""
    random, names = np.random.default_rng(0), [f"x{number}" for number in range(5)]
    X = random.normal(size=(n_reference + n_stream, len(names)))
    y = X[:, 0] + random.normal(size=len(X)) > 0.0
    reference = np.column_stack((X, y))[:n_reference]
    np.savetxt(folder / "reference.csv", reference, "%.5f", ",", header=",".join([*names, "y"]), comments="")
    np.savetxt(folder / "stream.csv", X[n_reference:], "%.5f", ",", header=",".join(names), comments="")


def _seconds(command: str, folder: str) -> tuple[float, float]:
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *shlex.split(command)], cwd=folder, check=True, capture_output=True)
    after, wall = os.times(), time.perf_counter() - start
    return after.children_user + after.children_system - before.children_user - before.children_system, wall


def cpu_seconds(code: str, environment: dict[str, str] | None = None) -> float:
    """Return the CPU time of a fresh interpreter that runs the code, minus that of one that runs nothing."""
    timed, bare = (f"{each}\nimport time\nprint(time.process_time())" for each in (code, "pass"))
    return float(_run(timed, environment)) - float(_run(bare))


def run_together(n_processes: int) -> float:
    """Return the rounds per second of several processes that run at the same time, summed."""
    with ThreadPoolExecutor(n_processes) as pool:
        return sum(float(text) for text in pool.map(_run, [ROUNDS] * n_processes))


def _run(code: str, environment: dict[str, str] | None = None) -> str:
    command, settings = [sys.executable, "-c", code], os.environ | (environment or {})
    return subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.split()[-1]


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", action="store_true", help="measure only the commands, and keep nothing")
    is_short = parser.parse_args().commands
    rows = measure_commands(REPEATS)
    if not is_short:
        for name, code in IMPORTS.items():
            rows[f"import {name}, CPU seconds"] = min(cpu_seconds(code) for _ in range(REPEATS))
        with tempfile.TemporaryDirectory() as folder:
            cache = {"NUMBA_CACHE_DIR": folder}
            rows["first use, nothing compiled yet, CPU seconds"] = cpu_seconds(FIRST_USE, cache)
            rows["first use, from the cache, CPU seconds"] = min(cpu_seconds(FIRST_USE, cache) for _ in range(REPEATS))
        rows["rounds a second, one process"] = max(run_together(1) for _ in range(3))
        rows["rounds a second, two processes together"] = max(run_together(2) for _ in range(3))
        keep("startup", rows)
    for name, value in rows.items():
        print(f"{name}: {value:,.4g}")


if __name__ == "__main__":
    main()
