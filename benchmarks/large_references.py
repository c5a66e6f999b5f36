"""Large references: what ``max_reference`` costs in accuracy and gains in speed, and a million rows of 50 columns.

The Gaussian streams have exact risks and batches of five rows, and switch every 100 rounds. The capped runs see the
same stream as the uncapped one. The tables go to ``docs/performance.md``.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.streams import GaussianStream, SquareShift
from benchmarks.record import write_results

SIZES = (10_000, 100_000, 1_000_000)
CAPS = (1000, 10_000, None)
N_ROUNDS, BATCH_SIZE, PERIOD = 400, 5, 100
MILLION = (1_000_000, 50)
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- large references: begin -->", "<!-- large references: end -->"


def main() -> None:
    """Measure, print and save."""
    console = Console()
    jobs = [(n_reference, cap) for n_reference in SIZES for cap in CAPS if cap is None or cap < n_reference]
    rows = [measure_cap(*job) for job in track(jobs, "caps", console=console)]
    million = measure_million()
    console.print(f"Written to {write_results('large_references', {'caps': rows, 'million': million})}")
    write_page(rows, million)


def measure_cap(n_reference: int, cap: int | None) -> dict[str, Any]:
    """Return the mean risk over the stream, and the time of the rounds."""
    stream = GaussianStream(
        SquareShift(period=PERIOD), n_reference=n_reference, n_rounds=N_ROUNDS, batch_size=BATCH_SIZE
    )
    X, y = stream.reference()
    model = AdaptiveClassifier(
        ratio=OnlineDensityRatio(max_reference=cap, random_state=0), fallback="none", standardize=False
    ).fit(X, y)
    fixed = AdaptiveClassifier(ratio=NoShift(), standardize=False).fit(X, y)
    risks, seconds = [], []
    for batch in stream:
        risks.append(stream.risk(model, batch.alpha))
        start = time.process_time()
        model.adapt(batch.X)
        seconds.append(time.process_time() - start)
    return {
        "n_reference": n_reference,
        "max_reference": cap,
        "error": float(np.mean(risks)),
        "fixed_error": float(np.mean(stream.risk(fixed, stream.alphas))),
        "median_milliseconds": 1e3 * float(np.median(seconds)),
        "mean_milliseconds": 1e3 * float(np.mean(seconds)),
        "n_refits": model.n_refits_,
    }


def measure_million() -> dict[str, float]:
    """Return time and memory for a million rows of 50 columns, with gradients over 10,000 of them."""
    n_reference, n_features = MILLION
    stream = GaussianStream(SquareShift(period=20), n_features=n_features, n_reference=n_reference, n_rounds=60)
    X, y = stream.reference()
    start = time.process_time()
    model = AdaptiveClassifier(
        ratio=OnlineDensityRatio(max_reference=10_000, random_state=0), fallback="none", standardize=False
    ).fit(X, y)
    fit_seconds = time.process_time() - start
    quiet: list[float] = []
    refitting: list[float] = []
    for batch in stream:
        n_refits, start = model.n_refits_, time.process_time()
        model.adapt(batch.X)
        (quiet if model.n_refits_ == n_refits else refitting).append(time.process_time() - start)
    return {
        "fit_seconds": fit_seconds,
        "quiet_seconds": float(np.median(quiet)),
        "refit_seconds": float(np.median(refitting)),
        "n_refits": model.n_refits_,
        "peak_gibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def write_page(rows: list[dict[str, Any]], million: dict[str, float]) -> None:
    """Replace the text between the markers."""
    lines = ["| reference rows | `max_reference` | error, % | never adapting, % | ms a round, median (mean) | refits |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        cap = "all rows" if row["max_reference"] is None else f"{row['max_reference']:,}"
        lines.append(
            f"| {row['n_reference']:,} | {cap} | {100 * row['error']:.2f} | {100 * row['fixed_error']:.2f} | "
            f"{row['median_milliseconds']:.3g} ({row['mean_milliseconds']:.3g}) | {row['n_refits']} of {N_ROUNDS} |"
        )
    sentence = (
        f"A million rows of 50 columns, `max_reference=10_000`, one core: `fit` {million['fit_seconds']:.0f} s, "
        f"a round {1e3 * million['quiet_seconds']:.0f} ms, one with a refit {million['refit_seconds']:.1f} s "
        f"({million['n_refits']:.0f} of 60 rounds of one row), {million['peak_gibibytes']:.1f} GiB at the peak."
    )
    lines += ["", sentence]
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
