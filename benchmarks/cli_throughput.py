"""The overhead of the command line: `accous adapt` on a CSV file against a plain loop on the same array.

Both process the same rounds of ten rows with twelve columns in one process, in turns, so that a busy machine slows down
both. The result is the quotient of their CPU times, less what the command takes for ten rows. The loop only predicts
and adapts. The command also reads, checks and prepares the rows, computes ratios and probabilities, writes them, keeps
a history and saves. Peak memory is measured in fresh processes on streams of different lengths.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

import polars as pl

from accous.cli import main as run_command
from accous.core.compiled import compile_all
from accous.streams import GaussianStream, SquareShift
from accous.table.model import load_table_model
from benchmarks.data import write_tables
from benchmarks.pages import keep

BATCH_SIZE = 10
PARTS = 4
PEAK = """
import re, sys
from pathlib import Path
from accous.cli import main
code = main(sys.argv[1:])
# Not getrusage: its peak includes what the parent used when it started this process.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
sys.exit(code)
"""


def write_parts(n_rows: int) -> None:
    """Write a reference and a stream, and the stream again in parts."""
    stream = GaussianStream(SquareShift(period=1000), n_rounds=n_rows // BATCH_SIZE, batch_size=BATCH_SIZE)
    rows = write_tables(Path(), stream)
    rows[:BATCH_SIZE].write_csv("few.csv")
    size = n_rows // PARTS
    for part in range(PARTS):
        rows[part * size : (part + 1) * size].write_csv(f"part-{part}.csv")


def fit(folder: str, estimator: str = "auto") -> None:
    """Fit a model, quietly."""
    command = ["fit", "reference.csv", "--label", "y", "-o", folder, "--estimator", estimator, "--quiet", "--json"]
    subprocess.run([sys.executable, "-m", "accous", *command], check=True, capture_output=True)


def compare(folder: str) -> dict[str, float]:
    """Return the CPU seconds of the plain loop, of the command over the same rounds and of the command for ten rows."""
    table_model = load_table_model(Path(folder))
    model = table_model.model
    assert run_command(["adapt", folder, "few.csv", "-o", f"{folder}-first.csv", "--quiet"]) == 0  # imports modules
    seconds = {"library": 0.0, "command": 0.0, "starting": 0.0}
    for part in range(PARTS):
        X = table_model.encoder.encode(pl.read_csv(f"part-{part}.csv", infer_schema=False)).X
        start = time.process_time()
        for first in range(0, len(X), BATCH_SIZE):
            batch = X[first : first + BATCH_SIZE]
            model.predict(batch)
            model.adapt(batch)
        seconds["library"] += time.process_time() - start
        for name, stream in (("command", f"part-{part}.csv"), ("starting", "few.csv")):
            start = time.process_time()
            assert run_command(["adapt", folder, stream, "-o", f"{folder}-{part}-{stream}", "--quiet"]) == 0
            seconds[name] += time.process_time() - start
    return seconds


def peak_megabytes(stream: str) -> float:
    """Return the peak memory of a fresh process that follows a stream."""
    fit(f"model-{stream}")
    command = [sys.executable, "-c", PEAK, "adapt", f"model-{stream}", stream, "-o", f"{stream}.out.csv", "--quiet"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(run.stdout.splitlines()[-1])  # after the result of the command


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="length of the stream (1,000,000)")
    n_rows = parser.parse_args().rows
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_parts(n_rows)
        compile_all()
        rows: dict[str, float] = {"rows": n_rows}
        for estimator in ("linear", "auto"):
            fit(estimator, estimator)
            seconds = compare(estimator)
            each = {name: 1e6 * value * BATCH_SIZE / n_rows for name, value in seconds.items()}
            rows[f"{estimator}: plain loop, microseconds a round"] = each["library"]
            rows[f"{estimator}: accous adapt, microseconds a round"] = each["command"] - each["starting"]
            rows[f"{estimator}: quotient"] = (each["command"] - each["starting"]) / each["library"]
        peaks = [peak_megabytes(stream) for stream in ("part-0.csv", "stream.csv")]
    rows |= {"peak megabytes, a quarter of the stream": peaks[0], "peak megabytes, the stream": peaks[1]}
    for name, value in rows.items():
        print(f"{name}: {value:,.4g}")
    keep("cli_throughput", rows)


if __name__ == "__main__":
    main()
