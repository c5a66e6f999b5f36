"""What ``refit="auto"`` costs and saves with a foreign estimator, on the reconstructed Gaussian streams.

It measures how far the exact risk of ``"auto"`` is above that of ``"always"``, and the share of rounds with a refit.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.streams import BernoulliShift, GaussianStream, LinearShift, SineShift, SquareShift
from benchmarks.pages import keep, markdown

SHIFTS = {"Lin": LinearShift(), "Squ": SquareShift(), "Sin": SineShift(), "Ber": BernoulliShift()}


def run_policy(batch_size: int, shift: str, policy: str, n_rounds: int) -> tuple[float, float]:
    """Return the mean exact risk before each round, and the refits per round."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=n_rounds, batch_size=batch_size)
    estimator = LogisticRegression(solver="newton-cholesky")
    model = AdaptiveClassifier(estimator, refit=policy, standardize=False, adaptation="always").fit(*stream.reference())
    risks = []
    for batch in stream:
        risks.append(stream.risk(model.estimator_, batch.alpha))
        model.adapt(batch.X)
    return float(np.mean(risks)), model.n_refits_ / n_rounds


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds of each stream (default 10000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args()
    cases = list(itertools.product((1, 5), SHIFTS))
    policies = itertools.product(cases, ("always", "auto"))
    found = Parallel(n_jobs=options.jobs)(delayed(run_policy)(*case, each, options.rounds) for case, each in policies)
    rows = [
        {
            "batch_size": batch_size,
            "shift": shift,
            "risk_always": always,
            "risk_auto": auto,
            "points_lost": 100.0 * (auto - always),
            "share_refitted": share,
        }
        for (batch_size, shift), (always, _), (auto, share) in zip(cases, found[::2], found[1::2], strict=True)
    ]
    forms = ("{}", "{}", "{:.2%}", "{:.2%}", "{:+.3f}", "{:.0%}")
    lines = [[form.format(value) for form, value in zip(forms, row.values(), strict=True)] for row in rows]
    print(markdown(("batch rows", "shift", "error, always", "error, auto", "points lost", "rounds refitted"), lines))
    keep("refits", rows)


if __name__ == "__main__":
    main()
