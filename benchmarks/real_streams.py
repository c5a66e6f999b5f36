"""Fixed, adapted and estimated errors on real streams in order of time, and how far the claims about them are true.

``python -m benchmarks.real_streams`` replays every stream of ``ACCOUS_DATA/streams`` with classes, and three tables of
``ACCOUS_DATA``, with references of 300, 1,000 and 4,000 rows from the start and batches of 10. It looks every 500 rows
and compares what the model says with the labels of 500 rows either side. Constants were chosen on the streams marked
"chosen"; the others were only used to check them. Every run is kept in a file, and a second call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict, dataclass
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from accous import AdaptiveClassifier, backtest
from accous.threads import one_blas_thread
from benchmarks.real_stream_scores import print_scores
from benchmarks.real_stream_tables import STREAMS, prepare, read_stream

__all__ = ["Run", "main", "play"]

ROWS_BETWEEN_LOOKS = 500
ESTIMATORS = {"built-in": None, "bayes": GaussianNB(), "tree": DecisionTreeClassifier(max_depth=4, random_state=0)}


@dataclass(frozen=True)
class Run:
    """One stream, one size of the reference and one size of the batches."""

    stream: str
    n_reference: int
    batch_size: int
    is_ordered: bool = True
    caution: str = "normal"
    estimator: str = "built-in"

    @property
    def name(self) -> str:
        """Name of the file that keeps the results."""
        order = "ordered" if self.is_ordered else "unordered"
        own = "" if self.estimator == "built-in" else f"-{self.estimator}"
        return f"{self.stream}-{self.n_reference}-{self.batch_size}-{order}-{self.caution}{own}.json"


def play(run: Run, most_rows: int = 12_000) -> dict[str, Any] | None:
    """Play a stream: predict each batch, then learn from it; None if it is too short or starts with one class."""
    rows, y = read_stream(run.stream, most_rows)
    n = run.n_reference
    if len(y) < n + 2 * ROWS_BETWEEN_LOOKS or len(np.unique(y[:n])) < 2:
        return None
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        model = AdaptiveClassifier(ESTIMATORS[run.estimator], caution=run.caution, standardize=False)
        X = prepare(rows[:n])(rows)
        model.fit(X[:n], y[:n], order=backtest(model, rows[:n], y[:n], prepare=prepare) if run.is_ordered else None)
        is_wrong = {
            "fixed": model.predict_fixed(X) != y,
            "used": np.zeros(len(y), bool),
            "adapted": np.zeros(len(y), bool),
        }
        looks, next_look = [], n + ROWS_BETWEEN_LOOKS
        for start in range(n, len(y), run.batch_size):
            batch = slice(start, min(start + run.batch_size, len(y)))
            is_wrong["used"][batch] = model.predict(X[batch]) != y[batch]
            is_wrong["adapted"][batch] = model.state_.estimator.predict(X[batch]) != y[batch]
            model.adapt(X[batch])
            if batch.stop >= next_look:
                looks.append(_look(model, batch.stop))
                next_look += ROWS_BETWEEN_LOOKS
    for look in looks:
        _add_truth(look, is_wrong, n)
    errors = {name: float(wrong[n:].mean()) for name, wrong in is_wrong.items()}
    found = None if model.backtest_ is None else model.backtest_.summary()
    return {**asdict(run), "guard": model.rules_.guard.name, "backtest": found, "errors": errors, "looks": looks}


def _look(model: AdaptiveClassifier, row: int) -> dict[str, Any]:
    risk, trust, sampling = model.risk_, model.trust_, model.sampling_risk()
    return {
        "row": row,
        "estimate": risk.adapted,
        "low": risk.adapted_low,
        "high": risk.adapted_high,
        "sampling_low": sampling.adapted_low,
        "sampling_high": sampling.adapted_high,
        "inputs": trust.inputs.answer,
        "adaptation": trust.adaptation.answer,
        "predictions": trust.predictions.answer,
        "verdict": trust.verdict,
    }


def _add_truth(look: dict[str, Any], is_wrong: dict[str, Any], n_reference: int) -> None:
    """Add the errors on the rows around a look."""
    around = slice(max(n_reference, look["row"] - ROWS_BETWEEN_LOOKS), look["row"] + ROWS_BETWEEN_LOOKS)
    look |= {name: float(wrong[around].mean()) for name, wrong in is_wrong.items()}


def _play_and_keep(job: tuple[Run, Path]) -> str:
    run, folder = job
    path = folder / run.name
    if not path.exists():
        path.write_text(json.dumps(play(run)))
    return path.name


def main() -> None:
    """Play what is not there yet, and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/real_streams"))
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--references", nargs="*", type=int, default=[300, 1_000, 4_000])
    parser.add_argument("--batches", nargs="*", type=int, default=[10])
    parser.add_argument("--caution", default="normal")
    parser.add_argument("--unordered", action="store_true", help="Do not say that the reference is in order of time.")
    parser.add_argument("--estimator", choices=list(ESTIMATORS), default="built-in")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    runs = [
        Run(stream, n_reference, batch_size, not options.unordered, options.caution, options.estimator)
        for batch_size in options.batches
        for n_reference in options.references
        for stream in options.streams
    ]
    with Pool(options.jobs) as pool:
        for number, name in enumerate(pool.imap_unordered(_play_and_keep, [(run, options.folder) for run in runs]), 1):
            print(f"\r{number} of {len(runs)}: {name:60}", end="", flush=True)
    print()
    print_scores([json.loads((options.folder / run.name).read_text()) for run in runs])


if __name__ == "__main__":
    main()
