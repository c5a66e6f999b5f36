"""CPU and wall seconds of short commands, each in a fresh process: what a person waits for before anything happens."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

__all__ = ["measure_commands"]

_N_REFERENCE, _N_STREAM, _N_COLUMNS = 500, 60, 5
# In this order: each finds what those before it have left.
COMMANDS = {
    "import accous": ["-c", "import accous"],
    "accous --help": ["-m", "accous", "--help"],
    "accous --version": ["-m", "accous", "--version"],
    "accous fit": ["-m", "accous", "fit", "reference.csv", "--label", "y", "-o", "model", "--force", "--quiet"],
    "accous adapt": ["-m", "accous", "adapt", "model", "stream.csv", "-o", "out.csv", "--new", "--force", "--quiet"],
    "accous inspect": ["-m", "accous", "inspect", "model"],
    "accous inspect --json": ["-m", "accous", "inspect", "model", "--json"],
}


def measure_commands(n_repeats: int) -> dict[str, float]:
    """Best CPU and wall seconds of every command, on 500 labelled and 60 unlabelled rows; the compiled loops cached."""
    rows: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        _write_tables(Path(folder))
        for name, arguments in COMMANDS.items():
            _seconds(arguments, folder)
            times = [_seconds(arguments, folder) for _ in range(n_repeats)]
            rows[f"{name}, CPU seconds"] = min(cpu for cpu, _ in times)
            rows[f"{name}, wall seconds"] = min(wall for _, wall in times)
    return rows


def _seconds(arguments: list[str], folder: str) -> tuple[float, float]:
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
    after, wall = os.times(), time.perf_counter() - start
    return after.children_user + after.children_system - before.children_user - before.children_system, wall


def _write_tables(folder: Path) -> None:
    random = np.random.default_rng(0)
    names = [f"x{number}" for number in range(_N_COLUMNS)]
    X = random.normal(size=(_N_REFERENCE + _N_STREAM, _N_COLUMNS))
    y = X[:, 0] + random.normal(size=len(X)) > 0.0
    reference = np.column_stack((X, y))[:_N_REFERENCE]
    np.savetxt(folder / "reference.csv", reference, "%.5f", ",", header=",".join([*names, "y"]), comments="")
    np.savetxt(folder / "stream.csv", X[_N_REFERENCE:], "%.5f", ",", header=",".join(names), comments="")
