"""What a step of DANN may leave out: 128 rows of the reference in a step against all 1,000.

``python -m benchmarks.dann_steps`` plays both versions on the same batches of the synthetic stream under Squ, with the
same first network, and compares what training is about: the class loss on the whole reference, how far the mean
features of reference and batch are apart, and the error on fresh rows of the round. It prints the table of
``docs/benchmark.md`` and writes ``benchmarks/results/dann_steps.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from accous.streams import GaussianStream, SquareShift
from accous.threads import one_blas_thread
from accous_bench.dann import DANN
from accous_bench.scores import scored_rounds
from benchmarks.record import write_results

__all__ = ["compare", "play", "table"]

ROWS_IN_A_STEP = (1000, 128)
MEASURES = ("class_loss", "feature_distance", "error")


def play(batch_size: int, n_rows: int, seed: int, n_rounds: int, every: int) -> dict[str, float]:
    """Return the means of the measures over the rounds that are played, and the median processor time of a round."""
    stream = GaussianStream(SquareShift(period=100), n_rounds=n_rounds, batch_size=batch_size, random_state=seed)
    model = DANN(max_rows_per_step=n_rows, random_state=seed).fit(*stream.reference())
    is_played = scored_rounds(n_rounds, every, seed)
    found, milliseconds = [], []
    for batch, fresh in zip(stream, stream.fresh_batches(), strict=True):
        if is_played[batch.round - 1]:
            started = time.process_time_ns()
            model.adapt(batch.X)
            milliseconds.append((time.process_time_ns() - started) / 1e6)
            found.append(_measures(model, batch.X, fresh))
    means = dict(zip(MEASURES, np.mean(found, axis=0).tolist(), strict=True))
    return {**means, "milliseconds": float(np.median(milliseconds))}


def _measures(model: DANN, X_batch: Any, fresh: Any) -> tuple[float, float, float]:
    network = model.network_
    loss = log_loss(model.labels_, network.predict_proba(model.reference_))
    of_reference, of_batch = (
        network.features(rows).mean(axis=0) for rows in (model.reference_, model.standardize_.transform(X_batch))
    )
    error = np.mean(model.predict(fresh.X) != fresh.y)
    return loss, float(np.linalg.norm(of_reference - of_batch)), float(error)


def compare(batch_sizes: Sequence[int], seeds: Sequence[int], n_rounds: int, every: int) -> list[dict[str, Any]]:
    """Return a row for each batch size and number of rows in a step, with the values of every seed."""
    rows = []
    for batch_size, n_rows in product(batch_sizes, ROWS_IN_A_STEP):
        runs = [play(batch_size, n_rows, seed, n_rounds, every) for seed in seeds]
        values = {name: [run[name] for run in runs] for name in (*MEASURES, "milliseconds")}
        rows.append({"batch_size": batch_size, "n_rows": n_rows, **values})
    return rows


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table: means over the seeds, and the paired difference with its standard error."""
    lines = [
        "| | class loss | distance of mean features | error on fresh rows, % | median ms of processor time |",
        "|---|---:|---:|---:|---:|",
    ]
    for whole, part in zip(rows[::2], rows[1::2], strict=True):
        for row in (whole, part):
            means = [np.mean(row[name]) for name in (*MEASURES, "milliseconds")]
            words = f"{means[0]:.4f} | {means[1]:.3f} | {100 * means[2]:.2f} | {means[3]:.1f}"
            lines.append(f"| N_t = {row['batch_size']}, {row['n_rows']:,} rows | {words} |")
        changes = [np.array(part[name]) - np.array(whole[name]) for name in MEASURES]
        factors = zip(changes, (1.0, 1.0, 100.0), (4, 3, 2), strict=True)
        words = " | ".join(_change(factor * change, digits) for change, factor, digits in factors)
        lines.append(f"| N_t = {whole['batch_size']}, difference | {words} | |")
    return lines


def _change(values: Any, digits: int) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():+.{digits}f} ± {error:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def main() -> None:
    """Measure, write the record and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument("--rounds", type=int, default=2000, help="rounds of each stream (default 2000)")
    parser.add_argument("--every", type=int, default=20, help="play one round of so many (default 20)")
    given = parser.parse_args()
    with one_blas_thread():
        rows = compare((1, 5), range(given.seeds), given.rounds, given.every)
    write_results("dann_steps", {"n_rounds": given.rounds, "every": given.every, "runs": rows})
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
