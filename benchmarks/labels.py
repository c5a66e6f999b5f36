"""What a hundred labels in a thousand rows are worth: a model that learns from them against refits by hand.

``python -m benchmarks.labels`` fits on the first 1,000 and 2,500 rows of every real stream of ``ACCOUS_DATA``, steps
through the rest in order of time, and gives the model random labels of each thousand rows, at once or 2,000 rows
later. It prints the error on all rows of the stream beside (a) the same model without labels, (b) boosted trees
refitted by hand on the reference and the same labels, and (c) boosted trees on all labels of the last 2,000 rows.
``--budgets 0 25 50 100 200 --delays 0 2000`` is the whole table, in about an hour.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from accous.model.pair import make_trees
from accous.table.columns import Choices, ColumnEncoder, PlainColumns, places_of_categories
from accous.table.model import TableModel
from accous.threads import one_blas_thread
from benchmarks.data import NUMBER_STREAMS, STREAMS, read_stream
from benchmarks.predictors import make_model

WINDOW, BATCH, FEWEST_LATER, LAST = 1_000, 100, 2_000, 2_000


def refit(frame: pl.DataFrame, y: Any, later: pl.DataFrame, *, has_numbers: bool) -> Any:
    """Return what boosted trees predict for later rows, with columns learned from the rows that they are fitted on."""
    if not has_numbers and len(np.unique(y)) < 2:
        return np.full(later.height, y[0])
    encoder = ColumnEncoder.learn(frame, Choices((), ()))
    columns, categories = PlainColumns(encoder.blocks), places_of_categories(encoder.blocks)
    X, Z = (columns.transform(encoder.encode(each).X) for each in (frame, later))
    return make_trees("regressor" if has_numbers else "classifier", 0, categories or None).fit(X, y).predict(Z)


def play(
    stream: tuple[pl.DataFrame, Any], n_reference: int, budget: int, delay: int, *, has_numbers: bool, with_all: bool
) -> dict[str, float]:
    """Return the errors on the rows after the reference."""
    (frame, y), n = stream, n_reference
    encoder = ColumnEncoder.learn(frame[:n], Choices((), ())).with_records(frame[:n])
    model = make_model(encoder, has_numbers=has_numbers).fit(encoder.encode(frame[:n]).X, y[:n], order=True)
    table = TableModel(model=model, encoder=encoder, label="y", settings={})
    random, pending, known = np.random.default_rng(7), [], np.zeros(0, dtype=np.int64)
    predicted: dict[str, list[Any]] = {"labels": [], "a": [], "b": [], "c": []}
    seconds = 0.0
    for first in range(n, len(y), WINDOW):
        last = min(first + WINDOW, len(y))
        window = frame[first:last]
        predicted["a"].append(model.predict_fixed(encoder.encode(window).X))
        reference = np.concatenate((np.arange(n), known))
        predicted["b"].append(refit(frame[reference], y[reference], window, has_numbers=has_numbers))
        if with_all:
            lately = np.arange(max(0, first - LAST), first)
            predicted["c"].append(refit(frame[lately], y[lately], window, has_numbers=has_numbers))
        X = table.encoder.encode(window).X
        predicted["labels"].append(
            np.concatenate([model.step(X[row : row + BATCH]) for row in range(0, len(X), BATCH)])
        )
        if budget:
            pending.append(first + np.sort(random.choice(last - first, min(budget, last - first), replace=False)))
        while pending and pending[0][0] // WINDOW * WINDOW + WINDOW + delay <= last:
            rows = pending.pop(0)
            known = np.concatenate((known, rows))
            start = time.process_time()
            table.observe(frame[rows], y[rows])
            seconds = max(seconds, time.process_time() - start)
    found = {name: np.concatenate(parts) for name, parts in predicted.items() if parts}
    errors = {name: np.abs(y[n:] - each) if has_numbers else y[n:] != each for name, each in found.items()}
    weight = 0.0 if model.state_.learning is None else model.state_.learning.weight
    return {name: float(each.mean()) for name, each in errors.items()} | {"weight": weight, "seconds": seconds}


def read_frame(name: str, most_rows: int) -> tuple[pl.DataFrame, Any]:
    """Return rows with named columns, and labels."""
    frame, y = read_stream(name, most_rows, as_numbers=name in NUMBER_STREAMS)
    if isinstance(frame, np.ndarray):
        frame = pl.DataFrame(frame, schema=[f"x{number}" for number in range(frame.shape[1])])
    return frame, y


def play_stream(name: str, options: argparse.Namespace) -> Iterator[tuple[tuple[bool, int, int], tuple[float, float]]]:
    """Print the rows of a stream; yield how far learning is above (a) and (b), with kind, budget and delay."""
    (frame, y), has_numbers = read_frame(name, options.rows), name in NUMBER_STREAMS
    sizes = [size for size in options.references if len(y) >= size + FEWEST_LATER and len(np.unique(y[:size])) > 1]
    cases = [(budget, delay) for budget in options.budgets for delay in (options.delays if budget else [0])]
    for size, (budget, delay) in product(sizes, cases):
        given = {"has_numbers": has_numbers, "with_all": not options.without_c}
        found = play((frame, y), size, budget, delay, **given)
        unit = 1.0 if has_numbers else 100.0
        shown = [f"{unit * found[each]:.4g}" if each in found else "" for each in ("a", "b", "c", "labels")]
        rest = f"{found['weight']:.2f} | {found['seconds']:.1f}"
        print(f"| {name} | {size:,} | {budget} | {delay:,} | {' | '.join(shown)} | {rest} |", flush=True)
        of_a, of_b = (100.0 / found[each] if has_numbers else 100.0 for each in "ab")
        yield (
            (has_numbers, budget, delay),
            (of_a * (found["labels"] - found["a"]), of_b * (found["labels"] - found["b"])),
        )


def main() -> None:
    """Print the table and what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--references", nargs="*", type=int, default=[1_000, 2_500])
    parser.add_argument("--budgets", nargs="*", type=int, default=[100])
    parser.add_argument("--delays", nargs="*", type=int, default=[0])
    parser.add_argument("--rows", type=int, default=8_000, help="rows of each stream, evenly thinned")
    parser.add_argument("--without-c", action="store_true")
    options = parser.parse_args()
    print(
        "| stream | rows | labels of 1,000 | delay | (a) never | (b) by hand | (c) all labels | learning | weight | s |"
    )
    print("|---" * 10 + "|")
    kinds: dict[tuple[bool, int, int], list[tuple[float, float]]] = {}
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        for name in options.streams:
            for case, above in play_stream(name, options):
                kinds.setdefault(case, []).append(above)
    for (has_numbers, budget, delay), rows in sorted(kinds.items()):
        (mean_a, mean_b), (worst_a, worst_b) = np.mean(rows, axis=0), np.max(rows, axis=0)
        what = "numbers, %" if has_numbers else "classes, points"
        print(
            f"\n{what}, {budget} labels, delay {delay:,}, {len(rows)} runs: against (a) mean {mean_a:+.2f}, worst "
            f"{worst_a:+.2f}; against (b) mean {mean_b:+.2f}, worst {worst_b:+.2f}"
        )


if __name__ == "__main__":
    main()
