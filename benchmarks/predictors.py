"""What ``accous fit`` predicts against models that never adapt, and whether adaptation harms.

``python -m benchmarks.predictors`` writes the table of docs/defaults.md from what is kept; ``--run`` first runs what
is not kept yet: what never adapts, some minutes, and then adaptation, nearly an hour of processor time. `accous fit`
gets the first 1,000, 2,500 or 4,000 rows of each real stream of ``ACCOUS_DATA``. Its default is compared with its own
linear model, its own trees and their plain mean; then the rest follows without labels in batches of 10, with and
without the word that the rows are in order of time, beside the default model of Python. Of the spoken digits, half of
the reference are women, then blocks of women and of men follow in turn.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.model.heldout import Combination, answers_of
from accous.model.order import OrderKind
from accous.model.predictors import sharing_fits
from accous.ratio.online import NoShift
from accous.table.columns import ColumnEncoder
from accous.table.fit import FitJob
from accous.table.model import make_estimator
from accous.table.options import FitOptions
from accous.threads import one_blas_thread
from benchmarks.data import BLOCKS, NUMBER_STREAMS, STREAMS, read_blocks, read_stream
from benchmarks.pages import RESULTS, fill, keep_part, kept, markdown

NAME = "predictors"
REFERENCES = (1_000, 2_500, 4_000)
MOST_ROWS, FEWEST_LATER = 6_000, 1_000
BATCH = 10
FIXED = ("linear", "boosting", "mean")
WORDS = ("told", "found")
"""Whether the order of the reference is told or has to be found."""
HARMS = (*WORDS, "Python, told", "Python, found")
PARTS = ("fixed", "adapted")
_LABEL = "the label"
Row = dict[str, Any]


def make_model(encoder: ColumnEncoder, *, has_numbers: bool) -> Any:
    """Return the model that ``accous fit`` makes for these columns."""
    kind = AdaptiveRegressor if has_numbers else AdaptiveClassifier
    name = "regressor" if has_numbers else "classifier"
    return kind(make_estimator("auto", kind=name, seed=0, blocks=encoder.blocks), standardize=False, random_state=0)


# --- run -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The first rows of a stream as the file that ``accous fit`` gets, and the rows that follow."""

    frame: pl.DataFrame
    y: Any
    n_reference: int
    has_numbers: bool

    @classmethod
    def read(cls, name: str, n: int, most_rows: int = MOST_ROWS, *, has_numbers: bool) -> Case | None:
        """Read a stream; None if it is too short or starts with a single class."""
        is_blocks = name == BLOCKS
        frame, y = read_blocks(n) if is_blocks else read_stream(name, most_rows, as_numbers=has_numbers)
        if len(y) < n + FEWEST_LATER or len(np.unique(y[:n])) < 2:
            return None
        if isinstance(frame, np.ndarray):
            frame = pl.DataFrame(frame, schema=[f"x{number}" for number in range(frame.shape[1])])
        return cls(frame, y, n, has_numbers)

    def error(self, predicted: Any) -> float:
        """Return the error of predictions of the rows that follow."""
        later = self.y[self.n_reference :]
        if self.has_numbers:
            return float(np.mean(np.abs(later - predicted)))
        # A file's classes are integers where all of them are.
        return float(np.mean(predicted.astype(str) != later.astype(str)))

    def job(self, folder: str, *, is_told: bool) -> tuple[FitJob, Any]:
        """Return what ``accous fit`` does with the file, and the rows that follow as it encodes them."""
        path, n = Path(folder) / "reference.csv", self.n_reference
        self.frame[:n].with_columns(pl.Series(_LABEL, self.y[:n])).write_csv(path)
        options = FitOptions(
            reference=str(path),
            label=_LABEL,
            output=Path(folder) / "model",
            task="regression" if self.has_numbers else "classification",
            ordered=is_told or None,
            force=True,
        )
        job = FitJob(options)
        return job, job.reference.encoder.encode(self.frame[n:]).X


