"""What ``accous fit`` predicts against models that never adapt, and whether adaptation harms.

``python -m benchmarks.predictors`` writes the table of docs/defaults.md from what is kept; ``--play`` first plays what
is not kept yet, about an hour of processor time. `accous fit` gets the first 1,000, 2,500 or 4,000 rows of each real
stream of ``ACCOUS_DATA``, with and without the word that they are in order of time, and the rest follows without labels
in batches of 10. Beside it are its own linear model and trees, fitted once, their plain mean, and the default model of
Python. Of the spoken digits, half of the reference are women, then blocks of women and of men follow in turn.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.model.heldout import Combination, answers_of
from accous.model.predictors import sharing_fits
from accous.ratio.online import NoShift
from accous.table.columns import ColumnEncoder
from accous.table.fit import FitJob
from accous.table.model import make_estimator
from accous.table.options import FitOptions
from accous.threads import one_blas_thread
from benchmarks.data import BLOCKS, NUMBER_STREAMS, STREAMS, read_blocks, read_stream
from benchmarks.pages import RESULTS, fill, keep, kept, markdown

NAME = "predictors"
REFERENCES = (1_000, 2_500, 4_000)
MOST_ROWS, FEWEST_LATER = 6_000, 1_000
BATCH = 10
FIXED = ("linear", "boosting", "mean")
WORDS = ("told", "found")
"""Whether the order of the reference is told or has to be found."""
_LABEL = "the label"
Row = dict[str, Any]


def make_model(encoder: ColumnEncoder, *, has_numbers: bool) -> Any:
    """Return the model that ``accous fit`` makes for these columns."""
    kind = AdaptiveRegressor if has_numbers else AdaptiveClassifier
    name = "regressor" if has_numbers else "classifier"
    return kind(make_estimator("auto", kind=name, seed=0, blocks=encoder.blocks), standardize=False, random_state=0)


# --- play -------------------------------------------------------------------------------------------------------


def play(name: str, n_reference: int, most_rows: int = MOST_ROWS, *, has_numbers: bool) -> Row | None:
    """Return the error of each predictor on the rows after the reference; None if the stream is too short."""
    n, is_blocks = n_reference, name == BLOCKS
    frame, y = read_blocks(n) if is_blocks else read_stream(name, most_rows, as_numbers=has_numbers)
    if len(y) < n + FEWEST_LATER or len(np.unique(y[:n])) < 2:
        return None
    if isinstance(frame, np.ndarray):
        frame = pl.DataFrame(frame, schema=[f"x{number}" for number in range(frame.shape[1])])
    later, found = y[n:], {}

    def error(predicted: Any) -> float:
        # A file's classes are integers where all of them are.
        return float(np.mean(np.abs(later - predicted) if has_numbers else predicted.astype(str) != later.astype(str)))

    def follow(model: Any, X: Any, name: str) -> None:
        found[f"{name}, fixed"] = error(model.predict_fixed(X))
        found[name] = error(np.concatenate([model.step(X[row : row + BATCH]) for row in range(0, len(X), BATCH)]))

    with TemporaryDirectory() as folder, sharing_fits():
        for word in WORDS:
            job = _job(Path(folder), frame[:n], y[:n], is_told=word == "told", has_numbers=has_numbers)
            if word == "found" and job.is_ordered:  # the same model
                found |= {each.replace("told", word): found[each] for each in tuple(found) if "told" in each}
                break
            start = time.process_time()
            table, reference = job.fit_and_save(), job.reference
            found.setdefault("seconds", time.process_time() - start)
            X = table.encoder.encode(frame[n:]).X
            if word == "told":
                found["share"] = table.model.combination_.share
                found |= _errors_of_fixed(table.model, reference.X, y[:n], X, error)
            found[f"{word}, guard"] = table.model.rules_.guard.name
            follow(table.model, X, word)
            python = (AdaptiveRegressor if has_numbers else AdaptiveClassifier)()
            follow(python.fit(reference.X, y[:n], order=True if word == "told" else "auto"), X, f"Python, {word}")
    return found | {"order": str(job.reference.order.kind)}


def _job(folder: Path, frame: pl.DataFrame, y: Any, *, is_told: bool, has_numbers: bool) -> FitJob:
    """Return what ``accous fit`` does with a file of these rows."""
    path = folder / "reference.csv"
    frame.with_columns(pl.Series(_LABEL, y)).write_csv(path)
    task = "regression" if has_numbers else "classification"
    places = {"reference": str(path), "label": _LABEL, "output": folder / "model"}
    return FitJob(FitOptions(**places, task=task, ordered=is_told or None, force=True))


def _errors_of_fixed(model: Any, reference: Any, y: Any, X: Any, error: Callable[[Any], float]) -> dict[str, float]:
    """Return the errors of the two predictors and of their mean, which never adapt."""
    both = clone(model).set_params(ratio=NoShift()).fit_with(reference, y, order=False, combination=Combination(0.5))
    pair, classes = both.fixed_.estimator, getattr(both, "classes_", None)
    linear, trees = (answers_of(part, X, classes) for part in (pair.linear, pair.trees))
    answers = zip(FIXED, (linear, trees, 0.5 * (linear + trees)), strict=True)
    return {each: error(found if classes is None else classes[found.argmax(axis=1)]) for each, found in answers}


def play_all(streams: Sequence[str], references: Sequence[int]) -> None:
    """Play what is not kept yet."""
    known = {_case(row) for row in _rows()}
    for n, has_numbers, name in product(references, (False, True), streams):
        if (name, n, has_numbers) in known or (has_numbers and name not in NUMBER_STREAMS):
            continue
        found = play(name, n, has_numbers=has_numbers)
        if found is not None:
            keep(NAME, [*_rows(), {"stream": name, "reference": n, "has_numbers": has_numbers} | found])
            print(name, n, found, flush=True)


def _rows() -> list[Row]:
    return kept(NAME) if (RESULTS / f"{NAME}.json").exists() else []


def _case(row: Row) -> tuple[str, int, bool]:
    return row["stream"], row["reference"], row["has_numbers"]


# --- tables -----------------------------------------------------------------------------------------------------


def table() -> str:
    """Return how far the default is above the best of the three, and what adaptation costs."""
    headings = (
        "predicted",
        "rows",
        "runs",
        "above the best",
        "told",
        "found",
        "Python, told",
        "Python, found",
        "CPU s",
    )
    return markdown(headings, _lines())


def _lines() -> Iterator[tuple[object, ...]]:
    for has_numbers, n in product((False, True), REFERENCES):
        rows = [row for row in _rows() if (row["has_numbers"], row["reference"]) == (has_numbers, n)]
        if rows:
            best = [min(row[each] for each in FIXED) for row in rows]
            scale = 100.0 / np.array(best) if has_numbers else np.full(len(rows), 100.0)
            above = scale * ([row["told"] for row in rows] - np.array(best))
            harms = [
                scale * [row[each] - row[f"{each}, fixed"] for row in rows]
                for each in (*WORDS, *(f"Python, {word}" for word in WORDS))
            ]
            what = "numbers, %" if has_numbers else "classes, points"
            seconds = f"{np.median([row['seconds'] for row in rows]):.0f}"
            yield what, f"{n:,}", len(rows), f"{above.mean():.2f} ({above.max():.1f})", *map(_worst, harms), seconds


def _worst(harm: Any) -> str:
    return f"{harm.mean():+.2f} ({harm.max():+.2f})"


def main() -> None:
    """Play if wanted, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", nargs="*", choices=list(STREAMS), metavar="STREAM", help="play these streams, or all")
    parser.add_argument("--references", nargs="*", type=int, default=list(REFERENCES))
    options = parser.parse_args()
    if options.play is not None:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            play_all(options.play or list(STREAMS), options.references)
    fill("defaults.md", {NAME: table()})


if __name__ == "__main__":
    main()
