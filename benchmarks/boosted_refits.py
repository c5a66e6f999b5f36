"""What cheaper refits of boosted trees keep of the gain of full ones, and what each costs.

``python -m benchmarks.boosted_refits`` plays the paper's Gaussian streams with the weights that accous estimates, and
refits the predictor of ``--estimator boosting`` every 12 rounds in four ways: anew, anew with early stopping, anew from
the middle tree on (a warm start: the first half keeps its splits and gets new leaf values), and leaf values alone. All
see the same weights and are scored on the same rows, the next 12 batches. It writes
``benchmarks/results/boosted_refits.json``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from copy import copy
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.model.predictors import RevaluedTrees
from accous.model.safeguards import FIRST_STRENGTH, shrink
from accous.streams import GaussianStream, LinearShift, SineShift, SquareShift
from accous.table.model import make_estimator
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from benchmarks.record import write_results

__all__ = ["main", "play"]

SHIFTS = {"Lin": LinearShift(), "Squ": SquareShift(period=60), "Sin": SineShift(period=60)}
WAYS = ("fixed", "anew", "stopped early", "half anew", "leaves")
ROUNDS_BETWEEN_REFITS = 12


def play(shift: str, seed: int, n_rounds: int = 240, batch_size: int = 50) -> dict[str, tuple[float, float]]:
    """Return the error and the seconds per refit of each way."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=n_rounds, batch_size=batch_size, random_state=seed)
    X, y = stream.reference()
    labels = np.asarray(np.unique(y, return_inverse=True)[1])
    base = np.ones(len(y))
    with one_blas_thread(), one_openmp_thread_if_few(len(y)):
        weigher = AdaptiveClassifier().fit(X, y)
        trees = make_estimator("boosting", kind="classifier", seed=0, blocks=())[-1]
        fixed = copy(trees).fit(X, y)
        leaves = RevaluedTrees(fixed, X, labels)
        now: dict[str, Any] = dict.fromkeys(WAYS, fixed)
        n_wrong, seconds, n_refits = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0.0), 0
        for number, batch in enumerate(stream, 1):
            for way in WAYS:
                n_wrong[way] += int((now[way].predict(batch.X) != batch.y).sum())
            weigher.adapt(batch.X)
            if number % ROUNDS_BETWEEN_REFITS == 0:
                weights, n_refits = shrink(weigher.reference_weight_, base, FIRST_STRENGTH), n_refits + 1
                for way in WAYS[1:]:
                    start = time.process_time()
                    now[way] = _refit(way, trees, leaves, (X, y, weights))
                    seconds[way] += time.process_time() - start
    return {way: (n_wrong[way] / (n_rounds * batch_size), seconds[way] / n_refits) for way in WAYS}


def _refit(way: str, trees: Any, leaves: RevaluedTrees, data: tuple[Any, Any, Any]) -> Any:
    X, y, weights = data
    if way == "anew":
        return copy(trees).fit(X, y, sample_weight=weights)
    if way == "stopped early":
        return copy(trees).set_params(early_stopping=True).fit(X, y, sample_weight=weights)
    revalued = leaves.revalued(weights)
    if way == "leaves":
        return revalued
    revalued._predictors = revalued._predictors[: len(revalued._predictors) // 2]
    return revalued.set_params(warm_start=True).fit(X, y, sample_weight=weights)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shifts", nargs="*", default=list(SHIFTS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[70, 71, 72])
    parser.add_argument("--rounds", type=int, default=240)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':8}" + "".join(f"{way:>14}" for way in WAYS) + f"{'share kept by leaves':>24}")
    totals, rows = [], []
    for shift in options.shifts:
        for seed in options.seeds:
            found = play(shift, seed, options.rounds)
            totals.append(found)
            rows.append({"shift": shift, "seed": seed, "rounds": options.rounds, **_as_record(found)})
            errors = {way: 100.0 * error for way, (error, _) in found.items()}
            gain, of_leaves = errors["fixed"] - errors["anew"], errors["fixed"] - errors["leaves"]
            kept = f"{of_leaves / gain:.0%}" if gain > 0.0 else "nothing to keep"
            print(f"{shift} {seed:4}" + "".join(f"{errors[way]:14.2f}" for way in WAYS) + f"{kept:>24}", flush=True)
    means = {way: np.mean([each[way] for each in totals], axis=0) for way in WAYS}
    print("mean    " + "".join(f"{100.0 * means[way][0]:14.2f}" for way in WAYS))
    print("seconds " + "".join(f"{means[way][1]:14.4f}" for way in WAYS))
    print(write_results("boosted_refits", rows))


def _as_record(found: dict[str, tuple[float, float]]) -> dict[str, Any]:
    return {way: {"error": error, "seconds": seconds} for way, (error, seconds) in found.items()}


if __name__ == "__main__":
    main()
