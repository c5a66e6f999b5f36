"""Errors of the fixed model on real streams, with and without ``standardize``, on numeric columns as recorded.

``python -m benchmarks.standardized_inputs`` fits on the first 300, 1,000 and 4,000 rows and scores the rest of the
stream. Missing numbers become the median of the reference. Counters, times and leaks are left out, as in
`benchmarks.real_stream_tables`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from accous import AdaptiveClassifier
from accous.arrays import FloatArray
from benchmarks.real_stream_tables import STREAMS, read_stream

__all__ = ["main", "measure"]

SIZES = (300, 1_000, 4_000)
_MOST_ROWS = 12_000


def measure(stream: str, n_reference: int) -> tuple[float, float] | None:
    """Return the errors with standardised columns and with columns as they are; None if the stream is too short."""
    rows, y = read_stream(stream, _MOST_ROWS)
    if len(y) < n_reference + 1_000 or len(np.unique(y[:n_reference])) < 2:
        return None
    X = _numbers(rows, n_reference)
    errors = []
    for standardize in (True, False):
        model = AdaptiveClassifier(standardize=standardize).fit(X[:n_reference], y[:n_reference])
        errors.append(float(np.mean(model.predict_fixed(X[n_reference:]) != y[n_reference:])))
    return errors[0], errors[1]


def _numbers(rows: Any, n_reference: int) -> FloatArray:
    """Return the numeric columns, with missing values filled in."""
    if isinstance(rows, np.ndarray):
        return rows
    numbers = rows.select(cs.numeric().cast(pl.Float64))
    medians = numbers.head(n_reference).median()
    return np.ascontiguousarray(
        numbers.with_columns(pl.col(name).fill_null(medians[name].item() or 0.0) for name in numbers.columns).to_numpy()
    )


def main() -> None:
    """Print a row of a table for each stream with classes of its own."""
    print("| stream | 300 rows | 1,000 rows | 4,000 rows |\n|---|---|---|---|")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, stream in STREAMS.items():
            if stream.is_split:
                continue
            found = [measure(name, n_reference) for n_reference in SIZES]
            cells = ["" if each is None else f"{100 * each[0]:.1f} / {100 * each[1]:.1f}" for each in found]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
