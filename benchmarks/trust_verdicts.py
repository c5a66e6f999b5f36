"""The verdicts beside the truth: how often the adapted model is worse than the fixed one, by evidence and verdict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from benchmarks.problems import SHIFTS

__all__ = ["DISTANCES", "SHIFT_NAMES", "SIZES", "away_row", "measure_verdicts", "verdict_rows"]

SIZES = (100, 200, 300, 500, 1000, 2000)
SHIFT_NAMES = ("Lin", "Squ", "Sin")
ERROR_BINS = (0.0, 0.02, 0.04, 0.06, 0.08, 0.12, np.inf)
N_ROUNDS = 300
LOOKS = (120, 160, 200, 240, 280)
DISTANCES = (0.0, 0.5, 1.0, 2.0, 4.0)


WORDS = ("not verified", "thin", "no overlap")


def measure_verdicts(shift: str, n_reference: int, seed: int) -> list[tuple[str, float, float, float]]:
    """Return verdict, standard error of "adapted minus fixed", effective rows and true difference at a few rounds.

    The veto is off, so that the harm it would prevent is visible.
    """
    stream = GaussianStream(SHIFTS[shift], n_rounds=N_ROUNDS, n_reference=n_reference, random_state=seed)
    model = AdaptiveClassifier(standardize=False, fallback="none").fit(*stream.reference())
    found = []
    with one_blas_thread():
        for batch in stream:
            if batch.round in LOOKS:
                trust = model.trust_
                risks = [stream.risk(one, batch.alpha) for one in (model.estimator_, model.fixed_.estimator)]
                error = trust.excess_standard_error
                found.append((trust.verdict, error, trust.effective_sample_size, risks[0] - risks[1]))
            model.adapt(batch.X)
    return found


def verdict_rows(found: list[tuple[str, float, float, float]]) -> Iterator[dict[str, Any]]:
    """Yield the harm by standard error and by verdict."""
    errors, excess = np.array([one[1] for one in found]), np.array([one[3] for one in found])
    rows_left = np.array([one[2] for one in found])
    for low, high in pairwise(ERROR_BINS):
        is_in = (errors > low) & (errors <= high)
        yield _harm(f"standard error {100 * low:g} to {100 * high:g} points", excess[is_in], rows_left[is_in])
    for verdict in WORDS:
        is_in = np.array([_word(one[0]) == verdict for one in found])
        yield _harm(f'verdict "{verdict}"', excess[is_in], rows_left[is_in])


def _word(verdict: str) -> str:
    """Return the verdict, or "not verified" for those that do not come from the weights or the inputs."""
    return verdict if verdict in WORDS else "not verified"


def _harm(name: str, excess: Any, rows_left: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"group": name, "n": len(excess)}
    if len(excess):
        row |= {
            "mean_excess": 100.0 * float(excess.mean()),
            "share_worse": float(np.mean(excess > 0.0)),
            "share_worse_by_2_points": float(np.mean(excess > 0.02)),
            "median_effective_rows": float(np.median(rows_left)),
        }
    return row


def away_row(distance: float, n_references: int) -> dict[str, Any]:
    """Return verdicts after 100 rounds of rows that are ``distance`` away from the reference in every column."""
    verdicts = []
    for seed in range(n_references):
        stream = GaussianStream(SHIFTS["none"], n_rounds=100, n_reference=500, random_state=seed)
        model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        for batch in stream:
            model.adapt(batch.X + distance)
        verdicts.append(model.trust_.verdict)
    words = [_word(verdict) for verdict in verdicts]
    shares = {name: words.count(name) / n_references for name in WORDS}
    return {"distance": distance, "n_references": n_references, **shares}