def run_fixed(case: Case) -> Row:
    """Return the errors of the two predictors, of their mean and of the default, none of which adapts."""
    with TemporaryDirectory() as folder, sharing_fits():
        job, X = case.job(folder, is_told=True)
        job.hold_out()
        chosen = job.combination or Combination()
        model = make_model(job.reference.encoder, has_numbers=case.has_numbers).set_params(ratio=NoShift())
        model.fit_with(job.reference.X, job.reference.y, order=False, combination=Combination(0.5))
    pair, classes = model.fixed_.estimator, getattr(model, "classes_", None)
    linear, trees = (answers_of(part, X, classes) for part in (pair.linear, pair.trees))
    both = (linear, trees, 0.5 * (linear + trees), chosen.mixed(linear, trees))
    found = zip((*FIXED, "default"), both, strict=True)
    errors = {each: case.error(one if classes is None else classes[one.argmax(axis=1)]) for each, one in found}
    return errors | {"share": chosen.share}


def run_adapted(case: Case) -> Row:
    """Return how much larger the error becomes by adaptation, of the default and of the default in Python."""
    found: Row = {}

    def follow(model: Any, X: Any) -> float:
        steps = np.concatenate([model.step(X[row : row + BATCH]) for row in range(0, len(X), BATCH)])
        return case.error(steps) - case.error(model.predict_fixed(X))

    with TemporaryDirectory() as folder, sharing_fits():
        for word in WORDS:
            job, X = case.job(folder, is_told=word == "told")
            if word == "found" and job.reference.order.kind is OrderKind.FOUND:  # the same models
                return found | {each.replace("told", word): value for each, value in found.items()}
            start = time.process_time()
            model = job.fit_and_save().model
            found.setdefault("seconds", time.process_time() - start)
            found[f"guard, {word}"] = model.rules_.guard.name
            found[word] = follow(model, X)
            python = (AdaptiveRegressor if case.has_numbers else AdaptiveClassifier)()
            order = True if word == "told" else "auto"
            found[f"Python, {word}"] = follow(python.fit(job.reference.X, job.reference.y, order=order), X)
    return found


def run_all(part: str, streams: Sequence[str], references: Sequence[int]) -> None:
    """Run what is not kept yet of a part: "fixed" or "adapted"."""
    known = {_key(row) for row in _rows(part)}
    for n, has_numbers, name in product(references, (False, True), streams):
        if (name, n, has_numbers) in known or (has_numbers and name not in NUMBER_STREAMS):
            continue
        case = Case.read(name, n, has_numbers=has_numbers)
        if case is not None:
            found = {"stream": name, "reference": n, "has_numbers": has_numbers}
            found |= run_fixed(case) if part == "fixed" else run_adapted(case)
            keep_part(NAME, part, [*_rows(part), found])
            print(found, flush=True)


def _rows(part: str) -> list[Row]:
    return kept(NAME).get(part, []) if (RESULTS / f"{NAME}.json").exists() else []


def _key(row: Row) -> tuple[str, int, bool]:
    return row["stream"], row["reference"], row["has_numbers"]


# --- tables -----------------------------------------------------------------------------------------------------


def table() -> str:
    """Return how far the default is above the best of the three, and what adaptation adds."""
    headings = ("predicted", "rows", "runs", "above the best", "adapted runs", *HARMS)
    return markdown(headings, _lines())


def _lines() -> Iterator[tuple[object, ...]]:
    for has_numbers, n in product((False, True), REFERENCES):
        fixed, adapted = (
            {row["stream"]: row for row in _rows(part) if _key(row)[1:] == (n, has_numbers)} for part in PARTS
        )
        if not fixed:
            continue
        best = {name: min(row[each] for each in FIXED) for name, row in fixed.items()}
        scale = {name: 100.0 / best[name] if has_numbers else 100.0 for name in fixed}
        above = [scale[name] * (row["default"] - best[name]) for name, row in fixed.items()]
        harms = [[scale[name] * row[each] for name, row in adapted.items()] for each in HARMS]
        what = "numbers, %" if has_numbers else "classes, points"
        yield what, f"{n:,}", len(fixed), _mean_and_worst(above), len(adapted), *map(_mean_and_worst, harms)


def _mean_and_worst(values: list[float]) -> str:
    return f"{np.mean(values):+.2f} ({max(values):+.2f})" if values else ""


def main() -> None:
    """Run if wanted, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="*", choices=list(STREAMS), metavar="STREAM", help="run these streams, or all")
    parser.add_argument("--references", nargs="*", type=int, default=list(REFERENCES))
    options = parser.parse_args()
    if options.run is not None:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            for part in PARTS:
                run_all(part, options.run or list(STREAMS), options.references)
    fill("defaults.md", {NAME: table()})


if __name__ == "__main__":
    main()
