"""How often prediction sets hold the true class on real streams in order of time.

``python -m benchmarks.prediction_sets`` fits the linear model and boosted trees on the first 1,000 rows of each table
of real streams, thinned to 3,000 rows. It learns from the others in batches of 10. For every second batch it forms sets
at 90 % before, and every hundred rows it asks whether the reference covers the inputs. Gas sensors, census and power
supply, which are no tables, are not measured.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from accous.table.columns import Choices, ColumnEncoder
from accous.threads import one_blas_thread
from benchmarks.estimators import BATCH_SIZE, NAMES, maker_of
from benchmarks.real_stream_tables import STREAMS, read_stream
from benchmarks.record import write_results

__all__ = ["main", "measure", "page"]

N_REFERENCE = 1_000
MOST_ROWS = 3_000
BATCHES_BETWEEN_SETS = 2
BATCHES_BETWEEN_LOOKS = 10
LEVEL = 0.9


def measure(stream: str, name: str, n_reference: int = N_REFERENCE, most_rows: int = MOST_ROWS) -> Any:
    """Return coverage and size of the sets of one predictor; None if the reference has one class only."""
    rows, y = read_stream(stream, most_rows)
    n = n_reference
    if len(np.unique(y[:n])) < 2:
        return None
    frame = pl.DataFrame(rows, schema=[f"x{k}" for k in range(rows.shape[1])]) if isinstance(rows, np.ndarray) else rows
    begin = time.process_time()
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        encoder = ColumnEncoder.learn(frame[:n], Choices())
        X = encoder.encode(frame).X
        model = maker_of(name)(encoder).fit(X[:n], y[:n])
        found = list(_look_at(model, X, y, n))
    held, sizes, is_wrong, is_covered = (np.concatenate(part) for part in zip(*found, strict=True))
    return {
        "stream": stream,
        "predictor": name,
        "n_reference": n,
        "n_rows": len(held),
        "n_classes": len(model.classes_),
        "error": float(is_wrong.mean()),
        "all": _scores(held, sizes),
        "inputs_yes": _scores(held[is_covered], sizes[is_covered]),
        "cpu_seconds": round(time.process_time() - begin, 1),
    }


def _look_at(model: Any, X: Any, y: Any, n_reference: int) -> Iterator[tuple[Any, ...]]:
    """Play the stream, and yield for some batches which sets hold the true class, their sizes, errors and coverage."""
    is_covered = False
    for number, start in enumerate(range(n_reference, len(y), BATCH_SIZE)):
        rows, truths = X[start : start + BATCH_SIZE], y[start : start + BATCH_SIZE]
        if number % BATCHES_BETWEEN_LOOKS == 0:
            is_covered = model.trust_.inputs.answer == "yes"
        if number % BATCHES_BETWEEN_SETS == 0:
            sets = model.predict_set(rows, alpha=1.0 - LEVEL)
            held = (sets & (model.classes_ == truths[:, None])).any(axis=1)
            yield held, sets.sum(axis=1), model.predict(rows) != truths, np.full(len(rows), is_covered)
        model.adapt(rows)


def _scores(held: Any, sizes: Any) -> dict[str, Any]:
    """Return how many rows there are, which share of them has the true class in its set, and the mean size."""
    if not len(held):
        return {"n_rows": 0, "held": None, "classes_per_set": None}
    return {"n_rows": len(held), "held": float(held.mean()), "classes_per_set": float(sizes.mean())}


def page(found: list[dict[str, Any]]) -> str:
    """Return the table of ``docs/trust.md``."""
    columns = "error | true class held | classes per set | held where `inputs` is yes (of rows)"
    lines = [f"| stream | classes | linear: {columns} | boosting: {columns} |", "|---|" + "---:|" * 9]
    for stream in dict.fromkeys(row["stream"] for row in found):
        runs = [row for row in found if row["stream"] == stream]
        lines.append(" | ".join([f"| {stream}", str(runs[0]["n_classes"]), *map(_cells, runs)]) + " |")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> str:
    shown, yes = row["all"], row["inputs_yes"]
    share = f"{yes['held']:.0%} ({yes['n_rows'] / row['n_rows']:.0%})" if yes["n_rows"] else "– (0%)"
    return f"{row['error']:.0%} | {shown['held']:.0%} | {shown['classes_per_set']:.2f} | {share}"


def main() -> None:
    """Measure, print the table and write the record."""
    found = []
    for stream in (name for name, each in STREAMS.items() if each.label):
        for name in NAMES:
            row = measure(stream, name)
            if row is not None:
                found.append(row)
                print(row, flush=True)
    print(page(found))
    print(write_results("prediction_sets", found))


if __name__ == "__main__":
    main()
