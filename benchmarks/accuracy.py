"""Accuracy on the reconstructed Gaussian streams: the second part of ``make bench``.

For every shift: the mean |r_hat - r*| over the reference, the exact risk of the classifier, and the share of the gap
between FIX (never adapts) and the oracle (weighted with the true ratio) that is closed. One default configuration for
all, without the fallback, which ``benchmarks.trust`` measures. Both are scored before the round is learned from.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.erm import LogisticErm
from accous.ratio.blas import one_blas_thread
from accous.streams import BernoulliShift, GaussianStream, LinearShift, SineShift, SquareShift
from benchmarks.record import write_results

SHIFTS = {"Lin": LinearShift(), "Squ": SquareShift(), "Sin": SineShift(), "Ber": BernoulliShift()}
RATIOS = {"FIX": NoShift, "single learner": SingleLearnerRatio, "accous": OnlineDensityRatio}
CONTENDERS = (*RATIOS, "oracle")
BATCH_SIZES = (1, 5)
ROUNDS_BETWEEN_SCORES = 5


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds of each stream (default 10000)")
    parser.add_argument("--seeds", type=int, default=5, help="streams per shift (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    arguments = parser.parse_args()
    console = Console()
    cases = list(itertools.product(CONTENDERS, SHIFTS, BATCH_SIZES, range(arguments.seeds)))
    jobs = Parallel(n_jobs=arguments.jobs, return_as="generator")(
        delayed(score)(*case, arguments.rounds) for case in cases
    )
    scores = dict(zip(cases, track(jobs, "accuracy", total=len(cases), console=console), strict=True))
    rows = list(summarise(scores, arguments.seeds))
    for batch_size in BATCH_SIZES:
        console.print(accuracy_table(rows, batch_size, f"{arguments.rounds} rounds, {arguments.seeds} seeds"))
    console.print(f"Written to {write_results('accuracy', rows)}")


def score(contender: str, shift: str, batch_size: int, seed: int, n_rounds: int) -> tuple[float, float]:
    """Mean exact risk and mean |r_hat - r*| of one contender on one stream."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=n_rounds, batch_size=batch_size, random_state=seed)
    run = run_oracle(stream) if contender == "oracle" else run_model(stream, RATIOS[contender]())
    risks, errors = zip(*run, strict=True)
    return float(np.mean(risks)), float(np.mean(errors))


def run_model(stream: GaussianStream, ratio: Any) -> Iterator[tuple[float, float]]:
    """Risk and ratio error of an adaptive classifier, in every scored round."""
    X, y = stream.reference()
    model = AdaptiveClassifier(ratio=ratio, fallback="none").fit(X, y)
    for batch in stream:
        if batch.round % ROUNDS_BETWEEN_SCORES == 0:
            error = np.abs(model.ratio_.reference_ratio_ - stream.true_ratio(X, batch.alpha)).mean()
            yield stream.risk(model.estimator_, batch.alpha), float(error)
        model.adapt(batch.X)


def run_oracle(stream: GaussianStream) -> Iterator[tuple[float, float]]:
    """The same for weights by the true ratio."""
    X, y = stream.reference()
    erm = LogisticErm(X, y, np.array([0, 1]), 1.0)
    predictor = None
    with one_blas_thread():
        for alpha in stream.alphas[ROUNDS_BETWEEN_SCORES - 1 :: ROUNDS_BETWEEN_SCORES].tolist():
            ratio = stream.true_ratio(X, alpha)
            predictor = erm.fit(ratio / ratio.mean(), predictor)
            yield stream.risk(predictor, alpha), 0.0


def summarise(scores: dict[tuple[str, str, int, int], tuple[float, float]], n_seeds: int) -> Iterator[dict[str, Any]]:
    """Means and standard errors over seeds."""
    for batch_size, contender, shift in itertools.product(BATCH_SIZES, CONTENDERS, SHIFTS):
        of = {name: np.array([scores[name, shift, batch_size, seed] for seed in range(n_seeds)]) for name in CONTENDERS}
        fix, oracle, mine = of["FIX"][:, 0].mean(), of["oracle"][:, 0].mean(), of[contender]
        spread = mine.std(axis=0, ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else np.zeros(2)
        yield {
            "batch_size": batch_size,
            "contender": contender,
            "shift": shift,
            "risk": float(mine[:, 0].mean()),
            "risk_standard_error": float(spread[0]),
            "gap_closed": float((fix - mine[:, 0].mean()) / (fix - oracle)),
            "ratio_error": float(mine[:, 1].mean()),
            "ratio_error_standard_error": float(spread[1]),
        }


def accuracy_table(rows: list[dict[str, Any]], batch_size: int, setting: str) -> Table:
    """One line per contender: risk in %, share of the gap closed, error of the ratio."""
    table = Table(title=f"Batches of {batch_size}: error in % ± standard error (gap closed, %) |r_hat - r*|; {setting}")
    table.add_column("contender")
    for shift in SHIFTS:
        table.add_column(shift, justify="right")
    for contender in CONTENDERS:
        cells = [
            f"{100 * row['risk']:.2f} ± {100 * row['risk_standard_error']:.2f} ({100 * row['gap_closed']:.0f}) "
            f"{row['ratio_error']:.3f}"
            for row in rows
            if row["batch_size"] == batch_size and row["contender"] == contender
        ]
        table.add_row(contender, *cells)
    return table


if __name__ == "__main__":
    main()
