"""What labels are worth: a model that learns from them against refits by hand.

``python -m benchmarks.labels --play`` fits on the first 1,000 and 2,500 rows of every real stream of ``ACCOUS_DATA``,
thinned to 6,000 rows, steps through the rest in order of time, and gives the model random labels of each thousand rows,
at once or 2,000 rows later. It keeps the error on all rows of the stream beside (a) the same model without labels, (b)
boosted trees refitted by hand on the reference and the same labels, and (c) boosted trees on all labels of the last
2,000 rows, and how many rows intervals at 90 % and sets of classes held. Cases that are kept are not played again; all
take hours, the most telling come first. Without ``--play`` it writes the table of ``docs/trust.md``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import DataError
from accous.model.pair import make_trees
from accous.table.columns import Choices, ColumnEncoder, PlainColumns, places_of_categories
from accous.table.model import TableModel
from accous.threads import one_blas_thread
from benchmarks.data import NUMBER_STREAMS, STREAMS, read_stream
from benchmarks.pages import RESULTS, fill, keep, kept, markdown
from benchmarks.predictors import make_model

NAME = "labels"
WINDOW, BATCH, FEWEST_LATER, LAST, MOST_ROWS, OUTSIDE = 1_000, 100, 2_000, 2_000, 6_000, 0.1
CASES = [
    (size, budget, delay)
    for budget, delay in ((100, 0), (25, 0), (200, 0), (100, 2_000), (50, 0), (25, 2_000), (50, 2_000), (200, 2_000))
    for size in (1_000, 2_500)
]
"""Reference, labels of a thousand rows, and rows until they come; the most telling first."""


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
    seconds, inside = 0.0, []
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
        inside.append(_inside(model, X, y[first:last], has_numbers=has_numbers))
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
    rest = {"weight": 0.0 if model.state_.learning is None else model.state_.learning.weight, "seconds": seconds}
    return _errors(predicted, y[n:], has_numbers=has_numbers) | rest | {"cover": _cover(inside)}


def _errors(predicted: dict[str, list[Any]], y: Any, *, has_numbers: bool) -> dict[str, float]:
    found = {name: np.concatenate(parts) for name, parts in predicted.items() if parts}
    return {name: float(np.mean(np.abs(y - each) if has_numbers else y != each)) for name, each in found.items()}


def _cover(inside: list[Any]) -> float:
    """Return the share inside of the windows after the first, in which no label is known."""
    return float(np.nanmean(np.concatenate(inside[1:])))


def _inside(model: Any, X: Any, y: Any, *, has_numbers: bool) -> Any:
    """Return which true labels are inside the interval or the set; NaN where no interval is shown."""
    if has_numbers:
        try:
            low, high = model.predict_interval(X, OUTSIDE).T
        except DataError:
            return np.full(len(y), np.nan)
        return ((low <= y) & (y <= high)).astype(float)
    sets, classes = model.predict_set(X, OUTSIDE), model.classes_
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return (sets[np.arange(len(y)), places] & (classes[places] == y)).astype(float)


def read_frame(name: str) -> tuple[pl.DataFrame, Any]:
    """Return rows with named columns, and labels."""
    frame, y = read_stream(name, MOST_ROWS, as_numbers=name in NUMBER_STREAMS)
    if isinstance(frame, np.ndarray):
        frame = pl.DataFrame(frame, schema=[f"x{number}" for number in range(frame.shape[1])])
    return frame, y


def play_all(streams: Sequence[str]) -> None:
    """Play what is not kept yet."""
    known = {_key(row) for row in _rows()}
    for size, budget, delay in CASES:
        for name in streams:
            case = {"stream": name, "reference": size, "budget": budget, "delay": delay}
            if _key(case) in known:
                continue
            (frame, y), has_numbers = read_frame(name), name in NUMBER_STREAMS
            if len(y) < size + FEWEST_LATER or len(np.unique(y[:size])) < 2:
                continue
            with_all = (budget, delay) == (100, 0)
            found = play((frame, y), size, budget, delay, has_numbers=has_numbers, with_all=with_all)
            keep(NAME, [*_rows(), case | {each: round(value, 5) for each, value in found.items()}])
            print(case, found, flush=True)


def _rows() -> list[dict[str, Any]]:
    return kept(NAME) if (RESULTS / f"{NAME}.json").exists() else []


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["stream"], row["reference"], row["budget"], row["delay"]


def table() -> str:
    """Return by how much learning differs from (a), (b) and (c), and what intervals and sets held."""
    lines = []
    for budget, delay, has_numbers in product((25, 50, 100, 200), (0, 2_000), (False, True)):
        rows = [
            row
            for row in _rows()
            if (row["budget"], row["delay"], row["stream"] in NUMBER_STREAMS) == (budget, delay, has_numbers)
        ]
        if not rows:
            continue
        what = "numbers, %" if has_numbers else "classes, points"
        covers = [100.0 * row["cover"] for row in rows]
        above = [_above(rows, other, has_numbers=has_numbers) for other in "abc"]
        lines.append((what, budget, f"{delay:,}", len(rows), *above, f"{np.mean(covers):.0f} ({min(covers):.0f})"))
    headings = ("predicted", "labels of 1,000", "delay", "runs", "(a) never", "(b) by hand", "(c) all labels")
    return markdown((*headings, "inside, %"), lines)


def _above(rows: list[dict[str, Any]], other: str, *, has_numbers: bool) -> str:
    """Return the mean difference to another way, and the worst."""
    found = [
        (100.0 / row[other] if has_numbers else 100.0) * (row["labels"] - row[other]) for row in rows if other in row
    ]
    return f"{np.mean(found):+.1f} ({max(found):+.1f})" if found else "–"


def main() -> None:
    """Play if wanted, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", nargs="*", choices=list(STREAMS), metavar="STREAM", help="play these streams, or all")
    options = parser.parse_args()
    if options.play is not None:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            play_all(options.play or list(STREAMS))
    fill("trust.md", {"labels": table()})


if __name__ == "__main__":
    main()
